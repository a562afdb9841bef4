"""Against tiktoken, built from the same two files: the same ids for every text, and the same of everything else.

tiktoken 0.14.0's own tests, run by hand outside this repository with `bpe` in the place of its name, pass too: 33 of
33, with gpt2, r50k_base, cl100k_base, o200k_base and o200k_harmony (p50k_base's file could not be had; a stand-in).
"""
import importlib.metadata
import random
import re

import numpy as np
import pytest

import bpe
from bpe import classes
from bpe.split import GPT2_PATTERN

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def ours():
    return bpe.get_encoding("gpt2")


def assert_same_ids(ours, theirs, texts, together=2000):
    """Each text on the short road, and many joined on the long one; they are asked for one by one where they differ."""
    for i in range(0, len(texts), together):
        some = texts[i : i + together]
        assert [ours.encode_ordinary(text) for text in some] == [theirs.encode_ordinary(text) for text in some]
        joined = "\n".join(some)
        assert ours.encode_to_numpy(joined, disallowed_special=()).tolist() == theirs.encode_ordinary(joined)


def followed(codes):
    """Each code point after two newlines and before each of four characters whose bytes merge with what is before."""
    return ["\n\n" + chr(code) + after for code in codes for after in "讵士醒漵"]


def test_code_points_in_every_neighbourhood_sampled(ours, tiktoken_gpt2):
    edges = {
        code + step
        for written in (classes.LETTERS, classes.NUMBERS, classes.WHITESPACE)
        for ends in classes.ranges(written)
        for code in ends
        for step in (-1, 0, 1)
    }
    sample = random.Random(1).sample(range(0x110000), 2000)
    codes = [code for code in sorted(edges.union(sample)) if not 0xD800 <= code <= 0xDFFF]
    assert_same_ids(ours, tiktoken_gpt2, followed(codes))


@pytest.mark.slow
def test_every_code_point_in_every_neighbourhood(ours, tiktoken_gpt2):
    for begin in range(0, 0x110000, 1 << 14):
        codes = [code for code in range(begin, begin + (1 << 14)) if not 0xD800 <= code <= 0xDFFF]
        assert_same_ids(ours, tiktoken_gpt2, followed(codes), together=1 << 14)


def test_generated_strings_sampled(ours, tiktoken_gpt2, odd_texts):
    assert_same_ids(ours, tiktoken_gpt2, list(odd_texts(10_000)))


@pytest.mark.slow
def test_generated_strings(ours, tiktoken_gpt2, odd_texts):
    texts = []
    for text in odd_texts(500_000):
        texts.append(text)
        if len(texts) == 20_000:
            assert_same_ids(ours, tiktoken_gpt2, texts)
            texts = []


def test_languages_sampled(ours, tiktoken_gpt2, languages):
    assert_same_ids(ours, tiktoken_gpt2, list(languages.values())[::20])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["english", "code", "languages"])
def test_whole_texts(ours, tiktoken_gpt2, name):
    from fetching import texts  # needs the texts in the cache folder, or the network

    text = texts.load(name)
    assert np.array_equal(ours.encode_to_numpy(text, disallowed_special=()), tiktoken_gpt2.encode_ordinary(text))


@pytest.mark.parametrize(
    ("kind", "written"),
    [(r"\p{L}", classes.LETTERS), (r"\p{N}", classes.NUMBERS), (r"\s", classes.WHITESPACE)],
)
def test_the_classes_are_those_of_the_installed_tiktoken(tiktoken_gpt2, kind, written):
    """Fails when tiktoken has moved to another version of Unicode: then bpe/classes.py is to be made anew."""
    single_bytes = {bytes([byte]): byte for byte in range(256)}
    only_members = type(tiktoken_gpt2)("members", pat_str=kind, mergeable_ranks=single_bytes, special_tokens={})
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    found = only_members.decode(only_members.encode_ordinary(every))
    frozen = "".join(chr(code) for first, last in classes.ranges(written) for code in range(first, last + 1))
    version = importlib.metadata.version("tiktoken")
    assert found == frozen, f"{kind} of tiktoken {version} is no more that of Unicode {classes.UNICODE_VERSION}"


# The rest of the interface


