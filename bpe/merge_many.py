"""Many pieces merged at once, in whole arrays: `merge.merge` of each, a merge of every piece at a time.

By hand, with the tokens of merge.py (ab: 256, bc: 257, abc: 258) and the pieces "abcbc" and "bcb", a column each. A
part stands in the row of its first byte, with the rank of the token that it makes with the part after it:

    1    a 256   b 257          1   ab 258   bc  -           1   ab 258  bc  -
    2    b 257   c  -           2    .  -     .  -           2    .  -    .  -
    3    c  -    b  -     ->    3    c  -     b  -     ->    3    c  -    b  -
    4    b 257   .  -           4    b 257    .  -           4   bc  -    .  -
    5    c  -    .  -           5    c  -     .  -           5    .  -    .  -

(A row above and one below stay empty.) In a round the lowest rank of each column is found, the uppermost of several:
the part there takes in the next one, whose row is empty from then on. Two ranks are new, those of the new part and of
the one before it. So of a round only the search depends on how long the pieces are.
"""
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bpe.table import ROOM, SHORT, Indices, Pieces, PieceTable, joined

WIDEST = 64  # bytes of the longest piece that is merged here
ROW_BITS = 7  # which a row's number needs
NONE = 1 << 23  # in place of a token's number where there is no token, and above all of them: no vocabulary has so many


class Tokens:
    """The tokens of a vocabulary by their numbers: 1 for that of the lowest rank, 2 for the next, and so on.

    So the lower number is the lower rank, and numbers are small whatever the ids are.
    """

    def __init__(self, ranks: Mapping[bytes, int]) -> None:
        if len(ranks) >= NONE:
            raise ValueError(f"{len(ranks):,} tokens: {NONE - 1:,} are the most that can be told apart")
        self.ranks = ranks
        ids = np.fromiter(ranks.values(), np.uint32, len(ranks))
        order = np.argsort(ids)
        self.pieces, self.ids = joined(ranks).take(order), ids[order]  # of the tokens 1, 2, 3 ...
        middles = int((self.pieces.lengths > SHORT).sum()) + 1  # one to spare: a full table has its dict asked as well
        # With ROOM, since most of what is asked for is no token.
        self._table = PieceTable(len(ranks), middles, slots_per_key=ROOM)
        self._table.add(self.pieces, np.arange(1, len(ranks) + 1))
        self.single, self.double = self._of_all(1), self._of_all(2)

    def _of_all(self, length: int) -> npt.NDArray[np.int32]:
        """The number of every piece of `length` bytes, in order, NONE where it is no token; (256**length,)."""
        numbers = np.full(256**length, NONE, np.int32)
        which = np.flatnonzero(self.pieces.lengths == length)
        octets = self.pieces.data[self.pieces.starts[which, None] + np.arange(length)]
        numbers[octets @ 256 ** np.arange(length)[::-1]] = which + 1
        return numbers

    def find(self, pieces: Pieces) -> Indices:
        """The number of each piece, NONE for those that are no token; (N,)."""
        numbers = self._table.find(pieces)
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
    rows, size = int(lengths.max(initial=0)) + 2, len(starts)
    row = np.arange(rows, dtype=np.int32)[:, None]
    byte = starts.astype(np.int32) + row - 1  # where in `data` a row's byte is; the first row and the last have none
    is_part = (row > 0) & (row <= lengths)
    octets = data.take(byte, mode="clip")
    parts = np.where(is_part, tokens.single.take(octets), NONE)  # the token in each place, NONE where no part begins
    pairs = tokens.double.take(octets[:-1] * np.intp(256) + octets[1:])
    scores = np.full_like(parts, NONE << ROW_BITS)  # the least: the lowest rank, and of equal ones the uppermost row
    scores[:-1] = np.where(is_part[:-1] & is_part[1:], pairs, NONE) << ROW_BITS | row[:-1]
    # From here on a place is its index in the flat arrays: row * size + column.
    place = np.arange(rows * size, dtype=np.int32)
    after, before = place + size, place - size  # of each part the next and the last one's place
    byte, parts = byte.ravel(), parts.ravel()
    columns, scores = scores, scores.ravel()  # the same memory, by row and column and by place
    while True:
        lowest = columns.min(axis=0)
        going = np.flatnonzero(lowest < NONE << ROW_BITS)
        if not len(going):
            break
        lowest = lowest[going]
        here = (lowest & (1 << ROW_BITS) - 1) * size + going
        taken = after[here]  # the part that it takes in
        end = after[taken]
        parts[here], parts[taken] = lowest >> ROW_BITS, NONE
        scores[here] = scores[taken] = NONE << ROW_BITS
        after[here], before[end] = end, here
        left, right = np.concatenate([before[here], here]), np.concatenate([here, end])
        both = np.flatnonzero((parts[left] < NONE) & (parts[right] < NONE))
        left, right = left[both], right[both]
        begin, stop = byte[left], byte[after[right]]
        scores[left] = tokens.find(Pieces(data, begin, stop - begin)) << ROW_BITS | left // size
    found = parts.reshape(rows, size).T
    is_part = found < NONE
    return tokens.ids.take(found[is_part] - 1), is_part.sum(axis=1)
