"""WordPiece: folding, the longest match, spans of the original text, and files that are refused."""
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.folding import fold, is_mark
from bpe.pieces import Piece
from bpe.wordpiece import WordPiece

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "una", "##ff", "##ffa", "##ble", "##able", "a", "##a",
          "cafe", "e", "##e", "中", ",", ".", "!", "[", "]", "mask", "ᄀ", "##ᅡ", "##ᆨ", "σ", "##σ"]  # fmt: skip
UNK = PIECES.index("[UNK]")


@pytest.fixture(scope="module")
def small():
    return WordPiece(PIECES)


@pytest.fixture(scope="module")
def bert(fetched):
    return WordPiece.from_file(fetched("bert"))


def pieces(tokenizer, text, **options):
    return [(piece.text, piece.start, piece.end) for piece in tokenizer.tokens(text, **options)]


# -- from text to pieces ---------------------------------------------------------------------------------------------


def test_the_longest_piece_wins_and_is_never_taken_back(small):
    assert pieces(small, "unaffable") == [("una", 0, 3), ("##ffa", 3, 6), ("##ble", 6, 9)]
    without_ble = WordPiece([piece for piece in PIECES if piece != "##ble"])
    assert pieces(without_ble, "unable") == [("[UNK]", 0, 6)]  # although "un" and "##able" would make it


def test_a_word_with_no_match_is_unknown_as_a_whole_and_its_neighbours_are_not(small):
    assert pieces(small, "una unaz, una") == [("una", 0, 3), ("[UNK]", 4, 8), (",", 8, 9), ("una", 10, 13)]


def test_a_word_is_unknown_above_100_characters(small):
    assert small.encode("a" * 100) == [PIECES.index("a")] + [PIECES.index("##a")] * 99
    assert pieces(small, "a " + "a" * 101) == [("a", 0, 1), ("[UNK]", 2, 103)]
    assert len(small.encode("e\u0301" * 100)) == 100  # counted when the accents are gone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAFÉ", [("cafe", 0, 4)]),
        ("cafe\u0301!", [("cafe", 0, 5), ("!", 5, 6)]),  # the accent belongs to its letter
        ("c\u0327afe\u200d\u0301\u0302", [("cafe", 0, 8)]),
        ("\0ca\u200bfe\0", [("cafe", 1, 6)]),  # dropped characters count only inside
        ("\u0301 \u0301a", [("a", 3, 4)]),  # an accent with no letter before it is nothing
        ("a中\u0301a", [("a", 0, 1), ("中", 1, 3), ("a", 3, 4)]),
        ("각", [("ᄀ", 0, 1), ("##ᅡ", 0, 1), ("##ᆨ", 0, 1)]),  # three letters in one character
        ("ΣΣ", [("σ", 0, 1), ("##σ", 1, 2)]),  # no final sigma
        ("a\u2028\u3000a\x85", [("a", 0, 1), ("a", 3, 4)]),
        ("z\u0301z", [("[UNK]", 0, 3)]),
        ("\ud83d\ude00 a \ud83d", [("[UNK]", 0, 2), ("a", 3, 4)]),  # a pair of surrogates is a character, one is none
        ("", []),
        (" \t\n", []),
    ],
)
def test_a_span_is_what_the_piece_stands_for_in_the_original_text(small, text, expected):
    assert pieces(small, text) == expected


def test_special_tokens_in_the_text_are_tokens_or_text(small):
    text = "[MASK]a"
    assert pieces(small, text) == [("[MASK]", 0, 6), ("a", 6, 7)]
    as_text = [("[", 0, 1), ("mask", 1, 5), ("]", 5, 6), ("a", 6, 7)]
    assert pieces(small, text, allowed_special=()) == as_text
    assert pieces(small, text, allowed_special={"[CLS]"}) == as_text
    assert small.encode("[mask]") == small.encode("[MASK]", allowed_special=())
    with pytest.raises(ValueError, match=r"'\[FOO\]' is no special token.*\[MASK\]"):
        small.encode(text, allowed_special={"[FOO]"})
    for wrong in (5, "[CLS]", [5], [["[CLS]"]], (token for token in ["[CLS]"])):
        with pytest.raises(TypeError, match="allowed_special (must be|has)"):
            small.encode(text, allowed_special=wrong)


def test_a_piece_says_which_bytes_it_stands_for(small):
    assert small.tokens("Unable") == [Piece(6, "una", b"una", 0, 3), Piece(9, "##ble", b"ble", 3, 6)]


texts = st.text(st.sampled_from("aAeé\u0301\u0302 unfb\t,!中각σΣ\0\u200d\ufffd[]😀\ud83d\ude00z") | st.characters(), max_size=30)


