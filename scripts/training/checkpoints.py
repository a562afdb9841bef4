"""The state of a run in one file: nested dicts and lists of arrays, numbers and strings, as safetensors. No pickle.

Arrays are the tensors of the file; all the rest stands in its header, as JSON, with the name of an array in its place.
"""
from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import fetching
import numpy as np

ARRAY = "array:"  # begins a string that stands for an array


class Missing(RuntimeError):
    """An extra that is not installed; the message says how to get it."""


def safetensors() -> Any:
    try:
        return importlib.import_module("safetensors.numpy")
    except ImportError:
        raise Missing("safetensors is not installed, which tables are saved with: pip install '.[weights]'") from None


def save(path: Path, state: Any) -> None:
    """Write `state` to `path`: all of it or, whatever happens, nothing. A file that was there is replaced at the end.

    Raises OSError with the path if the disk is full or cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    plain = _without_arrays(state, "", arrays)
    data = safetensors().save(arrays, metadata={"state": json.dumps(plain)})
    write(path, data)


def save_tensors(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write named arrays to `path` as `save` does, for any program that reads safetensors."""
    write(path, safetensors().save({name: np.asarray(array, order="C") for name, array in arrays.items()}))


def write(path: Path, data: bytes) -> None:
    """`data` under a temporary name, then renamed; an OSError names `path`."""
    try:
        fetching.write(path, data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"{reason}; {len(data):,} bytes were to be written", str(path)) from None


def load(path: Path) -> Any:
    """What `save` wrote. Raises ValueError with the path for a file that is damaged or something else."""
    safetensors()
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "numpy") as file:
            plain = json.loads((file.metadata() or {})["state"])
            return _with_arrays(plain, file.get_tensor)
    except KeyError:
        raise ValueError(f"{path}: a safetensors file, but no checkpoint of a run") from None
    except (SafetensorError, ValueError) as error:
        raise ValueError(f"{path}: damaged, or no checkpoint: {error}") from None


def _without_arrays(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = np.asarray(value, order="C")
        return ARRAY + name
    if isinstance(value, dict):
        return {key: _without_arrays(part, f"{name}.{key}" if name else key, arrays) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(part, f"{name}.{i}", arrays) for i, part in enumerate(value)]
    return value


def _with_arrays(value: Any, get: Any) -> Any:
    if isinstance(value, str) and value.startswith(ARRAY):
        return get(value[len(ARRAY):])
    if isinstance(value, dict):
        return {key: _with_arrays(part, get) for key, part in value.items()}
    if isinstance(value, list):
        return [_with_arrays(part, get) for part in value]
    return value
