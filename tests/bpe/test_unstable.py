"""encode_with_unstable: the ways in which a text may go on, found together, are those found one at a time."""
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe import Encoding
from bpe.merge import merge
from bpe.split import GPT2_PATTERN
from bpe.unstable import Beginnings

BYTES = {bytes([byte]): byte for byte in range(256)}
LETTERS = [b"a", b"b", b" ", b"\n", b"\xc3", b"\xa9"]  # the last two make é
texts = st.text("ab \né", max_size=30) | st.builds(lambda c, n: c * n, st.sampled_from(["a", "ab", " ", "\n ", "é"]), st.integers(0, 60))


@st.composite
def vocabularies(draw):
    """Tokens over a few bytes, each two earlier ones joined, in any order of rank: some can't be reached by merges."""
    tokens = LETTERS[:]
    for _ in range(draw(st.integers(0, 30))):
        token = draw(st.sampled_from(tokens)) + draw(st.sampled_from(tokens))
        if token not in tokens and len(token) < 20:
            tokens.append(token)
    return BYTES | {token: 256 + i for i, token in enumerate(draw(st.permutations(tokens[len(LETTERS):])))}


def one_at_a_time(enc, stable, text, ranks):
    """Each possible text encoded as a whole."""
    unstable = enc.decode_bytes(enc.encode_ordinary(text))[len(enc.decode_bytes(stable)):]
    found = set()
    for i in range(len(unstable)):
        for token in ranks:
            if token.startswith(unstable[i:]):
                possible = unstable[:i] + token
                try:
                    ids = [ranks[token]] if i == 0 else enc.encode_ordinary(possible.decode())
                except UnicodeDecodeError:
                    ids = merge(possible, ranks)
                ends = list(accumulate(len(enc.decode_single_token_bytes(id)) for id in ids))
                found.add(tuple(ids[: sum(end < len(unstable) for end in ends) + 1]))
    if len(unstable) > 1 and unstable[-1:] in (b" ", b"\n"):
        found.add((*merge(unstable[:-1], ranks), *merge(unstable[-1:], ranks)))
    return sorted(map(list, found))


@given(vocabularies(), texts, st.sampled_from([GPT2_PATTERN, "[ab]+|\\s", "a+| ", "(?s:.+)"]))
def test_the_ways_are_those_found_one_at_a_time(ranks, text, pattern):
    enc = Encoding("small", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    stable, ways = enc.encode_with_unstable(text)
    assert ways == one_at_a_time(enc, stable, text, ranks)


@given(vocabularies(), st.lists(st.sampled_from(LETTERS), min_size=1, max_size=40).map(b"".join), st.data())
def test_pieces_that_begin_alike_have_the_merges_of_each(ranks, data, draw):
    beginnings = Beginnings(data, ranks, {id: token for token, id in ranks.items()})
    for _ in range(10):
        begin, end = sorted(draw.draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        rest = draw.draw(st.lists(st.sampled_from(LETTERS), min_size=1, max_size=12).map(b"".join))
        assert beginnings.merge(begin, end, rest) == merge(data[begin:end] + rest, ranks)
        if begin < end:
            assert beginnings.merge(begin, end, b"") == merge(data[begin:end], ranks)


def test_a_byte_without_a_token_is_named():
    enc = Encoding("small", pat_str=GPT2_PATTERN, mergeable_ranks={b"a": 0, b"abc": 1}, special_tokens={})
    assert enc.encode_with_unstable("a") == ([], [[0], [1]])
    with pytest.raises(KeyError, match="no token for the byte b'b'"):
        enc.encode_with_unstable("aa")
