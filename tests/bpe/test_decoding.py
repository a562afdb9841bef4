"""From ids back to text: every kind of sequence, every error, streams and offsets."""
import json
from array import array
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe.decoding import TokenBytes, with_offsets

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "ids.jsonl").read_text("utf-8").splitlines()]
some_ids = st.lists(st.integers(0, 50256), max_size=30)


@pytest.fixture(scope="module")
def gpt2():
    return bpe.get_encoding("gpt2")


def cases(operation):
    return [pytest.param(case, id=case["id"]) for case in CASES if case["op"] == operation]


@pytest.mark.parametrize("case", cases("decode"))
def test_decode(gpt2, case):
    ids, errors = case["input_ids"], case["errors"]
    if "expected_error" in case:
        expected = {"OverflowError": OverflowError, "TypeError": TypeError, "KeyError": KeyError}[case["expected_error"]]
        with pytest.raises(expected, match=str(ids[0])):
            gpt2.decode(ids, errors)
    else:
        assert gpt2.decode(ids, errors) == case["expected_text"]


@pytest.mark.parametrize("kind", [list, tuple, lambda ids: array("I", ids), *(
    lambda ids, dtype=dtype: np.array(ids, dtype) for dtype in ("u2", "i4", "u4", "i8", "u8", ">i4")
)])  # fmt: skip
def test_any_sequence_of_integers_is_ids(gpt2, kind):
    assert gpt2.decode(kind([15496, 995])) == "Hello world"
    assert gpt2.decode(kind([])) == ""


def test_numpy_integers_in_a_list_are_ids(gpt2):
    assert gpt2.decode([np.int64(15496), np.uint16(995)]) == "Hello world"
    assert gpt2.decode_single_token_bytes(np.int32(995)) == b" world"


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([5, -1], OverflowError, "id -1 at position 1"),
        (np.array([5, -1]), OverflowError, "id -1 at position 1"),
        (np.array([5, 2**32]), OverflowError, "id 4294967296 at position 1"),
        ([5, 2**70], OverflowError, "at position 1"),
        ([5, 2.0], TypeError, "the id at position 1 must be an integer, got float: 2.0"),
        ([5, True], TypeError, "the id at position 1 must be an integer, got bool: True"),
        ([5, "6"], TypeError, "the id at position 1 must be an integer, got str: '6'"),
        ([5, None], TypeError, "the id at position 1 must be an integer, got NoneType"),
        ([5, [6]], TypeError, r"the id at position 1 must be an integer, got list: \[6\]"),
        ([5, np.array([6])], TypeError, "the id at position 1 must be an integer, got ndarray"),
        ([5, np.array(6.5)], TypeError, "the id at position 1 must be an integer, got ndarray"),
        (np.ma.array([5, 6], mask=[False, True]), TypeError, "some of this masked array are masked"),
        (np.ma.array([5] * 20_000, mask=[True] * 20_000), TypeError, "some of this masked array are masked"),
        (np.int64(5), TypeError, "one dimension"),
        (np.array([5.0]), TypeError, "float64"),
        (np.array([True]), TypeError, "bool"),
        (np.array([[5]]), TypeError, r"shape \(1, 1\)"),
        (np.array(5), TypeError, "shape"),
        ((i for i in [5]), TypeError, "generator"),
        ("56", TypeError, "str"),
        (b"56", TypeError, "bytes"),
        ({5: 6}, TypeError, "dict"),
        (5, TypeError, "int"),
        (None, TypeError, "NoneType"),
        ([5] * 20_000 + [50257], KeyError, "id 50257 at position 20000"),
        ([5, 50257], KeyError, "id 50257 at position 1"),
    ],
)
def test_what_is_no_id_is_named(gpt2, ids, error, message):
    with pytest.raises(error, match=message):
        gpt2.decode(ids)


