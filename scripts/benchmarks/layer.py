"""The layer beside torch.nn.Embedding: lookup, the way back, a training step; GPT-2's table, ids drawn Zipf.

V = 50257, C = 768, float32; ids from N(tokens) draws of p(rank) ~ 1 / rank, ranks given to rows at random. Each row is
measured under both heaps (see pairs.py), and at the end how the time for a token grows with N and with V.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks import pairs

PEERS = ("torch",)
V, C = 50_257, 768
SIZES = [32, 1024, 8192, 32768]
STEP = 8192  # tokens of a training step
DENSE_BOUNDS = {"default heap": 0.65, "blocks kept": 1.0}
STEP_BOUNDS = {"default heap": 0.25, "blocks kept": 0.5}


def rows(quick: bool) -> Iterator[pairs.Row]:
    reason = pairs.missing("torch")
    if reason:
        yield pairs.skipped("the layer", reason)
        return
    yield from pairs.under_both_heaps("benchmarks.layer:timed", quick)
    yield from _growth(quick)
    from benchmarks import tied_head

    yield from tied_head.rows(quick)


def timed(quick: bool, heap: str) -> Iterator[pairs.Row]:
    """The rows that are measured in a process of their own, whose heap is as `heap` says."""
    import numpy as np

    table = np.random.default_rng(0).standard_normal((V, C), dtype=np.float32)
    for sparse, bound in ((True, 1.0), (False, DENSE_BOUNDS[heap])):
        kind = "row-sparse, coalesced" if sparse else "dense"
        for N in SIZES[:2] if quick else SIZES:
            yield pairs.compare(
                f"lookup and {kind} gradient, N = {N}; {heap}", *_there_and_back(table, N, sparse), bound=bound,
                quick=quick, before=_before(N),
            )  # fmt: skip
    for torchs_sparse, bound in ((False, STEP_BOUNDS[heap]), (True, 1.0)):
        theirs = f"nn.Embedding, sparse={torchs_sparse}"
        yield pairs.compare(
            f"row-sparse SGD step, N = {STEP}; {heap}", *_steps(table, STEP, torchs_sparse), bound=bound,
            peer=theirs, quick=quick, before=_before(STEP),
        )  # fmt: skip
    rows = 5_000 if quick else V
    yield pairs.compare(f"drawing a ({rows}, {C}) table; {heap}", *_drawn(rows), bound=6.0, quick=quick)


def zipf_ids(N: int, num_rows: int = V) -> Any:
    """N ids of which a few are frequent and most are rare, as words are; the same ones each time."""
    import numpy as np

    rng = np.random.default_rng(1)
    frequency = 1 / np.arange(1, num_rows + 1)
    ranks = np.searchsorted(np.cumsum(frequency) / frequency.sum(), rng.random(N))
    return rng.permutation(num_rows)[ranks.clip(0, num_rows - 1)]


def _before(N: int) -> Callable[[], None] | None:
    """A rest ahead of long work. Short work is repeated instead, and hardly notices."""
    return pairs.rest if N >= 8192 else None


def _there_and_back(table: Any, N: int, sparse: bool) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """lookup, backward with a given gradient, and coalesce if it is sparse: ours and torch's."""
    import numpy as np
    import torch

    from minigrad import Tensor, functional

    ids, upstream = zipf_ids(N), np.random.default_rng(2).standard_normal((N, C), dtype=np.float32)
    weight, gradient = Tensor(table, requires_grad=True), Tensor(upstream)
    their_weight = torch.from_numpy(table.copy()).requires_grad_()
    their_ids, their_gradient = torch.from_numpy(ids), torch.from_numpy(upstream.copy())

    def ours() -> Any:
        weight.zero_grad()
        functional.embedding(ids, weight, sparse=sparse).backward(gradient)
        return weight.grad.coalesce() if sparse else weight.grad

    def theirs() -> Any:
        their_weight.grad = None
        torch.nn.functional.embedding(their_ids, their_weight, sparse=sparse).backward(their_gradient)
        return their_weight.grad.coalesce() if sparse else their_weight.grad

    return ours, theirs


def _steps(table: Any, N: int, torchs_sparse: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """A whole step: forget, look up, go back, move the rows; ours, row-sparse, and torch's."""
    import numpy as np
    import torch

    from embedding import Embedding
    from minigrad import Tensor, optim

    def step(layer: Any, ids: Any, gradient: Any, optimiser: Any) -> None:
        optimiser.zero_grad()
        layer(ids).backward(gradient)
        optimiser.step()

    ids, upstream = zipf_ids(N), np.random.default_rng(2).standard_normal((N, C), dtype=np.float32)
    our_layer = Embedding.from_pretrained(table.copy(), freeze=False, sparse=True)
    ours = our_layer, ids, Tensor(upstream), optim.SGD(our_layer.parameters(), lr=0.01)
    their_layer = torch.nn.Embedding.from_pretrained(torch.from_numpy(table.copy()), freeze=False, sparse=torchs_sparse)
    their_optimiser = torch.optim.SGD(their_layer.parameters(), lr=0.01)
    theirs = their_layer, torch.from_numpy(ids), torch.from_numpy(upstream.copy()), their_optimiser
    return partial(step, *ours), partial(step, *theirs)


def _drawn(rows: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Normal numbers from one seed, the same bits; torch draws in one thread, ours in as many as are allowed."""
    import torch

    from minigrad.random import Generator

    ours, theirs = Generator(123), torch.Generator().manual_seed(123)
    return lambda: ours.randn(rows, C), lambda: torch.randn(rows, C, generator=theirs)


def _growth(quick: bool) -> Iterator[pairs.Row]:
    """Time for a token, row-sparse: of many tokens beside few, and of a table a hundred times as long."""
    import numpy as np

    def sparse_way(num_rows: int, width: int, N: int) -> Callable[[], Any]:
        from minigrad import Tensor, functional

        weight = Tensor(np.ones((num_rows, width), np.float32), requires_grad=True)
        ids, gradient = zipf_ids(N, num_rows), Tensor(np.ones((N, width), np.float32))

        def work() -> Any:
            weight.zero_grad()
            functional.embedding(ids, weight, sparse=True).backward(gradient)
            return weight.grad.coalesce()

        return work

    def a_token(row: pairs.Row, ours: int, theirs: int) -> pairs.Row:
        scaled = [tuple(t / n for t in times) for times, n in ((row.ours, ours), (row.theirs, theirs))]
        return pairs.Row(row.what, *scaled, bound=row.bound, peer=row.peer)

    few, many = 1024, 8192 if quick else 65536
    row = pairs.compare(
        f"time for a token, N = {many}", sparse_way(V, C, many), sparse_way(V, C, few), bound=1.5,
        peer=f"N = {few}", quick=quick,
    )  # fmt: skip
    yield a_token(row, many, few)
    long = 500_000 if quick else 5_000_000
    row = pairs.compare(
        f"time for a token, V = {long}, C = 8, N = 8192", sparse_way(long, 8, 8192), sparse_way(V, 8, 8192), bound=1.5,
        peer=f"V = {V}", quick=quick,
    )  # fmt: skip
    yield a_token(row, 8192, 8192)
