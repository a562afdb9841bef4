"""Encoding: a vocabulary and its pattern, with tiktoken's interface.

    text -> [special tokens] -> pieces (split.py) -> bytes -> merges (merge.py) -> ids
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bpe import files, special
from bpe.bulk import BulkEncoder, gather
from bpe.checks import as_integer, as_text, at_least
from bpe.decoding import StreamDecoder, TokenBytes, as_id, as_ids, bytes_by_id, with_offsets
from bpe.explain import Explanation, explain_piece
from bpe.merge import merge
from bpe.pieces import Piece, Remembered, well_formed
from bpe.saving import save_vocabulary
from bpe.special import Special
from bpe.split import GPT2_PATTERN, GPT2_SPELLINGS, matcher, repair_surrogates, repaired, split
from bpe.unstable import completions, stable_length

Tokens = Sequence[int] | npt.NDArray[np.integer[Any]]

LONG_TEXT = 1 << 12  # characters from which a text takes the long road


class Encoding:
    """A vocabulary and the pattern that cuts a text into pieces; turns text into token ids and back.

    Parameters
    ----------
    name : what to call it.
    pat_str : the pattern whose matches are the pieces. GPT-2's is known and takes the frozen classes of
        `bpe.classes`; any other is run by the package `regex`, with the classes of its version of Unicode.
    mergeable_ranks : the ids of the tokens, by their bytes; the lower the id, the earlier the merge.
    special_tokens : the ids of texts that are tokens of their own and take no part in merges.
    explicit_n_vocab : if given, the number of ids, which must then be 0 to `explicit_n_vocab - 1`.

    ValueError when two tokens share an id, a token is empty, or `explicit_n_vocab` is not so.

    >>> ids = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"abc": 257}
    >>> enc = Encoding("abc", pat_str=GPT2_PATTERN, mergeable_ranks=ids, special_tokens={"<end>": 258})
    >>> enc.encode("abc ab")
    [257, 32, 256]
    >>> enc.encode("abc<end>", allowed_special="all")
    [257, 258]
    >>> enc.decode([257, 258])
    'abc<end>'
    """

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        self.name = name
        self._pat_str = as_text(pat_str, "pat_str")
        self._mergeable_ranks = mergeable_ranks = _plain(mergeable_ranks, bytes, "mergeable_ranks")
        self._special_tokens = special_tokens = _plain(special_tokens, str, "special_tokens")
        self._token_bytes = TokenBytes(bytes_by_id(mergeable_ranks, special_tokens))
        n_vocab = len(mergeable_ranks) + len(special_tokens)
        self.max_token_value: int = max(self._token_bytes.bytes_of)
        if explicit_n_vocab is not None and not n_vocab == explicit_n_vocab == self.max_token_value + 1:
            raise ValueError(
                f"explicit_n_vocab is {explicit_n_vocab}, but there are {len(mergeable_ranks)} mergeable and "
                f"{len(special_tokens)} special tokens, and the largest id is {self.max_token_value}"
            )
        self._special_ids = frozenset(special_tokens.values())
        self._split = split if self.has_gpt2_pattern else matcher(pat_str)
        self._ids_of = Remembered(lambda piece: _ids_of_piece(piece.encode(), mergeable_ranks))
        self._in_order: list[bytes] = []  # the tokens sorted, once they are needed
        self._bulk: BulkEncoder | None = None  # made when a long text comes
        self._has_bulk = self.has_gpt2_pattern and all(bytes([byte]) in mergeable_ranks for byte in range(256))

    @classmethod
    def from_files(
        cls,
        encoder_json: str | os.PathLike[str],
        vocab_bpe: str | os.PathLike[str],
        *,
        name: str = "gpt2",
        pat_str: str = GPT2_PATTERN,
    ) -> Encoding:
        """Read a vocabulary from two files in GPT-2's format; ValueError says what is wrong with them, and where."""
        ranks, special_tokens = files.read_vocabulary(encoder_json, vocab_bpe)
        return cls(name, pat_str=pat_str, mergeable_ranks=ranks, special_tokens=special_tokens)

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Write encoder.json and vocab.bpe, in GPT-2's format, into `folder`, and return their paths.

        The folder is made if it is not there; the two files, if they are, are replaced. They do not hold the pattern:
        `from_files` takes it as `pat_str`. ValueError for a vocabulary that the format cannot hold: where a byte has
        no token, an id is left out, a token is no merge of two before, or a special token is not written like <so>
        or [SO].
        """
        return save_vocabulary(folder, self._mergeable_ranks, self._special_tokens)

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # From text to ids

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of `text`, with special tokens read as any other text.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").encode_ordinary("hello world")
        [31373, 995]
        """
        as_text(text)
        if len(text) < LONG_TEXT:
            return self._encode_short(text)
        return list(chain.from_iterable(ids.tolist() for ids in self._encode_parts(text, frozenset())))

    def encode(
        self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Special = "all"
    ) -> list[int]:
        """The ids of `text`. Special tokens in it are refused, unless the caller says what they are.

        Those in `allowed_special` become their ids. Those in `disallowed_special` raise ValueError; "all" means all
        that are not allowed. The rest is read as any other text. Surrogates become the character that a pair of them
        stands for, or U+FFFD.

        >>> from bpe import get_encoding
        >>> enc = get_encoding("gpt2")
        >>> enc.encode("hello world")
        [31373, 995]
        >>> enc.encode("<|endoftext|>", allowed_special="all")
        [50256]
        >>> enc.encode("<|endoftext|>", disallowed_special=())
        [27, 91, 437, 1659, 5239, 91, 29]
        """
        allowed = self._check(text, allowed_special, disallowed_special)
        if len(text) < LONG_TEXT and not allowed:
            return self._encode_short(text)
        return list(chain.from_iterable(ids.tolist() for ids in self._encode_parts(text, allowed)))

    def encode_to_numpy(
        self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Special = "all"
    ) -> npt.NDArray[np.uint32]:
        """The ids of `text` as an array, (T,) uint32; otherwise as `encode`. The quickest way for long texts."""
        return gather(self._encode_parts(text, self._check(text, allowed_special, disallowed_special)))

    def encode_batch(
        self,
        text: Iterable[str],
        *,
        num_threads: int = 8,
        allowed_special: Special = frozenset(),
        disallowed_special: Special = "all",
    ) -> list[list[int]]:
        """The ids of each of some texts; as `encode`. `num_threads` is tiktoken's, and changes nothing here.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").encode_batch(["hello world", "goodbye world"])
        [[31373, 995], [11274, 16390, 995]]
        """
        options: dict[str, Any] = {"allowed_special": allowed_special, "disallowed_special": disallowed_special}
        return [self.encode(one, **options) for one in _each_text(text)]

    def encode_ordinary_batch(self, text: Iterable[str], *, num_threads: int = 8) -> list[list[int]]:
        """The ids of each of some texts; as `encode_ordinary`. `num_threads` as in `encode_batch`."""
        return [self.encode_ordinary(one) for one in _each_text(text)]

    def encode_documents(
        self, texts: Iterable[str], end: int
    ) -> Iterator[tuple[npt.NDArray[np.uint32], npt.NDArray[np.intp]]]:
        """The ids of many texts, each as in `encode_ordinary`, with the id `end` after each; the quickest way for them.

        They come array by array as texts are read, uint32, each with the places in it where a text ended. TypeError for
        what is no text, OverflowError for an `end` that is negative or beyond 32 bits.

        >>> from bpe import get_encoding
        >>> enc = get_encoding("gpt2")
        >>> [(ids.tolist(), ends.tolist()) for ids, ends in enc.encode_documents(["hello", "", "world"], enc.eot_token)]
        [([31373, 50256, 50256, 6894, 50256], [1, 2, 4])]
        """
        end, texts = as_id(end), _each_text(texts)
        if self._has_bulk:
            for ids, ends in self._bulk_encoder().encode_texts(texts):
                ids[ends] = end
                yield ids, ends
        else:
            for text in texts:
                ids = np.array([*self.encode_ordinary(text), end], np.uint32)
                yield ids, np.array([len(ids) - 1])

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of the token, mergeable or special, that is `text_or_bytes`; KeyError when none is.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").encode_single_token(b" hello")
        23748
        """
        if isinstance(text_or_bytes, str):
            text_or_bytes = repaired(text_or_bytes).encode()
        elif not isinstance(text_or_bytes, bytes):
            raise TypeError(f"expected a str or bytes, got {type(text_or_bytes).__name__}: {text_or_bytes!r:.60}")
        id = self._mergeable_ranks.get(text_or_bytes)
        if id is None:
            id = self._special_tokens.get(text_or_bytes.decode("utf-8", "replace"))
        if id is None:
            raise KeyError(f"{text_or_bytes!r:.60} is not a token of {self!r}")
        return id

    def encode_with_unstable(
        self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Special = "all"
    ) -> tuple[list[int], list[list[int]]]:
        """The ids that stay whatever follows `text`, and the ways in which the rest may go on: see `bpe.unstable`.

        >>> from bpe import get_encoding
        >>> stable, ways = get_encoding("gpt2").encode_with_unstable("hello fanta")
        >>> stable, ways[:3]
        ([31373], [[277, 4910], [5113, 265], [5113, 272]])
        """
        allowed = self._check(text, allowed_special, disallowed_special)
        ids, stay = self._encode_stable(repaired(text), allowed)
        unstable = self.decode_bytes(ids[stay:])
        if not unstable:
            return ids, []
        self._in_order = self._in_order or self.token_byte_values()
        bytes_of = self._token_bytes.bytes_of
        return ids[:stay], completions(unstable, self._split, self._mergeable_ranks, bytes_of, self._in_order)

    def encode_bytes(self, data: bytes) -> list[int]:
        r"""The ids of bytes, with special tokens read as any other text; `decode_bytes` gives the same bytes again.

        Bytes that are not UTF-8 have no pieces: from the last piece before them on, all is taken as one.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").encode_bytes(b"hello \xff")
        [31373, 220, 187]
        """
        if not isinstance(data, bytes):
            raise TypeError(f"expected bytes, got {type(data).__name__}: {data!r:.60}")
        try:
            return self.encode_ordinary(data.decode())
        except UnicodeDecodeError as error:
            ids, stay = self._encode_stable(data[: error.start].decode(), frozenset())
            rest = self.decode_bytes(ids[stay:]) + data[error.start :]
            return ids[:stay] + self._encode_single_piece(rest)

    _encode_bytes = encode_bytes  # its name in tiktoken

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """The ids of what is taken as one piece."""
        piece = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        return _ids_of_piece(piece, self._mergeable_ranks)

    def _encode_stable(self, text: str, allowed: frozenset[str]) -> tuple[list[int], int]:
        """The ids of `text`, and how many of them stay whatever follows."""
        ids: list[int] = []
        last: list[int] = []  # the ids of the last piece; none when a special token is last
        for part, special_id in special.parts(text, self._special_tokens, allowed):
            for piece in self._split(part):
                last = self._ids_of[piece]
                ids += last
            if special_id is not None:
                last = []
                ids.append(special_id)
        return ids, stable_length(ids, len(last), self._token_bytes.bytes_of)

    # What users ask for beside

    def count(self, text: str, **options: Special) -> int:
        """The number of ids of `text`; takes what `encode` takes.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").count("hello world")
        2
        """
        return sum(len(ids) for ids in self._encode_parts(text, self._check(text, **options)))

    def is_within_limit(self, text: str, limit: int, **options: Special) -> bool:
        """Whether `text` has at most `limit` ids; reads no more of it than it needs to know. Takes what `encode` does.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").is_within_limit("hello world", 1)
        False
        """
        return self._first_ids(text, limit, **options) is None

    def truncate(self, text: str, limit: int, **options: Special) -> str:
        """The beginning of `text` that has at most `limit` ids, never ending inside a character.

        It is the text of the first `limit` ids, without what they have of a character that is cut. Takes what
        `encode` takes.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").truncate("hello world, goodbye", 3)
        'hello world,'
        """
        ids = self._first_ids(text, limit, **options)
        if ids is None:
            return text
        begin = self.decode_bytes(ids).decode("utf-8", "ignore")
        options = {**options, "disallowed_special": ()}
        while self.count(begin, **options) > limit:  # rare: without the cut character there may be more ids
            begin = begin[:-1]
        return begin

    def _first_ids(self, text: str, limit: int, **options: Special) -> npt.NDArray[np.uint32] | None:
        """The first `limit` ids of `text`, None when it has no more than these."""
        limit = at_least(0, limit, "the limit")
        parts, total = [np.zeros(0, np.uint32)], 0
        for ids in self._encode_parts(text, self._check(text, **options)):
            parts.append(ids)
            total += len(ids)
            if total > limit:
                return np.concatenate(parts)[:limit]
        return None

    def explain(self, text: str, **options: Special) -> list[Explanation]:
        """How `text` becomes ids: for each piece its bytes, its merges in order, its ids. Takes what `encode` takes.

        >>> from bpe import get_encoding
        >>> print(*get_encoding("gpt2").explain("token"), sep="\\n")
        'token'  74 6f 6b 65 6e
            268  'e' + 'n'
            482  'o' + 'k'
           4233  'ok' + 'en'
          30001  't' + 'oken'
            ids  30001
        """
        allowed = self._check(text, **options)
        explained = []
        for part, special_id in special.parts(repaired(text), self._special_tokens, allowed):
            for piece in self._split(part):
                explained.append(explain_piece(piece, self._mergeable_ranks, self._ids_of[piece][:]))
            if special_id is not None:
                token = self._token_bytes.one(special_id)
                explained.append(Explanation(token.decode(), token, [], [special_id]))
        return explained

    def tokens(self, text: str, *, allowed_special: Special = frozenset()) -> list[Piece]:
        """The tokens of `text`, each with its id and the characters whose bytes it holds; see `bpe.pieces`.

        Special tokens in the text are text, but for those in `allowed_special`.

        >>> from bpe import get_encoding
        >>> [(piece.bytes, piece.start, piece.end) for piece in get_encoding("gpt2").tokens("Hi 🤷")]
        [(b'Hi', 0, 2), (b' \xf0\x9f', 2, 4), (b'\xa4', 3, 4), (b'\xb7', 3, 4)]
        """
        clean, origin = well_formed(text)
        character_of = [i for i, character in enumerate(clean) for _ in character.encode()]  # of each byte
        pieces, begin = [], 0
        for id in self.encode(clean, allowed_special=allowed_special, disallowed_special=()):
            held = self._token_bytes.one(id)
            first, last = character_of[begin], character_of[begin + len(held) - 1]
            pieces.append(Piece(id, held.decode("utf-8", "replace"), held, origin[first], origin[last + 1]))
            begin += len(held)
        return pieces

    def clear_cache(self) -> None:
        """Forget the pieces met so far. What is kept of them is bounded, so this is for measuring, mostly."""
        self._ids_of.clear()
        self._bulk = None

    # The two roads

    def _encode_short(self, text: str) -> list[int]:
        try:
            return self._encode_pieces(text)
        except UnicodeEncodeError:
            return self._encode_pieces(repair_surrogates(text))

    def _encode_pieces(self, text: str) -> list[int]:
        known = self._ids_of
        ids: list[int] = []
        for piece in self._split(text):
            ids += known[piece]
        return ids

    def _encode_parts(self, text: str, allowed: frozenset[str]) -> Iterator[npt.NDArray[np.uint32]]:
        """The ids of `text`, array by array, in whole arrays where it is long."""
        for part, special_id in special.parts(text, self._special_tokens, allowed):
            if len(part) < LONG_TEXT or not self._has_bulk:
                yield np.array(self._encode_short(part), np.uint32)
            else:
                yield from self._bulk_encoder().encode(part)
            if special_id is not None:
                yield np.array([special_id], np.uint32)

    def share_between_forks(self, lock: AbstractContextManager[Any]) -> None:
        """Let processes that are forked from now on share what they learn of long texts: see BulkEncoder.

        Without effect for a pattern that is not GPT-2's.
        """
        if self._has_bulk:
            self._bulk = BulkEncoder(self._mergeable_ranks, lock)

    def _bulk_encoder(self) -> BulkEncoder:
        bulk = self._bulk = self._bulk or BulkEncoder(self._mergeable_ranks)
        return bulk

    def _check(
        self, text: str, allowed_special: Special = frozenset(), disallowed_special: Special = "all"
    ) -> frozenset[str]:
        """The special tokens that are allowed in `text`; see `encode`."""
        as_text(text)
        return special.allowed_in(text, self._special_tokens, allowed_special, disallowed_special)

    # From ids to text

    def decode(self, tokens: Tokens, errors: str = "replace") -> str:
        """The text of `tokens`. What is not valid UTF-8 becomes U+FFFD, unless `errors` says otherwise.

        OverflowError for an id that is negative or beyond 32 bits, KeyError for one that is no token, TypeError for
        what is no sequence of integers; each names the id and its position.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").decode([31373, 995])
        'hello world'
        """
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_bytes(self, tokens: Tokens) -> bytes:
        """The bytes of `tokens`; errors as in `decode`."""
        return self._token_bytes.join(as_ids(tokens))

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one token; KeyError when there is none with that id."""
        return self._token_bytes.one(as_id(token))

    def decode_tokens_bytes(self, tokens: Tokens) -> list[bytes]:
        """The bytes of each of `tokens`; errors as in `decode`.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").decode_tokens_bytes([31373, 995])
        [b'hello', b' world']
        """
        return self._token_bytes.each(as_ids(tokens))

    def decode_with_offsets(self, tokens: Tokens, errors: str = "strict") -> tuple[str, list[int]]:
        """The text of `tokens`, and for each the index of the character in it that holds the token's first byte.

        UnicodeDecodeError for what is not valid UTF-8, unless `errors` is "replace" or "ignore".

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").decode_with_offsets([31373, 995])
        ('hello world', [0, 5])
        """
        return with_offsets(self.decode_tokens_bytes(tokens), errors)

    def decode_batch(self, batch: Iterable[Tokens], *, errors: str = "replace", num_threads: int = 8) -> list[str]:
        """The text of each of some sequences of ids; as `decode`. `num_threads` as in `encode_batch`."""
        return [self.decode(tokens, errors) for tokens in batch]

    def decode_bytes_batch(self, batch: Iterable[Tokens], *, num_threads: int = 8) -> list[bytes]:
        """The bytes of each of some sequences of ids; as `decode_bytes`. `num_threads` as in `encode_batch`."""
        return [self.decode_bytes(tokens) for tokens in batch]

    def decoder(self) -> StreamDecoder:
        """A decoder for ids that come one at a time, with `push(id)` and `flush()`.

        >>> from bpe import get_encoding
        >>> decoder = get_encoding("gpt2").decoder()
        >>> [decoder.push(id) for id in [19526, 254, 25001, 121]]
        ['', '你', '', '好']
        """
        return StreamDecoder(self._token_bytes)

    # Facts

    def token_byte_values(self) -> list[bytes]:
        """The bytes of all mergeable tokens, sorted."""
        return sorted(self._mergeable_ranks)

    @property
    def has_gpt2_pattern(self) -> bool:
        """Whether the pattern is GPT-2's, in any of its spellings."""
        return self._pat_str in GPT2_SPELLINGS

    @property
    def n_vocab(self) -> int:
        """The largest id plus one."""
        return self.max_token_value + 1

    @property
    def eot_token(self) -> int:
        """The id of "<|endoftext|>"; KeyError when there is none."""
        return self._special_tokens["<|endoftext|>"]

    @property
    def special_tokens_set(self) -> set[str]:
        """The texts of the special tokens."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether the id, any integer, is that of a special token."""
        return as_integer(token, "the id") in self._special_ids

    def __getstate__(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pat_str": self._pat_str,
            "mergeable_ranks": self._mergeable_ranks,
            "special_tokens": self._special_tokens,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _ids_of_piece(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of bytes that are taken as one piece."""
    whole = ranks.get(piece)
    return merge(piece, ranks) if whole is None else [whole]


def _plain(ids: Mapping[Any, Any], kind: type, name: str) -> dict[Any, int]:
    """A copy, since the caller's may change, its ids as ints; TypeError for keys or ids of another type."""
    if not isinstance(ids, Mapping):
        raise TypeError(f"{name} must be a dict of ids by {kind.__name__}, got {type(ids).__name__}: {ids!r:.60}")
    if set(map(type, ids)) - {kind}:
        key = next(key for key in ids if type(key) is not kind)
        raise TypeError(f"the token {key!r:.60} is a {type(key).__name__}: tokens here are {kind.__name__}")
    if set(map(type, ids.values())) - {int}:
        return {token: as_id(id, f" of {token!r:.60}") for token, id in ids.items()}
    return dict(ids)


def _each_text(texts: Iterable[str]) -> Iterator[str]:
    """The texts of a batch; TypeError for what is none, and for a text that is none, with its place."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise TypeError(f"a batch is a list of texts, got {type(texts).__name__}: {texts!r:.60}")
    for i, text in enumerate(texts):
        yield text if isinstance(text, str) else as_text(text, f"text {i}")
