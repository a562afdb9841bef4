"""Vocabulary files: where they are looked for, and which contents are taken or refused, with the line and the reason."""
import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe import alphabet, files, manifest

CASES = [
    json.loads(line)
    for line in Path(__file__).with_name("cases").joinpath("load.jsonl").read_text(encoding="utf-8").splitlines()
]
BYTES = list(alphabet.CHARACTER_TO_BYTE)  # in the order of GPT-2's ids
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "# #", "Ã ©"]


def lines(merges):
    return "\n".join(["#version: 0.2", *merges, ""])


def encoder(merges, special=("<|endoftext|>",), first=()):
    tokens = [*first, *BYTES, *(merge.replace(" ", "") for merge in merges), *special]
    return {token: id for id, token in enumerate(tokens)}


@pytest.fixture
def pair(tmp_path):
    """Write the two files and return their paths; by default a small vocabulary that is right."""

    def write(ids=None, merges=None):
        ids = encoder(MERGES) if ids is None else ids
        contents = json.dumps(ids) if isinstance(ids, dict) else ids, lines(MERGES) if merges is None else merges
        paths = tmp_path / "encoder.json", tmp_path / "vocab.bpe"
        for path, content in zip(paths, contents):
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return paths

    return write


def refused(paths, *words):
    """The vocabulary is refused, and the error holds each of these words."""
    with pytest.raises(ValueError) as caught:
        files.read_vocabulary(*paths)
    for word in words:
        assert str(word) in str(caught.value)


# -- where files are


