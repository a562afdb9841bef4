"""Figures of what this project is about, each with its finding as the title.

  onehot     one-hot vectors beside a lookup: bytes and seconds, up to GPT-2's batch
  repeated   the gradient of an id that was looked up twice
  touched    the rows a step moves: SGD, Adam, and Adam with row-sparse gradients
  loss       of a training run: its loss, beside guessing and beside knowing only how frequent each token is
  moved      of a training run: where the words were before, and after

The last two read a run's folder (--run): `losses.jsonl`, whose first line is {"vocab_size": V, "unigram_entropy": nats,
"words": {group: [[id, text], ...], ...}} and every other {"step": n, "loss": nats, ...}; and the token table as
"wte.weight" in `before.safetensors` and `after.safetensors`.
"""
from __future__ import annotations

import argparse
import io
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
import numpy as np  # noqa: E402
from benchmarks import pairs  # noqa: E402
from fetching import write  # noqa: E402

from embedding import Embedding, GPTConfig, OneHotEmbedding, memory_report  # noqa: E402
from embedding.memory import size  # noqa: E402
from embedding.neighbours import cosine  # noqa: E402
from embedding.pretrained import read_tensors  # noqa: E402
from minigrad import functional, optim, random  # noqa: E402

GPT2 = GPTConfig()
BATCH, SEQUENCE = 32, 1024
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#777777"  # Okabe and Ito's, told apart by everybody
BESIDE: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "va": "bottom"}
FEWEST_WORDS = 3  # that make a plane

EXAMPLES = """\
examples:
  python scripts/plots.py --out figures                    the three that need no training
  python scripts/plots.py --out figures onehot repeated    two of them
  python scripts/plots.py --out figures --run runs/first   and those of a run

Exit status: 0 all are written, 1 one could not be made, 2 wrong usage.
"""


def onehot(plt: Any, _: Path | None) -> tuple[Any, str]:
    """Bytes and seconds of the two ways to the same vectors, against the tokens in a batch."""
    vocab, width, everything = GPT2.vocab_size, GPT2.n_embd, BATCH * SEQUENCE
    slow = OneHotEmbedding.from_pretrained(random.Generator(0).randn(vocab, width))
    quick = Embedding.from_pretrained(slow.weight)
    all_tokens = everything // 4 ** np.arange(6, -1, -1)  # 8 to 32,768
    affordable = all_tokens[all_tokens <= 128]  # as one-hot vectors, 128 take 26 MB, and twice as much on the way
    seconds = {
        "one-hot vectors times the table": ([best_time(slow, int(n)) for n in affordable], affordable, ORANGE),
        "lookup": ([best_time(quick, int(n)) for n in all_tokens], all_tokens, BLUE),
    }

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    for label, each, colour in (
        ("one-hot vectors, B·T·V floats", vocab * 4, ORANGE),
        ("the vectors looked up, B·T·C floats", width * 4, BLUE),
        ("the ids, B·T integers", 8, GREEN),
    ):
        left.plot(all_tokens, all_tokens * each, color=colour, label=label)
        left.annotate(size(everything * each), (everything, everything * each), (-6, 5), **BESIDE, color=colour)
    left.set(xscale="log", yscale="log", xlabel="tokens in a batch (B·T)", ylabel="bytes")
    left.legend(loc="upper left", frameon=False)
    left.set_ylim(top=1e12)

    for label, (times, tokens, colour) in seconds.items():
        right.plot(tokens, times, "o-", color=colour, label=f"{label}, measured", markersize=4)
    per_token = seconds["one-hot vectors times the table"][0][-1] / affordable[-1]
    rest = all_tokens[all_tokens >= affordable[-1]]
    right.plot(rest, per_token * rest, "--", color=ORANGE, label="the same rate, continued")
    one_hot_takes, lookup_takes = per_token * everything, seconds["lookup"][0][-1]
    for value, colour in ((one_hot_takes, ORANGE), (lookup_takes, BLUE)):
        said = f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
        right.annotate(said, (everything, value), (-6, 5), **BESIDE, color=colour)
    right.set(xscale="log", yscale="log", xlabel="tokens in a batch (B·T)", ylabel="seconds")
    right.legend(loc="upper left", frameon=False)
    right.set_ylim(top=one_hot_takes * 100)
    report = memory_report(GPT2, BATCH, SEQUENCE)
    return figure, (
        f"GPT-2's batch of {BATCH} x {SEQUENCE} tokens as one-hot vectors takes {size(report.one_hot_input)} and about "
        f"{float(f'{one_hot_takes / lookup_takes:.1g}'):,.0f} times as long as a lookup"
    )


