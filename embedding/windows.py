"""Sliding windows over token ids, and batches of them: what a language model reads, and what it is to say.

    ids        40  367  2885  1464  1807  3619 ...
    x, row 0  [40  367  2885  1464]
    y, row 0      [367  2885  1464  1807]        y is x one place further: each token is asked for the next
    x, row 1                       [1807 ...     the next window begins `stride` ids later

Nothing is copied until a shuffled batch is gathered: x and y are views of the ids, which may be a file on disk.
"""
from __future__ import annotations

import os
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from embedding.config import check_size
from minigrad import random

LLM_C_HEADER = 1024  # bytes: 256 int32, of which 0 is a magic number, 1 the version, 2 the number of tokens
LLM_C_KINDS = {20240520: (1, "<u2"), 20240801: (7, "<u4")}  # magic: (version, dtype of an id); GPT-2's and Llama 3's
NPY = b"\x93NUMPY"
CHECKED_AT_ONCE = 1 << 20  # ids; a token file may be larger than memory


class SlidingWindows:
    """Windows of `context_length` (T) ids, each beginning `stride` after the last, with their targets one id later.

    ids: a list or a 1-D integer array, of which nothing is copied, or the path of a token file (see `token_file`).
    stride: T if None, so that no id is in two windows. vocab_size: if given, every id is checked to be below it.

    `inputs` and `targets` are read-only views of shape (number of windows, T); `windows[i]` is the pair (x, y), for an
    index, a slice or an array of indices. Ids after the last whole window are left out.

    Raises ValueError for ids that are too few for one window, or not 1-D, or a damaged file; TypeError for ids that
    are no integers; IndexError for an id that the vocabulary does not have.

    >>> windows = SlidingWindows([40, 367, 2885, 1464, 1807, 3619], context_length=4, stride=1)
    >>> len(windows)
    2
    >>> x, y = windows[0]
    >>> x, y
    (array([  40,  367, 2885, 1464]), array([ 367, 2885, 1464, 1807]))
    """

    def __init__(self, ids: Any, context_length: int, stride: int | None = None, vocab_size: int | None = None):
        stride = context_length if stride is None else stride
        check_size("context_length", context_length)
        check_size("stride", stride)
        if vocab_size is not None:
            check_size("vocab_size", vocab_size)
        where = ""
        if isinstance(ids, (str, os.PathLike)):
            where = f"{os.fspath(ids)}: "
            ids = token_file(ids)
        self.ids = _one_row(ids, where)
        if len(self.ids) <= context_length:
            raise ValueError(
                f"{where}{len(self.ids)} ids are too few: one window of {context_length} and its target take "
                f"{context_length + 1}"
            )
        if vocab_size is not None:
            _check_below(self.ids, vocab_size, where)
        self.context_length, self.stride = context_length, stride
        self.inputs = sliding_window_view(self.ids[:-1], context_length)[::stride]
        self.targets = sliding_window_view(self.ids[1:], context_length)[::stride]

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: Any) -> tuple[np.ndarray, np.ndarray]:
        return self.inputs[index], self.targets[index]

    def __repr__(self) -> str:
        return (
            f"SlidingWindows({len(self)} windows of {self.context_length}, stride {self.stride}, "
            f"over {len(self.ids)} ids)"
        )


