"""Measure two ways of doing the same work against each other, in turn, in one run.

A suite is a file beside this one with a generator of rows, and a tuple of the packages it compares with:

    from benchmarks import pairs

    PEERS = ("torch",)

    def rows(quick: bool) -> Iterator[pairs.Row]:
        reason = pairs.missing("torch")
        if reason:
            yield pairs.skipped("lookup, N = 32", reason)
            return
        yield pairs.compare("lookup, N = 32", ours, theirs, bound=1.0, quick=quick)

A machine has moods (clock, cache, neighbours), so one figure alone means little. Ours and theirs are run in
turn; each pair gives a ratio, and the median of the ratios is the figure, its spread the middle half of them.
Nothing here imports NumPy: `scripts/bench.py` sets the number of threads before a suite does.
"""
from __future__ import annotations

import dataclasses
import gc
import importlib
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAIRS, QUICK_PAIRS = 9, 3
AT_LEAST = 0.002  # seconds a sample takes: shorter work is repeated, so that the clock's own cost stays out

# What the C library does with a large block that is freed: by default it goes back to the system, and the
# next user pays for fresh pages; below these thresholds (bytes) it is kept. Read once, when a process starts.
KEEP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_MMAP_THRESHOLD_": str(1 << 40)}
HEAPS: dict[str, dict[str, str | None]] = {"default heap": dict.fromkeys(KEEP), "blocks kept": {**KEEP}}


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure of a suite: what was measured, for ours and theirs one number a pair, and the bound.

    `measure` says which way is better. "time" (seconds) and "memory" (MiB) are ours / theirs and want to be
    at most the bound. "speed" is theirs / ours of the same seconds and wants to be at least the bound.
    `amount` of `unit` (5.0 "MB") is the work done in those seconds, shown as a rate. Without `theirs` a row
    only reports.
    """

    what: str
    ours: tuple[float, ...] = ()
    theirs: tuple[float, ...] = ()
    measure: str = "time"
    bound: float | None = None
    peer: str = "torch"
    amount: float = 0.0
    unit: str = ""
    skipped: str = ""

    def __post_init__(self) -> None:
        for side in ("ours", "theirs"):  # lists, when they come from a child
            object.__setattr__(self, side, tuple(getattr(self, side)))
        if self.measure not in ("time", "speed", "memory"):
            raise ValueError(f"measure is {self.measure!r}; it is 'time', 'speed' or 'memory'")
        if self.theirs and len(self.theirs) != len(self.ours):
            raise ValueError(f"{len(self.ours)} figures of ours, {len(self.theirs)} of theirs: no pairs")

    @property
    def ratios(self) -> list[float]:
        """The ratio of each pair, in the direction that `measure` states."""
        return [b / a if self.measure == "speed" else a / b for a, b in zip(self.ours, self.theirs)]

    @property
    def ratio(self) -> float | None:
        return statistics.median(self.ratios) if self.theirs else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The middle half of the ratios: first and third quartile."""
        if not self.theirs:
            return None
        if len(self.ratios) == 1:
            return self.ratios[0], self.ratios[0]
        first, _, third = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return first, third

    @property
    def holds(self) -> bool | None:
        """Whether the median ratio keeps the bound; None where there is nothing to keep."""
        if self.ratio is None or self.bound is None:
            return None
        return self.ratio >= self.bound if self.measure == "speed" else self.ratio <= self.bound

    @property
    def sign(self) -> str:
        return ">=" if self.measure == "speed" else "<="

    def text(self) -> str:
        """The row as `scripts/bench.py` prints it, on one line."""
        if self.skipped:
            return f"{self.what:<58} skipped: {self.skipped}"
        parts = [f"{self.what:<58}", f"ours {self._figures(self.ours)}"]
        if self.ratio is not None and self.spread is not None:
            low, high = self.spread
            parts += [
                f"{self.peer} {self._figures(self.theirs)}",
                f"{self.measure}, ours / {self.peer}: {self.ratio:.2f} ({low:.2f} to {high:.2f})",
            ]
        if self.holds is not None:
            parts += [f"bound {self.sign} {self.bound:g}", "holds" if self.holds else "FALLS SHORT"]
        return " | ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """The row for `--json`: the fields, and what follows from them."""
        derived = {
            "direction": f"{self.measure}, ours / {self.peer}",
            "ratio": self.ratio,
            "spread": self.spread,
            "sign": self.sign,
            "holds": self.holds,
        }
        return dataclasses.asdict(self) | derived

    def _figures(self, samples: tuple[float, ...]) -> str:
        """`median (best)` of the samples; the best is the least time, the least memory, the highest speed."""
        median, least = statistics.median(samples), min(samples)
        if self.measure == "memory":
            return f"{median:.1f} MiB (least {least:.1f})"
        if self.amount:
            return f"{self.amount / median:,.4g} {self.unit}/s (best {self.amount / least:,.4g})"
        scale, unit = next(((s, u) for s, u in ((1, "s"), (1e3, "ms")) if median * s >= 1), (1e6, "us"))
        return f"{median * scale:.3g} {unit} (least {least * scale:.3g})"


def skipped(what: str, reason: str) -> Row:
    """A row that could not be measured, and why."""
    return Row(what, skipped=reason)


def missing(*packages: str) -> str:
    """Why a comparison with these packages cannot run here, or "" if it can."""
    absent = [name for name in packages if version(name) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def compare(
    what: str,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    bound: float | None = None,
    measure: str = "time",
    peer: str = "torch",
    quick: bool = False,
    before: Callable[[], Any] | None = None,
    amount: float = 0.0,
    unit: str = "",
) -> Row:
    """Run `ours` and `theirs` in turn, at least 9 times each (3 with `quick`), and make the row of it.

    Who goes first changes from pair to pair. A run of each warms up. Work shorter than 2 ms is repeated
    within a sample, unless there is a `before`, which runs, untimed, ahead of each (to empty a cache, say).
    """
    calls = [_repeats(work, before) for work in (ours, theirs)]
    samples: tuple[list[float], list[float]] = ([], [])
    for pair in range(QUICK_PAIRS if quick else PAIRS):
        for side in (0, 1) if pair % 2 == 0 else (1, 0):
            if before:
                before()
            samples[side].append(seconds((ours, theirs)[side], calls[side]))
    return Row(what, tuple(samples[0]), tuple(samples[1]), measure, bound, peer, amount, unit)


def seconds(work: Callable[[], Any], calls: int = 1) -> float:
    """Seconds that one call of `work` takes, over `calls` calls, with the garbage collector held still."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(calls):
            work()
        return (time.perf_counter() - start) / calls
    finally:
        if enabled:
            gc.enable()