def best_time(layer: Embedding, tokens: int) -> float:
    """The shortest of three calls, in seconds."""
    ids = random.Generator(1).randint(0, layer.num_embeddings, (tokens,))
    return min(pairs.seconds(lambda: layer(ids)) for _ in range(3))


def repeated(plt: Any, _: Path | None) -> tuple[Any, str]:
    """The rows of a gradient, added into a table; and what NumPy's += makes of them."""
    ids = np.array([2, 3, 2, 1])
    g = np.array([[1.0, 0.5, -1.0], [0.5, -0.5, 0.0], [1.0, 1.0, -0.5], [-1.0, 0.0, 0.5]], np.float32)
    added = functional.scatter_add(ids, g, 6).numpy()
    assigned = np.zeros_like(added)
    assigned[ids] += g
    figure, panels = plt.subplots(1, 3, figsize=(11, 4.4), layout="constrained")
    for panel, numbers, names, title in (
        (panels[0], g, [f"id {i}" for i in ids], "g: a row for each place\n"),
        (panels[1], added, [f"row {i}" for i in range(6)], "scatter-add: the gradient of the table\n"),
        (panels[2], assigned, [f"row {i}" for i in range(6)], "table[ids] += g: not the gradient,\nrow 2 counts once"),
    ):
        panel.imshow(numbers, cmap="RdBu_r", vmin=-2, vmax=2)
        for (row, column), value in np.ndenumerate(numbers):
            colour = "white" if abs(value) > 1 else "black"
            panel.text(column, row, f"{value:g}", ha="center", va="center", color=colour)
        panel.set(yticks=range(len(names)), yticklabels=names, xticks=[], title=title)
        for row, name in enumerate(names):
            if name.endswith(" 2"):
                panel.add_patch(plt.Rectangle((-0.5, row - 0.5), 3, 1, fill=False, linewidth=2.5, edgecolor="#111"))
    return figure, "Id 2 was looked up twice: its row gets the sum of both gradients"


