"""The merge loop: from the bytes of a piece to tokens.

A piece starts as its single bytes. Of all neighbouring pairs whose joined bytes are a token, the one with the lowest
rank (a token's rank is its id: merges learned earlier come first) is joined, the leftmost where several are equal;
and again, until no pair makes a token.

By hand, with the tokens  ab: 256, bc: 257, abc: 258  and the bytes a: 97, b: 98, c: 99. The piece "abcbc":

    a b c b c     the pairs make ab (256), bc (257), nothing for cb, bc (257): the lowest is ab
    ab c b c      now abc (258), nothing, bc (257): the lowest is bc
    ab c bc       abc (258), nothing for cbc
    abc bc        nothing for abcbc: done, [258, 257]

Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (ACL 2016); on
bytes, and with the rank as id: GPT-2 (openai/gpt-2, src/encoder.py) and tiktoken.
"""
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import AnyStr  # the loop is the same over characters: sentencepiece.py

LONG = 64  # bytes, or characters, from which a piece takes the road that is near-linear in its length

NO_TOKEN = 1 << 32  # a rank above every id


def merge(piece: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """The ids of `piece`; KeyError when a byte that stays single is not in `ranks`.

    >>> ranks = {b"a": 97, b"b": 98, b"c": 99, b"ab": 256, b"bc": 257, b"abc": 258}
    >>> merge(b"abcbc", ranks)
    [258, 257]
    """
    try:
        return [ranks[part] for part in merged(piece, ranks)]
    except KeyError as missing:
        raise KeyError(f"the vocabulary has no token for the byte {missing}") from None


def merged(piece: AnyStr, ranks: Mapping[AnyStr, int]) -> list[AnyStr]:
    """The parts that `piece` is when no pair of them makes a token.

    >>> merged(b"abcbc", {b"ab": 256, b"bc": 257, b"abc": 258})
    [b'abc', b'bc']
    """
    if len(piece) >= LONG:
        return merge_long(piece, ranks)
    parts = [piece[i : i + 1] for i in range(len(piece))]
    for _ in merge_steps(parts, ranks):
        pass
    return parts


def merge_steps(parts: list[AnyStr], ranks: Mapping[AnyStr, int]) -> Iterator[tuple[AnyStr, AnyStr, int]]:
    """Merge `parts` in place, and yield each merge when it is done: left, right, and the rank of both joined.

    Looks at every pair after every merge: quadratic in the length, and quick for the few bytes of a word.

    >>> parts = [b"a", b"b", b"c", b"b", b"c"]
    >>> for merged in merge_steps(parts, {b"ab": 256, b"bc": 257, b"abc": 258}):
    ...     print(merged, parts)
    (b'a', b'b', 256) [b'ab', b'c', b'b', b'c']
    (b'b', b'c', 257) [b'ab', b'c', b'bc']
    (b'ab', b'c', 258) [b'abc', b'bc']
    """
    found = [ranks.get(left + right, NO_TOKEN) for left, right in zip(parts, parts[1:])]
    while found and (rank := min(found)) != NO_TOKEN:
        i = found.index(rank)
        left, right = parts[i], parts[i + 1]
        parts[i : i + 2] = [left + right]
        del found[i]
        for j in (i - 1, i):  # the two pairs that the new part is in
            if 0 <= j < len(found):
                found[j] = ranks.get(parts[j] + parts[j + 1], NO_TOKEN)
        yield left, right, rank


def merge_long(piece: AnyStr, ranks: Mapping[AnyStr, int]) -> list[AnyStr]:
    """The same merges for a piece of any length: n log n, by a heap of the pairs.

    A part is known by the index of its first byte; `end[i]` is where part i ends, `before[i]` where the part
    before it begins. The heap holds (rank, index of the left part) in one integer, so that the lowest rank comes
    first and of equal ones the leftmost. An entry is out of date, and skipped, when its pair's rank is no longer
    that (a rank is one sequence of bytes, so the same rank at the same place is the same pair).

    >>> merge_long(b"abcbc", {b"ab": 256, b"bc": 257, b"abc": 258})
    [b'abc', b'bc']
    """
    n = len(piece)
    end = list(range(1, n + 1))
    before = list(range(-1, n))
    rank_at = [ranks.get(piece[i : i + 2], NO_TOKEN) for i in range(n - 1)] + [NO_TOKEN]
    heap = [rank << 40 | i for i, rank in enumerate(rank_at) if rank != NO_TOKEN]
    heapify(heap)
    while heap:
        entry = heappop(heap)
        rank, left = entry >> 40, entry & ((1 << 40) - 1)
        if rank_at[left] != rank:
            continue
        right = end[left]
        end[left] = stop = end[right]
        before[stop] = left
        rank_at[right] = NO_TOKEN
        for i in (before[left], left):
            if i < 0:
                continue
            j = end[i]  # the pair of the parts i and j
            rank_at[i] = ranks.get(piece[i : end[j]], NO_TOKEN) if j < n else NO_TOKEN
            if rank_at[i] != NO_TOKEN:
                heappush(heap, rank_at[i] << 40 | i)
    parts, i = [], 0
    while i < n:
        parts.append(piece[i : end[i]])
        i = end[i]
    return parts
