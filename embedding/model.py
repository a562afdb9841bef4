"""The smallest model that trains an embedding table: some tokens in, the next one out (Bengio and others, 2003).

    ids (B, T)   rows of two tables   side by side    one hidden layer     the token table again
    [[ 464, ->   wte[id] + wpe[t] ->  (B, T*C)   ->   (B, H) -> (B, C) ->  scores (B, V), a loss
                                          |                        |
                                          +------- straight -------+

Nothing tells it that Monday and Tuesday are alike. Whoever predicts what comes next is right more often if tokens that
are followed, and preceded, by the same tokens have rows that point the same way: so that is where the rows go.

The hidden layer bends with tanh, as theirs. A relu stops the gradient at each unit that is below 0, about half of them,
before it reaches the rows, and after as many steps words that belong together are further apart. The layer may be
small: a context of 16 tokens with 128 units takes as long as 8 with 256, and brings such words nearer.

The rows also go straight to the output (their "direct connections"), at first as their sum: so from the first step on a
token's row is drawn to the rows of what it stands before, and what the hidden layer learns comes on top of that.

Source: Bengio, Ducharme, Vincent and Jauvin, "A Neural Probabilistic Language Model", JMLR 3, 2003, equation 1; the
head is tied as in gpt.py.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from embedding.config import GPTConfig, check_size
from embedding.gpt import GPT2_STD, InputEmbedding, TiedHead
from minigrad import Module, Parameter, Tensor, random
from minigrad.tied_loss import linear_cross_entropy


class NextToken(Module):
    """Predicts the token that follows a context of exactly `context` (T) tokens.

    vocab_size: V, rows of the token table. width: C of a row. context: T. hidden: H, units between. Weights come from
    minigrad.random: after `manual_seed(seed)` the same model each time. The tables are drawn with GPT-2's deviation of
    0.02, so that every score begins near 0 and the loss near ln V, that of a guess that knows nothing.

    Call it with ids (B, T): the result is (B, C), a vector for what comes next, and its product with a row of the
    token table is that token's score. `loss` compares with what did come.

    Raises ValueError for ids of another length than T, and as Embedding for ids that the table does not have; for sizes
    as GPTConfig.

    >>> model = NextToken(vocab_size=10, width=4, context=3, hidden=6)
    >>> model([[1, 2, 3], [4, 5, 6]]).shape
    (2, 4)
    >>> bool(abs(model.loss([[1, 2, 3], [4, 5, 6]], [4, 7]).item() - np.log(10)) < 0.01)
    True
    """

    def __init__(self, vocab_size: int, width: int = 64, context: int = 16, hidden: int = 128):
        for name, size in (("width", width), ("context", context), ("hidden", hidden)):
            check_size(name, size)
        config = GPTConfig(n_head=1, n_embd=width, vocab_size=vocab_size, block_size=context)
        self.input = InputEmbedding(config, std=GPT2_STD)
        self.hidden = Linear(context * width, hidden)
        self.output = Linear(hidden, width)
        self.straight = Parameter(np.tile(np.eye(width, dtype=np.float32), (context, 1)))
        self.head = TiedHead(self.input.wte)

    def forward(self, ids: Any) -> Tensor:
        ids, context = np.asarray(ids), self.input.wpe.num_embeddings
        if ids.ndim != 2 or ids.shape[1] != context:
            raise ValueError(f"ids must be (B, {context}), a batch of contexts of {context} tokens; got {ids.shape}")
        x = self.input(ids)                                 # (B, T, C)
        x = x.reshape(len(ids), context * x.shape[-1])      # (B, T*C): which place a token stands in matters
        h = self.hidden(x).tanh()                           # (B, H)
        return self.output(h) + x @ self.straight           # (B, C)

    def loss(self, ids: Any, targets: Any) -> Tensor:
        """The mean over the batch of -log p(target): ids (B, T), targets (B,) the token after each context."""
        return linear_cross_entropy(self(ids), self.head.weight, targets)


class Linear(Module):
    """x (..., in) to x @ weight + bias (..., out). Drawn with deviation 1 / sqrt(in): the output is as large as x.

    >>> Linear(3, 2)(Tensor([[0.0, 0.0, 0.0]]))
    tensor([[0., 0.]], grad_fn=<add>)
    """

    def __init__(self, inputs: int, outputs: int):
        self.weight = Parameter(random.normal(0.0, inputs ** -0.5, (inputs, outputs)))
        self.bias = Parameter(np.zeros(outputs, np.float32))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias
