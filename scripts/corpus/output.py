"""Where ids go: token files in shards, and a record of how far they are from which a run can go on.

A shard is written as `train_000000.bin.partial`. After every few tasks what was written is made to last on disk,
then the record is replaced (progress.json: tasks done, ids in the unfinished shards, shards finished), and only then
are the shards it calls finished renamed. So whenever a run is killed, the record is right about what it tells, and what
it does not tell is written again: a file that is longer than recorded is cut to its length.

Formats (in both an id is an uint16, little-endian; embedding/windows.py reads them):
- nanogpt: nothing but ids. Source: karpathy/nanoGPT, data/openwebtext/prepare.py.
- llmc: 256 int32 before them, the first three 20240520, 1 and the number of ids. Source: karpathy/llm.c,
  dev/data/data_common.py.
"""
from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from commands import Failed

from bpe.corpus import Encoded
from corpus.inputs import STDIN
from corpus.tasks import Task

DTYPE = "<u2"
HEADER_BYTES = {"nanogpt": 0, "llmc": 1024}
LLMC_MOST = 2**31 - 1  # ids that the header can count
EVERY = 8  # tasks between records: the fewer, the less is left to be made last on disk when the workers are done
PARTIAL = ".partial"
SHARD = {"file": "", "tokens": 0, "sha256": ""}  # what is recorded of a finished one


