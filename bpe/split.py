r"""Cutting a text into pieces: merges never cross from one piece into the next.

GPT-2's pattern reads, an alternative a line, tried in this order:

    '(?:[sdmt]|ll|ve|re)    a contraction's ending: 's 'd 'm 't 'll 've 're
     ?\p{L}+                letters, with one space before them if there is one
     ?\p{N}+                numbers, likewise
     ?[^\s\p{L}\p{N}]+      anything else that is not whitespace, likewise
    \s+(?!\S)               whitespace, but for its last character when something follows
    \s+                     that last character, if it is not a space that the next piece took

By hand: "I'm  here, 1st" is cut into "I", "'m", " ", " here", ",", " 1", "st". Of the two spaces the first is
whitespace followed by whitespace (fifth line); the second belongs to "here". No piece has both "1" and "st".

Source of the pattern: openai/gpt-2, src/encoder.py. The classes are those of `bpe.classes`, whose stand-ins let it
be written in ASCII.
"""
import re
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from bpe.classes import STAND_INS, stand_ins

# The ways in which GPT-2's pattern is written: its first publication, and tiktoken's, which differs only in speed.
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
GPT2_SPELLINGS = {
    GPT2_PATTERN,
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
}

ASCII_PATTERN = re.compile(
    r"'(?:[sdmt]|ll|ve|re)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+", re.ASCII
)


def split(text: str) -> list[str]:
    """Cut `text` into the pieces of GPT-2's pattern; joined, they are the text again.

    >>> split("I'm  here, 1st")
    ['I', "'m", ' ', ' here', ',', ' 1', 'st']
    >>> split("naïve café!")
    ['naïve', ' café', '!']
    """
    if text.isascii():
        return ASCII_PATTERN.findall(text)
    return [text[m.start() : m.end()] for m in ASCII_PATTERN.finditer(stand_ins(text))]


def matcher(pattern: str) -> Callable[[str], Iterator[str]]:
    """The same for any other pattern, run by the package `regex`; ValueError if that cannot read it.

    >>> list(matcher(r"\\d|\\D+")("ab12"))
    ['ab', '1', '2']
    """
    import regex  # 30 ms to import: only for patterns that need it

    try:
        compiled = regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"the pattern {pattern!r} cannot be used: {error}") from None
    return lambda text: (match.group() for match in compiled.finditer(text))


# The same in whole arrays. The kind of a character, from its stand-in; a kind below 2 is whitespace.
SPACE, OTHER_WHITESPACE, BETWEEN, LETTER, NUMBER, OTHER = range(6)
KINDS = bytes(
    SPACE if c == " " else OTHER_WHITESPACE if c in "\t\n\v\f\r"
    else LETTER if c.isalpha() else NUMBER if c.isdigit() else OTHER
    for c in map(chr, range(128))
) + bytes([BETWEEN]) * 128  # fmt: skip
BETWEEN_TEXTS = 0xFF  # in the place of a stand-in: here a text ends, and after it the next one begins

ENDS_ALONE = np.array([chr(code) in "sdmt" for code in range(256)])
SURROGATE = re.compile("[\\ud800-\\udfff]")


def piece_starts(stand_ins: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Where the pieces of a text begin, found by comparing the kinds of neighbours; equal to `split`.

    `stand_ins` holds the text as ASCII stand-ins (see `bpe.classes`), (N,) uint8; the result is the indices of
    the characters that begin a piece, in order, the first of them 0.

    - A letter, number or other character begins one where the kind changes, unless a space stands before it
      (which then began the piece).
    - Whitespace begins one after something else, and right before something else.
    - An apostrophe that begins a piece, with a contraction's ending after it, is a piece with that ending and no
      more: the next piece begins where the ending ends.
    - BETWEEN_TEXTS is a piece, and what stands before it and after it is cut as if it stood alone.

    >>> piece_starts(np.frombuffer(b"I'm  here, 1st", np.uint8)).tolist()
    [0, 1, 3, 4, 9, 10, 12]
    """
    n = len(stand_ins)
    if n == 0:
        return np.zeros(0, np.intp)
    kinds = np.frombuffer(stand_ins.tobytes().translate(KINDS), np.uint8)
    blank = kinds < 2
    starts = np.empty(n + 3, bool)  # three more than the text, so that a contraction at its end needs no care
    starts[0] = True
    starts[n:] = False
    after = starts[1:n]  # everything below is about a character and the one before it
    np.not_equal(kinds[1:], kinds[:-1], out=after)
    after &= kinds[:-1] != SPACE
    inside = blank[1:] & blank[:-1]  # whitespace after whitespace: begins a piece only right before something else
    after &= ~inside
    inside[:-1] &= kinds[2:] > BETWEEN
    inside[-1:] = False
    after |= inside
    after |= kinds[1:] == BETWEEN
    _separate_contractions(stand_ins, starts)
    return np.flatnonzero(starts[:n])


def _separate_contractions(stand_ins: npt.NDArray[np.uint8], starts: npt.NDArray[np.bool_]) -> None:
    """Begin a piece after each contraction's ending instead of after its apostrophe."""
    n = len(stand_ins)
    apostrophes = np.flatnonzero(stand_ins == ord("'"))
    apostrophes = apostrophes[starts[apostrophes] & (apostrophes + 1 < n)]
    first = stand_ins[apostrophes + 1]
    second = stand_ins[np.minimum(apostrophes + 2, n - 1)] * (apostrophes + 2 < n)
    one = ENDS_ALONE.take(first)
    two = np.zeros(len(first), bool)
    for ending in (b"ll", b"ve", b"re"):
        two |= (first == ending[0]) & (second == ending[1])
    starts[apostrophes[one | two] + 1] = False
    starts[apostrophes[one] + 2] = True
    starts[apostrophes[two] + 3] = True


LOOK = 1 << 12  # characters, back from where a block should end, in which the beginning of a piece is looked for


def blocks(text: str, size: int = 1 << 18) -> Iterator[str]:
    """Cut a long text into blocks of about `size` characters whose pieces, one after another, are the text's.

    A block ends where a piece begins whatever comes later. It is longer than `size` only where that happens nowhere
    near its end, in a very long piece.

    >>> list(blocks("one two  three", size=6))
    ['one', ' two', '  three']
    """
    begin = 0
    while begin < len(text):
        end = begin + size
        while end < len(text) and not (cut := _certain_start(text, begin, end)):
            end += size
        end = cut if end < len(text) else len(text)
        yield text[begin:end]
        begin = end


def _certain_start(text: str, begin: int, end: int) -> int:
    """The last index, at most `end`, at which a piece begins for certain; 0 if `LOOK` characters have none.

    That is where the kind changes, after a character that is not whitespace, unless a contraction may be there.
    Surrogates count for no kind: two of them may be repaired into one letter.
    """
    for i in range(end, max(begin, end - LOOK), -1):
        before, kind = (KINDS[ord(STAND_INS[ord(c)])] for c in text[i - 1 : i + 1])
        contraction = text[i - 1] == "'" and kind == LETTER
        if kind != before > OTHER_WHITESPACE and not contraction and not SURROGATE.search(text, i - 1, i + 1):
            return i
    return 0


def repair_surrogates(text: str) -> str:
    r"""Join surrogates that make a pair into their character, and put U+FFFD in the place of the others.

    >>> repair_surrogates("\ud83d\udc4d \ud83d")
    '👍 �'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def repaired(text: str) -> str:
    """`text` as it is, or its surrogates repaired when it has any."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return repair_surrogates(text)
    return text
