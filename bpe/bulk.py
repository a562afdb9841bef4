"""The same ids for long text, in whole-array steps.

A text has many pieces and few different ones, so a piece is merged once and then known by its number (table.py):

    block -> where pieces begin (split.piece_starts) -> their keys -> their numbers -> the ids of each number, in place

Pieces not known yet are merged together, a step of each at a time (merge_many.py). `Encoding` asks for the ids of a
block when a text is long, and of many texts at once; the ids are those of `merge.merge`.
"""
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from bpe.classes import STAND_IN_ARRAY
from bpe.merge import merge
from bpe.merge_many import WIDEST, Tokens, merge_many
from bpe.sharing import Record
from bpe.split import BETWEEN_TEXTS, blocks, piece_starts, repair_surrogates
from bpe.table import SHORT, Indices, Pieces, PieceTable, distinct, joined, of_keys, packed, padded, piece_keys

KNOWN = 1 << 19  # pieces kept beside the tokens, at most, and
KNOWN_IDS = 8 * KNOWN  # their ids, about; beyond that all but the tokens are forgotten
WIDTHS = (8, 16, 32, WIDEST)  # bytes: unknown pieces up to each are merged together, longer ones alone;
MERGED = 1 << 13  # so many at once, at most
BLOCK = 1 << 18  # characters: what is made of a block stays in the processor's cache
TOGETHER = 16  # blocks whose unknown pieces are merged together, at most

Ids = npt.NDArray[np.uint32]


def cut(block: str) -> Pieces:
    """The pieces of a text, by GPT-2's pattern; surrogates are repaired first (split.repair_surrogates).

    >>> pieces = cut("naïve café!")
    >>> pieces.starts.tolist(), pieces.lengths.tolist()
    ([0, 6, 12], [6, 6, 1])
    """
    return cut_texts(block, [])[0]


def cut_texts(block: str, between: Sequence[int]) -> tuple[Pieces, Indices]:
    r"""As `cut`, of several texts: at the places `between` stand characters that belong to none of them.

    Each of these is a piece, and which ones they are is the second result.

    >>> pieces, which = cut_texts("one\n two", [3])
    >>> pieces.starts.tolist(), which.tolist()
    ([0, 3, 4], [1])
    """
    try:
        text = block.encode()
    except UnicodeEncodeError:
        return cut_texts(*_repaired(block, between))
    data = padded(text)
    if len(text) == len(block):
        stand_ins = data[: len(text)]
    else:
        stand_ins = STAND_IN_ARRAY.take(np.frombuffer(block.encode("utf-32-le"), np.uint32))
    if between:
        stand_ins = stand_ins.copy()
        stand_ins[between] = BETWEEN_TEXTS
    starts = piece_starts(stand_ins)
    which = np.searchsorted(starts, between)
    if len(text) != len(block):  # from characters to bytes: 10xxxxxx stands inside of a character
        starts = np.flatnonzero(data[: len(text)].view(np.int8) >= -64).take(starts)
    return Pieces(data, starts, np.diff(starts, append=len(text))), which


def _repaired(block: str, between: Sequence[int]) -> tuple[str, list[int]]:
    begins, ends = [0, *(place + 1 for place in between)], [*between, len(block)]
    texts = [repair_surrogates(block[begin:end]) for begin, end in zip(begins, ends)]
    return "\n".join(texts), [end - 1 for end in itertools.accumulate(len(text) + 1 for text in texts[:-1])]


