"""What BERT makes of a character before WordPiece sees it: nothing, a space, or plain lower-case letters.

    dropped      control and format characters, private ones, U+FFFD
    a space      every kind of whitespace
    decomposed   "é" is "e" and a mark, "각" is the three letters ᄀ, ᅡ, ᆨ; marks (category Mn) are then stripped
    lower case   "Σ" is "σ", whatever stands around it
    alone        punctuation and Chinese characters get a space on either side, so that each is a word of its own

By hand: "Café!" is c, a, f, e with its mark stripped, and " ! "; that makes the words "cafe" and "!".

Which characters these are depends on the version of Unicode, and BERT's own answer has three: the classes were
taken from Unicode 8 and kept (so a newer mark is not stripped, a newer punctuation mark is a letter), the
decompositions are of Unicode 12, the lower case of Unicode 17. So the classes are written down here, and Python's
tables are only asked about characters on which all their versions agree.

What is left out: several marks on one letter are not put in canonical order. Nearly all of them are stripped, and no
vocabulary of BERT's has two of the others.

Source: Devlin et al., BERT (google-research/bert, tokenization.py, BasicTokenizer); the versions are those of the
tokenizers library, whose BertNormalizer and BertPreTokenizer were asked about every code point.
"""
import unicodedata

from bpe.classes import ranges

# Inclusive ranges of code points, in hexadecimal.
DROPPED = """
0-8 B-C E-1F 7F-9F AD 600-605 61C 6DD 70F 180E 200B-200F 202A-202E 2060-2064 2066-206F E000-F8FF FEFF FFF9-FFFB FFFD
110BD 1BCA0-1BCA3 1D173-1D17A E0001 E0020-E007F F0000-FFFFD 100000-10FFFD
"""

SPACES = "9-A D 20 A0 1680 2000-200A 2028-2029 202F 205F 3000"

CHINESE = "3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F"

# The marks that are stripped, and what counts as punctuation.
STRIPPED = """
300-36F 483-487 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 64B-65F 670 6D6-6DC 6DF-6E4 6E7-6E8 6EA-6ED 711 730-74A
7A6-7B0 7EB-7F3 816-819 81B-823 825-827 829-82D 859-85B 8E3-902 93A 93C 941-948 94D 951-957 962-963 981 9BC 9C1-9C4
9CD 9E2-9E3 A01-A02 A3C A41-A42 A47-A48 A4B-A4D A51 A70-A71 A75 A81-A82 ABC AC1-AC5 AC7-AC8 ACD AE2-AE3 B01 B3C B3F
B41-B44 B4D B56 B62-B63 B82 BC0 BCD C00 C3E-C40 C46-C48 C4A-C4D C55-C56 C62-C63 C81 CBC CBF CC6 CCC-CCD CE2-CE3 D01
D41-D44 D4D D62-D63 DCA DD2-DD4 DD6 E31 E34-E3A E47-E4E EB1 EB4-EB9 EBB-EBC EC8-ECD F18-F19 F35 F37 F39 F71-F7E
F80-F84 F86-F87 F8D-F97 F99-FBC FC6 102D-1030 1032-1037 1039-103A 103D-103E 1058-1059 105E-1060 1071-1074 1082
1085-1086 108D 109D 135D-135F 1712-1714 1732-1734 1752-1753 1772-1773 17B4-17B5 17B7-17BD 17C6 17C9-17D3 17DD
180B-180D 18A9 1920-1922 1927-1928 1932 1939-193B 1A17-1A18 1A1B 1A56 1A58-1A5E 1A60 1A62 1A65-1A6C 1A73-1A7C 1A7F
1AB0-1ABD 1B00-1B03 1B34 1B36-1B3A 1B3C 1B42 1B6B-1B73 1B80-1B81 1BA2-1BA5 1BA8-1BA9 1BAB-1BAD 1BE6 1BE8-1BE9 1BED
1BEF-1BF1 1C2C-1C33 1C36-1C37 1CD0-1CD2 1CD4-1CE0 1CE2-1CE8 1CED 1CF4 1CF8-1CF9 1DC0-1DF5 1DFC-1DFF 20D0-20DC 20E1
20E5-20F0 2CEF-2CF1 2D7F 2DE0-2DFF 302A-302D 3099-309A A66F A674-A67D A69E-A69F A6F0-A6F1 A802 A806 A80B A825-A826
A8C4 A8E0-A8F1 A926-A92D A947-A951 A980-A982 A9B3 A9B6-A9B9 A9BC A9E5 AA29-AA2E AA31-AA32 AA35-AA36 AA43 AA4C AA7C
AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1 AAEC-AAED AAF6 ABE5 ABE8 ABED FB1E FE00-FE0F FE20-FE2F 101FD 102E0 10376-1037A
10A01-10A03 10A05-10A06 10A0C-10A0F 10A38-10A3A 10A3F 10AE5-10AE6 11001 11038-11046 1107F-11081 110B3-110B6
110B9-110BA 11100-11102 11127-1112B 1112D-11134 11173 11180-11181 111B6-111BE 111CA-111CC 1122F-11231 11234
11236-11237 112DF 112E3-112EA 11300-11301 1133C 11340 11366-1136C 11370-11374 114B3-114B8 114BA 114BF-114C0
114C2-114C3 115B2-115B5 115BC-115BD 115BF-115C0 115DC-115DD 11633-1163A 1163D 1163F-11640 116AB 116AD 116B0-116B5
116B7 1171D-1171F 11722-11725 11727-1172B 16AF0-16AF4 16B30-16B36 16F8F-16F92 1BC9D-1BC9E 1D167-1D169 1D17B-1D182
1D185-1D18B 1D1AA-1D1AD 1D242-1D244 1DA00-1DA36 1DA3B-1DA6C 1DA75 1DA84 1DA9B-1DA9F 1DAA1-1DAAF 1E8D0-1E8D6
E0100-E01EF
"""

