"""SentencePiece: merges by score, byte fallback, spans of the original text, and `tokenizer.model` files."""
import contextlib
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe.pieces import Piece
from bpe.sentencepiece import BYTE, BYTE_PIECES, CONTROL, UNKNOWN, ModelPiece, SentencePiece, read_model

LEARNED = ["▁h", "ll", "▁he", "llo", "▁▁", "ab", "bc", "abc", "▁", "h", "e", "l", "o", "a", "b", "c", "é"]
PIECES = [
    ModelPiece("<unk>", type=UNKNOWN),
    ModelPiece("<s>", type=CONTROL),
    ModelPiece("</s>", type=CONTROL),
    *(ModelPiece(name, type=BYTE) for name in BYTE_PIECES),
    *(ModelPiece(text, -rank) for rank, text in enumerate(LEARNED)),
]
IDS = {piece.text: id for id, piece in enumerate(PIECES)}
FIRST = 259  # id of the first piece that was learned


@pytest.fixture(scope="module")
def small():
    return SentencePiece(PIECES)


@pytest.fixture(scope="module")
def llama(fetched):
    return SentencePiece.from_file(fetched("llama"))


def pieces(tokenizer, text):
    return [(piece.text, piece.start, piece.end) for piece in tokenizer.tokens(text)]


# -- from text to pieces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello", [("▁he", 0, 2), ("llo", 2, 5)]),
        (" hello", [("▁", 0, 0), ("▁he", 0, 3), ("llo", 3, 6)]),
        ("  hello", [("▁▁", 0, 1), ("▁he", 1, 4), ("llo", 4, 7)]),
        ("abc", [("▁", 0, 0), ("abc", 0, 3)]),  # the dummy prefix stands for no character
        ("o▁he", [("▁", 0, 0), ("o", 0, 1), ("▁he", 1, 4)]),  # ▁ in the text is a space
        ("aéé", [("▁", 0, 0), ("a", 0, 1), ("é", 1, 2), ("é", 2, 3)]),
        ("\n", [("▁", 0, 0), ("<0x0A>", 0, 1)]),
        ("ñb", [("▁", 0, 0), ("<0xC3>", 0, 1), ("<0xB1>", 0, 1), ("b", 1, 2)]),  # each byte has the character
        ("<s>", [("▁", 0, 0), ("<0x3C>", 0, 1), ("<0x73>", 1, 2), ("<0x3E>", 2, 3)]),  # <s> in the text is text
        ("\ud83d\ude00b", [("▁", 0, 0), *((f"<0x{byte:02X}>", 0, 2) for byte in "😀".encode()), ("b", 2, 3)]),
        ("\ud83db", [("▁", 0, 0), ("<0xEF>", 0, 1), ("<0xBF>", 0, 1), ("<0xBD>", 0, 1), ("b", 1, 2)]),
        ("", []),
    ],
)
def test_a_span_is_what_the_piece_stands_for_in_the_original_text(small, text, expected):
    assert pieces(small, text) == expected
    assert small.encode(text) == [IDS[piece] for piece, _, _ in expected]


def test_the_best_score_is_merged_first_and_of_equals_the_leftmost(small):
    assert [piece.text for piece in small.tokens("abcbc")] == ["▁", "abc", "bc"]
    assert [piece.text for piece in small.tokens("lllo")] == ["▁", "ll", "l", "o"]  # "ll" before "llo"


def test_a_piece_says_which_bytes_it_stands_for(small):
    assert small.tokens("he\t") == [Piece(FIRST + 2, "▁he", b" he", 0, 2), Piece(3 + 9, "<0x09>", b"\t", 2, 3)]


@pytest.mark.parametrize("more", [[], [ModelPiece("a▁", -90.0), ModelPiece("a▁b", -91.0)]])
def test_merging_word_by_word_is_merging_the_whole_text(more):
    tokenizer = SentencePiece([*PIECES, *more])
    ranks = {piece.text: -piece.score for piece in [*PIECES, *more] if piece.type == 1}
    source = random.Random(1)
    for _ in range(300):
        text = "".join(source.choices("  ▁abchelo", k=source.randrange(90)))
        parts = list("▁" + text.replace(" ", "▁")) if text else []
        while True:
            pairs = [left + right for left, right in zip(parts, parts[1:])]
            best = min(pairs, key=lambda pair: ranks.get(pair, 99), default="")
            if best not in ranks:
                break
            i = pairs.index(best)
            parts[i : i + 2] = [best]
        assert [piece.text for piece in tokenizer.tokens(text)] == parts


