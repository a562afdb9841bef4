"""The same ids for long text, in whole-array steps.

A text has many pieces and few different ones, so a piece is merged once and then known by its number (known.py):

    block -> where pieces begin (split.piece_starts) -> their keys -> their numbers -> the ids of each number, in place

`Encoding` asks for the ids of a block when a text is long, and of many texts at once: the ids of `merge.merge`.
"""
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from bpe.classes import STAND_IN_ARRAY
from bpe.known import Ids, Known, portions
from bpe.merge_many import Tokens
from bpe.split import BETWEEN_TEXTS, blocks, piece_starts, repair_surrogates
from bpe.table import MIDDLE, SHORT, Indices, Pieces, distinct, joined, of_keys, padded, piece_keys

BLOCK = 1 << 18  # characters: what is made of a block stays in the processor's cache
TOGETHER = 16  # blocks of many texts whose unknown pieces are merged together, at most, and
TOGETHER_OF_ONE = 8  # of one text, which goes through in less memory so


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


class BulkEncoder:
    """Encodes text with GPT-2's pattern and the tokens `ranks`, which must have every single byte.

    lock: of multiprocessing, to let processes that are forked from now on share what any of them learns. When
    there is no room for more, a process forgets all but the tokens, and shares no longer.

    >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258}
    >>> bulk = BulkEncoder(ranks)
    >>> [ids.tolist() for ids in bulk.encode("abcbc ab")]
    [[258, 257, 32, 256]]
    """

    def __init__(self, ranks: Mapping[bytes, int], lock: AbstractContextManager[Any] | None = None) -> None:
        self._tokens = Tokens(ranks)
        self._known = Known(self._tokens, lock)

    def forget(self) -> None:
        """Know the tokens alone again."""
        self._known = Known(self._tokens)

    def encode(self, text: str) -> Iterator[Ids]:
        """The ids of a text, array by array."""
        # With few blocks at first: who asks for the first ids of a text may not want the rest.
        parts: Iterator[tuple[str, list[int]]] = ((block, []) for block in blocks(text, BLOCK))
        return (ids for ids, _ in self._encode(parts, together=1, most=TOGETHER_OF_ONE))

    def encode_texts(self, texts: Iterable[str]) -> Iterator[tuple[Ids, Indices]]:
        """The ids of many texts, array by array, with an id of no meaning after each text; and the places of those.

        >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256}
        >>> [(ids.tolist(), ends.tolist()) for ids, ends in BulkEncoder(ranks).encode_texts(["ab", "", "ab ab"])]
        [([256, 10, 10, 256, 32, 256, 10], [1, 2, 6])]
        """
        return self._encode(blocks_of_texts(texts), together=TOGETHER, most=TOGETHER)

    def _encode(
        self, remaining: Iterator[tuple[str, list[int]]], together: int, most: int
    ) -> Iterator[tuple[Ids, Indices]]:
        while some := list(itertools.islice(remaining, together)):
            cuts, room = [], self._known.most
            for block, between in some:
                (data, starts, lengths), marks = cut_texts(block, between)
                for i in range(0, len(starts), room):
                    here = marks[(marks >= i) & (marks < i + room)] - i
                    cuts.append((Pieces(data, starts[i : i + room], lengths[i : i + room]), here))
            yield from self._encode_cuts(cuts)
            if self._known.is_full:
                self.forget()
            together = min(2 * together, most)

    def _encode_cuts(self, cuts: list[tuple[Pieces, Indices]]) -> Iterator[tuple[Ids, Indices]]:
        known = self._known
        with known.lock:
            size = known.size  # what others add from now on is not sure to be seen whole until the lock is ours again
        numbers = [known.table.find(pieces) for pieces, _ in cuts]
        unknown = [np.flatnonzero((n == 0) | (n > size)) for n in numbers]
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
                n[which] = known.table.find(pieces.take(which))  # each whole: we had the lock since
            ids, ends = known.all_ids(n)
            yield ids, ends[marks] - 1

    def _learn(self, known: Known, pieces: list[Pieces]) -> bool:
        """Merge pieces that are not known, the same piece perhaps often; False if there is no room for them."""
        short = distinct(np.concatenate([piece_keys(*some)[some.lengths <= SHORT] for some in pieces]))
        longer = [some.take(np.flatnonzero(some.lengths > SHORT)) for some in pieces]
        middle = distinct(np.concatenate([piece_keys(*some, MIDDLE + 1)[some.lengths <= MIDDLE] for some in longer]))
        long = {piece for some in longer for piece in some.bytes_at(np.flatnonzero(some.lengths > MIDDLE))}
        for different in of_keys(short), of_keys(middle), joined(long):
            for some in portions(different):
                size = known.size
                some = some.take(np.flatnonzero(known.table.find(some) == 0))  # not learned by another meanwhile
                ids, counts = known.merged(some)
                with known.lock:
                    if known.size > size:  # another thread or process was quicker, perhaps with the same pieces
                        new = known.table.find(some) == 0
                        some, ids, counts = some.take(np.flatnonzero(new)), ids[np.repeat(new, counts)], counts[new]
                    if not known.add(some, ids, counts):
                        return False
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
