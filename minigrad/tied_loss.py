"""linear_cross_entropy: the loss of a language model's last layer, without ever holding its (N, V) logits.

With N = 2,048 tokens and GPT-2's V = 50,257 the logits are 400 MB, and their gradient as much again. Here a few hundred
tokens go through at a time: their logits, their loss and their share of the gradient, then the same memory serves
the next. (The idea: Liger's FusedLinearCrossEntropy, Hsu and others, arXiv 2410.10989.)
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from minigrad.engine import as_tensor, is_recording, operation
from minigrad.losses import check_reduction, checked_targets
from minigrad.ops import index, place, reshape
from minigrad.threads import in_parts

LOGITS = 64 << 20  # bytes of logits held at a time
THREAD_SHARE = 1 << 16  # logits that are worth a second thread
BLOCK = 2048  # rows of the weight's gradient made at a time, so that no second array of its size is needed


def linear_cross_entropy(
    hidden: Any, weight: Any, targets: Any, ignore_index: int = -100, reduction: str = "mean"
) -> Any:
    """cross_entropy(hidden @ weight.T, targets), in a fraction of the memory.

    hidden: (..., C). weight: (V, C), often the embedding table itself ("tied"). targets: integers of hidden's leading
    shape, from 0 to V-1 or ignore_index; reduction: 'none', 'sum' or 'mean', all as in `cross_entropy`.

    The gradient is made on the way forward, while the logits are there. With Z = hidden @ weight.T, P = softmax(Z)
    and Y the one-hot rows of the targets, the sum of the losses has dL/dZ = P - Y, so

        dL/dhidden = (P - Y) @ weight   = P @ weight   - lookup(targets, weight)
        dL/dweight = (P - Y).T @ hidden = P.T @ hidden - scatter_add(targets, hidden)

    and the part that the targets play is an embedding's forward in the one, its backward in the other.

    It can be differentiated once (create_graph=True raises RuntimeError). With reduction 'none', or in a second
    backward over the same graph, the logits are computed again. Raises as `cross_entropy`, and ValueError for shapes
    that do not match.

    >>> from minigrad import Tensor
    >>> hidden = Tensor([[1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    >>> table = Tensor([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> linear_cross_entropy(hidden, table, [2, 1])
    tensor(1.1564, grad_fn=<_linear_cross_entropy>)
    """
    hidden, weight = as_tensor(hidden), as_tensor(weight)
    check_reduction(reduction)
    if weight.ndim != 2 or hidden.ndim == 0 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"hidden (..., C) and weight (V, C) must agree in C, got shapes {hidden.shape} and {weight.shape}"
        )
    if hidden.dtype != weight.dtype or hidden.dtype.kind != "f":
        raise RuntimeError(f"hidden and weight must be of one float dtype, got {hidden.dtype} and {weight.dtype}")
    targets, kept = checked_targets(targets, len(weight), ignore_index)
    if targets.shape != hidden.shape[:-1]:
        raise ValueError(f"hidden of shape {hidden.shape} needs targets of shape {hidden.shape[:-1]}, "
                         f"got {targets.shape}")
    wanted = tuple(is_recording() and x.requires_grad for x in (hidden, weight))
    shape, counted = targets.shape, np.flatnonzero(kept)
    hidden, targets = reshape(hidden, to=(kept.size, weight.shape[1])), targets.reshape(-1)[counted]
    if len(counted) < kept.size:
        hidden = index(hidden, key=counted)  # an ignored token costs nothing
    loss = _linear_cross_entropy(hidden, weight, targets, reduction=reduction, wanted=wanted)
    return reshape(place(loss, key=counted, to=(kept.size,)), to=shape) if reduction == "none" else loss


@operation(once_differentiable=True)
def _linear_cross_entropy(hidden, weight, targets, *, reduction, wanted):
    count = hidden.dtype.type(len(targets) if reduction == "mean" else 1)
    ahead = wanted if reduction != "none" else (False, False)  # 'none': what a loss weighs is known only later
    losses, gradients = _losses_and_gradients(hidden, weight, targets, 1 / count, ahead)
    return losses if reduction == "none" else losses.sum() / count, gradients


def _vjp(name):
    def vjp(g, hidden, weight, targets, extra, reduction):
        gradient = extra.pop(name, None)
        if gradient is None:  # 'none', or a second backward
            weights = g.data / (len(targets) if reduction == "mean" else 1)
            wanted = name == "hidden", name == "weight"
            _, gradients = _losses_and_gradients(hidden.data, weight.data, targets, weights, wanted)
            gradient = gradients[name]
        elif g.data != 1:
            gradient *= g.data  # in place: it is given away here, and nobody else holds it
        return as_tensor(gradient)
    return vjp


_linear_cross_entropy.vjp(_vjp("hidden"), _vjp("weight"), None)


def _losses_and_gradients(
    hidden: np.ndarray, weight: np.ndarray, targets: np.ndarray, share: Any, wanted: tuple[bool, bool]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The loss of each token, and the gradients of the sum of share * loss (share: a number, or one for each)."""
    (N, C), V = hidden.shape, len(weight)
    share = np.broadcast_to(np.asarray(share, hidden.dtype), N)[:, None]
    losses = np.empty(N, hidden.dtype)
    gradients = {}
    if wanted[0]:
        gradients["hidden"] = np.empty_like(hidden)
    if wanted[1]:
        gradients["weight"] = np.empty_like(weight) if N else np.zeros_like(weight)
    chunks = max(1, math.ceil(N * V * hidden.itemsize / LOGITS))
    chunk = max(1, math.ceil(N / chunks))  # tokens; of equal chunks none is small
    buffer = np.empty((chunk, V), hidden.dtype)
    block = np.empty((min(BLOCK, V), C), hidden.dtype)
    for start in range(0, N, chunk):
        part = slice(start, start + chunk)
        h, y = hidden[part], targets[part]
        z = np.matmul(h, weight.T, out=buffer[:len(h)])
        losses[part], sums = _exponentials(z, y)
        z[np.arange(len(y)), y] -= sums  # P - Y = z / sums; with P near 1 at the target nothing is lost this way
        scale = share[part] / sums[:, None]  # dividing the C numbers of a token, not its V
        if wanted[0]:
            dh = np.matmul(z, weight, out=gradients["hidden"][part])
            dh *= scale
        if wanted[1]:
            _add_product(gradients["weight"], z, h * scale, block, first=start == 0)
    return losses, gradients


def _exponentials(z: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(losses, sums): z becomes e^(z - max) in place, row by row, and sums are its rows' sums."""
    losses, sums = np.empty(len(z), z.dtype), np.empty(len(z), z.dtype)

    def rows(start: int, stop: int) -> None:
        for n in range(start, stop):  # one row fits the cache, so only the first of these passes reads memory
            row = z[n]
            row -= row.max()
            at_target = row[targets[n]]
            np.exp(row, out=row)
            sums[n] = row.sum()
            losses[n] = np.log(sums[n]) - at_target

    in_parts(rows, len(z), at_least=1 + THREAD_SHARE // z.shape[1])
    return losses, sums


def _add_product(out: np.ndarray, z: np.ndarray, h: np.ndarray, block: np.ndarray, first: bool) -> None:
    """out += z.T @ h, a block of rows at a time; the first time it is written, not added to."""
    for start in range(0, len(out), len(block)):
        rows = slice(start, start + len(block))
        if first:
            np.matmul(z[:, rows].T, h, out=out[rows])
        else:
            product = np.matmul(z[:, rows].T, h, out=block[:len(out[rows])])
            out[rows] += product
