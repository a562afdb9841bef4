"""Did training move the rows that belong together? The words of a text, their neighbours, and the rank of pairs.

A word here is one token: a space, then letters, as " March". They are the rows that a person can judge.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from embedding.neighbours import nearest

MOST_FREQUENT = 2000  # words: a pair is ranked among these, so that without training its rank is about half as many

IN_ORDER = {  # each word with the next
    "days": ["Monday Tuesday Wednesday Thursday Friday Saturday Sunday"],
    "months": ["January February March April May June July August September October November December"],
    "numbers": ["two three four five six seven eight nine ten", "twenty thirty forty fifty", "million billion"],
}
ONE_AND_MANY = """
    year years, day days, nation nations, country countries, citizen citizens, man men, woman women, child children,
    family families, law laws, power powers, right rights, duty duties, treaty treaties, government governments,
    interest interests, measure measures, job jobs, worker workers, farmer farmers, school schools, program programs
"""
GROUPS: dict[str, list[tuple[str, str]]] = {
    kind: [pair for row in rows for pair in zip(row.split(), row.split()[1:])] for kind, rows in IN_ORDER.items()
}
GROUPS["one and many"] = [(pair.split()[0], pair.split()[1]) for pair in ONE_AND_MANY.split(",")]
SHOWN = ["people", "war", "year", "March", "three", "great", "would"]


class Words:
    """The most frequent words of a text, the most frequent first, with the ids of their tokens.

    counts: (V,), how often each id occurs. token: the bytes of a token by its id, as Encoding.decode_bytes([id]).
    """

    def __init__(self, counts: np.ndarray, token: Callable[[int], bytes]):
        self.ids: list[int] = []
        self.words: list[str] = []
        for id in np.argsort(-counts, kind="stable")[:np.count_nonzero(counts)].tolist():
            word = re.fullmatch(rb" ([A-Za-z]+)", token(id))
            if word and len(self.ids) < MOST_FREQUENT:
                self.ids.append(id)
                self.words.append(word[1].decode())
        self.place = {word: place for place, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.ids)

    def pairs(self) -> dict[str, list[tuple[str, str]]]:
        """The pairs of each kind of which both words are here."""
        here = {kind: [p for p in pairs if all(word in self.place for word in p)] for kind, pairs in GROUPS.items()}
        return {kind: pairs for kind, pairs in here.items() if pairs}

    def groups(self) -> dict[str, list[tuple[int, str]]]:
        """The words of each kind of pair, as (id, word): what scripts/plots.py draws."""
        groups = {}
        for kind, pairs in GROUPS.items():
            words = dict.fromkeys(word for pair in pairs for word in pair if word in self.place)
            groups[kind] = [(self.ids[self.place[word]], word) for word in words]
        return {kind: words for kind, words in groups.items() if words}

    def ranks(self, table: np.ndarray) -> dict[str, list[int]]:
        """For each pair the rank of the second among all other words by their cosine with the first: 1 is the best."""
        rows = table[self.ids]
        return {
            kind: [self._order(rows, a).index(self.place[b]) + 1 for a, b in pairs]
            for kind, pairs in self.pairs().items()
        }

    def _order(self, rows: np.ndarray, word: str) -> list[int]:
        order, _ = nearest(rows, self.place[word], k=len(self))
        return order.tolist()

    def nearest(self, table: np.ndarray, word: str, k: int = 6) -> list[str]:
        """The k words nearest to `word`."""
        return [self.words[place] for place in self._order(table[self.ids], word)[:k]]

    def shown(self, count: int = 6) -> list[str]:
        """Words whose neighbours are printed: some that a person knows, else the most frequent."""
        known = [word for word in SHOWN if word in self.place]
        return (known or self.words)[:count]


def unigram_entropy(counts: np.ndarray) -> float:
    """-sum p ln p in nats, p a token's share of the text: the loss of who knows how frequent each token is, no more.

    >>> round(unigram_entropy(np.array([1, 1, 0])), 4)
    0.6931
    """
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum()) + 0.0  # of one token alone 0, not -0


def report(words: Words, before: np.ndarray, after: np.ndarray) -> Iterator[str]:
    """Lines: the neighbours of some words, and the mean rank of the pairs, before and after."""
    if len(words) < 2:
        yield f"neighbours        none: {len(words)} of the tokens of this text are words"
        return
    yield f"neighbours        among the {len(words):,} most frequent words"
    for word in words.shown():
        yield f"  {word:<15} before: {', '.join(words.nearest(before, word))}"
        yield f"  {'':<15} after:  {', '.join(words.nearest(after, word))}"
    if not words.pairs():
        yield "pairs             none of the list are among these words"
        return
    chance = f"; chance: {len(words) / 2:,.0f}"
    for name, table in (("before", before), ("after", after)):
        ranks = words.ranks(table)
        yield f"rank of a pair    {name + ':':<7} {spread([rank for kind in ranks.values() for rank in kind])}{chance}"
        chance = ""
    for kind, of_kind in ranks.items():
        yield f"  {kind:<15} {spread(of_kind)}"


def spread(ranks: list[int]) -> str:
    return f"mean {np.mean(ranks):,.0f}, median {np.median(ranks):,.0f}, worst {max(ranks):,} of {len(ranks)} pairs"
