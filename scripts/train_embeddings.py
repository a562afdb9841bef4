"""Train token vectors on a text, from random rows to rows whose neighbours make sense, and say what it came to.

The model is embedding/model.py: sixteen tokens in, the next one out. DIR gets `before.safetensors` and
`after.safetensors`, each with the token table "wte.weight" (V, C) and the position table "wpe.weight" (T, C);
`losses.jsonl`, a line a step; and `checkpoint.safetensors`, from which --resume goes on to the same numbers.
"""
from __future__ import annotations

import argparse
import dataclasses
import importlib
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
import numpy as np  # noqa: E402
from commands import Failed, folder, path  # noqa: E402
from training.progress import Progress, UntilInterrupted, clock  # noqa: E402
from training.run import Folder, Run, Settings, demand_same  # noqa: E402
from training.text import fingerprint, read_vocabulary, read_windows, token_counts  # noqa: E402
from training.words import Words, report, unigram_entropy  # noqa: E402

from minigrad.threads import one_blas_thread  # noqa: E402

EXAMPLES = """\
examples:
  python scripts/train_embeddings.py --out runs/first --minutes 10            on a text that is fetched (12 MB)
  python scripts/train_embeddings.py --out runs/mine --text book.txt --steps 500 --plots figures
  python scripts/train_embeddings.py --out runs/first --steps 9000 --resume   goes on with it
  python scripts/train_embeddings.py --profile                                where the time goes

Ctrl-C ends after the present step and saves. Exit status: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C.
"""

STEPS = 3800  # about ten minutes on two cores


def train(run: Run, folder: Folder, about: dict[str, Any], options: argparse.Namespace) -> bool:
    """Steps until there are enough, the time is up, or Ctrl-C (then False); what they came to is saved."""
    end = time.monotonic() + options.minutes * 60 if options.minutes else math.inf
    steps, last = run.steps(), options.steps or math.inf
    progress = Progress(run, options.steps, options.minutes)
    with UntilInterrupted() as interrupt, one_blas_thread():
        try:
            while len(run.losses) < last and time.monotonic() < end and not interrupt.asked:
                next(steps)
                progress.update()
                if len(run.losses) % options.save_every == 0:
                    folder.save(run, about)
        finally:
            progress.close()
        folder.save(run, about)
    return not interrupt.asked


