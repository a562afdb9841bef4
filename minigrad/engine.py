"""The engine: how an operation is recorded, how the walk back runs, and who owns a gradient array.

No operation lives here. One is a forward with its backward right under it (see ops.py)::

    @operation
    def mul(a, b):                          # arrays in, array out
        return a * b
    mul.vjp(lambda g, b: g * b,             # g is dL/d(out), so dL/da = g b
            lambda g, a: g * a)             #                    dL/db = g a

The functions given to `vjp`, one for each input, are the vector-Jacobian products: from the gradient of the output to
the gradient of that input. They work on tensors, with minigrad's own operations, so a gradient can itself be
differentiated. Each *names* what it needs, and only what is named is kept from the forward pass:

    g       the gradient of the output (always the first)
    a, b    an input, by its name in the forward          out     the output
    shape   the shape of the input being differentiated   extra   what the forward returned beside its output
    and any keyword-only option of the forward, by its name.

Three rules that the rest of the project leans on:

* Broadcasting is undone here and nowhere else (`_fitted`): a vjp may return the broadcast shape.
* Ownership: a contribution is *owned* when the engine or the vjp made its array and nobody else holds it. The first
  contribution is kept as it came, the second is added out of place; only an owned array is added to in place or
  stored in `.grad`. So no two tensors share a gradient array and none shares the seed's (save one row-sparse
  gradient, see `_may_borrow` in gradients.py).
* No cycles: a node holds its output's array, never the output tensor, so a graph dies when its last name does.
"""
from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

_tensor: Any = None  # the class that results are wrapped in; tensor.py names it, so that nothing is imported upwards


def tensor_class(cls):
    """Class decorator by which tensor.py tells the engine what a result is wrapped in."""
    global _tensor
    _tensor = cls
    return cls


def is_tensor(value: Any) -> bool:
    return isinstance(value, _tensor)


def as_tensor(value: Any) -> Any:
    """`value` itself if it is a tensor, else a tensor over the array (shared, not copied)."""
    return value if isinstance(value, _tensor) else _tensor._wrap(np.asarray(value))


def array_of(value: Any) -> np.ndarray:
    """The plain numbers of a tensor, array or number: for masks and ids, which have no gradient."""
    return value.data if isinstance(value, _tensor) else np.asarray(value)


class _Mode(threading.local):  # one per thread, as in torch: a thread that only evaluates does not stop one that trains
    recording = True


_mode = _Mode()


def is_recording() -> bool:
    """Whether an operation in this thread is recorded now: not inside no_grad."""
    return _mode.recording


