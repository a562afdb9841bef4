"""What a GPT's embedding weighs, and the smallest table there is to look at."""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys

import numpy as np

from embedding.embedding import Embedding
from embedding.memory import GPT2_SIZES, memory_report
from embedding.onehot import OneHotEmbedding
from minigrad import functional, random

EXAMPLES = """\
examples:
  python -m embedding memory                          the smallest GPT-2, 32 texts of 1,024 tokens
  python -m embedding memory --model gpt2-xl          the largest
  python -m embedding memory --model all --batch 1    the four, one below the other
  python -m embedding table                           6 rows of 3, as torch draws them; rows 2, 3, 5 and 1
  python -m embedding table --seed 7 --rows 4 0 0     rows of another table
"""


LARGEST = 1 << 40  # of the numbers; NumPy's own words about larger ones do not name them


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

    table = commands.add_parser("table", help="draw a small table, and look rows up in it")
    table.add_argument("ids", nargs="*", type=int, default=[2, 3, 5, 1], metavar="ID", help="(default: 2 3 5 1)")
    table.add_argument("--seed", type=int, default=123, help="(default: %(default)s)")
    table.add_argument("--rows", type=int, default=6, metavar="V", help="(default: %(default)s)")
    table.add_argument("--width", type=int, default=3, metavar="C", help="(default: %(default)s)")

    options = parser.parse_args(arguments)
    for name in ("batch", "sequence", "rows", "width"):
        if getattr(options, name, 0) > LARGEST:
            parser.error(f"--{name} is {getattr(options, name)!s:.40}: it can be at most {LARGEST:,}")
    try:
        if sys.stdout is None:  # Python's word for a closed one, as after >&-
            raise OSError("standard output is closed")
        {"memory": print_memory, "table": print_table}[options.command](options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("python -m embedding: interrupted", file=sys.stderr)
        return 130
    except (ValueError, IndexError, TypeError, MemoryError) as error:
        parser.error(str(error))
    except BrokenPipeError:  # the reader, `head` perhaps, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if sys.stdout:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the end of Python would try it again
        print(f"python -m embedding: {error}", file=sys.stderr)
        return 1
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


def print_table(options: argparse.Namespace) -> None:
    random.manual_seed(options.seed)
    layer = Embedding(options.rows, options.width)
    slow = OneHotEmbedding.from_pretrained(layer.weight)
    looked_up = layer(options.ids)
    print(f"manual_seed({options.seed}), then {layer}\n{layer.weight.detach()}")
    print(f"rows {', '.join(map(str, options.ids))}\n{looked_up.detach()}")
    same = np.array_equal(looked_up.data, slow(options.ids).data)
    print(f"one-hot vectors times the table: {'the same numbers' if same else 'other numbers'}")
    if options.rows > 1:
        a, b = functional.one_hot([0, 1], options.rows).numpy()
        print(f"any two of those vectors are {np.linalg.norm(a - b):.4f} apart, the square root of 2")


if __name__ == "__main__":
    sys.exit(main())
