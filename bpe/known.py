"""The pieces met so far and their ids, by number; and how new ones get theirs: merged, some at a time.

They may be in memory that forked processes share, so that each piece is merged once for all of them.
"""
import contextlib
import itertools
import mmap
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from bpe.merge import merge
from bpe.merge_many import WIDEST, Tokens, merge_many
from bpe.table import MIDDLE, SHORT, Indices, Pieces, PieceTable, packed

KNOWN = 1 << 19  # pieces kept beside the tokens, at most, and
KNOWN_IDS = 8 * KNOWN  # their ids, about; beyond that all but the tokens are forgotten
# Bytes: unknown pieces up to each are merged together, longer ones alone. They come as those up to SHORT, up to MIDDLE,
# and longer (see BulkEncoder._learn): a width of 16 would be for those of exactly 16, a few dozen that take as long as
# thousands.
WIDTHS = (8, SHORT, MIDDLE, WIDEST)
MERGED = 1 << 13  # so many at once, at most

Ids = npt.NDArray[np.uint32]


class Known:
    """The pieces met so far, by number: the tokens first, then what was merged since.

    lock: of multiprocessing, for processes that are forked from now on to share what any of them learns (while there
    is room in arrays, see PieceTable). Without it the pieces are this process's own.
    """

    def __init__(self, tokens: Tokens, lock: AbstractContextManager[Any] | None = None) -> None:
        self.tokens = tokens
        self.lock = lock or threading.Lock()  # held by who adds
        zeros = shared_zeros if lock else np.zeros
        self.can_grow = not lock  # an array that forks share cannot be replaced
        self.most = KNOWN  # beside the tokens
        self.capacity = len(tokens.ids) + self.most
        self._size = zeros(1, np.intp)  # how many pieces there are
        # Of the new pieces of a text about one in 10 has 16 to 31 bytes, one in 70 has 32 to 127, and few have more.
        self.table = PieceTable(self.capacity, self.most // 8, self.most // 16, self.most // 64, zeros)
        self.ids = zeros(len(tokens.ids) + KNOWN_IDS, np.uint32)  # the ids of all pieces, one piece after another:
        self.begins = zeros(self.capacity + 2, np.intp)  # where those of each begin, and end: where the next one's do
        self.add(tokens.pieces, tokens.ids, np.ones(len(tokens.ids), np.intp))

    @property
    def size(self) -> int:
        return int(self._size[0])

    @property
    def used(self) -> int:
        """How many ids the pieces have together."""
        return int(self.begins[self.size + 1])

    @property
    def is_full(self) -> bool:
        return self.used > KNOWN_IDS

    def all_ids(self, numbers: Indices) -> tuple[Ids, Indices]:
        """The ids of the pieces with these numbers, and where those of each end; (N,) in, (T,) and (N,) out."""
        stops = self.begins[1:].take(numbers, mode="clip")  # in range as they are, so spare the check
        counts = stops - self.begins.take(numbers, mode="clip")
        ends = np.cumsum(counts)
        # Id t stands as far before the end of its piece in `ids` as it does here.
        shift = np.repeat(stops - ends, counts)
        shift += np.arange(len(shift))
        return self.ids.take(shift, mode="clip"), ends

    def merged(self, pieces: Pieces) -> tuple[Ids, Indices]:
        """The ids of the pieces, one piece after another, and how many each has."""
        if pieces.lengths.max(initial=0) <= WIDEST:
            return merge_many(self.tokens, pieces)
        each = [merge(piece, self.tokens.ranks) for piece in pieces.bytes_at(np.arange(len(pieces.starts)))]
        ids = np.fromiter(itertools.chain.from_iterable(each), np.uint32)
        return ids, np.fromiter(map(len, each), np.intp)

    def add(self, pieces: Pieces, ids: Ids, counts: Indices) -> bool:
        """Give new pieces the next numbers; each has `counts` of the `ids`, which stand in the pieces' order.

        False if there is no room for them. With the lock held.
        """
        size, used = self.size, self.used
        if size + len(counts) > self.capacity:
            return False
        if used + len(ids) > len(self.ids):
            if not self.can_grow:
                return False
            self.ids = np.concatenate([self.ids, np.zeros(len(self.ids) + len(ids), np.uint32)])
        first, end = size + 1, size + 1 + len(counts)
        self.ids[used : used + len(ids)] = ids
        self.begins[first + 1 : end + 1] = used + np.cumsum(counts)
        self.table.add(pieces, np.arange(first, end))
        self._size += len(counts)  # from here on others count on them
        return True


def portions(pieces: Pieces) -> Iterator[Pieces]:
    """Pieces, some at a time: those of about the same length, as many as are merged together."""
    order = np.argsort(pieces.lengths, kind="stable")
    lengths = pieces.lengths[order]
    begin = 0
    for width in (*WIDTHS, None):
        end = int(np.searchsorted(lengths, width, side="right")) if width else len(lengths)
        for first in range(begin, end, MERGED):
            yield packed(pieces.take(order[first : min(first + MERGED, end)]))
        begin = end


def shared_zeros(size: int, dtype: Any) -> npt.NDArray[Any]:
    """As np.zeros; what is written there is seen by this process, those that are forked from it later, and theirs."""
    memory = mmap.mmap(-1, size * np.dtype(dtype).itemsize)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # it is only quicker, and a kernel may not have it
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype)
