"""Text to ids and back, on the command line: python -m bpe COMMAND ...

Text comes from the arguments or, without any, from standard input; bytes that are not UTF-8 keep their value, so
`encode` and then `decode` give the same bytes.
"""
import argparse
import contextlib
import importlib.util
import os
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import bpe
from bpe import Encoding, colours, get_encoding, saving
from bpe.special import parts
from bpe.split import GPT2_PATTERN

EXAMPLES = """\
examples:
  python -m bpe encode "Hello world"           15496 995
  python -m bpe decode 15496 995               Hello world
  python -m bpe encode < book.txt | python -m bpe decode > the-same-book.txt
  python -m bpe count < book.txt
  python -m bpe show "some  text"              the tokens in colour, spaces visible
  python -m bpe explain "token"                the merges of each piece, in order
  python -m bpe train book.txt --vocab-size 8000 --out folder
  python -m bpe encode "Hello world" --vocabulary folder/encoder.json folder/vocab.bpe
  python -m bpe trace aaabdaaabac              how merges are learned, step by step

Exit status: 0 done, 1 not possible, 2 wrong usage, 130 Ctrl-C.
"""


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        if sys.stdout is None:  # Python's word for a closed one, as after >&-
            raise OSError("standard output is closed")
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, `head` perhaps, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print(f"bpe {options.command}: interrupted", file=sys.stderr)
        return 130
    except (ValueError, KeyError, TypeError, OverflowError, OSError) as error:
        reason = error.args[0] if isinstance(error, KeyError) else error
        print(f"bpe {options.command}: {reason}", file=sys.stderr)
        return 1
    return 0


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    if os.path.exists(text) and not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text} is a file, where a folder is asked for")
    return Path(text)


def _stdin() -> TextIO:
    if sys.stdin is None:
        raise OSError("standard input is closed, and there is no text in the arguments")
    return sys.stdin


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bpe", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    text = argparse.ArgumentParser(add_help=False)
    text.add_argument("text", nargs="*", help="the text, joined by spaces (default: standard input)")
    text.add_argument(
        "--special", choices=["refuse", "token", "text"], default="refuse",
        help="special tokens such as <|endoftext|> in the text: an error, tokens, or like other text (default: refuse)",
    )  # fmt: skip
    ids = argparse.ArgumentParser(add_help=False)
    ids.add_argument("ids", nargs="*", help="the ids (default: standard input), apart by anything but digits")
    for name, run, parent, help in (
        ("encode", encode, text, "print the ids of a text on one line"),
        ("decode", decode, ids, "print the text of ids"),
        ("count", count, text, "print the number of ids of a text"),
        ("show", show, text, "print the tokens of a text in colour, then their ids"),
        ("explain", explain, text, "print how a text becomes ids: pieces, bytes, merges"),
    ):
        command = commands.add_parser(name, help=help, parents=[parent], description=help)
        command.set_defaults(run=run)
        command.add_argument(
            "--vocabulary", nargs=2, metavar=("ENCODER_JSON", "VOCAB_BPE"), help="two files instead of GPT-2's"
        )
        if name == "show":
            _add_color(command)
    _add_train(commands.add_parser("train", help="learn a vocabulary from files"))
    _add_trace(commands.add_parser("trace", help="print how merges are learned from a text, step by step"))
    return parser.parse_args(arguments)


def _add_color(command: argparse.ArgumentParser) -> None:
    command.add_argument("--color", choices=["auto", "always", "never"], default="auto", help="default: auto")


def _add_train(command: argparse.ArgumentParser) -> None:
    command.description = "Learn a vocabulary from files in UTF-8, and write it in GPT-2's format."
    command.epilog = "example: python -m bpe train *.txt --vocab-size 8000 --out folder --special '<|endoftext|>'"
    command.set_defaults(run=train)
    add = command.add_argument
    add("files", nargs="+", type=Path, metavar="FILE")
    add("--vocab-size", type=int, required=True, metavar="N", help="tokens in all, the 256 bytes and specials included")
    add("--out", type=_folder, required=True, metavar="DIR", help="where encoder.json and vocab.bpe go")
    add("--special", action="append", default=[], metavar="TOKEN", help="a special token; may be given several times")
    add("--pattern", default=GPT2_PATTERN, help="what cuts a text into pieces (default: GPT-2's); is not written down")
    add("--min-frequency", type=int, default=2, metavar="N", help="merge no pair that is rarer (default: %(default)s)")
    add("--keep", action="store_true", help="on Ctrl-C, write the merges learned so far")
    add("--overwrite", action="store_true", help="replace the two files if they are there")


