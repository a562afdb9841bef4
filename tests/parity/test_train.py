"""Learned vocabularies against tokenizers and tiktoken: the same merges up to ties, the same ids from the saved files.

Where pairs are equally frequent the tokenizers library takes the one with the lowest ids, left then right; ours takes
the one that sorts first by its bytes. A different choice may lead to different merges later, so what can be compared
is that each of theirs is a right one: that no pair was more frequent when it was merged.
"""
import json
import pathlib
from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bpe
from bpe import alphabet
from bpe.counting import count_pieces
from bpe.split import GPT2_PATTERN
from bpe.train import join, learn

pytestmark = pytest.mark.parity

SOURCES = sorted(pathlib.Path(bpe.__file__).parent.glob("*.py"))


def their_merges(tokenizers, texts, vocab_size, min_frequency=2):
    """The merges that their byte-level BPE trainer learns, in bytes, in order."""
    from tokenizers import models, pre_tokenizers, trainers

    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, min_frequency=min_frequency, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(map(alphabet.to_bytes, merge)) for merge in merges]


def assert_each_is_most_frequent(merges, pieces, min_frequency=2):
    """Replay merges, whoever chose them; at each step they must be of a pair that is not rarer than any other."""
    words = [([bytes([byte]) for byte in piece], count) for piece, count in pieces.items()]
    counts = Counter()
    for tokens, count in words:
        for pair in zip(tokens, tokens[1:]):
            counts[pair] += count
    for merge in merges:
        assert counts[merge] == max(counts.values()) >= min_frequency, merge
        for tokens, count in words:
            if merge in zip(tokens, tokens[1:]):
                for pair in zip(tokens, tokens[1:]):
                    counts[pair] -= count
                join(tokens, *merge)
                for pair in zip(tokens, tokens[1:]):
                    counts[pair] += count
    return max(counts.values(), default=0)


def test_each_of_their_merges_is_of_a_pair_as_frequent_as_any_and_ours_too(tokenizers):
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    pieces = count_pieces(texts)
    ours = list(islice(learn(pieces), 300))
    theirs = their_merges(tokenizers, texts, 556)
    assert len(theirs) == 300
    assert_each_is_most_frequent(ours, pieces)
    assert_each_is_most_frequent(theirs, pieces)


@settings(max_examples=50)
@given(st.lists(st.text("ab cé1!", min_size=1, max_size=30), min_size=1, max_size=6), st.integers(1, 3))
def test_their_merges_are_right_and_as_many_as_there_are(tokenizers, texts, min_frequency):
    pieces = count_pieces(texts)
    theirs = their_merges(tokenizers, texts, 1000, min_frequency)
    assert assert_each_is_most_frequent(theirs, pieces, min_frequency) < min_frequency
    ours = list(learn(pieces, min_frequency))
    assert assert_each_is_most_frequent(ours, pieces, min_frequency) < min_frequency


def test_where_no_two_pairs_are_equally_frequent_the_merges_are_theirs(tokenizers):
    words = [(word[:k], 100 + 10 * k + i) for i, word in enumerate(["zyxw", "abcd", "HEFG"]) for k in (2, 3, 4)]
    texts = [f"{word}\n" * count for word, count in words]  # of a longer beginning there are always fewer
    ours = list(learn(count_pieces(texts)))
    assert ours == their_merges(tokenizers, texts, 1000) and len(ours) == 9


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    encoding = bpe.train(SOURCES, 2000, special_tokens=["<|endoftext|>"])
    return encoding, *map(str, encoding.save(tmp_path_factory.mktemp("saved")))


def test_tiktoken_reads_the_files_to_the_same_ids(saved, odd_texts):
    load = pytest.importorskip("tiktoken.load")
    import tiktoken

    ours, encoder_json, vocab_bpe = saved
    ranks = load.data_gym_to_mergeable_bpe_ranks(vocab_bpe, encoder_json)
    theirs = tiktoken.Encoding(
        "trained", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": ours.eot_token}
    )
    for text in odd_texts(500):
        assert ours.encode(text) == theirs.encode(text), ascii(text)
    assert ours.encode("a<|endoftext|>", allowed_special="all") == theirs.encode("a<|endoftext|>", allowed_special="all")


def test_tokenizers_reads_the_files_to_the_same_ids(saved, tokenizers):
    ours, encoder_json, vocab_bpe = saved
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(encoder_json, vocab_bpe))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        assert ours.encode(text, disallowed_special=()) == theirs.encode(text).ids
    assert theirs.get_vocab_size() == ours.n_vocab
