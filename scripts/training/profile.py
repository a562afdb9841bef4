"""Where the time of a training step goes, and how far it is from the matrix products that it cannot do without.

The products are timed in two ways: as NumPy makes them when it is asked for each whole, and cut into blocks that stay
in the cache, each in one thread, as linear_cross_entropy makes them. Which is quicker depends on the machine, and
on how busy it is.
"""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from embedding.model import NextToken
from minigrad import random, tied_loss
from minigrad.threads import one_blas_thread
from training.run import Run

STEPS, WARM_UP = 15, 3
CHUNK = 256  # tokens whose logits are held at a time: of those tried the quickest


def profile(run: Run) -> Iterator[str]:
    """Lines: the median of each part's time over some steps, of the whole, and of the products by themselves.

    Steps and products take turns, and the ratios of the last lines are the medians of the pairs'.
    """
    ways = {
        "matrix products": products_alone(run.model, run.settings.batch, in_blocks=False),
        "  in blocks": products_alone(run.model, run.settings.batch, in_blocks=True),
    }
    steps: list[dict[str, float]] = []
    alone: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM_UP + STEPS):
        rest()
        parts = timed_step(run)
        seconds = {name: time_of(products) for name, products in ways.items()}
        if number >= WARM_UP:
            steps.append(parts)
            for name in ways:
                alone[name].append(seconds[name])
    wholes = [sum(parts.values()) for parts in steps]
    whole = statistics.median(wholes)
    for name in steps[0]:
        part = statistics.median(parts[name] for parts in steps)
        yield f"{name:<18}{part * 1e3:8.1f} ms {part / whole:6.0%}"
    yield f"{'step':<18}{whole * 1e3:8.1f} ms        {run.settings.batch / whole:,.0f} tokens/s"
    for name, times in alone.items():
        ratio = statistics.median(step / products for step, products in zip(wholes, times))
        yield (
            f"{name:<18}{statistics.median(times) * 1e3:8.1f} ms        by themselves; a step takes "
            f"{ratio:.2f} times as long"
        )


def time_of(work: Callable[[], Any]) -> float:
    rest()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def rest() -> None:
    """Until the BLAS's threads, which wait busily for more products, have gone to sleep."""
    time.sleep(0.05)


@one_blas_thread()
def timed_step(run: Run) -> dict[str, float]:
    """One step as in `Run.steps`, and the seconds that each part of it took."""
    times = [time.perf_counter()]
    x, y = run.windows[random.randint(0, len(run.windows), run.settings.batch)]
    times.append(time.perf_counter())
    loss = run.model.loss(x, y[:, -1])
    times.append(time.perf_counter())
    run.model.zero_grad()
    loss.backward()
    times.append(time.perf_counter())
    run.optimizer.step()
    times.append(time.perf_counter())
    names = "batch", "forward and loss", "backward", "optimiser"
    return {name: stop - start for name, start, stop in zip(names, times, times[1:])}


def products_alone(model: NextToken, batch: int, in_blocks: bool) -> Callable[[], Any]:
    """The matrix products of a step and nothing else: for each product x @ w forward two backward, g @ w.T and x.T @ g.

    The head's logits go through one buffer, CHUNK tokens at a time; with in_blocks in the blocks, and by the threads,
    that linear_cross_entropy has.
    """
    table = model.head.weight.data
    logits = np.empty((CHUNK, len(table)), table.dtype)
    layers = [weight.data for weight in (model.hidden.weight, model.output.weight, model.straight)]
    inputs = [np.ones((batch, len(weight)), table.dtype) for weight in layers]
    hidden = np.ones((batch, table.shape[1]), table.dtype)
    d_table, d_hidden = np.empty_like(table), np.empty_like(hidden)

    def head(h: np.ndarray, z: np.ndarray, dh: np.ndarray) -> None:
        if in_blocks:
            z = z.reshape(-1)
            tied_loss.over_columns(lambda _, columns, block: np.matmul(h, table[columns].T, out=block), z, len(h))
            tied_loss.both_products(z, h, table, dh, d_table, first=True)
        else:
            np.matmul(h, table.T, out=z)
            np.matmul(z, table, out=dh)
            np.matmul(z.T, h, out=d_table)

    def products() -> None:
        for x, weight in zip(inputs, layers):
            g = x @ weight
            g @ weight.T
            x.T @ g
        for start in range(0, batch, CHUNK):
            h = hidden[start:start + CHUNK]
            head(h, logits[:len(h)], d_hidden[start:start + CHUNK])

    return one_blas_thread()(products) if in_blocks else products
