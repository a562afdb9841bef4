"""gradcheck and gradgradcheck: is a backward the derivative of its forward? Asked of finite differences, in float64."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.engine import no_grad, recording
from minigrad.gradients import as_list, grad
from minigrad.tensor import Tensor


class GradcheckError(RuntimeError):
    """The backward and the finite differences disagree; the message says where, with both numbers."""


def gradcheck(
    fn: Callable,
    inputs: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """True if the gradients of fn(*inputs) are those of central differences, entry by entry.

    fn: takes the inputs, returns a Tensor or several. inputs: a Tensor or several; those that require a gradient are
    checked and must be float64 (in float32 the differences are mostly rounding). For every entry x_i of an input,
    (s(x_i + eps) - s(x_i - eps)) / 2 eps must be within atol + rtol * |expected| of ds/dx_i, where s is the
    outputs' dot product with fixed random numbers, so that no error in one output can hide behind another's.

    Raises GradcheckError naming the function, the input, the entry, what was got and what was expected (or returns
    False if not raise_exception); ValueError if no input requires a gradient or one is not float64.

    >>> from minigrad import Tensor
    >>> gradcheck(lambda x: (x * x).sum(), Tensor([1.0, 2.0], requires_grad=True, dtype="float64"))
    True
    """
    inputs = as_list(inputs)
    checked = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    if not checked:
        raise ValueError("gradcheck needs an input that requires a gradient")
    for i in checked:
        if inputs[i].dtype != np.float64:
            raise ValueError(f"gradcheck needs float64, input {i} is {inputs[i].dtype}: rounding would hide errors")
    outputs = as_list(fn(*inputs))
    generator = np.random.default_rng(0)
    cotangents = [generator.uniform(0.5, 1.5, out.shape) for out in outputs]
    differentiable = [(out, Tensor(c)) for out, c in zip(outputs, cotangents) if out.requires_grad]
    got: Sequence[Any] = [None] * len(checked)
    if differentiable:
        outs, seeds = zip(*differentiable)
        got = grad(outs, [inputs[i] for i in checked], grad_outputs=seeds, allow_unused=True)

    def projected(i: int, values: np.ndarray) -> float:
        with no_grad():
            moved = as_list(fn(*inputs[:i], Tensor(values), *inputs[i + 1:]))
        return sum(float((out.data * c).sum()) for out, c in zip(moved, cotangents))

    for i, gradient in zip(checked, got):
        x = inputs[i].data
        values = np.zeros(x.shape) if gradient is None else _dense(gradient)
        if values.shape != x.shape or (gradient is not None and gradient.dtype != x.dtype):
            raise GradcheckError(f"gradcheck of {_name(fn)}: input {i} is {x.shape}, its gradient {values.shape}")
        for entry in np.ndindex(*x.shape):
            step = np.zeros(x.shape)
            step[entry] = eps
            expected = (projected(i, x + step) - projected(i, x - step)) / (2 * eps)
            if not abs(values[entry] - expected) <= atol + rtol * abs(expected):  # `not <=` also catches nan
                if not raise_exception:
                    return False
                where = f"entry {entry} of shape {x.shape}" if entry else "the only entry"
                raise GradcheckError(
                    f"gradcheck of {_name(fn)}: input {i}, {where}: backward gives {values[entry]:.8g}, "
                    f"finite differences give {expected:.8g}"
                )
    return True


def gradgradcheck(fn: Callable, inputs: Any, **tolerances: Any) -> bool:
    """gradcheck of the gradient itself: second derivatives, in the inputs and in the gradient of the outputs.

    >>> from minigrad import Tensor
    >>> gradgradcheck(lambda x: (x * x * x).sum(), Tensor([1.0, 2.0], requires_grad=True, dtype="float64"))
    True
    """
    inputs = as_list(inputs)
    generator = np.random.default_rng(1)
    outputs = [out for out in as_list(fn(*inputs)) if out.requires_grad]
    seeds = [Tensor(generator.uniform(0.5, 1.5, out.shape), requires_grad=True) for out in outputs]

    def gradients(*inputs_and_seeds: Tensor) -> list[Tensor]:
        # the finite differences hand in constants and switch recording off; a first derivative needs both the other way
        xs = [x if isinstance(x, Tensor) and x.requires_grad else _as_leaf(x, like)
              for x, like in zip(inputs_and_seeds, [*inputs, *seeds])]
        with recording(True):
            outs = [out for out in as_list(fn(*xs[:len(inputs)])) if out.requires_grad]
            wanted = [x for x, like in zip(xs, inputs) if isinstance(like, Tensor) and like.requires_grad]
            found = grad(outs, wanted, xs[len(inputs):], create_graph=True, allow_unused=True)
        return [g for g in found if g is not None]

    gradients.__name__ = f"the gradient of {_name(fn)}"
    return gradcheck(gradients, [*inputs, *seeds], **tolerances)


def _as_leaf(value: Any, like: Any) -> Any:
    if isinstance(like, Tensor) and like.requires_grad:
        return Tensor(value, requires_grad=True)
    return value


def _dense(gradient: Any) -> np.ndarray:
    return (gradient if isinstance(gradient, Tensor) else gradient.to_dense()).data


def _name(fn: Callable) -> str:
    return getattr(fn, "__name__", None) or getattr(fn, "name", None) or repr(fn)
