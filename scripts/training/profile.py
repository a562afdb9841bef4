"""Where the time of a training step goes, and how far it is from the matrix products that it cannot do without."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from embedding.model import NextToken
from minigrad import random
from training.run import Run

STEPS, WARM_UP = 15, 3
CHUNK = 256  # tokens whose logits are held at a time: of those tried the quickest


def profile(run: Run) -> Iterator[str]:
    """Lines: the median of each part's time over some steps, of the whole, and of the products by themselves.

    Steps and products take turns, and the last line's ratio is the median of the pairs'.
    """
    products = products_alone(run.model, run.settings.batch)
    steps, alone = [], []
    for number in range(WARM_UP + STEPS):
        parts = timed_step(run)
        start = time.perf_counter()
        products()
        if number >= WARM_UP:
            alone.append(time.perf_counter() - start)
            steps.append(parts)
    wholes = [sum(parts.values()) for parts in steps]
    whole = statistics.median(wholes)
    for name in steps[0]:
        seconds = statistics.median(parts[name] for parts in steps)
        yield f"{name:<18}{seconds * 1e3:8.1f} ms {seconds / whole:6.0%}"
    yield f"{'step':<18}{whole * 1e3:8.1f} ms        {run.settings.batch / whole:,.0f} tokens/s"
    ratio = statistics.median(step / products for step, products in zip(wholes, alone))
    yield (
        f"{'matrix products':<18}{statistics.median(alone) * 1e3:8.1f} ms        by themselves; a step takes "
        f"{ratio:.2f} times as long"
    )


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


def products_alone(model: NextToken, batch: int) -> Callable[[], Any]:
    """The matrix products of a step and nothing else: for each product x @ w forward two backward, g @ w.T and x.T @ g.

    The head's logits go through one buffer, CHUNK tokens at a time, as in linear_cross_entropy.
    """
    table = model.head.weight.data
    logits = np.empty((CHUNK, len(table)), table.dtype)
    layers = [layer.weight.data for layer in (model.hidden, model.output)]
    inputs = [np.ones((batch, len(weight)), table.dtype) for weight in layers]
    hidden = np.ones((batch, table.shape[1]), table.dtype)
    d_table, d_hidden = np.empty_like(table), np.empty_like(hidden)

    def products() -> None:
        for x, weight in zip(inputs, layers):
            g = x @ weight
            g @ weight.T
            x.T @ g
        for start in range(0, batch, CHUNK):
            h = hidden[start:start + CHUNK]
            z = np.matmul(h, table.T, out=logits[:len(h)])
            np.matmul(z, table, out=d_hidden[start:start + CHUNK])
            np.matmul(z.T, h, out=d_table)

    return products
