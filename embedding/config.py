"""GPTConfig: the sizes of a GPT."""
from __future__ import annotations

import dataclasses
from numbers import Integral
from typing import Any


def check_size(name: str, size: Any) -> None:
    """TypeError for a size that is no integer, ValueError for one below 1."""
    if not isinstance(size, Integral) or isinstance(size, bool):
        raise TypeError(f"{name} must be an integer, got {size!r}")
    if size < 1:
        raise ValueError(f"{name} must be at least 1, got {size}")


@dataclasses.dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT; as they stand, those of the smallest GPT-2.

    n_layer: blocks. n_head: attention heads in each. n_embd: C, the width of a token's vector. vocab_size: V, rows of
    the token table. block_size: the longest sequence, rows of the position table.

    Raises TypeError for a size that is no integer, ValueError for one below 1 or heads that do not divide the width.
    Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019, table 2.

    >>> GPTConfig().head_size
    64
    >>> GPTConfig(n_embd=100)
    Traceback (most recent call last):
        ...
    ValueError: n_embd must be a multiple of n_head: 100 is not one of 12
    """

    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    vocab_size: int = 50257
    block_size: int = 1024

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check_size(field.name, getattr(self, field.name))
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd must be a multiple of n_head: {self.n_embd} is not one of {self.n_head}")

    @property
    def head_size(self) -> int:
        """The width of one head, n_embd / n_head."""
        return self.n_embd // self.n_head