class Shards:
    """The ids of "train" or "val", cut into files of exactly `most` ids, the last one apart; or one file if 0."""

    def __init__(self, folder: Path, name: str, format: str, most: int) -> None:
        self.folder, self.name, self.format, self.most = folder, name, format, most
        self.finished: list[dict[str, Any]] = []  # {"file", "tokens", "sha256"} of each
        self.tokens = 0  # in the shard that is written, and
        self.documents = 0  # in all
        self.file: io.FileIO | None = None
        self.digest = hashlib.sha256()  # of what is in the file

    @property
    def path(self) -> Path:
        return self.folder / (f"{self.name}_{len(self.finished):06d}.bin" if self.most else f"{self.name}.bin")

    @property
    def all_tokens(self) -> int:
        return self.tokens + sum(shard["tokens"] for shard in self.finished)

    def append(self, ids: np.ndarray) -> None:
        most = self.most or (LLMC_MOST if self.format == "llmc" else 1 << 62)
        while len(ids):
            if self.tokens == most:
                if not self.most:
                    raise Failed(f"{self.path}: llm.c's header counts no more than {most:,} ids; give --shard-tokens")
                self.complete()
            written, ids = ids[: most - self.tokens], ids[most - self.tokens :]
            self._write(written.view(np.uint8).data)
            self.tokens += len(written)

    def complete(self) -> None:
        """Finish the shard that is written; it gets its name at the next record."""
        if not self.tokens:
            return
        assert self.file is not None
        if self.format == "llmc":
            header = np.zeros(256, "<i4")
            header[:3] = 20240520, 1, self.tokens
            self.file.seek(0)
            self._write(header.tobytes())
            self._hash_again()  # for the header, which came first, was empty until now
        self.flush()
        self.file.close()
        self.file = None
        self.finished.append({"file": self.path.name, "tokens": self.tokens, "sha256": self.digest.hexdigest()})
        self.tokens = 0

    def flush(self) -> None:
        """Make what was written last on disk."""
        if self.file:
            os.fsync(self.file.fileno())

    def rename(self) -> None:
        """Give finished shards their names."""
        for shard in self.finished:
            partial = self.folder / (shard["file"] + PARTIAL)
            if partial.exists():
                os.replace(partial, self.folder / shard["file"])

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a record: finish what it was about to, and cut what was written after it."""
        self.finished, self.tokens, self.documents = state["finished"], state["tokens"], state["documents"]
        self.rename()
        for shard in self.finished:
            if not (self.folder / shard["file"]).exists():
                raise Failed(f"{self.folder / shard['file']} is finished by {Output.PROGRESS}, but it is not there")
        current = self.path.name + PARTIAL if self.tokens else ""
        for path in self.folder.glob(f"{self.name}*{PARTIAL}"):
            if path.name != current:
                path.unlink()
        if self.tokens:
            length = self.length(self.tokens)
            there = (self.folder / current).stat().st_size if (self.folder / current).exists() else 0
            if there < length:
                raise Failed(f"{self.folder / current} has {there:,} bytes, where {length:,} were written")
            self._open("r+")
            assert self.file is not None
            self.file.truncate(length)
            self._hash_again()

    def length(self, tokens: int) -> int:
        """The bytes of a shard of so many tokens."""
        return HEADER_BYTES[self.format] + tokens * np.dtype(DTYPE).itemsize

    def state(self) -> dict[str, Any]:
        return {"finished": self.finished, "tokens": self.tokens, "documents": self.documents}

    def _open(self, mode: str) -> None:
        # unbuffered: a disk that is full is told by the write that fills it, not when the file is closed
        self.file = io.FileIO(self.folder / (self.path.name + PARTIAL), mode)

    def _hash_again(self) -> None:
        """Hash all that is in the file, and stay at its end."""
        assert self.file is not None
        self.digest = hashlib.sha256()
        self.file.seek(0)
        while part := self.file.read(1 << 20):
            self.digest.update(part)

    def _write(self, data: bytes | memoryview) -> None:
        if not self.file:
            self._open("w+")
            self.digest = hashlib.sha256()
            self._write(bytes(HEADER_BYTES[self.format]))  # filled in when the number of ids is known
        assert self.file is not None
        self.digest.update(data)
        view = memoryview(data)
        try:
            while view:
                view = view[self.file.write(view) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.file.name)) from None


class Output:
    """A folder with the token files of a corpus, manifest.json, and, while it is made, plan.json and progress.json."""

    MANIFEST, PLAN, PROGRESS = "manifest.json", "plan.json", "progress.json"

    def __init__(self, folder: Path, format: str, shard_tokens: int) -> None:
        self.folder = folder
        self.splits = {name: Shards(folder, name, format, shard_tokens) for name in ("train", "val")}
        self.failed: dict[str, str] = {}  # what could not be read, and why
        self.tasks = self.bytes = 0  # done, and how much of the inputs that is
        self.stdin, self.stdin_bytes = hashlib.sha256(), 0  # has to be the same when a run goes on
        self.recorded = 0

    def add(self, task: Task, encoded: Encoded) -> None:
        """Append what became of the next task."""
        for shards, ids, documents in zip(self.splits.values(), encoded.ids, encoded.documents):
            shards.append(ids)
            shards.documents += documents
        for path, reason in encoded.failures:
            self.failed.setdefault(path, reason)
        self.count_stdin(task)
        self.tasks += 1
        self.bytes += task.bytes
        if self.tasks - self.recorded >= EVERY:
            self.record()

    def count_stdin(self, task: Task) -> None:
        for span in task.spans:
            if span.path == STDIN and span.data:
                self.stdin.update(span.data)
                self.stdin_bytes += len(span.data)

    def record(self) -> None:
        """Make everything so far last, and note how far that is."""
        for shards in self.splits.values():
            shards.flush()
        self._write(self.PROGRESS, self.state())
        self.recorded = self.tasks
        for shards in self.splits.values():
            shards.rename()

    def state(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks, "bytes": self.bytes, "failed": self.failed,
            "stdin": self.stdin.hexdigest(),
            "splits": {name: shards.state() for name, shards in self.splits.items()},
        }  # fmt: skip

    def begin(self, plan: dict[str, Any]) -> None:
        self._write(self.PLAN, plan)
        self.record()

    def restore(self, tasks: Iterator[Task]) -> None:
        """Go on from the last record, after those of the tasks that it calls done."""
        example = self.state()
        for split in example["splits"].values():
            split["finished"] = [SHARD]
        state = self.read(self.PROGRESS, example)
        self.bytes, self.failed = state["bytes"], state["failed"]
        for task in itertools.islice(tasks, state["tasks"]):
            self.count_stdin(task)
            self.tasks += 1
        if self.stdin.hexdigest() != state["stdin"]:
            raise Failed(f"the first {self.stdin_bytes:,} bytes of standard input are not those of the run to resume")
        if self.tasks < state["tasks"]:
            reason = f"{state['tasks']:,} tasks are done, and there are {self.tasks:,}"
            raise Failed(f"{self.folder / self.PROGRESS} is damaged: {reason}")
        self.recorded = self.tasks
        for name, shards in self.splits.items():
            shards.restore(state["splits"][name])

    def finish(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Finish the last shards and write the manifest, which tells what is in them and came into them."""
        for shards in self.splits.values():
            shards.complete()
        self.record()
        manifest = {**manifest, "failed": self.failed, "splits": self.summary()}
        self._write(self.MANIFEST, manifest)
        self.clean()
        return manifest

    def summary(self) -> dict[str, Any]:
        return {
            name: {"tokens": shards.all_tokens, "documents": shards.documents, "shards": shards.finished}
            for name, shards in self.splits.items()
        }

    def read_manifest(self) -> dict[str, Any]:
        """The manifest of a finished corpus; Failed if it is damaged, or a shard in it is not as long as it says."""
        example = self.summary()
        for split in example.values():
            split["shards"] = [SHARD]
        example = {"settings": {}, "inputs": [{"path": "", "bytes": 0}], "failed": {}, "splits": example}
        manifest = self.read(self.MANIFEST, example)
        for name, shards in self.splits.items():
            for shard in manifest["splits"][name]["shards"]:
                path = self.folder / shard["file"]
                length, there = shards.length(shard["tokens"]), path.stat().st_size if path.exists() else 0
                if there != length:
                    raise Failed(f"{path} has {there:,} bytes, where {self.MANIFEST} says {length:,}")
        return manifest

    def clean(self) -> None:
        """Leave the token files and the manifest alone."""
        for name in (self.PROGRESS, self.PROGRESS + PARTIAL, self.PLAN, self.PLAN + PARTIAL, self.MANIFEST + PARTIAL):
            (self.folder / name).unlink(missing_ok=True)

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def read(self, name: str, example: dict[str, Any]) -> dict[str, Any]:
        """What is in one of the three files; Failed if it is damaged, or not made like the example."""
        try:
            data = json.loads((self.folder / name).read_text(encoding="utf-8"))
            reason = unlike(data, example)
        except FileNotFoundError:
            reason = "it is not there"
        except ValueError as error:
            reason = str(error)
        if reason:
            raise Failed(f"{self.folder / name} is damaged: {reason}")
        return data

    def _write(self, name: str, data: dict[str, Any]) -> None:
        """Replace a file by another, so that whenever the process ends there is one of them."""
        path = self.folder / name
        try:
            with open(self.folder / (name + PARTIAL), "w", encoding="utf-8") as file:
                file.write(json.dumps(data, indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(file.name, path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None


def unlike(data: Any, example: Any, place: str = "it") -> str:
    """How data from JSON is made otherwise than an example, where, or ""; numbers are counts.

    Of an object the names in the example must be there, of a list each part is like the first of the example.

    >>> unlike({"tasks": 1, "splits": {"train": []}}, {"tasks": 0, "splits": {"train": {}}})
    'splits: train is of type list, where dict should be'
    """
    if type(data) is not type(example):
        return f"{place} is of type {type(data).__name__}, where {type(example).__name__} should be"
    if isinstance(data, int) and data < 0:
        return f"{place} is {data}, where 0 or more should be"
    if isinstance(data, list) and example:
        return next(filter(None, (unlike(part, example[0], f"a part of {place}") for part in data)), "")
    if isinstance(data, dict):
        for name in example:
            if name not in data:
                return f"{place} has no {name!r}"
            reason = unlike(data[name], example[name], name if place == "it" else f"{place}: {name}")
            if reason:
                return reason
    return ""
