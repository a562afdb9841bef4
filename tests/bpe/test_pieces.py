"""The pieces of a byte-level encoding and the characters of the text they stand for."""
from hypothesis import given
from hypothesis import strategies as st

from bpe import Encoding
from bpe.pieces import well_formed
from bpe.split import GPT2_PATTERN

RANKS = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, b"abc": 257, b" \xf0": 258, b"\x91\x8d": 259}
SMALL = Encoding("small", pat_str=GPT2_PATTERN, mergeable_ranks=RANKS, special_tokens={"<end>": 260})


def test_a_piece_covers_each_character_that_it_holds_a_byte_of():
    found = [(piece.bytes, piece.start, piece.end) for piece in SMALL.tokens("abc 👍")]
    assert found == [(b"abc", 0, 3), (b" \xf0", 3, 5), (b"\x9f", 4, 5), (b"\x91\x8d", 4, 5)]


def test_special_tokens_are_text_unless_they_are_allowed():
    assert len(SMALL.tokens("<end>")) == 5
    assert [piece[:2] for piece in SMALL.tokens("<end>", allowed_special="all")] == [(260, "<end>")]


@given(st.text(st.sampled_from("abc 👍é\n\ud83d\ude00") | st.characters(), max_size=30))
def test_pieces_hold_the_bytes_of_the_text_and_cover_it(text):
    found = SMALL.tokens(text)
    assert [piece.id for piece in found] == SMALL.encode_ordinary(text)
    assert b"".join(piece.bytes for piece in found) == well_formed(text)[0].encode()
    end = 0
    for piece in found:
        assert piece.start <= end <= piece.end and piece.start < piece.end
        end = piece.end
    assert end == len(text)


@given(st.text(st.sampled_from("a\ud83d\ude00\udfff\U0001f600") | st.characters()))
def test_well_formed_text_says_where_its_characters_were(text):
    clean, origin = well_formed(text)
    assert len(origin) == len(clean) + 1 and origin[0] == 0 and origin[-1] == len(text)
    for i, character in enumerate(clean):
        original = text[origin[i] : origin[i + 1]]
        assert original == character or well_formed(original)[0] == character
