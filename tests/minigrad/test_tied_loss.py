"""linear_cross_entropy: equal to the clear version, in a fraction of its memory, and honest about what it cannot do."""
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import Tensor, functional, grad, gradcheck, no_grad, threads, tied_loss
from minigrad.ids import IdTypeError
from minigrad.losses import cross_entropy, softmax
from minigrad.rows import lookup
from minigrad.tied_loss import linear_cross_entropy


def leaf(array, dtype=None):
    return Tensor(array, requires_grad=True, dtype=dtype)


def drawn(N, C, V, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return leaf(rng.normal(size=(N, C)).astype(dtype)), leaf(rng.normal(size=(V, C)).astype(dtype)), rng.integers(0, V, N)


@pytest.fixture
def small_chunks(monkeypatch):
    """A few tokens and a few rows at a time, so that small inputs see every seam."""
    monkeypatch.setattr(tied_loss, "LOGITS", 400)
    monkeypatch.setattr(tied_loss, "BLOCK", 3)
    monkeypatch.setattr(tied_loss, "THREAD_SHARE", 1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@settings(max_examples=50)
@given(data=st.data())
def test_it_is_cross_entropy_of_the_product(data, reduction, dtype):
    shape = data.draw(st.sampled_from([(), (1,), (7,), (2, 3), (0,), (30,)]))
    C, V = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    hidden, weight = (leaf((rng.normal(size=s) * 3).astype(dtype)) for s in ((*shape, C), (V, C)))
    targets = np.where(rng.random(shape) < data.draw(st.sampled_from([0, 0.4, 1])), -100, rng.integers(0, V, shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tied_loss, "LOGITS", data.draw(st.sampled_from([1, 100, 400])))
        patch.setattr(tied_loss, "BLOCK", data.draw(st.integers(1, 40)))
        patch.setattr(tied_loss, "THREAD_SHARE", data.draw(st.sampled_from([1, 1 << 16])))
        got = linear_cross_entropy(hidden, weight, targets, reduction=reduction)
        upstream = rng.normal(size=got.shape).astype(dtype)
        ours = grad(got, [hidden, weight], [upstream])
    logits = hidden.reshape(-1, C) @ weight.T
    expected = cross_entropy(logits, targets.reshape(-1), reduction=reduction)
    theirs = grad(expected, [hidden, weight], [upstream.reshape(expected.shape)])
    close = {"float32": {"rtol": 1e-5, "atol": 1e-5}, "float64": {"rtol": 1e-11, "atol": 1e-11}}[dtype]
    np.testing.assert_allclose(got.data, expected.data.reshape(got.shape), **close)
    for mine, right in zip(ours, theirs):
        assert mine.dtype == dtype
        np.testing.assert_allclose(mine.data, right.data, **close)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_the_gradient_is_that_of_finite_differences(reduction, small_chunks):
    hidden, weight, targets = drawn(5, 3, 7)
    targets[2] = -100
    assert gradcheck(lambda h, w: linear_cross_entropy(h, w, targets, reduction=reduction), [hidden, weight])


def test_the_docstrings_formula(small_chunks):
    hidden, weight, targets = drawn(6, 3, 5)
    linear_cross_entropy(hidden, weight, targets, reduction="sum").backward()
    P = softmax(hidden @ weight.T).data
    embedding_backward = functional.scatter_add(targets, hidden.data, num_rows=5).data
    np.testing.assert_allclose(weight.grad.data, P.T @ hidden.data - embedding_backward, rtol=1e-12)
    np.testing.assert_allclose(hidden.grad.data, P @ weight.data - lookup(targets, weight).data, rtol=1e-12, atol=1e-12)


def test_a_tied_table_gets_both_gradients_in_one_array(small_chunks):
    ids, targets = np.array([0, 3, 3, 1]), np.array([3, 3, 1, 4])
    _, table, _ = drawn(1, 3, 5)
    linear_cross_entropy(lookup(ids, table), table, targets).backward()
    clear = leaf(table.data)
    cross_entropy(lookup(ids, clear) @ clear.T, targets).backward()
    np.testing.assert_allclose(table.grad.data, clear.grad.data, rtol=1e-12)


def test_backward_twice_over_a_kept_graph_adds_up(small_chunks):
    hidden, weight, targets = drawn(5, 3, 7)
    loss = linear_cross_entropy(hidden, weight, targets)
    loss.backward(retain_graph=True)
    once = [hidden.grad.data.copy(), weight.grad.data.copy()]
    loss.backward()
    for x, g in zip((hidden, weight), once):
        np.testing.assert_allclose(x.grad.data, 2 * g, rtol=1e-12)
    with pytest.raises(RuntimeError, match="a second time"):
        loss.backward()


def test_a_scaled_loss_scales_the_gradient(small_chunks):
    hidden, weight, targets = drawn(5, 3, 7)
    once = grad(linear_cross_entropy(hidden, weight, targets), [hidden, weight])
    half = grad(linear_cross_entropy(hidden, weight, targets) / 2, [hidden, weight])
    for a, b in zip(once, half):
        np.testing.assert_array_equal(a.data, 2 * b.data)


def test_all_ignored_is_a_nan_loss_and_a_gradient_of_zeros():
    hidden, weight, _ = drawn(3, 2, 4)
    loss = linear_cross_entropy(hidden, weight, [-100] * 3)
    loss.backward()
    assert np.isnan(loss.item()) and not hidden.grad.data.any() and not weight.grad.data.any()
    assert linear_cross_entropy(hidden, weight, [-100] * 3, reduction="sum").item() == 0


def test_a_sure_prediction_costs_exactly_what_the_clear_version_says():
    hidden, weight = leaf([[100.0]]), leaf([[1.0], [0.0], [-1.0]])
    assert linear_cross_entropy(hidden, weight, [0]).item() == 0.0
    assert linear_cross_entropy(hidden, weight, [2]).item() == 200.0


@pytest.mark.parametrize("dtype, z", [("float32", 60), ("float64", 520)])
def test_a_target_that_is_all_but_impossible_costs_what_the_clear_version_says(dtype, z):
    """Its exponential, and that of the sum, are far from the limits; their quotient is beyond them."""
    hidden, weight = leaf([[z]], dtype), leaf([[1.0], [-1.0]], dtype)
    assert tied_loss._are_small(hidden.data, weight.data)
    assert linear_cross_entropy(hidden, weight, [1]).item() == 2 * z


def test_huge_hidden_numbers_and_tiny_weights_have_the_gradient_of_the_clear_version():
    hidden, weight = leaf(np.float32([[1e18]])), leaf(np.float32([[-5e-17], [-5e-17]]))
    ours = grad(linear_cross_entropy(hidden, weight, [0]), [hidden, weight])
    clear = grad(cross_entropy(hidden @ weight.T, [0]), [hidden, weight])
    assert [g.tolist() for g in ours] == [g.tolist() for g in clear]


def test_no_gradient_is_made_that_nobody_asked_for(monkeypatch):
    hidden, weight, targets = drawn(5, 3, 7)
    asked = []
    real = tied_loss._losses_and_gradients
    monkeypatch.setattr(tied_loss, "_losses_and_gradients", lambda *a: asked.append(a[-1]) or real(*a))
    with no_grad():
        linear_cross_entropy(hidden, weight, targets)
    linear_cross_entropy(hidden.detach(), weight, targets).backward()
    linear_cross_entropy(hidden, weight.detach(), targets).backward()
    linear_cross_entropy(hidden.data, weight.data, targets)
    assert asked == [(False, False), (False, True), (True, False), (False, False)]


def test_the_logits_are_never_there_at_once():
    N, C, V = 1024, 8, 20_000  # the logits would be 78 MiB
    hidden, weight, targets = drawn(N, C, V, dtype=np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tied_loss, "LOGITS", 4 << 20)
        patch.setattr(tied_loss, "_kept", [])
        tracemalloc.start()
        linear_cross_entropy(hidden, weight, targets).backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 << 20


def test_the_number_of_threads_changes_nothing(monkeypatch):
    results = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        hidden, weight, targets = drawn(150, 4, 3000, dtype=np.float32)
        loss = linear_cross_entropy(hidden, weight, targets)
        loss.backward()
        results.append((loss.data.tobytes(), hidden.grad.data.tobytes(), weight.grad.data.tobytes()))
    assert len(set(results)) == 1


def test_the_number_of_threads_of_the_blas_changes_nothing():
    get, put = threads._openblas_threads()
    before, results = get(), set()
    try:
        for count in (1, 2):
            put(count)
            hidden, weight, targets = drawn(150, 64, 3000, dtype=np.float32)
            loss = linear_cross_entropy(hidden, weight, targets)
            loss.backward()
            results.add((loss.data.tobytes(), hidden.grad.data.tobytes(), weight.grad.data.tobytes()))
    finally:
        put(before)
    assert len(results) == 1


def test_it_says_that_it_can_be_differentiated_once_only():
    hidden, weight, targets = drawn(2, 2, 3)
    with pytest.raises(RuntimeError, match="differentiated once only"):
        linear_cross_entropy(hidden, weight, targets).backward(create_graph=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=100)
@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([0, 1e-20, 0.1, 1, 3, 10, 30, 100, 1e4, 1e20]), st.booleans())
@np.errstate(all="ignore")
def test_with_and_without_the_maximum_it_is_the_same(dtype, seed, C, size, sure):
    """On both sides of the bound below which no maximum is taken out: up to it both ways are right, beyond it one is."""
    rng = np.random.default_rng(seed)
    hidden, weight = (rng.normal(size=shape).astype(dtype) for shape in ((7, C), (9, C)))
    targets = rng.integers(0, 9, 7)
    if sure:  # the target's logit is the largest
        hidden = weight[targets] / np.linalg.norm(weight[targets], axis=1, keepdims=True)
    hidden *= np.asarray(size, dtype)
    ways = []
    for small in (tied_loss._are_small(hidden, weight), False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tied_loss, "_are_small", lambda *_, small=small: small)
            h, w = leaf(hidden), leaf(weight)
            loss = linear_cross_entropy(h, w, targets, reduction="none")
            ways.append((loss, *grad(loss.sum(), [h, w])))
    eps = np.finfo(dtype).eps
    largest = min(np.abs(hidden.astype(float) @ weight.T.astype(float)).max(), np.log(np.finfo(dtype).max))
    for ours, clear in zip(*ways):
        tolerance = 64 * eps * (1 + largest)  # what rounding a logit does to its exponential
        np.testing.assert_allclose(ours.data, clear.data, rtol=tolerance, atol=tolerance * max(1, min(size, 1e4)))


@pytest.mark.parametrize("dtype, below, beyond", [("float32", 60, 62), ("float64", 523, 525)])
@np.errstate(all="ignore")
def test_logits_are_small_as_long_as_their_exponentials_are_far_from_overflow(dtype, below, beyond):
    table = np.ones((9, 1), dtype)
    for z, small in [(0, True), (below, True), (beyond, False), (1e30, False), (np.inf, False), (np.nan, False)]:
        assert tied_loss._are_small(np.array([[0], [-z]], dtype), table) == small
    assert not tied_loss._are_small(table, table * np.asarray(1e25, dtype)), "its norm overflows, or a sum of rows might"
    assert not tied_loss._are_small(table * 0, table * np.asarray(np.inf, dtype))


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38, 1e20])
@pytest.mark.parametrize("where_", ["hidden", "weight"])
def test_what_is_not_finite_comes_out_as_in_the_clear_version(where_, value):
    arrays = {"hidden": np.float32([[1, 0], [2, 1]]), "weight": np.float32([[1, 1], [0, 1], [3, 0]])}
    arrays[where_][1, 1] = value
    ours = [leaf(array) for array in arrays.values()]
    theirs = [leaf(array) for array in arrays.values()]
    got = linear_cross_entropy(*ours, [0, 2], reduction="none")
    clear = cross_entropy(theirs[0] @ theirs[1].T, [0, 2], reduction="none")
    np.testing.assert_allclose(got.data, clear.data, rtol=1e-6)


