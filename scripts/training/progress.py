"""How far a run is, and Ctrl-C."""
from __future__ import annotations

import signal
import sys
import time
from typing import Any

import numpy as np

from training.run import Run


class UntilInterrupted:
    """Ctrl-C sets `asked`, so that a step is never cut in two; a second one stops at once."""

    asked = False

    def __enter__(self) -> UntilInterrupted:
        self.before = signal.signal(signal.SIGINT, self.ask)
        return self

    def ask(self, *_: Any) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, self.before)

    def __exit__(self, *_: Any) -> None:
        signal.signal(signal.SIGINT, self.before)


STEP = "step {n_fmt}{postfix}"
BAR = "{percentage:3.0f}%|{bar:20}| " + STEP


class Progress:
    """On a terminal how far it is, a bar with tqdm, else a line now and then; nothing in a pipe."""

    EVERY = 10.0  # seconds between lines without tqdm

    def __init__(self, run: Run, steps: int | None, minutes: float | None, stream: Any = None):
        stream = stream or sys.stderr
        self.run, self.total, self.minutes, self.stream = run, steps, minutes, stream
        self.begin = self.said = time.monotonic()
        self.first = len(run.losses)
        self.bar: Any = None
        self.quiet = not stream.isatty()
        if not self.quiet:
            try:
                from tqdm import tqdm
            except ImportError:
                return
            form = BAR if steps else STEP  # without a last step there is nothing to be a part of
            self.bar = tqdm(total=steps, initial=self.first, file=stream, bar_format=form, mininterval=0.5)

    def update(self) -> None:
        now = time.monotonic()
        if self.bar is not None:
            self.bar.set_postfix_str(self.text(now), refresh=False)
            self.bar.update()
        elif not self.quiet and now - self.said >= self.EVERY:
            self.said = now
            print(f"step {len(self.run.losses):,}, {self.text(now)}", file=self.stream, flush=True)

    def text(self, now: float) -> str:
        seconds = max(now - self.begin, 1e-9)
        steps = len(self.run.losses) - self.first
        left = [seconds / steps * (self.total - len(self.run.losses))] if self.total else []
        left += [self.minutes * 60 - seconds] if self.minutes else []
        return (
            f"loss {np.mean(self.run.losses[-50:]):.3f}, {steps * self.run.settings.batch / seconds:,.0f} tokens/s, "
            f"{clock(min(left))} left"
        )

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(max(seconds, 0)), 60)
    return f"{minutes}:{seconds:02d}"
