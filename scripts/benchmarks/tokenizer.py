"""The tokenizer beside tiktoken, one thread each, on the same texts; then beside others, for the reader to know.

Ids are compared before anything is measured. "Words seen before" is an Encoding that has met the text; "first sight"
is a fresh one, its tables still to be made. What tiktoken 0.14 is asked for is `encode_ordinary`, its quickest way.
"""
from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from fetching import texts

from benchmarks import pairs
from bpe import Encoding, files, get_encoding
from bpe.split import GPT2_PATTERN

PEERS = ("tiktoken", "tokenizers", "riptoken", "kitoken", "gigatoken", "puretiktoken")
WARM = {"english": 4.0, "code": 4.0, "languages": 2.0}  # times tiktoken's speed, at least
FIRST = {"english": 1.5, "code": 1.5, "languages": None}
SHORT = (
    "Hello world",
    "Every effort moves you a bit closer, doesn't it? It is 135 characters of plain English, the kind of line that a "
    "person types in a chat.",
)
ORDINARY = {"disallowed_special": ()}


def rows(quick: bool) -> Iterator[pairs.Row]:
    os.environ["RAYON_NUM_THREADS"] = "1"  # read by the peers written in Rust when they start their threads
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    reason = pairs.missing("tiktoken")
    if reason:
        yield pairs.skipped("everything", reason)
        return
    ours, theirs = get_encoding("gpt2"), tiktoken_gpt2()
    megabytes = 1.0 if quick else 5.0
    some = {name: texts.load(name, megabytes) for name in WARM}
    options = {"peer": "tiktoken", "quick": quick}
    for name, text in some.items():
        yield from long_text(name, text, ours, theirs, measure="speed", amount=megabytes, unit="MB", **options)
    for text in SHORT:
        what, both = f"encode {len(text)} characters", [partial(encoding.encode, text) for encoding in (ours, theirs)]
        yield pairs.compare(what, *both, bound=2, **options)
    ids = theirs.encode_ordinary(some["english"])
    ids = (ids * (1_000_000 // len(ids) + 1))[: 100_000 if quick else 1_000_000]
    array = np.array(ids, np.uint32)
    what = f"decode {len(ids):,} ids"
    decode_list = partial(theirs.decode, ids)
    yield pairs.compare(f"{what}, a list", lambda: ours.decode(ids), decode_list, bound=3, **options)
    yield pairs.compare(f"{what}, an array", lambda: ours.decode(array), decode_list, bound=1.5, **options)
    yield pairs.compare(
        "load the two files and encode one letter",
        lambda: Encoding.from_files(*files.find_gpt2()).encode("a"), lambda: tiktoken_gpt2().encode("a"),
        bound=1, **options,
    )  # fmt: skip
    yield from one_piece(ours, theirs, quick)
    yield from memory(quick)
    yield from peers(some["english"], ours, quick, megabytes)


def long_text(name, text, ours, theirs, **options) -> Iterator[pairs.Row]:  # type: ignore[no-untyped-def]
    expected = theirs.encode_ordinary(text)
    if not np.array_equal(ours.encode_to_numpy(text, **ORDINARY), expected):
        raise AssertionError(f"the ids of {name} differ from tiktoken's")
    yield pairs.compare(
        f"{name}, words seen before: encode_to_numpy",
        lambda: ours.encode_to_numpy(text, **ORDINARY), lambda: theirs.encode_ordinary(text),
        bound=WARM[name], **options,
    )  # fmt: skip
    fresh: list[Encoding] = []
    yield pairs.compare(
        f"{name}, first sight: encode_to_numpy",
        lambda: fresh[-1].encode_to_numpy(text, **ORDINARY), lambda: theirs.encode_ordinary(text),
        before=lambda: fresh.__setitem__(slice(None), [anew(ours)]), bound=FIRST[name], **options,
    )  # fmt: skip


def one_piece(ours: Encoding, theirs, quick: bool) -> Iterator[pairs.Row]:  # type: ignore[no-untyped-def]
    """Random letters without a space: one piece, which no cache has seen."""
    n = 40_000 if quick else 400_000
    source = random.Random(0)
    drawn: dict[int, str] = {}

    def draw() -> None:
        ours.clear_cache()
        for length in (n, 4 * n):
            drawn[length] = "".join(source.choices("abcdefghijklmnopqrstuvwxyz", k=length))

    yield pairs.compare(
        f"{n:,} random letters, one piece", lambda: ours.encode(drawn[n]), lambda: theirs.encode(drawn[n]),
        bound=60, before=draw, peer="tiktoken", quick=True,
    )  # fmt: skip
    yield pairs.compare(
        f"{4 * n:,} random letters beside {n:,}", lambda: ours.encode(drawn[4 * n]), lambda: ours.encode(drawn[n]),
        bound=7, before=draw, peer="a quarter", quick=True,
    )  # fmt: skip


def memory(quick: bool) -> Iterator[pairs.Row]:
    """What encoding takes at its highest, the text aside, beside its ids alone: for more text it gets nearer to 1."""
    for megabytes in (5, 20) if quick else (25, 100):
        what = f"peak memory above {megabytes} MB of text"
        try:
            peak = pairs.peak_memory("benchmarks.tokenizer:encoding_of", megabytes)
        except OSError as error:
            yield pairs.skipped(what, str(error))
            continue
        yield pairs.Row(what, (peak,), (ids_of(megabytes),), "memory", 1.5 if megabytes >= 100 else None, "ids alone")


def encoding_of(megabytes: int) -> Callable[[], object]:
    text, encoding = repeated(megabytes), get_encoding("gpt2")
    encoding.encode_to_numpy(text[:1_000_000], **ORDINARY)
    return lambda: encoding.encode_to_numpy(text, **ORDINARY)


def repeated(megabytes: int) -> str:
    some = "".join(texts.load(name, 5.0) for name in ("english", "code"))
    return "".join(itertools.islice(itertools.cycle([some]), megabytes // 10 + 1))[: megabytes * 1_000_000]


def ids_of(megabytes: int) -> float:
    """MiB of the ids of the text of `encoding_of`."""
    return get_encoding("gpt2").count(repeated(megabytes), **ORDINARY) * 4 / 2**20


def peers(text: str, ours: Encoding, quick: bool, megabytes: float) -> Iterator[pairs.Row]:
    """Other tokenizers on the English text, each given what it likes best; to know, without a bound."""
    made = {
        "tokenizers": tokenizers_gpt2, "riptoken": riptoken_gpt2, "kitoken": kitoken_gpt2, "gigatoken": gigatoken_gpt2,
        "puretiktoken": puretiktoken_cl100k,
    }  # fmt: skip
    for name, make in made.items():
        what = f"english, words seen before, {name}"
        needed = {name, "tokenizers"} if name in ("kitoken", "gigatoken") else {name}
        if reason := pairs.missing(*sorted(needed)):
            yield pairs.skipped(what, reason)
            continue
        try:
            encode = make()
            same = np.array_equal(np.asarray(encode(text)), ours.encode_to_numpy(text, **ORDINARY))
        except Exception as error:
            yield pairs.skipped(what, f"{type(error).__name__}: {error}".splitlines()[0])
            continue
        what += "" if same else ", other ids: cl100k_base" if name == "puretiktoken" else ", OTHER IDS"
        yield pairs.compare(
            what, lambda: ours.encode_to_numpy(text, **ORDINARY), lambda encode=encode: encode(text),
            measure="speed", peer=name, amount=megabytes, unit="MB", quick=True,
        )  # fmt: skip


def anew(encoding: Encoding) -> Encoding:
    """An Encoding with the same vocabulary that has met no text."""
    return Encoding(**encoding.__getstate__())


def tiktoken_gpt2():  # type: ignore[no-untyped-def]
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    encoder_json, vocab_bpe = map(str, files.find_gpt2())
    ranks = data_gym_to_mergeable_bpe_ranks(vocab_bpe, encoder_json)
    return tiktoken.Encoding(
        "gpt2", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256}
    )


def tokenizers_model():  # type: ignore[no-untyped-def]
    import tokenizers

    model = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*map(str, files.find_gpt2())))
    model.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    return model


def tokenizers_gpt2() -> Callable[[str], object]:
    model = tokenizers_model()
    return lambda text: model.encode(text).ids


def riptoken_gpt2() -> Callable[[str], object]:
    import riptoken

    encoding = get_encoding("gpt2")
    return riptoken.CoreBPE(encoding._mergeable_ranks, encoding._special_tokens, GPT2_PATTERN).encode_ordinary


def kitoken_gpt2() -> Callable[[str], object]:
    import kitoken

    model = kitoken.Kitoken.from_tokenizers(tokenizers_model().to_str().encode())
    return lambda text: model.encode(text, False)


def gigatoken_gpt2() -> Callable[[str], object]:
    import gigatoken

    return gigatoken.Tokenizer(tokenizers_model()).encode


def puretiktoken_cl100k() -> Callable[[str], object]:
    """It has no GPT-2: another vocabulary, another pattern."""
    import puretiktoken

    return puretiktoken.get_encoding("cl100k_base").encode_ordinary
