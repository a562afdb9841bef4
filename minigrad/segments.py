"""rows.add_rows and RowSparse.coalesce for many rows, in whole-array steps: the same sums, to the last bit.

The ids are sorted, so that the rows of one id (a *run*) are named side by side. The first row of each run is copied to
its place; then the repeats are added, the longest runs first and some side by side, in a buffer that stays in the
processor's cache:

    ids      7 3 7 5 3 7          run of 7: rows 0 2 5      buffer   row 0 | row 1 |       the first of each run
    runs     3 3 | 5 | 7 7 7      run of 3: rows 1 4                 + 2   | + 4   |       the second
                                  run of 5: row  3, done             + 5   |       |       the third

Each row given is read once, and a sum is taken in the order of the rows, as np.add.at takes it. In a run of more than
ROUNDS rows they are summed by a single call. Threads take runs apart: the result does not depend on how many there are.
"""
from __future__ import annotations

import threading

import numpy as np

from minigrad.threads import in_parts

ROUNDS = 16  # a run of more rows than this is summed by itself
FEW = 64  # rows that are added one by one
BLOCK = 1 << 18  # bytes of the buffer that sums are made in: it and one more of its size fit a core's cache
SHARED = 1 << 22  # bytes from which a second thread is worth waking


def take(table: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """table[ids], a copy, for ids (of any shape) that are known to be in range."""
    if ids.size * table.itemsize * table[:1].size < 1 << 20 or table.ndim != 2 or not table.flags.c_contiguous:
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
    keys >>= bits
    edge = np.ones(len(ids) + 1, bool)  # between two ids that differ, and at both ends
    np.not_equal(keys[1:], keys[:-1], out=edge[1:-1])
    edges = np.flatnonzero(edge)
    return order, edges[:-1], edges[1:] - edges[:-1]


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

    def part(start: int, stop: int) -> None:
        runs = slice(*np.searchsorted(starts, (start, stop)))  # those that begin among these rows
        _first_rows(table, places[runs], rows, order[starts[runs]], fresh)
        again = np.flatnonzero(counts[runs] > 1) + runs.start
        again = again[np.argsort(-counts[again], kind="stable")]
        _repeats(table, places[again], rows, order, starts[again], counts[again])

    in_parts(part, len(order), _per(SHARED, rows))


def _first_rows(table, places, rows, first, fresh: bool) -> None:
    """table[places] = rows[first], or += where it is not fresh; a bufferful at a time."""
    items, height = _whole_rows(rows), max(_per(BLOCK, rows), ROUNDS)
    sums, sum_items = _buffers(rows, height)[0]
    target, target_sums = _alike(table, (sums, sum_items))
    if fresh and target.ndim == 1 and len(places) and places[-1] - places[0] == len(places) - 1:
        items.take(first, 0, target[places[0] : places[-1] + 1], "clip")  # one stretch of the table: straight there
        return
    for a in range(0, len(places), height):
        some = places[a : a + height]
        items.take(first[a : a + height], 0, sum_items[: len(some)], "clip")
        if not fresh:
            sums[: len(some)] += table[some]
        target[some] = target_sums[: len(some)]


def _repeats(table, places, rows, order, starts, counts) -> None:
    """table[places[u]] += the rows of run u after its first; longest runs first."""
    height = max(_per(BLOCK, rows), ROUNDS)
    (sums, sum_items), (more, more_items) = _buffers(rows, height)
    items, (target, target_sums) = _whole_rows(rows), _alike(table, (sums, sum_items))
    long = int(np.searchsorted(-counts, -ROUNDS))
    for place, start, count in zip(places[:long].tolist(), starts[:long].tolist(), counts[:long].tolist()):
        total = table[place]
        for a in range(start + 1, start + count, height - 1):  # the sum so far, then a bufferful of rows
            some = order[a : min(a + height - 1, start + count)]
            sums[0] = total
            items.take(some, 0, sum_items[1 : len(some) + 1], "clip")
            np.add.reduce(sums[: len(some) + 1], 0, None, total)
    a, rounds = long, np.arange(1, ROUNDS)[:, None]
    while a < len(places):
        block = slice(a, a + height // (int(counts[a]) - 1))  # so many that their rows fit the buffer
        place = places[block]
        target_sums[: len(place)] = target[place]
        has = counts[block] > rounds  # (round, run): whether the run has that row; the runs that have are the first
        some = order[(starts[block] + rounds)[has]]
        items.take(some, 0, more_items[: len(some)], "clip")
        done = 0
        for n in has.sum(axis=1).tolist():
            np.add(sums[:n], more[done : done + n], sums[:n])
            done += n
        target[place] = target_sums[: len(place)]
        a = block.stop


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


def _alike(table: np.ndarray, buffer: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The table and the buffer, both as whole rows; or both as they are, if the table's rows are not in one piece."""
    return (_whole_rows(table), buffer[1]) if table.flags.c_contiguous else (table, buffer[0])


def _per(size: int, rows: np.ndarray) -> int:
    """How many rows make up `size` bytes."""
    return max(1, size // (rows.shape[1] * rows.itemsize))
