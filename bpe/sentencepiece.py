"""SentencePiece, as in Llama 1 and 2: a space is a letter, and merges run over the whole text.

    "Hello world"
    ▁Hello▁world                      a space in front (the dummy prefix), and every space written ▁
    ▁ H e l l o ▁ w o r l d           its characters
    ▁Hello ▁world                     merged: of all neighbours that make a piece, those with the best score first

It is the loop of merge.py, with characters for bytes and a score for the rank: the piece learned first has the best.
Nothing is cut beforehand, but no piece of Llama's goes on after a word: ▁ only stands at a piece's beginning. So each
word can be merged alone, and remembered.

A character that is no piece, like "🤷", becomes its bytes in UTF-8, which all are: <0xF0> <0x9F> <0xA4> <0xB7>.

By hand, with the scores  ▁h -1, ll -2, ▁he -3, llo -4 : "hello" is ▁ h e l l o, then ▁h e l l o, ▁h e ll o, ▁he ll o,
▁he llo.

`tokenizer.model` is a protocol buffer: protobuf.py reads its fields, `read_model` knows what they mean.

Source: Kudo and Richardson, "SentencePiece" (EMNLP 2018); google/sentencepiece, src/sentencepiece_model.proto.
Touvron et al., "LLaMA" (2023).
"""
import os
import re
import struct
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from bpe.merge import merged
from bpe.pieces import Cut, Piece, Remembered, checked_ids, numbered, well_formed
from bpe.protobuf import fields

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # a piece's type
BYTE_PIECES = [f"<0x{byte:02X}>" for byte in range(256)]


class ModelPiece(NamedTuple):
    """A piece as `tokenizer.model` holds it."""

    text: str
    score: float = 0.0
    type: int = NORMAL


class SentencePiece:
    """Llama's tokenizer, from a list of pieces; a piece's place in it is its id.

    >>> pieces = [ModelPiece("<unk>", type=UNKNOWN), *(ModelPiece(name, type=BYTE) for name in BYTE_PIECES)]
    >>> learned = ["▁h", "ll", "▁he", "llo", "▁", "h", "e", "l", "o"]
    >>> pieces += [ModelPiece(text, -rank) for rank, text in enumerate(learned)]
    >>> tokenizer = SentencePiece(pieces)
    >>> tokenizer.encode("hello")
    [259, 260]
    >>> [(piece.text, piece.start, piece.end) for piece in tokenizer.tokens("hello é")]
    [('▁he', 0, 2), ('llo', 2, 5), ('▁', 5, 6), ('<0xC3>', 6, 7), ('<0xA9>', 6, 7)]
    >>> tokenizer.decode(tokenizer.encode("hello é"))
    'hello é'
    """

    def __init__(self, pieces: Iterable[ModelPiece]) -> None:
        pieces = list(pieces)
        self._ids = numbered((piece.text for piece in pieces), lambda id: f"piece {id}")
        _check_types(pieces)
        self._pieces = pieces
        self._byte_ids = [self._ids[name] for name in BYTE_PIECES]
        normal = [piece for piece in pieces if piece.type == NORMAL]
        rank = {score: rank for rank, score in enumerate(sorted({piece.score for piece in normal}, reverse=True))}
        self._ranks = {piece.text: rank[piece.score] for piece in normal}
        self._bytes = [_bytes_of(piece) for piece in pieces]
        # unless some piece has a ▁ after something else, merges never reach into the next word, which begins there
        goes_on = any(SPACE in text.lstrip(SPACE) for text in self._ranks)
        self._words = re.compile(".+" if goes_on else f"{SPACE}*[^{SPACE}]+|{SPACE}+", re.DOTALL)
        self._cuts = Remembered(self._cut)

    @classmethod
    def from_file(cls, tokenizer_model: str | os.PathLike[str]) -> "SentencePiece":
        """Read a `tokenizer.model` with the settings that Llama 1 and 2 have.

        ValueError, with the file, the byte or piece and the reason, for a file that is damaged or has other settings.
        """
        try:
            return cls(read_model(Path(tokenizer_model).read_bytes()))
        except ValueError as error:
            raise ValueError(f"{tokenizer_model}: {error}") from None

    @property
    def vocab_size(self) -> int:
        """How many pieces there are; the ids are 0 to vocab_size - 1."""
        return len(self._pieces)

    # -- from text to ids --------------------------------------------------------------------------------------------

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without <s> before it.

        Written in the text, "<s>" is text like any other. Surrogates are as in `well_formed`.
        """
        return [id for word in self._split(well_formed(text)[0]) for id, _, _ in self._cuts[word]]

    def tokens(self, text: str) -> list[Piece]:
        """The pieces of `text` in order, each with its id and the span of the original text that it stands for.

        The spans cover the text without a gap. Pieces overlap only where they are the bytes of one character, which
        is then the span of each. The dummy prefix stands for no character: alone in a piece, its span is 0, 0.
        """
        pieces = []
        clean, origin = well_formed(text)
        begin = -1  # the dummy prefix stands one character before the text
        for word in self._split(clean):
            for id, start, end in self._cuts[word]:
                span = origin[max(begin + start, 0)], origin[begin + end]
                pieces.append(Piece(id, self._pieces[id].text, self._bytes[id], *span))
            begin += len(word)
        return pieces

    def _split(self, text: str) -> list[str]:
        return self._words.findall(SPACE + text.replace(" ", SPACE)) if text else []

    def _cut(self, word: str) -> Cut:
        """Merge the characters of a word; what is no piece then is one character, and becomes its bytes."""
        cut, start = [], 0
        for part in merged(word, self._ranks):
            end = start + len(part)
            id = self._ids.get(part)
            ids = [self._byte_ids[byte] for byte in part.encode()] if id is None else [id]
            cut += [(id, start, end) for id in ids]
            start = end
        return cut

    # -- and back ----------------------------------------------------------------------------------------------------

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, without the dummy prefix; U+FFFD for each byte that is not part of a character.

        <s> and </s> are nothing, <unk> is " ⁇ ". TypeError and ValueError for ids that are none.
        """
        ids = checked_ids(ids, self.vocab_size)
        text = ""
        for is_control, run in groupby(ids, lambda id: self._pieces[id].type == CONTROL):
            if not is_control:
                # "replace" would put one U+FFFD for all bytes of a character cut short; this marks each bad byte
                held = b"".join(self._bytes[id] for id in run).decode("utf-8", "surrogateescape")
                text += re.sub("[\udc80-\udcff]", "\ufffd", held)
        first = next((id for id in ids if self._pieces[id].type != CONTROL), None)
        begins_with_prefix = first is not None and self._pieces[first].text.startswith(SPACE)
        return text[1:] if begins_with_prefix else text


