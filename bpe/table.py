"""A hash table of short pieces that is asked in whole arrays: many pieces in, their numbers out.

A piece of up to 15 bytes fits in 16 together with its length. These 16 bytes, read as two integers, are its *key*:
equal keys are equal pieces, so nothing is ever taken for something else.

By hand: " the" is 20 74 68 65. Read as little-endian integers, with the length 4 in the last byte of the second,
its key is (0x65687420, 0x0400000000000000).
"""
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SHORT = 15  # bytes of the longest piece that has a key

Keys = npt.NDArray[np.uint64]  # (N, 2)
Indices = npt.NDArray[np.intp]

# What stays of 16 bytes, for a piece of each length; nothing for those that are too long.
_KEEP = np.array([*((((1 << 8 * n) - 1) & (2**64 - 1), (1 << 8 * n) - 1 >> 64) for n in range(16)), (0, 0)], np.uint64)
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)  # odd, their bits without a pattern


class Pieces(NamedTuple):
    """Pieces as they stand in some bytes (see `padded`): where each begins in them and how long it is."""

    data: npt.NDArray[np.uint8]
    starts: Indices  # (N,)
    lengths: Indices  # (N,)

    def take(self, which: Indices) -> "Pieces":
        """Some of the pieces."""
        return Pieces(self.data, self.starts[which], self.lengths[which])

    def bytes_at(self, which: Indices) -> list[bytes]:
        """The bytes of some of the pieces."""
        if len(which) == 0:
            return []
        data = self.data.tobytes()
        starts = self.starts[which]
        ends = starts + self.lengths[which]
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist())]


def joined(pieces: Collection[bytes]) -> Pieces:
    """Pieces from their bytes."""
    lengths = np.fromiter(map(len, pieces), np.intp, len(pieces))
    return Pieces(padded(b"".join(pieces)), np.cumsum(lengths) - lengths, lengths)


def packed(pieces: Pieces) -> Pieces:
    """The same pieces, one after another in bytes of their own.

    >>> packed(Pieces(padded(b"one two"), np.array([4, 0]), np.array([3, 1]))).data.tobytes().rstrip(b"\\0")
    b'twoo'
    """
    ends = np.cumsum(pieces.lengths)
    starts = ends - pieces.lengths
    size = int(pieces.lengths.sum())
    data = np.zeros(size + 16, np.uint8)
    data[:size] = pieces.data.take(np.repeat(pieces.starts - starts, pieces.lengths) + np.arange(size))
    return Pieces(data, starts, pieces.lengths)


def padded(data: bytes) -> npt.NDArray[np.uint8]:
    """`data` as an array with 16 zero bytes after it, so that 16 bytes can be read from each place in it."""
    return np.frombuffer(data + bytes(16), np.uint8)


def piece_keys(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.integer], lengths: npt.NDArray[np.integer]
) -> Keys:
    """The keys of the pieces that begin at `starts` in `data` (see `padded`); (N,) and (N,) in, (N, 2) out.

    Pieces longer than 15 bytes get a key that no piece has.

    >>> [[hex(half) for half in key] for key in piece_keys(padded(b"in the"), np.array([2]), np.array([4])).tolist()]
    [['0x65687420', '0x400000000000000']]
    """
    sixteen = np.ndarray(len(data) - 15, "V16", data, strides=(1,))  # the 16 bytes from each place, overlapping
    keys = sixteen[starts].view("<u8").reshape(-1, 2)
    lengths = np.minimum(lengths, SHORT + 1)
    keys &= _KEEP.take(lengths, axis=0)
    keys[:, 1] |= lengths.astype(np.uint64) << np.uint64(56)
    return keys


def of_keys(keys: Keys) -> Pieces:
    """The pieces that have these keys.

    >>> of_keys(piece_keys(padded(b"one two"), np.array([4]), np.array([3]))).bytes_at(np.array([0]))
    [b'two']
    """
    return Pieces(padded(keys.tobytes()), np.arange(len(keys)) * 16, (keys[:, 1] >> np.uint64(56)).astype(np.intp))


