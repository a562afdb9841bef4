"""softmax, log_softmax and cross_entropy: values, both derivatives, and what is refused."""
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import Tensor, gradcheck, gradgradcheck
from minigrad.ids import IdTypeError
from minigrad.losses import cross_entropy, log_softmax, softmax
from minigrad.tied_loss import linear_cross_entropy

ROWS = {row["id"]: row for row in map(json.loads, (Path(__file__).parent / "cases/losses.jsonl").open(encoding="utf-8"))}
INF = math.inf


def leaf(values, dtype=None):
    return Tensor(values, requires_grad=True, dtype=dtype)


def loss_and_gradient(logits, targets, **options):
    x = leaf(logits)
    loss = cross_entropy(x, targets, **options)
    loss.backward()
    return [loss.item(), x.grad.tolist()]


def all_ignored():
    none = cross_entropy(np.zeros((2, 3), np.float32), [-100, -100], reduction="none")
    total = cross_entropy(np.zeros((2, 3), np.float32), [-100, -100], reduction="sum")
    mean, grad = loss_and_gradient(np.zeros((2, 3), np.float32), [-100, -100])
    return {"mean": str(mean), "sum": total.item(), "none": none.tolist(), "grad": grad}


def ignored_out_of_range():
    x = np.zeros((3, 3), np.float32)
    return [cross_entropy(x, [0, 255, 2], 255, reduction).tolist() for reduction in ("none", "mean")]


ANSWERS = {
    "ce-all-ignored": all_ignored,
    "ce-bad-negative": lambda: cross_entropy(np.zeros((2, 5), np.float32), [1, -4], ignore_index=-1),
    "ce-ignore-out-of-range": ignored_out_of_range,
    "ce-ignore-valid-class": lambda: cross_entropy(Tensor([[0.0, 1.0, 1.0]] * 2), [1, 2], 0, "sum").item(),
    "ce-minus-inf-logit": lambda: loss_and_gradient([[-INF, 0.0, 0.0]], [1]),
    "softmax-overflow": lambda: loss_and_gradient([[-431.0, 279.0, 427.0]], [0]),
}


@pytest.mark.parametrize("name", ROWS)
def test_case(name):
    expected = ROWS[name]["expected"]
    if isinstance(expected, dict) and "error" in expected:
        with pytest.raises(IndexError, match="target -4 at position 1 is out of range: 5 classes take targets 0 to 4"):
            ANSWERS[name]()
        return
    got = ANSWERS[name]()
    if isinstance(expected, dict):
        assert got == expected
    else:
        for mine, right in zip(got, expected) if isinstance(expected, list) else [(got, expected)]:
            np.testing.assert_allclose(mine, right, rtol=1e-6, atol=1e-7, err_msg=ROWS[name]["cause"])


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("fn", [softmax, log_softmax])
def test_softmax_is_differentiable_twice_over_any_dim(fn, dim):
    x = leaf(np.random.default_rng(0).normal(size=(2, 3, 2)))
    assert gradcheck(lambda x: fn(x, dim), x)
    assert gradgradcheck(lambda x: fn(x, dim), x)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 2), (2, 3, 2, 2)], ids=str)
def test_cross_entropy_is_differentiable_twice(shape, reduction, smoothing):
    rng = np.random.default_rng(0)
    others = shape[:1] + shape[2:] if len(shape) > 1 else ()
    targets = rng.integers(0, 3, others)
    if targets.size > 1:
        targets.flat[1] = -100
    fn = lambda x: cross_entropy(x, targets, reduction=reduction, label_smoothing=smoothing)
    assert gradcheck(fn, leaf(rng.normal(size=shape)))
    assert gradgradcheck(fn, leaf(rng.normal(size=shape)))


@given(st.integers(0, 2**32), st.integers(0, 5), st.integers(1, 6), st.integers(-800, 800))
def test_softmax_sums_to_one_and_does_not_see_a_shift(seed, n, c, shift):
    x = np.random.default_rng(seed).integers(-20, 20, (n, c)).astype(np.float64)
    p = softmax(x).data
    assert (p >= 0).all() and np.allclose(p.sum(1), 1)
    np.testing.assert_array_equal(softmax(x + shift).data, p)  # whole numbers: x + shift is exact
    np.testing.assert_allclose(np.exp(log_softmax(x).data), p, rtol=1e-12)


