"""python -m bpe: what it prints, in what it takes, and how it fails."""
import io
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

import bpe
from bpe.__main__ import main

TEXT = "It's naïve,\r\n\t你好 \U0001f600  x"


@pytest.fixture
def run(capsysbinary, monkeypatch):
    """`run(*arguments, stdin=b"")` runs the command in this process; the result has returncode, stdout and stderr."""

    def run(*arguments, stdin=b"", check=True, **environment):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        try:
            code = main(list(arguments))
        except SystemExit as error:
            code = error.code
        written = capsysbinary.readouterr()
        assert code == 0 or not check, written.err.decode()
        return SimpleNamespace(returncode=code, stdout=written.out, stderr=written.err)

    return run


def test_it_runs_as_a_module_and_keeps_every_byte():
    command = [sys.executable, "-m", "bpe"]
    data = bytes(range(256)) + TEXT.encode()
    ids = subprocess.run([*command, "encode"], input=data, capture_output=True, check=True).stdout
    assert subprocess.run([*command, "decode"], input=ids, capture_output=True, check=True).stdout == data


def test_encode_prints_ids_on_one_line_from_arguments_or_standard_input(run):
    assert run("encode", "Hello", "world").stdout.split() == [b"15496", b"995"]
    assert run("encode", stdin=TEXT.encode()).stdout.decode() == " ".join(map(str, bpe.encode(TEXT))) + "\n"


@pytest.mark.parametrize("data", [TEXT.encode(), b"\xff\x00 a\x80\r\n", b"", bytes(range(256))])
def test_encode_then_decode_gives_the_same_bytes(run, data):
    ids = run("encode", stdin=data).stdout
    assert run("decode", stdin=ids).stdout == data


def test_decode_takes_ids_as_they_are_written_anywhere(run):
    assert run("decode", "15496", "995").stdout == b"Hello world"
    assert run("decode", stdin=b"[15496, 995]\n").stdout == b"Hello world"


def test_count(run):
    assert run("count", "Hello world").stdout.split() == [b"2"]


def test_show_makes_spaces_visible_and_honours_no_color(run):
    plain = run("show", "a  b\n").stdout.decode()
    assert "\x1b" not in plain
    assert " " not in plain.splitlines()[0]
    assert plain.splitlines()[1].split() == list(map(str, bpe.encode("a  b\n")))
    assert "\x1b[" in run("show", "--color", "always", "a b").stdout.decode()
    assert "\x1b[" in run("show", "a b", FORCE_COLOR="1").stdout.decode()
    assert "\x1b" not in run("show", "a b", FORCE_COLOR="1", NO_COLOR="1").stdout.decode()


def test_explain_shows_the_merges_in_order(run):
    lines = run("explain", "token").stdout.decode().splitlines()
    assert lines[0].split() == ["'token'", "74", "6f", "6b", "65", "6e"]
    assert [line.split()[0] for line in lines[1:]] == ["268", "482", "4233", "30001", "ids"]


def test_special_tokens_are_refused_unless_said_otherwise(run):
    refused = run("encode", "<|endoftext|>", check=False)
    assert refused.returncode == 1
    assert b"endoftext" in refused.stderr
    assert b"--special token" in refused.stderr and b"allowed_special" not in refused.stderr
    assert run("explain", "<|endoftext|>", check=False).stderr.endswith(refused.stderr.split(b": ", 1)[1])
    assert run("encode", "<|endoftext|>", "--special", "token").stdout.split() == [b"50256"]
    assert len(run("encode", "<|endoftext|>", "--special", "text").stdout.split()) == 7


@pytest.mark.parametrize("before, after", [(b"a", b"\xff"), (b"\xff", b"a"), (b"\xe2\x82", b"\x82"), (b"a \xf0\x9f", b"")])
def test_special_tokens_are_found_beside_bytes_that_are_not_utf8(run, before, after):
    data = before + b"<|endoftext|>" + after
    refused = run("encode", stdin=data, check=False)
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert f"'<|endoftext|>' at index {len(before)}".encode() in refused.stderr
    gpt2 = bpe.get_encoding("gpt2")
    ids = [*gpt2.encode_bytes(before), 50256, *gpt2.encode_bytes(after)]
    assert run("encode", "--special", "token", stdin=data).stdout.split() == [b"%d" % id for id in ids]
    assert run("count", "--special", "token", stdin=data).stdout.split() == [b"%d" % len(ids)]
    text = run("encode", "--special", "text", stdin=data).stdout
    assert b"50256" not in text and run("decode", stdin=text).stdout == data


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["decode", "50257"], 1, "50257"),
        (["decode", "99999999999"], 1, "99999999999"),
        (["decode", "12", "x3"], 1, "x3"),
        (["decode", "--", "-3"], 1, "-3"),
        (["encode", "a", "--vocabulary", "nowhere.json", "nowhere.bpe"], 1, "nowhere.json"),
        (["encode", "--special", "maybe", "a"], 2, "maybe"),
        (["trace", "--merges", "-1", "aaab"], 1, "merges is -1: it must be at least 0"),
        (["sing"], 2, "sing"),
        ([], 2, "COMMAND"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(run, arguments, code, message):
    process = run(*arguments, check=False)
    assert process.returncode == code
    assert message in process.stderr.decode()
    assert "Traceback" not in process.stderr.decode()
    if code == 1:
        assert len(process.stderr.decode().strip().splitlines()) == 1


@pytest.mark.parametrize("size, text, told", [
    ("100", "hello", "must be at least 256"),
    ("9" * 30, "hello", "it can be at most 4294967296"),
    ("300", "", "nothing to learn from"),
])  # fmt: skip
def test_training_that_is_refused_leaves_no_folder(run, tmp_path, size, text, told):
    (tmp_path / "text.txt").write_text(text)
    out = tmp_path / "new" / "out"
    refused = run("train", str(tmp_path / "text.txt"), "--vocab-size", size, "--out", str(out), check=False)
    assert refused.returncode == 1 and told in refused.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
    out.mkdir(parents=True)
    run("train", str(tmp_path / "text.txt"), "--vocab-size", size, "--out", str(out), check=False)
    assert out.exists()


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("command, closed", [
    *((command, "<&-") for command in ("encode", "decode", "count", "show", "explain", "trace")),
    *((f"{command} 1", ">&-") for command in ("encode", "decode", "count", "show", "explain", "trace")),
])  # fmt: skip
def test_a_closed_input_or_output_is_said_in_one_line(command, closed):
    shell = f'"$0" -m bpe {command} {closed}'
    result = subprocess.run(["sh", "-c", shell, sys.executable], capture_output=True, text=True)
    assert result.returncode == 1
    assert f"standard {'input' if '<' in closed else 'output'} is closed" in result.stderr
    assert result.stderr.count("\n") == 1


def test_help_has_examples_that_any_terminal_can_print(run):
    assert run("--help").stdout.isascii()
    assert b"python -m bpe encode" in run("--help").stdout


def test_an_interrupt_is_a_line_and_status_130(run, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bpe.__main__._input", interrupted)
    stopped = run("encode", check=False)
    assert (stopped.returncode, stopped.stdout, stopped.stderr) == (130, b"", b"bpe encode: interrupted\n")
