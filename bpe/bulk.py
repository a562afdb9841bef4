"""The same ids for long text, in whole-array steps.

A text has many pieces and few different ones, so a piece is merged once and then known by its number (table.py):

    block -> where pieces begin (split.piece_starts) -> their keys -> their numbers -> the ids of each number, in place

Pieces not known yet are merged together, a step of each at a time. `Encoding` asks for the ids of a block when a text
is long; the ids are those of `merge.merge`.
"""
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bpe.classes import STAND_IN_ARRAY
from bpe.merge import NO_TOKEN, merge
from bpe.split import piece_starts
from bpe.table import SHORT, PieceTable, padded, piece_keys

KNOWN = 1 << 19  # pieces kept beside the tokens, at most, and
KNOWN_IDS = 8 * KNOWN  # their ids, about; beyond that all but the tokens are forgotten
WIDTHS = (8, 16, 32, 64)  # bytes: unknown pieces up to each are merged together, longer ones alone;
MERGED = 1 << 14  # so many at once, at most

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.uint32]
Indices = npt.NDArray[np.intp]


class Pieces(NamedTuple):
    """The pieces of a block: its bytes in UTF-8 (see `table.padded`), where each begins in them and how long it is."""

    data: Bytes
    starts: Indices  # (N,)
    lengths: Indices  # (N,)

    def bytes_at(self, which: Indices) -> list[bytes]:
        """The bytes of some of the pieces."""
        if len(which) == 0:
            return []
        data = self.data.tobytes()
        starts = self.starts[which]
        ends = starts + self.lengths[which]
        return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist())]


def cut(block: str) -> Pieces:
    """The pieces of a text, by GPT-2's pattern; UnicodeEncodeError when it has surrogates.

    >>> pieces = cut("naïve café!")
    >>> pieces.starts.tolist(), pieces.lengths.tolist()
    ([0, 6, 12], [6, 6, 1])
    """
    text = block.encode()
    data = padded(text)
    if len(text) == len(block):
        starts = piece_starts(data[: len(text)])
    else:
        codes = np.frombuffer(block.encode("utf-32-le"), np.uint32)
        beyond = (codes >= 0x80).view(np.uint8) + (codes >= 0x800) + (codes >= 0x10000)  # bytes after the first
        starts = piece_starts(STAND_IN_ARRAY.take(codes))
        starts[1:] += np.cumsum(beyond, dtype=np.int32).take(starts[1:] - 1, mode="clip")
    return Pieces(data, starts, np.diff(starts, append=len(text)))


def joined(pieces: Collection[bytes]) -> Pieces:
    """Pieces from their bytes."""
    lengths = np.fromiter(map(len, pieces), np.intp, len(pieces))
    return Pieces(padded(b"".join(pieces)), np.cumsum(lengths) - lengths, lengths)


class _Known:
    """The pieces met so far, by number: the tokens first, each its own id, then what was merged since."""

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        self.capacity = len(ranks) + KNOWN
        self.size = self.used = 0
        self.table = PieceTable(self.capacity)
        self.long: dict[bytes, int] = {}  # the numbers of the pieces that are too long for the table
        self.ids = np.zeros(4 * self.capacity, np.uint32)  # the ids of all pieces, one piece after another:
        self.counts = np.zeros(self.capacity + 1, np.intp)  # how many each has, and
        self.places = np.zeros(self.capacity + 1, np.intp)  # where they begin
        self.add(joined(ranks), np.fromiter(ranks.values(), np.uint32), np.ones(len(ranks), np.intp))
        self.tokens = self.size

    def find(self, pieces: Pieces) -> npt.NDArray[np.int32]:
        """The number of each piece, 0 for those not known; (N,) int32."""
        numbers = self.table.find(piece_keys(*pieces))
        long = np.flatnonzero(pieces.lengths > SHORT)
        numbers[long] = [self.long.get(piece, 0) for piece in pieces.bytes_at(long)]
        return numbers

    def ranks(self, pieces: Pieces) -> npt.NDArray[np.int64]:
        """The rank of each piece, NO_TOKEN for those that are no token; (N,)."""
        numbers = self.find(pieces)
        is_token = (numbers > 0) & (numbers <= self.tokens)
        ranks = self.ids.take(self.places.take(numbers)).astype(np.int64)
        ranks[~is_token] = NO_TOKEN
        return ranks

    def all_ids(self, numbers: npt.NDArray[np.int32]) -> Ids:
        """The ids of the pieces with these numbers, one piece after another; (N,) in, (T,) out."""
        counts = self.counts.take(numbers, mode="clip")  # in range as they are, so spare the check
        ends = np.cumsum(counts)
        # Id t is, in its piece, the one at t - (where the ids of the piece begin among all).
        shift = np.repeat(self.places.take(numbers, mode="clip") - (ends - counts), counts)
        return self.ids.take(shift + np.arange(len(shift)), mode="clip")

    def add(self, pieces: Pieces, ids: Ids, counts: Indices) -> None:
        """Give new pieces the next numbers; each has `counts` of the `ids`, which stand in the pieces' order."""
        numbers = np.arange(self.size + 1, self.size + 1 + len(counts))
        if self.used + len(ids) > len(self.ids):
            self.ids = np.concatenate([self.ids, np.zeros(len(self.ids) + len(ids), np.uint32)])
        self.ids[self.used : self.used + len(ids)] = ids
        self.counts[numbers] = counts
        self.places[numbers] = self.used + np.cumsum(counts) - counts
        self.size += len(counts)
        self.used += len(ids)
        short = pieces.lengths <= SHORT  # from here on other threads find them
        self.table.add(piece_keys(*pieces)[short], numbers[short])
        self.long.update(zip(pieces.bytes_at(np.flatnonzero(~short)), numbers[~short].tolist()))


