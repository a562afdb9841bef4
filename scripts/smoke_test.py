"""The whole road once: text to ids, ids to vectors, a loss, and the gradient back into the rows that were read."""
import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this checkout, installed or not

import commands  # noqa: E402
import download_gpt2_vocab  # noqa: E402
import numpy as np  # noqa: E402

import bpe  # noqa: E402
from bpe import files  # noqa: E402
from embedding import GPTConfig, TokenEmbedding  # noqa: E402

EXAMPLES = """\
examples:
  python scripts/smoke_test.py                         "Hello world"
  python scripts/smoke_test.py one two "and three"     several texts, one after the other

The vocabulary is fetched if it is missing. Exit status: 0 all is right, 1 something is not, 2 wrong usage.
"""


def walk(text: str, layer: TokenEmbedding) -> None:
    """Print each step for one text, and check it: RuntimeError if a step went wrong."""
    ids = bpe.encode(text, disallowed_special=())
    print(f"text            {text!r}")
    print(f"ids             {ids}")
    print(f"pieces          {[bpe.decode([i], errors='backslashreplace') for i in ids]}")
    print(f"round trip      {bpe.decode(ids)!r}")
    demand(bpe.decode(ids) == text, "the ids do not give the text back")
    print(f"vocabulary      {bpe.vocab_size()}")

    vectors = layer([ids])  # (B, T) -> (B, T, C), here (1, T, 768)
    print(f"embedding       shape {vectors.shape}, {vectors.dtype}")
    print(f"parameters      {sum(p.size for p in layer.parameters()):,}")

    gradient = gradient_of_the_table(layer, [ids])
    touched = np.flatnonzero(gradient.any(axis=1))
    print(f"rows touched    {touched.tolist()} of {len(gradient)}")
    distinct, counts = np.unique(np.asarray(ids, np.int64), return_counts=True)
    demand(np.array_equal(touched, distinct), "rows have a gradient that are not the rows looked up")
    for i, count in zip(distinct.tolist(), counts.tolist()):  # a row used k times has the sum of k gradients
        right = np.allclose(gradient[i], count * layer.weight.data[i], rtol=rounding(count), atol=1e-6)
        demand(right, f"the gradient of row {i} is not the sum of its {count} uses")
        if count > 1:
            print(f"repeated id     {i} stands {count} times, and its row has the sum")
    twice = gradient_of_the_table(layer, [ids, ids], quiet=True)
    doubled = np.allclose(twice, 2 * gradient, rtol=rounding(2 * counts.max(initial=1)), atol=1e-6)
    demand(doubled, "reading each row once more does not double its gradient")
    print("the same twice  a batch of two: each row has the sum, twice the gradient")
    print("ok              every row looked up has a gradient, and no other row")


def gradient_of_the_table(layer: TokenEmbedding, ids: list[list[int]], quiet: bool = False) -> np.ndarray:
    """dL/dW, (V, C), for L = half the sum of the squares: then the gradient of a vector is the vector itself."""
    vectors = layer(ids)
    loss = (vectors * vectors).sum() / 2
    if not quiet:
        print(f"loss            {loss.item():.4f}, half the sum of the squares")
    layer.zero_grad()
    loss.backward()
    return layer.weight.grad.numpy()


def rounding(count: int) -> float:
    """How far, in proportion, a float32 sum of `count` equal numbers taken one by one may be off."""
    return 1e-6 + 2 * count * float(np.finfo(np.float32).eps)


def demand(fact: bool, otherwise: str) -> None:
    if not fact:
        raise RuntimeError(otherwise)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", default=["Hello world"], help="what to embed")
    texts = parser.parse_args(arguments).texts
    try:
        files.find_gpt2()
    except FileNotFoundError:
        status = download_gpt2_vocab.main([])
        if status != 0:
            return status  # it has said why
    try:
        layer = TokenEmbedding(GPTConfig(vocab_size=bpe.vocab_size()))
        for number, text in enumerate(texts):
            if number:
                print()
            walk(text, layer)
    except BrokenPipeError:
        raise
    except (RuntimeError, ValueError, OSError) as error:
        print(f"smoke_test.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    commands.run(main)
