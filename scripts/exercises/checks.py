"""What practice.py asks the learner's functions: for each exercise its cases, and a hint.

A case is a call with its expected result, which the project's own code computes. The learner is shown the call and the
expected result, never the code.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from bpe.alphabet import CHARACTER_TO_BYTE
from minigrad import Tensor, functional, random


class Case(NamedTuple):
    """A call of the learner's `function`; `expected` is what it returns, or the kind of exception it raises."""

    function: str
    arguments: tuple
    expected: Any
    about: str  # what is special in this case


class Exercise(NamedTuple):
    file: str
    cases: Callable[[], Iterator[Case]]
    hint: str


def table() -> np.ndarray:
    """The lesson's 6 x 3 table: torch.manual_seed(123), torch.nn.Embedding(6, 3)."""
    return random.Generator(123).randn(6, 3)


def some(*shape: int, seed: int = 0) -> np.ndarray:
    """Small numbers that are easy to follow by eye: -2 to 2 in steps of a half."""
    return random.Generator(seed).randint(-4, 5, shape).astype(np.float32) / 2


# --- 1 ---


def bytes_and_merge() -> Iterator[Case]:
    alphabet = {byte: character for character, byte in sorted(CHARACTER_TO_BYTE.items(), key=lambda item: item[1])}
    yield Case("byte_alphabet", (), alphabet, "all 256 bytes")
    yield Case("merge", (["l", "o", "w", "l", "o"], ("l", "o")), ["lo", "w", "lo"], "the pair stands there twice")
    yield Case("merge", (["l", "o", "w"], ("o", "l")), ["l", "o", "w"], "the pair does not occur in this order")
    yield Case("merge", (["l", "l", "l"], ("l", "l")), ["ll", "l"], "the pairs overlap: the left one is joined")
    yield Case("merge", (["l"] * 4, ("l", "l")), ["ll", "ll"], "what has been joined is not joined again")
    yield Case("merge", (["w", "l", "o"], ("l", "o")), ["w", "lo"], "the pair is at the end")
    yield Case("merge", (["lo", "w", "lo", "w"], ("lo", "w")), ["low", "low"], "tokens of several characters")
    yield Case("merge", ([], ("l", "o")), [], "no tokens")
    yield Case("merge", (["l"], ("l", "o")), ["l"], "one token")


# --- 2 ---


def one_hot_equals_lookup() -> Iterator[Case]:
    lesson = np.array([2, 3, 5, 1])
    yield Case("one_hot", (np.array([2, 0]), 3), np.array([[0, 0, 1], [1, 0, 0]]), "the example of the docstring")
    yield Case("one_hot", (np.array([[1], [0]]), 2), np.array([[[0, 1]], [[1, 0]]]), "ids of two dimensions")
    for name in ("one_hot_lookup", "lookup"):
        yield Case(name, (np.array([3]), table()), table()[[3]], "the lesson's row 3")
        yield Case(name, (lesson, table()), table()[lesson], "the lesson's rows 2, 3, 5 and 1")
        yield Case(name, (np.array([4, 4]), table()), table()[[4, 4]], "an id twice")
        yield Case(name, (lesson.reshape(2, 2), table()), table()[lesson.reshape(2, 2)], "ids of two dimensions")
    yield Case("lookup", (np.array([0, 6]), table()), IndexError, "an id one too large")
    yield Case("lookup", (np.array([0, -1]), table()), IndexError, "a negative id")
    yield Case("distance", (0, 1, 6), float(np.sqrt(2)), "two tokens")
    yield Case("distance", (2, 40000, 50257), float(np.sqrt(2)), "two other tokens, of GPT-2")
    yield Case("distance", (3, 3, 6), 0.0, "a token and itself")


# --- 3 ---


def repeated_ids() -> Iterator[Case]:
    cases = [
        ([2, 0], "two different ids"),
        ([2, 3, 2, 1], "id 2 was looked up twice"),
        ([1, 1, 1], "one id only, three times"),
        ([[0, 4], [4, 4]], "ids of two dimensions"),
    ]
    for nested, about in cases:
        ids = np.array(nested)
        g = some(*ids.shape, 3)
        yield Case("lookup_backward", (ids, g, 5), functional.scatter_add(ids, g, 5).numpy(), about)
    nothing = np.array([], np.int64)
    yield Case("lookup_backward", (nothing, np.zeros((0, 3)), 2), np.zeros((2, 3)), "nothing was looked up")
    fine = np.array([[1e-9], [1.0]])
    yield Case("lookup_backward", (np.array([0, 0]), fine, 1), fine.sum(axis=0)[None], "float64 keeps its precision")


# --- 4 ---


def two_gradients() -> Iterator[Case]:
    weight = some(4, 2)
    for ids, about in (([0, 2], "two different ids"), ([3, 1, 3], "id 3 stands there twice")):
        g = some(len(ids), 4, seed=1)
        head, hidden = Tensor(weight, requires_grad=True), weight[ids]
        (Tensor(hidden) @ head.T).backward(g)
        yield Case("head_gradient", (hidden, g), head.grad.numpy(), about)
        tied = Tensor(weight, requires_grad=True)
        (functional.embedding(ids, tied) @ tied.T).backward(g)
        yield Case("tied_gradient", (np.array(ids), weight, g), tied.grad.numpy(), about)


