"""WordPiece against the tokenizers library: the same ids, spans and decoded texts."""
import sys

import pytest

from bpe.encoding import repair_surrogates
from bpe.folding import fold, is_mark
from bpe.pieces import well_formed
from bpe.wordpiece import WordPiece

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def ours(fetched):
    return WordPiece.from_file(fetched("bert"))


@pytest.fixture(scope="module")
def theirs(tokenizers, fetched):
    return tokenizers.BertWordPieceTokenizer(str(fetched("bert")), lowercase=True)


# No text here has two marks out of canonical order of which one is not stripped: the ids would still be equal, but the
# tokenizers library then begins a span where the mark came to stand, and not where it stood.


def assert_equal(text, ours, theirs):
    expected = theirs.encode(repair_surrogates(text), add_special_tokens=False)
    assert ours.encode(text) == expected.ids, ascii(text)
    pieces = ours.tokens(text)
    assert [piece.id for piece in pieces] == expected.ids, ascii(text)
    origin = well_formed(text)[1]
    for piece, (start, end) in zip(pieces, expected.offsets):
        assert piece.start == origin[start], ascii(text)
        # theirs leaves out the marks that were stripped after a piece's last letter; in ours they are covered
        assert piece.end >= origin[end], ascii(text)
        left_out = well_formed(text[origin[end] : piece.end])[0]
        assert not left_out or (not any(map(fold, left_out)) and is_mark(left_out[-1])), ascii(text)
    assert ours.decode(expected.ids) == theirs.decode(expected.ids, skip_special_tokens=False)


def test_20000_odd_texts_have_the_ids_and_spans_of_the_tokenizers_library(ours, theirs, odd_texts):
    for text in odd_texts(20_000):
        assert_equal(text, ours, theirs)


def test_a_text_in_many_languages_has_the_ids_and_spans_of_the_tokenizers_library(ours, theirs, languages):
    for name in sorted(languages)[::20]:
        assert_equal(languages[name][:5_000], ours, theirs)


@pytest.mark.slow
def test_a_text_in_500_languages_has_the_ids_and_spans_of_the_tokenizers_library(ours, theirs, languages):
    assert len(languages) >= 500
    for text in languages.values():
        assert_equal(text, ours, theirs)


@pytest.mark.slow
def test_every_character_is_folded_as_in_the_tokenizers_library(theirs):
    normalizer, pre_tokenizer = theirs.normalizer, theirs.pre_tokenizer
    for code in range(sys.maxunicode + 1):
        if not 0xD800 <= code < 0xE000:
            expected = pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(f"a{chr(code)}b"))
            assert f"a{fold(chr(code))}b".split() == [word for word, _ in expected], hex(code)
