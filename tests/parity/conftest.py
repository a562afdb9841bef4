"""Texts that the comparisons share: odd ones, made by a seed, and the same declaration in 500 languages."""
import html
import random
import re
import tarfile
from collections.abc import Iterator

import pytest

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "0123456789",
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    "àéîöñçßÀÉÎÖÑÇĲŁőễǆİıſÅΩ",
    "".join(map(chr, range(0x300, 0x370))),  # combining marks
    "αβγδεζηθάέήίόύώϊϋΐΰςσΑΒΓΔΣΩἄᾳῷᾈ",
    "абвгдежзийкёАБВГДЁЙѣ",
    "אבגדשָׁבּ֑",
    "ابتثجحخدذرزسشﷺلاًٌٍّْ٠١٢",
    "कखगघकिक्षाीुूृेैोौं१२३हिन्दी",
    "กขคงจฉชซ่้๊๋ำ",
    "한국어각힣각",
    "ひらがなカタカナがぎぐパピプヴﾊﾞ",
    "中文漢字你好世界豈更㐀𠀀𫠝",
    "😀🤷🏽👨‍👩‍👧‍👦🇩🇪❤️🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    " \t\n\r\v\f\x85\xa0\u1680\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000",
    "\0\x01\x1b\x1c\x1f\x7f\x80\x9f\xad\u200b\u200c\u200d\u200e\u2060\ufeff\ufffd\uffff\ue000\U000f0000",
    "–—‘’“”…«»¿¡·†€£№™①½²ⅷﬁ",
    "\ud800\udbff\udc00\udfff\ud83d\ude00",  # surrogates, lone and in pairs
    "▁ ",
]
WORDS = ["hello", " the", "Unaffable", "don't", "##ing", "[MASK]", "[UNK]", "[cls]", "<s>", "</s>", "<unk>", "<0x0A>",
         "▁Hello", " SolidGoldMagikarp", "1234567890", "x" * 101, "a\u0301" * 60, "https://example.org/?q=1", "  "]  # fmt: skip


def _odd_text(random: random.Random) -> str:
    parts = []
    for _ in range(random.randint(1, 6)):
        kind = random.random()
        if kind < 0.2:
            parts.append(random.choice(WORDS))
        elif kind < 0.3:
            parts.append(chr(random.choice((random.randrange(0x3000), random.randrange(0x20000), random.randrange(0x110000)))))
        else:
            alphabet = random.choice(ALPHABETS)
            parts += random.choices(alphabet, k=random.randint(1, 5))
        if random.random() < 0.4:
            parts.append(" ")
    return "".join(parts)


@pytest.fixture(scope="session")
def odd_texts():
    """`odd_texts(n)`: n texts of mixed scripts, marks, spaces, control characters, surrogates; the same ones each time."""

    def texts(n: int) -> Iterator[str]:
        source = random.Random(20180)
        return (_odd_text(source) for _ in range(n))

    return texts


@pytest.fixture(scope="session")
def languages(fetched) -> dict[str, str]:
    """The Universal Declaration of Human Rights in 500 languages, by name of the file."""
    texts = {}
    with tarfile.open(fetched("languages")) as archive:
        for member in archive:
            if member.name.endswith(".html"):
                page = archive.extractfile(member).read().decode()
                texts[member.name] = html.unescape(re.sub("<[^>]*>", "", page))
    return texts
