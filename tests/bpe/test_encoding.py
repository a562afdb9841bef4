"""Encoding: ids that other tokenizers got wrong, special tokens, and what its users ask for."""
import copy
import hashlib
import json
import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe import Encoding, bulk, encoding
from bpe.pieces import Remembered
from bpe.split import GPT2_PATTERN, repair_surrogates

CASES = [json.loads(line) for line in (Path(__file__).parent / "cases" / "ids.jsonl").read_text("utf-8").splitlines()]
BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.fixture(scope="module")
def gpt2():
    return bpe.get_encoding("gpt2")


def make(special_tokens=None, ranks=BYTES, pat_str=GPT2_PATTERN, **options):
    return Encoding(
        "small", pat_str=pat_str, mergeable_ranks=ranks, special_tokens=special_tokens or {}, **options
    )


def cases(*operations):
    return [pytest.param(case, id=case["id"]) for case in CASES if case["op"] in operations]


@pytest.mark.parametrize("case", [case for case in cases("encode", "encode_ordinary") if "input" in case.values[0]])
def test_ids_are_those_of_the_case_on_every_road(gpt2, case, monkeypatch):
    text, options = case["input"], case.get("kwargs", {"disallowed_special": ()})
    if case.get("expected_error"):
        for method in (gpt2.encode, gpt2.encode_to_numpy, gpt2.count):
            with pytest.raises(ValueError, match="endoftext"):
                method(text, **options)
        return
    ids = gpt2.encode(text, **options)
    if case["op"] == "encode_ordinary":
        assert gpt2.encode_ordinary(text) == ids
    assert gpt2.encode_to_numpy(text, **options).tolist() == ids
    assert ids == case["expected_ids"]
    assert gpt2.count(text, **options) == len(ids)
    monkeypatch.setattr(encoding, "LONG_TEXT", 0)  # the whole-array road for short texts too
    assert gpt2.encode(text, **options) == ids


@pytest.mark.parametrize("case", [case for case in cases("encode_ordinary") if "input_expr" in case.values[0]])
def test_long_texts_of_few_pieces_or_of_every_character(gpt2, case):
    ids = gpt2.encode_to_numpy(eval(case["input_expr"]), disallowed_special=())
    assert len(ids) == case["expected_len"]
    if "expected_ids_expr" in case:
        assert ids.tolist() == eval(case["expected_ids_expr"])
    if "expected_sha256_le_u32" in case:
        assert ids[:8].tolist() == case["expected_first"]
        assert ids[-8:].tolist() == case["expected_last"]
        assert hashlib.sha256(ids.astype("<u4").tobytes()).hexdigest() == case["expected_sha256_le_u32"]


@given(st.text(max_size=60))
def test_both_roads_give_the_same_ids_and_the_text_comes_back(text):
    gpt2 = bpe.get_encoding("gpt2")
    ids = gpt2.encode_ordinary(text)
    assert [i for array in gpt2._bulk_encoder().encode(text) for i in array.tolist()] == ids
    assert gpt2.decode(ids) == text


def test_a_long_text_is_the_sum_of_its_pieces(gpt2):
    text = "It's 1984, and the naïve café — 你好, мир! — isn't open.\n" * 3000
    assert gpt2.encode(text) == gpt2.encode("It's 1984, and the naïve café — 你好, мир! — isn't open.\n") * 3000


def test_surrogates_are_joined_or_replaced_on_every_road(gpt2):
    pair, lone = "\ud83d\udc4d", "a\ud83d b"
    for text in (pair, lone, pair * 3000, "\ud800x" * 3000, "é \ud801\udc00\udc00" * 3000):
        repaired = repair_surrogates(text)
        assert gpt2.encode(text) == gpt2.encode(repaired)
        assert gpt2.encode_ordinary(text) == gpt2.encode(repaired)
        assert gpt2.encode_to_numpy(text).tolist() == gpt2.encode(repaired)
    assert gpt2.encode_with_unstable(lone) == gpt2.encode_with_unstable("a\ufffd b")
    assert gpt2.count(pair) == 2
    assert gpt2.truncate(lone, 2) == "a\ufffd"
    assert gpt2.encode_single_token("\ud83d") == gpt2.encode_single_token("\ufffd")
    assert gpt2.explain(pair)[0].ids == gpt2.encode(pair)


# Special tokens


def test_the_longest_special_token_wins():
    enc = make({"<a>": 300, "<a><b>": 301, "<a><b><c>": 302})
    assert enc.encode("<a><b><c><a><b><a>", allowed_special="all") == [302, 301, 300]
    assert enc.encode("<a><b>", allowed_special=["<a>"], disallowed_special=()) == [300, *b"<b>"]


