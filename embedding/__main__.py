"""What the embedding of a GPT weighs, and what a lookup is: python -m embedding memory, python -m embedding table."""
from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from embedding.memory import GPT2_SIZES, memory_report

EXAMPLES = """\
examples:
  python -m embedding memory                          the smallest GPT-2, 32 texts of 1,024 tokens
  python -m embedding memory --model gpt2-xl          the largest
  python -m embedding memory --model all --batch 1    the four, one below the other
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m embedding", None, __doc__, EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)

    memory = commands.add_parser("memory", help="parameters, gradients, Adam's state, activations, the one-hot input")
    memory.add_argument("--model", choices=[*GPT2_SIZES, "all"], default="gpt2", help="(default: %(default)s)")
    memory.add_argument("--batch", type=int, default=32, metavar="B", help="texts in a batch (default: %(default)s)")
    memory.add_argument("--sequence", type=int, default=1024, metavar="T", help="tokens each (default: %(default)s)")
    memory.add_argument("--json", action="store_true", help="a JSON object for each model, in bytes")

    options = parser.parse_args(arguments)
    try:
        print_memory(options)
    except ValueError as error:
        parser.error(str(error))
    return 0


def print_memory(options: argparse.Namespace) -> None:
    names = list(GPT2_SIZES) if options.model == "all" else [options.model]
    reports = {name: memory_report(GPT2_SIZES[name], options.batch, options.sequence) for name in names}
    if options.json:
        for name, report in reports.items():
            print(json.dumps({"model": name, **dataclasses.asdict(report)}))
        return
    blocks = (f"{name}, {options.batch} x {options.sequence} tokens, float32\n{r}" for name, r in reports.items())
    print("\n\n".join(blocks))


if __name__ == "__main__":
    sys.exit(main())