SMALL = manifest.File(
    "small.txt",
    6,
    hashlib.sha256(b"small\n").hexdigest(),
    "none",
    urls=(("openai", "https://example.org/small.txt"),),
    hub=("owner/repository/small.txt",),
)
OTHER_CACHES = ["TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "HF_HUB_CACHE", "HF_HOME"]


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Empty caches everywhere, and a manifest with one small file."""
    monkeypatch.setitem(manifest.SETS, "small", (SMALL,))
    for variable in ["GPT2_VOCAB_DIR", *OTHER_CACHES]:
        monkeypatch.setenv(variable, str(tmp_path / variable))
    return tmp_path


def put(path, data=b"small\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_file_is_found_in_the_cache_folder_first(caches):
    put(caches / "TIKTOKEN_CACHE_DIR" / hashlib.sha1(b"https://example.org/small.txt").hexdigest())
    path = put(caches / "GPT2_VOCAB_DIR" / "small.txt")
    assert files.find("small") == files.find("small.txt") == path


@pytest.mark.parametrize(
    "place",
    [
        "TIKTOKEN_CACHE_DIR/" + hashlib.sha1(b"https://example.org/small.txt").hexdigest(),
        "DATA_GYM_CACHE_DIR/" + hashlib.sha1(b"https://example.org/small.txt").hexdigest(),
        "HF_HUB_CACHE/models--owner--repository/snapshots/0123abcd/small.txt",
    ],
)
def test_a_file_is_found_where_other_programs_keep_it_under_their_name(caches, place):
    path = put(caches / place)
    assert files.find("small") == path


def test_a_damaged_copy_is_passed_over_for_a_good_one(caches):
    put(caches / "GPT2_VOCAB_DIR" / "small.txt", b"smal")
    path = put(caches / "HF_HUB_CACHE/models--owner--repository/snapshots/0123abcd/small.txt")
    assert files.find("small") == path


def test_a_missing_file_is_told_with_each_place_and_the_command(caches):
    damaged = put(caches / "HF_HUB_CACHE/models--owner--repository/snapshots/0123abcd/small.txt", b"SMALL\n")
    with pytest.raises(FileNotFoundError) as caught:
        files.find("small")
    message = str(caught.value)
    assert f"{caches / 'GPT2_VOCAB_DIR' / 'small.txt'}: no such file" in message
    assert str(caches / "TIKTOKEN_CACHE_DIR") in message
    assert f"{damaged}: not the small.txt it should be" in message
    assert "python scripts/download_gpt2_vocab.py small" in message and SMALL.sha256 in message


@pytest.mark.parametrize("name", ["gpt2", "nothing", ""])
def test_an_unknown_name_is_told_with_the_known_ones(name):
    with pytest.raises(ValueError, match=f"{name!r}.*encoder.json, vocab.bpe, bert, llama"):
        files.find(name)


@pytest.mark.parametrize(
    "data, cause",
    [
        (b"smal", "cut short"),
        (b"SMALL\n", "another file"),
        (b"small\r\n", "CRLF"),
        (b"\n<!DOCTYPE html>", "a web page"),
        (b"", "cut short"),
    ],
)
def test_a_file_with_another_hash_is_told_by_its_likely_cause(caches, data, cause):
    path = put(caches / "small.txt", data)
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*" + cause):
        files.verify(path, "small.txt")
    path.write_bytes(b"small\n")
    assert files.verify(path, "small.txt") == b"small\n"


@pytest.mark.parametrize(
    "platform, variables, expected",
    [
        ("linux", {"GPT2_VOCAB_DIR": "/mine"}, "/mine"),
        ("linux", {"GPT2_VOCAB_DIR": "~/mine"}, "/home/me/mine"),
        ("linux", {"XDG_CACHE_HOME": "/caches"}, "/caches/string-to-vectors"),
        ("linux", {"XDG_CACHE_HOME": "caches"}, "/home/me/.cache/string-to-vectors"),
        ("linux", {"GPT2_VOCAB_DIR": ""}, "/home/me/.cache/string-to-vectors"),
        ("darwin", {}, "/home/me/Library/Caches/string-to-vectors"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/string-to-vectors"),
        ("win32", {}, "/home/me/AppData/Local/string-to-vectors"),
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="the paths are POSIX ones")
def test_the_cache_folder_is_the_users_own(monkeypatch, platform, variables, expected):
    for variable in ("GPT2_VOCAB_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in {"HOME": "/home/me", **variables}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert files.cache_folder() == Path(expected)


def test_every_file_of_the_manifest_has_a_hash_a_licence_and_an_origin():
    known = [file for files in manifest.SETS.values() for file in files]
    assert len({file.name for file in known}) == len(known)
    for file in known:
        assert re.fullmatch("[0-9a-f]{64}", file.sha256) and file.bytes > 0 and file.licence
        assert file.urls or file.members
        assert all(re.fullmatch("[0-9a-f]{64}", member.package.sha256) for member in file.members)
        assert all(url.startswith("https://") for _, url in file.urls)


# -- the byte alphabet


def test_the_alphabet_is_one_printable_character_for_each_byte():
    characters = "".join(map(chr, range(256))).encode("latin-1")
    written = alphabet.to_characters(characters)
    assert len(set(written)) == 256
    assert all(character.isprintable() and not character.isspace() for character in written)
    assert alphabet.to_bytes(written) == characters


@given(st.binary())
def test_what_the_alphabet_writes_it_reads(data):
    assert alphabet.to_bytes(alphabet.to_characters(data)) == data


# -- what is read


def test_tokens_are_read_in_the_order_of_their_ids_and_specials_apart(pair):
    ranks, special_tokens = files.read_vocabulary(*pair())
    assert list(ranks.values()) == list(range(256 + 7))
    assert list(ranks)[:2] == [b"!", b'"'] and list(ranks)[256:] == [
        b"he", b"ll", b"hell", b"hello", b" w", b"##", "é".encode(),
    ]  # fmt: skip
    assert special_tokens == {"<|endoftext|>": 263}


def test_gpt2_is_read_as_tiktoken_reads_it():
    ranks, special_tokens = files.read_vocabulary(*files.find_gpt2())
    assert list(ranks.values()) == list(range(50256)) and special_tokens == {"<|endoftext|>": 50256}
    assert ranks[b" the"] == 262 and ranks[b" gazed"] == 50255 and ranks[b"\x00"] == 188


def test_gpt2_is_read_the_quick_way_as_any_other_vocabulary_is(tmp_path):
    encoder_json, vocab_bpe = files.find_gpt2()
    other = tmp_path / "vocab.bpe"  # the same but for a byte that means nothing
    other.write_bytes(vocab_bpe.read_bytes() + b"\n")
    quick, checked = files.read_vocabulary(encoder_json, vocab_bpe), files.read_vocabulary(encoder_json, other)
    assert quick == checked and list(quick[0]) == list(checked[0])


@pytest.mark.parametrize("case", [case for case in CASES if "expected_ids" in case], ids=lambda case: case["id"])
def test_no_merge_of_gpt2_is_lost(case):
    assert bpe.Encoding.from_files(*files.find_gpt2()).encode_ordinary(case["input"]) == case["expected_ids"]


def test_gpt2_s_merges_are_told_by_their_ranks():
    """The check that other vocabularies go through; GPT-2's is spared it by its hash."""
    encoder_json, vocab_bpe = files.find_gpt2()
    merges = vocab_bpe.read_text(encoding="utf-8").split("\n")[1:-1]
    assert not list(files.merges_not_told_by_rank(merges, json.loads(encoder_json.read_bytes())))


@pytest.mark.parametrize("special", [["<s>", "</s>", "[MASK]"], []])
def test_other_sizes_and_other_specials_are_read(pair, special):
    merges = MERGES[:2]
    ids = encoder(merges, special=["<|im_end|>"], first=special)
    ranks, special_tokens = files.read_vocabulary(*pair(ids, "\n".join(["#version: 0.2 - by somebody", *merges, ""])))
    assert special_tokens == {token: ids[token] for token in [*special, "<|im_end|>"]}
    assert ranks == {alphabet.to_bytes(t): id for t, id in ids.items() if t not in special_tokens}
    assert list(ranks.values()) == sorted(ranks.values())


def test_ids_of_bytes_may_have_any_order(pair):
    tokens = [*BYTES, "he"]
    random.Random(0).shuffle(tokens)
    ids = {token: id for id, token in enumerate(tokens)}
    assert files.read_vocabulary(*pair(ids, "h e\n"))[0] == {alphabet.to_bytes(t): id for t, id in ids.items()}


def test_a_vocabulary_without_merges_is_the_bytes(pair):
    assert len(files.read_vocabulary(*pair(encoder([]), "#version: 0.2\n"))[0]) == 256


# -- what is damaged, and does not matter


@pytest.mark.parametrize(
    "harmless",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: text + "\n\n",
        lambda text: text.rstrip("\n"),
        lambda text: text.partition("\n")[2],
    ],
    ids=["CRLF", "byte order mark", "empty lines at the end", "no newline at the end", "no version"],
)
def test_harmless_changes_to_the_merges_change_nothing(pair, harmless):
    paths = pair()
    expected = files.read_vocabulary(*paths)
    paths[1].write_bytes(harmless(paths[1].read_bytes().decode()).encode())
    assert files.read_vocabulary(*paths) == expected