def test_ids_come_back_as_the_same_text(ours, tiktoken_gpt2):
    source = np.random.default_rng(2)
    for size in (0, 1, 5, 50, 20_000):
        ids = source.integers(0, 50257, size)
        assert ours.decode_bytes(ids) == tiktoken_gpt2.decode_bytes(ids.tolist())
        for errors in ("replace", "ignore", "backslashreplace"):
            assert ours.decode(ids, errors) == tiktoken_gpt2.decode(ids.tolist(), errors)
        assert ours.decode_tokens_bytes(ids) == tiktoken_gpt2.decode_tokens_bytes(ids.tolist())


def test_every_token_alone(ours, tiktoken_gpt2):
    tokens = [tiktoken_gpt2.decode_single_token_bytes(id) for id in range(50257)]
    assert [ours.decode_single_token_bytes(id) for id in range(50257)] == tokens
    assert [ours.encode_single_token(token) for token in tokens] == list(range(50257))
    assert ours.token_byte_values() == tiktoken_gpt2.token_byte_values()


def test_offsets(ours, tiktoken_gpt2, odd_texts):
    for text in odd_texts(500):
        ids = tiktoken_gpt2.encode_ordinary(text)
        assert ours.decode_with_offsets(ids) == tiktoken_gpt2.decode_with_offsets(ids)


def test_bytes_that_are_no_text(ours, tiktoken_gpt2):
    source = random.Random(3)
    for size in list(range(20)) * 5:
        data = source.choice([b"", b"hello ", b" \n", "é".encode()]) + source.randbytes(size)
        assert ours.encode_bytes(data) == tiktoken_gpt2._encode_bytes(data)
        assert ours._encode_single_piece(data) == (tiktoken_gpt2._encode_single_piece(data) if data else [])


def test_unstable_endings(ours, tiktoken_gpt2):
    source = random.Random(4)
    parts = ["hello", "fant", " wor", "é", "中", "'", "1", "'s", " ", "\n", "\t", "  ", "\u2003", "\x85", "<|endoftext|>"]
    runs = ["a" * 150, "-" * 150, "=" * 70, "\n" * 150, "abcdefghij" * 15, "1" * 150, "é" * 100, "中" * 50, "x" + "\t" * 150, "." * 99]
    for text in [*runs, *("".join(source.choices(parts, k=source.randint(0, 4))) for _ in range(40))]:
        stable, ways = ours.encode_with_unstable(text, allowed_special="all")
        their_stable, their_ways = tiktoken_gpt2.encode_with_unstable(text, allowed_special="all")
        assert stable == their_stable
        assert ways == sorted(map(list, their_ways))


@pytest.mark.parametrize("allowed", [(), {"<|endoftext|>"}, "all"])
@pytest.mark.parametrize("disallowed", [(), None, {"<|endoftext|>"}, {"hello"}, "all"])
def test_special_tokens(ours, tiktoken_gpt2, allowed, disallowed):
    allowed = set(allowed) if allowed == () else allowed
    options = {"allowed_special": allowed, "disallowed_special": disallowed}
    for text in ("", "hello", "<|endoftext|>", "a  <|endoftext|>\n\nb<|endoftext|>", "<|endoftext|", "x<|endoftext|>hello"):
        try:
            expected = tiktoken_gpt2.encode(text, **options)
        except ValueError:
            for method in (ours.encode, ours.encode_to_numpy, ours.count, ours.encode_with_unstable):
                with pytest.raises(ValueError, match="special token"):
                    method(text, **options)
            continue
        assert ours.encode(text, **options) == expected
        assert ours.encode_to_numpy(text, **options).tolist() == expected
        assert ours.encode_batch([text] * 2, **options) == [expected] * 2


def test_where_tiktoken_fails_ids_are_still_right(ours, tokenizers):
    """A million spaces before a letter: tiktoken 0.14 raises, so the ids are those of `tokenizers`."""
    encoder_json, vocab_bpe = bpe.files.find_gpt2()
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(str(encoder_json), str(vocab_bpe)))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = " " * 100_000 + "x"
    assert ours.encode(text) == theirs.encode(text).ids


def test_every_public_name_of_tiktoken_is_here(ours, tiktoken_gpt2):
    public = {name for name in dir(tiktoken_gpt2) if not name.startswith("_")}
    assert public <= set(dir(ours))
    assert re.sub(r"\s", "", tiktoken_gpt2._pat_str) == re.sub(r"\s", "", GPT2_PATTERN)
