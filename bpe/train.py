r"""Where merges come from: byte pair encoding learned from text.

A text is cut into pieces, and a piece is its bytes at first. The pair of neighbouring tokens that occurs most often
becomes a new token, everywhere; then the pair that is now most frequent, and so on, until there are enough tokens. Of
pairs that occur equally often the one goes first whose left token, then right token, sorts first by its bytes.

By hand, with the one piece "aaabdaaabac":

    a a a b d a a a b a c     a a occurs four times (pairs may overlap), more than any other: aa
    aa a b d aa a b a c       a b and aa a both occur twice, and b"a" sorts before b"aa": ab
    aa ab d aa ab a c         aa ab occurs twice: aaab
    aaab d aaab a c           no pair occurs twice: done

Two implementations follow, `learn_plainly` to be read and `learn` to be used; a test proves them equal. Both want no
more of a text than how often each piece occurs, which is what counting.py finds out.

Source: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword Units" (ACL 2016),
algorithm 1; on bytes, as Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2.
"""
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from heapq import heapify, heappop, heappush
from itertools import islice

import numpy as np
import numpy.typing as npt

from bpe.alphabet import BYTES_IN_ID_ORDER
from bpe.checks import as_text, at_least
from bpe.counting import Texts, count_pieces
from bpe.encoding import Encoding
from bpe.split import GPT2_PATTERN, repair_surrogates

Merge = tuple[bytes, bytes]
Progress = Callable[[int, int | None], object]

Indices = npt.NDArray[np.intp]
Int64s = npt.NDArray[np.int64]

SINGLE_BYTES = [bytes([byte]) for byte in BYTES_IN_ID_ORDER]
MOST_TOKENS = 2**32
NOTHING = -1  # where no token begins: inside of one, and between pieces


def learn_plainly(pieces: Mapping[bytes, int], min_frequency: int = 2) -> Iterator[Merge]:
    """The merges, in order, of pieces that occur as often as `pieces` says, down to pairs of `min_frequency`.

    >>> list(learn_plainly({b"aaabdaaabac": 1}))
    [(b'a', b'a'), (b'a', b'b'), (b'aa', b'ab')]
    """
    words = [([bytes([byte]) for byte in piece], count) for piece, count in pieces.items()]
    while True:
        counts: Counter[Merge] = Counter()
        for tokens, count in words:
            for pair in zip(tokens, tokens[1:]):
                counts[pair] += count
        best = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
        if best is None or counts[best] < min_frequency:
            return
        yield best
        for tokens, _ in words:
            join(tokens, *best)


def join(tokens: list[bytes], left: bytes, right: bytes) -> None:
    """Join each `left` that is followed by `right`, from left to right, in place.

    >>> tokens = [b"a", b"a", b"a", b"b"]
    >>> join(tokens, b"a", b"a")
    >>> tokens
    [b'aa', b'a', b'b']
    """
    for i, token in enumerate(tokens):  # which grows shorter meanwhile, by what is behind i
        if token == left and tokens[i + 1 : i + 2] == [right]:
            tokens[i : i + 2] = [left + right]


def learn(pieces: Mapping[bytes, int], min_frequency: int = 2) -> Iterator[Merge]:
    """The same merges as `learn_plainly`, quickly: a merge costs what it changes.

    All pieces lie one after another in `ids`, a place a byte: where a token begins stands its id, elsewhere NOTHING.
    So a token keeps its place when others are merged, and a pair is known by the places of its left token. `first`
    has, where a token ends, the place where it begins; that is how to go back from a token to the one before.

    A pair never gains places: the pairs of a new token come to be when it does, and from then on only lose some. So
    the heap holds what each pair counted when it was last looked at, and what comes up first is counted again: if it
    has lost places it goes back with what is left, else no pair counts more.

    No merge makes the bytes of a token a second time. For until a token is made of them, no merge reached across
    their ends, so that they were merged as they would be if they stood alone; and so they become it wherever they do.

    >>> list(learn({b"aaabdaaabac": 1}))
    [(b'a', b'a'), (b'a', b'b'), (b'aa', b'ab')]
    """
    tokens = SINGLE_BYTES.copy()
    id_of = {token: id for id, token in enumerate(tokens)}
    ids, weights = _laid_out(pieces)
    first = np.arange(len(ids))

    places = np.flatnonzero((ids[:-1] != NOTHING) & (ids[1:] != NOTHING))
    both = ids[places].astype(np.int64) << 8 | ids[places + 1]
    heap = [  # the most frequent first, of equal ones the first by its bytes; no two have the same bytes
        (-count, tokens[pair >> 8], tokens[pair & 255], where)
        for pair, count, where in _groups(both, places, weights, min_frequency)
    ]
    heapify(heap)
    while heap:
        counted, left, right, places = heappop(heap)
        places = places[(ids[places] == id_of[left]) & (ids[places + len(left)] == id_of[right])]
        count = int(weights[places].sum())
        if count != -counted:
            if count >= min_frequency:
                heappush(heap, (-count, left, right, places))
            continue
        yield left, right

        token, id = left + right, len(tokens)
        id_of[token] = id
        tokens.append(token)
        if left == right:
            places = _apart(places, len(left))
        ids[places + len(left)] = NOTHING
        ids[places] = id
        first[places + len(token) - 1] = places

        before = first[places - 1]
        after = ids[places + len(token)]
        after[after == id] = NOTHING  # two new tokens in a row: the right one has the pair already, as its `before`
        sides = np.concatenate([2 * ids[before], 2 * after + 1])  # even on the left, odd on the right
        for key, count, where in _groups(sides, np.concatenate([before, places]), weights, min_frequency):
            other = tokens[key >> 1]
            heappush(heap, (-count, token, other, where) if key & 1 else (-count, other, token, where))


