"""linear_cross_entropy: the loss of a language model's last layer, without ever holding its (N, V) logits.

With N = 2,048 tokens and GPT-2's V = 50,257 the logits are 400 MB, and their gradient as much again. Here a few hundred
tokens, a chunk, go through at a time: their logits, their loss and their share of the gradient, then the same memory
serves the next. (The idea: Liger's FusedLinearCrossEntropy, Hsu and others, arXiv 2410.10989.)

A chunk's logits are worked through in blocks of columns (of the vocabulary) that fit the caches, in two passes (three
if the maximum must be found first): the first makes the exponentials and their sums, the second, which needs the sums,
both gradients. Each block's logits lie together in memory, for quick products; threads take different columns.
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from minigrad.engine import as_tensor, is_recording, operation
from minigrad.losses import check_reduction, checked_targets
from minigrad.ops import index, place, reshape
from minigrad.threads import in_parts, one_blas_thread

LOGITS = 64 << 20  # bytes of logits held at a time, if one token's are not more, and kept for the next call
TOKENS = 1024  # whose logits are held at a time, at most: of more a block would be a narrow strip
LINE = 64  # bytes of a cache line, where that memory begins: else every other vector read is in two of them
BLOCK = 1 << 19  # logits worked on at a time: they, and what they are made of, are in the caches
THREAD_SHARE = 1 << 16  # logits that are worth a second thread
STRETCHES = 32  # that the columns are cut into, for threads to share: a fixed number, for sums are made in each


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
    N, V = len(hidden), len(weight)
    share = np.broadcast_to(np.asarray(share, hidden.dtype), N)[:, None]
    losses = np.empty(N, hidden.dtype)
    d_hidden = np.empty_like(hidden) if wanted[0] else None
    d_weight = (np.empty_like(weight) if N else np.zeros_like(weight)) if wanted[1] else None
    most = max(1, min(TOKENS, LOGITS // max(1, V * hidden.itemsize)))  # tokens at a time, and
    chunk = max(1, math.ceil(N / max(1, math.ceil(N / most))))  # so many, for of equal chunks none is small
    buffer = _memory(chunk * V, hidden.dtype)
    exponentials = _small_exponentials if _are_small(hidden, weight) else _exponentials
    with one_blas_thread():
        for start in range(0, N, chunk):
            part = slice(start, start + chunk)
            h, y = hidden[part], targets[part]
            z, at_targets = buffer[:len(h) * V], _places(y, V)
            losses[part], sums = exponentials(h, weight, z, at_targets)
            z[at_targets] -= sums  # P - Y = z / sums; with P near 1 at the target nothing is lost this way
            scale = share[part] / sums[:, None]  # dividing the C numbers of a token, not its V
            dh = d_hidden[part] if d_hidden is not None else None
            both_products(z, h * scale, weight, dh, d_weight, first=start == 0)
            if dh is not None:
                dh *= scale
    if buffer.nbytes <= LOGITS:
        _kept[:] = [buffer]
    gradients = {"hidden": d_hidden, "weight": d_weight}
    return losses, {name: gradient for name, gradient in gradients.items() if gradient is not None}


_kept: list[np.ndarray] = []  # the memory of the last call, for the next: to touch fresh memory takes longer


def _memory(size: int, dtype: np.dtype) -> np.ndarray:
    """Memory for so many logits, whatever is in it. It is the caller's until it is put into `_kept`."""
    with contextlib.suppress(IndexError):  # nothing is kept, or another thread has it
        kept = _kept.pop()
        if kept.dtype == dtype and len(kept) >= size:
            return kept
        del kept  # before more is asked for
    memory = np.empty(size * dtype.itemsize + LINE, np.uint8)
    begin = -memory.ctypes.data % LINE
    return memory[begin:begin + size * dtype.itemsize].view(dtype)


def _exponentials(h: np.ndarray, weight: np.ndarray, z: np.ndarray, at_targets: np.ndarray) -> tuple[Any, Any]:
    """(losses, sums): z becomes e^(h @ weight.T - its row's maximum), and sums are its rows' sums."""
    maxima, sums = np.full((STRETCHES, len(h)), -np.inf, z.dtype), np.zeros((STRETCHES, len(h)), z.dtype)

    def products(stretch: int, columns: slice, block: np.ndarray) -> None:
        np.matmul(h, weight[columns].T, out=block)
        np.maximum(maxima[stretch], block.max(axis=1), out=maxima[stretch])

    def exponentials(stretch: int, columns: slice, block: np.ndarray) -> None:
        block -= maximum[:, None]
        np.exp(block, out=block)
        sums[stretch] += _row_sums(block)

    over_columns(products, z, len(h))
    maximum = maxima.max(axis=0)
    at_target = z[at_targets] - maximum
    over_columns(exponentials, z, len(h))
    total = sums.sum(axis=0)
    return np.log(total) - at_target, total


