"""What is to be read: files, folders and patterns, on this machine or wherever fsspec reaches."""
from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bpe.corpus import remote

SUFFIXES = (".txt", ".jsonl")  # of the files that are taken from a folder, and
PACKED = ("", ".gz", ".zst")  # what may follow
STDIN = "-"


class Input(NamedTuple):
    """A file, what a document is in it (see bpe.corpus.Span), its size in bytes, and what tells that it was changed.

    `error` says why it cannot be read.
    """

    path: str
    kind: str
    size: int = 0
    version: str = ""
    error: str = ""


def find(names: Sequence[str], documents: str) -> list[Input]:
    """The files that names, folders and patterns stand for, in this order, those of a folder or pattern by name.

    What is not there or cannot be read is among them, with the reason. ValueError for a file that is named twice.
    """
    found: dict[str, Input] = {}
    for name in names:
        for path, describe in _expand(name):
            local = path.removeprefix("file://")
            place = path if path == STDIN or "://" in local else os.path.abspath(local)
            if place in found:
                raise ValueError(f"{found[place].path} is named twice, the second time by {name!r}")
            unpacked = path.removesuffix(".gz").removesuffix(".zst")
            kind = "jsonl" if unpacked.endswith(".jsonl") else documents
            try:
                size, version = describe()
                found[place] = Input(path, kind, size, version)
            except OSError as error:
                found[place] = Input(path, kind, error=error.strerror or str(error))
    return list(found.values())


Describe = Callable[[], tuple[int, str]]  # size and version of a file, or OSError


def _expand(name: str) -> Iterator[tuple[str, Describe]]:
    if name == STDIN:
        yield name, lambda: (0, "")
        return
    paths, describe = _remote(name) if "://" in name else _local(name)
    for path in paths:
        yield path, lambda path=path: describe(path)  # type: ignore[misc]


def _local(name: str) -> tuple[Sequence[str], Callable[[str], tuple[int, str]]]:
    if os.path.isdir(name):
        return _nothing_is_an_error(sorted(_in_folder(name)), name)
    if not os.path.lexists(name) and glob.has_magic(name):
        files = sorted(path for path in glob.glob(name, recursive=True) if not os.path.isdir(path))
        return _nothing_is_an_error(files, name)
    return [name], _describe


def _nothing_is_an_error(files: list[str], name: str) -> tuple[Sequence[str], Callable[[str], tuple[int, str]]]:
    def nothing(_: str) -> Any:
        wanted = "" if glob.has_magic(name) else f" that ends in {' or '.join(SUFFIXES)}, packed as .gz or .zst or not"
        raise FileNotFoundError(f"no file there{wanted}")

    return (files, _describe) if files else ([name], nothing)


def _in_folder(folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise error

    endings = tuple(suffix + packed for suffix in SUFFIXES for packed in PACKED)
    for parent, _, names in os.walk(folder, onerror=fail):
        yield from (Path(parent, name).as_posix() for name in names if name.endswith(endings))


def _describe(path: str) -> tuple[int, str]:
    if not stat.S_ISREG(os.stat(path).st_mode):  # to open a pipe would be to wait for who writes into it
        raise OSError("not a file: the text of a pipe or device is read from -, standard input")
    with open(path, "rb") as file:  # opened, for a file can be there and not be readable
        status = os.fstat(file.fileno())
    return status.st_size, str(status.st_mtime_ns)


def _remote(name: str) -> tuple[Sequence[str], Callable[[str], tuple[int, str]]]:
    filesystem, inner = remote(name)

    def describe(path: str) -> tuple[int, str]:
        _, inner = remote(path)
        return filesystem.info(inner)["size"], filesystem.ukey(inner)

    endings = tuple(suffix + packed for suffix in SUFFIXES for packed in PACKED)
    if filesystem.isdir(inner):
        files = [path for path in filesystem.find(inner) if path.endswith(endings)]
    elif glob.has_magic(inner) and not filesystem.exists(inner):
        files = [path for path in filesystem.glob(inner) if not filesystem.isdir(path)]
    else:
        return [name], describe
    paths, otherwise = _nothing_is_an_error(sorted(map(filesystem.unstrip_protocol, files)), name)
    return paths, describe if files else otherwise
