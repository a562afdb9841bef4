"""Drawing GPT-2's token table, 50257 x 768 normal numbers, beside torch: the same seed and the same bits.

torch draws in one thread, whatever it is allowed; minigrad in as many as it is allowed.
"""
from __future__ import annotations

from collections.abc import Iterator

from benchmarks import pairs

PEERS = ("torch",)


def rows(quick: bool, where: str = "") -> Iterator[pairs.Row]:
    """One row; `where` (the heap, say) is added to what it says."""
    V, C = (5_000, 768) if quick else (50_257, 768)
    what = f"drawing a ({V}, {C}) table{where and '; ' + where}"
    reason = pairs.missing("torch")
    if reason:
        yield pairs.skipped(what, reason)
        return

    import torch

    from minigrad.random import Generator

    ours, theirs = Generator(123), torch.Generator().manual_seed(123)
    yield pairs.compare(
        what, lambda: ours.randn(V, C), lambda: torch.randn(V, C, generator=theirs), bound=6.0, quick=quick
    )