texts = st.text(st.sampled_from("hello abc▁é\n\0ñ🤷\ud83d\ude00") | st.characters(), max_size=30)


@given(texts)
def test_spans_cover_the_text_in_order_and_decoding_gives_it_back(text):
    tokenizer = SentencePiece(PIECES)
    found = tokenizer.tokens(text)
    ids = tokenizer.encode(text)
    assert [piece.id for piece in found] == ids
    end = 0
    for piece in found:
        assert piece.start == end or (piece.id in range(3, FIRST) and piece.start < piece.end == end)
        end = piece.end
    assert end == len(text)
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert tokenizer.decode(ids) == clean.replace("▁", " ")
    assert b"".join(piece.bytes for piece in found)[1:] == clean.replace("▁", " ").encode()


def test_a_long_word_is_encoded(small):
    assert small.encode("abc" * 100_000) == [IDS["▁"]] + [IDS["abc"]] * 100_000
    assert small.encode("🤷" * 30_000) == [IDS["▁"]] + [3 + byte for byte in "🤷".encode()] * 30_000


# -- and back --------------------------------------------------------------------------------------------------------


def test_decoding_takes_off_the_dummy_prefix_once(small):
    he, space = IDS["▁he"], IDS["▁"]
    assert small.decode([he, he]) == "he he"
    assert small.decode([1, he, 2]) == "he"  # <s> and </s> are nothing
    assert small.decode([space, he]) == " he"
    assert small.decode([3 + 10, he]) == "\n he"
    assert small.decode([0, he]) == " ⁇  he"
    assert small.decode([]) == ""


def test_decoding_replaces_each_byte_that_is_not_part_of_a_character(small):
    e_acute = [3 + byte for byte in "é".encode()]
    assert small.decode([*e_acute, *e_acute[:1]]) == "é�"
    assert small.decode([3 + 0xE2, 3 + 0x82, 3 + 10]) == "��\n"
    assert small.decode([e_acute[0], 1, e_acute[1]]) == "��"  # <s> stands between them


@pytest.mark.parametrize("id", [-1, len(PIECES), 1 << 70])
def test_decoding_refuses_ids_that_the_vocabulary_does_not_have(small, id):
    with pytest.raises(ValueError, match=rf"ids\[1\] is {id}: the vocabulary's ids are 0 to {len(PIECES) - 1}"):
        small.decode([3, id])


@pytest.mark.parametrize("ids", [[5, 1.0], [5, "a"], [5, True], "ab", 5, None])
def test_decoding_refuses_what_is_no_sequence_of_integers(small, ids):
    with pytest.raises(TypeError, match="ids"):
        small.decode(ids)


@pytest.mark.parametrize("text", [None, b"he", 5, ["he"]])
def test_only_a_string_can_be_encoded(small, text):
    for encode in (small.encode, small.tokens):
        with pytest.raises(TypeError, match=f"text must be a str, got {type(text).__name__}"):
            encode(text)


