"""Work shared among threads: NumPy gives up the interpreter's lock inside its loops, so they do run at once."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np


def thread_count() -> int:
    """As many as the cores this process may use, or fewer if OMP_NUM_THREADS says so, as for torch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(allowed)) if allowed.isdecimal() and int(allowed) else cores


TURNS = 4  # parts for each thread, mostly: one whose core is busy with something else takes fewer


def in_parts(work: Callable[[int, int], Any], size: int, at_least: int = 1, turns: int = TURNS) -> None:
    """work(start, stop) for consecutive parts that make up range(size), by threads that take one after the other.

    Returns when all are done; the first error of a thread is raised. A helper thread that itself calls in_parts does
    all of that work alone, so that helpers never wait for each other. In every thread inf and nan come without a
    warning, as in the operations: else warnings would depend on the threads.

    A part has `at_least` items, so that little work stays in the calling thread, and there are up to `turns` parts for
    each thread. The result must not depend on where the parts end: let each item be computed alone, and written to its
    own place.

    >>> squares = [0] * 5
    >>> def square(start, stop):
    ...     for i in range(start, stop):
    ...         squares[i] = i * i
    >>> in_parts(square, 5)
    >>> squares
    [0, 1, 4, 9, 16]
    """
    enough = size // at_least
    threads = 1 if getattr(_thread, "is_a_helper", False) else max(1, min(thread_count(), enough))

    def quietly(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            work(start, stop)

    if threads == 1:
        quietly(0, size)
        return
    parts = threads * min(turns, enough // threads)
    ends = [size * i // parts for i in range(parts + 1)]
    waiting = list(zip(ends, ends[1:]))[::-1]

    def take_turns() -> None:
        while waiting:
            try:
                part = waiting.pop()
            except IndexError:  # another thread was quicker
                return
            quietly(*part)

    others = [_helpers().submit(take_turns) for _ in range(threads - 1)]
    try:
        take_turns()
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


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, a matrix product is made by the thread that asks for it and no other, if NumPy's BLAS is OpenBLAS.

    It is for work full of products that `in_parts` shares out. OpenBLAS lets one caller at a time have all its threads,
    and these wait for the next product without giving up their cores. A product of one thread is also the same to the
    last bit on any machine's number of cores. It holds for the whole process, until the last that came in has left;
    with another BLAS nothing changes.
    """
    get, put = _openblas_threads()
    with _blas_lock:
        _blas_before.append(get())
        put(1)
    try:
        yield
    finally:
        with _blas_lock:
            put(_blas_before.pop())  # if others are still inside, that is 1: the first came in at the bottom


_blas_lock = threading.Lock()
_blas_before: list[int] = []  # what each found that came in


@functools.cache
def _openblas_threads() -> tuple[Callable[[], int], Callable[[int], Any]]:
    """How to ask for, and set, the number of OpenBLAS's threads; what does nothing if it is not there.

    A symbol looked up in NumPy's own extension is found in what that is linked with (but on Windows, where one would
    have to know its file); its name depends on the build.
    """
    core = "core" if np.__version__.startswith("1.") else "_core"
    library = ctypes.CDLL(sys.modules[f"numpy.{core}._multiarray_umath"].__file__)
    for name in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"):
        get, put = (getattr(library, name.format(verb), None) for verb in ("get", "set"))
        if get and put:
            return get, put
    return (lambda: 1), (lambda count: None)