def test_single_tokens(gpt2):
    assert gpt2.decode_single_token_bytes(50256) == b"<|endoftext|>"
    assert gpt2.decode_tokens_bytes([31373, 995, 447]) == [b"hello", b" world", b"\xe2\x80"]
    for token, error in ((50257, KeyError), (-1, OverflowError), (1.0, TypeError), (True, TypeError)):
        with pytest.raises(error):
            gpt2.decode_single_token_bytes(token)
    for token in range(0, 50257, 101):
        assert gpt2.encode_single_token(gpt2.decode_single_token_bytes(token)) == token


def test_batches(gpt2):
    assert gpt2.decode_batch([[15496, 995], []]) == ["Hello world", ""]
    assert gpt2.decode_bytes_batch([[447], [995]]) == [b"\xe2\x80", b" world"]
    with pytest.raises(UnicodeDecodeError):
        gpt2.decode_batch([[447]], errors="strict")


@given(st.dictionaries(st.integers(0, 40), st.binary(min_size=1, max_size=5), min_size=1), st.data())
def test_joining_in_whole_arrays_is_joining_each(bytes_of, data):
    ids = data.draw(st.lists(st.sampled_from(sorted(bytes_of)), min_size=1, max_size=20)) * 1000
    assert TokenBytes(bytes_of).join(np.array(ids, np.uint32)) == b"".join(bytes_of[id] for id in ids)


# Streams


@pytest.mark.parametrize("case", cases("stream_decode"))
def test_a_stream_gives_whole_characters(gpt2, case):
    decoder = gpt2.decoder()
    parts = [decoder.push(id) for id in case["input_ids"]]
    assert "\ufffd" not in "".join(parts)
    assert "".join(parts) == case["expected_text"]
    assert decoder.flush() == ""


@given(some_ids)
def test_a_stream_gives_the_text_of_all_ids(ids):
    decoder = bpe.get_encoding("gpt2").decoder()
    text = "".join([*map(decoder.push, ids), decoder.flush()])
    assert text == bpe.decode(ids)
    assert decoder.push(15496) == "Hello"  # after flush it begins anew


# Offsets


@pytest.mark.parametrize("case", cases("decode_with_offsets"))
def test_offsets(gpt2, case):
    if "expected_error" in case:
        with pytest.raises(UnicodeDecodeError):
            gpt2.decode_with_offsets(case["input_ids"])
    else:
        assert gpt2.decode_with_offsets(case["input_ids"]) == (case["input"], case["expected_offsets"])


@given(some_ids)
def test_offsets_bear_partial_text(ids):
    gpt2 = bpe.get_encoding("gpt2")
    for errors in ("replace", "ignore"):
        text, offsets = gpt2.decode_with_offsets(ids, errors=errors)
        assert text == gpt2.decode(ids, errors)
        assert offsets == sorted(offsets)
        assert all(0 <= offset <= len(text) for offset in offsets)
        for i, offset in enumerate(offsets):  # whole text before a token stays before it
            assert len(gpt2.decode(ids[:i], "ignore")) <= offset or errors == "replace"


def test_offsets_of_bytes_that_are_no_text():
    tokens = [b"a\xff", b"\xe4\xbd", b"\xa0", b"\xe4", b"b"]
    assert with_offsets(tokens, "replace") == ("a\ufffd你\ufffdb", [0, 2, 2, 3, 4])
    assert with_offsets(tokens, "ignore") == ("a你b", [0, 1, 1, 2, 2])
    with pytest.raises(ValueError, match="'loose'"):
        with_offsets(tokens, "loose")


class Column:
    """As a tensor of torch or a column of pandas: no array, but it can be made one."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, i):
        return self.values[i]


def test_what_can_be_an_array_is_read_as_one(gpt2):
    assert gpt2.decode(Column([31373, 995])) == "hello world"
    for values in ([True], [1.0], [[5]]):
        with pytest.raises(TypeError, match="ids must be integers in one dimension"):
            gpt2.decode(Column(values))