class no_grad(contextlib.ContextDecorator):
    """Nothing inside is recorded; results do not require a gradient. Also a decorator.

    >>> from minigrad import Tensor, no_grad
    >>> x = Tensor([1.0], requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self) -> None:
        self._records = False
        self._before: list[bool] = []  # a list, so that one object may be entered again inside itself

    def _recreate_cm(self):  # as a decorator: a new one for each call, so that threads do not share the list
        return type(self)()

    def __enter__(self) -> None:
        self._before.append(_mode.recording)
        _mode.recording = self._records

    def __exit__(self, *_: Any) -> None:
        _mode.recording = self._before.pop()


class recording(no_grad):
    """The walk back itself is recorded when, and only when, the caller asked for create_graph."""

    def __init__(self, on: bool):
        super().__init__()
        self._records = on


class Operation:
    """A forward on arrays and, for each input, its vector-Jacobian product. Made by `@operation`."""

    def __init__(self, forward: Callable, once_differentiable: bool = False):
        self.forward, self.name, self.__doc__ = forward, forward.__name__, forward.__doc__
        self.once_differentiable = once_differentiable
        parameters = inspect.signature(forward).parameters.values()
        self.inputs = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        self.defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
        self.vjps: list[tuple[Callable, list[str]] | None] = []
        self.has_extra = False

    def vjp(self, *functions: Callable | None) -> None:
        """Give the vector-Jacobian products, one for each input in order; None for ids and the like."""
        for function in functions:
            names = list(inspect.signature(function).parameters)[1:] if function else []
            self.vjps.append((function, names) if function else None)
            self.has_extra |= "extra" in names

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        arrays = [x.data if isinstance(x, _tensor) else x for x in inputs]
        with np.errstate(all="ignore"):  # 1/0 is inf and 0/0 is nan, without a warning, as in torch
            result = self.forward(*arrays, **options)
        result, extra = result if self.has_extra else (result, None)
        out = _tensor._wrap(np.asarray(result))
        if out.data.base is not None:  # perhaps a view, which changes when what it looks at does
            for x in inputs:
                if isinstance(x, _tensor) and np.may_share_memory(out.data, x.data):
                    out._version = x._version
        if _mode.recording and out.data.dtype.kind == "f" and any(
            isinstance(x, _tensor) and x.requires_grad and v for x, v in zip(inputs, self.vjps)
        ):
            out._node = Node(self, inputs, options, out, extra)
            out._requires_grad = True
        return out


def operation(forward: Callable | None = None, *, once_differentiable: bool = False):
    """Turn a function on arrays into an `Operation`; keyword-only parameters are its options.

    once_differentiable: the vjps compute on arrays, so create_graph=True through it is refused.

    >>> import numpy as np
    >>> from minigrad import Tensor
    >>> from minigrad.engine import operation
    >>> @operation
    ... def cube(a):
    ...     return a ** 3
    >>> cube.vjp(lambda g, a: g * 3 * a ** 2)
    >>> x = Tensor([2.0], requires_grad=True)
    >>> cube(x).backward()
    >>> x.grad
    tensor([12.])
    """
    if forward is None:
        return lambda function: Operation(function, once_differentiable)
    return Operation(forward, once_differentiable)


class Node:
    """One recorded operation: where its inputs came from, and what its vjps asked to keep.

    `parents[i]` is the Node that made input i, the input itself if it is a leaf, or None if it needs no gradient.
    """

    __slots__ = ("operation", "parents", "saved", "shape", "dtype", "__weakref__")

    def __init__(self, operation: Operation, inputs: Sequence, options: dict, out: Any, extra: Any):
        self.operation, self.shape, self.dtype = operation, out.data.shape, out.data.dtype
        self.parents = tuple(
            (x._node or x) if vjp and isinstance(x, _tensor) and x.requires_grad else None
            for x, vjp in zip(inputs, operation.vjps)
        )
        used = [vjp[1] for parent, vjp in zip(self.parents, operation.vjps) if vjp and parent is not None]
        needed = {name for names in used for name in names}
        values = {**operation.defaults, **options, "out": out.data, "extra": extra}  # the array: out holds this node
        for name, x in zip(operation.inputs, inputs):
            values[name] = np.array(x) if name in needed and isinstance(x, (np.ndarray, list)) else x
        # A tensor is kept with its version, so that a change in place before the way back is noticed; of an array, or
        # list, whose changes nobody counts, what is kept is a copy.
        self.saved: dict | None = {
            name: (value, value._version[0] if isinstance(value, _tensor) else None)
            for name, value in values.items() if name in needed
        }

    def value(self, name: str) -> Any:
        """What a vjp asked for by `name`, checked for changes in place."""
        if self.saved is None:
            raise RuntimeError(
                f"cannot go back through {self.operation.name!r} a second time: what it kept was freed by the first "
                "backward; pass retain_graph=True to that one"
            )
        value, version = self.saved[name]
        if version is not None and value._version[0] != version:
            raise RuntimeError(
                f"{name!r} of {self.operation.name!r}, of shape {value.shape}, was modified by an inplace operation "
                f"after it was used (version {value._version[0]} now, {version} then): its gradient would be wrong"
            )
        if name == "out":  # a new tensor at the same place of the graph
            value = _tensor._wrap(value)
            value._node, value._requires_grad = self, True
        return value

    def contributions(self, g: Any, owned: bool, wanted: Callable[[Any], bool]) -> Iterable[tuple[Any, Any, bool]]:
        """(parent, gradient, owned) for each parent that wants one, given the gradient of this node's output."""
        takers = [(p, vjp) for p, vjp in zip(self.parents, self.operation.vjps) if p is not None and vjp and wanted(p)]
        for parent, (function, names) in takers:
            kept = [parent.shape if name == "shape" else self.value(name) for name in names if name != "g"]
            gradient = _fitted(function(g, *kept), parent)
            yield parent, gradient, _is_owned(gradient, g, kept, owned and len(takers) == 1)


def _fitted(gradient: Any, parent: Any) -> Any:
    """`gradient` in its tensor's own shape and dtype: the one place where broadcasting is undone."""
    if gradient.shape != parent.shape:
        gradient = gradient.sum_to_size(parent.shape)
    return gradient if gradient.dtype == parent.dtype else gradient.astype(parent.dtype)


