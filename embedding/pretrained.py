"""Tables that somebody else trained: GPT-2's, out of its checkpoint.

The file holds far more than the two tables, and may be gigabytes: only its header and the tables' own bytes are read.
"""
from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from embedding.config import GPTConfig
from embedding.gpt import InputEmbedding, PositionalEmbedding, TokenEmbedding
from minigrad import saving

TABLES = "wte.weight", "wpe.weight"  # GPT-2's names: word token embeddings, word position embeddings
GPT2_HEAD = 64  # the width of a head in each of GPT-2's sizes


def from_pretrained(path: str | os.PathLike[str], freeze: bool = True) -> InputEmbedding:
    """GPT-2's two tables, read out of a checkpoint `model.safetensors`: ids (..., T) to vectors (..., T, C).

    freeze: the tables get no gradient. Raises as `read_tensors`, and ValueError for tables that do not fit together.
    """
    wte, wpe = read_tensors(path, TABLES).values()
    if wte.ndim != 2 or wpe.ndim != 2 or wte.shape[1] != wpe.shape[1]:
        raise ValueError(f"{path}: wte.weight {wte.shape} and wpe.weight {wpe.shape} are no tables of one width")
    (rows, width), places = wte.shape, len(wpe)
    heads = width // GPT2_HEAD if width % GPT2_HEAD == 0 else 1
    config = GPTConfig(n_head=heads, n_embd=width, vocab_size=rows, block_size=places)
    layer = InputEmbedding.__new__(InputEmbedding)  # its own __init__ would draw two tables first
    layer.wte = TokenEmbedding(config, _weight=wte, _freeze=freeze)
    layer.wpe = PositionalEmbedding(config, _weight=wpe, _freeze=freeze)
    return layer


def read_tensors(path: str | os.PathLike[str], names: Iterable[str]) -> dict[str, np.ndarray]:
    """The named tensors of a safetensors file, float32, or float64 where they are that; see minigrad.saving.

    Raises as `minigrad.saving.read_tensors`, and ValueError for a tensor of another kind of numbers.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     saving.save({"transformer.wte.weight": np.array([[1.5], [-2.0]], np.float16)}, path)
    ...     read_tensors(path, ["wte.weight"])
    {'wte.weight': array([[ 1.5],
           [-2. ]], dtype=float32)}
    """
    tensors, _ = saving.read_tensors(path, names)
    for name, array in tensors.items():
        if array.dtype.kind != "f":
            raise ValueError(f"{path}: {name} is of dtype {array.dtype}, and should be of floats")
    return {name: array.astype(np.result_type(array.dtype, np.float32), copy=False) for name, array in tensors.items()}
