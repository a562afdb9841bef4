"""How often each piece occurs: all that is needed of a text to learn a vocabulary from it.

A gigabyte of text has some two hundred million pieces, but only a few million different ones. They are counted a
block of text at a time, in whole arrays, by the hash table of table.py, and no more of the text is kept.
"""
import codecs
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

import numpy as np

from bpe import special
from bpe.bulk import cut
from bpe.split import GPT2_PATTERN, GPT2_SPELLINGS, blocks, matcher, repaired, split
from bpe.table import SHORT, Keys, KeyTable, distinct, piece_keys

Text = str | os.PathLike[str]
Texts = Text | Iterable[Text]

READ = 1 << 20  # bytes that are read of a file at once, at least
LONG_TEXT = 1 << 12  # characters from which a text is counted in whole arrays
CAPACITY = 1 << 16  # different pieces there is room for to begin with


def count_pieces(
    texts: Texts,
    pattern: str = GPT2_PATTERN,
    special_tokens: Collection[str] = (),
    seen: Callable[[int], object] = lambda characters: None,
) -> dict[bytes, int]:
    """How often each piece of `texts` occurs; see `bpe.train` for what they may be.

    The texts are cut at the special tokens, which are not counted. `seen` is called with the number of characters
    after each stretch of text. Surrogates are what the encoder takes them for: repaired in pairs, else U+FFFD.

    >>> count_pieces(["the cat", "the<end>the"], special_tokens=["<end>"])
    {b'the': 3, b' cat': 1}
    """
    in_arrays = pattern in GPT2_SPELLINGS
    counter = ArrayCounter() if in_arrays else PatternCounter(pattern)
    ids = dict.fromkeys(special_tokens, 0)
    for text in _each(texts):
        stretches = [text] if isinstance(text, str) else read(text, special_tokens, whole=not in_arrays)
        for stretch in stretches:
            for part, _ in special.parts(stretch, ids, ids):
                counter.add(part)
            seen(len(stretch))
    return counter.counts()


class PatternCounter:
    """Counts the pieces of any pattern, one by one: the package `regex` finds them."""

    def __init__(self, pattern: str) -> None:
        self._split = matcher(pattern)
        self._counts: Counter[str] = Counter()

    def add(self, text: str) -> None:
        self._counts.update(self._split(repaired(text)))

    def counts(self) -> dict[bytes, int]:
        return {piece.encode(): count for piece, count in self._counts.items() if piece}


class ArrayCounter:
    """Counts the pieces of GPT-2's pattern, a block of text at a time.

    A piece of up to 15 bytes gets a number when it is first met, and is counted by it. Longer ones are few: a dict.
    So are those of short texts, which whole arrays are too much for.
    """

    def __init__(self) -> None:
        self._table = KeyTable(CAPACITY, SHORT + 1)
        self._counts = np.zeros(CAPACITY + 1, np.int64)  # by number; 0 is no piece
        self._keys: list[Keys] = []  # of the pieces 1, 2, 3 ...
        self._size = 0
        self._long: Counter[bytes] = Counter()
        self._of_short_texts: Counter[str] = Counter()

    def add(self, text: str) -> None:
        if len(text) < LONG_TEXT:
            self._of_short_texts.update(split(repaired(text)))
            return
        for block in blocks(text):
            pieces = cut(block)
            is_short = pieces.lengths <= SHORT
            self._long.update(pieces.bytes_at(np.flatnonzero(~is_short)))
            keys = piece_keys(*pieces)[is_short]
            numbers = self._table.find(keys)
            new = np.flatnonzero(numbers == 0)
            if len(new):
                self._number(keys[new])
                numbers[new] = self._table.find(keys[new])
            self._counts[: self._size + 1] += np.bincount(numbers, minlength=self._size + 1)

    def _number(self, keys: Keys) -> None:
        """Give the pieces with these keys, which may repeat, the next numbers."""
        different = distinct(keys)
        self._keys.append(different)
        size = self._size + len(different)
        if size < len(self._counts):
            self._table.add(different, np.arange(self._size + 1, size + 1))
        else:
            self._counts = np.concatenate([self._counts, np.zeros(size, np.int64)])
            self._table = KeyTable(len(self._counts) - 1, SHORT + 1)
            self._table.add(np.concatenate(self._keys), np.arange(1, size + 1))
        self._size = size

    def counts(self) -> dict[bytes, int]:
        sixteens = b"".join(keys.tobytes() for keys in self._keys)  # a piece, zeros, and in the last byte its length
        counts = self._counts[1 : self._size + 1].tolist()
        short = {sixteens[i : i + sixteens[i + 15]]: n for i, n in zip(range(0, len(sixteens), 16), counts)}
        total = Counter(short | self._long)
        total.update({piece.encode(): count for piece, count in self._of_short_texts.items()})
        return dict(total)


def read(path: os.PathLike[str], special_tokens: Collection[str] = (), whole: bool = False) -> Iterator[str]:
    """The text of a file in UTF-8, in stretches whose pieces, one after another, are those of the file.

    A stretch ends where a piece begins, by GPT-2's pattern, and never inside of a special token. `whole` gives the
    text as one. ValueError names the first byte that is not UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    longest = max(map(len, special_tokens), default=0)
    position, text = 0, ""
    with open(path, "rb") as file:
        # As much again as is waiting, so that a file without a place to cut is not looked through too often.
        while data := file.read(-1 if whole else max(READ, len(text))):
            position += len(data)
            text += _decode(decoder, data, position, path)
            if not whole:
                *before, text = list(blocks(text)) or [""]
                while before and (len(text) < longest or _cuts(special_tokens, "".join(before), text)):
                    text = before.pop() + text
                yield "".join(before)
    yield text + _decode(decoder, b"", position, path)


def _decode(decoder: codecs.IncrementalDecoder, data: bytes, position: int, path: os.PathLike[str]) -> str:
    try:
        return decoder.decode(data, final=not data)
    except UnicodeDecodeError as bad:
        at = position - len(bad.object) + bad.start
        raise ValueError(f"{path}: byte {at:,} (0x{bad.object[bad.start]:02x}) is not UTF-8 ({bad.reason})") from None


def _cuts(special_tokens: Collection[str], before: str, after: str) -> bool:
    """Whether a special token stands across the end of `before` and the beginning of `after`."""
    return any(n > 1 and token in before[1 - n :] + after[: n - 1] for token in special_tokens for n in [len(token)])


def _each(texts: Texts) -> Iterator[Text]:
    if isinstance(texts, (str, os.PathLike)):
        texts = [texts]
    elif isinstance(texts, (bytes, bytearray)) or not isinstance(texts, Iterable):
        raise TypeError(f"texts must be a str, a path or several of them, got {type(texts).__name__}: {texts!r:.60}")
    for index, text in enumerate(texts):
        if not isinstance(text, (str, os.PathLike)):
            raise TypeError(f"text {index} must be a str or a path, got {type(text).__name__}: {text!r:.60}")
        yield text