def _is_owned(gradient: Any, g: Any, kept: list, inherits: bool) -> bool:
    """Whether nobody else can hold this array: it is new, or it is g or a view of g, and `inherits` says g is ours.

    New is what is no view, not g itself, and nothing kept from the forward. g is handed on to a single parent only.
    """
    array = gradient.data if isinstance(gradient, _tensor) else gradient.rows.data
    if array.base is None and not any(array is getattr(x, "data", x) for x in (g, *kept)):
        return True
    return inherits and array.flags.writeable and np.may_share_memory(array, g.data)  # a broadcast view is read-only


def _sum(have: tuple[Any, bool] | None, new: tuple[Any, bool], create_graph: bool) -> tuple[Any, bool]:
    """The sum of two contributions (gradient, owned); a row-sparse one adds only its rows."""
    if have is None:
        return new
    (a, owned), (b, _) = have, new
    if not isinstance(a, _tensor) and not isinstance(b, _tensor):
        return a + b, True  # two row-sparse gradients: concatenated
    if not isinstance(a, _tensor):
        (a, owned), (b, _) = new, have  # the dense one first
    if create_graph:
        return a + b, False
    if isinstance(b, _tensor):
        return _tensor._wrap(np.asarray(np.add(a.data, b.data, out=a.data if owned else None))), True
    a = a if owned else _tensor._wrap(a.data.copy())
    b.add_into(a.data)
    return a, True


def _topological(roots: Iterable[Node]) -> list[Node]:
    """Every node the roots were made from, each after its parents.

    Depth first with a stack of our own: Python's would end at about a thousand operations.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in roots]
    while stack:
        node, parents_done = stack.pop()
        if parents_done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((p, False) for p in node.parents if isinstance(p, Node))
    return order


def walk_back(
    outputs: Sequence, seeds: Sequence, create_graph: bool, retain_graph: bool, inputs: Sequence | None = None
) -> list[tuple[Any, Any, bool]]:
    """From the outputs to the leaves (or to `inputs`): each node once, after all that used it.

    Returns (leaf or input, gradient or None, owned). What the nodes kept is freed unless retain_graph.
    """
    pending: dict[int, tuple[Any, bool]] = {}  # id(Node or leaf) -> (gradient so far, owned)
    with np.errstate(all="ignore"):
        for out, seed in zip(outputs, seeds):
            key = id(out._node or out)
            pending[key] = _sum(pending.get(key), (seed, False), create_graph)
    order = _topological(out._node for out in outputs if out._node)
    leaves = {id(out): out for out in outputs if not out._node}

    targets = {id(x._node or x) for x in inputs or ()}
    on_the_way = _leading_to(targets, order)
    arrived: dict[int, tuple[Any, bool]] = {}
    for node in reversed(order):
        if id(node) not in pending:
            continue
        g, owned = pending.pop(id(node))
        if id(node) in targets:
            arrived[id(node)] = (g, owned and id(node) not in on_the_way)
            if id(node) not in on_the_way:
                continue
        if create_graph and node.operation.once_differentiable:
            raise RuntimeError(f"{node.operation.name!r} can be differentiated once only: create_graph=True is refused")
        g = g if isinstance(g, _tensor) else g.to_dense()  # here somebody needs a row-sparse gradient dense
        owned = owned and id(node) not in targets  # else it is handed out as well
        with recording(create_graph), np.errstate(all="ignore"):
            for parent, gradient, fresh in node.contributions(
                g, owned, lambda p: inputs is None or id(p) in targets or id(p) in on_the_way
            ):
                if create_graph and not isinstance(gradient, _tensor):
                    gradient = gradient.to_dense()  # a gradient to be differentiated again is an ordinary tensor
                pending[id(parent)] = _sum(pending.get(id(parent)), (gradient, fresh), create_graph)
                if not isinstance(parent, Node):
                    leaves[id(parent)] = parent
        if not retain_graph and node.saved and not node.saved.keys() <= node.operation.defaults.keys():
            node.saved = None  # options alone cost nothing: x + x can be walked again
    if inputs is None:
        return [(leaf, *pending[key]) for key, leaf in leaves.items() if key in pending]
    arrived.update((key, value) for key, value in pending.items() if key in targets)
    return [(x, *arrived.get(id(x._node or x), (None, False))) for x in inputs]


def _leading_to(targets: set[int], order: list[Node]) -> set[int]:
    """The nodes from which some target can be reached: the walk leaves out all others."""
    on_the_way: set[int] = set()
    for node in order:
        if any(id(p) in targets or id(p) in on_the_way for p in node.parents if p is not None):
            on_the_way.add(id(node))
    return on_the_way
