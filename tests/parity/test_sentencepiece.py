"""SentencePiece against Google's library: the same ids, spans and decoded texts."""
import random

import pytest

from bpe.pieces import well_formed
from bpe.sentencepiece import SentencePiece

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def ours(fetched):
    return SentencePiece.from_file(fetched("llama"))


@pytest.fixture(scope="module")
def theirs(sentencepiece, fetched):
    return sentencepiece.SentencePieceProcessor(model_file=str(fetched("llama")))


def assert_equal(text, ours, theirs):
    repaired, origin = well_formed(text)
    expected = theirs.encode(repaired, return_type="offset_mapping")
    ids = expected["ids"]
    assert ours.encode(text) == ids, ascii(text)
    pieces = ours.tokens(text)
    assert [piece.id for piece in pieces] == ids, ascii(text)
    assert [piece.text for piece in pieces] == expected["pieces"], ascii(text)
    for piece, (start, end) in zip(pieces, expected["offsets"]):
        if start < end or not piece.text.startswith("<0x"):
            assert (piece.start, piece.end) == (origin[start], origin[end]), ascii(text)
        else:  # theirs gives a character of several bytes to the last of them, ours to each
            assert (piece.start, piece.end) == (origin[start], origin[start + 1]), ascii(text)
    assert ours.decode(ids) == theirs.decode(ids)


def test_20000_odd_texts_have_the_ids_and_spans_of_the_sentencepiece_library(ours, theirs, odd_texts):
    for text in odd_texts(20_000):
        assert_equal(text, ours, theirs)


def test_a_text_in_many_languages_has_the_ids_and_spans_of_the_sentencepiece_library(ours, theirs, languages):
    for name in sorted(languages)[::20]:
        assert_equal(languages[name][:5_000], ours, theirs)


@pytest.mark.slow
def test_a_text_in_500_languages_has_the_ids_and_spans_of_the_sentencepiece_library(ours, theirs, languages):
    assert len(languages) >= 500
    for text in languages.values():
        assert_equal(text, ours, theirs)


def test_a_long_word_is_merged_as_in_the_sentencepiece_library(ours, theirs):
    source = random.Random(1)
    for alphabet in ("a", "ab", "etaoin", "▁", "▁a", "🤷e"):
        text = "".join(source.choices(alphabet, k=20_000))
        assert ours.encode(text) == theirs.encode(text)


def test_any_ids_decode_as_in_the_sentencepiece_library(ours, theirs):
    source = random.Random(2)
    for _ in range(2_000):
        # mostly <unk>, <s>, </s>, bytes, and pieces of spaces
        ids = [source.choice((source.randrange(262), source.randrange(32_000), 29871)) for _ in range(source.randrange(9))]
        assert ours.decode(ids) == theirs.decode(ids), ids


def test_every_piece_has_its_id(ours, theirs):
    assert ours.vocab_size == theirs.vocab_size()
    for id in range(259, ours.vocab_size):
        text = theirs.id_to_piece(id).replace("▁", " ")
        assert ours.encode(text) == theirs.encode(text)
