"""Encode a corpus into the token files that nanoGPT and llm.c train on, with one core, many, or a Dask cluster.

INPUT is a file, a folder (its .txt and .jsonl files, packed as .gz or .zst or not), a pattern, - for standard input, or
an address that fsspec knows (s3://..., with its package). In a .jsonl file each line has a document, in a field; other
files are a document each, unless --documents or --separator say otherwise. <|endoftext|> ends each document; one
without text is <|endoftext|> alone. That text inside a document is text like any other.

DIR gets train.bin (and val.bin), or shards of --shard-tokens, and manifest.json: what came in, what is in each shard.
The bytes are the same whatever number of workers did the work, and however often it was killed and resumed. A document
told by lines or a separator is held in memory whole; all else is bounded.
"""
from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
from commands import Failed  # noqa: E402
from corpus import executors, tasks  # noqa: E402
from corpus.inputs import STDIN, Input, find  # noqa: E402
from corpus.output import DTYPE, HEADER_BYTES, LLMC_MOST, Output  # noqa: E402

from bpe import Encoding, files  # noqa: E402
from bpe.corpus import CorpusEncoder, Encoded, Settings  # noqa: E402

EXAMPLES = """\
examples:
  python scripts/encode_corpus.py texts --out corpus                             from texts/**.txt to corpus/train.bin
  python scripts/encode_corpus.py 'web/*.jsonl.zst' --out corpus --val-fraction 0.0005 --workers 8
  python scripts/encode_corpus.py web --out corpus --format llmc --shard-tokens 100000000 --eot start --resume
  zstdcat all.zst | python scripts/encode_corpus.py - --separator '\\n\\n\\n' --out corpus
  python scripts/encode_corpus.py s3://bucket/texts --out corpus --dask tcp://scheduler:8786

Exit status: 0 done, 1 failed or something could not be read, 2 wrong usage, 130 Ctrl-C (--resume goes on).
"""


def encode(options: argparse.Namespace) -> dict[str, Any]:
    """Make what the options ask for; the manifest."""
    given = Settings(options.separator, options.field, options.eot, options.errors, options.val_fraction)
    encoding, vocabulary = read_vocabulary(options.vocab)
    encoder = CorpusEncoder(encoding, given, DTYPE)
    inputs = find(options.inputs, "separator" if options.separator else options.documents)
    plan = {
        "settings": {
            **given._asdict(), "documents": options.documents, "format": options.format,
            "shard_tokens": options.shard_tokens, "vocabulary": vocabulary, "task_bytes": tasks.TASK_BYTES,
        },
        "inputs": [list(file) for file in inputs],
    }  # fmt: skip
    output = Output(options.out, options.format, options.shard_tokens)
    work = tasks.deal(inputs, given.separator.encode(), tasks.TASK_BYTES)
    manifest = begin(output, plan, work, options.resume)
    if manifest is None:
        with Progress(output, inputs) as progress:
            for task, encoded in done(encoder, work, inputs, options):
                if not output.has(output.PROGRESS):  # only now: where no worker can be reached, nothing is begun
                    output.begin(plan)
                output.add(task, encoded)
                progress.update()
        manifest = finish(output, plan, inputs)
    return manifest


def begin(output: Output, plan: dict[str, Any], work: Iterator[tasks.Task], resume: bool) -> dict[str, Any] | None:
    """Resume the output, or see to it that it may begin; the manifest if there is nothing left to do."""
    if not resume:
        for name, kind in ((output.MANIFEST, "a corpus"), (output.PLAN, "an unfinished corpus")):
            if output.has(name):
                raise Failed(f"{output.folder} holds {kind}: --resume goes on with it, another --out begins another")
        foreign = sorted(path.name for split in ("train", "val") for path in output.folder.glob(f"{split}*.bin*"))
        if foreign:
            raise Failed(f"{output.folder} holds {foreign[0]}, which is not of this run: it would be written over")
    elif output.has(output.MANIFEST):
        manifest = output.read_manifest()
        demand_same(plan["settings"], manifest["settings"], output.folder)
        sizes = [[file["path"], 0 if file["path"] == STDIN else file["bytes"]] for file in manifest["inputs"]]
        demand_same_inputs([[path, size] for path, _, size, *_ in plan["inputs"]], sizes, output.folder)
        output.clean()
        return manifest
    elif output.has(output.PROGRESS):
        before = output.read(output.PLAN, {"settings": {}, "inputs": [[]]})
        demand_same(plan["settings"], before["settings"], output.folder)
        demand_same_inputs(plan["inputs"], before["inputs"], output.folder)
        output.restore(work)
        output.begin(plan)  # for its `errors` may be another now
        return None
    output.folder.mkdir(parents=True, exist_ok=True)
    return None


