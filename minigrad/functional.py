"""The functions a model is written with: embedding and its relatives here, bags in bags.py, losses in losses.py.

Names, arguments and results are those of torch.nn.functional.
"""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from minigrad.bags import embedding_bag
from minigrad.engine import as_tensor
from minigrad.ids import checked_ids
from minigrad.lookup_options import OptionError, check_flags, checked_padding, lookup_with_options, renormalise
from minigrad.losses import cross_entropy, log_softmax, softmax
from minigrad.rows import lookup
from minigrad.rows import scatter_add as scatter_add_operation
from minigrad.tied_loss import linear_cross_entropy

__all__ = [
    "OptionError", "cross_entropy", "embedding", "embedding_bag", "layer_norm", "linear_cross_entropy", "log_softmax",
    "one_hot", "scatter_add", "softmax",
]


def embedding(
    ids: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` that `ids` name, as torch.nn.functional.embedding.

    ids: integers of any dtype and shape, an array, a Tensor or lists; each from 0 to V-1. weight: a (V, C) table.
    Returns ids.shape + (C,), a copy. The options:

    padding_idx: the gradient of this row is left out here (-1 is the last row); the row itself is read as it is.
    max_norm: before they are read, the rows looked up whose norm is greater are scaled to it, *in place, in weight*;
        the gradient knows nothing of this. norm_type: which norm, the p of (sum of |x|^p)^(1/p).
    scale_grad_by_freq: each id's gradient is divided by how often the id stands in `ids`.
    sparse: the gradient stays a RowSparse in `weight.grad`, one row a lookup, instead of a (V, C) table. Note: with
        `embedding(...).backward(gradient)` the rows of `weight.grad` are `gradient`'s own memory, not a copy, as in
        torch.

    Raises IdTypeError for ids that are no integers; IndexError for one out of range, with the id, its position and
    the range; OptionError for an option that is out of range, TypeError for one of another type. Then the table
    is untouched.

    >>> from minigrad import Tensor
    >>> weight = Tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> embedding([1, 2, 2], weight)
    tensor([[1., 2.],
            [3., 4.],
            [3., 4.]], grad_fn=<lookup>)
    >>> embedding([1, 2, 2], weight).sum().backward()
    >>> weight.grad
    tensor([[0., 0.],
            [1., 1.],
            [2., 2.]])
    """
    weight = as_tensor(weight)
    if weight.ndim != 2:
        raise OptionError(f"'weight' must be 2-D, a table of V rows of C numbers; got shape {weight.shape}")
    check_flags(scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)
    if padding_idx is not None:
        padding_idx = checked_padding(padding_idx, len(weight))
    if max_norm is not None:
        renormalise(weight, checked_ids(ids, len(weight)), max_norm, norm_type)
    if padding_idx is None and not scale_grad_by_freq:
        return lookup(ids, weight, sparse=sparse)
    return lookup_with_options(ids, weight, padding_idx=padding_idx, by_frequency=scale_grad_by_freq, sparse=sparse)


def scatter_add(ids: Any, rows: Any, num_rows: int) -> Any:
    """A (num_rows, C) table of zeros into which row n is added at ids[n]: the transpose of a lookup.

    ids: integers of any shape. rows: ids.shape + (C,). Raises as `embedding` does, and ValueError for other shapes.

    >>> scatter_add([2, 0, 2], np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]], np.float32), num_rows=3)
    tensor([[ 2., 20.],
            [ 0.,  0.],
            [ 4., 40.]])
    """
    rows = as_tensor(rows)
    if num_rows < 0:
        raise OptionError(f"num_rows must be 0 or more, got {num_rows}")
    if rows.shape[:np.ndim(ids)] != np.shape(ids):
        raise ValueError(f"ids of shape {np.shape(ids)} need rows of that shape and one more, got {rows.shape}")
    return scatter_add_operation(ids, rows, num_rows=num_rows)


def one_hot(ids: Any, num_classes: int = -1) -> Any:
    """A 1 at each id and 0 elsewhere: ids.shape + (num_classes,), int64. -1: one class more than the largest id.

    Raises IdTypeError for ids that are no integers, IndexError for one out of range, OptionError where
    num_classes is below -1.

    >>> one_hot([2, 0], num_classes=3)
    tensor([[0, 0, 1],
            [1, 0, 0]])
    """
    num_classes = operator.index(num_classes)
    if num_classes < -1:
        raise OptionError(f"num_classes must be 0 or more, or -1 for one more than the largest id; got {num_classes}")
    if num_classes == -1:
        if np.size(ids) == 0:
            raise OptionError("the number of classes cannot be inferred from no ids: pass num_classes")
        num_classes = int(checked_ids(ids).max()) + 1
    ids = checked_ids(ids, num_classes)
    return as_tensor(np.equal(ids[..., None], np.arange(num_classes)).astype(np.int64))


def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(x - mean) / sqrt(variance + eps) over the last axes, then * weight + bias, both of normalized_shape.

    Source: Ba, Kiros and Hinton, arXiv 1607.06450; the variance is the biased one.

    >>> from minigrad import Tensor
    >>> layer_norm(Tensor([[1.0, 2.0, 3.0]]), 3)
    tensor([[-1.2247,  0.0000,  1.2247]])
    """
    x = as_tensor(x)
    shape = (normalized_shape,) if isinstance(normalized_shape, (int, np.integer)) else tuple(normalized_shape)
    if not shape or tuple(x.shape[-len(shape):]) != shape:
        raise OptionError(f"normalized_shape {shape} is not how x ends: x has shape {x.shape}")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(np.shape(value)) != shape:
            raise OptionError(f"{name} must have normalized_shape {shape}, got {tuple(np.shape(value))}")
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    out = (x - x.mean(dims, keepdim=True)) / (x.var(dims, correction=0, keepdim=True) + eps).sqrt()
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias
