r"""A colour for each id, and signs for what cannot be seen: how tokens are shown, on a terminal and on a page.

The hue goes round by the golden angle from id to id, so that neighbouring ids never look alike, and an id has one
colour in every place and every run. Lightness and colourfulness are the same for all, in OKLCH, where equal numbers
look equally light: dark text reads equally well on each. Two ids in twelve may still look alike, so colour is only
ever a help: whoever shows a token prints its text and id too.

Source: Björn Ottosson, "A perceptual color space for image processing" (2020), for OKLCH; no-color.org.
"""
import math
import os
import sys
import unicodedata
from typing import TextIO

GOLDEN_ANGLE = 137.508  # degrees
LIGHT, DARK = (0.82, 0.08), (0.42, 0.07)  # lightness and chroma, for black text and for white; sRGB has all their hues

SIGNS = {" ": "␣", "\t": "⇥", "\n": "⏎", "\r": "␍"}


def hue(id: int) -> float:
    """The hue of an id, in degrees."""
    return id * GOLDEN_ANGLE % 360


def rgb(id: int, dark: bool = False) -> tuple[int, int, int]:
    """The background of an id, 0 to 255 each: a light one for black text, or a dark one for white.

    >>> rgb(262), rgb(262, dark=True)
    ((244, 177, 168), (110, 61, 56))
    """
    lightness, chroma = DARK if dark else LIGHT
    angle = math.radians(hue(id))
    a, b = chroma * math.cos(angle), chroma * math.sin(angle)
    # OKLab to the three kinds of cones, to linear sRGB, to sRGB
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    red = 4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short
    green = -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short
    blue = -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short
    return _srgb(red), _srgb(green), _srgb(blue)


def _srgb(linear: float) -> int:
    return round(255 * (12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055))


def visible(text: str | bytes) -> str:
    r"""`text` with signs for spaces and line ends, and what else cannot be seen as Python would escape it.

    Bytes that are not UTF-8 on their own, a part of a character for instance, are escaped too. A mark that would sit
    on the letter before it gets a circle to sit on. Nothing is left that could steer a terminal.

    >>> visible(" the\n"), visible("\u200d\x1b[2J"), visible(b" \xf0\x9f"), visible("\u0301")
    ('␣the⏎', '\\u200d\\x1b[2J', '␣\\xf0\\x9f', '◌́')
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "backslashreplace")
    shown = "".join(map(_visible_character, text))
    return "◌" + shown if unicodedata.category(shown[:1] or " ")[0] == "M" else shown


def _visible_character(character: str) -> str:
    if character in SIGNS:
        return SIGNS[character]
    if unicodedata.category(character)[0] in "CZ" or "\ufe00" <= character <= "\ufe0f":
        return character.encode("unicode_escape").decode()
    return character


def wanted(choice: str = "auto", stream: TextIO | None = None) -> bool:
    """Whether to write colours to `stream` (standard output if None), where `choice` is "always", "never" or "auto".

    "auto" asks the environment: NO_COLOR is a no; then CLICOLOR_FORCE or FORCE_COLOR, other than "0", is a yes; else
    it is a yes on a terminal that is not "dumb".
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def chip(text: str, id: int) -> str:
    """`text` in black on the colour of `id`, as a terminal shows it: exactly where COLORTERM says so, else of 256."""
    red, green, blue = rgb(id)
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return f"\x1b[38;5;16;48;2;{red};{green};{blue}m{text}\x1b[0m"
    steps = [max(0, round((value - 55) / 40)) for value in (red, green, blue)]  # the cube's steps: 0, 95, 135, ... 255
    return f"\x1b[38;5;16;48;5;{16 + 36 * steps[0] + 6 * steps[1] + steps[2]}m{text}\x1b[0m"