def _bytes_of(piece: ModelPiece) -> bytes:
    if piece.type == BYTE:
        return bytes([BYTE_PIECES.index(piece.text)])
    text = {UNKNOWN: " ⁇ ", CONTROL: ""}.get(piece.type, piece.text)
    return text.replace(SPACE, " ").encode()


def _check_types(pieces: list[ModelPiece]) -> None:
    for id, piece in enumerate(pieces):
        if piece.type not in (NORMAL, UNKNOWN, CONTROL, BYTE):
            kind = {USER_DEFINED: "user-defined", UNUSED: "unused"}.get(piece.type, "unknown to us")
            raise ValueError(f"piece {id}: {piece.text!r} is of type {piece.type} ({kind}); Llama's model has none")
        if piece.type == BYTE and piece.text not in BYTE_PIECES:
            raise ValueError(f"piece {id}: {piece.text!r} is marked as a byte; bytes are <0x00> to <0xFF>")
        if piece.score != piece.score:
            raise ValueError(f"piece {id}: the score of {piece.text!r} is not a number")
    missing = set(BYTE_PIECES) - {piece.text for piece in pieces if piece.type == BYTE}
    if missing:
        raise ValueError(f"no piece is the byte {min(missing)}: characters that are no piece could not be written")
    unknown = [piece.text for piece in pieces if piece.type == UNKNOWN]
    if len(unknown) != 1:
        raise ValueError(f"one piece must be of type {UNKNOWN} (<unk>), and {len(unknown)} are: {unknown}")


# -- tokenizer.model -------------------------------------------------------------------------------------------------


TRAINER, NORMALIZER, DENORMALIZER = 2, 3, 5  # fields of the model that hold settings; field 1 is a piece, many times

# (field of the model, field in it): what it is, its value when it is not there, the value Llama's has
SETTINGS = {
    (TRAINER, 3): ("model_type (1 unigram, 2 BPE, 3 word, 4 char)", 1, 2),
    (TRAINER, 24): ("treat_whitespace_as_suffix", 0, 0),
    (TRAINER, 35): ("byte_fallback", 0, 1),
    (NORMALIZER, 2): ("precompiled_charsmap (its length in bytes)", 0, 0),
    (NORMALIZER, 3): ("add_dummy_prefix", 1, 1),
    (NORMALIZER, 4): ("remove_extra_whitespaces", 1, 0),
    (NORMALIZER, 5): ("escape_whitespaces", 1, 1),
    (DENORMALIZER, 2): ("denormalizer's precompiled_charsmap (its length in bytes)", 0, 0),
}


def read_model(data: bytes) -> list[ModelPiece]:
    """The pieces in the bytes of a `tokenizer.model`.

    ValueError for bytes that are not such a message, and for settings other than Llama's, which would give other ids.
    """
    if not data:
        raise ValueError("the file is empty (0 bytes)")
    pieces: list[ModelPiece] = []
    settings = {key: default for key, (_, default, _) in SETTINGS.items()}
    for number, _, begin, end in fields(data, 0, len(data)):
        if number == 1:
            pieces.append(_read_piece(data, begin, end, len(pieces)))
        elif number in (TRAINER, NORMALIZER, DENORMALIZER):
            for inner, value, first, last in fields(data, begin, end):
                if (number, inner) in settings:
                    is_text = "bytes" in SETTINGS[number, inner][0]
                    settings[number, inner] = last - first if is_text else value
    if not pieces:
        raise ValueError("there is no piece in it")
    for key, (name, _, wanted) in SETTINGS.items():
        if settings[key] != wanted:
            raise ValueError(f"{name} is {settings[key]}; only models like Llama's can be read, which have {wanted}")
    return pieces


def _read_piece(data: bytes, begin: int, end: int, id: int) -> ModelPiece:
    text, score, type = "", 0.0, NORMAL
    for number, value, first, last in fields(data, begin, end):
        if number == 1:
            try:
                text = data[first:last].decode()
            except UnicodeDecodeError as error:
                raise ValueError(f"byte {first + error.start}: piece {id} is not UTF-8: {data[first:last]!r}") from None
        elif number == 2:
            if last - first != 4:
                raise ValueError(f"byte {first}: the score of piece {id} is not a float of 4 bytes")
            (score,) = struct.unpack("<f", data[first:last])
        elif number == 3:
            type = value
    return ModelPiece(text, score, type)
