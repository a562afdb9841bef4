"""How merges are learned from a short text, a step a line, for people to follow."""
from collections import Counter
from itertools import islice

from bpe import colours
from bpe.explain import readable
from bpe.split import repaired, split
from bpe.train import SINGLE_BYTES, join, learn_plainly


def trace(text: str, merges: int | None = None, *, min_frequency: int = 2, colour: bool = False) -> str:
    """The merges that `train` learns from `text`, at most `merges` of them, and what the text is after each.

    A line is a merge: its id, the pair, how often it occurred, and the tokens of the text from then on. Pieces are
    apart by "|", or with `colour`, which gives each token that of its id, by a space.

    >>> print(trace("aaabdaaabac"))
                               a a a b d a a a b a c
    256  'a' + 'a'    4 times  aa a b d aa a b a c
    257  'a' + 'b'    2 times  aa ab d aa ab a c
    258  'aa' + 'ab'  2 times  aaab d aaab a c
         no pair occurs 2 times any more
    """
    pieces = [piece.encode() for piece in split(repaired(text))]
    words = [[bytes([byte]) for byte in piece] for piece in pieces]
    ids = {token: id for id, token in enumerate(SINGLE_BYTES)}

    def tokens_of_text() -> str:
        if not colour:
            return "|".join(" ".join(map(colours.visible, tokens)) for tokens in words)
        return " ".join(
            "".join(colours.chip(colours.visible(token), ids[token]) for token in tokens) for tokens in words
        )

    steps = [("", "", "", tokens_of_text())]
    learned = learn_plainly(Counter(pieces), min_frequency)
    for left, right in islice(learned, merges):
        count = sum(pair == (left, right) for tokens in words for pair in zip(tokens, tokens[1:]))
        ids[left + right] = len(ids)
        for tokens in words:
            join(tokens, left, right)
        pair = f"{readable(left)} + {readable(right)}"
        steps.append((str(ids[left + right]), pair, f"{count} times", tokens_of_text()))

    widths = [max(len(step[column]) for step in steps) for column in range(3)]
    lines = [
        f"{id:>{widths[0]}}  {pair:<{widths[1]}}  {times:>{widths[2]}}  {tokens}".rstrip()
        for id, pair, times, tokens in steps
    ]
    if len(steps) - 1 != merges:
        lines.append(" " * (widths[0] + 2) + f"no pair occurs {min_frequency} times any more")
    return "\n".join(lines)
