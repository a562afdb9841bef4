"""The README tells the truth: its Python runs as a doctest (setup.cfg), its consoles print what they say."""
import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    re.match(r"\$ ([^\n]*)\n(.*)", part, re.DOTALL).groups()
    for language, block in BLOCKS if language == "console"
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE) if part
]


def test_the_first_block_is_the_two_commands():
    language, block = BLOCKS[0]
    run, check = block.splitlines()
    assert language == "sh"
    assert run.endswith('scripts/smoke_test.py "Hello world"') and check.endswith("-m pytest -q")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """What /tmp stands for in the README: a command reads there what the one before it wrote."""
    return tmp_path_factory.mktemp("tmp").as_posix()


@pytest.mark.parametrize(("command", "expected"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_a_console_prints_what_the_readme_says(command, expected, scratch):
    command, expected = (text.replace("/tmp", scratch) for text in (command, expected))
    program, *arguments = shlex.split(command)
    assert program == "python"
    result = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, encoding="utf-8",
                            env=os.environ | {"PYTHONUTF8": "1"}, timeout=300)
    assert result.returncode == 0, result.stderr
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, result.stdout, options), result.stdout


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#:]+)\)", README))))
def test_what_the_readme_links_to_is_there(path):
    assert (ROOT / path).exists()