def rest() -> None:
    """Until the other side's threads, which wait busily for more work, have gone to sleep."""
    time.sleep(0.1)


def _repeats(work: Callable[[], Any], before: Callable[[], Any] | None) -> int:
    """Warm up, and say how many calls of `work` make a sample."""
    if before:
        before()
    work()
    return 1 if before else 1 + int(AT_LEAST / max(seconds(work), 1e-9))


def in_child(
    target: str, *arguments: Any, environment: dict[str, str | None] | None = None
) -> Iterator[Any]:
    """What the generator function `target` ("benchmarks.layer:timed") yields in a process of its own.

    Arguments and what is yielded travel as JSON; a Row arrives as a Row. A None in `environment` removes that
    variable. A child that fails raises RuntimeError with the last line it wrote.
    """
    variables: dict[str, str | None] = {**os.environ, **(environment or {})}
    variables["PYTHONPATH"] = os.pathsep.join(sys.path)
    child = "from benchmarks import pairs; pairs._child()"
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors, subprocess.Popen(
        [sys.executable, "-c", child, target, json.dumps(arguments)],
        env={name: value for name, value in variables.items() if value is not None},
        stdout=subprocess.PIPE, stderr=errors, encoding="utf-8",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                is_row, value = json.loads(line)
                yield Row(**value) if is_row else value
        except BaseException:  # the reader stopped or failed: so does the child
            process.kill()
            raise
        if process.wait() != 0:
            errors.seek(0)
            last = (errors.read().strip().splitlines() or ["it wrote nothing"])[-1]
            raise RuntimeError(f"{target} failed in a child process (exit code {process.returncode}): {last}")


def _child() -> None:
    for item in _resolve(sys.argv[1])(*json.loads(sys.argv[2])):
        is_row = isinstance(item, Row)
        print(json.dumps((is_row, dataclasses.asdict(item) if is_row else item)), flush=True)


def _resolve(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def under_both_heaps(target: str, *arguments: Any) -> Iterator[Row]:
    """The rows of the generator function `target` under the C library's default heap, then with blocks kept.

    Each in a process of its own. `target` gets the heap's name (a key of HEAPS) as its last argument, to be
    said in each row.
    """
    for heap, variables in HEAPS.items():
        yield from in_child(target, *arguments, heap, environment=variables)


def peak_memory(target: str, *arguments: Any) -> float:
    """MiB by which a piece of work raises a process's memory, at its highest.

    `target` names a function, "benchmarks.tied_head:minigrad_way", which prepares (imports, tables, a warm-up) and
    returns the work as a callable. In a fresh process: prepare, note what is resident, reset the kernel's
    high-water mark (VmHWM), work, and read the mark. Linux only: elsewhere OSError.
    """
    if not Path("/proc/self/clear_refs").exists():
        raise OSError("peak memory is read from Linux's /proc, which is not here")
    return next(in_child("benchmarks.pairs:_peak", target, *arguments))


def _peak(target: str, *arguments: Any) -> Iterator[float]:
    work = _resolve(target)(*arguments)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    yield (_status("VmHWM") - before) / 1024


def _status(name: str) -> int:
    """A line of /proc/self/status, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))