def touched(plt: Any, _: Path | None) -> tuple[Any, str]:
    """How far each row of a small table moves at each step, for three optimisers on the same lookups."""
    rows, steps, each = 30, 24, 3
    generator = random.Generator(7)
    looked_up = [generator.randperm(rows * 4 // 5)[:each] for _ in range(steps)]  # a fifth of the rows never
    pushes = [generator.randn(each, 8) for _ in range(steps)]
    makers: dict[str, tuple[Callable, bool]] = {
        "SGD": (lambda p: optim.SGD(p, lr=0.1), False),
        "Adam": (lambda p: optim.Adam(p, lr=0.1), False),
        "Adam, row-sparse gradient": (lambda p: optim.Adam(p, lr=0.1), True),
    }
    figure, panels = plt.subplots(1, 3, figsize=(12, 5.4), layout="constrained", sharey=True)
    there = np.zeros((rows, steps), bool)
    for step, ids in enumerate(looked_up):
        there[ids, step] = True
    unasked = {}
    for panel, (name, (make, sparse)) in zip(panels, makers.items()):
        table = random.Generator(1).randn(rows, 8)
        layer = Embedding.from_pretrained(table, freeze=False, sparse=sparse)
        optimiser, moved = make([layer.weight]), np.zeros((rows, steps))
        for step, (ids, push) in enumerate(zip(looked_up, pushes)):
            layer.zero_grad()
            (layer(ids) * push).sum().backward()
            old = layer.weight.data.copy()
            optimiser.step()
            moved[:, step] = np.linalg.norm(layer.weight.data - old, axis=1)
        unasked[name] = int(((moved > 0) & ~there).sum())
        shown = np.where(moved > 0, moved, np.nan)
        image = panel.imshow(shown, cmap="viridis", aspect="auto", vmin=0)
        y, x = np.nonzero(there)
        panel.plot(x, y, "o", color="white", markeredgecolor="#111", markersize=4)
        panel.set(title=f"{name}\n{int((moved > 0).sum())} moves, {unasked[name]} unasked", xlabel="step")
        figure.colorbar(image, ax=panel, label="how far the row moved")
    panels[0].set_ylabel("row; a dot where it was looked up")
    return figure, (
        f"SGD moves the rows a batch looks up; Adam moves {unasked['Adam']} times a row that nobody looked up, "
        "unless its gradient is row-sparse"
    )


def loss(plt: Any, run: Path | None) -> tuple[Any, str]:
    """The loss of each step and its running mean, with the two lines that say what it is worth."""
    about, rows = read_losses(run)
    steps, losses = (np.array([row[key] for row in rows], float) for key in ("step", "loss"))
    window = max(len(losses) // 50, 1)
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    guess, frequencies = math.log(about["vocab_size"]), about["unigram_entropy"]
    vocabulary = f"{about['vocab_size']:,.0f}"
    figure, panel = plt.subplots(figsize=(9, 5), layout="constrained")
    panel.plot(steps, losses, color=BLUE, alpha=0.25, linewidth=0.8)
    panel.plot(steps[window - 1:], smooth, color=BLUE, label=f"loss, mean of {window} steps")
    panel.axhline(guess, color=GREY, linestyle="--", label=f"guessing: ln {vocabulary} = {guess:.2f}")
    panel.axhline(frequencies, color=ORANGE, linestyle="--", label=f"frequencies alone: {frequencies:.2f}")
    panel.set(xlabel="step", ylabel="loss, nats a token")
    panel.legend(frameon=False)
    difference = frequencies - smooth[-1]
    went = "fell" if smooth[-1] < losses[0] else "rose"
    return figure, (
        f"The loss {went} from {losses[0]:.2f} to {smooth[-1]:.2f}, {abs(difference):.2f} "
        f"{'below' if difference >= 0 else 'above'} what knowing only each token's frequency gives"
    )


def moved(plt: Any, run: Path | None) -> tuple[Any, str]:
    """Words before and after in the plane in which, after training, they lie widest."""
    about, _ = read_losses(run)
    assert run is not None
    groups: dict[str, list] = about.get("words") or {}
    ids = np.array([id for words in groups.values() for id, _ in words], int)
    paths = run / "before.safetensors", run / "after.safetensors"
    before, after = (read_tensors(path, ["wte.weight"])["wte.weight"] for path in paths)
    if before.shape != after.shape:
        raise ValueError(f"{run}: the table is {before.shape} before and {after.shape} after: of two runs")
    if len(ids) < FEWEST_WORDS or ids.min() < 0 or ids.max() >= len(after):
        wanted = f"{FEWEST_WORDS} or more ids below {len(after)}"
        raise ValueError(f"{run / 'losses.jsonl'}: words should be {wanted}, got {ids.tolist()}")
    centre = after[ids].mean(axis=0)
    _, _, directions = np.linalg.svd(after[ids] - centre, full_matrices=False)  # the principal components
    start, end = ((table[ids] - centre) @ directions[:2].T for table in (before, after))
    group_of = np.repeat(np.arange(len(groups)), [len(words) for words in groups.values()])
    same = (group_of[:, None] == group_of) & ~np.eye(len(ids), dtype=bool)
    within = [cosine(table[ids][:, None], table[ids][None])[same].mean() for table in (before, after)]

    figure, panel = plt.subplots(figsize=(9, 8), layout="constrained")
    for number, (name, words) in enumerate(groups.items()):
        colour = plt.get_cmap("tab10")(number % 10)
        here = group_of == number
        panel.plot(*start[here].T, ".", color=colour, alpha=0.4)
        panel.plot(*end[here].T, "o", color=colour, label=name)
        for (_, text), (x, y), (to_x, to_y) in zip(words, start[here], end[here]):
            arrow = {"arrowstyle": "->", "color": colour, "alpha": 0.35}
            panel.annotate("", (to_x, to_y), (x, y), arrowprops=arrow)
            panel.annotate(text.strip(), (to_x, to_y), (4, 4), textcoords="offset points", fontsize=9)
    panel.set(xlabel="first principal component, after training", ylabel="second", aspect="equal")
    panel.margins(0.12)
    panel.legend(frameon=False)
    old, new = within
    return figure, f"The mean cosine of words of a kind was {old:.2f} before training and is {new:.2f} after"


def read_losses(run: Path | None) -> tuple[dict, list[dict]]:
    """The first line of a run's losses.jsonl, and the others."""
    if run is None:
        raise ValueError("it is of a training run: --run names its folder")
    path = run / "losses.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        keys = ("vocab_size", "unigram_entropy") if number == 1 else ("step", "loss")
        try:
            row = json.loads(line)
            numbers = {key: float(row[key]) for key in keys}
            if not all(map(math.isfinite, numbers.values())) or numbers.get("vocab_size", 1) < 1:
                raise ValueError
            rows.append(row | numbers)
        except (ValueError, TypeError, KeyError, OverflowError):
            reason = f"a JSON object with {' and '.join(keys)}, finite numbers, should be here"
            raise ValueError(f"{path}, line {number}: {reason}") from None
    if len(rows) < 2:
        raise ValueError(f"{path}: {len(rows)} lines; there is no step in it")
    return rows[0], rows[1:]


FIGURES = {f.__name__: f for f in (onehot, repeated, touched, loss, moved)}
OF_A_RUN = "loss", "moved"


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        import matplotlib
    except ImportError:
        print("plots.py: matplotlib is missing: pip install '.[plots]' brings it", file=sys.stderr)
        return 1
    matplotlib.use("Agg")  # files only: no window, no display needed
    import matplotlib.pyplot as plt

    failed = False
    for name in options.figures:
        try:
            figure, finding = FIGURES[name](plt, options.run)
            figure.suptitle(finding, wrap=True)
            data = io.BytesIO()
            figure.savefig(data, format=options.format, dpi=130)
            path = options.out / f"{name}.{options.format}"
            write(path, data.getvalue())
            print(f"{path}: {finding}")
        except ValueError as error:
            failed = True
            print(f"plots.py: {name}: {error}", file=sys.stderr)
        except BrokenPipeError:
            raise
        except OSError as error:
            failed = True
            print(f"plots.py: {name}: {error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        plt.close("all")
    return int(failed)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("plots.py", description=__doc__, epilog=EXAMPLES, formatter_class=layout)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="some of them (default: all that can be made)")
    parser.add_argument("--out", type=commands.folder, required=True, metavar="DIR", help="where the figures go")
    parser.add_argument("--run", type=commands.folder, metavar="DIR", help="the folder of a training run")
    parser.add_argument("--format", choices=["png", "svg", "pdf"], default="png", help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    for name in options.figures:
        if name not in FIGURES:
            parser.error(f"there is no figure {name!r}: choose from {', '.join(FIGURES)}")
        if name in OF_A_RUN and not options.run:
            parser.error(f"{name} is of a training run: --run names its folder")
    options.figures = options.figures or [name for name in FIGURES if options.run or name not in OF_A_RUN]
    return options


if __name__ == "__main__":
    commands.run(main)
