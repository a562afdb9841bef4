"""Tables that somebody else trained: GPT-2's, out of its checkpoint.

The file holds far more than the two tables, and may be gigabytes: only the directory at its beginning and the tables'
own bytes are read.
"""
from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from embedding.config import GPTConfig
from embedding.gpt import InputEmbedding, PositionalEmbedding, TokenEmbedding

TABLES = "wte.weight", "wpe.weight"  # GPT-2's names: word token embeddings, word position embeddings
GPT2_HEAD = 64  # the width of a head in each of GPT-2's sizes

# --- safetensors: 8 bytes with the length of a header, the header in JSON, the tensors ------------------------------

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # BF16 is the upper half of a float32
LONGEST_HEADER = 100_000_000  # bytes, as in the format's own reader


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
    """The named tensors of a safetensors file, and no other byte of it: float32, or float64 where they are that.

    A name may stand in the file with something in front, as in "transformer.wte.weight".

    Raises ValueError with the file and the reason: cut short, no such tensor (the message lists what there is),
    a dtype that is no float, a shape that does not fit its bytes. Source: the format's own README,
    huggingface/safetensors.

    >>> import struct, tempfile
    >>> header = b'{"wte.weight": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.5, -2))
    ...     read_tensors(path, ["wte.weight"])
    {'wte.weight': array([[ 1.5],
           [-2. ]], dtype=float32)}
    """
    with open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        header, begin = _read_header(path, file, size)
        return {name: _read_tensor(path, file, size - begin, begin, *_entry(path, header, name)) for name in names}


def _read_header(path: Any, file: Any, size: int) -> tuple[dict, int]:
    """The header of a safetensors file, and where the tensors begin."""
    length = int.from_bytes(_read(path, file, 0, 8), "little") if size >= 8 else -1
    if not 2 <= length <= min(size - 8, LONGEST_HEADER):
        said = "too short for a header's length" if length < 0 else f"the header would have {length:,} bytes"
        raise ValueError(f"{path}: no safetensors file, or one cut short: {size:,} bytes, {said}")
    try:
        header = json.loads(bytes(_read(path, file, 8, length)).decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is a JSON {type(header).__name__}, where names and tensors should be")
    return header, 8 + length


def _entry(path: Any, header: dict, name: str) -> tuple[str, dict]:
    names = [name] if name in header else [other for other in header if other.endswith(f".{name}")]
    if len(names) != 1:
        there = ", ".join(list(header)[:8]) + (", ..." if len(header) > 8 else "")
        raise ValueError(f"{path}: {len(names) or 'no'} tensors are called {name}; there are {there or 'none'}")
    return names[0], header[names[0]]


def _read_tensor(path: Any, file: Any, room: int, begin: int, name: str, entry: Any) -> np.ndarray:
    """One tensor by its entry of the header, after a check of every number in it."""
    try:
        dtype, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, start, stop))
    except (TypeError, KeyError, ValueError):
        whole = False
    if not whole:
        raise ValueError(f"{path}: {name} should have dtype, shape and data_offsets, its entry is {entry!r}")
    if dtype not in DTYPES:
        raise ValueError(f"{path}: {name} is of dtype {dtype}; {', '.join(DTYPES)} can be read")
    wanted = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if stop - start != wanted:
        raise ValueError(f"{path}: {name}, {dtype} {shape}, takes {wanted:,} bytes, its offsets span {stop - start:,}")
    if stop > room:
        raise ValueError(f"{path}: {name} ends at byte {stop:,} of {room:,}: the file is cut short")
    array = _read(path, file, begin + start, wanted).view(DTYPES[dtype]).reshape(shape)
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64 if dtype == "F64" else np.float32, copy=False)


def _read(path: Any, file: Any, start: int, count: int) -> np.ndarray:
    array = np.empty(count, np.uint8)
    file.seek(start)
    done = 0
    while done < count:  # a system may give less at a time than it is asked for
        got = file.readinto(array.data[done:])
        if not got:
            raise ValueError(f"{path}: the file ends at byte {start + done:,}, where {start + count:,} are needed")
        done += got
    return array
