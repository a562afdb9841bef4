"""Embedding: a table with a row a token. Looking a row up is all of the forward pass."""
from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from minigrad import Module, Parameter, Tensor, functional, random
from minigrad.lookup_options import OptionError, check_flags, check_max_norm, checked_padding


class Embedding(Module):
    """A table of `num_embeddings` (V) vectors of width `embedding_dim` (C), looked up by id: torch.nn.Embedding.

    padding_idx: this row starts as zeros and gets no gradient from lookups; -1 is the last row.
    max_norm, norm_type: before each lookup the rows it names are scaled, in place, to a norm of at most max_norm.
    scale_grad_by_freq: each id's gradient is divided by how often it stands in the ids of the call.
    sparse: `weight.grad` is a RowSparse, of the rows looked up only.
    std: the table is drawn from N(0, std^2), with torch's own numbers after the same manual_seed; GPT-2's is 0.02.
    dtype: float32 or float64.

    Call it with ids of any integer dtype and shape; the result is ids.shape + (C,). `weight` is the (V, C) Parameter.

    Raises TypeError for a size that is no integer or a flag that is no bool, ValueError (OptionError) for sizes or
    options that make no sense.
    A call raises as functional.embedding.

    >>> layer = Embedding.from_pretrained(np.array([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]], np.float32), freeze=False)
    >>> layer
    Embedding(3, 2)
    >>> out = layer([[2, 0, 2]])
    >>> out.data
    array([[[2. , 2.5],
            [0. , 0.5],
            [2. , 2.5]]], dtype=float32)
    >>> out.sum().backward()
    >>> layer.weight.grad
    tensor([[1., 1.],
            [0., 0.],
            [2., 2.]])
    """

    refused_options: tuple[str, ...] = ()

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        *,
        std: float = 1.0,
        dtype: Any = np.float32,
        _weight: Any = None,
        _freeze: bool = False,
    ):
        for name, size in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if not isinstance(size, Integral) or isinstance(size, bool):
                raise TypeError(f"{name} must be an integer, got {size!r}")
            if size < 0:
                raise OptionError(f"{name} is a negative dimension: {size}")
        self.num_embeddings, self.embedding_dim = int(num_embeddings), int(embedding_dim)
        self.padding_idx = None if padding_idx is None else checked_padding(padding_idx, num_embeddings)
        check_flags(scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, freeze=_freeze)
        if max_norm is not None:
            check_max_norm(max_norm, norm_type)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse, self.std = scale_grad_by_freq, sparse, std
        for name in self.refused_options:
            if getattr(self, name):
                raise OptionError(f"{name} has no meaning for {type(self).__name__}: use Embedding")
        if _weight is None:
            self.weight = Parameter(self._drawn(dtype), requires_grad=not _freeze)
        elif tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise OptionError(
                f"Shape of weight does not match num_embeddings and embedding_dim: "
                f"{tuple(_weight.shape)} is not {(num_embeddings, embedding_dim)}"
            )
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **options: Any) -> Any:
        """A layer over an existing (V, C) table, a Tensor or an array, whose memory it shares.

        freeze: the table gets no gradient. options: those of the constructor but dtype, which is the table's; the
        padding row is left as it is. Raises OptionError for a table that is not 2-D.

        >>> table = np.zeros((3, 2), np.float32)
        >>> layer = Embedding.from_pretrained(table)
        >>> table[1] = 7
        >>> layer(1)
        tensor([7., 7.])
        """
        refuse_dtype(options)
        if not isinstance(embeddings, (Tensor, np.ndarray)):
            embeddings = Tensor(embeddings)
        if embeddings.ndim != 2:
            raise OptionError(
                f"Embeddings parameter is expected to be 2-dimensional, got shape {tuple(embeddings.shape)}"
            )
        layer = cls.__new__(cls)  # not cls(...): a subclass may take a config, and a table says its own size
        Embedding.__init__(layer, *embeddings.shape, **options, _weight=embeddings, _freeze=freeze)
        return layer

    def reset_parameters(self) -> None:
        """Draw the table anew from N(0, std^2); the padding row is zeros."""
        self.weight.data[...] = self._drawn(self.weight.dtype)
        self.weight._changed()

    def _drawn(self, dtype: Any) -> np.ndarray:
        table = random.normal(0.0, self.std, (self.num_embeddings, self.embedding_dim), dtype=dtype)
        if self.padding_idx is not None:
            table[self.padding_idx] = 0
        return table

    def forward(self, ids: Any) -> Tensor:
        return functional.embedding(
            ids, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        options = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "sparse": False}
        values = [(name, getattr(self, name)) for name, default in options.items() if getattr(self, name) != default]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *(f"{n}={v}" for n, v in values)])


def refuse_dtype(options: dict[str, Any]) -> None:
    """TypeError for a dtype among the options of `from_pretrained`, which is given a table that has one."""
    if "dtype" in options:
        raise TypeError(f"the table has its own dtype: give it as {options['dtype']} instead of asking for it here")