def test_an_overflow_is_not_hidden_and_does_not_warn():
    weight = leaf(np.array([[3e38], [1.0], [-3e38]], np.float32))
    assert np.isnan(linear_cross_entropy(leaf(np.float32([[10.0]])), weight, [1]).item())  # +inf - +inf
    assert linear_cross_entropy(leaf(np.float32([[1.0]])), weight, [1]).item() == pytest.approx(3e38)


@pytest.mark.parametrize("error, message, arguments", [
    (IndexError, "target 5 at position 1 is out of range: 4 classes take targets 0 to 3", {"targets": [0, 5]}),
    (IdTypeError, "targets must be integers", {"targets": [0.5, 1.0]}),
    (ValueError, r"needs targets of shape \(2,\), got \(3,\)", {"targets": [0, 1, 2]}),
    (ValueError, "'avg' is not a valid value", {"reduction": "avg"}),
    (ValueError, "must agree in C", {"weight": np.ones((4, 2), np.float32)}),
    (RuntimeError, "one float dtype, got float32 and float64", {"weight": np.ones((4, 3))}),
])  # fmt: skip
def test_bad_input(error, message, arguments):
    good = {"hidden": np.ones((2, 3), np.float32), "weight": np.ones((4, 3), np.float32), "targets": [0, 1]}
    with pytest.raises(error, match=message):
        linear_cross_entropy(**{**good, **arguments})


