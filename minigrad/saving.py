"""save and load: what a model has learned, as a safetensors file, which torch opens and writes too.

The file is a header with names, shapes and dtypes, and the numbers as they are in memory; nothing in it is ever run.
A parameter that two modules share is in it once, under its first name. Where the other names belong stands in the
header, `{"head.weight": "wte.weight"}`, in the way of safetensors.torch.save_model.

Source of the format: huggingface/safetensors, README.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.engine import array_of, as_tensor
from minigrad.module import Module
from minigrad.tensor import Tensor

FORMAT = {"format": "pt"}  # transformers opens no file whose header does not name its framework


def save(what: Module | Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the parameters of a Module, or a state_dict, to `path`: all of it or, whatever happens, nothing.

    Values may be Tensors or arrays of floats (at most 64 bits), integers or bools. Names of one and the same memory
    are saved once, as above. A file that was there is replaced at the end::

        save(model, "model.safetensors")
        model.load_state_dict(load("model.safetensors"))

    Raises TypeError for a name that is no string or a value of another type, and names it; OSError with the path if it
    cannot be written; ImportError without safetensors (the extra `weights`).
    """
    state = what.state_dict() if isinstance(what, Module) else what
    if not isinstance(state, Mapping):
        raise TypeError(f"save takes a Module or a state_dict, got {type(what).__name__}")
    arrays = {name: _checked(name, value) for name, value in state.items()}
    first_name: dict[tuple, str] = {}  # where in memory, and how it is read there -> the name it is saved under
    tensors, metadata = {}, dict(FORMAT)
    for name, array in arrays.items():
        kept = first_name.setdefault((array.ctypes.data, array.shape, array.strides, array.dtype), name)
        if kept == name or name in FORMAT:
            tensors[name] = np.asarray(array, order="C")  # safetensors takes the bytes as they lie, whatever the order
        else:
            metadata[name] = kept
    write(Path(path), _safetensors().save(tensors, metadata=metadata))


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The state_dict that `save`, or torch by way of safetensors, wrote: for `Module.load_state_dict`.

    Each Tensor has memory of its own, but the names of a shared parameter have the same.

    Raises ValueError with the path for a file that is damaged, no safetensors file, or of numbers that NumPy does not
    have (bfloat16); OSError with the path if it cannot be read; ImportError without safetensors (the extra `weights`).
    """
    _safetensors()
    from safetensors import SafetensorError, safe_open

    state: dict[str, Tensor] = {}
    open(path, "rb").close()  # Python's own errors, which name the path
    try:
        with safe_open(path, "numpy") as file:
            names = file.keys()
            for name in names:
                try:
                    state[name] = as_tensor(file.get_tensor(name))
                except TypeError:
                    dtype = file.get_slice(name).get_dtype()
                    raise ValueError(f"{path}: {name} is of dtype {dtype}, which NumPy does not have") from None
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ValueError(f"{path}: damaged, or no safetensors file: {error}") from None
    for name, kept in metadata.items():
        if kept in state and name not in state and name not in FORMAT:
            state[name] = state[kept]
    return state


def _checked(name: Any, value: Any) -> np.ndarray:
    if not isinstance(name, str):
        raise TypeError(f"a name in a state_dict is a string, got {name!r}")
    if name == "__metadata__":
        raise ValueError("'__metadata__' cannot be the name of a parameter: a safetensors header keeps it for itself")
    array = array_of(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"{name!r} must be floats of at most 64 bits, integers or bools; got {array.dtype}")
    return array


def _safetensors() -> Any:
    try:
        return importlib.import_module("safetensors.numpy")
    except ImportError:
        raise ImportError("saving needs safetensors, which is not installed: pip install '.[weights]'") from None


def write(path: Path, data: bytes) -> None:
    """`data` under a temporary name in the same folder, then renamed; an OSError names `path`."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