PUNCTUATION = """
21-2F 3A-40 5B-60 7B-7E A1 A7 AB B6-B7 BB BF 37E 387 55A-55F 589-58A 5BE 5C0 5C3 5C6 5F3-5F4 609-60A 60C-60D 61B
61E-61F 66A-66D 6D4 700-70D 7F7-7F9 830-83E 85E 964-965 970 AF0 DF4 E4F E5A-E5B F04-F12 F14 F3A-F3D F85 FD0-FD4
FD9-FDA 104A-104F 10FB 1360-1368 1400 166D-166E 169B-169C 16EB-16ED 1735-1736 17D4-17D6 17D8-17DA 1800-180A 1944-1945
1A1E-1A1F 1AA0-1AA6 1AA8-1AAD 1B5A-1B60 1BFC-1BFF 1C3B-1C3F 1C7E-1C7F 1CC0-1CC7 1CD3 2010-2027 2030-2043 2045-2051
2053-205E 207D-207E 208D-208E 2308-230B 2329-232A 2768-2775 27C5-27C6 27E6-27EF 2983-2998 29D8-29DB 29FC-29FD
2CF9-2CFC 2CFE-2CFF 2D70 2E00-2E2E 2E30-2E42 3001-3003 3008-3011 3014-301F 3030 303D 30A0 30FB A4FE-A4FF A60D-A60F
A673 A67E A6F2-A6F7 A874-A877 A8CE-A8CF A8F8-A8FA A8FC A92E-A92F A95F A9C1-A9CD A9DE-A9DF AA5C-AA5F AADE-AADF
AAF0-AAF1 ABEB FD3E-FD3F FE10-FE19 FE30-FE52 FE54-FE61 FE63 FE68 FE6A-FE6B FF01-FF03 FF05-FF0A FF0C-FF0F FF1A-FF1B
FF1F-FF20 FF3B-FF3D FF3F FF5B FF5D FF5F-FF65 10100-10102 1039F 103D0 1056F 10857 1091F 1093F 10A50-10A58 10A7F
10AF0-10AF6 10B39-10B3F 10B99-10B9C 11047-1104D 110BB-110BC 110BE-110C1 11140-11143 11174-11175 111C5-111C9 111CD
111DB 111DD-111DF 11238-1123D 112A9 114C6 115C1-115D7 11641-11643 1173C-1173E 12470-12474 16A6E-16A6F 16AF5
16B37-16B3B 16B44 1BC9F 1DA87-1DA8B
"""

