"""Training: tokens per second of the model of scripts/train_embeddings.py, beside the same model in torch.

The sizes are the script's own: V = 50,257, C = 64, a context of 16, 128 hidden units, 512 targets a step. Both begin
with the same numbers and see the same batches; a sample is a whole step, from the lookup to the update. torch may use
the faster of its two losses (over whole logits, and in chunks), and its fused AdamW.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import pairs
from embedding.model import NextToken
from minigrad import random
from minigrad.optim import AdamW
from minigrad.threads import one_blas_thread

PEERS = ("torch",)
V, C, T, H, BATCH, LR = 50_257, 64, 16, 128, 512, 2e-3
WHAT = f"a step of {BATCH} targets, V = {V:,}"


def rows(quick: bool) -> Iterator[pairs.Row]:
    reason = pairs.missing("torch")
    if reason:
        yield pairs.skipped(WHAT, reason)
        return
    yield from pairs.under_both_heaps("benchmarks.training:steps", quick)


def steps(quick: bool, heap: str) -> Iterator[pairs.Row]:
    model = NextToken(V, C, T, H)
    draws = batches()
    kinds = {kind: torch_step(model, kind, draws) for kind in ("whole logits", "in chunks")}
    kind = min(kinds, key=lambda kind: min(pairs.seconds(kinds[kind]) for _ in range(4)))  # the first warms up
    yield pairs.compare(
        f"{WHAT}; torch {kind}, {heap}",
        our_step(model, draws),
        kinds[kind],
        measure="speed",
        bound=1.0,
        quick=quick,
        amount=BATCH,
        unit="tokens",
        before=pairs.rest,
    )


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """Eight batches of ids that are as often as words are: the n-th most frequent 1/n times as often as the first."""
    generator = random.Generator(0)
    shares = np.cumsum(1 / np.arange(1, V + 1))
    drawn = np.searchsorted(shares / shares[-1], generator.rand(8, BATCH, T + 1, dtype=np.float64))
    return [(ids[:, :T], ids[:, T]) for ids in drawn]


def our_step(model: NextToken, draws: list[tuple[np.ndarray, np.ndarray]]) -> Callable[[], float]:
    optimizer, turn = AdamW(model.parameters(), lr=LR), iter(range(1 << 30))

    @one_blas_thread()  # as the script trains
    def step() -> float:
        x, y = draws[next(turn) % len(draws)]
        loss = model.loss(x, y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def torch_step(model: NextToken, kind: str, draws: list[tuple[np.ndarray, np.ndarray]]) -> Callable[[], float]:
    import torch

    copies = [torch.nn.Parameter(torch.tensor(p.data)) for p in model.parameters()]
    optimizer, turn = torch.optim.AdamW(copies, lr=LR, fused=True), iter(range(1 << 30))
    ours = [(torch.tensor(x), torch.tensor(y)) for x, y in draws]

    def step() -> float:
        x, y = ours[next(turn) % len(ours)]
        loss = torch_loss(copies, x, y, kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def torch_loss(parameters: list[Any], x: Any, y: Any, kind: str) -> Any:
    """NextToken.loss in torch's functions; the parameters in the order of `model.parameters()`."""
    import torch
    from torch.nn import functional as F

    straight, table, positions, weight1, bias1, weight2, bias2 = parameters
    rows = (F.embedding(x, table) + positions).reshape(len(x), -1)
    hidden = torch.tanh(rows @ weight1 + bias1) @ weight2 + bias2 + rows @ straight
    if kind == "in chunks" and hasattr(F, "linear_cross_entropy"):
        return F.linear_cross_entropy(hidden, table, y)
    return F.cross_entropy(hidden @ table.T, y)
