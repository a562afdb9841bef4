"""A run: a model, its optimiser, and the place in the text it has come to; and the folder that it is kept in."""
from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from commands import Failed
from fetching import write

from embedding.model import NextToken
from embedding.pretrained import read_tensors
from embedding.windows import SlidingWindows, batches
from minigrad import optim, random, saving
from training import checkpoints

ANOTHER = "another --out begins another"
LESS = "a smaller --lr, in another --out, may help"
LEAST = 0.05  # of the learning rate remains when it has fallen


@dataclasses.dataclass(frozen=True)
class Settings:
    """What must be the same for a run to be continued."""

    seed: int = 0
    width: int = 64
    context: int = 16
    hidden: int = 128
    batch: int = 512
    lr: float = 1e-2
    decay: int = 3800
    vocab_size: int = 0
    text: str = ""  # the SHA-256 of its ids


def rate(settings: Settings, step: int) -> float:
    """The learning rate of a step, the first is 0: it falls in a straight line, then stays.

    Large steps bring the rows to their places, small ones let what is only noise in them average out. It hangs on the
    step alone, not on how many there are to be, so that a run can be ended, and gone on with, at any of them.

    >>> settings = Settings(lr=1.0, decay=100)
    >>> rate(settings, 0), rate(settings, 50), rate(settings, 99) == rate(settings, 5000) == LEAST
    (1.0, 0.5, True)
    """
    return settings.lr * max(1 - step / settings.decay, LEAST)


class Run:
    """A model, its optimiser, and the place in the text that training has come to."""

    def __init__(self, settings: Settings, windows: SlidingWindows):
        random.manual_seed(settings.seed)
        self.settings, self.windows = settings, windows
        self.model = NextToken(settings.vocab_size, settings.width, settings.context, settings.hidden)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=settings.lr)
        self.losses: list[float] = []
        self.touched = np.zeros(settings.vocab_size, bool)  # rows that were looked up
        self.order = random.get_state()  # of the generator before it drew the order of the present pass,
        self.batch = 0  # and how many batches of that pass are done

    def steps(self) -> Iterator[float]:
        """Train without end: the loss of each step, once it is taken."""
        while True:
            random.set_state(self.order)
            for x, y in batches(self.windows, self.settings.batch, shuffle=True, start=self.batch):
                loss = self.model.loss(x, y[:, -1])  # of a window's targets the last one has all of it as context
                if not math.isfinite(loss.item()):
                    raise Failed(f"the loss of step {len(self.losses) + 1:,} is {loss.item()}: {LESS}")
                self.model.zero_grad()
                loss.backward()
                self.optimizer.lr = rate(self.settings, len(self.losses))
                self.optimizer.step()
                self.losses.append(loss.item())
                self.touched[x] = True
                self.batch += 1
                yield self.losses[-1]
            self.order, self.batch = random.get_state(), 0

    def tables(self) -> dict[str, np.ndarray]:
        return {f"{name}.weight": getattr(self.model.input, name).weight.data for name in ("wte", "wpe")}

    def state(self) -> dict[str, Any]:
        return {
            "settings": dataclasses.asdict(self.settings),
            "model": {name: parameter.data for name, parameter in self.model.named_parameters()},
            "optimizer": self.optimizer.state_dict(),
            "losses": np.array(self.losses),
            "touched": self.touched,
            "order": self.order,
            "batch": self.batch,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state()` gave. KeyError, ValueError or their like for what it cannot have given."""
        count, touched, losses = state["batch"], state["touched"], state["losses"]
        most = len(self.windows) // self.settings.batch
        if type(count) is not int or not 0 <= count <= most:
            raise ValueError(f"batch is {count!r}, where 0 to {most:,} can be done of a pass")
        if touched.shape != self.touched.shape or touched.dtype != bool:
            raise ValueError(f"touched is {touched.dtype} {touched.shape}, where bool {self.touched.shape} should be")
        if losses.ndim != 1 or losses.dtype.kind != "f":
            raise ValueError(f"losses is {losses.dtype} {losses.shape}, where a float for each step should be")
        random.set_state(state["order"])
        self.model.load_state_dict(state["model"] | {"head.weight": state["model"]["input.wte.weight"]})
        self.optimizer.load_state_dict(state["optimizer"])
        self.losses, self.touched = losses.tolist(), touched
        self.order, self.batch = state["order"], count


class Folder:
    """The files of a run."""

    def __init__(self, path: Path):
        self.path = path
        self.before, self.after = path / "before.safetensors", path / "after.safetensors"
        self.losses, self.checkpoint = path / "losses.jsonl", path / "checkpoint.safetensors"

    def settings(self) -> Settings:
        """Those of the run there. ValueError for a file that is something else, Failed for one of another version."""
        state = checkpoints.load(self.checkpoint)
        saved, ours = state.get("settings") if isinstance(state, dict) else None, dataclasses.asdict(Settings())
        if not isinstance(saved, dict):
            raise Failed(f"{self.checkpoint}: no checkpoint of a run: it has no settings")
        odd = saved.keys() ^ ours.keys() or {name for name in ours if type(saved[name]) is not type(ours[name])}
        if odd:
            raise Failed(
                f"{self.checkpoint}: a run of another version of this script, whose settings differ in "
                f"{', '.join(sorted(odd))}: {ANOTHER}"
            )
        return Settings(**saved)

    def begin(self, run: Run, about: dict[str, Any]) -> None:
        """The tables before anything is learned, and a checkpoint: a disk without room for it shows now."""
        self.path.mkdir(parents=True, exist_ok=True)
        saving.save(run.tables(), self.before)
        self.save(run, about)

    def save(self, run: Run, about: dict[str, Any]) -> None:
        """Each file whole or not at all; the checkpoint last, so that what it counts on is there.

        Failed, with all as it was, for tables that no longer have numbers in them.
        """
        if not all(np.isfinite(table).all() for table in run.tables().values()):
            step = len(run.losses)
            raise Failed(f"after step {step:,} the tables are not finite: {LESS}")
        lines = [about, *({"step": step, "loss": loss} for step, loss in enumerate(run.losses, 1))]
        write(self.losses, "".join(json.dumps(line) + "\n" for line in lines).encode())
        saving.save(run.tables(), self.after)
        checkpoints.save(self.checkpoint, run.state())

    def restore(self, run: Run) -> None:
        self.table(self.before)  # which the summary needs: were it not there, that would show at the end
        try:
            run.restore(checkpoints.load(self.checkpoint))
        except (KeyError, TypeError, AttributeError, RuntimeError, ValueError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
            raise Failed(
                f"{self.checkpoint}: damaged, or a run of another version of this script: {reason}; {ANOTHER}"
            ) from None

    def table(self, path: Path) -> np.ndarray:
        return read_tensors(path, ["wte.weight"])["wte.weight"]


def demand_same(saved: Settings, asked: dict[str, Any], path: Path) -> None:
    """Failed unless the run saved at `path` has the settings that are asked for."""
    for name, value in asked.items():
        if getattr(saved, name) != value:
            raise Failed(
                f"{path}: a run with {name} {getattr(saved, name)}, not {value}: another run takes another --out"
            )
