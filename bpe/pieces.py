"""Pieces: what a tokenizer makes of a text, and which characters of the text each piece stands for.

Three answers to one question, how to write any text with a few ten thousand pieces:

                     BPE (GPT-2)             WordPiece (BERT)            SentencePiece (Llama)
    what is cut      the bytes of the text   a plainer text: lower       its characters, a space
                                             case, without accents       written as the letter ▁
    cut beforehand   by a pattern            at spaces, around           not at all
                                             punctuation
    and then         merge, the pair with    take the longest piece      merge, the pair with
                     the lowest rank first   from the left, again        the best score first
    inside a word    " lov" "able"           "lov" "##able"              "▁lov" "able"
    no such piece    cannot be: every byte   the whole word is [UNK]     the character's bytes,
                     is a piece                                          <0xF0> <0x9F> ...
    decode           the text, exactly       the plainer text, about     the text, exactly
    the files        merge.py, encoding.py   folding.py, wordpiece.py    sentencepiece.py

A piece and its span can differ in two ways. WordPiece rewrites the text first, so "Café" is covered by the piece
"cafe". And a character of several bytes may be split over several pieces: each of them then has the whole character
as its span, since there is no half of a character to point at.
"""
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from bpe.checks import as_integer, as_text
from bpe.split import repaired

T = TypeVar("T")
Cut = list[tuple[int, int, int]]  # of a word: the id, start and end of each piece, in characters of the word


class Piece(NamedTuple):
    """One piece of a text.

    id: its number in the vocabulary.
    text: how the vocabulary writes it: "##able", "▁lov", "<0xF0>", "[UNK]".
    bytes: what it stands for, in UTF-8, without the vocabulary's marks: b"able", b" lov", b"\\xf0", b"[UNK]".
    start, end: the characters of the original text that it covers are text[start:end].
    """

    id: int
    text: str
    bytes: bytes
    start: int
    end: int


def well_formed(text: str) -> tuple[str, Sequence[int]]:
    """The text as characters that UTF-8 can write, and where each of them begins in the original (plus its length).

    A Python string may hold halves of characters, surrogates. Two that belong together become the character, any
    other becomes U+FFFD. TypeError if `text` is no string.

    >>> well_formed("né")
    ('né', range(0, 3))
    >>> well_formed("a\\ud83d\\ude00b\\ud83d")
    ('a😀b�', [0, 1, 3, 4, 5])
    """
    clean = repaired(as_text(text))
    if clean is text:
        return text, range(len(text) + 1)
    starts = [match.start() for match in re.finditer("[\ud800-\udbff][\udc00-\udfff]|.", text, re.DOTALL)]
    return clean, [*starts, len(text)]


def checked_ids(ids: Iterable[Any], vocab_size: int) -> list[int]:
    """`ids` as a list of integers from 0 to `vocab_size` - 1.

    TypeError for one that is no integer, ValueError for one that is out of range; the message says which.

    >>> checked_ids([7, 40000], 32000)
    Traceback (most recent call last):
    ValueError: ids[1] is 40000: the vocabulary's ids are 0 to 31999
    """
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise TypeError(f"ids must be integers, one after another, not {type(ids).__name__}: {ids!r:.60}")
    checked = []
    for i, id in enumerate(ids):
        checked.append(as_integer(id, f"ids[{i}]"))
        if not 0 <= checked[-1] < vocab_size:
            raise ValueError(f"ids[{i}] is {id}: the vocabulary's ids are 0 to {vocab_size - 1}")
    return checked


def numbered(vocabulary: Iterable[str], place: Callable[[int], str]) -> dict[str, int]:
    """The id of each piece, which is its place in the vocabulary.

    ValueError for a piece that is empty or there twice; `place` names the place of an id in the message.
    """
    ids: dict[str, int] = {}
    for id, piece in enumerate(vocabulary):
        if not piece:
            raise ValueError(f"{place(id)}: a piece cannot be empty")
        if piece in ids:
            raise ValueError(f"{place(id)}: the piece {piece!r} is there already, {place(ids[piece])}")
        ids[piece] = id
    return ids


class Remembered(dict[str, T]):
    """What a function makes of words, remembered: of at most `WORDS` words, and none of more than `LENGTH` characters.

    >>> cuts = Remembered(lambda word: [(7, 0, len(word))])
    >>> cuts["hello"]
    [(7, 0, 5)]
    """

    WORDS = 1 << 16
    LENGTH = 64

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make

    def __missing__(self, word: str) -> T:
        made = self._make(word)
        if len(word) <= self.LENGTH:
            if len(self) >= self.WORDS:
                self.clear()
            self[word] = made
        return made
