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


@pytest.mark.parametrize("arguments, told", [
    (["table", "--rows", "9" * 23], f"--rows is {'9' * 23}: it can be at most 1,099,511,627,776"),
    (["table", "--rows", "1" + "0" * 12, "--width", "1000"], "(1000000000000, 1000)"),  # more than can be addressed
    (["table", "9" * 23], f"{'9' * 23} at position 0; valid are 0 to 5"),
    (["memory", "--batch", "9" * 400], f"--batch is {'9' * 40}: it can be at most"),
])
def test_numbers_that_are_far_too_large_are_wrong_usage_and_named(arguments, told, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    said = capsys.readouterr().err
    assert "python -m embedding: error: " in said and told in said
