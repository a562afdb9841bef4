"""Module and Parameter: what a model learns, found by name.

A Module is an object whose attributes are Parameters, other Modules, or lists of these; nothing is registered, the
attributes are read when someone asks. Names are torch's: `wte.weight`, `blocks.0.bias`.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from minigrad.engine import array_of
from minigrad.tensor import Tensor


class Parameter(Tensor):
    """A Tensor that a Module learns: it requires a gradient unless told otherwise.

    data: a Tensor or an array of floats, whose memory it shares (as torch's does), or nested lists.

    >>> Parameter([1.0, 2.0])
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True):
        if not isinstance(data, (Tensor, np.ndarray)):
            data = Tensor(data)
        array = data.data if isinstance(data, Tensor) else data
        if array.dtype.kind not in "biuf":
            raise TypeError(f"a Parameter holds numbers, got an array of {array.dtype}")
        self._set(array)
        if isinstance(data, Tensor):
            self._version = data._version  # the same memory
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Keys(NamedTuple):
    """What `load_state_dict` could not match; both empty unless strict=False."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not any(self):
            return "<All keys matched successfully>"
        return f"Keys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Module:
    """A part of a model: parameters and other modules as attributes, and a `forward`.

    >>> class Shift(Module):
    ...     def __init__(self):
    ...         self.by = Parameter([1.0, 2.0])
    ...     def forward(self, x):
    ...         return x + self.by
    >>> shift = Shift()
    >>> shift(Tensor([1.0, 1.0]))
    tensor([2., 3.], grad_fn=<add>)
    >>> shift.state_dict()
    {'by': tensor([1., 2.])}
    """

    training = True

    def forward(self, *inputs: Any, **options: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return self.forward(*inputs, **options)

    # --- what it is made of ---

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside, each with its name."""
        return ((name, part) for name, part in self._parts() if isinstance(part, Module))

    def _parts(self) -> Iterator[tuple[str, Any]]:
        """The parameters and modules among the attributes, in the order in which they were set."""
        for name, value in vars(self).items():
            several = isinstance(value, (list, tuple))
            for key, part in ((f"{name}.{i}", v) for i, v in enumerate(value)) if several else ((name, value),):
                if isinstance(part, (Parameter, Module)):
                    yield key, part

    def modules(self) -> Iterator[Module]:
        """This module and all inside it, each once."""
        seen: dict[int, Module] = {}
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            if id(module) not in seen:
                seen[id(module)] = module
                yield module
                stack.extend(reversed([child for _, child in module.named_children()]))

    def named_parameters(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """(name, parameter); one that is shared comes once, under its first name, unless remove_duplicate=False."""
        seen: set[int] = set()
        for name, parameter in self._walk(prefix):
            if not remove_duplicate or id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter

    def _walk(self, prefix: str) -> Iterator[tuple[str, Parameter]]:
        dot = f"{prefix}." if prefix else ""
        own = sorted(self._parts(), key=lambda part: isinstance(part[1], Module))  # a module's own first, as in torch
        for name, part in own:
            if isinstance(part, Module):
                yield from part._walk(dot + name)
            else:
                yield dot + name, part

    def parameters(self) -> Iterator[Parameter]:
        """Each parameter once, however many modules share it: what an optimiser takes."""
        return (parameter for _, parameter in self.named_parameters())

    def zero_grad(self) -> None:
        """Every parameter forgets its gradient."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def train(self, mode: bool = True) -> Module:
        """Set `training` here and in every module inside; returns self."""
        for module in self.modules():
            module.training = bool(mode)
        return self

    def eval(self) -> Module:
        return self.train(False)

    # --- saving and loading ---

    def state_dict(self) -> dict[str, Tensor]:
        """Name to numbers, sharing the parameters' memory; a shared parameter is under each of its names."""
        return {name: parameter.detach() for name, parameter in self.named_parameters(remove_duplicate=False)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Keys:
        """Copy the numbers of `state_dict` into the parameters, cast to their dtypes.

        Values may be Tensors, arrays, or anything that NumPy reads as one (torch's tensors). The parameters stay the
        same objects. strict: every name must be on both sides.

        Raises RuntimeError that lists every missing and unexpected name and every shape that differs; nothing has
        been copied then. TypeError if state_dict is no mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        own = dict(self.named_parameters(remove_duplicate=False))
        keys = Keys([name for name in own if name not in state_dict], [name for name in state_dict if name not in own])
        arrays = {name: array_of(value) for name, value in state_dict.items() if name in own}
        problems = []
        for kind, names in zip(("Missing", "Unexpected"), keys):
            if strict and names:
                problems.append(f"{kind} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + ". ")
        for name, array in arrays.items():
            if array.dtype.kind not in "biuf":
                problems.append(
                    f'While copying the parameter named "{name}", expected a tensor or an array of numbers from '
                    f"checkpoint but received {type(state_dict[name])}"
                )
            elif array.shape != own[name].shape:
                problems.append(
                    f"size mismatch for {name}: copying a param with shape {array.shape} from checkpoint, "
                    f"the shape in current model is {own[name].shape}."
                )
        if problems:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        for name, array in arrays.items():
            own[name].data[...] = array
            own[name]._changed()
        return keys

    # --- printing ---

    def extra_repr(self) -> str:
        """What stands in the brackets of the repr, before the modules inside."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        if not children:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(children) + "\n)"