# -- files -----------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: int | float | bytes) -> bytes:
    """A field of a protocol buffer's message."""
    if isinstance(value, bytes):
        return varint(8 * number + 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(8 * number + 5) + struct.pack("<f", value)
    return varint(8 * number) + varint(value)


def piece_field(piece: ModelPiece) -> bytes:
    return field(1, field(1, piece.text.encode()) + field(2, float(piece.score)) + field(3, piece.type))


TRAINER = {1: b"corpus.txt", 3: 2, 35: 1}  # model_type BPE, byte_fallback
NORMALIZER = {1: b"identity", 3: 1, 4: 0}  # add_dummy_prefix, not remove_extra_whitespaces


def model(pieces=PIECES, trainer=None, normalizer=None, more=b"") -> bytes:
    data = b"".join(map(piece_field, pieces))
    for number, settings in ((2, TRAINER | (trainer or {})), (3, NORMALIZER | (normalizer or {}))):
        data += field(number, b"".join(field(n, value) for n, value in settings.items() if value is not None))
    return data + more


def refusal(tmp_path, data: bytes) -> str:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(data)
    with pytest.raises(ValueError) as refused:
        SentencePiece.from_file(path)
    message = str(refused.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_a_model_is_read_from_its_file(tmp_path, small):
    path = tmp_path / "tokenizer.model"
    path.write_bytes(model(more=field(4, b"self test") + field(200, 1) + varint(8 * 201 + 1) + bytes(8)))
    tokenizer = SentencePiece.from_file(path)
    assert tokenizer.vocab_size == len(PIECES)
    assert tokenizer.encode("hello ñ") == small.encode("hello ñ")


def test_fields_that_are_left_out_have_their_default():
    assert read_model(field(1, field(1, b"a")) + model([]))[0] == ModelPiece("a", 0.0, 1)


def test_a_model_cut_short_anywhere_is_refused(tmp_path):
    data = model([ModelPiece("ab", -1.5)])
    for length in range(len(data)):
        assert refusal(tmp_path, data[:length])


def test_a_model_with_a_byte_changed_is_read_or_refused():
    data = model(PIECES[:5])
    for i, byte in enumerate(data):
        for other in {0, 0xFF, byte ^ 1, byte ^ 0x80}:
            with contextlib.suppress(ValueError):
                read_model(data[:i] + bytes([other]) + data[i + 1 :])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty (0 bytes)"),
        (model()[:-1], f"byte {len(model()) - 16}: field 3 needs 14 bytes, 13 are left: cut short"),
        (b"<!DOCTYPE html>", "byte 0: a field with number 7 and type 4, which is none: damaged"),
        (model([]), "there is no piece in it"),
        (field(1, field(1, b"a\xff")), "byte 5: piece 0 is not UTF-8: b'a\\xff'"),
        (field(1, field(1, b"a") + field(2, 7)), "byte 6: the score of piece 0 is not a float of 4 bytes"),
    ],
)
def test_a_damaged_model_is_refused_with_the_place_and_the_reason(tmp_path, data, reason):
    assert refusal(tmp_path, data) == reason


@pytest.mark.parametrize(
    ("trainer", "normalizer", "reason"),
    [
        ({3: 1}, {}, "model_type (1 unigram, 2 BPE, 3 word, 4 char) is 1; only models like Llama's can be read, which have 2"),
        ({3: None}, {}, "model_type (1 unigram, 2 BPE, 3 word, 4 char) is 1"),
        ({35: None}, {}, "byte_fallback is 0"),
        ({24: 1}, {}, "treat_whitespace_as_suffix is 1"),
        ({}, {2: b"nfkc"}, "precompiled_charsmap (its length in bytes) is 4"),
        ({}, {3: 0}, "add_dummy_prefix is 0"),
        ({}, {4: None}, "remove_extra_whitespaces is 1"),
        ({}, {5: 0}, "escape_whitespaces is 0"),
    ],
)
def test_a_model_with_settings_that_would_give_other_ids_is_refused(tmp_path, trainer, normalizer, reason):
    assert refusal(tmp_path, model(trainer=trainer, normalizer=normalizer)).startswith(reason)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([ModelPiece("ab")], "piece 276: the piece 'ab' is there already, piece 264"),
        ([ModelPiece("")], "piece 276: a piece cannot be empty"),
        ([ModelPiece("x", type=4)], "piece 276: 'x' is of type 4 (user-defined); Llama's model has none"),
        ([ModelPiece("x", type=9)], "piece 276: 'x' is of type 9 (unknown to us); Llama's model has none"),
        ([ModelPiece("x", type=BYTE)], "piece 276: 'x' is marked as a byte; bytes are <0x00> to <0xFF>"),
        ([ModelPiece("x", float("nan"))], "piece 276: the score of 'x' is not a number"),
        ([ModelPiece("x", type=UNKNOWN)], "one piece must be of type 2 (<unk>), and 2 are: ['<unk>', 'x']"),
    ],
)
def test_a_model_with_a_wrong_piece_is_refused(tmp_path, more, reason):
    assert refusal(tmp_path, model([*PIECES, *more])) == reason


def test_a_model_without_one_of_the_bytes_is_refused(tmp_path):
    without = [piece for piece in PIECES if piece.text != "<0x0A>"]
    assert refusal(tmp_path, model(without)).startswith("no piece is the byte <0x0A>")


def test_a_missing_model_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="tokenizer.model"):
        SentencePiece.from_file(tmp_path / "tokenizer.model")


# -- Llama's own -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("Hello", [15043]),
        (" Hello", [29871, 15043]),
        ("  Hello", [259, 15043]),
        ("   Hello", [1678, 15043]),
        ("    Hello", [268, 15043]),
        ("Hello world!", [15043, 3186, 29991]),
    ],
)
def test_the_vocabulary_of_llama(llama, text, ids):
    assert llama.vocab_size == 32000
    assert llama.encode(text) == ids
    assert llama.decode([1, *ids]) == text
