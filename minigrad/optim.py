"""SGD, Adam and AdamW: how a gradient moves a parameter, with torch's defaults and numbers.

Each optimiser is one rule for a block of numbers (`_rule`): the gradient goes in, the parameter and what the optimiser
remembers of it change in place. The rest is the same for all. A dense gradient takes the rule over the parameter,
a block of rows at a time, so that its temporaries are small; a row-sparse one takes the named rows out, applies
the rule to them, and puts them back, so that a table of any length costs the same.
"""
from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from minigrad.engine import is_tensor
from minigrad.rows import RowSparse
from minigrad.threads import in_parts

BLOCK = 1 << 18  # numbers that a rule is applied to at a time: of fewer, threads wait for the interpreter between them


class Optimizer:
    """What SGD, Adam and AdamW share: the parameters, each once, and what is remembered of each.

    params: the Tensors to move (Module.parameters()); one that is given twice is stepped once. Options are attributes
    (`optimizer.lr = 0.01`) and may change between steps.

    Raises ValueError for no parameters, for one that is the result of an operation, and for options out of range;
    TypeError for what is no Tensor, and for options that are no numbers.
    """

    options: tuple[str, ...] = ()  # attributes that state_dict() keeps
    weight_decay: float

    def __init__(self, params: Iterable[Any]):
        params = [params] if is_tensor(params) else list(params)
        for i, p in enumerate(params):
            if not is_tensor(p):
                raise TypeError(f"an optimizer takes Tensors, parameter {i} is a {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError(f"can't optimize a non-leaf Tensor: parameter {i} is the result of an operation")
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        self.params = list({id(p): p for p in params}.values())
        self.steps = [0] * len(self.params)
        self.state: list[dict[str, np.ndarray]] = [{} for _ in self.params]

    def _set(self, **options: Any) -> None:
        """All of `options` as attributes, once they are checked."""
        self._check(options)
        for name in self.options:
            setattr(self, name, options[name])

    @staticmethod
    def _check(options: dict[str, Any]) -> None:
        """TypeError or ValueError for an option that no step could be taken with."""
        raise NotImplementedError

    @property
    def remembers(self) -> tuple[str, ...]:
        """The arrays of a parameter's shape that are kept from step to step; zeros at first."""
        return ()

    def _rule(self, step: int, sparse: bool, first: bool) -> Callable[..., None]:
        """update(gradient, parameter, *remembered) for the step-th step: changes all but the gradient in place.

        first: nothing was remembered before this step.
        """
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Forget the gradients: each parameter's `.grad` is None again."""
        for p in self.params:
            p.zero_grad()

    def step(self) -> None:
        """Move every parameter that has a gradient; one whose `.grad` is None stays, and so does its step count.

        Raises RuntimeError for weight_decay with a row-sparse gradient, before anything has moved.
        """
        for i, p in enumerate(self.params):
            if isinstance(p.grad, RowSparse) and self.weight_decay:
                raise RuntimeError(
                    f"weight_decay={self.weight_decay} moves every row, the gradient of parameter {i} (shape "
                    f"{p.shape}) names some: use weight_decay=0, or an Embedding with sparse=False"
                )
        for i, p in enumerate(self.params):
            if p.grad is None:
                continue
            self.steps[i] += 1
            sparse = isinstance(p.grad, RowSparse)
            rule = self._rule(self.steps[i], sparse, first=not self.state[i])
            for name in self.remembers:
                if name not in self.state[i]:
                    self.state[i][name] = np.zeros_like(p.data)
            arrays = [p.data, *(self.state[i][name] for name in self.remembers)]
            if sparse:
                self._step_rows(rule, p.grad, arrays)
            else:
                _over_blocks(rule, [p.grad.data, *arrays])
            p._changed()

    def _step_rows(self, rule: Callable[..., None], grad: RowSparse, arrays: list[np.ndarray]) -> None:
        _over_rows(rule, grad, arrays)

    def state_dict(self) -> dict[str, np.ndarray]:
        """All that the next step depends on, by name: what np.savez(path, **state) writes and np.load reads.

        The options, and for each parameter that was stepped ("0.", "1.", ... in the order given) its step count and
        what is remembered of it. The arrays are the optimiser's own: copy those that must not change with it.
        """
        state = {name: np.array(getattr(self, name)) for name in self.options}
        for i, (step, remembered) in enumerate(zip(self.steps, self.state)):
            if step and remembered.keys() >= set(self.remembers):  # momentum set since has no buffer yet
                state[f"{i}.step"] = np.array(step)
                state.update({f"{i}.{name}": remembered[name] for name in self.remembers})
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict()` was taken: the next step is the same to the last bit.

        Raises ValueError that names what is missing, unknown, out of range, or of another shape or dtype; nothing has
        changed then.
        """
        arrays = {name: np.asarray(value) for name, value in state.items()}
        stepped = [i for i in range(len(self.params)) if f"{i}.step" in arrays]
        expected = {name: (np.shape(getattr(self, name)), None) for name in self.options}
        for i in stepped:
            expected[f"{i}.step"] = (), None
            expected.update({f"{i}.{name}": (self.params[i].shape, self.params[i].dtype) for name in self.remembers})
        problems = [f"{name} is missing" for name in expected if name not in arrays]
        problems += [f"{name} is unknown" for name in arrays if name not in expected]
        for name in expected.keys() & arrays.keys():
            (shape, dtype), array = expected[name], arrays[name]
            if array.shape != shape or (dtype and array.dtype != dtype):
                problems.append(f"{name} is {array.dtype} {array.shape}, not {dtype or 'a number'} {shape}")
            elif name.endswith(".step") and not (array.dtype.kind in "iu" and array > 0):
                problems.append(f"{name} is {array}, not a count from 1")
        options = {name: arrays[name].tolist() for name in self.options if name in arrays}
        if not problems:
            try:
                self._check(options)
            except (TypeError, ValueError) as error:
                problems.append(str(error))
        if problems:
            raise ValueError(f"this state is not one of this {type(self).__name__}: " + "; ".join(sorted(problems)))
        self._set(**options)
        self.steps = [int(arrays[f"{i}.step"]) if i in stepped else 0 for i in range(len(self.params))]
        self.state = [
            {name: arrays[f"{i}.{name}"].copy() for name in self.remembers} if i in stepped else {}
            for i in range(len(self.params))
        ]


class SGD(Optimizer):
    """p -= lr * g; with momentum, g is replaced by a buffer b = momentum * b + g.

    weight_decay: adds weight_decay * p to the gradient. dampening: the buffer takes (1 - dampening) * g, but for the
    first time. nesterov: steps along g + momentum * b. With a row-sparse gradient only its rows move; but momentum
    moves every row that ever had a gradient, so there it is made dense (as it turns out in torch).

    >>> from minigrad import Tensor
    >>> p = Tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = SGD([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p
    tensor([0.8000, 1.6000], requires_grad=True)
    """

    options = ("lr", "momentum", "weight_decay", "dampening", "nesterov")
    lr: float
    momentum: float
    dampening: float
    nesterov: bool

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, weight_decay: float = 0,
        *, dampening: float = 0, nesterov: bool = False,
    ):  # fmt: skip
        super().__init__(params)
        self._set(lr=lr, momentum=momentum, weight_decay=weight_decay, dampening=dampening, nesterov=nesterov)

    @staticmethod
    def _check(options: dict[str, Any]) -> None:
        for name in ("lr", "momentum", "weight_decay"):
            _demand_number(name, options[name])
        _demand_number("dampening", options["dampening"], np.finfo(float).min, valid="any finite number is valid")
        if not isinstance(options["nesterov"], (bool, np.bool_)):
            raise TypeError(f"nesterov must be True or False, got {options['nesterov']!r}")
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    @property
    def remembers(self) -> tuple[str, ...]:
        return ("momentum_buffer",) if self.momentum else ()

    def _rule(self, step: int, sparse: bool, first: bool) -> Callable[..., None]:
        lr, momentum, decay = float(self.lr), float(self.momentum), float(self.weight_decay)
        taken = 1 if first else 1 - float(self.dampening)

        def update(g, p, buffer=None):
            if decay:
                g = g + decay * p
            if buffer is not None:
                buffer *= momentum
                buffer += g if taken == 1 else taken * g
                g = g + momentum * buffer if self.nesterov else buffer
            p -= lr * g

        return update

    def _step_rows(self, rule: Callable[..., None], grad: RowSparse, arrays: list[np.ndarray]) -> None:
        if self.remembers:
            _over_blocks(rule, [grad.to_dense().data, *arrays])
        else:
            super()._step_rows(rule, grad, arrays)


class Adam(Optimizer):
    """p -= lr * m / (sqrt(v) + eps), m and v running means of the gradient and of its square.

    m = beta1 m + (1 - beta1) g and v = beta2 v + (1 - beta2) g^2 start at 0; dividing them by 1 - beta^step makes up
    for that. weight_decay: adds weight_decay * p to the gradient. With a row-sparse gradient only its rows move, and
    only their m and v change, as in torch's SparseAdam: equal ids are summed first, the step counts for all rows,
    and eps is added before v is corrected.

    Source: Kingma and Ba, arXiv 1412.6980.

    >>> from minigrad import Tensor
    >>> p = Tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = Adam([p], lr=0.1)
    >>> (p * p).sum().backward()
    >>> optimizer.step()
    >>> p  # at the first step m / sqrt(v) is the sign of the gradient
    tensor([0.9000, 1.9000], requires_grad=True)
    """

    options: tuple[str, ...] = ("lr", "betas", "eps", "weight_decay")
    lr: float
    betas: tuple[float, float]
    eps: float
    decoupled = False

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0,
    ):  # fmt: skip
        super().__init__(params)
        self._set(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    @staticmethod
    def _check(options: dict[str, Any]) -> None:
        for name in ("lr", "eps", "weight_decay"):
            _demand_number(name, options[name])
        betas = options["betas"]
        if not isinstance(betas, (tuple, list)):
            raise TypeError(f"betas must be two numbers, (beta1, beta2), got {betas!r}")
        if len(betas) != 2:
            raise ValueError(f"Invalid betas: {betas!r}; two numbers, (beta1, beta2), are valid")
        for i, beta in enumerate(betas):
            _demand_number(f"beta parameter at index {i}", beta, below=1, valid="0 or more, and less than 1, is valid")

    @property
    def remembers(self) -> tuple[str, ...]:
        return "exp_avg", "exp_avg_sq"

    def _rule(self, step: int, sparse: bool, first: bool) -> Callable[..., None]:
        beta1, beta2 = map(float, self.betas)
        decay, shrink = float(self.weight_decay), 1 - float(self.lr) * float(self.weight_decay)
        size = float(self.lr) / (1 - beta1 ** step)
        correction = math.sqrt(1 - beta2 ** step)
        eps = float(self.eps) / (correction if sparse else 1)

        def update(g, p, m, v):
            if decay and self.decoupled:
                p *= shrink
            elif decay:
                g = g + decay * p
            t = g - m  # the one temporary, written over and over: fresh memory is slow to touch
            t *= 1 - beta1
            m += t
            v *= beta2
            np.multiply(g, 1 - beta2, out=t)
            t *= g
            v += t
            np.sqrt(v, out=t)
            t /= correction
            t += eps
            np.divide(m, t, out=t)
            t *= size
            p -= t

        return update


class AdamW(Adam):
    """Adam whose weight_decay is apart from the gradient: first p *= 1 - lr * weight_decay, then Adam's step.

    Source: Loshchilov and Hutter, arXiv 1711.05101.
    """

    decoupled = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ):  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay)


def _over_blocks(update: Callable[..., None], arrays: list[np.ndarray]) -> None:
    """update(*arrays), a block of rows at a time."""
    views = [np.atleast_1d(array) for array in arrays]
    rows = _rows_in_a_block(views[0])

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, rows):
            update(*[view[first:min(first + rows, stop)] for view in views])

    in_parts(work, len(views[0]), at_least=rows)


def _over_rows(update: Callable[..., None], grad: RowSparse, arrays: list[np.ndarray]) -> None:
    """update(gradient, *arrays) for the rows that `grad` names, each row once."""
    grad = grad.coalesce()
    ids, gradient = grad.ids, grad.rows.data
    rows = _rows_in_a_block(gradient)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, rows):
            part = slice(first, min(first + rows, stop))
            taken = [array[ids[part]] for array in arrays]
            update(gradient[part], *taken)
            for array, values in zip(arrays, taken):
                array[ids[part]] = values

    in_parts(work, len(ids), at_least=rows)


def _rows_in_a_block(array: np.ndarray) -> int:
    return max(1, BLOCK // max(1, math.prod(array.shape[1:])))


def _demand_number(
    name: str, value: Any, least: float = 0, below: float = math.inf, valid: str = "0 or more is valid"
) -> None:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not least <= float(value) < below:
        raise ValueError(f"Invalid {name}: {value}; {valid}")
