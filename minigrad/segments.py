"""rows.add_rows and RowSparse.coalesce for many rows, in whole-array steps: the same sums, to the last bit.

The ids are sorted, so that the rows of one id (a *run*) are named side by side; runs are taken longest first, some
at a time, into a buffer that stays in the processor's cache:

    ids      7 3 7 5 3 7          run of 7: rows 0 2 5      buffer   row 0 | row 1 | row 3     the first of each run
    runs     7 7 7 | 3 3 | 5      run of 3: rows 1 4                 + 2   | + 4   |           the second, if any
                                  run of 5: row  3                   + 5   |       |           the third

Each row given is read once, each row of the result written once, and a sum is taken in the order of the rows, as
np.add.at takes it. In a run of more than ROUNDS rows they are summed by a single call. Blocks are independent, so
threads take them as they come and the result does not depend on how many there are.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import numpy as np

from minigrad.threads import in_parts

ROUNDS = 8  # a run of more rows than this is summed by itself
FEW = 64  # rows that are added one by one
BLOCK = 1 << 18  # bytes of the buffer that sums are made in: it and one more of its size fit a core's cache
SHARED = 1 << 20  # bytes from which a second thread is worth waking


def take(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """table[ids], a copy, for ids (of any shape) that are known to be in range."""
    if ids.size * table.itemsize * table[:1].size < SHARED or table.ndim != 2 or not table.flags.c_contiguous:
        return table.take(ids, axis=0)
    out = np.empty((ids.size, table.shape[1]), table.dtype)
    source, target, flat = _whole_rows(table), _whole_rows(out), ids.reshape(-1)

    def part(start: int, stop: int) -> None:
        source.take(flat[start:stop], 0, target[start:stop], "clip")

    in_parts(part, ids.size, _per(SHARED, out))
    return out.reshape(*ids.shape, table.shape[1])


def coalesce(ids: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each id once, ascending, and the sum of its rows (N, C), taken in their order."""
    order, starts, counts = _runs(ids)
    out = np.empty((len(starts), *rows.shape[1:]), rows.dtype)
    _sum_runs(out, np.arange(len(starts)), rows, order, starts, counts, fresh=True)
    return ids[order[starts]], out


def add_rows(table: np.ndarray, ids: np.ndarray, rows: np.ndarray, fresh: bool = False) -> None:
    """table[ids[n]] += rows[n] for every n in order; fresh: the table is known to be zeros."""
    order, starts, counts = _runs(ids)
    _sum_runs(table, ids[order[starts]], rows, order, starts, counts, fresh)


def _runs(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """order, starts, counts: run u is the rows order[starts[u] : starts[u] + counts[u]], ascending; runs by id."""
    bits = len(ids).bit_length()
    keys = ids.astype(np.int64) << bits  # id and place in one number: any sort of these is a stable sort of the ids
    keys |= np.arange(len(ids))
    keys.sort()
    order = keys & ((1 << bits) - 1)
    starts = np.flatnonzero(np.diff(keys >> bits, prepend=-1))
    return order, starts, np.diff(starts, append=len(ids))


def _sum_runs(table, places, rows, order, starts, counts, fresh: bool) -> None:
    """table[places[u]] += the sum of run u; with `fresh` what the table held does not count."""
    if rows.size == 0:
        return
    if rows.ndim != 2 or rows.shape[1] == 1:  # NumPy sums a single column in another order; add.at is quick there
        if fresh:
            table[places] = 0
        return np.add.at(table, np.repeat(places, counts), rows[order])
    if len(order) <= FEW:
        return _sum_few(table, places, rows, order, starts, counts, fresh)
    rows = np.ascontiguousarray(rows, table.dtype)
    longest = np.argsort(-counts, kind="stable")
    places, starts, counts = places[longest], starts[longest], counts[longest]
    height = max(_per(BLOCK, rows), 2)
    items, whole = _whole_rows(rows), table.flags.c_contiguous
    table_items = _whole_rows(table) if whole else table
    # beyond[r] runs have more than r rows: the first so many, as the longest come first
    beyond = np.searchsorted(-counts, -np.arange(ROUNDS + 1)).tolist()

    def long_run(place: int, start: int, count: int) -> None:
        """One run of many rows: summed a bufferful at a time, what there was before on top."""
        buffer, buffer_items = _buffers(rows, height)[1]
        done, held = 0, 0 if fresh else 1
        while done < count:
            if held:
                buffer[0] = table[place]
            some = min(count - done, height - held)
            items.take(order[start + done : start + done + some], 0, buffer_items[held : held + some], "clip")
            np.add.reduce(buffer[: held + some], axis=0, dtype=rows.dtype, out=table[place])
            done, held = done + some, 1

    def block(first: int, last: int) -> None:
        """Some short runs side by side: the first row of each, then the second of those that have one, ..."""
        (sums, sum_items), (more, more_items) = _buffers(rows, height)
        begin = starts[first:last]
        if fresh:
            items.take(order[begin], 0, sum_items[: last - first], "clip")
        else:
            (sum_items if whole else sums)[: last - first] = table_items[places[first:last]]
        for r in range(fresh, ROUNDS):
            n = min(beyond[r], last) - first
            if n <= 0:
                break
            items.take(order[begin[:n] + r], 0, more_items[:n], "clip")
            np.add(sums[:n], more[:n], out=sums[:n])
        table_items[places[first:last]] = (sum_items if whole else sums)[: last - first]

    def tasks() -> Iterator[tuple[Callable, tuple]]:
        many = beyond[ROUNDS]
        for run in zip(places[:many].tolist(), starts[:many].tolist(), counts[:many].tolist()):
            yield long_run, run
        for first in range(many, len(places), height):
            yield block, (first, min(first + height, len(places)))

    todo = iter(list(tasks()))

    def work(*_: int) -> None:  # whoever is free takes the next
        for task, arguments in todo:
            task(*arguments)

    in_parts(work, len(order), _per(SHARED, rows))


def _sum_few(table, places, rows, order, starts, counts, fresh: bool) -> None:
    """The same, row by row: for so few the blocks above would only be in the way."""
    table[places] = rows[order[starts]] if fresh else table[places] + rows[order[starts]]
    for again in np.flatnonzero(counts > 1).tolist():
        total, start = table[places[again]], starts[again]
        for n in order[start + 1 : start + counts[again]].tolist():
            total += rows[n]


_kept = threading.local()  # the buffers of a thread, kept from call to call: fresh memory is slow to touch


def _buffers(rows: np.ndarray, height: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two buffers of `height` rows, each also seen as whole rows."""
    key = (rows.dtype, rows.shape[1], height)
    if getattr(_kept, "key", None) != key:
        _kept.key, pair = key, [np.empty((height, rows.shape[1]), rows.dtype) for _ in range(2)]
        _kept.pair = [(buffer, _whole_rows(buffer)) for buffer in pair]
    return _kept.pair


def _whole_rows(array: np.ndarray) -> np.ndarray:
    """(N, C) numbers seen as N items, a row each: NumPy moves an item at once, C numbers one by one."""
    return array.view(np.dtype((np.void, array.shape[1] * array.itemsize)))[:, 0]


def _per(size: int, rows: np.ndarray) -> int:
    """How many rows make up `size` bytes."""
    return max(1, size // (rows.shape[1] * rows.itemsize))
