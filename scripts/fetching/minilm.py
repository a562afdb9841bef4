"""MiniLM's two tables, out of the small quantised model that `download_gpt2_vocab.py minilm` fetches (Apache-2.0).

The model is a protocol buffer, as Llama's vocabulary is: bpe/protobuf.py reads the wire format of both.
Source: onnx/onnx, onnx.proto.
"""
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bpe.protobuf import fields

# field numbers: a model's graph, the graph's initialisers, and what a tensor is
GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
DTYPES = {1: "<f4", 3: "i1"}


def minilm_tables(path: str | os.PathLike[str]) -> tuple[np.ndarray, np.ndarray]:
    """The token table (30522, 384) and the position table (512, 384) of MiniLM-L6, float32.

    The rows belong to BERT's ids. Each is stored as whole numbers q from -127 to 127 and one scale s: q * s.

    Raises ValueError with the file and the reason for a damaged or another file.
    """
    wanted = [f"inner.embeddings.{part}_embeddings.weight" for part in ("word", "position")]
    try:
        tensors = dict(_tensors(Path(path).read_bytes(), tuple(wanted)))
        tokens, positions = (tensors[f"{name}_q"] * tensors[f"{name}_scale"] for name in wanted)
    except (ValueError, TypeError, KeyError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: not the MiniLM model it should be: {reason}") from None
    return tokens, positions


def _tensors(model: bytes, prefixes: tuple[str, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of a model whose names begin with one of `prefixes`."""
    graphs = ((begin, end) for number, _, begin, end in fields(model, 0, len(model)) if number == GRAPH)
    tensors = (place for graph in graphs for number, _, *place in fields(model, *graph) if number == INITIALIZER)
    for begin, end in tensors:
        parts = list(fields(model, begin, end))
        values = {number: value for number, value, _, _ in parts}
        places = {number: slice(first, last) for number, _, first, last in parts}
        name = model[places[NAME]].decode() if NAME in places else ""
        if name.startswith(prefixes):
            shape = [value for number, value, _, _ in parts if number == DIMS]
            yield name, np.frombuffer(model[places[RAW_DATA]], DTYPES[values[DATA_TYPE]]).reshape(shape)
