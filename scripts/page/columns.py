"""The playground's three columns: one text as GPT-2, BERT and Llama 2 carve it, as plain data ready to be shown."""
from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import regex

from bpe import Encoding, colours, get_encoding, pieces
from bpe.files import find
from bpe.manifest import SETS
from bpe.pieces import Piece
from bpe.sentencepiece import BYTE_PIECES, SentencePiece
from bpe.split import split
from bpe.wordpiece import SPECIAL_TOKENS, WordPiece
from embedding.neighbours import nearest

SIGNS = str.maketrans(colours.SIGNS)
DRAWN = 2000  # pieces of a column that are drawn; all are counted
LONGEST_WORD = 100  # bytes; the merges of a longer word are not told one by one


class Column:
    """A tokenizer that is loaded when it is first asked for, and tried again for as long as its files are missing."""

    name: str
    idea: str
    files: str  # their name in the manifest

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokenizer: Any = None

    @property
    def tokenizer(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = self.load()
            return self._tokenizer

    def load(self) -> Any:
        raise NotImplementedError

    def ids(self, text: str, specials: bool) -> Any:
        raise NotImplementedError

    def pieces(self, text: str, specials: bool) -> list[Piece]:
        raise NotImplementedError

    def vocab_size(self) -> int:
        return self.tokenizer.vocab_size

    def shown(self, piece: Piece) -> str:
        """A piece as its vocabulary writes it: "##able", "▁lov"."""
        return colours.visible(piece.text)

    def spelled(self, id: int) -> str:
        """The piece of an id, in the same way."""
        return colours.visible(self.tokenizer.decode([id]))

    def kind(self, piece: Piece) -> str:
        """What sets a piece apart from others: "special", "unknown", "byte"; "" for most."""
        return ""


class GPT2(Column):
    name, idea, files = "GPT-2", "byte-level BPE", "gpt2"

    def load(self) -> Encoding:
        return get_encoding("gpt2")

    def vocab_size(self) -> int:
        return self.tokenizer.n_vocab

    def ids(self, text: str, specials: bool) -> Any:
        return self.tokenizer.encode(text, allowed_special="all" if specials else (), disallowed_special=())

    def pieces(self, text: str, specials: bool) -> list[Piece]:
        return self.tokenizer.tokens(text, allowed_special="all" if specials else ())

    def shown(self, piece: Piece) -> str:  # the vocabulary writes bytes as letters of its own: " the" is "Ġthe"
        return colours.visible(piece.bytes)

    def spelled(self, id: int) -> str:
        return colours.visible(self.tokenizer.decode_bytes([id]))

    def kind(self, piece: Piece) -> str:
        return "special" if piece.text in self.tokenizer.special_tokens_set else ""


class BERT(Column):
    name, idea, files = "BERT", "WordPiece, uncased", "bert"

    def load(self) -> WordPiece:
        return WordPiece.from_file(find("bert"))

    def ids(self, text: str, specials: bool) -> list[int]:
        return self.tokenizer.encode(text, allowed_special="all" if specials else ())

    def pieces(self, text: str, specials: bool) -> list[Piece]:
        return self.tokenizer.tokens(text, allowed_special="all" if specials else ())

    def kind(self, piece: Piece) -> str:
        return "unknown" if piece.text == "[UNK]" else "special" if piece.text in SPECIAL_TOKENS else ""


class Llama(Column):
    name, idea, files = "Llama 2", "SentencePiece BPE", "llama"

    def load(self) -> SentencePiece:
        return SentencePiece.from_file(find("llama"))

    def ids(self, text: str, specials: bool) -> list[int]:  # "<s>" in a text is always text
        return self.tokenizer.encode(text)

    def pieces(self, text: str, specials: bool) -> list[Piece]:
        return self.tokenizer.tokens(text)

    def kind(self, piece: Piece) -> str:
        return "byte" if piece.text in BYTE_PIECES else ""


COLUMNS = [GPT2(), BERT(), Llama()]


def carve(text: str, specials: bool = False, drawn: int = DRAWN) -> dict[str, Any]:
    """The counts of `text`, and for each tokenizer its count and its first `drawn` pieces.

    specials: "<|endoftext|>", "[MASK]" and their like in the text are special tokens, not text.
    """
    clean, _ = pieces.well_formed(text)
    size = len(clean.encode())
    return {
        "bytes": size,
        "characters": len(clean),
        "graphemes": sum(1 for _ in regex.finditer(r"\X", clean)),
        "columns": [_column(column, text, size, specials, drawn) for column in COLUMNS],
    }


def _column(column: Column, text: str, size: int, specials: bool, drawn: int) -> dict[str, Any]:
    facts = {"name": column.name, "idea": column.idea, "files": column.files, "licence": SETS[column.files][0].licence}
    try:
        ids = column.ids(text, specials)
    except (OSError, ValueError) as error:  # its file is missing, or damaged
        return {**facts, "problem": str(error)}
    shown = first_pieces(column, text, specials, ids, drawn)
    return {
        **facts,
        "vocabulary": column.vocab_size(),
        "tokens": len(ids),
        "ratio": round(size / len(ids), 2) if len(ids) else None,
        "drawn": len(shown),
        "groups": list(_groups(column, text, shown)),
    }


def first_pieces(column: Column, text: str, specials: bool, ids: Any, count: int) -> list[Piece]:
    """The first `count` pieces of `text`, whose `ids` are known, without looking for the pieces of all of a long text.

    The pieces of a prefix are those of the whole as long as the ids agree; only the last may have another span.
    """
    size = 16 * count
    while size < len(text):
        found = column.pieces(text[:size], specials)[:-1][:count]
        if len(found) == count and all(piece.id == id for piece, id in zip(found, ids)):
            return found
        size *= 4
    return column.pieces(text, specials)[:count]


def _groups(column: Column, text: str, shown: list[Piece]) -> Iterator[dict[str, Any]]:
    """The pieces as they are drawn: alone, or together where they are parts of what a reader sees as one character."""
    end = max((piece.end for piece in shown), default=0)
    edges = {match.start() for match in regex.finditer(r"\X", text[:end])} | {end}
    group: list[Piece] = []
    for piece in shown:
        if group and piece.start in edges and piece.start >= max(other.end for other in group):
            yield _group(column, text, group)
            group = []
        group.append(piece)
    if group:
        yield _group(column, text, group)


def _group(column: Column, text: str, group: list[Piece]) -> dict[str, Any]:
    whole = text[min(piece.start for piece in group) : max(piece.end for piece in group)]
    return {
        # as a picture, if it is one: an emoji family holds joiners that `visible` would show
        "text": whole.translate(SIGNS) if any(map(str.isprintable, whole)) else colours.visible(whole),
        "pieces": [
            {
                "id": piece.id,
                "shown": column.shown(piece),
                "bytes": piece.bytes.hex(" "),
                "start": piece.start,
                "end": piece.end,
                "covers": colours.visible(text[piece.start : piece.end]),
                "kind": column.kind(piece),
            }
            for piece in group
        ],
    }


# GPT-2's merges


def merges(text: str, start: int, end: int, specials: bool = False) -> list[dict[str, Any]]:
    """For each word of `text` from `start` to `end`, as GPT-2's pattern cuts them, the parts after each merge of it."""
    encoding = COLUMNS[0].tokenizer
    clean, _ = pieces.well_formed(text)
    special = "|".join(map(re.escape, encoding.special_tokens_set))
    told: list[dict[str, Any]] = []
    begin = 0
    for i, part in enumerate(re.split(f"({special})", clean) if specials else [clean]):
        for word in [part] if i % 2 else split(part):
            if begin >= end:
                return told
            if begin + len(word) > start:
                told.append({"start": begin, "end": begin + len(word), **_steps(word, special=bool(i % 2))})
            begin += len(word)
    return told


def _steps(word: str, special: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {"word": colours.visible(word), "ids": [], "steps": []}
    if special:
        return {**facts, "why": "A special token is cut out of the text first, and takes no part in merges."}
    if len(word.encode()) > LONGEST_WORD:
        return {**facts, "why": f"{len(word.encode()):,} bytes: too long to be told step by step."}
    (explanation,) = COLUMNS[0].tokenizer.explain(word, disallowed_special=())
    parts = [bytes([byte]) for byte in word.encode()]
    steps: list[dict[str, Any]] = [{"parts": list(map(colours.visible, parts))}]
    for left, right, id in explanation.merges:
        at = next(i for i in range(len(parts)) if parts[i : i + 2] == [left, right])  # the leftmost goes first
        parts[at : at + 2] = [left + right]
        steps.append({"parts": list(map(colours.visible, parts)), "at": at, "id": id})
    return {**facts, "ids": [int(id) for id in explanation.ids], "steps": steps}


# a table's rows


class Table:
    """Vectors, (V, C), of the tokenizer that has V ids."""

    def __init__(self, array: np.ndarray, name: str) -> None:
        fitting = []
        for column in COLUMNS[:2]:
            try:
                fitting += [column] if [column.vocab_size()] == list(array.shape[:-1]) else []
            except OSError:
                continue  # its file is missing
        if not fitting:
            raise ValueError(f"{name} has the shape {array.shape}; GPT-2 has 50,257 rows, BERT 30,522")
        self.array, self.name, self.column = array, name, fitting[0]

    def row(self, id: int, neighbours: int = 10) -> dict[str, Any]:
        """The numbers of a row, and the rows nearest to it by cosine. IndexError for an id that has no row."""
        if not 0 <= id < len(self.array):
            raise IndexError(f"the id is {id}: {self.name} has rows for 0 to {len(self.array) - 1}")
        ids, cosines = nearest(self.array, id, k=neighbours)
        near = [
            {"id": other, "shown": self.column.spelled(other), "cosine": round(cosine, 3)}
            for other, cosine in zip(ids.tolist(), cosines.tolist())
        ]
        row = self.array[id]
        norm = float(np.linalg.norm(row))
        return {"id": id, "name": self.name, "norm": norm, "values": row.tolist(), "nearest": near}
