"""What all scripts do alike: an interrupt is a line and status 130, an empty path is wrong usage."""
import argparse
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import commands
import pytest

SCRIPTS = Path(commands.__file__).parent
ALIKE = ["smoke_test", "practice", "plots", "playground", "bench", "download_gpt2_vocab"]


@pytest.fixture(autouse=True)
def ctrl_c():
    """A script that has ended does not hear Ctrl-C; the tests after it, and what they start, are to hear it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("script", ALIKE)
def test_an_interrupt_is_a_line_and_status_130(script, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", interrupted)
    monkeypatch.setattr(sys, "argv", [str(SCRIPTS / f"{script}.py")])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(sys.argv[0], run_name="__main__")
    assert done.value.code == 130 and capsys.readouterr() == ("", f"{script}.py: interrupted\n")


def test_ctrl_c_again_while_a_script_ends_is_not_heard():
    with pytest.raises(SystemExit):
        commands.run(lambda: 0)
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_again_does_not_tear_what_the_first_makes_end(capsys):
    def main():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            print("all is put away")

    with pytest.raises(SystemExit) as done:
        commands.run(main)
    assert done.value.code == 130
    assert capsys.readouterr() == ("all is put away\n", f"{Path(sys.argv[0]).name}: interrupted\n")


def test_ctrl_c_pressed_on_and_on_is_heard_again_after_a_second(monkeypatch):
    heard = []

    def main():
        for seconds in (0.0, 0.4, 0.8, 1.2, 1.6):
            monkeypatch.setattr(commands.time, "monotonic", lambda seconds=seconds: seconds)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                heard.append(seconds)
        return 0

    with pytest.raises(SystemExit):
        commands.run(main)
    assert heard == [0.0, 1.2]


def test_who_began_a_script_may_have_ctrl_c_ignored():
    def main():
        signal.raise_signal(signal.SIGINT)
        return 0

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(SystemExit) as done:
        commands.run(main)
    assert done.value.code == 0


def test_a_script_leaves_with_the_status_of_its_main():
    for status in (0, 1):
        with pytest.raises(SystemExit) as done:
            commands.run(lambda status=status: status)
        assert done.value.code == status


TALKING = ["practice.py hint 1", "smoke_test.py", "playground.py --text x", "bench.py --help"]


@pytest.mark.parametrize("words", TALKING)
def test_a_reader_who_has_enough_ends_a_script_without_a_word(words):
    reading, writing = os.pipe()
    os.close(reading)
    ended = start(words, writing)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no disk that is always full")
@pytest.mark.parametrize("words", TALKING[:3])
def test_output_that_cannot_be_written_is_a_failure(words):
    with open("/dev/full", "w") as full:
        ended = start(words, full)
    assert ended.returncode == 1 and "No space left on device" in ended.stderr and "Traceback" not in ended.stderr


def start(words, stdout):
    script, *arguments = words.split()
    command = [sys.executable, str(SCRIPTS / script), *arguments]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("words", [
    "plots.py --out", "plots.py onehot --out x --run", "playground.py --html", "playground.py --table", "practice.py start",
    "practice.py check", "download_gpt2_vocab.py --dest", "train_embeddings.py --out", "train_embeddings.py --out x --plots",
    "encode_corpus.py x --out",
])  # fmt: skip
def test_an_empty_path_is_wrong_usage_and_nothing_is_written(words, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    script, *arguments = words.split()
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(SCRIPTS / script))["main"]([*arguments, ""])
    assert done.value.code == 2 and os.listdir() == []
    assert capsys.readouterr().err.count("error: ") == 1
