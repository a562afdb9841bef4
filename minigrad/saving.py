"""save and load: what a model has learned, as a safetensors file, which torch opens and writes too.

The file is the length of a header, in 8 bytes; the header, in JSON: the dtype, shape and place of each tensor by its
name; and the numbers as they are in memory, little-endian. Nothing in it is ever run. A parameter that two modules
share is in it once, under its first name. Where the other names belong stands in the header, `{"head.weight":
"wte.weight"}`, in the way of safetensors.torch.save_model.

Source of the format: huggingface/safetensors, README.
"""
from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.engine import array_of, as_tensor
from minigrad.module import Module
from minigrad.tensor import Tensor

FORMAT = {"format": "pt"}  # transformers opens no file whose header does not name its framework
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8",
    "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "BF16": "<u2",
}  # fmt: skip
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items() if code != "BF16"}
LONGEST_HEADER = 100_000_000  # bytes, as in the format's own reader


def save(what: Module | Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the parameters of a Module, or a state_dict, to `path`: all of it or, whatever happens, nothing.

    Values may be Tensors or arrays of floats (at most 64 bits), integers or bools. Names of one and the same memory
    are saved once, as above. A file that was there is replaced at the end::

        save(model, "model.safetensors")
        model.load_state_dict(load("model.safetensors"))

    Raises TypeError for a name that is no string or a value of another type, and ValueError for a name that no file of
    the format can have, and names it; OSError with the path if it cannot be written.
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
            tensors[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        else:
            metadata[name] = kept
    write(Path(path), _packed(tensors, metadata))


def _packed(tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """The bytes of a safetensors file. The widest numbers come first, so that all of them are aligned."""
    header: dict[str, Any] = {"__metadata__": metadata}
    names, end = sorted(tensors, key=lambda name: -tensors[name].itemsize), 0
    for name in names:
        array, begin, end = tensors[name], end, end + tensors[name].nbytes
        header[name] = {"dtype": CODES[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(tensors[name].data for name in names)])


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The state_dict that `save`, or torch by way of safetensors, wrote: for `Module.load_state_dict`.

    Each Tensor has memory of its own, but the names of a shared parameter have the same. Raises as `read_tensors`.
    """
    tensors, metadata = read_tensors(path)
    state = {name: as_tensor(array) for name, array in tensors.items()}
    for name, kept in metadata.items():
        if kept in state and name not in state and name not in FORMAT:
            state[name] = state[kept]
    return state


def read_tensors(
    path: str | os.PathLike[str], names: Iterable[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The tensors of a safetensors file, and the metadata of its header.

    names: all if None. Else of the file, which may be gigabytes, only the header and these tensors are read; a name may
    stand in the file with something in front, as in "transformer.wte.weight". BF16, which NumPy does not have, is the
    upper half of a float32, and becomes one.

    Raises ValueError with the path and the reason: cut short, no such tensor (the message lists what there is), a dtype
    that NumPy does not have, a shape that does not fit its bytes; OSError with the path if it cannot be read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header, metadata, begin = _read_header(file, size)
        except (ValueError, RecursionError) as error:
            raise _damaged(path, error) from None
        found = {name: name if names is None else _full_name(path, header, name) for name in names or header}
        places = {name: _place(path, full, header[full], size - begin) for name, full in found.items()}
        if reason := _unlike_the_format(header, size - begin):
            raise _damaged(path, reason)
        return {name: _read(path, file, begin, *place) for name, place in places.items()}, metadata


def _damaged(path: Any, reason: object) -> ValueError:
    return ValueError(f"{path}: damaged, or no safetensors file: {reason!s:.300}")


def _read_header(file: Any, size: int) -> tuple[dict[str, Any], dict[str, str], int]:
    """The header of a safetensors file, the metadata in it, and where the tensors begin."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(size - 8, LONGEST_HEADER):
        raise ValueError(f"of its {size:,} bytes the header would be {length:,}")
    header = json.loads(file.read(length).decode(), object_pairs_hook=_each_once)
    if not isinstance(header, dict):
        raise ValueError(f"the header is a JSON {type(header).__name__}, where names and tensors should be")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"__metadata__ should be texts by their names, it is {metadata!r:.60}")
    return header, metadata, 8 + length


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError for a name that stands in it twice, of which Python's own reader takes the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in its header")
    return found


def _unlike_the_format(header: dict[str, Any], room: int) -> str:
    """Why tensors do not lie one after another, from the first byte to the last, or ""."""
    end = 0
    try:
        for start, stop, name in sorted((*entry["data_offsets"], name) for name, entry in header.items()):
            if start != end:
                return f"{name} begins at byte {start:,}, where {end:,} bytes are before it"
            end = stop
    except (TypeError, KeyError, ValueError) as error:
        return f"an entry of its header is no tensor's: {error!r}"
    return f"the tensors take {end:,} bytes, and {room:,} are there" if end != room else ""


def _full_name(path: Any, header: dict[str, Any], name: str) -> str:
    names = [name] if name in header else [other for other in header if other.endswith(f".{name}")]
    if len(names) != 1:
        there = ", ".join(list(header)[:8]) + (", ..." if len(header) > 8 else "")
        raise ValueError(f"{path}: {len(names) or 'no'} tensors are called {name}; there are {there or 'none'}")
    return names[0]


def _place(path: Any, name: str, entry: Any, room: int) -> tuple[str, list[int], int, int]:
    """dtype, shape, start and stop of a tensor by its entry of the header, after a check of every number in it."""
    try:
        dtype, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
        whole = isinstance(dtype, str) and isinstance(shape, list) and len(shape) <= 32  # the most of NumPy 1's
        whole = whole and all(type(number) is int and number >= 0 for number in (*shape, start, stop))
        whole = whole and math.prod(max(n, 1) for n in shape) < 2**60  # and no array can be larger
    except (TypeError, KeyError, ValueError):
        whole = False
    if not whole:
        raise _damaged(path, f"{name} should have dtype, shape and data_offsets, its entry is {entry!r}")
    if dtype not in DTYPES:
        raise ValueError(f"{path}: {name} is of dtype {dtype}; {', '.join(DTYPES)} can be read")
    wanted = math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if stop - start != wanted:
        raise _damaged(path, f"{name}, {dtype} {shape}, takes {wanted:,} bytes, its offsets span {stop - start:,}")
    if stop > room:
        raise _damaged(path, f"{name} ends at byte {stop:,} of {room:,}: the file is cut short")
    return dtype, shape, start, stop


def _read(path: Any, file: Any, begin: int, dtype: str, shape: list[int], start: int, stop: int) -> np.ndarray:
    data = np.empty(stop - start, np.uint8)
    file.seek(begin + start)
    if file.readinto(data) < len(data):
        raise _damaged(path, f"it ended before byte {begin + stop:,}, though it was longer when it was opened")
    array = data.view(DTYPES[dtype]).reshape(shape)
    if dtype == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _checked(name: Any, value: Any) -> np.ndarray:
    if not isinstance(name, str):
        raise TypeError(f"a name in a state_dict is a string, got {name!r}")
    if name == "__metadata__":
        raise ValueError("'__metadata__' cannot be the name of a parameter: a safetensors header keeps it for itself")
    if any("\ud800" <= character <= "\udfff" for character in name):
        raise ValueError(f"{name!r} cannot be the name of a parameter: a lone surrogate is no text in UTF-8")
    array = array_of(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"{name!r} must be floats of at most 64 bits, integers or bools; got {array.dtype}")
    return array


def write(path: Path, data: bytes) -> None:
    """`data` under a temporary name in the same folder, then renamed; an OSError names `path`.

    A link stays, and what it leads to is replaced; a device or a pipe is written to.
    """
    real = Path(os.path.realpath(path))
    temporary = real.with_name(f".{real.name}.{secrets.token_hex(8)}.part")
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            path.write_bytes(data)
            return
        with open(temporary, "xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, real)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        raise
