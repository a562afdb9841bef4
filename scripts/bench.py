"""How fast this is beside the packages it is compared with: a row a figure, a ratio measured here and now.

    python scripts/bench.py                  every suite
    python scripts/bench.py layer --quick    a look at one of them
    python scripts/bench.py bpe --json       a JSON object a line, for machines

A row says: what; ours, median and best; theirs; the ratio, median of the pairs with the middle half of them
in brackets; the bound, and whether it holds. A ratio states its direction: "time, ours / torch" wants to be
small, "speed, ours / tiktoken" large. A figure that falls short is printed, it is no error. Exit code: 0 all
measured, 1 a suite failed, 2 the command was not understood.
"""
from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
from benchmarks import pairs  # noqa: E402

SUITES = {
    "layer": "layer",
    "bpe": "tokenizer",
    "train": "training",
    "train-bpe": "train_bpe",
    "corpus": "corpus",
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    # read by NumPy's BLAS, torch and minigrad on their first import or use: as many for ours as for theirs
    os.environ.update(dict.fromkeys(THREADS, str(options.threads)))
    names = options.suites or list(SUITES)
    suites, failures = {}, []
    for name in names:
        try:
            suites[name] = importlib.import_module(f"benchmarks.{SUITES[name]}")
        except Exception as error:
            failures.append(f"suite {name} cannot be imported: {type(error).__name__}: {error}")
    peers = dict.fromkeys(peer for suite in suites.values() for peer in getattr(suite, "PEERS", ()))
    _print_conditions(options, list(peers))
    for name, suite in suites.items():
        try:
            for row in suite.rows(options.quick):
                as_json = {"suite": name, **row.as_dict()}
                print(json.dumps(as_json) if options.json else f"{name}: {row.text()}", flush=True)
        except Exception as error:
            failures.append(f"suite {name} stopped: {type(error).__name__}: {error}")
    for failure in failures:
        print(f"bench.py: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    description, _, details = (__doc__ or "").partition("\n")
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("bench.py", None, description, details, formatter_class=layout)
    add, choices = parser.add_argument, ", ".join(SUITES)
    add("suites", nargs="*", metavar="suite", help=f"some of {choices} (default: all)")
    add("--quick", action="store_true", help="a look: fewer pairs, smaller sizes")
    add("--json", action="store_true", help="a JSON object a line: the conditions, then the rows")
    add("--threads", type=int, default=commands.cores(), help="for ours and theirs alike (default: %(default)s)")
    options = parser.parse_args(arguments)
    for name in options.suites:
        if name not in SUITES:
            parser.error(f"there is no suite {name!r}: choose from {choices}")
    if options.threads < 1:
        parser.error(f"--threads is {options.threads}: at least 1 is needed")
    return options


def _print_conditions(options: argparse.Namespace, peers: list[str]) -> None:
    """The first line: what ran, on how many threads, beside whom."""
    versions = {name: pairs.version(name) for name in ("numpy", *peers)}
    conditions = {
        "python": platform.python_version(),
        "versions": versions,
        "threads": options.threads,
        "pairs": pairs.QUICK_PAIRS if options.quick else pairs.PAIRS,
        "machine": f"{platform.system()} {platform.machine()}",
    }
    if options.json:
        print(json.dumps(conditions), flush=True)
        return
    named = ", ".join(f"{name} {version or 'not installed: skipped'}" for name, version in versions.items())
    print(
        f"Python {conditions['python']}, {named}; threads: {options.threads}; pairs: {conditions['pairs']}"
        f"{' (a quick look)' if options.quick else ''}; {conditions['machine']}",
        flush=True,
    )


if __name__ == "__main__":
    commands.run(main)
