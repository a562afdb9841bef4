"""The colours of ids: legible, the same everywhere, and nothing that text can do to a terminal."""
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bpe import colours

IDS = range(50257)  # every hue that is used: the golden angle lands close to each degree
BLACK, WHITE = (0x11, 0x11, 0x11), (255, 255, 255)


def luminance(rgb: tuple[int, int, int]) -> float:
    """WCAG 2.2, relative luminance."""
    linear = [value / 255 / 12.92 if value <= 10 else ((value / 255 + 0.055) / 1.055) ** 2.4 for value in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def of_256(number: int) -> tuple[int, ...]:
    """A colour of a terminal's 6 x 6 x 6 cube."""
    return tuple((0, 95, 135, 175, 215, 255)[(number - 16) // step % 6] for step in (36, 6, 1))


def test_text_on_every_id_has_a_contrast_of_seven_in_light_and_dark():
    assert min(contrast(colours.rgb(id), BLACK) for id in IDS) >= 7
    assert min(contrast(colours.rgb(id, dark=True), WHITE) for id in IDS) >= 7


def test_every_colour_is_one_that_screens_have():
    for dark in (False, True):
        assert all(0 <= value <= 255 for id in IDS for value in colours.rgb(id, dark))


def test_neighbouring_ids_never_look_alike_and_the_hues_are_spread_evenly():
    for distance in (1, 2, 3, 4):
        apart = distance * colours.GOLDEN_ANGLE % 360
        assert min(apart, 360 - apart) > 15
    buckets = [0] * 24
    for id in IDS:
        buckets[int(colours.hue(id) // 15)] += 1
    assert max(buckets) < 1.01 * min(buckets)


def test_a_terminal_gets_the_exact_colour_or_one_of_256_as_legible(monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert colours.chip("a", 262) == "\x1b[38;5;16;48;2;244;177;168ma\x1b[0m"
    monkeypatch.delenv("COLORTERM")
    for id in range(5000):
        number = int(re.search(r"48;5;(\d+)m", colours.chip("a", id))[1])
        assert contrast(of_256(number), BLACK) >= 7
        assert max(abs(a - b) for a, b in zip(of_256(number), colours.rgb(id))) <= 20  # half the cube's step


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("choice, environment, terminal, expected", [
    ("auto", {}, True, True),
    ("auto", {}, False, False),
    ("auto", {"TERM": "dumb"}, True, False),
    ("auto", {"NO_COLOR": "1"}, True, False),
    ("auto", {"NO_COLOR": ""}, True, True),
    ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
    ("auto", {"CLICOLOR_FORCE": "0"}, False, False),
    ("auto", {"FORCE_COLOR": "1"}, False, True),
    ("auto", {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, True, False),
    ("always", {"NO_COLOR": "1"}, False, True),
    ("never", {"CLICOLOR_FORCE": "1"}, True, False),
])
def test_who_wants_colour(monkeypatch, choice, environment, terminal, expected):
    for name in ("NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert colours.wanted(choice, Terminal() if terminal else io.StringIO()) is expected


@pytest.mark.parametrize("text, shown", [
    (" the", "␣the"),
    ("\t\r\n", "⇥␍⏎"),
    ("\x1b[31m", r"\x1b[31m"),
    ("\u200d", r"\u200d"),
    ("\u00a0\u202e\ufe0f", r"\xa0\u202e\ufe0f"),
    ("\ud800\udc80", r"\ud800\udc80"),
    (b"\xe0\xa4", r"\xe0\xa4"),
    (b"a\xff ", r"a\xff␣"),
    ("\u093f", "◌\u093f"),
    ("कि", "कि"),
    ("", ""),
])
def test_what_cannot_be_seen_is_shown(text, shown):
    assert colours.visible(text) == shown


@given(st.text() | st.binary())
def test_nothing_shown_is_invisible_or_steers_a_terminal(text):
    assert colours.visible(text).isprintable() and " " not in colours.visible(text)
