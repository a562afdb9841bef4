"""Vocabularies learned from text: the right merges, in any order of the texts, saved and read again without loss."""
import pathlib
import re
import signal
import sys
import warnings
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bpe
from bpe import Encoding, files
from bpe.__main__ import main
from bpe.colours import visible
from bpe.counting import count_pieces, read
from bpe.split import blocks, repaired, split
from bpe.train import join, learn, learn_plainly

FEW_LETTERS = st.one_of(*(st.text(alphabet, min_size=1, max_size=40) for alphabet in ("a", "ab", "abc ", "a\0ÿ", "é你")))
TEXT = "Peter Piper picked a peck of pickled peppers; how many pickled peppers did Peter Piper pick? " * 2


def merges(encoding: Encoding) -> list[bytes]:
    return encoding.decode_tokens_bytes(range(256, encoding.n_vocab))


def trained(*arguments, **options) -> Encoding:
    """Without the warning, where fewer merges than wanted are what is looked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return bpe.train(*arguments, **options)


# -- which merges


def test_the_example_that_everyone_does_by_hand():
    assert merges(bpe.train("aaabdaaabac", 259)) == [b"aa", b"ab", b"aaab"]
    assert bpe.train("aaabdaaabac", 259).encode("aaabdaaabac") == [258, 67, 258, 64, 66]


@given(st.dictionaries(st.one_of(FEW_LETTERS.map(str.encode), st.binary(min_size=1, max_size=20)), st.integers(1, 5), max_size=8),
       st.integers(1, 4))
def test_the_quick_way_learns_what_recounting_every_pair_learns(pieces, min_frequency):
    expected = list(learn_plainly(pieces, min_frequency))
    assert list(learn(pieces, min_frequency)) == expected
    tokens = [left + right for left, right in expected]
    assert len(tokens) == len(set(tokens)), "a merge made a token that was there"


def test_the_quick_way_learns_what_recounting_every_pair_learns_from_english():
    pieces = count_pieces(pathlib.Path(bpe.__file__).parent / "train.py")
    assert list(islice(learn(pieces), 300)) == list(islice(learn_plainly(pieces), 300))


def test_of_pairs_that_are_equally_frequent_the_first_by_its_bytes_is_merged():
    assert merges(bpe.train(["yx", "xz", "yx", "xz", "xy", "xy"], 259)) == [b"xy", b"xz", b"yx"]
    # "!" has id 0 and "\n" 198, but 0x0A sorts before 0x21
    assert list(learn({b"!!": 2, b"\n\n": 2})) == [(b"\n", b"\n"), (b"!", b"!")]
    # by the left token first: b"a" is before b"aa", though b"ab" + ... of both are alike
    assert list(learn({b"aab": 2}))[0] == (b"a", b"a")


@given(st.lists(FEW_LETTERS, min_size=1, max_size=6), st.randoms())
def test_the_order_of_the_texts_makes_no_difference(texts, random):
    shuffled = random.sample(texts, len(texts))
    assert merges(trained(texts, 300)) == merges(trained(shuffled, 300))


def test_the_encoder_uses_the_merges_as_they_were_learned():
    encoding = bpe.train(TEXT, 280)
    assert encoding.decode(encoding.encode(TEXT)) == TEXT
    assert encoding.count(TEXT) < len(TEXT) / 2


def test_pairs_that_are_too_rare_are_not_merged():
    text = "one one one two two six"
    assert merges(trained(text, 400, min_frequency=4)) == []
    assert b"ne" in merges(trained(text, 400, min_frequency=3))
    assert b" six" not in merges(trained(text, 400, min_frequency=2))
    assert b" six" in merges(trained(text, 400, min_frequency=1))


# -- what is counted


@pytest.mark.parametrize("long", [1, 1 << 12])
@given(texts=st.lists(st.text("ab 'st1\n\ud83d\udc4d é你", max_size=30), max_size=5))
def test_pieces_are_counted_as_the_encoder_cuts_them(long, texts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpe.counting.LONG_TEXT", long)
        found = count_pieces(texts)
    assert found == Counter(piece.encode() for text in texts for piece in split(repaired(text)))


def test_more_pieces_than_there_was_room_for_are_still_told_apart(monkeypatch):
    monkeypatch.setattr("bpe.counting.CAPACITY", 10)
    monkeypatch.setattr("bpe.counting.LONG_TEXT", 1)
    texts = [" ".join(map(str, range(begin, begin + 500))) for begin in range(0, 3000, 250)]
    assert count_pieces(texts) == Counter(piece.encode() for text in texts for piece in split(text))


@given(text=st.text("ab <>s\né你1'", max_size=60), specials=st.sets(st.sampled_from(["<s>", "<", "s>a", "<s><s>", "é"])), size=st.integers(1, 8))
def test_a_file_has_the_pieces_of_its_text_however_it_is_read(tmp_path_factory, text, specials, size):
    path = tmp_path_factory.mktemp("read") / "text"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bpe.counting.READ", size)
        patch.setattr("bpe.counting.blocks", lambda part: blocks(part, size))
        assert "".join(read(path, specials)) == text
        assert count_pieces(path, special_tokens=specials) == count_pieces(text, special_tokens=specials)


def test_a_large_file_is_never_held_whole(tmp_path):
    path = tmp_path / "large.txt"
    path.write_text("a few words, again and again\n" * 200_000, encoding="utf-8")
    assert max(map(len, read(path))) < 2 << 20
    assert count_pieces(path)[b" words"] == 200_000


def test_texts_may_be_strings_files_or_any_iterable_of_both(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT, encoding="utf-8")
    expected = merges(bpe.train(TEXT, 270))
    assert merges(bpe.train(path, 270)) == expected
    assert merges(bpe.train([path], 270)) == expected
    assert merges(bpe.train((text for text in [TEXT]), 270)) == expected
    assert merges(bpe.train([TEXT, path], 270, min_frequency=4)) == expected


def test_nothing_is_merged_across_a_special_token():
    encoding = trained("ab<end>ab" * 10, 400, special_tokens=["<end>"])
    assert merges(encoding) == [b"ab", b"abab", b"<end>"]
    assert encoding.encode("ab<end>", allowed_special="all") == [256, encoding.n_vocab - 1]


def test_another_pattern_cuts_other_pieces():
    by_word = trained("snake_case snake_case", 400, pattern=r"[a-z]+|_|\s")
    assert b"snake" in merges(by_word) and b"snake_" not in merges(by_word)
    whole = trained("the cat the cat the cat", 400, pattern=r"(?s).+")
    assert any(b"e c" in token for token in merges(whole))
    assert merges(trained("ab ab", 400, pattern=r"(?=a)|b|z*")) == []


# -- when it stops


def test_it_stops_when_nothing_is_left_and_says_how_far_it_got():
    with pytest.warns(UserWarning, match=r"learned 3 of 743 merges: no pair of tokens occurs 2 times any more") as record:
        encoding = bpe.train("aaabdaaabac", 1000, special_tokens=["<end>"])
    assert encoding.n_vocab == 260
    assert record[0].filename == __file__


def test_only_bytes_may_be_asked_for():
    encoding = bpe.train("some text", 257, special_tokens=["<end>"])
    assert encoding.n_vocab == 257 and encoding.encode("!") == [0]


def test_ctrl_c_keeps_the_merges_learned_so_far_if_asked():
    def interrupt(done, total):
        if total and done == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bpe.train(TEXT, 280, progress=interrupt)
    with pytest.warns(UserWarning, match="learned 5 of 24 merges: interrupted"):
        encoding = bpe.train(TEXT, 280, progress=interrupt, keep_on_interrupt=True)
    assert merges(encoding) == merges(bpe.train(TEXT, 261))


def test_progress_is_told_what_was_read_and_learned():
    calls = []
    bpe.train([TEXT, TEXT], 260, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(len(TEXT), None), (2 * len(TEXT), None), (1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_bar_is_quiet_where_there_is_no_terminal(capfd):
    pytest.importorskip("tqdm")
    assert merges(bpe.train(TEXT, 270, progress=True)) == merges(bpe.train(TEXT, 270))
    assert capfd.readouterr() == ("", "")


def test_a_bar_without_tqdm_names_the_extra_before_any_work(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[progress\]'"):
        bpe.train(iter(()), 270, progress=True)


# -- what is refused


@pytest.mark.parametrize(("arguments", "options", "error", "message"), [
    (("text", 255), {}, ValueError, "vocab_size is 255: it must be at least 256, 256 bytes and 0 special tokens"),
    (("text", 257), {"special_tokens": ["<a>", "<b>"]}, ValueError, "vocab_size is 257: it must be at least 258, 256 bytes and 2 special"),
    (("text", 300.0), {}, TypeError, "vocab_size must be an integer, got float: 300.0"),
    (("text", True), {}, TypeError, "vocab_size must be an integer, got bool"),
    (("text", 2**32 + 1), {}, ValueError, "vocab_size is 4294967297: it can be at most 4294967296, for ids have 32 bits"),
    (("text", 10**20), {}, ValueError, "vocab_size is 100000000000000000000: it can be at most 4294967296"),
    (("text", np.array([300])), {}, TypeError, "vocab_size must be an integer, got ndarray"),
    (("text", 300), {"min_frequency": 0}, ValueError, "min_frequency is 0: it must be at least 1"),
    (("", 300), {}, ValueError, "nothing to learn from: the texts have 0 characters"),
    (([], 300), {}, ValueError, "nothing to learn from"),
    (("<a>", 300), {"special_tokens": ["<a>"]}, ValueError, "nothing to learn from: the texts have 3 characters and no piece"),
    ((b"text", 300), {}, TypeError, "texts must be a str, a path or several of them, got bytes: b'text'"),
    ((7, 300), {}, TypeError, "got int: 7"),
    ((["text", 7], 300), {}, TypeError, "text 1 must be a str or a path, got int: 7"),
    (("text", 300), {"special_tokens": ["<a>", "<b>", "<a>"]}, ValueError, "special token 2 is '<a>': there twice"),
    (("text", 300), {"special_tokens": [""]}, ValueError, "special token 0 is '': empty"),
    (("text", 300), {"special_tokens": "<a>"}, TypeError, "special_tokens is a list of texts, got the text '<a>'"),
    (("text", 300), {"special_tokens": None}, TypeError, "special_tokens is a list of texts, got the NoneType None"),
    (("text", 300), {"special_tokens": [7]}, TypeError, "a special token is a str, got int: 7"),
    (("text", 300), {"special_tokens": ["<\ud800>"]}, ValueError, "has a surrogate"),
    (("text", 300), {"pattern": b"a"}, TypeError, "the pattern must be a str, got bytes: b'a'"),
    (("text", 300), {"pattern": "("}, ValueError, r"the pattern '\(' cannot be used"),
])  # fmt: skip
def test_bad_input_is_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        bpe.train(*arguments, **options)


def test_a_file_that_is_not_utf_8_is_named_with_the_place(tmp_path, monkeypatch):
    monkeypatch.setattr("bpe.counting.READ", 7)
    path = tmp_path / "latin-1.txt"
    path.write_bytes("é".encode() * 10 + b"caf\xe9 au lait")
    with pytest.raises(ValueError, match=r"latin-1.txt: byte 23 \(0xe9\) is not UTF-8"):
        bpe.train(path, 300)
    path.write_bytes("abc é".encode()[:-1])
    with pytest.raises(ValueError, match=r"latin-1.txt: byte 4 \(0xc3\) is not UTF-8 \(unexpected end of data\)"):
        bpe.train(path, 300)
    with pytest.raises(FileNotFoundError, match="absent.txt"):
        bpe.train(tmp_path / "absent.txt", 300)


def test_surrogates_are_what_the_encoder_takes_them_for():
    for pattern in (None, r"\S+|\s+"):
        assert merges(trained("x\ud83d\udc4d \ud83d" * 3, 300, pattern=pattern)) == merges(trained("x👍 \ufffd" * 3, 300, pattern=pattern))


# -- saved and read again


@given(st.lists(FEW_LETTERS, min_size=1, max_size=6), st.integers(1, 3), st.lists(st.sampled_from(["<a>", "[B]", "<|endoftext|>"]), unique=True))
def test_what_was_learned_is_saved_and_read_again_the_same(tmp_path_factory, texts, min_frequency, specials):
    encoding = trained(texts, 290, min_frequency=min_frequency, special_tokens=specials)
    again = Encoding.from_files(*encoding.save(tmp_path_factory.mktemp("saved")))
    for text in [*texts, "".join(texts), "<a> [B]"]:
        assert again.encode(text, allowed_special="all") == encoding.encode(text, allowed_special="all")
    assert again.token_byte_values() == encoding.token_byte_values() and again.n_vocab == encoding.n_vocab


def test_a_vocabulary_that_cannot_be_saved_whole_is_not_saved_in_part(tmp_path):
    (tmp_path / "vocab.bpe").mkdir()
    with pytest.raises(IsADirectoryError, match="vocab.bpe"):
        bpe.get_encoding("gpt2").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.bpe"]
    with pytest.raises(ValueError, match="the name of the folder is empty"):
        bpe.get_encoding("gpt2").save("")


def test_gpt2_is_saved_as_its_own_two_files_to_the_byte(tmp_path):
    for path, name in zip(bpe.get_encoding("gpt2").save(tmp_path / "new" / "folder"), ("encoder.json", "vocab.bpe")):
        assert path.name == name
        files.verify(path, name)


def test_saving_replaces_files_and_leaves_no_other(tmp_path):
    bpe.train(TEXT, 270).save(tmp_path)
    encoding = bpe.train(TEXT, 280)
    encoding.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encoder.json", "vocab.bpe"]
    assert Encoding.from_files(tmp_path / "encoder.json", tmp_path / "vocab.bpe").n_vocab == 280


BYTES = {bytes([byte]): byte for byte in range(256)}


@pytest.mark.parametrize(("ranks", "special_tokens", "message"), [
    ({token: id for token, id in BYTES.items() if id != 255}, {}, "no token for the byte 0xff"),
    (BYTES, {"end": 256}, "'end' has none"),
    (BYTES | {b"ab": 257}, {}, "no token has the id 256"),
    (BYTES | {b"abc": 256}, {}, r"the token b'abc' \(id 256\) is no merge"),
    (BYTES | {b"<a": 256, b"<a>": 257}, {"<a>": 258}, "'<a>' and id 257 are written alike"),
])
def test_a_vocabulary_that_the_files_cannot_hold_is_refused(tmp_path, ranks, special_tokens, message):
    encoding = Encoding("odd", pat_str=r".", mergeable_ranks=ranks, special_tokens=special_tokens)
    with pytest.raises(ValueError, match=message):
        encoding.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_a_folder_that_cannot_be_written_keeps_what_is_there(tmp_path, monkeypatch):
    bpe.train(TEXT, 270).save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr("os.fsync", lambda descriptor: (_ for _ in ()).throw(OSError("no space left")))
    with pytest.raises(OSError, match="no space left"):
        bpe.train(TEXT, 280).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_counts_beyond_32_bits_are_not_wrapped():
    huge = {b"ab": 1 << 40, b"cd": (1 << 40) + 1}
    assert list(learn(huge)) == list(learn_plainly(huge)) == [(b"c", b"d"), (b"a", b"b")]


# -- followed by a person, and on the command line


def test_a_trace_shows_the_merges_that_are_learned():
    lines = bpe.trace(TEXT, 8).splitlines()
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(256, 264))
    for token, line in zip(merges(bpe.train(TEXT, 264)), lines[1:]):
        assert visible(token) in line.replace("|", " ").split()
    assert all("".join(line.split("  ")[-1].replace("|", " ").split()) == visible(TEXT) for line in lines)


@given(st.lists(st.sampled_from(["aab", " aab", " ab", "a", " b", "ba", "\n"]), max_size=20).map("".join), st.sampled_from([1, 2, 5]))
def test_a_trace_is_each_merge_made_in_every_piece(text, min_frequency):
    pieces = [piece.encode() for piece in split(text)]
    words, after = [[bytes([byte]) for byte in piece] for piece in pieces], []
    for left, right in learn_plainly(Counter(pieces), min_frequency):
        count = sum(tokens[i : i + 2] == [left, right] for tokens in words for i in range(len(tokens)))
        for tokens in words:
            join(tokens, left, right)
        after.append(f"{count} times  " + "|".join(" ".join(map(visible, tokens)) for tokens in words))
    lines = bpe.trace(text, min_frequency=min_frequency).splitlines()[1:-1]
    assert len(lines) == len(after) and all(line.endswith(" " + end) for line, end in zip(lines, after))


@pytest.mark.parametrize(("text", "options", "error", "message"), [
    ("aaab", {"merges": -1}, ValueError, "merges is -1: it must be at least 0"),
    ("aaab", {"merges": 1.5}, TypeError, "merges must be an integer, got float: 1.5"),
    ("aaab", {"merges": True}, TypeError, "merges must be an integer, got bool: True"),
    ("aaab", {"min_frequency": 0}, ValueError, "min_frequency is 0: it must be at least 1"),
    (b"aaab", {}, TypeError, "text must be a str, got bytes: b'aaab'"),
])  # fmt: skip
def test_what_a_trace_cannot_be_of_is_named(text, options, error, message):
    with pytest.raises(error, match=message):
        bpe.trace(text, **options)


def test_a_trace_may_be_asked_for_no_merge_and_for_more_than_there_are():
    assert bpe.trace("aaabdaaabac", 0) == "      a a a b d a a a b a c"
    assert bpe.trace("aaabdaaabac", 3) + "\n     no pair occurs 2 times any more" == bpe.trace("aaabdaaabac", 10**20)


def test_a_trace_in_colour_says_the_same():
    plain = re.sub("\x1b\\[[0-9;]*m", "", bpe.trace("aaabdaaabac", colour=True))
    assert [line.split()[-1] for line in plain.splitlines()[:4]] == ["aaabdaaabac"] * 4
    assert bpe.trace("ab\x1b[2J").count("\x1b") == 0


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_command_writes_two_files_that_can_be_read(run, tmp_path):
    path, out = tmp_path / "text.txt", tmp_path / "out"
    path.write_text(TEXT, encoding="utf-8")
    command = ["train", path, path, "--out", out, "--special", "<|endoftext|>"]
    code, said, err = run(*command, "--vocab-size", 270)
    assert (code, err) == (0, "") and said.startswith("270 tokens: ")
    encoding = Encoding.from_files(out / "encoder.json", out / "vocab.bpe")
    assert encoding.eot_token == 269 and merges(encoding) == merges(bpe.train([path, path], 270, special_tokens=["<|endoftext|>"]))

    assert run(*command, "--vocab-size", 280) == (1, "", f"bpe train: {out / 'encoder.json'} is already there: --overwrite replaces it\n")
    code, said, err = run(*command, "--vocab-size", 9000, "--overwrite")
    assert code == 0 and re.fullmatch(r"bpe train: learned \d+ of 8,743 merges: no pair of tokens occurs 2 times any more\n", err)


@pytest.mark.parametrize(("arguments", "message"), [
    (["absent.txt", "--vocab-size", "300"], "absent.txt"),
    (["text.txt", "--vocab-size", "200"], "vocab_size is 200: it must be at least 256"),
    (["text.txt", "--vocab-size", "300", "--special", "end"], "'end' has none"),
    (["empty.txt", "--vocab-size", "300"], "nothing to learn from"),
])
def test_the_command_says_in_one_line_what_is_wrong(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "empty.txt").touch()
    code, out, err = run("train", *arguments, "--out", "out")
    assert code == 1 and out == "" and err.count("\n") == 1 and err.startswith("bpe train: ") and message in err
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize(
    ("out", "reason"), [("", "the path is empty"), ("text.txt", "text.txt is a file, where a folder is asked for")]
)
def test_the_command_takes_no_empty_path_and_no_file_for_its_folder(out, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    with pytest.raises(SystemExit) as done:
        main(["train", "text.txt", "--vocab-size", "300", "--out", out])
    assert done.value.code == 2 and f"argument --out: {reason}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_the_command_keeps_what_was_learned_before_ctrl_c_if_asked(run, tmp_path, monkeypatch):
    def interrupted(pieces, min_frequency):
        yield from islice(learn(pieces, min_frequency), 5)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(sys.modules["bpe.train"], "learn", interrupted)
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    command = ["train", path, "--vocab-size", 280, "--out", tmp_path / "out"]
    assert run(*command)[0] == 130 and not list(tmp_path.glob("out/*"))
    code, out, err = run(*command, "--keep")
    assert (code, err) == (0, "bpe train: learned 5 of 24 merges: interrupted\n") and out.startswith("261 tokens")


def test_the_command_traces(run):
    assert run("trace", "aaabdaaabac", "--color", "never") == (0, bpe.trace("aaabdaaabac") + "\n", "")
    assert run("trace", "aaabdaaabac", "--color", "always", "--merges", 2)[1] == bpe.trace("aaabdaaabac", 2, colour=True) + "\n"


def test_a_set_of_special_tokens_has_one_order():
    encodings = [bpe.train("aa aa", 259, special_tokens=special) for special in ({"<b>", "<a>"}, ["<a>", "<b>"])]
    assert encodings[0].encode("<a><b>", allowed_special="all") == encodings[1].encode("<a><b>", allowed_special="all")