@given(texts)
def test_pieces_are_in_order_and_leave_out_only_what_was_folded_away(text):
    tokenizer = WordPiece(PIECES)
    found = tokenizer.tokens(text)
    assert [piece.id for piece in found] == tokenizer.encode(text)
    assert all(0 <= piece.start < piece.end <= len(text) for piece in found)
    for piece, after in zip(found, found[1:]):
        assert piece.end <= after.start or (piece.start, piece.end) == (after.start, after.end)
    covered = {i for piece in found for i in range(piece.start, piece.end)}
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if clean == text:
        assert all(not fold(character).strip() for i, character in enumerate(text) if i not in covered)
        for i, character in enumerate(text):
            if is_mark(character) and i - 1 in covered:
                assert i in covered


def test_folding_is_the_same_under_every_version_of_python():
    folded = hashlib.sha256()
    for code in [*range(0x30000), *range(0xE0000, 0xF0000)]:  # the planes with characters
        if not 0xD800 <= code < 0xE000:
            folded.update(fold(chr(code)).encode() + b"\xff")
    assert folded.hexdigest() == "0813449009db60175d8e6efaa7c6d4f3aff80d54924f4b82c8958b3e21218e58"


def test_a_long_text_is_encoded(small):
    assert small.encode("unaffable, " * 20_000) == small.encode("unaffable,") * 20_000
    assert small.encode("a" * 1_000_000) == [UNK]
    assert pieces(small, "각" + "\u200d" * 100_000) == pieces(small, "각")


# -- and back --------------------------------------------------------------------------------------------------------


def test_decoding_joins_pieces_and_puts_spaces_between_words(small):
    assert small.decode(small.encode("UNAFFABLE café,una !  zz")) == "unaffable cafe, una! [UNK]"
    assert small.decode([]) == ""
    assert small.decode([9, 9]) == "##bleble"


@pytest.mark.parametrize("ids", [[5, -1], [5, len(PIECES)], [5, 1 << 70]])
def test_decoding_refuses_ids_that_the_vocabulary_does_not_have(small, ids):
    with pytest.raises(ValueError, match=rf"ids\[1\] is {ids[1]}: the vocabulary's ids are 0 to 27"):
        small.decode(ids)


@pytest.mark.parametrize("ids", [[5, 1.0], [5, "a"], [5, True], [5, None], "ab", b"ab", 5, None])
def test_decoding_refuses_what_is_no_sequence_of_integers(small, ids):
    with pytest.raises(TypeError, match="ids"):
        small.decode(ids)


@pytest.mark.parametrize("text", [None, b"una", 5, ["una"]])
def test_only_a_string_can_be_encoded(small, text):
    for encode in (small.encode, small.tokens):
        with pytest.raises(TypeError, match=f"text must be a str, got {type(text).__name__}"):
            encode(text)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_vocabulary_is_a_piece_a_line(tmp_path, small, newline, start):
    path = tmp_path / "vocab.txt"
    path.write_bytes((start + newline.join(PIECES) + newline).encode())
    tokenizer = WordPiece.from_file(path)
    assert tokenizer.vocab_size == len(PIECES)
    assert tokenizer.encode("Unaffable café") == small.encode("Unaffable café")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", r"line 1: the file is empty \(0 bytes\)"),
        (b"\n \n", r"line 1: the file is empty \(3 bytes\)"),
        (b"[UNK]\na\nb\na\n", "line 4: the piece 'a' is there already, .*line 2"),
        (b"[UNK]\na\n\nb\n", "line 3: a piece cannot be empty"),
        (b"a\nb\n", r"line 2: the vocabulary ends without the piece \[UNK\]"),
        (b"[UNK]\na\xffb\n", r"line 2: not UTF-8 \(byte 7 is 0xff\)"),
    ],
)
def test_a_damaged_vocabulary_is_refused_with_the_line_and_the_reason(tmp_path, data, reason):
    path = tmp_path / "vocab.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"vocab.txt, {reason}"):
        WordPiece.from_file(path)


def test_a_missing_vocabulary_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="vocab.txt"):
        WordPiece.from_file(tmp_path / "vocab.txt")


# -- BERT's own ------------------------------------------------------------------------------------------------------


def test_the_vocabulary_of_bert(bert):
    assert bert.vocab_size == 30522
    assert bert.encode("Hello, World!") == [7592, 1010, 2088, 999]
    assert bert.encode("[CLS] [MASK] [SEP]") == [101, 103, 102]
    assert pieces(bert, "Unaffable 🤷 naïve") == [
        ("una", 0, 3), ("##ffa", 3, 6), ("##ble", 6, 9), ("[UNK]", 10, 11), ("naive", 12, 17)
    ]  # fmt: skip
