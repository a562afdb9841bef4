"""Which rows of a table point the same way: what training, or a pretrained table, says is alike."""
from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.engine import array_of
from minigrad.ids import checked_ids


def nearest(table: Any, row: Any, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of `table` (V, C) nearest to `row` by cosine: their ids and cosines, the nearest first.

    row: an id, whose own row is then left out, or a vector (C,). Fewer than k if the table has fewer; equal cosines
    in the order of their ids. A row of zeros points nowhere: its cosine is 0.

    Raises IndexError for an id out of range, ValueError for a vector of another width or k below 1.

    >>> table = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    >>> ids, cosines = nearest(table, 0, k=2)
    >>> ids, cosines.round(3)
    (array([1, 2]), array([0.999, 0.   ]))
    """
    table = array_of(table)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if np.ndim(row) == 0:
        own = int(checked_ids(row, len(table)))
        vector = table[own]
    else:
        own, vector = None, array_of(row)
        if vector.shape != table.shape[1:]:
            raise ValueError(f"a vector of shape {vector.shape} cannot be compared with rows of {table.shape[1:]}")
    cosines = cosine(table, vector)
    order = np.argsort(-cosines, kind="stable")
    order = order[order != own][:k] if own is not None else order[:k]
    return order, cosines[order]


def cosine(a: Any, b: Any) -> np.ndarray:
    """The cosine between vectors along the last axis, a.b / (|a| |b|), broadcast over the others; 0 for zeros.

    >>> cosine([[3.0, 4.0], [0.0, 0.0]], [3.0, -4.0])
    array([-0.28,  0.  ])
    """
    a, b = array_of(a), array_of(b)
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    products = np.einsum("...c,...c->...", a, b)
    return np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths != 0)