class PieceTable:
    """The numbers of pieces: from 1 to `capacity`, and given by whoever adds a piece.

    0 stands for a piece that is not there. Finding needs no lock: what is added is written before it can be found.
    Adding from several threads does. Pieces without a key, over 15 bytes, are few: those are in a dict.

    >>> pieces = joined([b"one", b"longer than fifteen"])
    >>> table = PieceTable(capacity=100)
    >>> table.find(pieces).tolist()
    [0, 0]
    >>> table.add(pieces, np.array([5, 6]))
    >>> table.find(pieces).tolist()
    [5, 6]
    """

    def __init__(self, capacity: int) -> None:
        bits = max(4, (2 * capacity).bit_length())  # at most half full, so that a search is short
        self._shift = np.uint64(64 - bits)
        self._slots = np.zeros(1 << bits, np.int32)  # the number of the piece there, 0 where there is none
        self._low, self._high = np.zeros((2, capacity + 1), np.uint64)  # the key of each number
        self._long: dict[bytes, int] = {}

    def find(self, pieces: Pieces) -> Indices:
        """The number of each piece, 0 for those that are not there; (N,)."""
        numbers = self.find_keys(piece_keys(*pieces))
        long = np.flatnonzero(pieces.lengths > SHORT)
        numbers[long] = [self._long.get(piece, 0) for piece in pieces.bytes_at(long)]
        return numbers

    def add(self, pieces: Pieces, numbers: Indices) -> None:
        """Give pieces their numbers, (N,); see `add_keys`."""
        short = pieces.lengths <= SHORT
        self.add_keys(piece_keys(*pieces)[short], numbers[short])
        self._long.update(zip(pieces.bytes_at(np.flatnonzero(~short)), numbers[~short].tolist()))

    def find_keys(self, keys: Keys) -> Indices:
        """The number of each piece from its key, (N, 2) in, (N,) out."""
        low, high = keys[:, 0], keys[:, 1]
        slots = self._hash(keys)
        numbers = self._slots.take(slots, mode="clip").astype(np.intp)  # here and below: in range, so spare the check
        wrong = self._low.take(numbers, mode="clip") != low
        wrong |= self._high.take(numbers, mode="clip") != high
        wrong &= numbers != 0
        search = np.flatnonzero(wrong)
        while len(search):  # a slot that another piece has: the next one
            slots[search] = (slots[search] + 1) & (len(self._slots) - 1)
            found = self._slots[slots[search]]
            numbers[search] = found
            search = search[(found != 0) & ((self._low[found] != low[search]) | (self._high[found] != high[search]))]
        return numbers

    def add_keys(self, keys: Keys, numbers: Indices) -> None:
        """Give pieces their numbers, (N, 2) and (N,). Of equal ones, or one that is there already, one is found."""
        self._low[numbers] = keys[:, 0]
        self._high[numbers] = keys[:, 1]
        slots = self._hash(keys)
        while len(numbers):
            free = self._slots.take(slots) == 0
            self._slots[slots[free]] = numbers[free]  # of several that want the same slot, one gets it
            there = self._slots.take(slots)
            homeless = np.flatnonzero((self._low[there] != keys[:, 0]) | (self._high[there] != keys[:, 1]))
            keys, numbers, slots = keys[homeless], numbers[homeless], (slots[homeless] + 1) & (len(self._slots) - 1)

    def _hash(self, keys: Keys) -> npt.NDArray[np.intp]:
        mixed = keys[:, 0] * _MIX[0]
        mixed += keys[:, 1] * _MIX[1]
        mixed >>= self._shift  # the highest bits, which all lower ones had a part in
        return mixed.view(np.intp)


def distinct(keys: Keys) -> Keys:
    """Each of the keys once, in no particular order; (N, 2) in, (M, 2) out.

    >>> keys = piece_keys(padded(b"one one two"), np.array([0, 4, 8]), np.array([3, 3, 3]))
    >>> len(distinct(keys))
    2
    """
    numbers = np.arange(1, len(keys) + 1)
    table = PieceTable(len(keys))
    table.add_keys(keys, numbers)
    return keys[table.find_keys(keys) == numbers]
