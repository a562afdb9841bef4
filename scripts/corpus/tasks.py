"""Dealing out the work: spans of files of a few megabytes together, in the order of the files.

A file that can be entered anywhere is dealt out unread, in ranges of bytes: who encodes a range reads it. What can be
read only from its beginning (packed files, standard input, and a separator that may overlap itself, as in "aaa") is
read here and dealt out in blocks that end at a cut (`bpe.corpus.next_cut`).
"""
from __future__ import annotations

import contextlib
import importlib
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from bpe.corpus import HEAD_BYTES, Span, head_of, next_cut, open_file
from corpus.inputs import STDIN, Input

TASK_BYTES = 4_000_000  # of text in a task, about: the fewer, the sooner the last worker is done
TASK_SPANS = 4096  # at most, for files may be empty
PIECE = 1 << 20  # bytes read at once
PACKED_PIECE = 1 << 14  # of packed ones, which may be thousands of times as many


class Task(NamedTuple):
    """Spans of files, and how many bytes of the inputs they are."""

    spans: tuple[Span, ...]
    bytes: int

    def __str__(self) -> str:
        first, *more = self.spans
        others = f" and {len(more):,} more" if more else ""
        return f"{first.path}, bytes {first.start:,} to {first.stop:,}{others}"


def deal(inputs: Iterable[Input], separator: bytes, task_bytes: int = TASK_BYTES) -> Iterator[Task]:
    """The tasks, each made when it is asked for. The same inputs give the same tasks."""
    spans: list[Span] = []
    text = amount = 0
    for span, length, of_input in _spans(inputs, separator, task_bytes):
        spans.append(span)
        text += length
        amount += of_input
        if text >= task_bytes or len(spans) >= TASK_SPANS:
            yield Task(tuple(spans), amount)
            spans, text, amount = [], 0, 0
    if spans:
        yield Task(tuple(spans), amount)


def _spans(inputs: Iterable[Input], separator: bytes, most: int) -> Iterator[tuple[Span, int, int]]:
    """Spans, each with the bytes of text it has, and of the input."""
    for file in inputs:
        if file.error:
            yield Span(file.path, file.kind, 0, 0, 0, error=file.error), 0, 0
        elif is_stream(file, separator):
            yield from _blocks(file, separator, most)
        else:
            for start in range(0, max(file.size, 1), most):
                stop = min(start + most, file.size)
                yield Span(file.path, file.kind, start, stop, file.size), stop - start, stop - start


def is_stream(file: Input, separator: bytes) -> bool:
    overlaps = any(separator[:n] == separator[-n:] for n in range(1, len(separator)))
    return file.path == STDIN or file.path.endswith((".gz", ".zst")) or (file.kind == "separator" and overlaps)


def _blocks(file: Input, separator: bytes, most: int) -> Iterator[tuple[Span, int, int]]:
    """The spans of a stream, with their data. When it breaks off, the last says so; a torn document is left out.

    (Unless a document is a file, for then its beginning may be encoded long since.)
    """
    if file.path == STDIN and sys.stdin is None:
        yield Span(file.path, file.kind, 0, 0, 0, error="standard input is closed"), 0, 0
        return
    try:
        raw: Any = sys.stdin.buffer if file.path == STDIN else open_file(file.path)
    except OSError as reason:
        yield Span(file.path, file.kind, 0, 0, 0, error=reason.strerror or str(reason)), 0, 0
        return
    data, at, before, error, ended = bytearray(), 0, 0, "", False
    head: str | None = None
    pieces = unpacked(raw, file.path)
    with contextlib.nullcontext() if file.path == STDIN else raw:
        while not ended or data:
            while (end := _cut(data, most, file.kind, separator)) is None and not ended:
                try:
                    enough = max(most, HEAD_BYTES, 2 * len(data))
                    while len(data) < enough:
                        data += next(pieces)
                except StopIteration:
                    ended = True
                except OSError as reason:
                    kept = ", which are encoded" if file.kind == "file" else ""
                    ended, error = True, f"broken off after {at + len(data):,} bytes of text{kept}: {reason}"
                    if file.kind != "file":
                        mark = separator if file.kind == "separator" else b"\n"
                        del data[data.rfind(mark) + len(mark) if mark in data else 0 :]
            if file.kind == "file" and head is None:
                head = head_of(bytes(data[:HEAD_BYTES]))
            stop = len(data) if end is None else end
            is_last = ended and stop == len(data)
            block = bytes(data[:stop])
            del data[:stop]
            position = before if file.path == STDIN else raw.tell()
            size = at + stop if is_last else -1
            span = Span(file.path, file.kind, at, at + stop, size, block, head, error if is_last else "")
            yield span, stop, position - before
            at, before = at + stop, position


def _cut(data: bytearray, at: int, kind: str, separator: bytes) -> int | None:
    """As `next_cut`, in data that begins with a document: occurrences of a separator are counted from there."""
    if kind != "separator":
        return next_cut(data, at, kind, separator)
    end = 0
    while end < at:
        found = data.find(separator, end)
        if found < 0:
            return None
        end = found + len(separator)
    return end


def unpacked(raw: BinaryIO, path: str) -> Iterator[bytes]:
    """The text in a file, piece by piece; how it is packed is told by its name. OSError if it is damaged."""
    if path.endswith(".gz"):
        return _unpacked(raw, lambda: zlib.decompressobj(wbits=31), zlib.error)  # 31: with gzip's header
    if path.endswith(".zst"):
        try:
            zstandard = importlib.import_module("zstandard")
        except ImportError:
            raise RuntimeError(f"zstandard is not installed, which {path} needs: pip install '.[corpus]'") from None
        new = zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj
        return _unpacked(raw, new, zstandard.ZstdError)
    return iter(lambda: raw.read(PIECE), b"")


def _unpacked(raw: BinaryIO, new: Callable[[], Any], damaged: type[Exception]) -> Iterator[bytes]:
    frame = None
    while data := raw.read(PACKED_PIECE):
        while data and (frame or data.strip(b"\0")):  # several frames may follow each other, and zeros the last
            frame = frame or new()
            try:
                yield frame.decompress(data)
            except damaged as error:
                raise OSError(str(error)) from None
            data = frame.unused_data
            frame = None if frame.eof else frame
    if frame:
        raise OSError("the file ends before its text does")
