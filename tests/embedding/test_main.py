"""python -m embedding, where its output cannot be written."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedding.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", ["memory", "table"])
@pytest.mark.parametrize("redirected, told", [(">/dev/full", "No space left"), (">&-", "standard output is closed")])
def test_output_that_cannot_be_written_is_said_in_one_line(command, redirected, told):
    shell = f'"$0" -m embedding {command} {redirected}'
    result = subprocess.run(["sh", "-c", shell, sys.executable], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 1
    assert told in result.stderr and result.stderr.count("\n") == 1


def test_an_interrupt_is_a_line_and_status_130(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("embedding.__main__.print_table", interrupted)
    assert main(["table"]) == 130 and capsys.readouterr() == ("", "python -m embedding: interrupted\n")


@pytest.mark.parametrize("arguments", [
    ["table", "--rows", "9" * 23], ["table", "--rows", "1" + "0" * 15], ["table", "9" * 23], ["memory", "--batch", "9" * 400],
])  # fmt: skip
def test_numbers_that_are_far_too_large_are_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "python -m embedding: error: " in capsys.readouterr().err