def summary(run: Run, folder: Folder, words: Words, counts: np.ndarray, seconds: float, steps: int) -> Iterator[str]:
    """The lines that a run ends with."""
    settings, last = run.settings, run.losses[-100:]
    before, after = folder.table(folder.before), folder.table(folder.after)
    targets = len(run.losses) * settings.batch
    yield f"trained           {len(run.losses):,} steps of {settings.batch:,} targets: {targets:,} in all"
    if steps:
        speed = steps * settings.batch / seconds
        yield f"time              {clock(seconds)} for {steps:,} steps, {speed:,.0f} tokens/s"
    if last:
        yield f"loss              {np.mean(last):.3f}, mean of {len(last)} steps, each batch before it is learned from"
    yield f"  guessing        {math.log(settings.vocab_size):.3f} = ln {settings.vocab_size:,}"
    yield f"  frequencies     {unigram_entropy(counts):.3f}, the unigram entropy: how often each token occurs, no more"
    moved = int((before != after).any(axis=1).sum())
    looked_up = int(run.touched.sum())
    yield f"rows looked up    {looked_up:,} of {len(after):,}; {moved:,} moved, for the head scores every row"
    yield from report(words, before, after)


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        return run_script(options)
    except KeyboardInterrupt:
        print("train_embeddings.py: interrupted; what was saved before is as it was", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (Failed, ImportError, ValueError, IndexError) as error:  # ImportError: of an extra
        reason = str(error)
    except MemoryError as error:
        reason = f"there is not enough memory; a smaller --batch, --hidden, --width may help: {error}".rstrip(": ")
    print(f"train_embeddings.py: {' '.join(reason.split())}", file=sys.stderr)
    return 1


def run_script(options: argparse.Namespace) -> int:
    if options.plots and not options.profile:
        demand_matplotlib()
    folder = None if options.profile else Folder(options.out)
    settings = settings_asked_for(options, folder)
    encoding = read_vocabulary(options.vocab)
    windows = read_windows(options.text, encoding, settings.context, settings.batch)
    source = {"vocab_size": encoding.n_vocab, "text": fingerprint(windows.ids)}
    if folder and options.resume:
        demand_same(settings, source, folder.checkpoint)
    run = Run(dataclasses.replace(settings, **source), windows)
    if not folder:
        from training.profile import profile

        print(*profile(run), sep="\n")
        return 0

    counts = token_counts(windows.ids, encoding.n_vocab)
    words = Words(counts, lambda id: encoding.decode_bytes([id]))
    about = {"vocab_size": encoding.n_vocab, "unigram_entropy": unigram_entropy(counts), "words": words.groups()}
    if options.resume:
        folder.restore(run)
    else:
        folder.begin(run, about)
    begin, first = time.monotonic(), len(run.losses)
    finished = train(run, folder, about, options)
    seconds, steps = time.monotonic() - begin, len(run.losses) - first
    print(*summary(run, folder, words, counts, seconds, steps), sep="\n")
    if not finished:
        print(f"train_embeddings.py: stopped after step {len(run.losses):,}; --resume goes on", file=sys.stderr)
        return 130
    if options.plots:
        import plots

        figures = ["loss", "moved"]
        if sum(map(len, about["words"].values())) < plots.FEWEST_WORDS:
            print("plots: too few of the words are in this text to draw how they moved")
            figures.remove("moved")
        return plots.main([*figures, "--run", str(folder.path), "--out", str(options.plots)])
    return 0


def demand_matplotlib() -> None:
    """ImportError if the figures could not be drawn, so that it is said before the training."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise ImportError("--plots needs matplotlib, which is not installed: pip install '.[plots]'") from None


def settings_asked_for(options: argparse.Namespace, folder: Folder | None) -> Settings:
    """Those of the command line, or of the run that is resumed, which may not be contradicted."""
    given = {field.name: getattr(options, field.name, None) for field in dataclasses.fields(Settings)}
    given = {name: value for name, value in given.items() if value is not None and name != "text"}
    if not folder:
        return Settings(**given)
    if not options.resume:
        if folder.checkpoint.exists():
            raise Failed(f"{folder.path} holds a run: --resume goes on with it, another --out begins another")
        return Settings(**given)
    if not folder.checkpoint.exists():
        raise Failed(f"{folder.checkpoint} is not there: nothing to resume")
    saved = folder.settings()
    demand_same(saved, given, folder.checkpoint)
    return saved


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("train_embeddings.py", None, __doc__, EXAMPLES, formatter_class=layout)
    add = parser.add_argument
    add("--text", type=path, metavar="FILE", help="UTF-8 text, or ids in a token file .bin or .npy (default: fetched)")
    add("--out", type=folder, metavar="DIR", help="where the run is kept")
    add("--steps", type=int, metavar="N", help=f"end after so many (default {STEPS:,}, or as many as --minutes allow)")
    add("--minutes", type=float, metavar="M", help="end after so many")
    add("--seed", type=int, metavar="S", help=f"the same seed, the same run (default {Settings.seed})")
    add("--resume", action="store_true", help="go on with the run in DIR, as if it had never ended")
    add("--plots", type=folder, metavar="DIR", help="draw the loss, and how words moved, there (extra: plots)")
    add("--vocab", type=folder, metavar="DIR", help="a folder with encoder.json and vocab.bpe (default: GPT-2's)")
    add("--width", type=int, metavar="C", help=f"numbers in a vector (default {Settings.width})")
    add("--context", type=int, metavar="T", help=f"tokens read for one prediction (default {Settings.context})")
    add("--hidden", type=int, metavar="H", help=f"units of the hidden layer (default {Settings.hidden})")
    add("--batch", type=int, metavar="B", help=f"predictions in a step (default {Settings.batch})")
    add("--lr", type=float, metavar="L", help=f"AdamW's learning rate at the first step (default {Settings.lr})")
    add("--decay", type=int, metavar="N", help=f"steps until a twentieth of it is left (default {Settings.decay:,})")
    add("--save-every", type=int, metavar="N", default=200, help="steps between checkpoints (default %(default)s)")
    add("--profile", action="store_true", help="time the parts of a step and the matrix products alone; keep nothing")
    options = parser.parse_args(arguments)
    if not options.out and not options.profile:
        parser.error("--out is missing: the folder that the run is kept in")
    for name in ("steps", "minutes", "width", "context", "hidden", "batch", "lr", "decay", "save_every"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{name.replace('_', '-')} is {value}: it must be above 0, and finite")
    if options.steps is None and options.minutes is None:
        options.steps = STEPS
    return options


if __name__ == "__main__":
    commands.run(main)
