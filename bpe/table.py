"""Hash tables of pieces that are asked in whole arrays: many pieces in, their numbers out.

A piece of up to 15 bytes fits in 16 together with its length. These 16 bytes, read as two integers, are its *key*:
equal keys are equal pieces, so nothing is ever taken for something else. A piece of up to 31 bytes has one of 32, and
one of up to 127 bytes one of 128. A longer one is known by a hash (`digests`).

By hand: " the" is 20 74 68 65. Read as little-endian integers, with the length 4 in the last byte of the second,
its key is (0x65687420, 0x0400000000000000).
"""
import hashlib
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

SHORT, MIDDLE, LONG = 15, 31, 127  # bytes of the longest piece that has a key of 16 bytes, of 32, of 128
SLOTS = 2  # for each key, at least: a table is at most half full, so that a search is short; and
ROOM = 8  # where much is looked for that is not there: the search for it ends at an empty slot
DIGEST = 32  # bytes of a hash
PADDING = 128  # zero bytes after those of pieces, so that a key can be read wherever one begins

Keys = npt.NDArray[np.uint64]  # (N, 2), or (N, 4), or (N, 16)
Indices = npt.NDArray[np.intp]
Zeros = Callable[[int, Any], npt.NDArray[Any]]  # size and dtype to an array of zeros


def _keep(size: int) -> npt.NDArray[np.uint64]:
    """What stays of `size` bytes, for a piece of each length; nothing for those that are too long."""
    masks = [b"\xff" * length + bytes(size - length) for length in range(size)] + [bytes(size)]
    return np.frombuffer(b"".join(masks), "<u8").reshape(-1, size // 8)


_KEEP = {size: _keep(size) for size in (SHORT + 1, MIDDLE + 1, LONG + 1)}
_MIX = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F]  # odd, without a pattern;
_MIX += [pow(odd, power, 1 << 64) for power in (3, 5, 7) for odd in _MIX]  # and more for keys of 128 bytes


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
    data = np.zeros(size + PADDING, np.uint8)
    data[:size] = pieces.data.take(np.repeat(pieces.starts - starts, pieces.lengths) + np.arange(size))
    return Pieces(data, starts, pieces.lengths)


def padded(data: bytes) -> npt.NDArray[np.uint8]:
    """`data` as an array, with PADDING after it."""
    return np.frombuffer(data + bytes(PADDING), np.uint8)


