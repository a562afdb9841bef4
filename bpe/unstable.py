"""What the last ids of a text become when more text follows: tiktoken's `encode_with_unstable`.

The ids of a text's beginning are not the beginning of its ids: "fant" is one token, but with "a" it is another. The
ids before the last piece stay (they are *stable*); for the last piece there are the ids that begin any continuation of
it, as far as one more token can reach.
"""
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

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
    encode: Callable[[str], list[int]],
    ranks: Mapping[bytes, int],
    bytes_of: Mapping[int, bytes],
    in_order: Sequence[bytes],
) -> list[list[int]]:
    """The ids with which a text can begin that begins with the bytes `unstable`, in order.

    `encode` gives the ids of a text, `in_order` are the tokens sorted by their bytes. Tried are, for each place in
    `unstable`, all tokens that begin with what comes after that place; and a last whitespace character cut off.
    """
    found: set[tuple[int, ...]] = {(ranks[token],) for token in _starting_with(unstable, in_order)}
    for i in range(1, len(unstable)):
        for token in _starting_with(unstable[i:], in_order):
            possible = unstable[:i] + token
            try:
                ids = encode(possible.decode())
            except UnicodeDecodeError:  # it ends inside a character
                ids = merge(possible, ranks)
            lengths = accumulate(len(bytes_of[id]) for id in ids)
            needed = sum(length < len(unstable) for length in lengths) + 1
            found.add(tuple(ids[:needed]))
    last = _last_character(unstable)
    if last and len(last) < len(unstable) and stand_ins(last) in BLANK:
        size = len(last.encode())
        found.add((*merge(unstable[:-size], ranks), *merge(unstable[-size:], ranks)))
    return sorted(map(list, found))


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
