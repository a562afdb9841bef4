"""torch's conventions that NumPy does not share: the dtype of two operands, how dims and sizes are named."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def matched(a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """Two operands as arrays of one dtype, by torch's rule.

    The higher kind wins (bool < int < float). Within a kind an array outranks a 0-d array, and that a Python number,
    so float32 * 2.5 and float32 * (0-d float64) stay float32. (NumPy 2 would widen the second, NumPy 1 both at 0-d.)

    >>> [x.dtype.name for x in matched(np.ones(3, np.float32), np.array(2.0))]
    ['float32', 'float32']
    >>> [x.dtype.name for x in matched(np.array([1, 2]), 0.5)]
    ['float32', 'float32']
    """
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype == y.dtype:
        return x, y
    (kind_x, rank_x), (kind_y, rank_y) = _standing(a, x), _standing(b, y)
    if kind_x != kind_y:
        winner, rank = (x, rank_x) if kind_x > kind_y else (y, rank_y)
        dtype = np.dtype(np.float32) if rank == 0 and winner.dtype.kind == "f" else winner.dtype
    elif rank_x != rank_y:
        dtype = x.dtype if rank_x > rank_y else y.dtype
    else:
        dtype = np.promote_types(x.dtype, y.dtype)
    return x.astype(dtype, copy=False), y.astype(dtype, copy=False)


def floating(a: Any) -> np.ndarray:
    """`a`, or as float32 if it holds integers or bools: of these the exponential and its kin make floats, as in torch.

    >>> floating(np.array([1, 2])).dtype
    dtype('float32')
    """
    if not isinstance(a, (np.ndarray, np.generic)):
        return np.asarray(a, np.float64)  # a Python number: as exact as it is
    return np.asarray(a if a.dtype.kind == "f" else a.astype(np.float32))


def _standing(value: Any, array: np.ndarray) -> tuple[int, int]:
    """(kind: bool 0, int 1, float 2; rank: Python number 0, 0-d array 1, array 2). TypeError for what is no number."""
    if array.dtype.kind not in "biuf":
        raise TypeError(f"a tensor computes with floats, integers and bools, not {type(value).__name__} {value!r:.60}")
    kind = {"b": 0, "i": 1, "u": 1}.get(array.dtype.kind, 2)
    return kind, 0 if isinstance(value, (bool, int, float)) else 1 + (array.ndim > 0)


def axes(dim: Any, ndim: int) -> tuple[int, ...]:
    """`dim` (None or () for all, an int, or several; negative from the end) as ascending axis numbers.

    Raises IndexError for one out of range, RuntimeError for one named twice.

    >>> axes(-1, 3), axes((0, -1), 3), axes(None, 2)
    ((2,), (0, 2), (0, 1))
    """
    if dim is None or dim == ():
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, (int, np.integer)) else tuple(dim)
    result: list[int] = []
    for d in dims:
        if not -max(ndim, 1) <= d < max(ndim, 1):
            low, high = -max(ndim, 1), max(ndim, 1) - 1
            raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {d})")
        result.append(int(d) % max(ndim, 1))
    for d in result:
        if result.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims {dims}")
    return tuple(sorted(result)) if ndim else ()


def numpy_names(method: Callable) -> Callable:
    """Let `axis` and `keepdims` stand for `dim` and `keepdim`, as torch does."""

    @functools.wraps(method)
    def named(self, *args, **kwargs):
        for numpys, ours in (("axis", "dim"), ("keepdims", "keepdim")):
            if numpys in kwargs:
                kwargs[ours] = kwargs.pop(numpys)
        return method(self, *args, **kwargs)

    return named


def sizes_of(sizes: tuple) -> tuple[int, ...]:
    """`x.reshape(2, 3)` and `x.reshape((2, 3))` mean the same."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def holds_arrays(data: Any) -> bool:
    """Whether the numbers already have a dtype of their own: Python's do not."""
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return hasattr(data, "__array__")
