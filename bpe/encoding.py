"""Encoding: a vocabulary and its pattern, with tiktoken's interface.

    text -> [special tokens] -> pieces (split.py) -> bytes -> merges (merge.py) -> ids
"""
from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt

from bpe import files
from bpe.merge import merge
from bpe.split import GPT2_PATTERN, GPT2_SPELLINGS, split

Special = Literal["all"] | Collection[str]

CACHED_PIECES = 1 << 16  # pieces the cache holds at most, and
CACHED_LENGTH = 64  # the longest it takes, in characters


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
        self._pat_str = pat_str
        self._mergeable_ranks = mergeable_ranks
        self._special_tokens = special_tokens
        self._bytes_of = _bytes_by_id(mergeable_ranks, special_tokens)
        self.max_token_value = max(self._bytes_of)
        if explicit_n_vocab is not None and not (
            len(self._bytes_of) == explicit_n_vocab == self.max_token_value + 1
        ):
            raise ValueError(
                f"explicit_n_vocab is {explicit_n_vocab}, but there are {len(mergeable_ranks)} mergeable and "
                f"{len(special_tokens)} special tokens, and the largest id is {self.max_token_value}"
            )
        self._special_ids = frozenset(special_tokens.values())
        self._split = split if pat_str in GPT2_SPELLINGS else _matches(pat_str)
        self._cache: dict[str, list[int]] = {}

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

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # From text to ids

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of `text`, with special tokens read as any other text.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").encode_ordinary("hello world")
        [31373, 995]
        """
        _check_text(text)
        try:
            return self._encode_pieces(text)
        except UnicodeEncodeError:
            return self._encode_pieces(repair_surrogates(text))

    def encode(
        self, text: str, *, allowed_special: Special = frozenset(), disallowed_special: Special = "all"
    ) -> list[int]:
        """The ids of `text`. Special tokens in it are refused, unless the caller says what they are.

        Those in `allowed_special` become their ids. Those in `disallowed_special` raise ValueError; "all" means
        all that are not allowed. The rest is read as any other text. Lone surrogates become U+FFFD.

        >>> from bpe import get_encoding
        >>> enc = get_encoding("gpt2")
        >>> enc.encode("hello world")
        [31373, 995]
        >>> enc.encode("<|endoftext|>", allowed_special="all")
        [50256]
        >>> enc.encode("<|endoftext|>", disallowed_special=())
        [27, 91, 437, 1659, 5239, 91, 29]
        """
        allowed = self._check_special(text, allowed_special, disallowed_special)
        if not allowed:
            return self.encode_ordinary(text)
        ids: list[int] = []
        for part, special in self._parts(text, allowed):
            ids += self.encode_ordinary(part)
            if special is not None:
                ids.append(special)
        return ids

    def _encode_pieces(self, text: str) -> list[int]:
        cache = self._cache
        ids: list[int] = []
        for piece in self._split(text):
            known = cache.get(piece)
            ids += self._encode_piece(piece) if known is None else known
        return ids

    def _encode_piece(self, piece: str) -> list[int]:
        ids = self._encode_single_piece(piece.encode())
        if len(piece) <= CACHED_LENGTH:
            if len(self._cache) >= CACHED_PIECES:
                self._cache.clear()
            self._cache[piece] = ids
        return ids

    def _encode_single_piece(self, piece: str | bytes) -> list[int]:
        """The ids of bytes that are taken as one piece."""
        if isinstance(piece, str):
            piece = piece.encode()
        whole = self._mergeable_ranks.get(piece)
        if whole is not None:
            return [whole]
        try:
            return merge(piece, self._mergeable_ranks) if piece else []
        except KeyError as missing:
            raise KeyError(f"the vocabulary of {self!r} has no token for the byte {missing}") from None

    # Special tokens

    def _check_special(self, text: str, allowed: Special, disallowed: Special) -> frozenset[str]:
        """Refuse disallowed special tokens in `text`; the allowed ones, those that are none left out."""
        _check_text(text)
        if allowed:
            allowed = self._special_set("allowed_special", allowed) & self._special_tokens.keys()
        if disallowed == "all":
            refused = [token for token in self._special_tokens if token in text and token not in allowed]
        else:
            refused = [token for token in self._special_set("disallowed_special", disallowed) if token in text]
        if refused:
            _refuse(min(refused, key=text.index), text)
        return frozenset(allowed)

    def _special_set(self, argument: str, tokens: Special) -> frozenset[str]:
        if isinstance(tokens, (str, bytes)):
            if tokens == "all":
                return frozenset(self._special_tokens)
            raise TypeError(f'{argument} must be "all" or a collection of strings, not the string {tokens!r}')
        return frozenset(tokens)

    def _parts(self, text: str, allowed: frozenset[str]) -> Iterator[tuple[str, int | None]]:
        """Cut at the allowed special tokens: each text before one with its id, and the last with None."""
        longest_first = sorted(allowed, key=len, reverse=True)  # so that <a><b> wins over <a>
        begin = 0
        for match in re.finditer("|".join(map(re.escape, longest_first)), text):
            yield text[begin : match.start()], self._special_tokens[match.group()]
            begin = match.end()
        yield text[begin:], None

    # From ids to text

    def decode(self, tokens: Sequence[int] | npt.NDArray[np.integer[Any]], errors: str = "replace") -> str:
        """The text of `tokens`. What is not valid UTF-8 becomes U+FFFD, unless `errors` says otherwise.

        OverflowError for an id that is negative or beyond 32 bits, KeyError for one that is no token, TypeError for
        what is no sequence of integers; each names the id and its position.

        >>> from bpe import get_encoding
        >>> get_encoding("gpt2").decode([31373, 995])
        'hello world'
        """
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_bytes(self, tokens: Sequence[int] | npt.NDArray[np.integer[Any]]) -> bytes:
        """The bytes of `tokens`; errors as in `decode`."""
        try:
            return b"".join([self._bytes_of[token] for token in as_ids(tokens).tolist()])
        except KeyError as missing:
            raise KeyError(f"no token has the id {missing}: ids are 0 to {self.max_token_value}") from None

    # Facts

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
        return set(self._special_tokens)


def repair_surrogates(text: str) -> str:
    r"""Join surrogates that make a pair into their character, and put U+FFFD in the place of the others.

    >>> repair_surrogates("\ud83d\udc4d \ud83d")
    '👍 �'
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_ids(tokens: Sequence[int] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint32]:
    """A sequence of ids as an array, (T,) uint32."""
    if not isinstance(tokens, np.ndarray):
        return np.frombuffer(array("I", tokens), np.uint32)
    return tokens.astype(np.uint32)


