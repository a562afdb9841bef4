"""Documents to ids, a task at a time: what each worker of scripts/encode_corpus.py does.

A corpus may be larger than any memory, so it is encoded in tasks, each some spans of files that are a few megabytes
together. The ids of the tasks, one after another, are those of the whole, because a file is cut only where it does not
matter: between documents, or in front of whitespace (`next_cut`).

It is part of the package because the workers of a cluster import it; what finds the inputs, deals out the tasks and
writes what became of them is in scripts/corpus/.
"""
from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from bpe.classes import WHITESPACE, ranges
from bpe.encoding import Encoding
from bpe.split import repaired

HEAD = 1024  # characters at the beginning of a document that decide whether it is for validation, and
HEAD_BYTES = 4 * HEAD  # how many bytes have them for certain
CHUNK = 1 << 16  # bytes first read beyond a span, to find where its last document ends

SPACES = "".join(chr(code) for first, last in ranges(WHITESPACE) for code in range(first, last + 1))
# Of a text in UTF-8: whitespace in ASCII, after something that is not whitespace.
BEFORE_SPACE = re.compile(
    b"(?=[\t-\r ])" + b"".join(b"(?<!" + re.escape(character.encode()) + b")" for character in SPACES)
)

Ids = npt.NDArray[np.unsignedinteger[Any]]


class Settings(NamedTuple):
    """How files become documents, and documents ids."""

    separator: str = ""  # between documents, where they are told by one
    field: str = "text"  # of an object in a .jsonl file
    eot: str = "end"  # or "start": where <|endoftext|> stands
    errors: str = "strict"  # or "replace": what happens to bytes that are not UTF-8
    val_fraction: float = 0.0  # of the documents, told by a hash


class Span(NamedTuple):
    """A part of a file: the documents from the first cut at or after `start` to the first at or after `stop`.

    `kind` says what a document is: the "file", a "line", what is between "separator"s, or a field of a line of "jsonl".
    A stream, which cannot be entered in its middle, comes with its `data` instead, cut already, and with the `head` of
    its document. `error` says why there is none.
    """

    path: str
    kind: str
    start: int
    stop: int
    size: int  # of the file; -1 for a stream that goes on after `stop`
    data: bytes | None = None
    head: str | None = None
    error: str = ""

    @property
    def is_whole(self) -> bool:
        return self.start == 0 and self.stop == self.size


class Encoded(NamedTuple):
    """What became of a task: ids and the number of documents for training and for validation, and what went wrong."""

    ids: tuple[Ids, Ids]
    documents: tuple[int, int]
    failures: list[tuple[str, str]]  # path, reason


