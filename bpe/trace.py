"""How merges are learned from a short text, a step a line, for people to follow."""
import sys
from collections import Counter
from itertools import islice

from bpe import colours
from bpe.checks import as_text, at_least
from bpe.explain import readable
from bpe.split import repaired, split
from bpe.train import SINGLE_BYTES, join, learn


def trace(text: str, merges: int | None = None, *, min_frequency: int = 2, colour: bool = False) -> str:
    """The merges that `train` learns from `text`, at most `merges` of them, and what the text is after each.

    A line is a merge: its id, the pair, how often it occurred, and the tokens of the text from then on. Pieces are
    apart by "|", or with `colour`, which gives each token that of its id, by a space. TypeError and ValueError for a
    `merges` or `min_frequency` that is no integer or too small.

    >>> print(trace("aaabdaaabac"))
                               a a a b d a a a b a c
    256  'a' + 'a'    4 times  aa a b d aa a b a c
    257  'a' + 'b'    2 times  aa ab d aa ab a c
    258  'aa' + 'ab'  2 times  aaab d aaab a c
         no pair occurs 2 times any more
    """
    min_frequency = at_least(1, min_frequency, "min_frequency")
    most = sys.maxsize if merges is None else min(at_least(0, merges, "merges"), sys.maxsize)  # islice wants no more
    pieces = [piece.encode() for piece in split(repaired(as_text(text)))]
    counts = Counter(pieces)
    words = {piece: [bytes([byte]) for byte in piece] for piece in counts}  # each piece once, however often it stands
    ids = {token: id for id, token in enumerate(SINGLE_BYTES)}
    holders: dict[bytes, set[bytes]] = {}  # the pieces in which a token may stand: a merge looks at no other
    for piece in words:
        for token in words[piece]:
            holders.setdefault(token, set()).add(piece)

    def show(tokens: list[bytes]) -> str:
        if colour:
            return "".join(colours.chip(colours.visible(token), ids[token]) for token in tokens)
        return " ".join(map(colours.visible, tokens))

    shown = {piece: show(tokens) for piece, tokens in words.items()}

    def tokens_of_text() -> str:
        return (" " if colour else "|").join(map(shown.__getitem__, pieces))

    steps = [("", "", "", tokens_of_text())]
    for left, right in islice(learn(counts, min_frequency), most):
        count = 0
        ids[left + right] = len(ids)
        holders[left + right] = holders[left] & holders[right]
        for piece in holders[left + right]:
            tokens = words[piece]
            count += counts[piece] * sum(pair == (left, right) for pair in zip(tokens, tokens[1:]))
            join(tokens, left, right)
            shown[piece] = show(tokens)
        pair = f"{readable(left)} + {readable(right)}"
        steps.append((str(ids[left + right]), pair, f"{count} times", tokens_of_text()))

    widths = [max(len(step[column]) for step in steps) for column in range(3)]
    lines = [
        f"{id:>{widths[0]}}  {pair:<{widths[1]}}  {times:>{widths[2]}}  {tokens}".rstrip()
        for id, pair, times, tokens in steps
    ]
    if len(steps) - 1 < most:
        lines.append(" " * (widths[0] + 2) + f"no pair occurs {min_frequency} times any more")
    return "\n".join(lines)
