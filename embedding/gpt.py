"""GPT-2's two ends: tokens and positions become vectors, and the same table turns vectors back into scores."""
from __future__ import annotations

from typing import Any

import numpy as np

from embedding.config import GPTConfig
from embedding.embedding import Embedding
from minigrad import Module, Parameter, Tensor

GPT2_STD = 0.02  # Radford et al. 2018, "Improving Language Understanding": weights drawn from N(0, 0.02)


class TokenEmbedding(Embedding):
    """The token table of a GPT, vocab_size (V) rows of width n_embd (C): ids (B, T) become vectors (B, T, C).

    options: those of Embedding; std=GPT2_STD draws the table as GPT-2's was.

    >>> tokens = TokenEmbedding(GPTConfig(vocab_size=10, n_embd=24), std=GPT2_STD)
    >>> tokens([[1, 2, 3]]).shape
    (1, 3, 24)
    """

    def __init__(self, config: GPTConfig, **options: Any):
        super().__init__(config.vocab_size, config.n_embd, **options)


class PositionalEmbedding(Embedding):
    """A learned vector for each position, block_size rows of width n_embd (C).

    Call it with the ids (..., T) whose places are wanted, or with T itself; the result is (T, C), the rows 0 to T-1,
    and broadcasts over the batch: `tokens(ids) + positions(ids)`.

    Raises ValueError for a sequence longer than the table or a T below 0, TypeError for a T that is no integer.

    >>> positions = PositionalEmbedding(GPTConfig(block_size=4, n_embd=12))
    >>> positions([[7, 8, 9]]).shape
    (3, 12)
    >>> positions(5)
    Traceback (most recent call last):
        ...
    ValueError: a sequence of 5 tokens is longer than the position table: block_size is 4
    """

    def __init__(self, config: GPTConfig, **options: Any):
        super().__init__(config.block_size, config.n_embd, **options)

    def forward(self, ids: Any) -> Tensor:
        if np.ndim(ids):
            length = np.shape(ids)[-1]
        elif isinstance(ids, (bool, np.bool_)) or not hasattr(ids, "__index__"):
            raise TypeError(f"positions are asked for by ids (..., T) or by the integer T, got {ids!r}")
        else:
            length = ids.__index__()
        if length < 0:
            raise ValueError(f"a sequence of {length} tokens makes no sense")
        if length > self.num_embeddings:
            raise ValueError(
                f"a sequence of {length} tokens is longer than the position table: block_size is {self.num_embeddings}"
            )
        return super().forward(np.arange(length))


class InputEmbedding(Module):
    """What a GPT's first block reads: token vector plus position vector, ids (..., T) to (..., T, C).

    The parameters have GPT-2's names, `wte.weight` and `wpe.weight`. options: those of Embedding, for both tables.

    >>> InputEmbedding(GPTConfig(vocab_size=10, block_size=4, n_embd=12))
    InputEmbedding(
      (wte): TokenEmbedding(10, 12)
      (wpe): PositionalEmbedding(4, 12)
    )
    """

    def __init__(self, config: GPTConfig, **options: Any):
        self.wte = TokenEmbedding(config, **options)
        self.wpe = PositionalEmbedding(config, **options)

    def forward(self, ids: Any) -> Tensor:
        if np.ndim(ids) == 0:
            raise ValueError(f"ids are sequences, (..., T); got the single id {ids!r}")
        return self.wte(ids) + self.wpe(np.shape(ids)[-1])


class TiedHead(Module):
    """Scores for the next token from the token table itself: hidden (..., C) to logits (..., V), h @ W.T.

    Its weight *is* the table, one Parameter with two uses, whose gradient is the sum of both. Source: Press and Wolf,
    arXiv 1608.05859.

    >>> tokens = TokenEmbedding(GPTConfig(vocab_size=10, n_embd=12))
    >>> head = TiedHead(tokens)
    >>> head.weight is tokens.weight, head(tokens([[1, 2]])).shape
    (True, (1, 2, 10))
    """

    def __init__(self, token_embedding: Embedding):
        self.weight: Parameter = token_embedding.weight

    def forward(self, hidden: Any) -> Tensor:
        return hidden @ self.weight.T

    def extra_repr(self) -> str:
        return f"in_features={self.weight.shape[1]}, out_features={self.weight.shape[0]}, tied"
