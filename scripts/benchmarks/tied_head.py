"""The loss of GPT-2's tied head, forward and backward, beside torch: time and the most memory it takes.

torch has two ways, cross_entropy(h @ W.T) and F.linear_cross_entropy; ours is measured against the better one,
found by a trial of each. Memory is what the work adds at its highest to a process that holds h, W and the targets.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks import pairs

PEERS = ("torch",)
V, C = 50_257, 768
MEMORY_BOUNDS = {1024: 0.4, 2048: 0.25}


def rows(quick: bool) -> Iterator[pairs.Row]:
    """For each N a row of time under either heap, then one of memory."""
    sizes = [1024] if quick else [1024, 2048]
    reason = pairs.missing("torch")
    if reason:
        yield pairs.skipped("tied head", reason)
        return
    yield from pairs.under_both_heaps("benchmarks.tied_head:timed", sizes, quick)
    for N in sizes:
        theirs = min(pairs.peak_memory("benchmarks.tied_head:torch_ways", N, name) for name in TORCH_WAYS)
        ours = pairs.peak_memory("benchmarks.tied_head:minigrad_way", N)
        yield pairs.Row(
            f"tied head, N = {N}, extra peak memory", (ours,), (theirs,), "memory", MEMORY_BOUNDS[N],
        )  # fmt: skip


def timed(sizes: list[int], quick: bool, heap: str) -> Iterator[pairs.Row]:
    for N in sizes:
        ways = {name: torch_ways(N, name) for name in TORCH_WAYS}
        better = min(ways, key=lambda name: min(pairs.seconds(ways[name]) for _ in range(2)))
        yield pairs.compare(
            f"tied head, N = {N}; {heap}", minigrad_way(N), ways[better], bound=1.0, peer=f"torch's {better}",
            quick=quick, before=pairs.rest,
        )  # fmt: skip


def minigrad_way(N: int) -> Callable[[], None]:
    import numpy as np

    from minigrad import Tensor
    from minigrad.tied_loss import linear_cross_entropy

    rng = np.random.default_rng(0)
    W = Tensor(rng.standard_normal((V, C), dtype=np.float32) * np.float32(0.02), requires_grad=True)
    h = Tensor(rng.standard_normal((N, C), dtype=np.float32), requires_grad=True)
    targets = rng.integers(0, V, N)
    linear_cross_entropy(h[:2], W, targets[:2])  # a warm-up: imports, threads

    def work() -> None:
        h.zero_grad()
        W.zero_grad()
        linear_cross_entropy(h, W, targets).backward()

    return work


TORCH_WAYS = ("cross_entropy", "linear_cross_entropy")


def torch_ways(N: int, name: str) -> Callable[[], None]:
    import torch
    from torch.nn import functional as F

    generator = torch.Generator().manual_seed(0)
    W = (torch.randn(V, C, generator=generator) * 0.02).requires_grad_()
    h = torch.randn(N, C, generator=generator).requires_grad_()
    targets = torch.randint(0, V, (N,), generator=generator)
    ways = {
        "cross_entropy": lambda h, targets: F.cross_entropy(h @ W.T, targets),
        "linear_cross_entropy": lambda h, targets: F.linear_cross_entropy(h, W, targets),
    }
    ways[name](h[:2], targets[:2])

    def work() -> None:
        h.grad = W.grad = None
        ways[name](h, targets).backward()

    return work