def test_special_tokens_may_be_two_names_of_one_id():
    enc = make({"<end>": 300, "<stop>": 300})
    assert enc.encode("<end><stop>", allowed_special="all") == [300, 300]
    assert enc.decode([300]) == "<end>"


def test_special_tokens_are_refused_by_name_and_place(gpt2):
    with pytest.raises(ValueError, match="'<|endoftext|>' at index 2"):
        gpt2.encode("a <|endoftext|>")
    assert gpt2.encode("a <|endoftext|>", allowed_special=["<|endoftext|>"]) == [64, 220, 50256]
    for option in ("allowed_special", "disallowed_special"):
        with pytest.raises(TypeError, match="not the string"):
            gpt2.encode("a", **{option: "<|endoftext|>"})


@pytest.mark.parametrize("integer", [50256, np.int64(50256), np.uint16(50256)])
def test_is_special_token_takes_any_integer(gpt2, integer):
    assert gpt2.is_special_token(integer)
    assert not gpt2.is_special_token(type(integer)(1))
    assert not gpt2.is_special_token(-1) and not gpt2.is_special_token(2**64)
    for other in (None, "50256", 50256.0, True, [50256], np.array([50256])):
        with pytest.raises(TypeError, match="the id must be an integer"):
            gpt2.is_special_token(other)


def test_facts(gpt2):
    assert (gpt2.n_vocab, gpt2.max_token_value, gpt2.eot_token) == (50257, 50256, 50256)
    assert gpt2.special_tokens_set == {"<|endoftext|>"}
    assert (gpt2.name, repr(gpt2)) == ("gpt2", "<Encoding 'gpt2'>")
    assert len(gpt2.token_byte_values()) == 50256
    assert gpt2.token_byte_values() == sorted(gpt2.token_byte_values())
    assert bpe.vocab_size() == 50257
    with pytest.raises(KeyError):
        _ = make().eot_token


# What a constructor refuses


@pytest.mark.parametrize(
    ("ranks", "special_tokens", "options"),
    [
        (BYTES | {b"ab": 97}, {}, {}),
        (BYTES, {"<a>": 97}, {}),
        (BYTES | {b"": 256}, {}, {}),
        (BYTES, {"": 256}, {}),
        ({}, {}, {}),
        (BYTES, {"<a>": 300}, {"explicit_n_vocab": 257}),
        (BYTES, {}, {"explicit_n_vocab": 255}),
    ],
)
def test_a_vocabulary_that_cannot_be_is_refused(ranks, special_tokens, options):
    with pytest.raises(ValueError, match=r"two tokens|no bytes|empty|explicit_n_vocab"):
        make(special_tokens, ranks, **options)


def test_an_encoding_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="'gpt-5'"):
        bpe.get_encoding("gpt-5")


# Other patterns, other vocabularies


def test_any_other_pattern_is_run_as_it_is_written():
    enc = make(ranks=BYTES | {b"ab": 256, b"ba": 257}, pat_str=r"\p{L}{2}|.")
    assert enc.encode("ababa") == [256, 256, 97]
    assert enc.encode("(a)" * 5000) == list(b"(a)") * 5000
    assert make(ranks=BYTES | {b"aa": 256}, pat_str=r"(a)|(b)").encode("abba") == [97, 98, 98, 97]


def test_a_vocabulary_need_not_have_every_byte():
    enc = make(ranks={b"a": 0, b"aa": 1})
    assert enc.encode("a" * 9001) == [1] * 4500 + [0]
    with pytest.raises(KeyError, match="no token for the byte"):
        enc.encode("ab")


def test_ids_may_have_gaps():
    enc = make({"<far>": 4_000_000_000})
    assert enc.encode("a<far>", allowed_special="all") == [97, 4_000_000_000]
    assert enc.encode_to_numpy("a<far>", allowed_special="all").tolist() == [97, 4_000_000_000]
    assert enc.decode([97, 4_000_000_000] * 9000) == "a<far>" * 9000
    with pytest.raises(KeyError, match="300"):
        enc.decode([97] * 9000 + [300])


# What its users ask for


@given(st.text(max_size=40), st.integers(0, 12))
def test_truncate_is_a_beginning_within_the_limit(text, limit):
    gpt2 = bpe.get_encoding("gpt2")
    begin = gpt2.truncate(text, limit)
    assert text.startswith(begin)
    assert gpt2.count(begin) <= limit
    assert gpt2.is_within_limit(text, limit) == (gpt2.count(text) <= limit)
    if gpt2.is_within_limit(text, limit):
        assert begin == text


def test_truncate_never_ends_inside_a_character(gpt2):
    assert [gpt2.truncate("你好", limit) for limit in range(5)] == ["", "", "你", "你", "你好"]
    with pytest.raises(ValueError, match="limit is -1"):
        gpt2.truncate("a", -1)


