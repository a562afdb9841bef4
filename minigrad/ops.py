"""The operations: elementwise, reductions, shapes, matmul; each forward with its backward right under it.

Throughout, g is dL/d(out) and a vjp returns dL/d(input) (engine.py lists the names a vjp may ask for). What has no vjp
here is built from what has: `var` is a mean of squares, `squeeze` is a reshape.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.conventions import axes, floating, matched
from minigrad.engine import array_of, as_tensor, operation

# --- elementwise --------------------------------------------------------------------------------------------------

@operation
def add(a, b):
    a, b = matched(a, b)
    return a + b
add.vjp(lambda g: g,
        lambda g: g)

@operation
def sub(a, b):
    a, b = matched(a, b)
    return a - b
sub.vjp(lambda g: g,
        lambda g: -g)

@operation
def mul(a, b):
    a, b = matched(a, b)
    return a * b
mul.vjp(lambda g, b: g * b,
        lambda g, a: g * a)

@operation
def div(a, b):
    a, b = matched(a, b)
    return floating(a) / floating(b)
div.vjp(lambda g, b: g / b,
        lambda g, b, out: -g * (out / b))  # d(a/b)/db = -a/b^2 = -out/b

@operation
def neg(a):
    return -a
neg.vjp(lambda g: -g)

@operation
def power(a, b):
    a, b = matched(a, b)
    return np.reciprocal(np.sqrt(a)) if b.ndim == 0 and b == -0.5 else a ** b  # -inf at -0.0, as sqrt's own gradient
# d a^b/da = b a^(b-1), and 0 for b = 0 even at a = 0, where the formula would say 0 * inf;
# d a^b/db = a^b ln a, and 0 at a = 0, b >= 0, where it would say 0 * -inf
power.vjp(lambda g, a, b: where(array_of(b) == 0, 0.0, g * (b * power(a, b - 1))),
          lambda g, a, b, out: g * where((array_of(a) == 0) & (array_of(b) >= 0), 0.0, out * log(a)))

@operation
def exp(a):
    return np.exp(floating(a))
exp.vjp(lambda g, out: g * out)

@operation
def log(a):
    return np.log(floating(a))
log.vjp(lambda g, a: g / a)

@operation
def sqrt(a):
    return np.sqrt(floating(a))
sqrt.vjp(lambda g, out: g / (2 * out))

@operation
def tanh(a):
    return np.tanh(floating(a))
tanh.vjp(lambda g, out: g * (1 - out * out))

@operation
def sigmoid(a):
    a = floating(a)
    return a.dtype.type(1) / (a.dtype.type(1) + np.exp(-a))
sigmoid.vjp(lambda g, out: g * out * (1 - out))

@operation
def relu(a):
    return np.maximum(a, a.dtype.type(0))
relu.vjp(lambda g, out: where(out <= 0, 0.0, g))  # 0 at 0; a nan is not <= 0, and passes g on

@operation
def absolute(a):
    return np.abs(a)
absolute.vjp(lambda g, a: g * np.nan_to_num(np.sign(array_of(a))))  # 0 at 0, and at nan

@operation
def maximum(a, b):
    return np.maximum(*matched(a, b))
maximum.vjp(lambda g, a, b: _share(g, a, b),
            lambda g, a, b: _share(g, b, a))

def _share(g: Any, a: Any, b: Any) -> Any:
    """The gradient of a: g where a > b, 0 where a < b, half of g where they tie; all of it where one is nan."""
    a, b = matched(array_of(a), array_of(b))
    return where(a < b, 0.0, where(a == b, g / 2, g))

@operation
def where(condition, a, b):
    a, b = matched(a, b)
    return np.where(condition, a, b)
where.vjp(None,
          lambda g, condition: where(condition, g, 0.0),
          lambda g, condition: where(condition, 0.0, g))

@operation
def astype(a, *, dtype):
    return a.astype(dtype)
astype.vjp(lambda g: g)  # the engine casts a gradient back to its tensor's dtype


# --- reductions ---------------------------------------------------------------------------------------------------

def _restored(g: Any, shape: tuple[int, ...], dim: Any) -> Any:
    """g, the gradient of a reduction over `dim`, given back to every entry of `shape` that was reduced."""
    dims = axes(dim, len(shape))
    kept = reshape(g, to=tuple(1 if i in dims else n for i, n in enumerate(shape)))
    return expand(kept, to=shape)

@operation
def reduce_sum(a, *, dim=None, keepdim=False):
    return a.sum(axis=axes(dim, a.ndim), keepdims=keepdim)
reduce_sum.vjp(lambda g, shape, dim: _restored(g, shape, dim))

def mean(a: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The sum over `dim` divided by how many there are; of nothing, nan. RuntimeError for integers."""
    if a.dtype.kind != "f":
        raise RuntimeError(f"mean(): input dtype should be floating point, got {a.dtype}")
    count = math.prod(a.shape[d] for d in axes(dim, a.ndim))
    return reduce_sum(a, dim=dim, keepdim=keepdim) / float(count)

@operation
def var(a, *, dim=None, keepdim=False, correction=1):
    """The mean squared distance from the mean, over count - correction (1: the unbiased estimate, as in torch)."""
    distance = a - array_of(mean(as_tensor(a), dim, keepdim=True))  # RuntimeError for integers
    return (distance * distance).sum(axis=axes(dim, a.ndim), keepdims=keepdim) / _freedom(a, dim, correction)
var.vjp(lambda g, a, dim, correction:
        _restored(g, a.shape, dim) * 2.0 / _freedom(a, dim, correction) * (a - mean(a, dim, keepdim=True)))

