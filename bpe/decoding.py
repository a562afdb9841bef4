"""From ids back to bytes and text: the bytes of each id, one after another."""
import codecs
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bpe.checks import as_integer

AT_ONCE = 1 << 13  # ids whose bytes are put together at once: few enough to stay in the processor's cache


def as_ids(tokens: Sequence[int] | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.uint32]:
    """A sequence of ids as an array, (T,) uint32; it is known afterwards that all are integers of 32 bits.

    TypeError for what is no sequence of integers (bools are none), OverflowError for negative and too large ids.

    >>> as_ids([31373, 995]).tolist()
    [31373, 995]
    >>> as_ids([31373, -1])
    Traceback (most recent call last):
    OverflowError: id -1 at position 1: ids are 0 to 4294967295
    """
    if hasattr(tokens, "__array__"):  # NumPy's, or a tensor or column that can be one
        if np.ma.is_masked(tokens):
            raise TypeError("ids must be integers, and some of this masked array are masked")
        tokens = np.asarray(tokens)
        if tokens.ndim != 1 or (tokens.dtype.kind not in "iu" and tokens.size):
            raise TypeError(f"ids must be integers in one dimension, got {tokens.dtype}, shape {tokens.shape}")
        if tokens.size and not 0 <= int(tokens.min()) <= int(tokens.max()) < 1 << 32:
            position = np.flatnonzero((tokens < 0) | (tokens > 0xFFFFFFFF))[0]
            raise OverflowError(f"id {tokens[position]} at position {position}: ids are 0 to {0xFFFFFFFF}")
        return tokens.astype(np.uint32)
    sized = hasattr(tokens, "__len__") and hasattr(tokens, "__getitem__")
    if not sized or isinstance(tokens, (str, bytes, bytearray, memoryview, Mapping)):
        raise TypeError(f"ids must be a list or an array of integers, got {type(tokens).__name__}")
    try:
        ids = array("I", tokens)
    except (TypeError, OverflowError):
        ids = None  # some id is to blame, and is named below
    if ids is None or not {bool, np.bool_}.isdisjoint(map(type, tokens)):
        for position, token in enumerate(tokens):
            as_id(token, f" at position {position}")
    return np.frombuffer(ids, np.uint32)  # type: ignore[arg-type]


def as_id(token: Any, where: str = "") -> int:
    """One id as an int; errors as in `as_ids`."""
    id = as_integer(token, f"the id{where}")
    if not 0 <= id < 1 << 32:
        raise OverflowError(f"id {id}{where}: ids are 0 to {0xFFFFFFFF}")
    return id


def bytes_by_id(mergeable_ranks: dict[bytes, int], special_tokens: dict[str, int]) -> dict[int, bytes]:
    """The bytes of every id; ValueError when two tokens share an id, or a token has no bytes.

    Special tokens may be two names of one id (tiktoken's o200k_harmony has such); it decodes to the first of them.
    """
    if not mergeable_ranks:
        raise ValueError("mergeable_ranks is empty: there must be a token to encode with")
    if b"" in mergeable_ranks or "" in special_tokens:
        raise ValueError("a token of no bytes cannot be encoded")
    try:
        special = {id: text.encode() for text, id in reversed(special_tokens.items())}
    except UnicodeEncodeError as error:
        raise ValueError(f"the special token {error.object!r} has a surrogate, which no text is read with") from None
    bytes_of = {id: token for token, id in mergeable_ranks.items()}
    bytes_of |= special
    if len(bytes_of) != len(mergeable_ranks) + len(special):
        first: dict[int, bytes] = dict(special)
        for token, id in mergeable_ranks.items():
            if id in first:
                raise ValueError(f"the id {id} belongs to two tokens, {token!r} and {first[id]!r}")
            first[id] = token
    for id in (min(bytes_of), max(bytes_of)):
        as_id(id, f" of {bytes_of[id]!r}")
    return bytes_of