def test_a_limit_is_answered_without_reading_the_rest(gpt2, monkeypatch):
    blocks = []
    cut = bulk.cut_texts
    monkeypatch.setattr(bulk, "cut_texts", lambda block, between: blocks.append(block) or cut(block, between))
    assert not gpt2.is_within_limit("hello world " * 1_000_000, 100)
    assert len(blocks) == 1


def test_explain_gives_bytes_merges_and_ids(gpt2):
    piece, end = gpt2.explain("token<|endoftext|>", allowed_special="all")
    assert (piece.piece, piece.data, piece.ids) == ("token", b"token", [30001])
    assert piece.merges == [(b"e", b"n", 268), (b"o", b"k", 482), (b"ok", b"en", 4233), (b"t", b"oken", 30001)]
    assert (end.ids, end.merges) == ([50256], [])
    assert [ids for piece in gpt2.explain("don't \ud83d") for ids in piece.ids] == gpt2.encode("don't \ud83d")


def test_batches(gpt2):
    assert gpt2.encode_batch(["a b", "c"]) == [gpt2.encode("a b"), gpt2.encode("c")]
    assert gpt2.encode_ordinary_batch(["<|endoftext|>"], num_threads=2) == [[27, 91, 437, 1659, 5239, 91, 29]]
    assert gpt2.encode_batch(["<|endoftext|>"], allowed_special="all") == [[50256]]
    for method in (gpt2.encode_batch, gpt2.encode_ordinary_batch):
        with pytest.raises(TypeError, match="a batch is a list"):
            method("hello")


@pytest.mark.parametrize("text", [None, b"bytes", 3, ["a"]])
def test_what_is_no_text_is_refused(gpt2, text):
    for method in (
        gpt2.encode, gpt2.encode_ordinary, gpt2.encode_to_numpy, gpt2.count, gpt2.encode_with_unstable, gpt2.explain,
    ):  # fmt: skip
        with pytest.raises(TypeError, match="must be a str"):
            method(text)
    with pytest.raises(TypeError):
        gpt2.encode_single_token(3)
    with pytest.raises(KeyError, match="hello world"):
        gpt2.encode_single_token("hello world")
    with pytest.raises(KeyError) as refused:
        gpt2.encode_single_token("hello " * 1000)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("pattern", [GPT2_PATTERN, r"\s+|\S+"])
def test_documents_have_the_ids_of_each_and_the_end_after_it(pattern):
    enc = Encoding("small", pat_str=pattern, mergeable_ranks=BYTES | {b"ab": 256}, special_tokens={"<end>": 257})
    documents = ["ab ab", "", "\ud83d\udc4d<end>", " a\n" * 2000, "\n"]
    arrays, places = zip(*enc.encode_documents(iter(documents), 257))
    expected = [id for text in documents for id in [*enc.encode_ordinary(text), 257]]
    assert np.concatenate(arrays).tolist() == expected
    ends = [ids[places].tolist() for ids, places in zip(arrays, places)]
    assert sum(ends, []) == [257] * len(documents) and expected.count(257) == len(documents)
    for end, error in ((-1, OverflowError), (1 << 32, OverflowError), ("x", TypeError)):
        with pytest.raises(error):
            next(enc.encode_documents(documents, end))
    for texts in ("text", ["a", None], [b"a"]):
        with pytest.raises(TypeError, match="a batch is a list of texts|must be a str"):
            list(enc.encode_documents(texts, 257))


@pytest.mark.parametrize("data", [None, "text", 3, [1]])
def test_what_are_no_bytes_is_refused(gpt2, data):
    with pytest.raises(TypeError, match=f"expected bytes, got {type(data).__name__}"):
        gpt2.encode_bytes(data)


@pytest.mark.parametrize("which", ["allowed_special", "disallowed_special"])
def test_special_tokens_are_named_by_strings(gpt2, which):
    for value in (5, "x", b"all", "", 0, False, True):
        with pytest.raises(TypeError, match=f'{which} must be "all" or a collection of strings, not the .* {value!r}'):
            gpt2.encode("hello", **{which: value})
    for value in ({1}, [None], [b"x"], [["<|endoftext|>"]]):
        with pytest.raises(TypeError, match=f"{which} has .*: special tokens are strings"):
            gpt2.encode("hello", **{which: value})
    for value in (None, [], np.array([], str), np.array(["<|other|>", "<|endoftext|>"])):
        assert gpt2.encode("hello", **{which: value}) == [31373]


@pytest.mark.parametrize("which", ["allowed_special", "disallowed_special"])
def test_special_tokens_that_can_be_read_only_once_are_refused(gpt2, which):
    texts = ["hello", "<|endoftext|>"]  # an iterator has none left for the second
    with pytest.raises(TypeError, match=f'{which} must be "all" or a collection of strings, not the generator'):
        gpt2.encode_batch(texts, **{which: (token for token in ["<|endoftext|>"])})


