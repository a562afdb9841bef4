"""lookup and scatter_add: the pair this project is about, and RowSparse, the form in which a lookup's gradient travels.

A lookup copies rows out of a table; its transpose adds rows into one. Written with the one-hot matrix P of the ids,
(N, V) with P[n, ids[n]] = 1, lookup is P @ table and scatter_add is P.T @ rows: so the backward of each is the other,
and neither ever builds P.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from minigrad import segments
from minigrad.engine import as_tensor, operation
from minigrad.ids import checked_ids


@operation
def lookup(ids, table, *, sparse=False):
    """The rows of `table` (V, C) that `ids` (any shape) name: ids.shape + (C,). Always a copy."""
    ids = checked_ids(ids, len(table)).astype(np.intp)  # a copy, kept for the way back: the caller's may change
    return segments.take(table, ids), ids


# dL/d table[v] = the sum of g[n] over all n with ids[n] == v: a scatter_add, put off until someone needs it dense
lookup.vjp(None, lambda g, extra, shape, sparse: RowSparse(extra, g, shape, not sparse, checked=True))


@operation
def scatter_add(ids, rows, *, num_rows):
    """A (num_rows, C) table of zeros with rows[n] added to row ids[n]; rows is ids.shape + (C,)."""
    ids = checked_ids(ids, num_rows).astype(np.intp)
    table = np.zeros((num_rows, *rows.shape[ids.ndim:]), rows.dtype)
    add_rows(table, ids.reshape(-1), rows.reshape(ids.size, *table.shape[1:]), fresh=True)
    return table, ids


scatter_add.vjp(None, lambda g, extra: lookup(extra, g))


def add_rows(table: np.ndarray, ids: np.ndarray, rows: np.ndarray, fresh: bool = False) -> None:
    """table[ids[n]] += rows[n] for every n in order; ids (N,) are in range. fresh: the table is zeros.

    That is np.add.at(table, ids, rows), which segments.py does quicker, to the same last bit. (`table[ids] += rows`
    would count a repeated id once.)
    """
    segments.add_rows(table, ids, rows, fresh)


class RowSparse:
    """A gradient of shape (V, C) of which only some rows are not zero: rows[n] belongs to row ids[n].

    ids: (N,) integers, repeats allowed and meaning a sum. rows: a Tensor or array (N, C). shape: (V, C).
    deferred: an ordinary gradient, made dense at the leaf; else it stays as it is in `.grad` (sparse=True).

    >>> import numpy as np
    >>> g = RowSparse(np.array([1, 1, 2]), np.ones((3, 2), np.float32), (4, 2))
    >>> g.to_dense()
    tensor([[0., 0.],
            [2., 2.],
            [1., 1.],
            [0., 0.]])
    >>> g.coalesce().ids, g.coalesce().rows
    (array([1, 2]), tensor([[2., 2.],
            [1., 1.]]))
    """

    def __init__(self, ids: Any, rows: Any, shape: tuple[int, ...], deferred: bool = False, checked: bool = False):
        ids = ids if checked else checked_ids(ids, shape[0])
        if tuple(rows.shape) != (*ids.shape, *shape[1:]):
            want = (*ids.shape, *shape[1:])
            raise ValueError(f"ids {ids.shape} into a table {shape} need rows {want}, got {tuple(rows.shape)}")
        self.ids, self.shape, self.deferred = ids.reshape(-1), tuple(shape), deferred
        rows = as_tensor(rows)
        self.rows = rows if ids.ndim == 1 else rows.reshape(ids.size, *shape[1:])

    @property
    def dtype(self) -> np.dtype:
        return self.rows.dtype

    def coalesce(self) -> RowSparse:
        """The same gradient with each id once, ascending; equal ids are summed in the order of their lookup."""
        if self.rows.requires_grad:  # it is to be differentiated again
            ids, place = np.unique(self.ids, return_inverse=True)
            rows = scatter_add(place.reshape(-1), self.rows, num_rows=len(ids))
        else:  # the same, with a single sort
            with np.errstate(all="ignore"):
                ids, rows = segments.coalesce(self.ids, self.rows.data)
        return RowSparse(ids, rows, self.shape, self.deferred, checked=True)

    def to_dense(self) -> Any:
        """The (V, C) tensor this stands for: the scatter_add that was put off."""
        return scatter_add(self.ids, self.rows, num_rows=self.shape[0])

    def add_into(self, dense: np.ndarray) -> None:
        """Add this to a dense (V, C) array, touching only the rows named."""
        add_rows(dense, self.ids, self.rows.data)

    def astype(self, dtype: Any) -> RowSparse:
        return RowSparse(self.ids, self.rows.astype(dtype), self.shape, self.deferred)

    def copy(self) -> RowSparse:
        return RowSparse(self.ids.copy(), np.array(self.rows.data), self.shape, self.deferred)

    def __add__(self, other: RowSparse) -> RowSparse:
        """Both kept one after the other; nothing is summed before `coalesce`. ValueError for two shapes."""
        if self.shape != other.shape:
            raise ValueError(f"cannot add row-sparse gradients of shapes {self.shape} and {other.shape}")
        ids = np.concatenate([self.ids, other.ids])
        rows = np.concatenate([self.rows.data, other.rows.data])
        return RowSparse(ids, rows, self.shape, self.deferred or other.deferred)

    def __repr__(self) -> str:
        return f"RowSparse(ids={self.ids!r}, rows={self.rows!r}, shape={self.shape})"
