"""EmbeddingBag: a table whose rows are looked up in groups, each group at once its sum, mean or maximum."""
from __future__ import annotations

from typing import Any

import numpy as np

from embedding.embedding import Embedding, refuse_dtype
from minigrad import Tensor, functional
from minigrad.bags import check_mode
from minigrad.lookup_options import check_flags


class EmbeddingBag(Embedding):
    """A table of `num_embeddings` (V) rows of width `embedding_dim` (C), read in bags: torch.nn.EmbeddingBag.

    mode: "mean", "sum" or "max" over the rows of a bag.
    include_last_offset: the offsets end with the number of ids.
    padding_idx: this row starts as zeros, and the id is left out of every bag; -1 is the last row.
    The others as in Embedding; scale_grad_by_freq and sparse not with "max".

    Call it with ids (B, T), a bag a row, or with ids (N,) and offsets (B,), where each bag begins; and in mode "sum"
    with per_sample_weights, a factor for each id. The result is (B, C).

    Raises TypeError for a size that is no integer or a flag that is no bool, ValueError (OptionError) for sizes or
    options that make no sense.
    A call raises as functional.embedding_bag.

    >>> layer = EmbeddingBag.from_pretrained(np.array([[0.0, 0.5], [1.0, 1.5], [2.0, 2.5]], np.float32), mode="sum")
    >>> layer
    EmbeddingBag(3, 2, mode='sum')
    >>> layer([[2, 0], [1, 1]])
    tensor([[2., 3.],
            [2., 3.]])
    >>> layer([2, 0, 1], offsets=[0, 2])
    tensor([[2.0000, 3.0000],
            [1.0000, 1.5000]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        std: float = 1.0,
        dtype: Any = np.float32,
        _freeze: bool = False,
    ):
        check_flags(scale_grad_by_freq=scale_grad_by_freq, sparse=sparse, include_last_offset=include_last_offset)
        check_mode(mode, scale_grad_by_freq, sparse)
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            std=std, dtype=dtype, _weight=_weight, _freeze=_freeze,
        )  # fmt: skip
        self.mode, self.include_last_offset = mode, include_last_offset

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, **options: Any) -> Any:
        """A layer over an existing (V, C) table, a Tensor or an array, whose memory it shares; as Embedding's."""
        refuse_dtype(options)
        table = Embedding.from_pretrained(embeddings, freeze).weight
        return cls(len(table), table.shape[1], **options, _weight=table, _freeze=freeze)

    def forward(self, ids: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        return functional.embedding_bag(
            ids, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse,
            per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        options = {"max_norm": None, "norm_type": 2, "scale_grad_by_freq": False, "mode": "", "padding_idx": None}
        values = [(name, getattr(self, name)) for name, default in options.items() if getattr(self, name) != default]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *(f"{n}={v!r}" for n, v in values)])
