"""Work shared among threads: NumPy gives up the interpreter's lock inside its loops, so they do run at once."""
from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np


def thread_count() -> int:
    """As many as the cores this process may use, or fewer if OMP_NUM_THREADS says so, as for torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(allowed)) if allowed.isdecimal() and int(allowed) else cores


def in_parts(work: Callable[[int, int], Any], size: int, at_least: int = 1) -> None:
    """work(start, stop) for consecutive parts that make up range(size), each in a thread of its own.

    Returns when all are done; the first error of a part is raised. A part that comes here again does its work alone.
    In every thread inf and nan come without a warning, as in the operations: else warnings would depend on the threads.

    A part has `at_least` items, so that little work stays in the calling thread. The result must not depend on where
    the parts end: let each item be computed alone, and written to its own place.

    >>> squares = [0] * 5
    >>> def square(start, stop):
    ...     for i in range(start, stop):
    ...         squares[i] = i * i
    >>> in_parts(square, 5)
    >>> squares
    [0, 1, 4, 9, 16]
    """
    parts = max(1, min(thread_count(), size // at_least))
    ends = [size * i // parts for i in range(parts + 1)]
    quietly = np.errstate(all="ignore")(work)
    if parts == 1 or getattr(_thread, "is_a_helper", False):
        quietly(0, size)
        return
    others = [_helpers().submit(quietly, start, stop) for start, stop in zip(ends[1:], ends[2:])]
    try:
        quietly(0, ends[1])
    finally:
        wait(others)
    for other in others:
        other.result()  # an error there is an error here


_thread = threading.local()


@functools.cache
def _helpers() -> ThreadPoolExecutor:
    """The other threads, kept: to start one takes as long as to add a few hundred rows."""
    return ThreadPoolExecutor(os.cpu_count(), "minigrad", lambda: setattr(_thread, "is_a_helper", True))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a forked process has none of its parent's threads