class TokenBytes:
    """The bytes of every id.

    >>> token_bytes = TokenBytes({0: b"a", 1: b"bc", 7: b"d"})
    >>> token_bytes.join(np.array([1, 7, 0], np.uint32))
    b'bcda'
    """

    def __init__(self, bytes_of: Mapping[int, bytes]) -> None:
        self.bytes_of = bytes_of
        self._whole: tuple[npt.NDArray[Any], ...] | None = None  # made when a long sequence comes

    def one(self, token: int, where: str = "") -> bytes:
        """The bytes of an id; KeyError when no token has it."""
        found = self.bytes_of.get(token)
        if found is None:
            raise KeyError(f"id {token}{where}: no token has it; ids are 0 to {max(self.bytes_of)}")
        return found

    def each(self, ids: npt.NDArray[np.uint32]) -> list[bytes]:
        """The bytes of each of some ids, (T,)."""
        try:
            return [self.bytes_of[token] for token in ids.tolist()]
        except KeyError:
            return [self.one(token, f" at position {i}") for i, token in enumerate(ids.tolist())]

    def join(self, ids: npt.NDArray[np.uint32]) -> bytes:
        """The bytes of all of some ids, (T,), one after another: `b"".join(each(ids))`, in whole arrays when long."""
        if len(ids) < AT_ONCE:
            return b"".join(self.each(ids))
        known, data, starts, lengths = self._whole = self._whole or self._arrays()
        parts = []
        for i in range(0, len(ids), AT_ONCE):
            some = ids[i : i + AT_ONCE]
            at: npt.NDArray[Any] = some
            if len(known) != known[-1] + 1:  # the ids have gaps, so an id is not its own index
                at = np.searchsorted(known, some).clip(max=len(known) - 1)
            wrong = np.flatnonzero((at >= len(known)) | (known.take(at, mode="clip") != some))
            if len(wrong):
                self.one(int(some[wrong[0]]), f" at position {i + wrong[0]}")
            length = lengths.take(at)
            ends = np.cumsum(length)
            shift = np.repeat(starts.take(at) - (ends - length), length)
            parts.append(data.take(shift + np.arange(len(shift))).tobytes())
        return b"".join(parts)

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        ids = sorted(self.bytes_of)
        tokens = [self.bytes_of[id] for id in ids]
        lengths = np.array([len(token) for token in tokens])
        return np.array(ids), np.frombuffer(b"".join(tokens), np.uint8), np.cumsum(lengths) - lengths, lengths


class StreamDecoder:
    """Text from ids that come one at a time: a character comes out when the last of its bytes is in.

    What `push` and `flush` return, one after another, is the text of all the ids; what is not valid UTF-8 becomes
    U+FFFD. After `flush` it begins anew.

    >>> decoder = StreamDecoder(TokenBytes({0: b"a", 1: b"\\xc3", 2: b"\\xa9"}))
    >>> [decoder.push(0), decoder.push(1), decoder.push(2), decoder.push(1), decoder.flush()]
    ['a', '', 'é', '', '�']
    """

    def __init__(self, token_bytes: TokenBytes) -> None:
        self._token_bytes = token_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The characters that are whole with the id `token`; often one word, sometimes nothing."""
        return self._decoder.decode(self._token_bytes.one(as_id(token)))

    def flush(self) -> str:
        """What is left when no more ids come: "" or the U+FFFD of a character that was never whole."""
        return self._decoder.decode(b"", final=True)


def with_offsets(tokens: Sequence[bytes], errors: str = "strict") -> tuple[str, list[int]]:
    r"""The text of tokens, and for each the index of the character that its first byte is in.

    With "replace", what is not valid UTF-8 is U+FFFD in the text; with "ignore", it is left out, and a token that
    begins there has the index of the next character.

    >>> with_offsets([b"na", b"\xc3", b"\xafve"])
    ('naïve', [0, 2, 2])
    >>> with_offsets([b"na", b"\xc3", b"ve"], errors="replace")
    ('na�ve', [0, 2, 3])
    """
    if errors not in ("strict", "replace", "ignore"):
        raise ValueError(f"errors must be 'strict', 'replace' or 'ignore', not {errors!r}")
    replaced = "\ufffd" if errors == "replace" else ""
    data = b"".join(tokens)
    marked = data.decode("utf-8", "strict" if errors == "strict" else "bpe.mark")
    codes = np.frombuffer(marked.encode("utf-32-le", "surrogatepass"), np.uint32)
    first, other = codes == ord(BAD_FIRST), codes == ord(BAD_OTHER)
    width = 1 + (codes >= 0x80).astype(np.intp) + (codes >= 0x800) + (codes >= 0x10000)  # in bytes
    width[first | other] = 1
    kept = ~(first | other) | (first & bool(replaced))
    index = np.cumsum(kept) - (kept | bool(replaced))  # of each character of `marked` in the text
    of_byte = np.append(np.repeat(index, width), kept.sum())
    starts = np.cumsum([0, *map(len, tokens)])[:-1]
    return marked.replace(BAD_FIRST, replaced).replace(BAD_OTHER, ""), of_byte[starts].tolist()


# What is not valid UTF-8 is decoded to a mark for each byte, by an error handler; no valid text has surrogates.
BAD_FIRST, BAD_OTHER = "\ud800", "\ud801"


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return BAD_FIRST + BAD_OTHER * (error.end - error.start - 1), error.end


codecs.register_error("bpe.mark", _mark)