def piece_keys(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.integer],
    lengths: npt.NDArray[np.integer],
    size: int = SHORT + 1,
) -> Keys:
    """The keys of the pieces that begin at `starts` in `data` (see `padded`); (N,) and (N,) in, (N, size / 8) out.

    size: of a key in bytes: 16, 32 or 128. Pieces that do not fit get a key that no piece has.

    >>> [[hex(half) for half in key] for key in piece_keys(padded(b"in the"), np.array([2]), np.array([4])).tolist()]
    [['0x65687420', '0x400000000000000']]
    """
    from_each = np.ndarray(len(data) - size + 1, f"V{size}", data, strides=(1,))  # overlapping
    keys = from_each[starts].view("<u8").reshape(-1, size // 8)
    lengths = np.minimum(lengths, size)
    keys &= _KEEP[size].take(lengths, axis=0)
    keys[:, -1] |= lengths.astype(np.uint64) << np.uint64(56)
    return keys


def of_keys(keys: Keys) -> Pieces:
    """The pieces that have these keys.

    >>> of_keys(piece_keys(padded(b"one two"), np.array([4]), np.array([3]))).bytes_at(np.array([0]))
    [b'two']
    """
    starts = np.arange(len(keys)) * keys.itemsize * keys.shape[1]
    return Pieces(padded(keys.tobytes()), starts, (keys[:, -1] >> np.uint64(56)).astype(np.intp))


def digests(pieces: Pieces) -> Keys:
    """Keys for pieces of any length, their BLAKE2b hashes: nobody knows two pieces that share one; (N, 4).

    >>> digests(joined([b"one", b"two" * 100])).shape
    (2, 4)
    """
    each = pieces.bytes_at(np.arange(len(pieces.starts)))
    hashes = b"".join(hashlib.blake2b(piece, digest_size=DIGEST).digest() for piece in each)
    return np.frombuffer(hashes, "<u8").reshape(-1, DIGEST // 8)


class KeyTable:
    """The numbers of keys of `size` bytes, 16, 32 or 128: from 1 to `capacity`, and given by whoever adds a key.

    0 stands for a key that is not there. Adding needs a lock. Finding needs none: what is added is written before it
    can be found, in the order in which this process writes (another may see it in another order: see bulk.py).

    zeros: makes the arrays. slots_per_key: how many there are, at least.

    >>> keys = piece_keys(padded(b"one two"), np.array([0, 4]), np.array([3, 3]))
    >>> table = KeyTable(capacity=100, size=16)
    >>> table.add(keys[:1], np.array([5]))
    >>> table.find(keys).tolist()
    [5, 0]
    """

    def __init__(self, capacity: int, size: int, zeros: Zeros = np.zeros, slots_per_key: int = SLOTS) -> None:
        bits = max(4, (slots_per_key * capacity).bit_length())
        self._shift = np.uint64(64 - bits)
        self._slots = zeros(1 << bits, np.int32)  # the number of the key there, 0 where there is none
        self._keys = [zeros(capacity + 1, np.uint64) for _ in range(size // 8)]  # the parts of the key of each number

    def find(self, keys: Keys) -> Indices:
        """The number of each key, 0 for those that are not there; (N, size / 8) in, (N,) out."""
        slots = self._hash(keys)
        numbers = self._slots.take(slots, mode="clip").astype(np.intp)  # here and below: in range, so spare the check
        wrong = self._differ(keys, numbers)
        wrong &= numbers != 0
        search = np.flatnonzero(wrong)
        while len(search):  # a slot that another key has: the next one
            slots[search] = (slots[search] + 1) & (len(self._slots) - 1)
            found = self._slots[slots[search]].astype(np.intp)
            numbers[search] = found
            search = search[(found != 0) & self._differ(keys[search], found)]
        return numbers

    def add(self, keys: Keys, numbers: Indices) -> None:
        """Give keys their numbers, (N, size / 8) and (N,). Of equal keys one is found."""
        for own, part in zip(self._keys, keys.T):
            own[numbers] = part
        slots = self._hash(keys)
        while len(numbers):
            free = self._slots.take(slots) == 0
            self._slots[slots[free]] = numbers[free]  # of several that want the same slot, one gets it
            homeless = np.flatnonzero(self._differ(keys, self._slots.take(slots)))
            keys, numbers, slots = keys[homeless], numbers[homeless], (slots[homeless] + 1) & (len(self._slots) - 1)

    def _differ(self, keys: Keys, numbers: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.bool_]:
        """Which keys are not those of the numbers."""
        differ = self._keys[0].take(numbers, mode="clip") != keys[:, 0]
        for own, part in zip(self._keys[1:], keys.T[1:]):
            differ |= own.take(numbers, mode="clip") != part
        return differ

    def _hash(self, keys: Keys) -> npt.NDArray[np.intp]:
        mixed = keys[:, 0] * np.uint64(_MIX[0])
        for part, odd in zip(keys.T[1:], _MIX[1:]):
            mixed += part * np.uint64(odd)
        mixed >>= self._shift  # the highest bits, which all lower ones had a part in
        return mixed.view(np.intp)


class PieceTable:
    """The numbers of pieces, as KeyTable those of keys.

    Pieces of up to 15 bytes are found by their key. So are longer ones while there is room: the first `middles` of up
    to 31 bytes, the first `longs` of up to 127 for which that had none, and the first `longest` of those that are
    longer. What is left is in a dict; where the arrays are in memory that processes share, the dict is not.

    >>> pieces = joined([b"one", b"longer than fifteen"])
    >>> table = PieceTable(capacity=100)
    >>> table.find(pieces).tolist()
    [0, 0]
    >>> table.add(pieces, np.array([5, 6]))
    >>> table.find(pieces).tolist()
    [5, 6]
    """

    def __init__(
        self,
        capacity: int,
        middles: int = 0,
        longs: int = 0,
        longest: int = 0,
        zeros: Zeros = np.zeros,
        slots_per_key: int = SLOTS,
    ) -> None:
        self._shorts = KeyTable(capacity, SHORT + 1, zeros, slots_per_key)
        kinds = ((_LongerTable, middles, MIDDLE + 1), (_LongerTable, longs, LONG + 1), (_LongestTable, longest, DIGEST))
        self._longer = [kind(capacity, size, zeros, slots_per_key) for kind, capacity, size in kinds if capacity]
        self._rest: dict[bytes, int] = {}

    def find(self, pieces: Pieces) -> Indices:
        """The number of each piece, 0 for those that are not there; (N,)."""
        numbers = self._shorts.find(piece_keys(*pieces))
        left = np.flatnonzero(pieces.lengths > SHORT)
        for table in self._longer:
            if len(left) == 0:
                return numbers
            takes = table.takes(pieces.lengths[left])
            some = left[takes]
            numbers[some] = table.find(pieces.take(some))
            left = left[(numbers[left] == 0) & (table.is_full | ~takes)]  # the others are nowhere else
        numbers[left] = [self._rest.get(piece, 0) for piece in pieces.bytes_at(left)]
        return numbers

    def add(self, pieces: Pieces, numbers: Indices) -> None:
        """Give pieces, which are different and not there, their numbers, (N,)."""
        some = np.flatnonzero(pieces.lengths <= SHORT)
        self._shorts.add(piece_keys(*pieces.take(some)), numbers[some])
        left = np.flatnonzero(pieces.lengths > SHORT)
        for table in self._longer:
            left = left[~table.add(pieces.take(left), numbers[left])]
        self._rest.update(zip(pieces.bytes_at(left), numbers[left].tolist()))


class _LongerTable:
    """The numbers of up to `capacity` pieces of less than `size` bytes, 32 or 128.

    The first that is added is 1 in a KeyTable, the next 2, and so on, so that this is no larger than `capacity`.
    """

    def __init__(self, capacity: int, size: int, zeros: Zeros, slots_per_key: int) -> None:
        self.size = size
        self._keys = KeyTable(capacity, size, zeros, slots_per_key)
        self._numbers = zeros(capacity + 1, np.intp)  # of the first, the second, ...
        self._count = zeros(1, np.intp)

    @property
    def is_full(self) -> bool:
        return int(self._count[0]) == len(self._numbers) - 1

    def takes(self, lengths: Indices) -> npt.NDArray[np.bool_]:
        """Which pieces, of these lengths, may be here while there is room; (N,)."""
        return lengths < self.size

    def keys(self, pieces: Pieces) -> Keys:
        return piece_keys(*pieces, self.size)

    def find(self, pieces: Pieces) -> Indices:
        """The number of each piece, 0 for those that are not here; (N,)."""
        return self._numbers.take(self._keys.find(self.keys(pieces)))

    def add(self, pieces: Pieces, numbers: Indices) -> npt.NDArray[np.bool_]:
        """Give those that there is room for their numbers, (N,); which they are, (N,)."""
        begin = int(self._count[0]) + 1
        some = np.flatnonzero(self.takes(pieces.lengths))[: len(self._numbers) - begin]
        self._numbers[begin : begin + len(some)] = numbers[some]  # before the keys, by which others find them
        self._keys.add(self.keys(pieces.take(some)), np.arange(begin, begin + len(some)))
        self._count += len(some)
        added = np.zeros(len(numbers), bool)
        added[some] = True
        return added


class _LongestTable(_LongerTable):
    """As _LongerTable, of pieces of more than 127 bytes, by their hashes."""

    def takes(self, lengths: Indices) -> npt.NDArray[np.bool_]:
        return lengths > LONG

    def keys(self, pieces: Pieces) -> Keys:
        return digests(pieces)


def distinct(keys: Keys) -> Keys:
    """Each of the keys once, in no particular order; (N, K) in, (M, K) out.

    >>> keys = piece_keys(padded(b"one one two"), np.array([0, 4, 8]), np.array([3, 3, 3]))
    >>> len(distinct(keys))
    2
    """
    numbers = np.arange(1, len(keys) + 1)
    table = KeyTable(len(keys), 8 * keys.shape[1])
    table.add(keys, numbers)
    return keys[table.find(keys) == numbers]