class BulkEncoder:
    """Encodes blocks of text with GPT-2's pattern and the tokens `ranks`, which must have every single byte.

    >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258}
    >>> [ids.tolist() for ids in BulkEncoder(ranks).encode(["abcbc", " ab"])]
    [[258, 257], [32, 256]]
    """

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        self._ranks = ranks
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Know the tokens alone again."""
        self._known = _Known(self._ranks)

    def encode(self, blocks: Sequence[str]) -> list[Ids]:
        """The ids of blocks of text, an array or more for each, in order. UnicodeEncodeError for surrogates.

        What is new in several blocks is merged in one go, so first sight is quicker for several at once.
        """
        cuts = [
            Pieces(data, starts[i : i + KNOWN], lengths[i : i + KNOWN])
            for data, starts, lengths in map(cut, blocks)
            for i in range(0, len(starts), KNOWN)
        ]
        ids = self._encode(cuts)
        if self._known.used > KNOWN_IDS:
            self.forget()
        return ids

    def _encode(self, cuts: list[Pieces]) -> list[Ids]:
        known = self._known
        numbers = [known.find(pieces) for pieces in cuts]
        missing = [np.flatnonzero(n == 0) for n in numbers]
        new = {piece for pieces, which in zip(cuts, missing) for piece in pieces.bytes_at(which)}
        if new:
            if not self._learn(known, new):  # no room: forget the old, or when these alone are too many, go by halves
                if len(new) <= KNOWN:
                    self.forget()
                    return self._encode(cuts)
                return self._encode(cuts[: len(cuts) // 2]) + self._encode(cuts[len(cuts) // 2 :])
            for (data, starts, lengths), which, n in zip(cuts, missing, numbers):
                n[which] = known.find(Pieces(data, starts[which], lengths[which]))
        return [known.all_ids(n) for n in numbers]

    def _learn(self, known: _Known, new: set[bytes]) -> bool:
        """Merge pieces that were not known and keep their ids; False when there is no room for them."""
        with self._lock:
            pieces = sorted(new, key=len)
            found = known.find(joined(pieces)).tolist()  # another thread may have been here meanwhile
            pieces = [piece for piece, number in zip(pieces, found) if not number]
            if known.size + len(pieces) > known.capacity:
                return False
            for width in WIDTHS:
                while group := pieces[: min(bisect_right(pieces, width, key=len), MERGED)]:
                    pieces = pieces[len(group) :]
                    known.add(joined(group), *merge_together(known, joined(group)))
            for piece in pieces:
                ids = np.array(merge(piece, self._ranks), np.uint32)
                known.add(joined([piece]), ids, np.array([len(ids)]))
            return True


def gather(arrays: Iterable[Ids]) -> Ids:
    """One array of all, without ever holding them twice: a buffer that grows in place."""
    buffer, used = np.empty(1 << 12, np.uint32), 0
    for ids in arrays:
        if used + len(ids) > len(buffer):
            grown = len(buffer) + min(len(buffer), 1 << 22)
            buffer.resize(max(grown, used + len(ids)), refcheck=False)
        buffer[used : used + len(ids)] = ids
        used += len(ids)
    buffer.resize(used, refcheck=False)
    return buffer


def merge_together(known: _Known, pieces: Pieces) -> tuple[Ids, Indices]:
    """The ids of many pieces, one after another, and how many each has: `merge.merge`, a merge of each at a time.

    A column is a piece, (W, N) with W the longest piece's length in bytes, at most 64. In row k stand where part k
    begins, and the rank of parts k and k + 1 joined. Rows beyond the last part say that it begins where the piece
    ends, and rank as no token.
    """
    data, starts, lengths = pieces
    width = int(lengths.max())
    row = np.arange(width + 1)[:, None]
    begins = starts + np.minimum(np.arange(width + 2)[:, None], lengths)
    ends = starts + lengths

    def pair_ranks(begins: Indices, middles: Indices, stops: Indices, ends: Indices) -> npt.NDArray[np.int64]:
        return known.ranks(Pieces(data, begins, np.where(middles < ends, stops - begins, 0)))

    ranks = pair_ranks(begins[:-2].ravel(), begins[1:-1].ravel(), begins[2:].ravel(), np.tile(ends, width))
    ranks = np.vstack([ranks.reshape(width, -1), np.full_like(lengths, NO_TOKEN)])
    columns = np.arange(len(starts))  # of the pieces that still have something to merge
    left, their = begins, ends
    while len(columns):
        lowest = ((ranks << 6) | row).min(axis=0)  # of equal ranks, the leftmost
        merging = lowest < NO_TOKEN << 6
        if not merging.all():
            begins[:, columns[~merging]] = left[:, ~merging]
            columns, left, ranks = columns[merging], left[:, merging], ranks[:, merging]
            lowest, their = lowest[merging], their[merging]
        k = lowest & 63
        left[:-1] = np.where(row > k, left[1:], left[:-1])
        ranks[:-1] = np.where(row[:-1] > k, ranks[1:], ranks[:-1])
        two = np.concatenate([k, np.maximum(k - 1, 0)])  # the two pairs that the new part is in
        each = np.tile(np.arange(len(columns)), 2)
        ranks[two, each] = pair_ranks(left[two, each], left[two + 1, each], left[two + 2, each], np.tile(their, 2))
    is_part = (begins[:-1] < ends).T
    counts = is_part.sum(axis=1)
    parts, after = begins[:-1].T[is_part], begins[1:].T[is_part]
    return known.ranks(Pieces(data, parts, after - parts)).astype(np.uint32), counts
