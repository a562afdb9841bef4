"""The tokenizer playground: type once, watch GPT-2, BERT and Llama 2 each carve it up, on a page or on the terminal.

Without --text or --html it serves the page, on this machine only. The page is page/playground.html; what it shows is
made by page/columns.py. Nothing is loaded from anywhere else, and nothing that is typed leaves the machine.
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
import fetching  # noqa: E402
from fetching.minilm import minilm_tables  # noqa: E402
from page import columns  # noqa: E402
from page.server import PAGE, policy, serve  # noqa: E402

from bpe import colours  # noqa: E402
from embedding.pretrained import read_tensors  # noqa: E402

EXAMPLES = """\
examples:
  python scripts/playground.py                                serves the page; Ctrl-C ends it
  python scripts/playground.py --table runs/first/after.safetensors
                                                              a chip shows its row and the rows nearest to it
  python scripts/playground.py --text " SolidGoldMagikarp"    on the terminal; --text - reads standard input
  python scripts/playground.py --html page.html --text "..."  a page of this text, to keep or send

A vocabulary that is missing is asked for in its column: python scripts/download_gpt2_vocab.py --all fetches all three.
The table is "wte.weight" of a safetensors file, with a row for each id of GPT-2 or BERT, or MiniLM's model.onnx.
NO_COLOR and CLICOLOR_FORCE are honoured. Exit status: 0 done, also by Ctrl-C; 1 failed; 2 wrong usage.
"""

NO_SNAPSHOT = '<script type="application/json" id="snapshot">null</script>'
HELLO = "Hello world! Type here, and watch three tokenizers carve it up."


# a page to keep


def snapshot(text: str, specials: bool) -> str:
    """The page with what it shows of `text` inside, to be opened without a server."""
    answer = columns.carve(text, specials)
    groups = answer["columns"][0].get("groups", ())
    end = max((piece["end"] for group in groups for piece in group["pieces"]), default=0)
    merges = columns.merges(text, 0, end, specials) if groups else []
    kept = {"text": text, "specials": specials, "answer": answer, "merges": merges}
    data = json.dumps(kept).replace("<", "\\u003c")  # so that no text can end the element
    page = PAGE.read_text(encoding="utf-8")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(page)}">'
    return page.replace(NO_SNAPSHOT, NO_SNAPSHOT.replace("null", data)).replace("<head>", f"<head>\n{meta}")


# the terminal


def lines(text: str, specials: bool, colour: bool) -> list[str]:
    """What the page shows, for a terminal: each piece and its id, in the id's colour or in brackets."""
    answer = columns.carve(text, specials, drawn=sys.maxsize)
    told = ["{bytes:,} bytes, {characters:,} characters, {graphemes:,} as a reader counts them".format(**answer)]
    for column in answer["columns"]:
        told += ["", f"{column['name']}, {column['idea']}"]
        if "problem" in column:
            told.append(column["problem"])
            continue
        tokens = "token" if column["tokens"] == 1 else "tokens"
        told[-1] += f": {column['tokens']:,} {tokens}, {column['ratio'] or 0:.2f} bytes a token"
        row = ""
        for piece in (piece for group in column["groups"] for piece in group["pieces"]):
            chip = f"{piece['shown']}|{piece['id']}"
            row += f"{colours.chip(chip, piece['id'])} " if colour and not piece["kind"] else f"[{chip}] "
            if piece["covers"].endswith(colours.SIGNS["\n"]):
                told.append(row.rstrip())
                row = ""
        told += [row.rstrip()] if row else []
    return [*told, "", f"Llama's vocabulary: {answer['columns'][2]['licence']}"]


# the command


def read_table(path: Path) -> columns.Table:
    array = minilm_tables(path)[0] if path.suffix == ".onnx" else read_tensors(path, ["wte.weight"])["wte.weight"]
    return columns.Table(array, path.name)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--text", metavar="TEXT", help="carve this text on the terminal; - is standard input")
    add("--html", type=commands.path, metavar="FILE", help="write the page of --text (or of a greeting) to FILE")
    add("--table", type=commands.path, metavar="FILE", help="a table of vectors, whose rows the page shows")
    add("--specials", action="store_true", help="special tokens in --text are special tokens, not text")
    add("--color", choices=("auto", "always", "never"), default="auto", help="colours on the terminal (default auto)")
    add("--host", default="127.0.0.1", help="the address to serve on (default 127.0.0.1: this machine only)")
    add("--port", type=int, default=8765, help="the port to serve on (default 8765); 0 picks a free one")
    options = parser.parse_args(arguments)
    if not options.host:
        parser.error("--host is empty: an address, as 127.0.0.1, or 0.0.0.0 for all that this machine has")
    if not 0 <= options.port <= 65535:
        parser.error(f"--port {options.port}: 0 to 65535")
    if options.table and (options.html or options.text is not None):
        parser.error("--table is for the page that is served: a row is read when a chip is opened")

    try:
        text = options.text
        if text == "-":
            if sys.stdin is None:  # Python's word for a closed one, as after <&-
                raise OSError("standard input is closed")
            text = sys.stdin.buffer.read().decode()
        if options.html:
            fetching.write(options.html, snapshot(HELLO if text is None else text, options.specials).encode())
            print(options.html)
        elif text is not None:
            print(*lines(text, options.specials, colours.wanted(options.color)), sep="\n")
        else:
            serve(options.host, options.port, read_table(options.table) if options.table else None)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        print(f"playground.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    commands.run(main)