def demand_same(now: dict[str, Any], then: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with other settings. (But from strict to replace: where nothing failed, that changes nothing.)"""
    for name, value in now.items():
        if value != then.get(name) and (name, value, then.get(name)) != ("errors", "replace", "strict"):
            raise Failed(f"{name} is {value!r}, but the run in {folder} began with {then.get(name)!r}")


def demand_same_inputs(now: list[list[Any]], then: list[list[Any]], folder: Path) -> None:
    """Refuse to go on with other files; of each its path and what else is known of it."""
    for one, other in zip(now + [[]], then + [[]]):
        if one != other:
            changed = "is not the file it was" if one[:1] == other[:1] else "is new or gone"
            raise Failed(f"{(one or other)[0]} {changed} when the run in {folder} began: begin another")


def done(
    encoder: CorpusEncoder, work: Iterator[tasks.Task], inputs: list[Input], options: argparse.Namespace
) -> Iterator[tuple[tasks.Task, Encoded]]:
    """The tasks, each with what became of it, in order."""
    if options.dask:
        return executors.on_dask(encoder, work, options.dask)
    separator = options.separator.encode()
    if not any(tasks.is_stream(file, separator) for file in inputs):  # else how much there is, nobody knows
        options.workers = min(options.workers, -(-sum(file.size for file in inputs) // tasks.TASK_BYTES))
    if options.workers <= 1:
        return executors.in_this_process(encoder, work)
    return executors.in_processes(encoder, work, options.workers)


def finish(output: Output, plan: dict[str, Any], inputs: list[Input]) -> dict[str, Any]:
    if not any(shards.all_tokens for shards in output.splits.values()):
        for path, reason in output.failed.items():
            say(f"not read: {path}: {reason}")
        output.clean()
        raise Failed("there is no document in what could be read: nothing was written")
    sizes = [
        {"path": file.path, "bytes": output.stdin_bytes if file.path == STDIN else file.size} for file in inputs
    ]
    return output.finish({"settings": plan["settings"], "dtype": "uint16", "inputs": sizes})


def summary(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    for name, split in manifest["splits"].items():
        if split["shards"]:
            names = [shard["file"] for shard in split["shards"]]
            where = f"{folder / names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")
            yield f"{name:<9} {split['tokens']:,} tokens, {split['documents']:,} documents: {where}"
    yield f"manifest  {folder / Output.MANIFEST}"


def read_vocabulary(folder: Path | None) -> tuple[Encoding, dict[str, Any]]:
    """The vocabulary in a folder, or GPT-2's, and what tells it apart from others."""
    paths = (folder / "encoder.json", folder / "vocab.bpe") if folder else files.find_gpt2()
    encoding = Encoding.from_files(*paths)
    if "<|endoftext|>" not in encoding.special_tokens_set:
        raise Failed(f"{paths[0]}: the vocabulary has no <|endoftext|>, which tells documents apart")
    hashes = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    return encoding, {"n_vocab": encoding.n_vocab, "eot_token": encoding.eot_token, "sha256": hashes}


class Progress:
    """On a terminal how far it is, with MB/s and the time left: a bar with tqdm, else a line now and then."""

    EVERY = 10.0  # seconds between lines

    def __init__(self, output: Output, inputs: list[Input]) -> None:
        self.output, self.first = output, output.bytes
        self.total = sum(file.size for file in inputs) if all(file.path != STDIN for file in inputs) else None
        self.quiet = not sys.stderr.isatty()
        self.start = self.said = time.monotonic()
        self.bar: Any = None

    def __enter__(self) -> Progress:
        if not self.quiet:
            try:
                from tqdm import tqdm
            except ImportError:
                return self
            tqdm.monitor_interval = 0  # or it starts a thread, which workers that are forked must not have beside them
            self.bar = tqdm(total=self.total, initial=self.first, unit="B", unit_scale=True, file=sys.stderr)
        return self

    def update(self) -> None:
        now = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.output.bytes - self.bar.n)
        elif not self.quiet and now - self.said >= self.EVERY:
            self.said = now
            speed = (self.output.bytes - self.first) / (now - self.start)
            left = f", {(self.total - self.output.bytes) / speed:,.0f} s left" if self.total and speed else ""
            say(f"{self.output.bytes / 1e6:,.0f} MB, {speed / 1e6:.1f} MB/s{left}")

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        manifest = encode(options)
    except KeyboardInterrupt:
        say("interrupted; --resume goes on")
        return 130
    except (OSError, executors.Died) as error:
        named = isinstance(error, OSError) and error.filename and error.strerror
        reason = f"{error.filename}: {error.strerror}" if named else str(error)
        if (options.out / Output.PROGRESS).exists():
            reason += "; --resume goes on"
    except (Failed, RuntimeError, ValueError) as error:
        reason = str(error)
    else:
        return report(options, manifest)
    say(" ".join(reason.split()))
    return 1


