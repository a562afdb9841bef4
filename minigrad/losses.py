"""softmax, log_softmax and cross_entropy: from a row of logits to a number that says how wrong they were.

Every formula here subtracts a row's maximum before it takes an exponential: e^(z - max) cannot overflow, and the
result is the same. Names, arguments and results are those of torch.nn.functional.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.conventions import axes
from minigrad.engine import as_tensor, operation
from minigrad.ids import first_of, integers
from minigrad.ops import exp, index, permute, reduce_sum, reshape, where

REDUCTIONS = ("none", "mean", "sum")


def softmax(x: Any, dim: int = -1) -> Any:
    """e^x divided by its sum over `dim`: positive numbers of sum 1, in x's shape and dtype.

    A row of -inf alone, or with a +inf or nan in it, is nan. Raises RuntimeError for a dtype that is no float,
    IndexError for a `dim` that is not there.

    >>> from minigrad import Tensor
    >>> softmax(Tensor([0.0, 1.0, 2.0]))
    tensor([0.0900, 0.2447, 0.6652])
    """
    return _softmax(_floats(x, "softmax"), dim=dim)


@operation
def _softmax(a, *, dim):
    dims = axes(dim, a.ndim)
    out = np.asarray(np.exp(a - a.max(dims, keepdims=True, initial=-np.inf)))
    out /= out.sum(dims, keepdims=True)
    return out
# d out_i/d a_j = out_i ([i = j] - out_j)
_softmax.vjp(lambda g, out, dim: out * (g - reduce_sum(g * out, dim=dim, keepdim=True)))


def log_softmax(x: Any, dim: int = -1) -> Any:
    """The logarithm of `softmax`, exact where softmax itself would round to 0: x - log(sum of e^x).

    Shapes and errors as `softmax`.

    >>> from minigrad import Tensor
    >>> log_softmax(Tensor([0.0, 1.0, 1000.0]))
    tensor([-1000.,  -999.,     0.])
    """
    return _log_softmax(_floats(x, "log_softmax"), dim=dim)


@operation
def _log_softmax(a, *, dim):
    dims = axes(dim, a.ndim)
    out = np.asarray(a - a.max(dims, keepdims=True, initial=-np.inf))
    out -= np.log(np.exp(out).sum(dims, keepdims=True))
    return out
# d out_i/d a_j = [i = j] - softmax_j
_log_softmax.vjp(lambda g, out, dim: g - exp(out) * reduce_sum(g, dim=dim, keepdim=True))


def cross_entropy(
    logits: Any, targets: Any, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
) -> Any:
    """-log of the probability that softmax(logits) gives the target: for one row, log(sum of e^z) - z[target].

    logits: (N, C), or (N, C, d1, ...) with the classes on axis 1, or (C,) for a single target. targets: integers of
    any dtype, (N,), (N, d1, ...) or (). Each is from 0 to C-1, or ignore_index, which counts neither in the loss nor
    in the mean. reduction: 'none' gives a loss for each target, 'sum' their sum, 'mean' that over how many counted
    (nan, with a gradient of zeros, if none did). label_smoothing e: the target has the probability 1 - e instead
    of 1, and every class e / C besides (Szegedy and others, arXiv 1512.00567).

    Raises IdTypeError for targets that are no integers, IndexError for one out of range with its position and the
    range, ValueError for another reduction, smoothing or for shapes that do not match, RuntimeError for logits that
    are no floats.

    >>> from minigrad import Tensor
    >>> logits = Tensor([[0.0, 0.0], [0.0, 3.0]], requires_grad=True)
    >>> loss = cross_entropy(logits, [0, 1])
    >>> loss
    tensor(0.3709, grad_fn=<div>)
    >>> loss.backward()
    >>> logits.grad  # (softmax - one_hot) / N
    tensor([[-0.2500,  0.2500],
            [ 0.0237, -0.0237]])
    """
    logits = _floats(logits, "cross_entropy")
    check_reduction(reduction)
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing must be from 0 to 1, got {label_smoothing}")
    if logits.ndim == 0:
        raise ValueError("cross_entropy takes logits of shape (C,), (N, C) or (N, C, d1, ...), got a single number")
    class_axis = min(1, logits.ndim - 1)
    num_classes = logits.shape[class_axis]
    targets, kept = checked_targets(targets, num_classes, ignore_index)
    shape = logits.shape[:class_axis] + logits.shape[class_axis + 1:]
    if targets.shape != shape:
        raise ValueError(f"logits of shape {logits.shape} need targets of shape {shape}, got {targets.shape}")

    others = [axis for axis in range(logits.ndim) if axis != class_axis]
    rows = reshape(permute(logits, order=(*others, class_axis)), to=(targets.size, num_classes))
    log_p = _log_softmax(rows, dim=-1)
    losses = -index(log_p, key=(np.arange(targets.size), targets.reshape(-1)))
    if label_smoothing:
        losses = (1 - label_smoothing) * losses - label_smoothing * log_p.mean(1)
    losses = reshape(losses, to=shape)
    if not kept.all():
        losses = where(kept, losses, 0.0)  # not * kept: an ignored loss may be inf, and inf * 0 is nan
    if reduction == "none":
        return losses
    total = reduce_sum(losses)
    return total if reduction == "sum" else total / float(np.count_nonzero(kept))


def checked_targets(targets: Any, num_classes: int, ignore_index: int) -> tuple[np.ndarray, np.ndarray]:
    """(targets with 0 in place of the ignored ones, where they are kept); every kept one is in [0, num_classes).

    >>> checked_targets([1, -100], 3, ignore_index=-100)
    (array([1, 0]), array([ True, False]))
    >>> checked_targets([1, 3], 3, ignore_index=-100)
    Traceback (most recent call last):
        ...
    IndexError: target 3 at position 1 is out of range: 3 classes take targets 0 to 2, and -100 for none
    """
    array = integers(targets, "targets", f"0 to {num_classes - 1}, and {ignore_index} for none")
    if isinstance(ignore_index, (bool, np.bool_)) or not hasattr(ignore_index, "__index__"):
        raise TypeError(f"ignore_index must be an integer, got {ignore_index!r}")
    kept = np.asarray(array != ignore_index)
    bad = kept & ((array < 0) | (array >= num_classes))
    if bad.any():
        valid = f"take targets 0 to {num_classes - 1}, and" if num_classes else "take no target but"
        raise IndexError(
            f"target {first_of(array, bad)} is out of range: {num_classes} classes {valid} {ignore_index} for none"
        )
    return np.where(kept, array, 0).astype(np.intp), kept


def check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction!r} is not a valid value for reduction: choose from {', '.join(REDUCTIONS)}")


def _floats(x: Any, name: str) -> Any:
    x = as_tensor(x)
    if x.dtype.kind != "f":
        raise RuntimeError(f"{name}() takes floating point numbers, got {x.dtype}")
    return x