# Where Python may be asked: all that decomposes, all that has a lower case lies in these.
DECOMPOSED = """
C0-374 37E 385-38A 38C 38E-390 3AA-4F9 622-6D3 929-95F 9CB-9CC 9DC-9DD 9DF A33 A36 A59-A5B A5E B48 B4B-B4C B5C-B5D B94
BCA-BCC C48 CC0 CC7-CC8 CCA-CCB D4A-D4C DDA-DDE F43 F4D-F69 F73-F93 F9D-FB9 1026 1B06-1B43 1E00-1F15 1F18-1F1D
1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FC4 1FC6-1FD3 1FD6-1FDB 1FDD-1FEF 1FF2-1FF4
1FF6-1FFD 2000-2001 2126-212B 219A-232A 2ADC 304C-3094 309E-30FE AC00-D7A3 F900-FA6D FA70-FAD9 FB1D-FB36 FB38-FB3C
FB3E FB40-FB41 FB43-FB44 FB46-FB4E 1109A-110AB 1112E-1112F 1134B-1134C 114BB-114BE 115BA-115BB 1D15E-1D1C0 2F800-2FA1D
"""

LOWERED = """
41-376 37F 386-38A 38C 38E-3A1 3A3-52E 531-556 10A0-10C5 10C7 10CD 13A0-13F5 1C89 1C90-1CBA 1CBD-1CBF 1E00-1F0F
1F18-1F1D 1F28-1F3F 1F48-1F4D 1F59 1F5B 1F5D 1F5F-1F6F 1F88-1FAF 1FB8-1FBC 1FC8-1FCC 1FD8-1FDB 1FE8-1FEC 1FF8-1FFC
2126-2183 24B6-24CF 2C00-2CF2 A640-A69A A722-A7CC A7CE A7D0-A7DA A7DC A7F5 FF21-FF3A 10400-10427 104B0-104D3
10570-1057A 1057C-1058A 1058C-10592 10594-10595 10C80-10CB2 10D50-10D65 118A0-118BF 16E40-16E5F 16EA0-16EB8
1E900-1E921
"""

# The lower case that Python 3.10, which has Unicode 13, does not know yet: ranges, and how far the small letter is.
NEWER_LOWER_CASE = (
    ("1C89 A7C0 A7CC A7CE A7D0 A7D2 A7D4 A7D6 A7D8 A7DA", 1),
    ("2C2F", 0x30),
    ("A7CB", 0x264 - 0xA7CB),
    ("A7DC", 0x19B - 0xA7DC),
    ("10570-1057A 1057C-1058A 1058C-10592 10594-10595", 0x27),
    ("10D50-10D65", 0x20),
    ("16EA0-16EB8", 0x1B),
)


def _codes(written: str) -> frozenset[int]:
    return frozenset(code for first, last in ranges(written) for code in range(first, last + 1))


_DROPPED = _codes(DROPPED)
_SPACES = _codes(SPACES)
_STRIPPED = _codes(STRIPPED)
_ALONE = _codes(PUNCTUATION) | _codes(CHINESE)
_DECOMPOSED = _codes(DECOMPOSED)
_LOWERED = _codes(LOWERED)
_NEWER_LOWER_CASE = {code: chr(code + step) for written, step in NEWER_LOWER_CASE for code in _codes(written)}


def is_mark(character: str) -> bool:
    """Whether this is a mark that is stripped: it belongs to the letter before it."""
    return ord(character) in _STRIPPED


def fold(character: str) -> str:
    """What is left of one character.

    >>> [fold(character) for character in ("É", "\\u0301", "\\t", "\\0", "!", "中", "Σ")]
    ['e', '', ' ', '', ' ! ', ' 中 ', 'σ']
    >>> list(fold("각"))
    ['ᄀ', 'ᅡ', 'ᆨ']
    """
    code = ord(character)
    if code in _DROPPED:
        return ""
    if code in _SPACES:
        return " "
    letters = unicodedata.normalize("NFD", character) if code in _DECOMPOSED else character
    letters = "".join(_lower(letter) for letter in letters if not is_mark(letter))
    return "".join(f" {letter} " if ord(letter) in _ALONE else letter for letter in letters)


def _lower(letter: str) -> str:
    code = ord(letter)
    return _NEWER_LOWER_CASE.get(code) or (letter.lower() if code in _LOWERED else letter)


class _Folded(dict[int, str]):
    """`fold` as a table for str.translate, which fills itself."""

    def __missing__(self, code: int) -> str:
        self[code] = fold(chr(code))
        return self[code]


FOLDED = _Folded()
