"""Tensor: an array that remembers how it was made."""
from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.conventions import holds_arrays, numpy_names, sizes_of
from minigrad.engine import array_of, tensor_class
from minigrad.gelu import gelu
from minigrad.gradients import backward
from minigrad.printing import tensor_text
from minigrad.rows import RowSparse


@tensor_class
class Tensor:
    """An n-dimensional array of numbers which, if it requires a gradient, remembers how it was computed.

    data: nested lists, numbers, an array (copied) or a Tensor. dtype: lists of Python floats become float32, arrays
    keep theirs. `.data` is the NumPy array, `.grad` the gradient that `backward()` added up: a Tensor, or a
    RowSparse where an Embedding has sparse=True.

    Raises RuntimeError if a gradient is asked for integers or bools, TypeError for what is not numbers.

    >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    """

    __slots__ = ("data", "_grad", "_requires_grad", "_node", "_version", "__weakref__")
    __array_ufunc__ = None  # array * tensor: NumPy leaves it to Tensor.__rmul__
    __hash__ = object.__hash__  # by identity, though == compares numbers

    def __init__(self, data: Any, requires_grad: bool = False, dtype: Any = None):
        array = np.array(data.data if isinstance(data, Tensor) else data, dtype=dtype)  # a copy, always
        if dtype is None and array.dtype == np.float64 and not holds_arrays(data):
            array = array.astype(np.float32)  # Python's floats have no dtype of their own
        if array.dtype.kind not in "biuf":
            raise TypeError(f"a Tensor holds floats, integers or bools, got {array.dtype} from {type(data).__name__}")
        self._set(array)
        self.requires_grad = requires_grad

    def _set(self, array: np.ndarray) -> None:
        self.data: np.ndarray = array
        self._grad: Tensor | RowSparse | None = None
        self._requires_grad, self._node = False, None
        self._version = [0]  # how often the memory was written into; a view and its base share the list

    @classmethod
    def _wrap(cls, array: np.ndarray) -> Tensor:
        """A Tensor over this very array, without the copy."""
        tensor = Tensor.__new__(Tensor)
        tensor._set(array)
        return tensor

    # --- what it is ---

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)
    ndim = property(lambda self: self.data.ndim)
    size = property(lambda self: self.data.size)
    is_leaf = property(lambda self: self._node is None)

    @property
    def requires_grad(self) -> bool:
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and self.data.dtype.kind != "f":
            raise RuntimeError(f"only tensors of floating point dtype can require gradients, this one is {self.dtype}")
        if not value and self._node is not None:
            raise RuntimeError("only a leaf can stop requiring a gradient; use detach() on the result of an operation")
        self._requires_grad = bool(value)

    @property
    def grad(self) -> Any:
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, (Tensor, RowSparse)):
                raise TypeError(f"a gradient is a Tensor, a RowSparse or None, got {type(value).__name__}")
            if value.shape != self.shape or value.dtype != self.dtype:
                raise RuntimeError(
                    f"a gradient has its tensor's shape and dtype: assigned {value.shape} {value.dtype} "
                    f"to a tensor of {self.shape} {self.dtype}"
                )
        self._grad = value

    def __repr__(self) -> str:
        history = f"grad_fn=<{self._node.operation.name}>" if self._node else "requires_grad=True"
        return tensor_text(self.data, [history] if self._requires_grad else [])

    def numpy(self) -> np.ndarray:
        """The array itself, shared. RuntimeError where that would lose the gradient: use detach().numpy()."""
        if self._requires_grad:
            raise RuntimeError("Can't call numpy() on a Tensor that requires grad, nor a function of NumPy's: "
                               "the gradient would be lost. Use tensor.detach().numpy() instead.")
        return self.data

    def item(self) -> float:
        """The one number of a tensor of one entry."""
        if self.size != 1:
            raise ValueError(f"item() takes a tensor of one entry, this one has shape {self.shape}")
        return self.data.item()

    def tolist(self) -> Any: return self.data.tolist()

    def detach(self) -> Tensor:
        """The same numbers (the same array) without their history."""
        same = Tensor._wrap(self.data)
        same._version = self._version
        return same

    def copy(self) -> Tensor:
        """The same numbers in an array of their own, without history."""
        return Tensor._wrap(self.data.copy())

    def astype(self, dtype: Any) -> Tensor:
        return ops.astype(self, dtype=np.dtype(dtype))

    def _changed(self) -> None:
        """Whoever writes into .data says so here: a backward that needs the old numbers then refuses."""
        self._version[0] += 1

    __float__ = lambda self: float(self.item())
    __int__ = lambda self: int(self.item())
    __bool__ = lambda self: bool(self.item())
    __index__ = lambda self: operator.index(self.item())

    def __format__(self, spec: str) -> str:
        """f"{loss:.2f}" formats the number of a tensor of one entry."""
        return format(self.item(), spec) if spec else repr(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy() if dtype is None else self.numpy().astype(dtype, copy=False)
        return array.copy() if copy and array is self.data else array

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return len(self.data)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __deepcopy__(self, memo: dict) -> Tensor:
        if self._node is not None:
            raise RuntimeError("only a leaf can be deep-copied: the result of an operation would lose its history")
        copy = type(self).__new__(type(self))
        copy._set(self.data.copy())
        copy._requires_grad = self._requires_grad
        copy._grad = None if self._grad is None else self._grad.copy()
        memo[id(self)] = copy
        return copy

    def __reduce__(self):
        if self._node is not None:
            raise RuntimeError("only a leaf can be pickled: the result of an operation would lose its history")
        return type(self), (self.data, self._requires_grad)

    # --- gradients ---

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add to the `.grad` of every leaf this was made from.

        gradient: dL/d(this), of this shape; 1 for a tensor of one entry. retain_graph: keep what a second backward
        needs. create_graph: record the walk itself, so that the gradients can be differentiated.

        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> (x * 3).backward(Tensor([1.0, 10.0]))
        >>> x.grad
        tensor([ 3., 30.])
        """
        backward(self, gradient, retain_graph, create_graph)

    def zero_grad(self) -> None:
        """Forget the gradient: `.grad` is None again."""
        self._grad = None

    # --- operators ---

    def __add__(self, other): return ops.add(self, _operand(other))
    def __sub__(self, other): return ops.sub(self, _operand(other))
    def __mul__(self, other): return ops.mul(self, _operand(other))
    def __truediv__(self, other): return ops.div(self, _operand(other))
    def __pow__(self, other): return ops.power(self, _operand(other))
    def __matmul__(self, other): return ops.matmul(self, _operand(other))
    def __radd__(self, other): return ops.add(_operand(other), self)
    def __rsub__(self, other): return ops.sub(_operand(other), self)
    def __rmul__(self, other): return ops.mul(_operand(other), self)
    def __rtruediv__(self, other): return ops.div(_operand(other), self)
    def __rpow__(self, other): return ops.power(_operand(other), self)
    def __rmatmul__(self, other): return ops.matmul(_operand(other), self)
    def __neg__(self): return ops.neg(self)
    def __abs__(self): return ops.absolute(self)

    # comparisons give arrays of bools: a truth value has no gradient
    def __eq__(self, other): return self.data == array_of(other)
    def __ne__(self, other): return self.data != array_of(other)
    def __lt__(self, other): return self.data < array_of(other)
    def __le__(self, other): return self.data <= array_of(other)
    def __gt__(self, other): return self.data > array_of(other)
    def __ge__(self, other): return self.data >= array_of(other)

    def __getitem__(self, key: Any) -> Tensor:
        """NumPy's indexing; ids in `key` may be negative, unlike a lookup's. A cell read twice gets both gradients."""
        parts = key if isinstance(key, tuple) else (key,)  # copied: they may change before the backward
        parts = tuple(np.array(array_of(p)) if isinstance(p, (Tensor, list, np.ndarray)) else p for p in parts)
        parts = tuple(p.astype(int) if isinstance(p, np.ndarray) and p.size == 0 else p for p in parts)  # x[[]]
        return ops.index(self, key=parts if isinstance(key, tuple) else parts[0])

    def exp(self) -> Tensor: return ops.exp(self)
    def log(self) -> Tensor: return ops.log(self)
    def sqrt(self) -> Tensor: return ops.sqrt(self)
    def tanh(self) -> Tensor: return ops.tanh(self)
    def sigmoid(self) -> Tensor: return ops.sigmoid(self)
    def relu(self) -> Tensor: return ops.relu(self)
    def gelu(self, approximate: str = "none") -> Tensor: return gelu(self, approximate)
    def abs(self) -> Tensor: return ops.absolute(self)

    @numpy_names
    def sum(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Over `dim`: None for all, an int, or several."""
        return ops.reduce_sum(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def mean(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """Over `dim`; of nothing, nan."""
        return ops.mean(self, dim, keepdim)

    @numpy_names
    def var(self, dim: Any = None, correction: int = 1, keepdim: bool = False) -> Tensor:
        """The unbiased variance over `dim`; correction=0 divides by the count."""
        return ops.var(self, dim=dim, keepdim=keepdim, correction=correction)

    @numpy_names
    def max(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The largest values (torch's `.values`). Equals share the gradient, but over one dim the first takes it."""
        return ops.reduce_max(self, dim=dim, keepdim=keepdim)

    @numpy_names
    def min(self, dim: Any = None, keepdim: bool = False) -> Tensor:
        """The smallest values; ties as in `max`."""
        return ops.reduce_min(self, dim=dim, keepdim=keepdim)

    def reshape(self, *sizes: Any) -> Tensor:
        return ops.reshape(self, to=sizes_of(sizes))

    def expand(self, *sizes: Any) -> Tensor:
        """Broadcast to `sizes`; -1 keeps a size."""
        sizes = sizes_of(sizes)
        own = (1,) * (len(sizes) - self.ndim) + self.shape
        return ops.expand(self, to=tuple(o if n == -1 else n for n, o in zip(sizes, own)))

    def sum_to_size(self, *sizes: Any) -> Tensor:
        """The transpose of `expand`: sum what broadcasting from `sizes` would have repeated."""
        return ops.sum_to_size(self, to=sizes_of(sizes))

    def permute(self, *dims: Any) -> Tensor:
        return ops.permute(self, order=sizes_of(dims))

    def transpose(self, *dims: Any) -> Tensor:
        """Two dims swapped (torch); all reversed without arguments, or a whole permutation (NumPy)."""
        dims = sizes_of(dims)
        if len(dims) == 2:
            return self.swapaxes(*dims)
        return self.permute(*(dims or range(self.ndim)[::-1]))

    @property
    def T(self) -> Tensor:
        return self.transpose()

    def swapaxes(self, dim0: int, dim1: int) -> Tensor:
        (a,), (b,) = ops.axes(dim0, self.ndim), ops.axes(dim1, self.ndim)
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.permute(*order)

    def squeeze(self, dim: Any = None) -> Tensor:
        """Without the axes of size 1 (all, or only those of `dim`)."""
        dims = ops.axes(dim, self.ndim)
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if not (n == 1 and i in dims)))

    def unsqueeze(self, dim: int) -> Tensor:
        """With a new axis of size 1 at `dim`."""
        (place,) = ops.axes(dim, self.ndim + 1)
        return self.reshape((*self.shape[:place], 1, *self.shape[place:]))


def _operand(value: Any) -> Any:
    """A list as the tensor it would make; numbers, arrays and tensors as they are."""
    return Tensor(value) if isinstance(value, (list, tuple)) else value