def _laid_out(pieces: Mapping[bytes, int]) -> tuple[npt.NDArray[np.int32], Int64s]:
    """The ids of the bytes of all pieces, with NOTHING around each, and the count of its piece at each place."""
    text = b"\0".join([b"", *pieces, b""])
    sizes = np.fromiter(map(len, pieces), np.intp, len(pieces)) + 1
    weights = np.repeat(np.fromiter(pieces.values(), np.int64, len(pieces)), sizes)
    id_of_byte = np.argsort(np.frombuffer(BYTES_IN_ID_ORDER, np.uint8)).astype(np.int32)
    ids = id_of_byte[np.frombuffer(text, np.uint8)]
    ids[np.cumsum(sizes)] = ids[0] = NOTHING
    return ids, np.concatenate([[0], weights])


def _groups(
    keys: npt.NDArray[np.integer], places: Indices, weights: Int64s, min_frequency: int
) -> Iterator[tuple[int, int, Indices]]:
    """For each of the different keys, but the negative ones, that counts enough: the key, its count, its places."""
    order = keys.argsort(kind="stable")
    keys, places = keys[order], places[order]
    is_first = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    begins = np.flatnonzero(is_first & (keys >= 0))
    if len(begins):
        counts = np.add.reduceat(weights[places], begins)
        ends = np.append(begins[1:], len(keys))
        for i in np.flatnonzero(counts >= min_frequency).tolist():
            yield int(keys[begins[i]]), int(counts[i]), places[begins[i] : ends[i]]


def _apart(places: Indices, size: int) -> Indices:
    """Of places `size` apart every other one: in a run of equal tokens the first two are joined, the next two, ..."""
    begins = np.flatnonzero(np.diff(places, prepend=places[:1] - size - 1) != size)
    in_run = np.arange(len(places)) - np.repeat(begins, np.diff(begins, append=len(places)))
    return places[in_run % 2 == 0]