class CorpusEncoder:
    """Encodes tasks with a vocabulary that has GPT-2's pattern; ids come as `dtype`.

    ValueError if it has another pattern, or ids that `dtype` cannot hold: they are never wrapped.

    >>> import bpe
    >>> encoder = CorpusEncoder(bpe.get_encoding("gpt2"), Settings())
    >>> span = Span("-", "line", 0, 12, 12, data=b"Hello world\\n")
    >>> encoder.encode([span]).ids[0].tolist()
    [15496, 995, 50256]
    """

    def __init__(self, encoding: Encoding, settings: Settings, dtype: str = "<u2") -> None:
        if encoding.max_token_value > np.iinfo(dtype).max:
            raise ValueError(
                f"the vocabulary has ids up to {encoding.max_token_value:,}, and {np.dtype(dtype).name} holds no more "
                f"than {np.iinfo(dtype).max:,}"
            )
        if not encoding.has_gpt2_pattern:
            raise ValueError(f"{encoding!r} has not GPT-2's pattern, of which alone it is known where to cut a file")
        self.encoding, self.settings, self.dtype = encoding, settings, dtype

    def encode(self, task: Sequence[Span]) -> Encoded:
        """The ids of a task. ValueError with the file and the place for text that is not what it should be."""
        texts: list[str] = []
        heads: list[str] = []
        begins: list[bool] = []  # whether a document begins with this text, and
        ends: list[bool] = []  # whether it ends with it
        failures = []
        for span in task:
            some, reason = self.texts(span)
            if reason:
                failures.append((span.path, reason))
            texts += some
            is_part = span.kind == "file"
            heads += [self.head(span, text) for text in some] if is_part else [text[:HEAD] for text in some]
            begins += [not is_part or span.start == 0] * len(some)
            ends += [not is_part or span.stop == span.size] * len(some)

        ids, counts = self.together(texts)
        marked = np.array(ends if self.settings.eot == "end" else begins, bool)
        marks = np.cumsum(counts) - 1
        if self.settings.eot == "start":
            ids = np.roll(ids, 1)
            marks -= counts - 1
        if not marked.all():  # a text goes on in the next span
            ids = np.delete(ids, marks[~marked])
            counts -= ~marked

        is_val = np.array([self.is_val(head) for head in heads], bool)
        documents = np.array(ends, bool)
        train, val = ids, ids[:0]
        if is_val.any():
            chosen = np.repeat(is_val, counts)
            train, val = ids[~chosen], ids[chosen]
        return Encoded((train, val), (int((documents & ~is_val).sum()), int((documents & is_val).sum())), failures)

    def together(self, texts: Sequence[str]) -> tuple[Ids, npt.NDArray[np.intp]]:
        """The ids of texts, <|endoftext|> after each, and how many each has with it: (T,) and (number of texts,).

        >>> import bpe
        >>> ids, counts = CorpusEncoder(bpe.get_encoding("gpt2"), Settings()).together(["one", "two\\n", ""])
        >>> ids.tolist(), counts.tolist()
        ([505, 50256, 11545, 198, 50256, 50256], [2, 3, 1])
        """
        arrays, ends, size = [np.zeros(0, self.dtype)], [np.zeros(1, np.intp)], 0
        for ids, places in self.encoding.encode_documents(texts, self.encoding.eot_token):
            arrays.append(ids.astype(self.dtype))
            ends.append(places + (size + 1))
            size += len(ids)
        ends_of_all = np.concatenate(ends)
        return np.concatenate(arrays), ends_of_all[1:] - ends_of_all[:-1]

    def texts(self, span: Span) -> tuple[list[str], str]:
        """The texts of a span, and why it could not be read, or ""."""
        error = span.error
        data: bytes | bytearray = b""
        at = span.start
        if span.data is not None:
            data = span.data
        elif not error:
            try:
                data, at = read(span, self.settings.separator.encode())
            except OSError as reason:
                error = reason.strerror or str(reason)
        if error and not data and (span.is_whole or span.kind != "file"):
            return [], error  # else there may be an empty text, which ends a document that was begun
        try:
            text = data.decode("utf-8", self.settings.errors)
        except UnicodeDecodeError as bad:
            raise ValueError(
                f"{span.path}: byte {at + bad.start:,} (0x{data[bad.start]:02x}) is not UTF-8 ({bad.reason}); "
                f"--errors replace puts U+FFFD in its place"
            ) from None
        if span.kind == "file":
            return [text], error
        if span.kind == "line":
            text = text.replace("\r\n", "\n")
        texts = text.split(self.settings.separator if span.kind == "separator" else "\n")
        if not texts[-1]:
            texts.pop()  # what follows the last line end or separator is no document unless there is something
        if span.kind == "jsonl":
            texts = [self.from_json(line, i, span, data, at) for i, line in enumerate(texts) if line.strip()]
        return texts, error

    def from_json(self, line: str, number: int, span: Span, data: bytes | bytearray, at: int) -> str:
        """The field of the object that a line is."""
        field = self.settings.field
        try:
            record = json.loads(line)
            reason = f"{type(record).__name__} where an object should be"
            if isinstance(record, dict):
                found = type(record[field]).__name__ if field in record else ""
                names = ", ".join(map(repr, record)) or "none"
                reason = f"field {field!r} is {found}, not a string" if found else f"no field {field!r}; it has {names}"
                if found == "str":
                    if self.settings.errors == "strict":
                        record[field].encode()
                    return repaired(record[field])
        except UnicodeEncodeError as error:
            half = record[field][error.start]
            reason = f"{half!r} is half of a character; --errors replace puts U+FFFD in its place"
        except (ValueError, RecursionError) as error:
            reason = str(error)
        place = at + sum(len(line) + 1 for line in data.split(b"\n")[:number])
        raise ValueError(f"{span.path}, the line at byte {place:,}: {reason:.300}")

    def head(self, span: Span, text: str) -> str:
        """The first characters of the document that a text of a span belongs to."""
        if span.head is not None:
            return span.head
        if span.is_whole or not self.settings.val_fraction:
            return text[:HEAD]
        with open_file(span.path) as file:
            return head_of(file.read(HEAD_BYTES))

    def is_val(self, head: str) -> bool:
        """Whether a document is for validation: the same in every run, whatever file it is in."""
        if not self.settings.val_fraction:
            return False
        digest = hashlib.blake2b(head.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.settings.val_fraction * 2**64


def next_cut(data: bytes | bytearray, at: int, kind: str, separator: bytes) -> int | None:
    r"""The first place, at or after `at`, where a file may be cut; None if there is none. See `context` for `data`.

    Between documents, or where a document is a file, in front of ASCII whitespace that follows something else. There
    a piece ends for certain, since no alternative of the pattern takes whitespace after something else; and for what
    comes after it makes no difference what was before, since the pattern never looks back. Nor does a character end
    elsewhere when such a place is cut, though bytes before be damaged: an ASCII byte always begins a character.

    >>> next_cut(b"one two three", 5, "file", b""), next_cut(b"one\ntwo\n", 4, "line", b"")
    (7, 4)
    """
    if kind == "file":
        match = BEFORE_SPACE.search(data, at)
        return match.start() if match else None
    mark = separator if kind == "separator" else b"\n"
    found = data.find(mark, max(at - len(mark), 0))
    return None if found < 0 else found + len(mark)


def context(separator: bytes) -> int:
    """How many bytes before a place tell whether it is a cut."""
    return max(len(separator), 4)


def read(span: Span, separator: bytes) -> tuple[bytearray, int]:
    """The bytes of a span from cut to cut, and where in the file they begin.

    Both spans that meet somewhere find the same cut from the bytes there, so each can be read without the other.
    """
    begin = max(span.start - context(separator), 0)
    with open_file(span.path) as file:
        file.seek(begin)
        data = bytearray(file.read(span.stop - begin))
        if len(data) < span.stop - begin:
            raise OSError(f"it has {begin + len(data):,} bytes, where there were {span.size:,}: it was changed")
        first = next_cut(data, span.start - begin, span.kind, separator) if span.start else 0
        if first is None or first >= span.stop - begin > 0:
            return bytearray(), span.stop  # the document that goes on here belongs to a span before
        end, more = None, CHUNK
        while end is None and begin + len(data) < span.size:
            chunk = file.read(min(more, span.size - begin - len(data)))
            if not chunk:
                break
            data += chunk
            end, more = next_cut(data, span.stop - begin, span.kind, separator), 2 * more
    del data[len(data) if end is None else end :], data[:first]  # in place, without a copy
    return data, begin + first


def open_file(path: str) -> BinaryIO:
    """Open a file to read; with "://" in its name through fsspec."""
    if "://" not in path:
        return open(path, "rb")
    filesystem, inner = remote(path)
    return filesystem.open(inner, "rb")


def remote(path: str) -> tuple[Any, str]:
    """The fsspec filesystem of a path like s3://bucket/name, and its name there."""
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise RuntimeError(f"fsspec is not installed, which {path} is read with: pip install '.[corpus]'") from None
    try:
        return fsspec.core.url_to_fs(path)
    except (ImportError, ValueError) as error:  # of the package for such addresses; or nobody knows them
        raise RuntimeError(f"{path}: {error}") from None


def head_of(data: bytes) -> str:
    """The first characters of a document, from its first bytes."""
    return data[:HEAD_BYTES].decode("utf-8", "replace")[:HEAD]
