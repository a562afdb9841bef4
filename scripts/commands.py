"""What scripts do alike: how they fail and end, which paths they take, how many cores they find."""
import argparse
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path


class Failed(Exception):
    """A script cannot go on. The message says why, in a line, and what a person can do about it."""


def run(main: Callable[[], int]) -> None:
    """Run a script and leave with its exit status; Ctrl-C is a line on stderr and status 130.

    Who reads the output and has enough, as `head`, ends it without a word: `main` lets BrokenPipeError pass.
    """
    try:
        try:
            if sys.stdout is None:  # Python's word for a closed one, as after >&-
                raise OSError(errno.EBADF, "it is closed")
            status = main()
            sys.stdout.flush()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what is left is to end, and with the right status
    except KeyboardInterrupt:
        print(f"{Path(sys.argv[0]).name}: interrupted", file=sys.stderr)
        status = 130
    except OSError as error:  # of standard output: all others are for main to tell
        if sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the end of Python would try it again
        status = 0 if isinstance(error, BrokenPipeError) else 1
        if status:
            print(f"{Path(sys.argv[0]).name}: standard output: {error.strerror}", file=sys.stderr)
    gc.freeze()  # else the end of Python looks for cycles in all there is: 40 ms with a vocabulary
    sys.exit(status)


def path(text: str) -> Path:
    """argparse's type for a path. "" is refused: it would be the current folder, and is a variable that was not set."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def folder(text: str) -> Path:
    """argparse's type for a folder that is there, or is to be made."""
    if path(text).exists() and not path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file, where a folder is asked for")
    return path(text)


def cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
