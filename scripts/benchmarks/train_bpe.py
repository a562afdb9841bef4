"""Learning a vocabulary from 12 MB of English, beside the tokenizers library in one thread and minbpe's RegexTokenizer.

A sample is all of it: the text is cut, its pieces are counted, the merges are learned. Ours gets the text as one;
tokenizers gets its lines, which is quicker for it, and stays in one thread by its own two environment variables.

minbpe is no package: MINBPE names a folder with a copy of its repository (github.com/karpathy/minbpe). It recounts all
of the text for each merge, so that these sizes would take it hours to days. So there are two kinds of row:

- "all of it": a text and a vocabulary that are small enough to wait for, where ours has hardly begun to gain.
- "at least": on the 12 MB its first step is measured on the ids that the last would see, those of the text in the
  vocabulary that ours learned, and counted once for each merge. Every step before works on more ids than that, so
  this is less than what it would take.
"""
from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType

from fetching import texts

import bpe
from benchmarks import pairs
from bpe.split import split

PEERS = ("tokenizers",)
SIZES = (8_000, 32_000)
SMALL, SMALL_SIZE = 0.1, 512  # megabytes and tokens of the row that minbpe runs whole
ONE_THREAD: dict[str, str | None] = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def rows(quick: bool) -> Iterator[pairs.Row]:
    reason = pairs.missing("tokenizers")
    if reason:
        yield pairs.skipped("tokenizers, one thread", reason)
    else:
        yield from pairs.in_child("benchmarks.train_bpe:beside_tokenizers", quick, environment=ONE_THREAD)
    folder = os.environ.get("MINBPE")
    if not folder:
        yield pairs.skipped("minbpe", "MINBPE does not name a folder with a copy of it")
        return
    sys.path.insert(0, folder)
    try:
        minbpe = importlib.import_module("minbpe.regex")
    except ImportError as error:
        yield pairs.skipped("minbpe", f"the copy in {folder} cannot be imported: {error}")
        return
    yield from beside_minbpe(minbpe, quick)


def beside_tokenizers(quick: bool) -> Iterator[pairs.Row]:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    text, name = _text(quick)
    lines = text.splitlines(keepends=True)

    def theirs(size: int) -> None:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tokenizer.train_from_iterator(
            lines,
            trainers.BpeTrainer(vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False),
        )
        assert tokenizer.get_vocab_size() == size

    for size in SIZES[:1] if quick else SIZES:
        yield pairs.compare(
            f"{name} to {size:,} tokens, one thread",
            lambda size=size: bpe.train(text, size),
            lambda size=size: theirs(size),
            peer="tokenizers", bound=6.0, quick=quick,
        )  # fmt: skip


def beside_minbpe(minbpe: ModuleType, quick: bool) -> Iterator[pairs.Row]:
    small = texts.load("english", SMALL)
    yield pairs.compare(
        f"{SMALL} MB to {SMALL_SIZE} tokens, all of it",
        lambda: bpe.train(small, SMALL_SIZE),
        lambda: minbpe.RegexTokenizer(minbpe.GPT2_SPLIT_PATTERN).train(small, SMALL_SIZE),
        measure="speed", peer="minbpe", bound=50.0, quick=True,
    )  # fmt: skip
    text, name = _text(quick)
    for size in SIZES[:1] if quick else SIZES:
        encoding = bpe.train(text, size)
        ids = [encoding.encode_ordinary(piece) for piece in split(text)]
        ours, theirs = [], []
        for _ in range(pairs.QUICK_PAIRS):
            ours.append(pairs.seconds(lambda size=size: bpe.train(text, size)))
            theirs.append((size - 256) * pairs.seconds(lambda ids=ids: _step(minbpe, ids)))
        yield pairs.Row(
            f"{name} to {size:,} tokens, at least", tuple(ours), tuple(theirs), "speed", bound=50.0, peer="minbpe"
        )


def _step(minbpe: ModuleType, ids: list[list[int]]) -> list[list[int]]:
    """What minbpe does for each merge, in its own two functions."""
    counts: dict[tuple[int, int], int] = {}
    for piece in ids:
        minbpe.get_stats(piece, counts)
    pair = max(counts, key=counts.__getitem__)
    return [minbpe.merge(piece, pair, -1) for piece in ids]


def _text(quick: bool) -> tuple[str, str]:
    return (texts.load("english", 2), "2 MB") if quick else (texts.load("english"), "12 MB")
