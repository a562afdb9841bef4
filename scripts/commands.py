"""What scripts do alike: how they fail and end, which paths they take, how many cores they find."""
import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path


class Failed(Exception):
    """A script cannot go on. The message says why, in a line, and what a person can do about it."""


def run(main: Callable[[], int]) -> None:
    """Run a script and leave with its exit status; Ctrl-C is a line on stderr and status 130."""
    try:
        try:
            status = main()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is to end, and with the right status
    except KeyboardInterrupt:
        print(f"{Path(sys.argv[0]).name}: interrupted", file=sys.stderr)
        status = 130
    sys.exit(status)


def path(text: str) -> Path:
    """argparse's type for a path. "" is refused: it would be the current folder, and is a variable that was not set."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