def test_a_byte_order_mark_and_line_ends_in_the_ids_change_nothing(pair):
    paths = pair()
    expected = files.read_vocabulary(*paths)
    ids = json.dumps(json.loads(paths[0].read_bytes()), indent=1, ensure_ascii=False).replace("\n", "\r\n")
    paths[0].write_bytes(("\ufeff" + ids).encode())
    assert files.read_vocabulary(*paths) == expected


def test_a_first_merge_without_a_version_before_it_is_kept(pair):
    encoder_json, vocab_bpe = pair(merges="# #\nh e\n", ids=encoder(["# #", "h e"]))
    assert files.read_vocabulary(encoder_json, vocab_bpe)[0][b"##"] == 256


def test_the_locale_does_not_matter():
    """Python's default encoding is the system's where UTF-8 mode is off; that cannot read these files."""
    code = "from bpe import files; files.read_vocabulary(*files.find_gpt2())"
    environment = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    environment["PYTHONPATH"] = str(Path(bpe.__file__).parent.parent)
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-c", code]
    subprocess.run(command, env=environment, check=True)


# -- what is refused


def test_gpt2_with_a_merge_twice_is_refused(tmp_path):
    encoder_json, vocab_bpe = files.find_gpt2()
    lines = vocab_bpe.read_bytes().split(b"\n")
    (tmp_path / "vocab.bpe").write_bytes(b"\n".join(lines[:100] + lines[99:]))
    refused((encoder_json, tmp_path / "vocab.bpe"), "vocab.bpe, line 101", "a second time")