def batches(
    windows: SlidingWindows,
    batch_size: int,
    shuffle: bool = False,
    drop_last: bool = True,
    generator: random.Generator | None = None,
    start: int = 0,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """One pass over the windows as pairs (x, y) of shape (batch_size, T).

    shuffle: in an order drawn, at this call, from `generator`, or from minigrad's own that `manual_seed` seeds.
    drop_last: leave the last batch out if it is smaller. start: the number of batches to leave out in front. To
    resume a pass, set the generator to the state it had before the pass and give `start`: the rest is the same.

    In order, x and y are views of the ids; a shuffled batch is gathered into arrays of its own.

    Raises ValueError for a batch_size below 1, a `start` beyond the last batch, and for fewer windows than a batch
    with drop_last: such a pass would be empty; TypeError for arguments of another type.

    >>> windows = SlidingWindows(list(range(33)), context_length=4)
    >>> [(x.shape, y.shape) for x, y in batches(windows, batch_size=8)]
    [((8, 4), (8, 4))]
    """
    check_size("batch_size", batch_size)
    count = len(windows) // batch_size if drop_last else -(-len(windows) // batch_size)
    if count == 0:
        raise ValueError(
            f"{len(windows)} windows do not fill one batch of {batch_size}; drop_last=False keeps a smaller one"
        )
    if not isinstance(start, Integral) or isinstance(start, bool):
        raise TypeError(f"start must be an integer, a number of batches, got {start!r}")
    if generator is not None and not isinstance(generator, random.Generator):
        raise TypeError(f"generator must be a minigrad.random.Generator, got {type(generator).__name__}")
    if not 0 <= start <= count:
        raise ValueError(f"start is {start}, of {count} batches: 0 to {count} is possible")
    order = None
    if shuffle:  # here and not at the first batch, so that the order does not hang on what else is drawn
        order = (generator.randperm if generator else random.randperm)(len(windows))
    places = (slice(i * batch_size, (i + 1) * batch_size) for i in range(start, count))
    return (windows[place if order is None else order[place]] for place in places)


def token_file(path: str | os.PathLike[str]) -> np.ndarray:
    """The ids in a file, memory-mapped and read-only: read from disk as they are used, never all at once.

    The kind is told by the first bytes: llm.c's, with its header of 256 int32; NumPy's .npy; else nanoGPT's, which is
    nothing but uint16, little-endian. (Read as ids, llm.c's magic number would begin with 55432, which GPT-2 lacks.)

    Raises ValueError that names the file, its size and what is wrong with it.

    Sources: karpathy/nanoGPT, data/openwebtext/prepare.py; karpathy/llm.c, dev/data/data_common.py.
    """
    size = os.path.getsize(path)
    if size == 0:
        raise ValueError(f"{os.fspath(path)}: the file is empty")
    with open(path, "rb") as file:
        begin = file.read(12)
    if begin.startswith(NPY):
        try:
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{os.fspath(path)}: a damaged .npy file: {error}") from None
    if os.fspath(path).endswith(".npy"):
        raise ValueError(f"{os.fspath(path)}: no .npy file: it begins with {begin[:6]!r}, not with {NPY!r}")
    magic, version, tokens = np.frombuffer(begin, "<i4").tolist() if size >= 12 else (0, 0, 0)
    if magic in LLM_C_KINDS:
        known_version, dtype = LLM_C_KINDS[magic]
        wanted = LLM_C_HEADER + tokens * np.dtype(dtype).itemsize
        if version != known_version:
            raise ValueError(f"{os.fspath(path)}: version {version} of llm.c's token files; {known_version} is known")
        if tokens < 1 or size != wanted:
            raise ValueError(
                f"{os.fspath(path)}: {size:,} bytes, where its header says {tokens:,} tokens, which take {wanted:,}: "
                "cut short, or written on"
            )
        return np.memmap(path, dtype, "r", offset=LLM_C_HEADER)
    if size % 2:
        raise ValueError(f"{os.fspath(path)}: {size:,} bytes, an odd number: ids of two bytes each cannot fill it")
    return np.memmap(path, "<u2", "r")


def _one_row(ids: Any, where: str) -> np.ndarray:
    array = np.asarray(ids)
    if array.size == 0:
        raise ValueError(f"{where}there are no ids: the text is empty")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{where}ids must be integers, got {array.dtype}, the first is {array.flat[0]!r}")
    if array.ndim != 1:
        raise ValueError(f"{where}ids must be one row of integers, got shape {array.shape}")
    return array


def _check_below(ids: np.ndarray, vocab_size: int, where: str) -> None:
    for begin in range(0, len(ids), CHECKED_AT_ONCE):
        part = ids[begin:begin + CHECKED_AT_ONCE]
        if part.min() < 0 or part.max() >= vocab_size:
            place = int(np.argmax((part < 0) | (part >= vocab_size)))
            raise IndexError(
                f"{where}id {part[place]} at position {begin + place} is beyond the vocabulary: it has ids 0 to "
                f"{vocab_size - 1}"
            )
