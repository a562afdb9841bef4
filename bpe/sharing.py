"""A record of merged pieces that forked processes keep together, so that each piece is merged once for all of them.

    one process                    the record, in memory that all share              another process
    merges " wug", " wugs"  ->     " wug wugs", lengths 4 5, their ids        ->     has them in its own table as well

Each process keeps its own table of known pieces: the record is only ever added to, read in order, and with a lock held.
"""
import mmap
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt

from bpe.table import Indices, Pieces, packed

BYTES = 16  # of a piece, on the average, for which there is room


class Record:
    """Room for so many pieces and so many ids of theirs. When some do not fit it is full for good, and each process
    merges what comes after for itself.

    `lock` is one of multiprocessing.
    """

    def __init__(self, lock: AbstractContextManager[Any], pieces: int, ids: int) -> None:
        self.lock = lock
        self._data = _shared(BYTES * (pieces + 1), np.uint8)  # the bytes of the pieces, one after another,
        self._lengths = _shared(pieces, np.intp)  # how many of them each has, and
        self._counts = _shared(pieces, np.intp)  # how many ids
        self._ids = _shared(ids, np.uint32)
        self._is_full = _shared(1, np.bool_)
        self._sizes = _shared(3, np.intp)  # how many bytes, pieces and ids are recorded, and
        self._read = [0, 0, 0]  # how many of them this process has read, or written

    def news(self) -> tuple[Pieces, npt.NDArray[np.uint32], Indices]:
        """What others have written since this process last asked: pieces, their ids, how many of these each has."""
        (byte, piece, id), self._read = self._read, self._sizes.tolist()
        last_byte, last_piece, last_id = self._read
        lengths = self._lengths[piece:last_piece]
        pieces = Pieces(self._data[byte : last_byte + 16], np.cumsum(lengths) - lengths, lengths)
        return pieces, self._ids[id:last_id], self._counts[piece:last_piece]

    def write(self, pieces: Pieces, ids: npt.NDArray[np.uint32], counts: Indices) -> None:
        """Record pieces that are not recorded: for who has read the news, and holds the lock since then."""
        data = packed(pieces).data[:-16]
        byte, piece, id = self._read
        last = [byte + len(data), piece + len(counts), id + len(ids)]
        fits = last[0] + 16 <= len(self._data) and last[1] <= len(self._counts) and last[2] <= len(self._ids)
        self._is_full[0] |= not fits
        if not self._is_full[0]:
            self._data[byte : last[0]] = data
            self._lengths[piece : last[1]], self._counts[piece : last[1]] = pieces.lengths, counts
            self._ids[id : last[2]] = ids
            self._sizes[:] = self._read = last


def _shared(size: int, dtype: Any) -> npt.NDArray[Any]:
    """Zeros. What is written there is seen by this process, the processes that are forked from it later, and theirs."""
    return np.frombuffer(mmap.mmap(-1, size * np.dtype(dtype).itemsize), dtype)
