"""backward and grad: the two doors to the walk back. One adds to the leaves' `.grad`, the other returns."""
from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from minigrad.engine import as_tensor, is_tensor, walk_back


def backward(out: Any, gradient: Any, retain_graph: bool, create_graph: bool) -> None:
    """Add dL/d(leaf) to the `.grad` of every leaf that `out` was made from (see Tensor.backward)."""
    seed = _seed(out, gradient, 0)
    for leaf, found, owned in walk_back([out], [seed], create_graph, retain_graph or create_graph):
        if not is_tensor(found) and found.deferred and leaf.grad is None:
            found, owned = found.to_dense(), True  # an ordinary gradient travels row-sparse, and is dense at the leaf
        if leaf.grad is None:
            if create_graph:
                leaf._grad = found * 1  # a new tensor, with the graph
            else:
                leaf._grad = found if owned or _may_borrow(found, seed) else found.copy()
        else:
            leaf._grad = _accumulated(leaf.grad, found, create_graph)


_borrowers: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # id(seed's memory) -> gradient


def _may_borrow(found: Any, seed: Any) -> bool:
    """Whether a row-sparse gradient may keep the seed's own memory for its rows, as torch's does.

    A copy would cost as much as the lookup. So that no two gradients share, a seed is lent to one at a time.
    """
    if is_tensor(found) or not found.rows.data.flags.writeable or not np.may_share_memory(found.rows.data, seed.data):
        return False
    memory = seed.data
    while isinstance(memory.base, np.ndarray):
        memory = memory.base
    return _borrowers.setdefault(id(memory), found) is found


def _accumulated(have: Any, found: Any, create_graph: bool) -> Any:
    """`.grad` with one more backward's gradient: in place if dense, touching only the rows of a row-sparse one.

    It stays row-sparse only where both are: with an ordinary (deferred) gradient it becomes dense, as in torch.
    """
    if not is_tensor(have):
        if is_tensor(found):
            have, found = found if create_graph else found.copy(), have
        elif found.deferred:
            have, found = found.to_dense(), have
        else:
            return have + found  # one after the other
    if create_graph or have.requires_grad:
        return have + (found if is_tensor(found) else found.to_dense())
    with np.errstate(all="ignore"):
        if is_tensor(found):
            have.data += found.data
        else:
            found.add_into(have.data)
    have._changed()
    return have


def _seed(out: Any, gradient: Any, number: int) -> Any:
    """dL/d(out) as a tensor of out's shape and dtype; 1 for a single entry."""
    if not is_tensor(out) or not out.requires_grad:
        raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
    if gradient is None:
        if out.size != 1:
            raise RuntimeError(f"grad can be implicitly created only for scalar outputs, this has shape {out.shape}")
        return as_tensor(np.ones_like(out.data))
    gradient = as_tensor(gradient)
    if gradient.shape != out.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{number}] has a shape of {gradient.shape} "
            f"and output[{number}] has a shape of {out.shape}."
        )
    return gradient if gradient.dtype == out.dtype else gradient.astype(out.dtype)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    create_graph: bool = False,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs` (a Tensor or several), returned, not added to `.grad`.

    grad_outputs: dL/d(output) for each output, of its shape; 1 where None. create_graph: the results can be
    differentiated again; retain_graph is on with it. Raises RuntimeError for an input that the outputs do not depend
    on; with allow_unused that one is None.

    >>> from minigrad import Tensor
    >>> x = Tensor(3.0, requires_grad=True)
    >>> (first,) = grad(x ** 3, x, create_graph=True)
    >>> (second,) = grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    outputs, inputs = as_list(outputs), as_list(inputs)
    gradients = as_list(grad_outputs) if grad_outputs is not None else [None] * len(outputs)
    if len(gradients) != len(outputs):
        raise ValueError(f"grad_outputs needs one for each of the {len(outputs)} outputs, got {len(gradients)}")
    for i, x in enumerate(inputs):
        if not x.requires_grad:
            raise RuntimeError(f"input {i}, of shape {x.shape}, does not require grad")
    seeds = [_seed(out, gradient, i) for i, (out, gradient) in enumerate(zip(outputs, gradients))]
    keep = create_graph if retain_graph is None else retain_graph
    results: list[Any] = []
    for i, (x, found, owned) in enumerate(walk_back(outputs, seeds, create_graph, keep, inputs)):
        if found is None:
            if not allow_unused:
                raise RuntimeError(f"no output depends on input {i} of shape {x.shape}; allow_unused=True gives None")
        elif not is_tensor(found) and found.deferred:
            found = found.to_dense()
        elif not create_graph and (not owned or any(found is other for other in results)):
            found = found.copy()  # an input named twice has two gradients
        results.append(found)
    return tuple(results)


def as_list(value: Any) -> list:
    """One tensor as a list of one, several as a list."""
    return [value] if is_tensor(value) or isinstance(value, (np.ndarray, float, int)) else list(value)
