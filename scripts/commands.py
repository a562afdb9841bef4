"""What scripts do alike: how they fail and end, which paths they take, the cores and the memory they use."""
import argparse
import contextlib
import errno
import gc
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path


class Failed(Exception):
    """A script cannot go on. The message says why, in a line, and what a person can do about it."""


def run(main: Callable[[], int]) -> None:
    """Run a script and leave with its exit status; Ctrl-C is a line on stderr and status 130.

    Who reads the output and has enough, as `head`, ends it without a word: `main` lets BrokenPipeError pass.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else who began this has Ctrl-C ignored
        signal.signal(signal.SIGINT, _interrupter())
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


def _interrupter() -> Callable[..., None]:
    """What is done at Ctrl-C: KeyboardInterrupt, but not twice within a second: that would tear what the first ends."""
    heard = -math.inf

    def interrupt(*_: object) -> None:
        nonlocal heard
        now = time.monotonic()
        if now - heard > 1:
            heard = now
            raise KeyboardInterrupt

    return interrupt


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


def keep_memory() -> None:
    """Let the C library, where it is glibc, keep what arrays give back: the process then stays as large as it ever was.

    Else large arrays are returned to the system and got anew, which is a page fault for every 4 KB: in encoding a
    twentieth of the time. Source of the numbers: malloc.h, mallopt(3).
    """
    with contextlib.suppress(ImportError, AttributeError, OSError, TypeError):  # no ctypes, or another C library
        import ctypes

        c = ctypes.CDLL(None)
        c.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD: bytes free at the end of the heap before they are returned
        c.mallopt(-2, 1 << 26)  # M_TOP_PAD: bytes more than needed that are got at once
        c.mallopt(-3, 1 << 25)  # M_MMAP_THRESHOLD: bytes of an array that is not in the heap; 32 MB is the most
