"""Encoding 100 MB of text into a token file: two workers beside one, and one beside a script around tiktoken.

The texts are English, code, and one text in 500 languages (texts.py), in turn, in files of 4 MB, until there are 100 MB
(of the languages a third, although they are the shortest: each text begins again when it ends). A file has documents of
4,000 characters, as web pages have, with a separator between them. Whole runs are timed, from the start of a process
to its end: reading, encoding, writing, and for ours the hash of what was written. The other script is the shortest
that makes the same file: for each document tiktoken's `encode_to_numpy`, its fastest.
"""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import pairs, texts
from bpe import files

PEERS = ("tiktoken",)
SCRIPT = Path(__file__).resolve().parents[1] / "encode_corpus.py"
MEGABYTES, QUICK_MEGABYTES = 100, 20
FILE, DOCUMENT = 4_000_000, 4_000  # bytes, characters
SEPARATOR = "\n<|end of document|>\n"

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
"""tiktoken's own definition of the pattern, which is the faster of the two spellings there."""
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def rows(quick: bool) -> Iterator[pairs.Row]:
    megabytes = QUICK_MEGABYTES if quick else MEGABYTES
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder, "texts")
        build(corpus, megabytes)
        one, two = (ours(corpus, Path(folder, f"{workers} workers"), workers) for workers in (1, 2))
        what = f"{megabytes} MB to a token file"
        yield pairs.compare(f"{what}: two workers, one", two, one, bound=1.7, measure="speed", peer="one",
                            quick=True, amount=megabytes, unit="MB")  # fmt: skip
        reason = pairs.missing("tiktoken")
        if reason:
            yield pairs.skipped(f"{what}: one worker", reason)
            return
        theirs = Path(folder, "theirs.bin")
        yield pairs.compare(f"{what}: one worker", one, tiktoken(corpus, theirs), bound=3.0, measure="speed",
                            peer="tiktoken", quick=True, amount=megabytes, unit="MB")  # fmt: skip
        mine = sorted(Path(folder, "1 workers").glob("*/train.bin"))[-1]
        if mine.read_bytes() != theirs.read_bytes():
            raise AssertionError("the two scripts did not write the same ids")


def build(folder: Path, megabytes: int) -> None:
    """Files of the three texts in turn, each going on where its last one ended, and beginning again at its end."""
    folder.mkdir()
    sources = [texts.load(name) for name in texts.SUFFIX]
    places = [0, 0, 0]
    for number in range(megabytes * 1_000_000 // FILE):
        source, place = sources[number % 3], places[number % 3]
        part, size = [], 0
        while size < FILE:
            part.append(source[place : place + DOCUMENT])
            size += len(part[-1].encode()) + len(SEPARATOR)
            place = place + DOCUMENT if place + DOCUMENT < len(source) else 0
        places[number % 3] = place
        Path(folder, f"{number:03d}.txt").write_bytes(SEPARATOR.join(part).encode())


def ours(corpus: Path, out: Path, workers: int) -> Callable[[], None]:
    turn = iter(range(1 << 30))

    def run() -> None:
        command = [str(SCRIPT), str(corpus), "--out", str(out / str(next(turn))), "--separator", SEPARATOR]
        subprocess.run([sys.executable, *command, "--workers", str(workers)], check=True, stdout=subprocess.DEVNULL)

    return run


def tiktoken(corpus: Path, out: Path) -> Callable[[], None]:
    arguments = [str(corpus), str(out), SEPARATOR, PATTERN, *map(os.fspath, files.find_gpt2())]
    return lambda: subprocess.run([sys.executable, "-c", TIKTOKEN, *arguments], check=True) and None
