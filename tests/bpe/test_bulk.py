"""The whole-array road: the ids of the short one, in bounded memory."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe import bulk
from bpe.merge import merge
from bpe.split import blocks, split
from bpe.table import PieceTable, padded, piece_keys

BYTES = {bytes([byte]): byte for byte in range(256)}
RANKS = BYTES | {b"ab": 256, b"bc": 257, b"abc": 258, b" a": 259, b"abcabcabcabcabcabc": 260, b"\x00\x00": 261}

texts = st.text(st.sampled_from("abc '\nsé你😀\x00"), max_size=80)


def one_by_one(text, ranks=RANKS):
    ids = []
    for piece in split(text):
        data = piece.encode()
        ids += [ranks[data]] if data in ranks else merge(data, ranks)
    return ids


@given(st.lists(texts, max_size=4))
def test_ids_are_those_of_each_piece(some):
    encoder = bulk.BulkEncoder(RANKS)
    for _ in range(2):  # at first sight, and known
        ids = encoder.encode(some)
        assert np.concatenate([np.zeros(0, np.uint32), *ids]).tolist() == [i for text in some for i in one_by_one(text)]


@given(st.lists(st.binary(max_size=20), unique=True))
def test_keys_tell_pieces_apart(pieces):
    data, starts, lengths = bulk.joined(pieces)
    keys = [tuple(key) for key in piece_keys(data, starts, lengths).tolist()]
    short = [key for key, piece in zip(keys, pieces) if len(piece) <= 15]
    assert len(set(short)) == len(short)
    assert not set(short) & {key for key, piece in zip(keys, pieces) if len(piece) > 15}


@given(st.lists(st.binary(min_size=1, max_size=15), unique=True, max_size=60), st.integers(0, 60))
def test_a_table_finds_what_was_added_and_nothing_else(pieces, added):
    table = PieceTable(60)
    known, others = pieces[:added], pieces[added:]
    for i, piece in enumerate(known, 1):
        table.add(piece_keys(*bulk.joined([piece])), np.array([i]))
    assert table.find(piece_keys(*bulk.joined(known + others))).tolist() == [*range(1, len(known) + 1), *[0] * len(others)]


def test_pieces_that_fall_on_one_slot_all_find_a_place():
    table = PieceTable(7)  # 16 slots
    pieces = [b"%d" % i for i in range(7)]
    table.add(piece_keys(*bulk.joined(pieces)), np.arange(1, 8))
    assert table.find(piece_keys(*bulk.joined([*pieces, b"other"]))).tolist() == [1, 2, 3, 4, 5, 6, 7, 0]


def test_the_last_bytes_of_a_text_can_be_read():
    assert piece_keys(padded(b"abc"), np.array([2]), np.array([1])).tolist() == [[ord("c"), 1 << 56]]


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr(bulk, "KNOWN", 50)
    monkeypatch.setattr(bulk, "KNOWN_IDS", 1000)
    encoder = bulk.BulkEncoder(RANKS)
    for n in range(20):
        text = " ".join(f"w{i}x" for i in range(n * 40, n * 40 + 40)) + " " + "z" * 200
        assert [i for ids in encoder.encode(list(blocks(text, 60))) for i in ids.tolist()] == one_by_one(text)
        assert encoder._known.size <= len(RANKS) + 50
        assert len(encoder._known.ids) <= 4 * (len(RANKS) + 50)


def test_surrogates_are_not_taken_for_text():
    with pytest.raises(UnicodeEncodeError):
        bulk.BulkEncoder(RANKS).encode(["a\ud800"])