def _are_small(hidden: np.ndarray, weight: np.ndarray) -> bool:
    """Whether e^z is far from overflow, and from 0, for every logit z: for |z| <= |h| |w| (Cauchy and Schwarz).

    Then no maximum need be taken out of the logits: what it multiplies P and its sum by cancels. "Far" is such that
    sums of V of them, times a weight, and a hidden number divided by them, do not come near the limits either.
    """
    h, w = (math.sqrt(np.einsum("nc,nc->n", x, x).max(initial=0)) for x in (hidden, weight))
    largest = np.exp(h * w) * len(weight) * max(h, w, 1)
    return bool(largest < float(np.finfo(hidden.dtype).max) ** 0.75)  # 1e29 of 1e38 in float32; not so for nan


def _small_exponentials(h: np.ndarray, weight: np.ndarray, z: np.ndarray, at_targets: np.ndarray) -> tuple[Any, Any]:
    """The same without the maximum, where `_are_small`: z becomes e^(h @ weight.T), while a block is in the cache."""
    sums = np.zeros((STRETCHES, len(h)), z.dtype)

    def work(stretch: int, columns: slice, block: np.ndarray) -> None:
        np.matmul(h, weight[columns].T, out=block)
        np.exp(block, out=block)
        sums[stretch] += _row_sums(block)

    over_columns(work, z, len(h))
    total = sums.sum(axis=0)
    return 2 * np.log(np.sqrt(total) / np.sqrt(z[at_targets])), total  # without roots the quotient may overflow


def _row_sums(block: np.ndarray) -> np.ndarray:
    return block @ np.ones(block.shape[1], block.dtype)  # BLAS is quicker at it than block.sum(axis=1)


def both_products(
    z: np.ndarray, h: np.ndarray, weight: np.ndarray,
    d_hidden: np.ndarray | None, d_weight: np.ndarray | None, first: bool,
) -> None:
    """d_hidden = z @ weight, and d_weight += z.T @ h (= the first time); one that is None is not wanted."""
    sums = np.zeros((STRETCHES, *h.shape), h.dtype)

    def work(stretch: int, columns: slice, block: np.ndarray) -> None:
        if d_hidden is not None:
            sums[stretch] += block @ weight[columns]
        if d_weight is not None and first:
            np.matmul(block.T, h, out=d_weight[columns])
        elif d_weight is not None:
            d_weight[columns] += block.T @ h

    if d_hidden is not None or d_weight is not None:
        over_columns(work, z, len(h))
    if d_hidden is not None:
        sums.sum(axis=0, out=d_hidden)


def over_columns(work: Callable[[int, slice, np.ndarray], Any], z: np.ndarray, n: int) -> None:
    """work(stretch, columns, block) for every block of columns of n tokens' logits, in z (n*V,); block: (n, width).

    A stretch's blocks come in order, in one thread. What is summed over the columns is summed in each stretch, then
    over the stretches: in the same order for any number of threads.
    """
    stretches = _blocks(n, len(z) // max(1, n))

    def part(first: int, last: int) -> None:
        for stretch in range(first, last):
            for start, stop in pairwise(stretches[stretch]):
                work(stretch, slice(start, stop), z[n * start:n * stop].reshape(n, stop - start))

    in_parts(part, STRETCHES, at_least=max(1, STRETCHES * THREAD_SHARE // max(1, z.size)), turns=STRETCHES)


def _blocks(n: int, V: int) -> list[list[int]]:
    """For each stretch of the V columns where its blocks begin, and the stretch ends."""
    width = max(1, BLOCK // max(1, n))
    ends = [V * i // STRETCHES for i in range(STRETCHES + 1)]
    return [[*range(start, stop, width), stop] for start, stop in pairwise(ends)]


def _places(columns: np.ndarray, V: int) -> np.ndarray:
    """Where in z (n*V,) the logit of each of n tokens at its column is, as `over_columns` sets them out."""
    n = len(columns)
    edges = np.unique(np.concatenate(_blocks(n, V)))
    block = np.searchsorted(edges, columns, side="right") - 1
    start, stop = edges[block], edges[block + 1]
    return n * start + np.arange(n) * (stop - start) + columns - start