def _freedom(a: Any, dim: Any, correction: int) -> Any:
    return a.dtype.type(max(math.prod(a.shape[d] for d in axes(dim, a.ndim)) - correction, 0))

@operation
def reduce_max(a, *, dim=None, keepdim=False):
    return a.max(axis=_some_of(a, dim, "max"), keepdims=keepdim)
# over one dim the first of equal maxima gets the gradient, over all or several they share it (torch's max and amax)
reduce_max.vjp(lambda g, a, dim: _to_winners(g, array_of(a), dim))

@operation
def reduce_min(a, *, dim=None, keepdim=False):
    return a.min(axis=_some_of(a, dim, "min"), keepdims=keepdim)
reduce_min.vjp(lambda g, a, dim: _to_winners(g, -array_of(a), dim))

def _some_of(a: np.ndarray, dim: Any, name: str) -> tuple[int, ...]:
    dims = axes(dim, a.ndim)
    if a.size == 0 and math.prod(a.shape[d] for d in dims) == 0:
        raise RuntimeError(f"{name}() over dim {dim} of an empty tensor of shape {a.shape}")
    return dims

def _to_winners(g: Any, a: np.ndarray, dim: Any) -> Any:
    """g to where the maximum of `a` stands, 0 elsewhere. A maximum that is nan stands where nan does."""
    dims, share = axes(dim, a.ndim), _restored(g, a.shape, dim)
    if isinstance(dim, (int, np.integer)) and a.ndim:
        first = np.expand_dims(a.argmax(axis=dims[0]), dims[0])
        winners = np.equal(np.arange(a.shape[dims[0]]).reshape(-1, *[1] * (a.ndim - dims[0] - 1)), first)
    else:
        winners = a == a.max(axis=dims, keepdims=True)
        if isinstance(dim, (tuple, list)):  # as torch's amax: a nan wins nowhere, and g / 0 makes all of them nan
            return share / winners.sum(axis=dims, keepdims=True) * winners
        winners |= np.isnan(a)  # for nothing equals a nan
        share = share / winners.sum(axis=dims, keepdims=True)
    return where(winners, share, 0.0)


# --- shapes -------------------------------------------------------------------------------------------------------

@operation
def reshape(a, *, to):
    return a.reshape(to)
reshape.vjp(lambda g, shape: reshape(g, to=shape))

@operation
def permute(a, *, order):
    return a.transpose(order)
permute.vjp(lambda g, order: permute(g, order=tuple(int(i) for i in np.argsort(order))))

@operation
def expand(a, *, to):
    return np.broadcast_to(a, to)
expand.vjp(lambda g: g)  # the engine undoes broadcasting

@operation
def sum_to_size(a, *, to):
    """The transpose of expand: sum over every axis that broadcasting `to` into a.shape would add or stretch."""
    lead = a.ndim - len(to)
    if lead < 0 or any(n not in (1, m) for n, m in zip(to, a.shape[lead:])):
        raise RuntimeError(f"size {tuple(to)} cannot be broadcast to the tensor's shape {a.shape}")
    stretched = tuple(i for i in range(a.ndim) if i < lead or (to[i - lead] == 1 and a.shape[i] != 1))
    return a.sum(axis=stretched).reshape(to)
sum_to_size.vjp(lambda g, shape: expand(g, to=shape))

@operation
def index(a, *, key):
    return a[key]
index.vjp(lambda g, shape, key: place(g, key=key, to=shape))

@operation
def place(a, *, key, to):
    """The transpose of indexing: zeros of shape `to`, `a` added where `key` points; a cell named twice gets both."""
    out = np.zeros(to, a.dtype)
    parts = key if isinstance(key, tuple) else (key,)
    if all(part is None or part is Ellipsis or isinstance(part, (int, np.integer, slice)) for part in parts):
        out[key] = a  # basic indexing names no cell twice
    else:
        np.add.at(out, key, a)
    return out
place.vjp(lambda g, key: index(g, key=key))


# --- matmul -------------------------------------------------------------------------------------------------------

@operation
def _matmul(a, b):  # (..., n, k) @ (..., k, m)
    return np.matmul(*matched(a, b))
_matmul.vjp(lambda g, b: _matmul(g, _swapped(b)),  # dL/da = g b^T
            lambda g, a: _matmul(_swapped(a), g))  # dL/db = a^T g; the engine sums leading axes that were broadcast

def _swapped(a: Any) -> Any:
    return permute(a, order=(*range(a.ndim - 2), a.ndim - 1, a.ndim - 2))

def matmul(a: Any, b: Any) -> Any:
    """a @ b by NumPy's rules: a 1-D operand is a row on the left, a column on the right, and is dropped again.

    Raises ValueError for a 0-d operand or inner sizes that differ.
    """
    if np.ndim(a) == 0 or np.ndim(b) == 0:
        raise ValueError(f"matmul takes tensors of at least one dimension, got shapes {np.shape(a)} and {np.shape(b)}")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ValueError(f"matmul of {a.shape} and {b.shape}: inner sizes {a.shape[-1]} and {b.shape[-2:][0]} differ")
    if a.ndim == 1:
        return index(matmul(a[None], b), key=(..., 0, slice(None)) if b.ndim > 1 else 0)
    if b.ndim == 1:
        return index(matmul(a, b[:, None]), key=(..., 0))
    if a.ndim > 2 and b.ndim == 2:  # (B, T, C) @ (C, V) as one product of (B*T, C), and one for the gradient of b
        rows = matmul(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]), b)
        return reshape(rows, to=(*a.shape[:-1], b.shape[-1]))
    return _matmul(a, b)