# --- 5 ---


def place_by_place() -> Iterator[Case]:
    positions = some(4, 2, seed=1)
    yield Case("add_positions", (some(1, 4, 2), positions), some(1, 4, 2) + positions, "as long as the table")
    yield Case("add_positions", (some(2, 3, 2), positions), some(2, 3, 2) + positions[:3], "shorter, two in a batch")
    yield Case("add_positions", (some(1, 5, 2), positions), ValueError, "longer than the table")
    for shape, about in (((1, 4, 2), "as long as the table"), ((3, 2, 2), "three in a batch, two places reached")):
        vectors, leaf = Tensor(some(*shape)), Tensor(positions, requires_grad=True)
        (vectors + functional.embedding(np.arange(shape[1]), leaf)).backward(some(*shape, seed=2))
        yield Case("positions_backward", (some(*shape, seed=2), 4), leaf.grad.numpy(), about)


# --- 6 ---


def rows_nobody_looked_up() -> Iterator[Case]:
    start, zeros, lr = some(3, 2), np.zeros((3, 2), np.float32), 0.5
    first = np.array([[1.0, -2.0], [0.0, 0.0], [0.5, 4.0]], np.float32)
    second = np.array([[0.0, 0.0], [0.0, 0.0], [0.5, 4.0]], np.float32)
    table_1, m_1, v_1 = once = adam(start, first, zeros, zeros, 1, lr)
    yield Case("adam_step", (start, first, zeros, zeros, 1, lr), once, "the first step: touched numbers move by lr")
    twice = adam(table_1, second, m_1, v_1, 2, lr)
    yield Case("adam_step", (table_1, second, m_1, v_1, 2, lr), twice, "row 0 has no gradient now, and moves")

    rows, halves = second[2:], np.stack([second[2] / 4, second[2] * 3 / 4])
    expected = tuple(np.stack([old[0], old[1], new[2]]) for old, new in zip(once, twice))
    for ids, g, about in (
        ([2], rows, "row 0 was not looked up: it stays"),
        ([2, 2], halves, "an id twice: one step, by the sum"),
    ):
        yield Case("sparse_adam_step", (table_1, np.array(ids), g, m_1, v_1, 2, lr), expected, about)


def adam(number, g, m, v, step, lr):
    """The formulas of the exercise, number by number."""
    out = tuple(np.empty_like(m) for _ in range(3))
    for place in np.ndindex(m.shape):
        mean = 0.9 * float(m[place]) + 0.1 * float(g[place])
        square = 0.999 * float(v[place]) + 0.001 * float(g[place]) ** 2
        move = lr * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)) ** 0.5 + 1e-8)
        for array, value in zip(out, (float(number[place]) - move, mean, square)):
            array[place] = value
    return out


EXERCISES = [
    Exercise(
        "ex1_bytes.py",
        bytes_and_merge,
        "Count how many bytes have already been given a new character; chr() makes it. For merge, walk with an index\n"
        "and look at two tokens at a time; after a joined pair the next one to look at is two further on.",
    ),
    Exercise(
        "ex2_onehot.py",
        one_hot_equals_lookup,
        "Comparing ids[..., None] with np.arange(num_rows) gives a True in each row, at the right place. The product\n"
        "of that with the table multiplies every row by 0 but one. Indexing an array with an array of ids does the\n"
        "same; look at the smallest and the largest id first.",
    ),
    Exercise(
        "ex3_backward.py",
        repeated_ids,
        "Begin with a table of zeros. Try table[np.array([1, 1])] += 1 and look at row 1: it is 1, not 2, for NumPy\n"
        "reads the old row once. A loop over the places adds each; so does the `at` method of np.add.",
    ),
    Exercise(
        "ex4_tying.py",
        two_gradients,
        "logits[n, v] is the product of hidden[n] and table[v]: row v as the head gets g[n, v] * hidden[n] from every\n"
        "n. What hidden[n] gets is the same with the roles changed, and goes on into row ids[n], as in exercise 3.\n"
        "A table used twice gets the sum.",
    ),
    Exercise(
        "ex5_positions.py",
        place_by_place,
        "The first T rows have shape (T, C), and broadcasting adds them to each of the B sequences. Row t was used B\n"
        "times, once in each sequence: think of exercise 3, with ids that are the places.",
    ),
    Exercise(
        "ex6_adam.py",
        rows_nobody_looked_up,
        "In the dense step nothing asks which rows were looked up: a gradient of 0 lets m shrink to 0.9 m, and the\n"
        "number moves by it. For the sparse one, sum equal ids first (np.unique has return_inverse), then do the\n"
        "dense step on table[those ids] and put the results back into copies.",
    ),
]
