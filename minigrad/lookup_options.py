"""The options of an embedding: padding_idx, scale_grad_by_freq and sparse change its gradient, max_norm the table."""
from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from minigrad.engine import operation
from minigrad.ops import index, reshape
from minigrad.rows import RowSparse, lookup


class OptionError(ValueError, AssertionError, RuntimeError):
    """An option that makes no sense. (A ValueError by Python's custom; torch has both the others for these.)"""


@operation
def lookup_with_options(ids, table, *, padding_idx, by_frequency, sparse):
    """A lookup like any other; its options say which part of the gradient goes back."""
    return lookup.forward(ids, table)


def _table_gradient(g, extra, shape, padding_idx, by_frequency, sparse):
    ids, g = extra.reshape(-1), reshape(g, to=(extra.size, *shape[1:]))
    if by_frequency:
        if sparse:
            raise RuntimeError("scale_grad_by_freq is not supported with sparse gradients; use one of the two")
        _, place, counts = np.unique(ids, return_inverse=True, return_counts=True)
        g = g / counts[place.reshape(-1), None].astype(g.dtype)
    if padding_idx is not None:
        kept = np.flatnonzero(ids != padding_idx)
        ids, g = ids[kept], index(g, key=kept)
    return RowSparse(ids, g, shape, deferred=not sparse)


lookup_with_options.vjp(None, _table_gradient)


def checked_padding(padding_idx: int, num_rows: int) -> int:
    """`padding_idx` counted from the front; OptionError if there is no such row, TypeError if it is no integer."""
    if isinstance(padding_idx, (bool, np.bool_)) or not hasattr(padding_idx, "__index__"):
        raise TypeError(f"padding_idx must be an integer, got {padding_idx!r}")
    if not -num_rows <= padding_idx < num_rows:
        raise OptionError(
            f"padding_idx must be within num_embeddings: {padding_idx} is not from {-num_rows} to {num_rows - 1}"
        )
    return int(padding_idx) % num_rows


def check_flags(**flags: bool) -> None:
    """TypeError for one that is neither True nor False: any text is true, "no" as well."""
    for name, value in flags.items():
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {value!r}")


def check_max_norm(max_norm: float, norm_type: float) -> None:
    """OptionError for a max_norm that is negative or nan, TypeError if it, or norm_type, is no number."""
    for name, value in (("max_norm", max_norm), ("norm_type", norm_type)):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
            raise TypeError(f"{name} must be a number, got {value!r}")
    if not max_norm >= 0:
        raise OptionError(f"max_norm must be 0 or more, got {max_norm}: a negative one would turn rows around")


def renormalise(weight: Any, ids: np.ndarray, max_norm: float, norm_type: float) -> None:
    """Scale each row of `weight` named by `ids` whose norm is above max_norm down to it, in place.

    A row becomes row * max_norm / (norm + 1e-7), torch's formula: the last term keeps a row of zeros finite.
    """
    if weight.dtype.kind != "f":
        raise OptionError(f"max_norm needs a table of floats, this one is {weight.dtype}: its rows are scaled in place")
    check_max_norm(max_norm, norm_type)
    distinct = np.unique(ids).astype(np.intp)
    rows = np.abs(weight.data[distinct])
    if norm_type == np.inf:
        norms = rows.max(axis=1, initial=0)
    elif norm_type == 0:
        norms = np.count_nonzero(rows, axis=1)
    else:
        norms = (rows ** norm_type).sum(axis=1) ** (1 / norm_type)
    norms = norms.astype(np.float64)
    above = norms > max_norm
    factors = (max_norm / (norms[above] + 1e-7)).astype(weight.dtype)
    weight.data[distinct[above]] *= factors[:, None]
    weight._changed()