def test_the_first_thousand_bytes_of_gpt2_s_ids_are_refused(tmp_path):
    encoder_json, vocab_bpe = files.find_gpt2()
    (tmp_path / "encoder.json").write_bytes(encoder_json.read_bytes()[:1000])
    refused((tmp_path / "encoder.json", vocab_bpe), "encoder.json, line 1", "column")


@pytest.mark.parametrize("part", [0.5, 0.999, "a line less"])
def test_a_part_of_gpt2_s_merges_is_refused(tmp_path, part):
    encoder_json, vocab_bpe = files.find_gpt2()
    data = vocab_bpe.read_bytes()
    kept = data[: data.rindex(b"\n", 0, -1) + 1] if isinstance(part, str) else data[: int(len(data) * part)]
    (tmp_path / "vocab.bpe").write_bytes(kept)
    refused((encoder_json, tmp_path / "vocab.bpe"), tmp_path / "vocab.bpe", "line")


@given(st.data())
def test_a_vocabulary_whose_merges_end_early_is_refused(tmp_path_factory, data):
    """Wherever they end: no prefix of the file is taken for the whole, except when only the last newline is missing."""
    folder = tmp_path_factory.mktemp("cut")
    merges = lines(MERGES).encode()
    cut = data.draw(st.integers(0, len(merges) - 2))
    (folder / "encoder.json").write_text(json.dumps(encoder(MERGES)), encoding="utf-8")
    (folder / "vocab.bpe").write_bytes(merges[:cut])
    refused((folder / "encoder.json", folder / "vocab.bpe"), "vocab.bpe", "line")


@pytest.mark.parametrize(
    "merges, words",
    [
        ("", ["line 1", "empty (0 bytes)"]),
        ("\n\n", ["line 1", "empty"]),
        ("#version: 0.2\nh e\nhell\n", ["line 3", "'hell' should be two tokens with one space"]),
        ("#version: 0.2\nh  e\n", ["line 2", "'h  e' should be two tokens with one space"]),
        ("#version: 0.2\nh e \n", ["line 2", "'h e ' should be two tokens"]),
        ("#version: 0.2\nh e\n\nl l\n", ["line 3", "'' should be two tokens"]),
        ("#version: 0.2\nhe ll\nh e\n", ["line 2", "'he' in 'he ll'", "missing or swapped"]),
        ("#version: 0.2\nl l\nh e\n", ["line 3", "makes id 256 after id 257"]),
        ("#version: 0.2\nh e\nh e\n", ["line 3", "'h e' makes 'he' a second time"]),
        ("#version: 0.2\nh e\nx y\n", ["line 3", "'xy'", "no id"]),
        ("#version: 0.2\nh e\nl\tl\n", ["line 3", "should be two tokens"]),
        ("#version: 0.2\nh e\nl\t l\n", ["line 3", "'\\t'", "not in the byte alphabet"]),
        (b"#version: 0.2\nh e\nl \xe9\n", ["line 3", "not UTF-8 (byte 20 is 0xe9)"]),
        ("#version: 0.2\nh e\n", ["encoder.json, line 1", "no merge makes 'll' (id 257)", "cut short"]),
    ],
)
def test_merges_are_refused_with_line_and_reason(pair, merges, words):
    refused(pair(merges=merges), *words)


GOOD = encoder(MERGES)


def changed(**changes):
    return json.dumps({**GOOD, **changes})


