"""Who encodes: this process, processes beside it, or a Dask cluster. Each gives what it makes of the tasks in order.

Only so many tasks are under way at once, and the one whose result is next is waited for, so that memory is bounded
and the bytes of the output do not depend on who is done first. A worker that dies costs the tasks it had a second try.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import importlib
import itertools
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, TypeVar

from bpe.corpus import CorpusEncoder, Encoded, Ids
from bpe.known import shared_zeros
from corpus.tasks import TASK_BYTES, Task

TRIES = 3  # for a task whose worker dies
TRAY = TASK_BYTES  # ids that fit on a tray (see _Processes): a task has seldom as many as bytes
Done = Iterator[tuple[Task, Encoded]]
UnderWay = tuple["concurrent.futures.Future[Encoded | OnTray]", int]  # what becomes of a task, and its tray
T = TypeVar("T")


class Died(RuntimeError):
    """A worker died, and again when its task was given to another."""


def in_this_process(encoder: CorpusEncoder, tasks: Iterable[Task]) -> Done:
    for task in tasks:
        yield task, encoder.encode(task.spans)


def in_processes(encoder: CorpusEncoder, tasks: Iterable[Task], workers: int) -> Done:
    """With `workers` processes, each of which gets the vocabulary once, when it begins.

    The ids of a result are written over when the next is asked for.
    """
    processes = _Processes(encoder, workers)
    all_done = False
    try:
        yield from in_order(tasks, processes.submit, processes.result, processes.window, BrokenProcessPool)
        all_done = True
    finally:
        # When all is done, the workers end while the rest is written, and Python's own end waits for them.
        processes.end(wait=not all_done)


class _Processes:
    """A pool of processes that encode, with new ones in place of all of them when one dies."""

    def __init__(self, encoder: CorpusEncoder, workers: int) -> None:
        self.encoder, self.workers, self.window = encoder, workers, 2 * workers + 1
        # A fork has the vocabulary at once, where a new process would read for half a second, and forks can share what
        # they learn. It is not to be had everywhere, and safe only beside threads that hold no lock: none of ours runs.
        self.are_forks = sys.platform == "linux"
        self.context = multiprocessing.get_context("fork" if self.are_forks else "spawn")
        # The ids of a task come back on a tray, in memory that forks share: a pipe would take as long as encoding
        # 200 KB. No two of the tasks under way have the same: they end in order, and when they are submitted again, all
        # the workers that had them have ended.
        self.trays = [shared_zeros(TRAY, encoder.dtype) for _ in range(self.window if self.are_forks else 0)]
        self.next_tray = itertools.cycle(range(self.window))
        self.pool = self.begin()

    def begin(self) -> concurrent.futures.ProcessPoolExecutor:
        if self.are_forks:
            lock = self.context.Lock()  # anew each time: who died may have held the last
            self.encoder.encoding.share_between_forks(lock)
            gc.freeze()  # else the garbage collector of each fork would write to, and so copy, all that there is
        kept = self.encoder, self.trays
        return concurrent.futures.ProcessPoolExecutor(self.workers, self.context, initializer=_keep, initargs=kept)

    def begin_again(self) -> None:
        self.pool.shutdown(cancel_futures=True)
        self.pool = self.begin()

    def submit(self, task: Task) -> UnderWay:
        tray = next(self.next_tray)
        with _ctrl_c_held_back():  # a pool's processes and threads begin when it gets its first task
            try:
                return self.pool.submit(_encode, task.spans, tray), tray
            except BrokenProcessPool:
                self.begin_again()
                return self.pool.submit(_encode, task.spans, tray), tray

    def result(self, under_way: UnderWay) -> Encoded:
        future, tray = under_way
        try:
            encoded = future.result()
        except BrokenProcessPool:
            self.begin_again()
            raise
        return encoded.on(self.trays[tray]) if isinstance(encoded, OnTray) else encoded

    def end(self, wait: bool) -> None:
        with _undisturbed():
            self.pool.shutdown(wait, cancel_futures=True)
        gc.unfreeze()
        self.encoder.encoding.clear_cache()  # and with it what was there to be shared


@contextlib.contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Inside, Ctrl-C waits; and for ever in processes and threads that begin here, which so never hear it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Inside, Ctrl-C does nothing: it would not end the workers sooner, only tear their ending."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def on_dask(encoder: CorpusEncoder, tasks: Iterable[Task], address: str) -> Done:
    """With the workers of a Dask cluster, which need this project installed; the vocabulary is sent to each once."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise RuntimeError("distributed is not installed, which --dask needs: pip install '.[dask]'") from None
    try:
        distributed.comm.addressing.get_address_host_port(address)
    except ValueError as error:  # a client made with such an address would never end
        raise RuntimeError(f"--dask {address}: {error}; an address is like tcp://scheduler:8786") from None
    lost = (distributed.scheduler.KilledWorker, concurrent.futures.CancelledError)
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        there = client.scatter(encoder, broadcast=True)

        def submit(task: Task) -> Any:
            nonlocal there
            if there.status != "finished":  # every worker that had it died
                there = client.scatter(encoder, broadcast=True)
            return client.submit(CorpusEncoder.encode, there, task.spans, pure=False)

        threads = sum(client.nthreads().values())
        yield from in_order(tasks, submit, lambda future: future.result(), 2 * threads + 1, lost)


def in_order(
    tasks: Iterable[T],
    submit: Callable[[T], Any],
    result: Callable[[Any], Encoded],
    window: int,
    lost: type[BaseException] | tuple[type[BaseException], ...],
) -> Iterator[tuple[T, Encoded]]:
    """Each task and its result, in order, with up to `window` tasks under way.

    When a result ends in an error of the kind `lost`, what is under way is submitted again, TRIES times at most.
    """
    waiting: deque[tuple[T, Any]] = deque()
    remaining = iter(tasks)
    tries = 0
    while True:
        while len(waiting) < window and (task := next(remaining, None)) is not None:
            waiting.append((task, submit(task)))
        if not waiting:
            return
        task, future = waiting[0]
        try:
            encoded = result(future)
        except lost as error:
            tries += 1
            if tries == TRIES:
                raise Died(f"a worker died {TRIES} times, the last time at {task}") from error
            waiting = deque((task, submit(task)) for task, _ in waiting)
            continue
        tries = 0
        waiting.popleft()
        yield task, encoded


class OnTray(NamedTuple):
    """What became of a task, its ids on a tray, those for training first."""

    encoded: Encoded  # without its ids
    counts: tuple[int, int]

    def on(self, tray: Ids) -> Encoded:
        train, val = self.counts
        return self.encoded._replace(ids=(tray[:train], tray[train : train + val]))


_encoder: CorpusEncoder | None = None  # of a worker process
_trays: list[Ids] = []


def _keep(encoder: CorpusEncoder, trays: list[Ids]) -> None:
    global _encoder, _trays
    _encoder, _trays = encoder, trays
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to deal with, and
    threading.Thread(target=_end_with_parent, daemon=True).start()  # if it is killed, nobody would tell a worker


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _encode(spans: Any, tray: int) -> Encoded | OnTray:
    assert _encoder is not None
    encoded = _encoder.encode(spans)
    train, val = encoded.ids
    if not _trays or len(train) + len(val) > TRAY:
        return encoded
    _trays[tray][: len(train)] = train
    _trays[tray][len(train) : len(train) + len(val)] = val
    return OnTray(encoded._replace(ids=(train[:0], val[:0])), (len(train), len(val)))
