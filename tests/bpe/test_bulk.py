"""The whole-array road: the ids of the short one, in bounded memory."""
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe import bulk, known
from bpe.merge import merge
from bpe.split import repaired, split
from bpe.table import PieceTable, distinct, joined, of_keys, padded, piece_keys

BYTES = {bytes([byte]): byte for byte in range(256)}
RANKS = BYTES | {b"ab": 256, b"bc": 257, b"abc": 258, b" a": 259, b"abcabcabcabcabcabc": 260, b"\x00\x00": 261}

texts = st.text(st.sampled_from("abc '\nsé你😀\x00"), max_size=80)
some_bytes = st.binary(min_size=1, max_size=40) | st.binary(min_size=100, max_size=140)


def one_by_one(text, ranks=RANKS):
    ids = []
    for piece in split(text):
        data = piece.encode()
        ids += [ranks[data]] if data in ranks else merge(data, ranks)
    return ids


@given(texts, st.integers(1, 20))
def test_ids_are_those_of_each_piece(text, block):
    encoder = bulk.BulkEncoder(RANKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", block)
        for _ in range(2):  # at first sight, and known
            assert [i for ids in encoder.encode(text) for i in ids.tolist()] == one_by_one(text)


@given(st.lists(st.one_of(texts, st.text("\ud83d\udc4da' ", max_size=6)), max_size=6), st.integers(1, 20))
def test_texts_encoded_together_have_the_ids_of_each_alone(some, block):
    encoder = bulk.BulkEncoder(RANKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "BLOCK", block)
        found, ids_of_text = [], []
        for ids, ends in encoder.encode_texts(some):
            for place, id in enumerate(ids.tolist()):
                if place in ends:
                    found.append(ids_of_text)
                    ids_of_text = []
                else:
                    ids_of_text.append(id)
        assert found == [one_by_one(repaired(text)) for text in some]
        assert ids_of_text == []


@given(st.lists(some_bytes | st.just(b""), unique=True), st.sampled_from([16, 32, 128]))
def test_keys_tell_pieces_apart(pieces, size):
    keys = [tuple(key) for key in piece_keys(*joined(pieces), size).tolist()]
    fit = [key for key, piece in zip(keys, pieces) if len(piece) < size]
    assert len(set(fit)) == len(fit)
    assert not set(fit) & {key for key, piece in zip(keys, pieces) if len(piece) >= size}


room = st.integers(0, 20)


@given(st.lists(some_bytes, unique=True, max_size=60), st.integers(0, 60), room, room, room)
def test_a_table_finds_what_was_added_and_nothing_else(pieces, added, middles, longs, longest):
    table = PieceTable(60, middles, longs, longest)
    known, others = pieces[:added], pieces[added:]
    for i, piece in enumerate(known, 1):
        table.add(joined([piece]), np.array([i]))
    assert table.find(joined(known + others)).tolist() == [*range(1, len(known) + 1), *[0] * len(others)]


def test_the_room_for_the_longest_pieces_is_for_no_others():
    table = PieceTable(60, middles=1, longs=1, longest=2)
    pieces = [letter * length for letter in (b"a", b"b") for length in (20, 100, 200)]
    table.add(joined(pieces), np.arange(1, 7))
    assert table.find(joined(pieces)).tolist() == [1, 2, 3, 4, 5, 6]
    table._rest.clear()  # as another process finds it
    assert table.find(joined(pieces)).tolist() == [1, 2, 3, 0, 0, 6]


def test_pieces_that_fall_on_one_slot_all_find_a_place():
    table = PieceTable(7)  # 16 slots
    pieces = [b"%d" % i for i in range(7)]
    table.add(joined(pieces), np.arange(1, 8))
    assert table.find(joined([*pieces, b"other"])).tolist() == [1, 2, 3, 4, 5, 6, 7, 0]


def test_the_last_bytes_of_a_text_can_be_read():
    assert piece_keys(padded(b"abc"), np.array([2]), np.array([1])).tolist() == [[ord("c"), 1 << 56]]


def test_what_is_known_is_bounded(monkeypatch):
    monkeypatch.setattr(known, "KNOWN", 50)
    monkeypatch.setattr(known, "KNOWN_IDS", 1000)
    monkeypatch.setattr(bulk, "BLOCK", 60)
    encoder = bulk.BulkEncoder(RANKS)
    for n in range(20):
        text = " ".join(f"w{i}x" for i in range(n * 40, n * 40 + 40)) + " " + "z" * 200
        assert [i for ids in encoder.encode(text) for i in ids.tolist()] == one_by_one(text)
        assert encoder._known.size <= len(RANKS) + 50
        assert len(encoder._known.ids) <= 2 * (len(RANKS) + 1000)


def test_more_new_pieces_at_once_than_are_kept(monkeypatch):
    monkeypatch.setattr(known, "KNOWN", 50)
    monkeypatch.setattr(known, "MERGED", 8)
    text = " ".join(f"w{i}x" for i in range(200)) + " and then some words of letters: " + " ".join("abc" * n for n in range(40))
    for block in (100, 1000, 1 << 18):
        monkeypatch.setattr(bulk, "BLOCK", block)
        assert [i for ids in bulk.BulkEncoder(RANKS).encode(text) for i in ids.tolist()] == one_by_one(text)


SHARING = """
import multiprocessing
from bpe import bulk, known
from tests.bpe.test_bulk import RANKS, one_by_one

LONG = 15 * "abc", 50 * "abc"
known.KNOWN, known.KNOWN_IDS = 300, 900
fork = multiprocessing.get_context("fork")
encoder = bulk.BulkEncoder(RANKS, fork.Lock())

def encode(numbers):
    text = " ".join(f"w{i}x" for i in numbers) + " pieces of many letters: abcabcbcabcbcabcbc " + " ".join(LONG)
    assert [i for ids in encoder.encode(text) for i in ids.tolist()] == one_by_one(text)

def in_another(numbers):
    process = fork.Process(target=encode, args=[numbers])
    process.start()
    return process

one, two = in_another(range(100)), in_another(range(50, 150))
one.join(), two.join()
learned = encoder._known.size - len(RANKS)
merged = []
merge = known.Known.merged
known.Known.merged = lambda own, pieces: merged.extend(pieces.bytes_at(range(len(pieces.starts)))) or merge(own, pieces)
encode(range(150))
middle, long, longest = (b" " + piece in merged for piece in (b"abcabcbcabcbcabcbc", *map(str.encode, LONG)))
three = in_another(range(600))  # more than there is room for
encode(range(100, 700))
three.join()
print(one.exitcode, two.exitcode, three.exitcode, learned, b"77" in merged, b"666" in merged, middle, long, longest)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_what_one_forked_process_has_merged_the_others_know():
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SHARING], cwd=root, capture_output=True, text=True)
    codes, merged, again, new, middle, long, longest = done.stdout.split()[:3], *done.stdout.split()[3:]
    assert codes == ["0", "0", "0"], done.stderr
    assert 140 <= int(merged) < 170  # by the first two, which had half of their pieces in common
    assert (again, new, middle, long, longest) == ("False", "True", "False", "False", "False")


class Lock:
    """One that does something when it is taken for the n-th time: what another process would do just before."""

    def __init__(self):
        self.taken, self.then = 0, lambda n: None

    def __enter__(self):
        self.taken += 1
        self.then(self.taken)

    def __exit__(self, *_):
        pass


def test_what_another_has_merged_meanwhile_is_not_known_twice():
    lock = Lock()
    encoder = bulk.BulkEncoder(BYTES, lock)

    def another_encodes_the_same(n):
        if n == 2:
            lock.then = lambda n: None
            list(encoder.encode("quick words"))

    lock.then = another_encodes_the_same
    assert [ids.tolist() for ids in encoder.encode("quick words")] == [list(b"quick words")]
    assert encoder._known.size == len(BYTES) + 2


def test_a_piece_that_another_is_still_adding_is_not_taken_for_one_without_ids():
    lock = Lock()
    encoder = bulk.BulkEncoder(BYTES, lock)
    shared, find = encoder._known, encoder._known.table.find

    def the_key_is_there_already(pieces):
        shared.table.find = find
        shared.table.add(joined([b"quick"]), np.array([257]))
        return find(pieces)

    def and_now_its_ids(n):
        if n == 2:
            shared.ids[256:261], shared.begins[258] = list(b"quick"), 261
            shared._size += 1

    shared.table.find, lock.then = the_key_is_there_already, and_now_its_ids
    assert [ids.tolist() for ids in encoder.encode("quick")] == [list(b"quick")]


def test_a_process_that_forgets_has_a_lock_of_its_own():
    lock = Lock()
    encoder = bulk.BulkEncoder(BYTES, lock)
    encoder.forget()
    lock.then = lambda n: pytest.fail("another process may have died with it")
    assert [ids.tolist() for ids in encoder.encode("quick words")] == [list(b"quick words")]


def test_tokens_may_be_given_in_any_order():
    encoder = bulk.BulkEncoder(dict(reversed(RANKS.items())))
    assert [ids.tolist() for ids in encoder.encode("abcbc ab")] == [one_by_one("abcbc ab")]


def test_surrogates_are_repaired():
    assert [ids.tolist() for ids in bulk.BulkEncoder(RANKS).encode("a\ud83d\udc4d \ud800")] == [one_by_one("a👍 \ufffd")]


@given(st.lists(st.sampled_from([b"", b"a", b"b", b"ab", b"fifteen letters"]), max_size=12), st.sampled_from([16, 32]))
def test_keys_are_counted_once_and_tell_their_pieces(some, size):
    pieces = of_keys(distinct(piece_keys(*joined(some), size)))
    assert sorted(pieces.bytes_at(np.arange(len(pieces.starts)))) == sorted(set(some))