def test_the_only_token_there_is_has_exactly_no_gradient():
    """P is 1 and Y is 1: (P - Y) @ W is 0, where P @ W - W[target] would leave what rounding did."""
    hidden, table = leaf(np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)), leaf([[1.5, 2.5]])
    loss = linear_cross_entropy(hidden, table, np.zeros(30, int), reduction="sum")
    assert not any(g.data.any() for g in grad(loss, [hidden, table]))


def test_memory_is_kept_for_the_next_call_and_no_more_than_there_is_for_logits(monkeypatch):
    monkeypatch.setattr(tied_loss, "_kept", [])
    for V, most, is_kept in (3000, 64 << 20, True), (2000, 64 << 20, True), (3000, 1000, False):
        monkeypatch.setattr(tied_loss, "LOGITS", most)
        before = list(tied_loss._kept)
        hidden, weight, targets = drawn(5, 2, V)
        linear_cross_entropy(hidden, weight, targets)
        if before and is_kept:
            assert tied_loss._kept[0] is before[0], "a smaller call takes what is there"
        assert bool(tied_loss._kept) == is_kept


def test_calls_at_the_same_time_do_not_share_memory():
    """The memory for logits is kept for the next call; one that comes before it is given back takes its own."""
    hidden, weight, targets = drawn(40, 8, 3000)

    def gradients(i):
        return grad(linear_cross_entropy(hidden, weight, (targets + i) % 3000), [hidden, weight])

    alone = [gradients(i) for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(gradients, [0, 1, 2, 3] * 5))
    for ours, right in zip(together, alone * 5):
        for a, b in zip(ours, right):
            np.testing.assert_array_equal(a.data, b.data)