def test_a_batch_that_is_none_and_a_text_that_is_none_are_named(gpt2):
    for encode in (gpt2.encode_batch, gpt2.encode_ordinary_batch, lambda texts: list(gpt2.encode_documents(texts, 0))):
        for texts in (None, 3, "text", b"text"):
            with pytest.raises(TypeError, match=f"a batch is a list of texts, got {type(texts).__name__}: {texts!r}"):
                encode(texts)
        with pytest.raises(TypeError, match="text 1 must be a str, got int: 3"):
            encode(["a", 3])


# Caches, threads, processes


def test_the_cache_is_bounded_and_can_be_cleared(gpt2, monkeypatch):
    monkeypatch.setattr(Remembered, "WORDS", 100)
    enc = make()
    for i in range(1000):
        assert enc.encode(f"word{i}") == list(f"word{i}".encode())
        assert len(enc._ids_of) <= 100
    assert enc.encode("x" * 10_000) == [120] * 10_000
    assert max(map(len, enc._ids_of)) <= Remembered.LENGTH
    enc.clear_cache()
    assert not enc._ids_of
    assert enc.encode("word1") == list(b"word1")


def test_copies_and_pickles_give_the_same_ids(gpt2):
    text = "Hello, world! " * 1000
    gpt2.encode(text)
    for other in (pickle.loads(pickle.dumps(gpt2)), copy.deepcopy(gpt2), copy.copy(gpt2)):
        assert other.encode(text) == gpt2.encode(text)
        assert other.name == "gpt2"
    assert len(pickle.dumps(gpt2)) < 2_000_000


@pytest.mark.skipif(sys.platform == "emscripten", reason="no processes there")
def test_spawned_processes_give_the_same_ids(gpt2):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(gpt2.encode, ["Hello world"]) == [15496, 995]


def test_threads_share_an_encoding():
    gpt2 = copy.copy(bpe.get_encoding("gpt2"))
    texts = ["".join(f"{word} {i * j}, " for i, word in enumerate(["one", "zwölf", "сто", "千"] * 400)) for j in range(24)]
    expected = [copy.copy(gpt2).encode(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(gpt2.encode, texts)) == expected


def test_a_vocabulary_that_no_id_can_name_is_refused_and_the_callers_dict_is_not_kept():
    byte = {bytes([b]): b for b in range(256)}
    with pytest.raises(ValueError, match="the id 300 belongs to two tokens, b'<x>' and b'<x>'"):
        Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte | {b"<x>": 300}, special_tokens={"<x>": 300})
    for bad in (-1, 1 << 33):
        with pytest.raises(OverflowError, match=f"id {bad} of b'ab'"):
            Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte | {b"ab": bad}, special_tokens={})
    with pytest.raises(ValueError, match=r"the pattern '\(' cannot be used"):
        Encoding("x", pat_str="(", mergeable_ranks=byte, special_tokens={})
    with pytest.raises(TypeError, match="pat_str must be a str, got bytes"):
        Encoding("x", pat_str=b"a", mergeable_ranks=byte, special_tokens={})
    with pytest.raises(TypeError, match="mergeable_ranks must be a dict of ids by bytes, got list"):
        Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=[(b"a", 0)], special_tokens={})
    with pytest.raises(TypeError, match="special_tokens must be a dict of ids by str, got NoneType"):
        Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte, special_tokens=None)
    with pytest.raises(ValueError, match="has a surrogate, which no text is read with"):
        Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte, special_tokens={"<\ud800>": 256})
    enc = Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte, special_tokens={})
    byte[b"ab"] = 256
    assert enc.encode("ab") == [97, 98]


def test_a_limit_is_an_integer():
    enc = bpe.get_encoding("gpt2")
    for bad in (1.5, None, True, np.array([1]), np.array(1.5)):
        with pytest.raises(TypeError, match="the limit must be an integer"):
            enc.truncate("hello", bad)
    with pytest.raises(ValueError, match="the limit is -1: it must be at least 0"):
        enc.is_within_limit("hello", -1)


def test_ids_and_tokens_of_other_types_are_refused_or_made_plain():
    byte = {bytes([b]): b for b in range(256)}
    for bad in (97.5, True):
        with pytest.raises(TypeError, match="the id of b'ab' must be an integer"):
            Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte | {b"ab": bad}, special_tokens={})
    with pytest.raises(TypeError, match="the token 'ab' is a str: tokens here are bytes"):
        Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte | {"ab": 256}, special_tokens={})
    enc = Encoding("x", pat_str=GPT2_PATTERN, mergeable_ranks=byte | {b"ab": np.int64(256)}, special_tokens={})
    assert [type(i) for i in enc.encode("ab")] == [int]
