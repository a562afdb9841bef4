"""OneHotEmbedding: the layer as mathematics has it, a one-hot vector times the table; for comparison.

Write p for the one-hot row of id v: 1 at v, 0 elsewhere. Then p @ W is row v of W, every other row having been
multiplied by 0: the lookup. And for the gradient g of that row, dL/dW = p^T g is a table with g in row v and zeros
elsewhere: the scatter-add. The lookup does the same without the N x V numbers, nearly all 0, of the one-hot rows.
"""
from __future__ import annotations

from typing import Any

from embedding.embedding import Embedding
from minigrad import Tensor, functional
from minigrad.ids import checked_ids
from minigrad.lookup_options import renormalise


class OneHotEmbedding(Embedding):
    """Embedding, computed as one_hot(ids) @ weight: the same values, the same gradient, N x V x C multiplications.

    It takes padding_idx, max_norm and norm_type too. Raises OptionError for scale_grad_by_freq and sparse: its
    gradient is that of a matrix product.

    >>> slow = OneHotEmbedding(5, 3)
    >>> quick = Embedding.from_pretrained(slow.weight)
    >>> bool((slow([4, 0]) == quick([4, 0])).all())
    True
    """

    refused_options = ("scale_grad_by_freq", "sparse")

    def forward(self, ids: Any) -> Tensor:
        ids = checked_ids(ids, self.num_embeddings)
        if self.max_norm is not None:
            renormalise(self.weight, ids, self.max_norm, self.norm_type)
        picks = functional.one_hot(ids, self.num_embeddings).astype(self.weight.dtype)  # ids.shape + (V,)
        if self.padding_idx is None:
            return picks @ self.weight
        padding = (ids == self.padding_idx)[..., None]
        return (picks * ~padding) @ self.weight + (picks * padding) @ self.weight.detach()
