"""Encoding 100 MB of text into a token file: two workers beside one, and one beside a script around tiktoken.

The corpus is English, code, and one text in 500 languages (fetching/texts.py), each whole, and all of it 2.2 times, in
files of 4 MB; a file has documents of 4,000 characters, as web pages have, and <|endoftext|> between them. Whole runs
are timed, from the start of a process to its end: reading, encoding, writing, and for ours the hash of what it wrote
and the wait until it is on disk. The other script is the shortest that makes the same file: for each document
tiktoken's `encode_to_numpy`, its fastest.

Two cores are seldom worth two: they share caches and memory, and perhaps more. So a last row, without a bound, tells
what this machine gives two runs that have nothing in common: both of the same half, at once and one after the other.
"""
from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fetching import texts

from benchmarks import pairs
from bpe import files
from bpe.split import GPT2_PATTERN

PEERS = ("tiktoken",)
SCRIPT = Path(__file__).resolve().parents[1] / "encode_corpus.py"
MEGABYTES, QUICK_MEGABYTES = 100, 20
FILE, DOCUMENT = 4_000_000, 4_000  # bytes, characters
SEPARATOR = "<|endoftext|>"
# Python may keep what it has compiled, as it did with tiktoken's modules when that was installed: else ours alone are
# compiled again at every start.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

TIKTOKEN = """\
import pathlib, sys
import numpy as np
import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

folder, out, separator, pattern, encoder_json, vocab_bpe = sys.argv[1:]
ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe, encoder_json)
encoding = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
end = np.array([50256], np.uint16)
with open(out, "wb") as file:
    for path in sorted(pathlib.Path(folder).glob("*.txt")):
        for text in path.read_text(encoding="utf-8").split(separator):
            if text:
                file.write(encoding.encode_to_numpy(text, disallowed_special=()).astype(np.uint16))
                file.write(end)
"""


def rows(quick: bool) -> Iterator[pairs.Row]:
    megabytes = QUICK_MEGABYTES if quick else MEGABYTES
    reason = pairs.missing("tiktoken")
    with tempfile.TemporaryDirectory() as folder:
        corpus, out = Path(folder, "texts"), Path(folder, "out")
        paths = build(corpus, megabytes)
        half = paths[: len(paths) // 2]
        runs: dict[str, Callable[[], Any]] = {
            "one": lambda: finish(begin(paths, out / "one", 1)),
            "two": lambda: finish(begin(paths, out / "two", 2)),
            "at once": lambda: finish(begin(half, out / "first", 1), begin(half, out / "second", 1)),
            "in turn": lambda: [finish(begin(half, out / name, 1)) for name in ("third", "fourth")],
        }
        if not reason:
            runs["tiktoken"] = lambda: tiktoken(corpus, out / "theirs.bin")
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for turn in range(pairs.QUICK_PAIRS if quick else pairs.PAIRS):  # whole processes: nothing to warm up
            out.mkdir()
            for name in list(runs)[:: -1 if turn % 2 else 1]:
                seconds[name].append(pairs.seconds(runs[name]))
            if not reason and (out / "one" / "train.bin").read_bytes() != (out / "theirs.bin").read_bytes():
                raise AssertionError("the two scripts did not write the same ids")
            shutil.rmtree(out)  # theirs nobody synced: so it seldom goes to the disk while another run is timed

    def row(what: str, ours: str, theirs: str, bound: float | None, amount: int = megabytes) -> pairs.Row:
        samples = tuple(seconds[ours]), tuple(seconds[theirs])
        return pairs.Row(f"{amount} MB to {what}", *samples, "speed", bound, theirs, amount, "MB")

    yield row("a token file, two workers", "two", "one", 1.7)
    if reason:
        yield pairs.skipped(f"{megabytes} MB to a token file, one worker", reason)
    else:
        yield row("a token file, one worker", "one", "tiktoken", 3.0)
    yield row("two token files, two runs at once", "at once", "in turn", None, 2 * len(half) * FILE // 1_000_000)


def build(folder: Path, megabytes: int) -> list[Path]:
    """Files of the texts, one text after another, and from the beginning again."""
    folder.mkdir()
    text = "".join(map(texts.load, texts.SUFFIX))
    documents = itertools.cycle(text[i : i + DOCUMENT] for i in range(0, len(text), DOCUMENT))
    for number in range(megabytes * 1_000_000 // FILE):
        some, size = [], 0
        while size < FILE:
            some.append(next(documents).encode())
            size += len(some[-1]) + len(SEPARATOR)
        Path(folder, f"{number:03d}.txt").write_bytes(SEPARATOR.encode().join(some))
    return sorted(folder.iterdir())


def begin(paths: list[Path], out: Path, workers: int) -> subprocess.Popen[bytes]:
    options = ["--out", str(out), "--separator", SEPARATOR, "--workers", str(workers)]
    command = [sys.executable, str(SCRIPT), *map(str, paths), *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT)


def finish(*processes: subprocess.Popen[bytes]) -> None:
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()  # without effect on one that has ended
    if any(codes):
        raise RuntimeError(f"encode_corpus.py ended with {codes}")


def tiktoken(corpus: Path, out: Path) -> None:
    arguments = [str(corpus), str(out), SEPARATOR, GPT2_PATTERN, *map(os.fspath, files.find_gpt2())]
    subprocess.run([sys.executable, "-c", TIKTOKEN, *arguments], check=True, env=ENVIRONMENT)