def _add_trace(command: argparse.ArgumentParser) -> None:
    command.description = "Print how merges are learned from a text, step by step."
    command.epilog = "example: python -m bpe trace aaabdaaabac"
    command.set_defaults(run=trace)
    command.add_argument("text", nargs="*", help="the text, joined by spaces (default: standard input)")
    command.add_argument("--merges", type=int, metavar="N", help="at most so many (default: all)")
    _add_color(command)


def encode(options: argparse.Namespace) -> None:
    print(*_ids(options, _encoding(options)))


def decode(options: argparse.Namespace) -> None:
    written = " ".join(options.ids) if options.ids else _stdin().read()
    wrong = re.search(r"[^\s\d,;\[\]()]", written)
    if wrong:
        word = re.search(r"\S+", written[wrong.start() :])
        raise ValueError(f"{word.group() if word else wrong.group()!r} is not an id: ids are numbers")
    sys.stdout.buffer.write(_encoding(options).decode_bytes([int(digits) for digits in re.findall(r"\d+", written)]))
    if sys.stdout.isatty():
        print()


def count(options: argparse.Namespace) -> None:
    print(len(_ids(options, _encoding(options))))


def show(options: argparse.Namespace) -> None:
    encoding = _encoding(options)
    ids = _ids(options, encoding)
    colour = colours.wanted(options.color, sys.stdout)
    paint: Callable[[str, int], str] = colours.chip if colour else lambda text, id: text
    tokens = [paint(colours.visible(token), id) for token, id in zip(encoding.decode_tokens_bytes(ids), ids)]
    print(("" if colour else "|").join(tokens))
    print(*ids)


def explain(options: argparse.Namespace) -> None:
    text, encoding = _input(options).decode(), _encoding(options)
    for explanation in encoding.explain(text, **_special(options, text, encoding)):
        print(explanation)


def train(options: argparse.Namespace) -> None:
    saving.check_special_tokens(options.special)  # what would stop the writing is said before the learning
    for name in saving.NAMES:
        if not options.overwrite and (options.out / name).exists():
            raise FileExistsError(f"{options.out / name} is already there: --overwrite replaces it")
    made = [folder for folder in (options.out, *options.out.parents) if not folder.exists()]
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        encoding = _learn(options)
        encoder_json, vocab_bpe = encoding.save(options.out)
    except BaseException:
        with contextlib.suppress(OSError):  # one that another process has put something into stays
            for folder in made:
                folder.rmdir()
        raise
    print(f"{encoding.n_vocab:,} tokens: {encoder_json} and {vocab_bpe}")


def _learn(options: argparse.Namespace) -> Encoding:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: print(f"bpe train: {message}", file=sys.stderr)
        return bpe.train(
            options.files, options.vocab_size, special_tokens=options.special, pattern=options.pattern,
            min_frequency=options.min_frequency, keep_on_interrupt=options.keep,
            progress=importlib.util.find_spec("tqdm") is not None,
        )  # fmt: skip


def trace(options: argparse.Namespace) -> None:
    colour = colours.wanted(options.color, sys.stdout)
    print(bpe.trace(_input(options).decode(), options.merges, colour=colour))


def _encoding(options: argparse.Namespace) -> Encoding:
    return Encoding.from_files(*options.vocabulary) if options.vocabulary else get_encoding("gpt2")


def _input(options: argparse.Namespace) -> bytes:
    if options.text:
        return os.fsencode(" ".join(options.text))
    return _stdin().buffer.read()


def _ids(options: argparse.Namespace, encoding: Encoding) -> list[int]:
    text = _input(options).decode("utf-8", "surrogateescape")  # a special token is found beside any bytes
    allowed = encoding.special_tokens_set if _special(options, text, encoding).get("allowed_special") else set()
    special_ids = {token: encoding.encode(token, allowed_special="all")[0] for token in allowed}
    ids: list[int] = []
    for part, id in parts(text, special_ids, allowed):
        ids += encoding.encode_bytes(part.encode("utf-8", "surrogateescape"))
        if id is not None:
            ids.append(id)
    return ids


def _special(options: argparse.Namespace, text: str, encoding: Encoding) -> dict[str, Any]:
    """What --special says, as keywords; ValueError for a text with a token that it refuses."""
    if options.special == "token":
        return {"allowed_special": "all"}
    found = [token for token in encoding.special_tokens_set if token in text] if options.special == "refuse" else []
    if found:
        token = min(found, key=text.index)
        raise ValueError(
            f"the text has the special token {token!r} at index {text.index(token)}: --special token encodes it as a "
            "token, --special text as any other text"
        )
    return {"disallowed_special": ()}


if __name__ == "__main__":
    sys.exit(main())
