"""WordPiece, as in BERT (uncased): fold the text, split it into words, cut each word by the longest match.

    "Unaffable, café"                   folding.py rewrites it, character by character
    "unaffable ,  cafe"                 and the spaces split it into words
    una ##ffa ##ble    ,    cafe        each cut into pieces of the vocabulary

A word is cut from the left: the longest piece it begins with, then the longest that goes on from there, and so on. A
piece inside a word is written with "##" before it, so "##able" and "able" are two pieces. If at some point none fits,
the whole word is [UNK], and so is a word of more than 100 characters.

By hand, with the pieces  un, una, ##ff, ##ffa, ##ble, ##able : "unaffable" begins with "una" (longer than "un"), goes
on with "##ffa" (longer than "##ff"), then "##ble". "unable" begins with "una" too, then "##ble". A choice is never
taken back: without "##ble", "unable" is [UNK], although "un" and "##able" would make it.

Source: Devlin et al., "BERT" (NAACL 2019); google-research/bert, tokenization.py; Schuster and Nakajima, "Japanese
and Korean Voice Search" (ICASSP 2012).
"""
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bpe import special
from bpe.files import read_text
from bpe.folding import FOLDED, is_mark
from bpe.pieces import Cut, Piece, Remembered, checked_ids, numbered, well_formed
from bpe.special import Special

LONGEST_WORD = 100  # characters; a longer one is [UNK]
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class WordPiece:
    """BERT's tokenizer (uncased), from a list of pieces; a piece's place in it is its id.

    >>> tokenizer = WordPiece(["[UNK]", "un", "una", "##ff", "##ffa", "##ble", "cafe", ","])
    >>> tokenizer.encode("Unaffable, CAFÉ")
    [2, 4, 5, 7, 6]
    >>> [(piece.text, piece.start, piece.end) for piece in tokenizer.tokens("Café unary")]
    [('cafe', 0, 4), ('[UNK]', 5, 10)]
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._use(list(vocabulary), lambda id: f"id {id}")

    @classmethod
    def from_file(cls, vocab_txt: str | os.PathLike[str]) -> "WordPiece":
        """Read BERT's vocab.txt: UTF-8, a piece a line, the first with id 0.

        ValueError, with the file, the line and the reason, for a file that is empty or not UTF-8, has an empty line or
        a piece twice, or has no [UNK].
        """
        lines = read_text(Path(vocab_txt)).rstrip("\n").split("\n")  # not splitlines: a piece may be what it splits at
        self = cls.__new__(cls)
        self._use(lines, lambda id: f"{vocab_txt}, line {id + 1}")
        return self

    def _use(self, vocabulary: list[str], place: Callable[[int], str]) -> None:
        self._ids = numbered(vocabulary, place)
        if "[UNK]" not in self._ids:
            raise ValueError(
                f"{place(len(vocabulary) - 1)}: the vocabulary ends without the piece [UNK], which stands for a word "
                f"that the others cannot make"
            )
        self._vocabulary = vocabulary
        self._bytes = [piece.removeprefix("##").encode() for piece in vocabulary]
        self._longest = max(map(len, vocabulary))
        self._special = {token: self._ids[token] for token in SPECIAL_TOKENS if token in self._ids}
        self._cuts = Remembered(self._cut)

    @property
    def vocab_size(self) -> int:
        """How many pieces there are; the ids are 0 to vocab_size - 1."""
        return len(self._vocabulary)

    # -- from text to ids --------------------------------------------------------------------------------------------

    def encode(self, text: str, *, allowed_special: Special = "all") -> list[int]:
        """The ids of `text`, without [CLS] before and [SEP] after it.

        A special token that is written in the text, such as "[MASK]", is that token if it is in `allowed_special`
        ("all", or a collection of them), and text like any other if not. Surrogates are as in `well_formed`.
        """
        ids: list[int] = []
        for part, special_id in special.parts(well_formed(text)[0], self._special, self._allowed(allowed_special)):
            ids += [id for word in part.translate(FOLDED).split() for id, _, _ in self._cuts[word]]
            if special_id is not None:
                ids.append(special_id)
        return ids

    def tokens(self, text: str, *, allowed_special: Special = "all") -> list[Piece]:
        """The pieces of `text` in order, each with its id and the span of the original text that it stands for.

        A mark that was stripped belongs to the piece of the letter before it. What is in no span is whitespace,
        dropped characters at the edge of a piece, and marks with no letter before them. Two pieces have the same
        span when they share a character ("각" is three letters).
        """
        pieces = []
        clean, origin = well_formed(text)
        begin = 0
        for part, special_id in special.parts(clean, self._special, self._allowed(allowed_special)):
            for id, start, end in self._spans(part):
                pieces.append(self._piece(id, origin[begin + start], origin[begin + end]))
            begin += len(part)
            if special_id is not None:
                end = begin + len(self._vocabulary[special_id])
                pieces.append(self._piece(special_id, origin[begin], origin[end]))
                begin = end
        return pieces

    def _allowed(self, allowed_special: Special) -> frozenset[str]:
        allowed = special.chosen("allowed_special", allowed_special, self._special)
        for token in sorted(allowed.difference(self._special)):
            raise ValueError(f"{token!r} is no special token of this vocabulary; there are {list(self._special)}")
        return allowed

    def _cut(self, word: str) -> Cut:
        """Cut a folded word: the longest match, again and again."""
        unknown = [(self._ids["[UNK]"], 0, len(word))]
        if len(word) > LONGEST_WORD:
            return unknown
        cut = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                id = self._ids.get(prefix + word[start:end])
                if id is not None:
                    break
            else:
                return unknown
            cut.append((id, start, end))
            start, prefix = end, "##"
        return cut

    def _spans(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(id, start, end) of each piece of a text without special tokens."""
        folded = [FOLDED[ord(character)] for character in text]
        origin = [i for i, letters in enumerate(folded) for _ in letters]  # of each folded character
        for word in re.finditer("[^ ]+", "".join(folded)):
            for id, start, end in self._cuts[word[0]]:
                first, last = origin[word.start() + start], origin[word.start() + end - 1]
                after = last + 1
                while after < len(text) and not folded[after]:
                    if is_mark(text[after]):
                        last = after
                    after += 1
                yield id, first, last + 1

    def _piece(self, id: int, start: int, end: int) -> Piece:
        return Piece(id, self._vocabulary[id], self._bytes[id], start, end)

    # -- and back ----------------------------------------------------------------------------------------------------

    def decode(self, ids: Iterable[int]) -> str:
        """The words of `ids` with a space between them; a full stop, comma, ! or ? follows without one.

        What was folded away does not come back: this is not the text that was encoded. TypeError and ValueError for
        ids that are none.

        >>> tokenizer = WordPiece(["[UNK]", "un", "una", "##ff", "##ffa", "##ble", "cafe", ","])
        >>> tokenizer.decode(tokenizer.encode("Unaffable, CAFÉ unary"))
        'unaffable, cafe [UNK]'
        """
        text = ""
        for id in checked_ids(ids, self.vocab_size):
            piece = self._vocabulary[id]
            if text and piece.startswith("##"):
                piece = piece[2:]
            elif text and piece not in (".", ",", "!", "?"):
                piece = " " + piece
            text += piece
        return text
