"""Bags: ids in groups, and one vector for each group: the sum, the mean or the largest of the rows looked up.

A bag is a lookup and, right after it, its transpose. With P (N, V) the one-hot matrix of the ids and Q (N, B) that of
the bags they are in, the sum over each bag is

    Q.T @ (P @ table)      scatter_add(bags, lookup(ids, table))

so the backward is the same pair turned round, scatter_add(ids, lookup(bags, g)): each id's row gets the gradient of its
bag. By hand, with ids 4 2 7 2 in the bags 4 2 | 7 2, the rows of the gradient go to the table as
4: g[0], 2: g[0] + g[1], 7: g[1].
"""
from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.engine import as_tensor, is_tensor, operation
from minigrad.ids import checked_ids, integers
from minigrad.lookup_options import OptionError, check_flags, checked_padding, lookup_with_options, renormalise
from minigrad.ops import index, place, reshape
from minigrad.rows import scatter_add

MODES = "sum", "mean", "max"


def embedding_bag(
    ids: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """One vector for each bag of ids, from the rows of `weight` they name, as torch.nn.functional.embedding_bag.

    ids: integers. (B, T): each row is a bag, and offsets is None. (N,): `offsets` (B,) says where each bag begins, the
    first at 0; with include_last_offset it is (B + 1,) and ends with N. weight: a (V, C) table. Returns (B, C); a bag
    without ids gives zeros.

    mode: "sum", "mean" or "max" over the rows of a bag. In "max" the first of equals gets the gradient, and nan is the
        largest (as in max; torch's bag drops a nan that is not the first).
    per_sample_weights: a factor for each id, of its shape and the table's dtype; mode "sum" only.
    padding_idx: this id is no member of any bag; nor does it count in a mean.
    max_norm, norm_type, scale_grad_by_freq, sparse: as in `embedding`; the last two not for "max".

    It can be differentiated twice. Raises IdTypeError for ids or offsets that are no integers; IndexError for an id
    out of range, with its position and the range; OptionError for offsets that make no bags and for other options,
    TypeError for one of another type; NotImplementedError for weights in another mode, as torch. The table is untouched
    then.

    >>> from minigrad import Tensor
    >>> weight = Tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> embedding_bag([1, 2, 2], weight, offsets=[0, 2])
    tensor([[2., 3.],
            [3., 4.]], grad_fn=<div>)
    >>> embedding_bag([1, 2, 2], weight, offsets=[0, 2]).sum().backward()
    >>> weight.grad
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [1.5000, 1.5000]])
    """
    weight = as_tensor(weight)
    if weight.ndim != 2:
        raise OptionError(f"'weight' must be 2-D, a table of V rows of C numbers; got shape {weight.shape}")
    check_flags(scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, include_last_offset=include_last_offset)
    check_mode(mode, scale_grad_by_freq, sparse)
    ids = checked_ids(ids, len(weight))
    bags, num_bags = bag_of_each(ids, offsets, include_last_offset)
    factors = _factors(per_sample_weights, ids, weight, mode)
    if padding_idx is not None:
        padding_idx = checked_padding(padding_idx, len(weight))
    if max_norm is not None:
        renormalise(weight, ids, max_norm, norm_type)

    ids = ids.reshape(-1)
    if padding_idx is not None:
        kept = np.flatnonzero(ids != padding_idx)
        ids, bags = ids[kept], bags[kept]
        factors = None if factors is None else index(factors, key=kept)
    rows = lookup_with_options(ids, weight, padding_idx=None, by_frequency=scale_grad_by_freq, sparse=sparse)  # (N, C)
    if mode == "max":
        return bag_max(bags, rows, num_bags=num_bags)
    if factors is not None:
        rows = rows * reshape(factors, to=(len(ids), 1))
    sums = scatter_add(bags, rows, num_rows=num_bags)                                                          # (B, C)
    if mode == "sum":
        return sums
    sizes = np.bincount(bags, minlength=num_bags)
    return sums / np.maximum(sizes, 1).astype(sums.dtype).reshape(-1, 1)


@operation
def bag_max(bags, rows, *, num_bags):
    """The largest of each column over the rows (N, C) of a bag, zeros where a bag has none; bags (N,) never fall."""
    full, starts = np.unique(bags, return_index=True)  # the bags that hold rows, and where each begins
    out = np.zeros((num_bags, rows.shape[1]), rows.dtype)
    out[full] = np.maximum.reduceat(rows, starts, axis=0)
    largest = (rows == out[bags]) | (rows != rows)  # nan is not itself
    places = np.where(largest, np.arange(len(rows))[:, None], len(rows))
    return out, (full, np.minimum.reduceat(places, starts, axis=0))


# the gradient goes to the number that was chosen, and to it alone
bag_max.vjp(None, lambda g, extra, shape:
            place(index(g, key=extra[0]), key=(extra[1], np.arange(shape[1])), to=shape))


def bag_of_each(ids: np.ndarray, offsets: Any, include_last_offset: bool) -> tuple[np.ndarray, int]:
    """The number of the bag that each id is in, ids.reshape(-1) in order, and how many bags there are.

    Raises IdTypeError or OptionError as `embedding_bag`.

    >>> bag_of_each(np.array([4, 2, 7, 2]), [0, 1, 1], include_last_offset=False)
    (array([0, 2, 2, 2]), 3)
    """
    if ids.ndim == 2:
        if offsets is not None:
            raise OptionError(f"ids of shape {ids.shape} are a bag a row, so offsets must be None, got {offsets!r}")
        return np.repeat(np.arange(len(ids)), ids.shape[1]), len(ids)
    if ids.ndim != 1:
        raise OptionError(f"ids must be (B, T), a bag a row, or (N,) with offsets; got shape {ids.shape}")
    if offsets is None:
        raise OptionError(f"ids of shape {ids.shape} need offsets, the places where bags begin; got None")
    edges = _checked_edges(ids, integers(offsets, "offsets", f"0 to {len(ids)}"), include_last_offset)
    return np.repeat(np.arange(len(edges) - 1), np.diff(edges)), len(edges) - 1


def _checked_edges(ids: np.ndarray, offsets: np.ndarray, include_last_offset: bool) -> np.ndarray:
    """Where each bag begins and, one more, where the last one ends."""
    count = len(ids)
    if offsets.ndim != 1:
        raise OptionError(f"offsets must be (B,), the places where bags begin; got shape {offsets.shape}")
    outside = np.flatnonzero((offsets < 0) | (offsets > count))
    if outside.size:
        n = outside[0]
        raise OptionError(f"offset {offsets[n]} at position {n} is out of range: {count} ids take offsets 0 to {count}")
    edges = offsets.astype(np.intp)
    if not include_last_offset:
        edges = np.append(edges, count)
    if not len(edges):
        raise OptionError("include_last_offset=True needs one offset at least, the end of the last bag; got none")
    if edges[0] != 0:
        begins = f"offsets[0] is {offsets[0]}" if len(offsets) else f"there are {count} ids and no offsets"
        raise OptionError(f"the first bag must begin with the first id, at 0: {begins}")
    falls = np.flatnonzero(np.diff(edges) < 0)
    if falls.size:
        n = falls[0] + 1
        raise OptionError(f"offsets must not fall: {edges[n]} at position {n} comes after {edges[n - 1]}")
    if edges[-1] != count:  # torch leaves the ids behind it out, and tells nobody
        raise OptionError(f"with include_last_offset the last offset is the number of ids, {count}; got {edges[-1]}")
    return edges


def check_mode(mode: str, scale_grad_by_freq: bool, sparse: bool) -> None:
    """OptionError for a mode there is not, and for an option that has no meaning in it."""
    if mode not in MODES:
        raise OptionError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    for name, value in (("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
        if value and mode == "max":
            raise OptionError(f"{name}={value} has no meaning in mode 'max': use 'sum' or 'mean'")


def _factors(per_sample_weights: Any, ids: np.ndarray, weight: Any, mode: str) -> Any:
    """The per_sample_weights as a tensor (N,), or None."""
    if per_sample_weights is None:
        return None
    if mode != "sum":
        raise NotImplementedError(f"per_sample_weights are for mode 'sum', where they are factors; got mode {mode!r}")
    if not is_tensor(per_sample_weights):  # a copy, kept for the way back; lists have no dtype of their own
        dtype = None if isinstance(per_sample_weights, np.ndarray) else weight.dtype
        per_sample_weights = np.array(per_sample_weights, dtype)
    factors = as_tensor(per_sample_weights)
    if factors.shape != ids.shape:
        raise OptionError(f"per_sample_weights must have the shape of the ids, {ids.shape}; got {factors.shape}")
    if factors.dtype != weight.dtype:
        raise OptionError(f"per_sample_weights must have the table's dtype, {weight.dtype}; got {factors.dtype}")
    return reshape(factors, to=(ids.size,))