def blocks_of_texts(texts: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
    """Many texts as blocks for `cut`: a newline after each text, and the places of those newlines.

    >>> list(blocks_of_texts(["one", "", "two"]))
    [('one\\n\\ntwo\\n', [3, 4, 8])]
    """
    some: list[str] = []
    between: list[int] = []
    size = 0
    for text in texts:
        if len(text) > BLOCK:  # what was collected, then all of the text but its end
            *whole, text = blocks(text, BLOCK)
            yield "".join(some), between
            yield from ((block, []) for block in whole)
            some, between, size = [], [], 0
        some += text, "\n"
        size += len(text) + 1
        between.append(size - 1)
        if size >= BLOCK:
            yield "".join(some), between
            some, between, size = [], [], 0
    yield "".join(some), between


class _Known:
    """The pieces met so far, by number: the tokens first, then what was merged since."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.capacity = len(tokens.ids) + KNOWN
        self.size = self.used = 0
        self.table = PieceTable(self.capacity)
        self.ids = np.zeros(4 * self.capacity, np.uint32)  # the ids of all pieces, one piece after another:
        self.counts = np.zeros(self.capacity + 1, np.intp)  # how many each has, and
        self.places = np.zeros(self.capacity + 1, np.intp)  # where they begin
        self.add(tokens.pieces, tokens.ids, np.ones(len(tokens.ids), np.intp))

    def all_ids(self, numbers: Indices) -> tuple[Ids, Indices]:
        """The ids of the pieces with these numbers, and where those of each end; (N,) in, (T,) and (N,) out."""
        counts = self.counts.take(numbers, mode="clip")  # in range as they are, so spare the check
        ends = np.cumsum(counts)
        # Id t is, in its piece, the one at t - (where the ids of the piece begin among all).
        shift = np.repeat(self.places.take(numbers, mode="clip") - (ends - counts), counts)
        shift += np.arange(len(shift))
        return self.ids.take(shift, mode="clip"), ends

    def merged(self, pieces: Pieces) -> Iterator[tuple[Pieces, Ids, Indices]]:
        """The pieces, merged: some at a time, with their ids, one piece after another, and how many each has."""
        order = np.argsort(pieces.lengths, kind="stable")
        lengths = pieces.lengths[order]
        begin = 0
        for width in WIDTHS:
            end = int(np.searchsorted(lengths, width, side="right"))
            for first in range(begin, end, MERGED):
                some = packed(pieces.take(order[first : min(first + MERGED, end)]))
                yield some, *merge_many(self.tokens, some)
            begin = end
        alone = pieces.take(order[begin:])
        each = [merge(piece, self.tokens.ranks) for piece in alone.bytes_at(np.arange(len(alone.starts)))]
        ids = np.fromiter(itertools.chain.from_iterable(each), np.uint32)
        yield alone, ids, np.fromiter(map(len, each), np.intp)

    def has_room(self, pieces: int) -> bool:
        return self.size + pieces <= self.capacity

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
        self.table.add(pieces, numbers)  # from here on other threads find them


class BulkEncoder:
    """Encodes text with GPT-2's pattern and the tokens `ranks`, which must have every single byte.

    >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258}
    >>> bulk = BulkEncoder(ranks)
    >>> [ids.tolist() for ids in bulk.encode("abcbc ab")]
    [[258, 257, 32, 256]]
    """

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        self._tokens = Tokens(ranks)
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Know the tokens alone again."""
        self._known = _Known(self._tokens)
        self._record: Record | None = None

    def share(self, lock: AbstractContextManager[Any]) -> None:
        """Let processes that are forked from now on merge a piece once for all of them. `lock`: of multiprocessing.

        It ends for a process when it has no room for more, and forgets.
        """
        self._record = Record(lock, KNOWN, KNOWN_IDS)

    def encode(self, text: str) -> Iterator[Ids]:
        """The ids of a text, array by array."""
        # With few blocks at first: who asks for the first ids of a text may not want the rest.
        return (ids for ids, _ in self._encode(((block, []) for block in blocks(text, BLOCK)), together=1))

    def encode_texts(self, texts: Iterable[str]) -> Iterator[tuple[Ids, Indices]]:
        """The ids of many texts, array by array, with an id of no meaning after each text; and the places of those.

        >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256}
        >>> [(ids.tolist(), ends.tolist()) for ids, ends in BulkEncoder(ranks).encode_texts(["ab", "", "ab ab"])]
        [([256, 10, 10, 256, 32, 256, 10], [1, 2, 6])]
        """
        return self._encode(blocks_of_texts(texts), TOGETHER)

    def _encode(self, remaining: Iterator[tuple[str, list[int]]], together: int) -> Iterator[tuple[Ids, Indices]]:
        while some := list(itertools.islice(remaining, together)):
            cuts = []
            for block, between in some:
                (data, starts, lengths), marks = cut_texts(block, between)
                for i in range(0, len(starts), KNOWN):
                    here = marks[(marks >= i) & (marks < i + KNOWN)] - i
                    cuts.append((Pieces(data, starts[i : i + KNOWN], lengths[i : i + KNOWN]), here))
            yield from self._encode_cuts(cuts)
            if self._known.used > KNOWN_IDS:
                self.forget()
            together = min(2 * together, TOGETHER)

    def _encode_cuts(self, cuts: list[tuple[Pieces, Indices]]) -> Iterator[tuple[Ids, Indices]]:
        if record := self._record:
            with self._lock, record.lock:
                if not self._read_news(self._known, record):
                    self.forget()
        known, size = self._known, self._known.size
        numbers = [known.table.find(pieces) for pieces, _ in cuts]
        unknown = [np.flatnonzero(n == 0) for n in numbers]
        new = [pieces.take(which) for (pieces, _), which in zip(cuts, unknown) if len(which)]
        if new and not self._learn(known, new):
            self.forget()
            if size > len(self._tokens.ids):
                yield from self._encode_cuts(cuts)
            else:  # too many for an empty table
                yield from self._encode_cuts(cuts[: len(cuts) // 2])
                yield from self._encode_cuts(cuts[len(cuts) // 2 :])
            return
        for (pieces, marks), n, which in zip(cuts, numbers, unknown):
            if len(which):
                n[which] = known.table.find(pieces.take(which))
            ids, ends = known.all_ids(n)
            yield ids, ends[marks] - 1

    def _learn(self, known: _Known, pieces: list[Pieces]) -> bool:
        """Merge pieces that are not known, the same piece perhaps often; False if there is no room for them."""
        short = distinct(np.concatenate([piece_keys(*some)[some.lengths <= SHORT] for some in pieces]))
        long = {piece for some in pieces for piece in some.bytes_at(np.flatnonzero(some.lengths > SHORT))}
        with self._lock:
            for different in of_keys(short), joined(long):
                unknown = different.take(np.flatnonzero(known.table.find(different) == 0))
                if not all(self._add(known, *merged) for merged in known.merged(unknown)):
                    return False
            return True

    def _add(self, known: _Known, pieces: Pieces, ids: Ids, counts: Indices) -> bool:
        """Know merged pieces, and record them if there is a record; False if there is no room for them."""
        if record := self._record:
            with record.lock:
                if not self._read_news(known, record):
                    return False
                new = known.table.find(pieces) == 0  # another process may have been quicker
                pieces, ids, counts = pieces.take(np.flatnonzero(new)), ids[np.repeat(new, counts)], counts[new]
                record.write(pieces, ids, counts)
        if not known.has_room(len(counts)):
            return False
        known.add(pieces, ids, counts)
        return True

    def _read_news(self, known: _Known, record: Record) -> bool:
        """Know what other processes have recorded; False if there is no room for it. With the record's lock held."""
        pieces, ids, counts = record.news()
        if not known.has_room(len(counts)):
            return False
        known.add(pieces, ids, counts)
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