def _bytes_by_id(mergeable_ranks: dict[bytes, int], special_tokens: dict[str, int]) -> dict[int, bytes]:
    if not mergeable_ranks:
        raise ValueError("mergeable_ranks is empty: there must be a token to encode with")
    if b"" in mergeable_ranks or "" in special_tokens:
        raise ValueError("a token of no bytes cannot be encoded")
    bytes_of = {id: token for token, id in mergeable_ranks.items()}
    bytes_of.update((id, text.encode()) for text, id in special_tokens.items())
    if len(bytes_of) != len(mergeable_ranks) + len(special_tokens):
        tokens = [*mergeable_ranks.items(), *((text.encode(), id) for text, id in special_tokens.items())]
        token, id = next((token, id) for token, id in tokens if bytes_of[id] != token)
        raise ValueError(f"the id {id} belongs to two tokens, {token!r} and {bytes_of[id]!r}")
    return bytes_of


def _matches(pat_str: str) -> Callable[[str], Iterable[str]]:
    import regex  # a third of a tenth of a second to import: only for patterns that need it

    pattern = regex.compile(pat_str)
    return lambda text: (match.group() for match in pattern.finditer(text))


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}: {text!r:.60}")


def _refuse(token: str, text: str) -> NoReturn:
    raise ValueError(
        f"the text has the special token {token!r} at index {text.index(token)}. To encode it as a token, pass "
        f"allowed_special={{{token!r}}}; to encode it as any other text, pass disallowed_special=()"
    )
