"""The state of a run in one file: nested dicts and lists of arrays, numbers and strings, as safetensors. No pickle.

Arrays are tensors of the file. All the rest is JSON, the bytes of one more tensor, with names in the place of arrays.
"""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import saving

REST = "rest"  # the tensor that holds the JSON
ARRAY = "array:"  # begins a string that stands for an array


def save(path: Path, state: Any) -> None:
    """Write `state` to `path`: all of it or, whatever happens, nothing. Raises as minigrad.saving.save."""
    arrays: dict[str, np.ndarray] = {}
    plain = _without_arrays(state, "state", arrays)
    saving.save({REST: np.frombuffer(json.dumps(plain).encode(), np.uint8), **arrays}, path)


def load(path: Path) -> Any:
    """What `save` wrote. Raises ValueError with the path for a file that is damaged or something else."""
    arrays = {name: tensor.numpy() for name, tensor in saving.load(path).items()}
    try:
        return _with_arrays(json.loads(arrays[REST].tobytes()), arrays)
    except (KeyError, ValueError):
        raise ValueError(f"{path}: a safetensors file, but no checkpoint of a run") from None


def _without_arrays(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return ARRAY + name
    if isinstance(value, dict):
        return {key: _without_arrays(part, f"{name}.{key}", arrays) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
    return value


def _with_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, str) and value.startswith(ARRAY):
        return arrays[value[len(ARRAY):]]
    if isinstance(value, dict):
        return {key: _with_arrays(part, arrays) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_arrays(part, arrays) for part in value]
    return value