@given(st.integers(0, 2**32), st.integers(0, 6), st.integers(1, 5), st.sampled_from(["int8", "uint8", "int32", "int64", "uint64"]))
def test_the_mean_is_over_the_targets_that_count(seed, n, c, dtype):
    rng = np.random.default_rng(seed)
    x, targets = rng.normal(size=(n, c)), rng.integers(0, c + 1, n)  # class c is the ignored one
    kept = targets != c
    got = cross_entropy(x, targets.astype(dtype), ignore_index=c)
    if kept.any():
        np.testing.assert_allclose(got.data, cross_entropy(x[kept], targets[kept]).data, rtol=1e-12)
    else:
        assert np.isnan(got.item())
    none = cross_entropy(x, targets, ignore_index=c, reduction="none").data
    assert none.shape == (n,) and (none[~kept] == 0).all()


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_smoothing_is_the_loss_against_a_blurred_one_hot(seed, e):
    rng = np.random.default_rng(seed)
    x, targets = rng.normal(size=(4, 5)), rng.integers(0, 5, 4)
    blurred = (1 - e) * np.eye(5)[targets] + e / 5
    expected = -(blurred * log_softmax(x).data).sum(1)
    np.testing.assert_allclose(cross_entropy(x, targets, reduction="none", label_smoothing=e).data, expected, rtol=1e-12)


def test_an_ignored_row_gets_no_gradient_and_an_infinite_loss_there_does_not_show():
    x = leaf([[0.0, -INF], [0.0, 1.0]])
    loss = cross_entropy(x, [-100, 1], reduction="sum")
    loss.backward()
    assert np.isfinite(loss.item()) and x.grad[0].tolist() == [0.0, 0.0]
    assert cross_entropy(Tensor([[-INF, 0.0]]), [0]).item() == INF  # the target itself is impossible


def test_what_is_not_finite_is_not_hidden():
    assert np.isnan(softmax(Tensor([-INF, -INF])).data).all()
    assert np.isnan(softmax(Tensor([INF, 0.0])).data).any()
    assert cross_entropy(Tensor([[1e38, -1e38]]), [1]).item() == pytest.approx(2e38)
    assert cross_entropy(Tensor([[-INF, 0.0]]), [1], label_smoothing=0.1).item() == INF


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dtypes_stay(dtype):
    x = leaf(np.ones((2, 3)), dtype)
    loss = cross_entropy(x, np.array([0, -100]), label_smoothing=0.1)
    loss.backward()
    assert loss.dtype == x.grad.dtype == softmax(x).dtype == log_softmax(x, 0).dtype == dtype


def test_empty_batches():
    x = np.zeros((0, 3), np.float32)
    assert np.isnan(cross_entropy(x, []).item())
    assert cross_entropy(x, [], reduction="sum").item() == 0 and cross_entropy(x, [], reduction="none").shape == (0,)
    assert softmax(x).shape == log_softmax(x, 0).shape == (0, 3)


@pytest.mark.parametrize("error, message, arguments", [
    (IndexError, "target 3 at position 1 is out of range: 3 classes take targets 0 to 2, and -100 for none", {"targets": [0, 3]}),
    (IndexError, "target -1 at position 0", {"targets": [-1, 0]}),
    (IdTypeError, r"targets must be integers, got float64 of shape \(2,\), the first is .*0.5.*; valid are 0 to 2, and -100 for none",
     {"targets": [0.5, 1.0]}),
    (IdTypeError, "targets must be integers, got bool", {"targets": [True, False]}),
    (ValueError, r"need targets of shape \(2,\), got \(3,\)", {"targets": [0, 1, 2]}),
    (ValueError, "'avg' is not a valid value for reduction: choose from none, mean, sum", {"reduction": "avg"}),
    (ValueError, "label_smoothing must be from 0 to 1, got 1.5", {"label_smoothing": 1.5}),
    (ValueError, "got -0.1", {"label_smoothing": -0.1}),
    (RuntimeError, "floating point numbers, got int64", {"logits": np.zeros((2, 3), np.int64)}),
    (ValueError, "got a single number", {"logits": Tensor(1.0)}),
])  # fmt: skip
def test_bad_input(error, message, arguments):
    with pytest.raises(error, match=message):
        cross_entropy(**{"logits": np.zeros((2, 3), np.float32), "targets": [0, 1], **arguments})


def test_a_bad_target_in_a_grid_is_named_by_its_place():
    with pytest.raises(IndexError, match=r"target 7 at position \(1, 2\)"):
        cross_entropy(np.zeros((2, 5, 3), np.float32), [[0, 1, 2], [3, -100, 7]])
    with pytest.raises(IndexError, match="target 5 is out of range"):
        cross_entropy(np.zeros(5, np.float32), 5)
    with pytest.raises(IndexError, match="Dimension out of range"):
        softmax(np.zeros((2, 3)), 2)


@pytest.mark.parametrize("loss", [lambda i: cross_entropy(np.zeros((1, 5)), [1], ignore_index=i),
                                  lambda i: linear_cross_entropy(np.zeros((1, 2)), np.zeros((5, 2)), [1], i)])
def test_what_is_ignored_is_an_integer(loss):
    for wrong in (1.5, "1", None, True):
        with pytest.raises(TypeError, match="ignore_index must be an integer"):
            loss(wrong)
    assert loss(np.int64(-1)).item() == pytest.approx(np.log(5))