@pytest.mark.parametrize(
    "ids, words",
    [
        ("", ["line 1", "empty"]),
        ("[]", ["line 1", "begins with '[]'"]),
        ("null", ["line 1", "a JSON object"]),
        ("{}", ["line 1", "without a token"]),
        ('{"a": 0,\n"b" 1}', ["line 2", "column"]),
        ("{" + '"a": {' * 100_000, ["line 1"]),
        ('{"a": 1' + "0" * 5000 + "}", ["line 1"]),
        (json.dumps(GOOD).encode("utf-16"), ["line 1", "not UTF-8"]),
        (json.dumps(GOOD)[:-1] + ', "he": 256}', ["line 1", "token 'he' stands there twice"]),
        (json.dumps(GOOD, indent=0)[:-1] + ', "he": 264}', ["line 266", "token 'he' stands there twice"]),
        (changed(he="256"), ["id '256' of 'he'", "integers 0 to 263"]),
        (changed(he=[[1] * 999]), ["id [...] of 'he'", "integers 0 to 263"]),
        ('{"he": ' + '{"a": ' * 700 + "1" + "}" * 701, ["id [...] of 'he'", "integers 0 to 0"]),
        (changed(he="x" * 999), ["line 1: id '" + "x" * 59 + " of 'he'"]),
        (changed(he=256.0), ["id 256.0 of 'he'"]),
        (changed(he=True), ["id True of 'he'"]),
        (changed(he=-1), ["id -1 of 'he'"]),
        (changed(he=None), ["id None of 'he'"]),
        (changed(he=1000), ["id 1000 of 'he'"]),
        (changed(he=257), ["id 257 of 'll' is that of 'he' as well"]),
        (changed(new=264), ["no merge makes 'new' (id 264)", "<special>"]),
        (json.dumps({**GOOD, "new": 264}, indent=0), ["line 266", "no merge makes 'new'"]),
        (
            json.dumps({t: id - (id > 33) for t, id in GOOD.items() if t != "B"}),
            ["line 1", "no id for the byte 0x42, written 'B'"],
        ),
    ],
)
def test_ids_are_refused_with_line_and_reason(pair, ids, words):
    refused(pair(ids), "encoder.json", *words)


def test_ids_in_another_order_than_the_merges_are_refused(pair):
    refused(pair({**GOOD, "he": 257, "ll": 256}), "vocab.bpe, line 3", "makes id 256 after id 257")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("nowhere.json")):
        files.read_vocabulary(tmp_path / "nowhere.json", tmp_path / "vocab.bpe")


# -- ranks must tell the merges


def encode_by_pair(text, merges):
    """The tokens by the lines of the file: the earliest line that joins two neighbours goes first."""
    order = {tuple(merge.split(" ")): index for index, merge in enumerate(merges)}
    tokens = list(text)
    while True:
        found = [(order[pair], i) for i, pair in enumerate(zip(tokens, tokens[1:])) if pair in order]
        if not found:
            return tokens
        _, i = min(found)
        tokens[i : i + 2] = [tokens[i] + tokens[i + 1]]


def encode_by_rank(text, merges):
    """The tokens by ids: of the unions of two neighbours, the one with the lowest id goes first."""
    tokens = [merge.replace(" ", "") for merge in merges]
    return encode_by_pair(text, [f"{token[:i]} {token[i:]}" for token in tokens for i in range(1, len(token))])


@st.composite
def merge_lists(draw):
    tokens = ["a", "b"]
    merges = []
    for _ in range(draw(st.integers(1, 7))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if left + right not in tokens and len(left + right) <= 6:
            tokens.append(left + right)
            merges.append(f"{left} {right}")
    return merges


@given(merge_lists())
def test_merges_pass_exactly_if_ranks_alone_give_the_same_tokens(merges):
    ids = {merge.replace(" ", ""): 256 + index for index, merge in enumerate(merges)}
    texts = ["".join(letters) for length in range(2, 7) for letters in itertools.product("ab", repeat=length)]
    same = all(encode_by_pair(text, merges) == encode_by_rank(text, merges) for text in texts)
    assert same == (not list(files.merges_not_told_by_rank(merges, ids)))


def test_merges_that_ranks_do_not_tell_are_refused(pair):
    merges = ["b c", "a b", "ab c"]
    refused(pair(encoder(merges), "\n".join(merges)), "vocab.bpe, line 3", "'ab c'", "ids alone")