def report(options: argparse.Namespace, manifest: dict[str, Any]) -> int:
    """Tell what was made and what could not be read; the exit status."""
    print(*summary(options.out, manifest), sep="\n")
    for path, reason in manifest["failed"].items():
        say(f"not read: {path}: {reason}")
    return 1 if manifest["failed"] and not options.keep_going else 0


def say(text: str) -> None:
    print(f"encode_corpus.py: {text}", file=sys.stderr, flush=True)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("encode_corpus.py", None, __doc__, EXAMPLES, formatter_class=layout)
    add = parser.add_argument
    add("inputs", nargs="+", metavar="INPUT", help="what to encode, in this order")
    add("--out", type=commands.folder, required=True, metavar="DIR", help="where the token files go")
    add("--documents", choices=("file", "line", "jsonl"), default="file", help="what one is (default %(default)s)")
    add("--separator", metavar="TEXT", help=r"documents are what is between these (\n \r \t \\: as in C)")
    add("--field", default="text", metavar="NAME", help="of the objects in a .jsonl file (default %(default)s)")
    add("--eot", choices=("end", "start"), default="end", help="where <|endoftext|> stands (default %(default)s)")
    add("--format", choices=tuple(HEADER_BYTES), default="nanogpt", help="plain uint16, or with llm.c's header")
    add("--shard-tokens", type=int, metavar="N", help="tokens in each file but the last (default: one file)")
    add("--val-fraction", type=float, default=0.0, metavar="F", help="share of the documents that go to val.bin")
    add("--errors", choices=("strict", "replace"), default="strict", help="bytes that are not UTF-8: stop, or U+FFFD")
    add("--keep-going", action="store_true", help="what cannot be read is listed, but is no failure")
    add("--resume", action="store_true", help="go on with what is in DIR, as if it had never ended")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--workers", type=int, default=commands.cores(), metavar="N", help="processes (%(default)s)")
    who.add_argument("--dask", metavar="ADDRESS", help="of a scheduler, whose workers have this project installed")
    add("--vocab", type=commands.folder, metavar="DIR", help="a folder with encoder.json and vocab.bpe (GPT-2's)")
    options = parser.parse_args(arguments)
    if "" in options.inputs:
        parser.error("an INPUT is empty: the name of a file, a folder or a pattern")
    for name in ("separator", "field", "dask"):
        if getattr(options, name) == "":
            parser.error(f"--{name} is empty: give one, or leave it out")
    try:
        options.separator = unescaped(options.separator or "")
        options.separator.encode()
    except UnicodeEncodeError:
        parser.error(f"--separator {options.separator!r} is not UTF-8")
    except ValueError as error:
        parser.error(f"--separator {options.separator}: {error}")
    if options.separator and options.documents != "file":
        parser.error(f"--separator and --documents {options.documents} both say what a document is: give one")
    if options.workers < 1:
        parser.error(f"--workers is {options.workers}: at least 1 is needed")
    if not 0 <= options.val_fraction < 1:
        parser.error(f"--val-fraction is {options.val_fraction}: it must be from 0 to below 1")
    most = LLMC_MOST if options.format == "llmc" else sys.maxsize
    if options.shard_tokens is not None and not 1 <= options.shard_tokens <= most:
        parser.error(f"--shard-tokens is {options.shard_tokens}: it must be from 1 to {most:,}")
    options.shard_tokens = options.shard_tokens or 0
    return options


def unescaped(text: str) -> str:
    r"""What is written \n, \r, \t or \\ becomes that character, as in C; ValueError for anything else."""
    known = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}

    def one(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ValueError(rf"\{match[1]} stands for nothing; \n, \r, \t and \\ do")
        return known[match[1]]

    return re.sub(r"\\(.?)", one, text, flags=re.DOTALL)


if __name__ == "__main__":
    commands.keep_memory()
    commands.run(main)
