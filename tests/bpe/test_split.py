"""Pieces: what GPT-2's pattern cuts, and that the whole-array splitter cuts the same."""
import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bpe import classes
from bpe import split as split_module
from bpe.split import ASCII_PATTERN, BETWEEN_TEXTS, blocks, piece_starts, split

# characters of which neighbours matter: letters of contractions, the apostrophe, every kind of space, other scripts
ODD = "aZ' \n\t\r09.,sdmtlvre!é中\u00a0\u3000Ж५🙂\u1c89\u200d\u0301\x1c\x85\u2028"
odd_text = st.text(st.one_of(st.sampled_from(ODD), st.characters(exclude_categories=["Cs"])), max_size=40)


def starts_of(pieces: list[str]) -> list[int]:
    return np.cumsum([0, *map(len, pieces)])[:-1].tolist()


def as_array(text: str) -> np.ndarray:
    return np.frombuffer(classes.stand_ins(text).encode(), np.uint8)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I'm  here, 1st", ["I", "'m", " ", " here", ",", " 1", "st"]),
        ("we'll they've you're", ["we", "'ll", " they", "'ve", " you", "'re"]),
        ("'sa 's ''s'd", ["'s", "a", " '", "s", " ''", "s", "'d"]),
        ("a\n\nb", ["a", "\n", "\n", "b"]),
        ("a \n", ["a", " \n"]),
        ("\u00a0\u00a0x", ["\u00a0", "\u00a0", "x"]),
        ("", []),
    ],
)
def test_pieces(text, pieces):
    assert split(text) == pieces
    assert piece_starts(as_array(text)).tolist() == starts_of(pieces)


@given(odd_text)
@example("'")
@example("x'l")
@example("x'll'")
@example("'ve ")
@example("  ")
def test_whole_arrays_cut_where_the_pattern_cuts(text):
    pieces = split(text)
    assert "".join(pieces) == text
    assert piece_starts(as_array(text)).tolist() == starts_of(pieces)


@given(st.lists(st.text(" '\nsl.9", max_size=6), max_size=6))
def test_texts_cut_together_are_cut_as_each_alone(texts):
    array = as_array("\n".join(texts)).copy()
    between = np.cumsum([len(text) + 1 for text in texts[:-1]], dtype=int) - 1
    array[between] = BETWEEN_TEXTS
    expected, begin = [], 0
    for text in texts:
        expected += [begin + start for start in starts_of(split(text))] + [begin + len(text)]
        begin += len(text) + 1
    assert piece_starts(array).tolist() == expected[:-1]  # after the last text nothing stands


@given(st.one_of(odd_text, st.text(" '\nsl.", max_size=60)), st.integers(1, 9))
def test_pieces_of_blocks_are_the_pieces_of_the_text(text, size):
    cut = list(blocks(text, size))
    assert "".join(cut) == text
    assert [piece for block in cut for piece in split(block)] == split(text)


def test_blocks_stay_small_in_every_text_but_a_long_piece():
    for text in ("it's " * 50_000, "'" + "a'" * 50_000, "' " * 50_000, "中文。" * 50_000, "a1" * 50_000):
        assert max(map(len, blocks(text, 1000))) <= 1000
    assert [len(block) for block in blocks("a" * 50_000 + " b" * 5, 1000)][0] >= 50_000


def test_stand_ins_say_what_the_frozen_ranges_say():
    table = classes.STAND_INS
    assert len(table) == 0x110000
    for written, kind in (
        (classes.LETTERS, "[A-Za-z]"), (classes.NUMBERS, "[0-9]"), (classes.WHITESPACE, r"\s"),
    ):  # fmt: skip
        members = {code for first, last in classes.ranges(written) for code in range(first, last + 1)}
        found = {match.start() for match in re.compile(kind, re.ASCII).finditer(table)}
        assert found == members
    assert classes.UNICODE_VERSION == "16.0"


def test_only_ascii_stands_for_itself_and_no_stand_in_can_be_a_contraction():
    assert classes.STAND_INS[:128] == "".join(map(chr, range(128)))
    assert set(classes.STAND_INS[128:]) == set("A0\t!")


def test_the_classes_do_not_come_from_a_library_that_may_be_at_another_unicode():
    for module in (classes, split_module):
        assert not {"regex", "unicodedata"} & vars(module).keys()
    assert ASCII_PATTERN.flags & re.ASCII
