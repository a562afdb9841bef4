"""What the last ids of a text become when more text follows: tiktoken's `encode_with_unstable`.

The ids of a text's beginning are not the beginning of its ids: "fant" is one token, but with "a" it is another. The
ids before the last piece stay (they are *stable*); for the last piece there are the ids that begin any continuation of
it, as far as one more token can reach.
"""
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from struct import pack

from bpe.classes import stand_ins
from bpe.merge import merge

BLANK = set(" \t\n\v\f\r")


def stable_length(ids: Sequence[int], last: int, bytes_of: Mapping[int, bytes]) -> int:
    """How many of `ids` stay, when `last` of them are of the last piece.

    Runs of whitespace are cut elsewhere when other text follows, so all tokens of spaces, tabs and newlines before
    the last piece go with it when it begins with one.
    """

    def is_blank(id: int) -> bool:
        return not bytes_of[id].strip(b" \n\t")

    stay = len(ids) - last
    if last and is_blank(ids[stay]):
        while stay and is_blank(ids[stay - 1]):
            stay -= 1
    return stay


def completions(
    unstable: bytes,
    split: Callable[[str], Iterable[str]],
    ranks: Mapping[bytes, int],
    bytes_of: Mapping[int, bytes],
    in_order: Sequence[bytes],
) -> list[list[int]]:
    """The ids with which a text can begin that begins with the bytes `unstable`, in order.

    `split` cuts a text into pieces, `in_order` are the tokens sorted by their bytes. Tried are, for each place in
    `unstable`, all tokens that begin with what comes after that place; and a last whitespace character cut off.
    """
    found: dict[bytes, list[int]] = {}  # in bytes that sort as the ids do, and quicker

    def add(ids: list[int]) -> None:
        found[pack(f">{len(ids)}I", *ids)] = ids

    for token in _starting_with(unstable, in_order):
        add([ranks[token]])
    beginnings = Beginnings(unstable, ranks, bytes_of)
    for i in range(1, len(unstable)):
        for token in _starting_with(unstable[i:], in_order):
            possible = unstable[:i] + token
            try:
                pieces = [piece.encode() for piece in split(possible.decode())]
            except UnicodeDecodeError:  # it ends inside a character
                pieces, ids, end = [], beginnings.merge(0, i, token), len(possible)
            else:
                ids, end = [], 0
            for piece in pieces:
                begin, end = end, end + len(piece)
                shared = min(max(i - begin, 0), len(piece))  # bytes of it that are in `unstable`
                if not unstable.startswith(piece[:shared], begin):
                    shared = 0  # the pattern has left something out before it
                whole = ranks.get(piece)
                ids += beginnings.merge(begin, begin + shared, piece[shared:]) if whole is None else [whole]
            beyond = end - len(unstable)
            while ids and (size := len(bytes_of[ids[-1]])) <= beyond:
                beyond -= size
                ids.pop()
            add(ids)
    last = _last_character(unstable)
    if last and len(last) < len(unstable) and stand_ins(last) in BLANK:
        size = len(last.encode())
        add(merge(unstable[:-size], ranks) + merge(unstable[-size:], ranks))
    return [found[key] for key in sorted(found)]


class Beginnings:
    """The merges of many pieces that begin alike, each with little more work than its end needs.

    What `merge` makes of some bytes is known by its neighbours: ids are the merges of their bytes if and only if every
    two neighbours are those of theirs. (The first merge across a border would happen as well where the two are alone.)
    So more bytes after a piece change its ids back to the first border that holds with what comes then.
    Source: github/rust-gems, crates/bpe/README.md.

    >>> ranks = {b"a": 97, b"b": 98, b"c": 99, b"ab": 256, b"bc": 257, b"abc": 258}
    >>> beginnings = Beginnings(b"abcab", ranks, {id: token for token, id in ranks.items()})
    >>> beginnings.merge(0, 5, b""), beginnings.merge(0, 5, b"c")
    ([258, 256], [258, 258])
    """

    def __init__(self, data: bytes, ranks: Mapping[bytes, int], bytes_of: Mapping[int, bytes]) -> None:
        self._data, self._ranks, self._bytes_of = data, ranks, bytes_of
        self._ids: dict[tuple[int, int], list[int]] = {}
        self._longest: dict[int, int] = {}  # where the last one ended that began there
        self._merged: dict[bytes, list[int]] = {}

    def merge(self, begin: int, end: int, rest: bytes) -> list[int]:
        """The ids of data[begin:end] + rest."""
        return self._with(self._of(begin, end), rest)

    def _of(self, begin: int, end: int) -> list[int]:
        if begin == end:
            return []
        if (begin, end) not in self._ids:
            before = self._longest.get(begin, begin)
            before = before if before <= end else begin
            self._ids[begin, end] = self._with(self._of(begin, before), self._data[before:end])
            self._longest[begin] = end
        return self._ids[begin, end]

    def _with(self, ids: list[int], rest: bytes) -> list[int]:
        """`ids` with more bytes after them; one id is merged anew, then two, four and so on, until the border holds."""
        if not rest:
            return ids[:]
        anew = 1
        while True:
            end = self._merge(b"".join(map(self._bytes_of.__getitem__, ids[-anew:])) + rest)
            if anew >= len(ids):
                return end[:]
            border = [ids[-anew - 1], end[0]]
            if self._merge(b"".join(map(self._bytes_of.__getitem__, border))) == border:
                return ids[:-anew] + end
            anew *= 2

    def _merge(self, piece: bytes) -> list[int]:
        if piece not in self._merged:
            self._merged[piece] = merge(piece, self._ranks)
        return self._merged[piece]


def _starting_with(prefix: bytes, in_order: Sequence[bytes]) -> Iterator[bytes]:
    for i in range(bisect_left(in_order, prefix), len(in_order)):
        if not in_order[i].startswith(prefix):
            return
        yield in_order[i]


def _last_character(data: bytes) -> str:
    """The last character, "" when the end of `data` is not valid UTF-8."""
    for size in range(1, 5):
        try:
            return data[-size:].decode()
        except UnicodeDecodeError:
            continue
    return ""
