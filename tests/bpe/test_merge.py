"""The merge loop: the lowest rank first, leftmost of equals, and the three ways of doing it agree."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.merge import LONG, merge, merge_long, merge_steps, merged
from bpe.merge_many import Tokens, merge_many
from bpe.table import joined

BYTES = {bytes([byte]): byte for byte in range(256)}


@st.composite
def vocabularies(draw):
    """Tokens over a few letters, each the two of an earlier one joined, as training makes them, in any number."""
    tokens = [b"a", b"b", b"c"]
    for _ in range(draw(st.integers(0, 25))):
        token = draw(st.sampled_from(tokens)) + draw(st.sampled_from(tokens))
        if token not in tokens and len(token) < 30:
            tokens.append(token)
    return BYTES | {token: 256 + i for i, token in enumerate(tokens[3:])}


pieces = st.text("abc", min_size=1, max_size=63).map(str.encode)


def plainly(piece, ranks):
    """The rule, word for word: of all pairs that make a token, join the lowest, leftmost; until there is none."""
    parts = [bytes([byte]) for byte in piece]
    while True:
        pairs = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not pairs:
            return [ranks[part] for part in parts]
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@given(vocabularies(), pieces)
def test_every_way_of_merging_follows_the_rule(ranks, piece):
    expected = plainly(piece, ranks)
    assert merge(piece, ranks) == expected
    assert [ranks[part] for part in merge_long(piece, ranks)] == expected


@given(vocabularies(), st.text("abc", min_size=LONG - 2, max_size=LONG + 2))
def test_characters_are_merged_as_bytes_are_at_any_length(ranks, piece):
    as_text = {token.decode("latin-1"): rank for token, rank in ranks.items()}
    assert [ranks[part.encode()] for part in merged(piece, as_text)] == plainly(piece.encode(), ranks)


@given(vocabularies(), st.lists(pieces, min_size=1, max_size=20))
def test_merging_together_is_merging_each(ranks, many):
    ids, counts = merge_many(Tokens(ranks), joined(many))
    assert [part.tolist() for part in np.split(ids, np.cumsum(counts)[:-1])] == [plainly(piece, ranks) for piece in many]


def test_steps_name_each_merge_in_order():
    parts = [b"a", b"b", b"c", b"b", b"c"]
    assert list(merge_steps(parts, {b"ab": 256, b"bc": 257, b"abc": 258})) == [
        (b"a", b"b", 256), (b"b", b"c", 257), (b"ab", b"c", 258),
    ]  # fmt: skip
    assert parts == [b"abc", b"bc"]


def test_a_byte_without_a_token_is_a_key_error():
    with pytest.raises(KeyError):
        merge(b"ax", {b"a": 0})
    with pytest.raises(KeyError):
        merge(b"ax" * 100, {b"a": 0})


def test_work_grows_with_the_length_and_not_its_square():
    """Counted, not timed: the lookups that a piece four times as long takes."""

    class Counting(dict):
        lookups = 0

        def get(self, *arguments):
            self.lookups += 1
            return super().get(*arguments)

    lookups = []
    for n in (10_000, 40_000):
        ranks = Counting(BYTES | {b"ab": 256, b"abab": 257, b"ababab": 258})
        merge(b"ab" * n, ranks)
        lookups.append(ranks.lookups)
    assert lookups[1] <= 4.1 * lookups[0]
