"""Many pieces merged at once, in whole arrays: `merge.merge` of each, a merge of every piece at a time.

By hand, with the tokens of merge.py (ab: 256, bc: 257, abc: 258) and the pieces "abcbc" and "bcb", a column each. A
part stands in the row of its first byte, with the rank of the token that it makes with the part after it:

    0    a 256   b 257          0   ab 258   bc  -           0  abc  -   bc  -
    1    b 257   c  -           1    .  -     .  -           1    .  -    .  -
    2    c  -    b  -     ->    2    c  -     b  -     ->    2    .  -    b  -
    3    b 257   .  -           3    b 257    .  -           3    b 257   .  -
    4    c  -    .  -           4    c  -     .  -           4    c  -    .  -

In a round the lowest rank of each column is found, the uppermost of several: the part there takes in the next one,
whose row is empty from then on. Two ranks are new, those of the new part and of the one before it. So of a round only
the search depends on how long the pieces are.
"""
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bpe.table import SHORT, Indices, Pieces, PieceTable, joined, piece_keys

WIDEST = 64  # bytes of the longest piece that is merged here
ROW_BITS = 6  # which a row's number needs
NONE = 1 << 24  # in place of a token's number where there is no token; with a row's number it fits in 31 bits


class Tokens:
    """The tokens of a vocabulary by their numbers: 1 for that of the lowest rank, 2 for the next, and so on.

    So the lower number is the lower rank, and numbers are small whatever the ids are.
    """

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        assert len(ranks) < NONE
        self.ranks = ranks
        tokens = sorted(ranks, key=ranks.__getitem__)
        self.pieces = joined(tokens)
        self.ids = np.fromiter(map(ranks.__getitem__, tokens), np.uint32, len(tokens))  # of the tokens 1, 2, 3 ...
        self._table = PieceTable(len(tokens))
        short = np.flatnonzero(self.pieces.lengths <= SHORT)
        self._table.add(piece_keys(*self.pieces)[short], short + 1)
        self._long = {token: number for number, token in enumerate(tokens, 1) if len(token) > SHORT}
        bytes_one, bytes_two = ([bytes(i.to_bytes(n, "big")) for i in range(256**n)] for n in (1, 2))
        self.single, self.double = (self.find(joined(some)) for some in (bytes_one, bytes_two))

    def find(self, pieces: Pieces) -> npt.NDArray[np.int32]:
        """The number of each piece, NONE for those that are no token; (N,)."""
        numbers = self._table.find(piece_keys(*pieces))
        long = np.flatnonzero(pieces.lengths > SHORT)
        numbers[long] = [self._long.get(piece, 0) for piece in pieces.bytes_at(long)]
        numbers[numbers == 0] = NONE
        return numbers


def merge_many(tokens: Tokens, pieces: Pieces) -> tuple[npt.NDArray[np.uint32], Indices]:
    """The ids of pieces of 1 to 64 bytes, one piece after another, and how many each has; (T,) and (N,).

    >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"bc": 257, b"abc": 258}
    >>> ids, counts = merge_many(Tokens(ranks), joined([b"abcbc", b"bcb"]))
    >>> ids.tolist(), counts.tolist()
    ([258, 257, 257, 98], [2, 2])
    """
    data, starts, lengths = pieces
    width, size = int(lengths.max()), len(starts)
    row = np.arange(width + 1)[:, None]
    octets = data.take(starts + row, mode="clip")  # beyond a piece's end those of others, which are left out below
    parts = np.where(row < lengths, tokens.single.take(octets), NONE)  # the token that begins in this row
    joint = tokens.double.take(octets[:-1] * np.intp(256) + octets[1:])  # the token it makes with the next
    # What is lowest is of the lowest rank, and uppermost among those.
    scores = np.where(row[1:] < lengths, joint, NONE) << ROW_BITS | row[:-1].astype(np.int32)
    after = np.repeat(row.astype(np.uint8) + np.uint8(1), size, axis=1)  # the row of the next part, and
    before = np.repeat(row.astype(np.int8) - np.int8(1), size, axis=1)  # of the one before; of a part, else nothing
    columns = np.arange(size)  # those with something left to merge: `scores` has no others
    parts_flat, after_flat, before_flat = parts.reshape(-1), after.reshape(-1), before.reshape(-1)
    while True:
        lowest = scores.min(axis=0)
        going = lowest < NONE << ROW_BITS
        if not going.all():
            scores, columns, lowest = scores.compress(going, axis=1), columns[going], lowest[going]
        if not len(columns):
            break
        here = (lowest & ((1 << ROW_BITS) - 1)).astype(np.intp)  # the part that takes in the next, and
        here_flat = here * size + columns
        next_flat = after_flat[here_flat] * np.intp(size) + columns
        end = after_flat[next_flat].astype(np.intp)  # where both end
        parts_flat[here_flat] = lowest >> ROW_BITS
        parts_flat[next_flat] = NONE
        after_flat[here_flat] = end
        before_flat[end * size + columns] = here
        first = before_flat[here_flat].astype(np.intp)  # the part before, -1 for none
        last = after_flat[np.minimum(end, width) * size + columns]
        lengths_of = lengths[columns]
        with_next = np.where(end < lengths_of, last - here, 0)  # bytes of both; 0 bytes are no token
        with_before = np.where(first < 0, 0, end - first)
        begins = starts[columns]
        numbers = tokens.find(
            Pieces(data, np.concatenate([begins + here, begins + first]), np.concatenate([with_next, with_before]))
        )
        numbers <<= ROW_BITS
        flat, n = scores.reshape(-1), len(columns)
        place = np.arange(n)
        flat[next_flat // size * n + place] = NONE << ROW_BITS
        flat[here * n + place] = numbers[:n] | here
        some = np.flatnonzero(first >= 0)
        flat[first[some] * n + some] = numbers[n + some] | first[some]
    is_part = (parts != NONE).T
    return tokens.ids.take(parts.T[is_part] - 1), is_part.sum(axis=1)