def train(
    texts: Texts,
    vocab_size: int,
    *,
    special_tokens: Collection[str] = (),
    pattern: str | None = None,
    min_frequency: int = 2,
    progress: bool | Progress | None = None,
    keep_on_interrupt: bool = False,
) -> Encoding:
    """Learn a vocabulary of `vocab_size` tokens from texts, and return its `Encoding`.

    The ids are in the order of GPT-2's own: the 256 bytes, the merges as they were learned, the special tokens.
    They depend on the pieces of the texts and on nothing else: not on the order of the texts, nor on a seed.

    Parameters
    ----------
    texts : a str, which is a text; a `pathlib.Path`, which is a file in UTF-8; or an iterable of either. Files are
        read in blocks and iterators a text at a time, and only the different pieces are kept; with a `pattern` that
        is not GPT-2's, a file is read whole.
    vocab_size : how many tokens there should be in all, at least 256 and one for each special token.
    special_tokens : texts that get an id of their own. Where they stand in `texts`, these are cut, and nothing is
        merged across; nor are they counted.
    pattern : what cuts a text into pieces; GPT-2's if None. `Encoding.save` does not write it down.
    min_frequency : a pair that occurs less often is not merged.
    progress : True for a bar on a terminal (by the package tqdm), or a function that is called with two numbers:
        characters read so far and None, then merges learned and merges wanted.
    keep_on_interrupt : whether Ctrl-C, once merges are being learned, ends the learning and not the program: with a
        warning, and with the merges learned so far.

    When no pair occurs `min_frequency` times any more there are fewer tokens than were asked for, and a warning
    (UserWarning) that says how many. Surrogates in a text are what they are for the encoder: repaired in pairs, else
    U+FFFD. ValueError for texts that are empty, a `vocab_size` or `min_frequency` that is too small, a `vocab_size`
    beyond 2**32, a special token that is empty or there twice, a file that is not UTF-8; TypeError for what is no text.

    >>> encoding = train("aaabdaaabac", 260, special_tokens=["<end>"])
    >>> encoding.n_vocab, encoding.encode("aaabdaaabac<end>", allowed_special="all")
    (260, [258, 67, 258, 64, 66, 259])
    >>> encoding.decode_tokens_bytes([256, 257, 258])
    [b'aa', b'ab', b'aaab']
    """
    pattern = GPT2_PATTERN if pattern is None else as_text(pattern, "the pattern")
    special_tokens = _checked(special_tokens)
    smallest = len(SINGLE_BYTES) + len(special_tokens)
    vocab_size = at_least(smallest, vocab_size, "vocab_size", f", 256 bytes and {len(special_tokens)} special tokens")
    if vocab_size > MOST_TOKENS:
        raise ValueError(f"vocab_size is {vocab_size}: it can be at most {MOST_TOKENS}, for ids have 32 bits")
    min_frequency = at_least(1, min_frequency, "min_frequency")

    with ExitStack() as at_end:
        report = _reporter(progress, at_end)
        characters = 0

        def seen(more: int) -> None:
            nonlocal characters
            characters += more
            report(characters, None)

        pieces = count_pieces(texts, pattern, special_tokens, seen)
        if not pieces:
            raise ValueError(f"there is nothing to learn from: the texts have {characters} characters and no piece")
        merges = _learn_some(pieces, vocab_size - smallest, min_frequency, report, keep_on_interrupt)
    tokens = SINGLE_BYTES + [left + right for left, right in merges]
    return Encoding(
        "trained",
        pat_str=pattern,
        mergeable_ranks={token: id for id, token in enumerate(tokens)},
        special_tokens={token: id for id, token in enumerate(special_tokens, len(tokens))},
    )


def _learn_some(
    pieces: Mapping[bytes, int], wanted: int, min_frequency: int, report: Progress, keep_on_interrupt: bool
) -> list[Merge]:
    merges: list[Merge] = []
    try:
        for merge in islice(learn(pieces, min_frequency), wanted):
            merges.append(merge)
            report(len(merges), wanted)
        reason = f"no pair of tokens occurs {min_frequency} times any more"
    except KeyboardInterrupt:
        if not keep_on_interrupt:
            raise
        reason = "interrupted"
    if len(merges) < wanted:
        warnings.warn(f"learned {len(merges):,} of {wanted:,} merges: {reason}", stacklevel=3)
    return merges


def _reporter(progress: bool | Progress | None, at_end: ExitStack) -> Progress:
    """The function to report to; a bar, if it is one, is closed `at_end`."""
    if progress is None or progress is False:
        return lambda done, total: None
    if progress is not True:
        return progress
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError(
            "tqdm is not installed, which draws the bar of progress=True: pip install '.[progress]'; or pass a "
            "function of two numbers"
        ) from None
    bar = at_end.enter_context(tqdm(desc="reading", unit=" characters", unit_scale=True, disable=None))

    def show(done: int, total: int | None) -> None:
        if total != bar.total:
            bar.desc, bar.unit = "learning: ", " merges"
            bar.reset(total)
        bar.update(done - bar.n)

    return show


def _checked(special_tokens: Collection[str]) -> list[str]:
    if isinstance(special_tokens, (str, bytes)) or not isinstance(special_tokens, Iterable):
        kind = "text" if isinstance(special_tokens, (str, bytes)) else type(special_tokens).__name__
        raise TypeError(f"special_tokens is a list of texts, got the {kind} {special_tokens!r:.60}")
    checked: list[str] = []
    if isinstance(special_tokens, (set, frozenset)):
        special_tokens = sorted(special_tokens, key=str)  # a set has another order in each process
    for token in special_tokens:
        if not isinstance(token, str):
            raise TypeError(f"a special token is a str, got {type(token).__name__}: {token!r:.60}")
        if not token or token in checked:
            raise ValueError(f"special token {len(checked)} is {token!r}: {'there twice' if token else 'empty'}")
        if repair_surrogates(token) != token:
            raise ValueError(f"special token {len(checked)}, {token!r}, has a surrogate, which no text is read with")
        checked.append(token)
    return checked
