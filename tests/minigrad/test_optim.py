"""SGD, Adam and AdamW: what moves, what stays, and what is refused. (Their numbers: tests/parity/test_optim.py.)"""
import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import RowSparse, Tensor, functional, optim, threads
from minigrad.optim import SGD, Adam, AdamW

ROWS = {row["id"]: row for row in map(json.loads, (Path(__file__).parent / "cases/optim.jsonl").open(encoding="utf-8"))}
MAKERS = {
    "SGD": lambda p: SGD(p, 0.1), "momentum": lambda p: SGD(p, 0.1, 0.9), "nesterov": lambda p: SGD(p, 0.1, 0.9, nesterov=True),
    "dampening": lambda p: SGD(p, 0.1, 0.9, dampening=0.3), "Adam": lambda p: Adam(p, 0.1), "AdamW": lambda p: AdamW(p, 0.1),
}


def leaf(values, dtype=None):
    return Tensor(values, requires_grad=True, dtype=dtype)


def table_with(ids, rows=None, shape=(4, 2), dtype=np.float64):
    """A table of ones whose gradient names `ids`."""
    p = leaf(np.ones(shape, dtype))
    ids = np.array(ids, np.int64)
    p.grad = RowSparse(ids, np.ones((len(ids), *shape[1:]), dtype) if rows is None else rows, shape)
    return p


def adam_coalesces():
    p = leaf([[1.0], [1.0]])
    functional.embedding([0, 0], p, sparse=True).sum().backward()
    adam = Adam([p], lr=0.1)
    adam.step()
    return {"w": p.data.ravel(), "m": adam.state[0]["exp_avg"].ravel(), "v": adam.state[0]["exp_avg_sq"].ravel()}


def all_padding():
    p = leaf(np.ones((5, 1), np.float32))
    functional.embedding([[0, 0]], p, padding_idx=0, sparse=True).sum().backward()
    Adam([p]).step()
    return p.data.ravel()


def padding_and_decay():
    p = leaf(np.ones((2, 1), np.float32))
    functional.embedding([0, 1], p, padding_idx=1).sum().backward()
    AdamW([p], lr=0.1, weight_decay=0.5).step()
    return p.data.ravel()


def given_twice():
    p = leaf([1.0])
    p.sum().backward()
    SGD([p, p], lr=0.1).step()
    return p.data


ANSWERS = {
    "sparse-adam-coalesce": adam_coalesces, "sparse-all-padding": all_padding,
    "padding-weight-decay": padding_and_decay, "tied-opt-twice": given_twice,
}


@pytest.mark.parametrize("name", ROWS)
def test_case(name):
    got, expected = ANSWERS[name](), ROWS[name]["expected"]
    if not isinstance(expected, dict):
        got, expected = {"": got}, {"": expected}
    for key in expected:
        np.testing.assert_allclose(got[key], expected[key], rtol=1e-6, err_msg=ROWS[name]["cause"])


@pytest.mark.parametrize("make", [MAKERS[k] for k in ("SGD", "Adam")] + [lambda p: AdamW(p, 0.1, weight_decay=0)])
@settings(max_examples=20)
@given(st.lists(st.integers(0, 5), max_size=12), st.integers(0, 2**32))
def test_only_the_rows_looked_up_move(make, ids, seed):
    rows = np.random.default_rng(seed).normal(size=(len(ids), 3)) + 5
    p = table_with(ids, rows, (6, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optim, "BLOCK", 6)  # two rows at a time
        make([p]).step()
    moved = (p.data != 1).any(1)
    assert set(np.flatnonzero(moved)) == set(ids)


@pytest.mark.parametrize("name", ["SGD", "momentum", "nesterov", "dampening"])
@given(st.integers(0, 2**32))
@settings(max_examples=10)
def test_sgd_says_the_same_of_a_row_sparse_and_a_dense_gradient(name, seed):
    rng = np.random.default_rng(seed)
    start = rng.normal(size=(5, 2))
    sparse, dense = leaf(start), leaf(start)
    optimizers = MAKERS[name]([sparse]), MAKERS[name]([dense])
    for _ in range(4):
        ids = rng.integers(0, 5, 3)
        sparse.grad = RowSparse(ids, rng.normal(size=(3, 2)), (5, 2))
        dense.grad = sparse.grad.to_dense()
        for optimizer in optimizers:
            optimizer.step()
    np.testing.assert_allclose(sparse.data, dense.data, rtol=1e-12, atol=1e-14)


def test_the_step_count_of_row_sparse_adam_is_the_tables_not_the_rows():
    p = leaf(np.ones((2, 1), np.float32))
    adam = Adam([p], lr=0.1)
    for row in (0, 1, 0):
        p.grad = RowSparse(np.array([row]), np.ones((1, 1), np.float32), (2, 1))
        adam.step()
    np.testing.assert_allclose(p.data.ravel(), [0.814, 0.926], atol=1e-3)


@pytest.mark.parametrize("name", MAKERS)
def test_no_gradient_no_step(name):
    p, q = leaf([1.0, 2.0]), leaf([1.0])
    q.sum().backward()
    optimizer = MAKERS[name]([p, q])
    optimizer.step()
    assert p.data.tolist() == [1.0, 2.0] and optimizer.steps == [0, 1]
    q.data[:] = 0.5
    optimizer.zero_grad()
    assert q.grad is None
    optimizer.step()
    assert q.data.tolist() == [0.5]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 3), (2, 3, 4), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_blocks_and_threads_change_nothing(name, shape, monkeypatch):
    results = set()
    for block, count in [(1 << 18, 1), (4, 1), (4, 3)]:
        monkeypatch.setattr(optim, "BLOCK", block)
        monkeypatch.setattr(threads, "thread_count", lambda count=count: count)
        rng = np.random.default_rng(0)
        p = leaf(rng.normal(size=shape).astype(np.float32))
        optimizer = MAKERS[name]([p])
        for _ in range(3):
            p.grad = Tensor(rng.normal(size=shape).astype(np.float32))
            optimizer.step()
        assert p.dtype == np.float32 and p.shape == shape
        results.add(p.data.tobytes())
    assert len(results) == 1


def test_a_parameter_of_any_memory_order_is_stepped_where_it_lies():
    base = np.ones((6, 8))
    p = Tensor._wrap(base.T[::2])
    p.requires_grad = True
    p.grad = Tensor(np.ones(p.shape))
    SGD([p], 0.5).step()
    assert (base[:, ::2] == 0.5).all() and (base[:, 1::2] == 1).all()


@pytest.mark.parametrize("name", MAKERS)
def test_training_resumes_to_the_last_bit(name):
    def train(p, optimizer, steps):
        for step in steps:
            p.grad = Tensor(np.random.default_rng(step).normal(size=p.shape).astype(np.float32))
            optimizer.step()

    p = leaf(np.ones((4, 3), np.float32))
    optimizer = MAKERS[name]([leaf([1.0]), p])  # the first never gets a gradient
    train(p, optimizer, range(3))
    file = io.BytesIO()
    np.savez(file, **optimizer.state_dict())
    q = leaf(p.data)
    train(p, optimizer, range(3, 6))

    resumed = type(optimizer)([leaf([1.0]), q], lr=7.0, **({"momentum": 0.1} if "momentum_buffer" in optimizer.remembers else {}))
    file.seek(0)
    resumed.load_state_dict(np.load(file, allow_pickle=False))
    assert resumed.lr == optimizer.lr and resumed.steps == [0, 3]
    train(q, resumed, range(3, 6))
    assert p.data.tobytes() == q.data.tobytes()


def test_options_may_change_between_steps():
    p = leaf([1.0])
    p.grad = Tensor([1.0])
    sgd = SGD([p], lr=0.5)
    sgd.step()
    sgd.lr, sgd.momentum = 0.25, 0.5
    sgd.step()
    sgd.step()  # along 1 + 0.5 * 1
    assert p.data.tolist() == [1 - 0.5 - 0.25 - 0.25 * 1.5]


@pytest.mark.parametrize("sparse", [False, True])
def test_the_first_gradient_with_momentum_is_not_damped_whenever_the_momentum_is_set(sparse):
    p = leaf([[1.0]])
    sgd = SGD([p], lr=0.1)

    def step(optimizer, p):
        p.grad = RowSparse([0], np.ones((1, 1), np.float32), (1, 1)) if sparse else Tensor([[1.0]])
        optimizer.step()

    step(sgd, p)
    sgd.momentum, sgd.dampening = 0.9, 0.5
    q = leaf(p.data)
    resumed = SGD([q])
    resumed.load_state_dict(sgd.state_dict())  # taken when there is momentum, and no buffer yet
    for optimizer, x in ((sgd, p), (resumed, q)):
        step(optimizer, x)
        np.testing.assert_allclose(x.data, [[0.8]], rtol=1e-6)
        optimizer.momentum = 0
        step(optimizer, x)
        np.testing.assert_allclose(x.data, [[0.7]], rtol=1e-6)
        optimizer.momentum = 0.9
        step(optimizer, x)  # along 0.9 * 1 + 0.5 * 1: the buffer was there all the time
        np.testing.assert_allclose(x.data, [[0.56]], rtol=1e-6)


def test_a_state_that_does_not_fit_changes_nothing():
    p = leaf(np.ones((2, 2)))
    p.grad = Tensor(np.ones((2, 2)))
    adam = Adam([p], 0.1)
    adam.step()
    good = {name: array.copy() for name, array in adam.state_dict().items()}
    for change, message in [
        ({"0.exp_avg": np.ones((3, 2))}, r"0.exp_avg is float64 \(3, 2\), not float64 \(2, 2\)"),
        ({"0.exp_avg": np.ones((2, 2), np.float32)}, "0.exp_avg is float32"),
        ({"1.step": np.array(3)}, "1.step is unknown"),
        ({"lr": None}, "lr is missing"),
        ({"0.exp_avg_sq": None}, "0.exp_avg_sq is missing"),
        ({"lr": np.array(-1.0)}, "Invalid lr: -1.0; 0 or more is valid"),
        ({"eps": np.array("small")}, "eps must be a number, got 'small'"),
        ({"betas": np.array([0.9, 1.0])}, "Invalid beta parameter at index 1: 1.0"),
        ({"betas": np.array([0.9])}, r"betas is float64 \(1,\), not a number \(2,\)"),
        ({"0.step": np.array(1.5)}, "0.step is 1.5, not a count from 1"),
        ({"0.step": np.array(-1)}, "0.step is -1, not a count from 1"),
    ]:
        bad = {name: value for name, value in {**good, **change}.items() if value is not None}
        with pytest.raises(ValueError, match=message):
            adam.load_state_dict(bad)
        assert all(np.array_equal(adam.state_dict()[name], good[name]) for name in good)


def test_a_step_makes_nothing_of_the_size_of_the_table(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    shape = (50_000, 32)  # 6.4 MB
    p = leaf(np.ones(shape, np.float32))
    p.grad = Tensor(np.ones(shape, np.float32))
    for optimizer in (SGD([p]), SGD([p], momentum=0.9), AdamW([p])):
        optimizer.step()
        tracemalloc.start()
        optimizer.step()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4e6


def test_a_backward_that_needs_the_old_numbers_refuses_after_the_step():
    p = leaf([2.0])
    loss = (p * p).sum()
    p.grad = Tensor([1.0])
    SGD([p], 0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("make", [lambda p: SGD(p, 0.1, weight_decay=0.1), lambda p: Adam(p, weight_decay=0.1), AdamW])
def test_weight_decay_with_a_row_sparse_gradient_is_refused_before_anything_moves(make):
    first, p = leaf([1.0]), table_with([1])
    first.grad = Tensor([1.0])
    with pytest.raises(RuntimeError, match="moves every row, the gradient of parameter 1"):
        make([first, p]).step()
    assert first.data.tolist() == [1.0] and (p.data == 1).all()


@pytest.mark.parametrize("error, message, make", [
    (ValueError, "empty parameter list", lambda: SGD([], 0.1)),
    (TypeError, "parameter 1 is a ndarray", lambda: SGD([leaf([1.0]), np.ones(1)], 0.1)),
    (TypeError, "parameter 0 is a dict", lambda: Adam([{"params": [leaf([1.0])]}])),
    (ValueError, "non-leaf", lambda: SGD([leaf([1.0]) * 2], 0.1)),
    (ValueError, "Invalid lr: -1", lambda: SGD([leaf([1.0])], -1)),
    (ValueError, "Invalid lr: nan", lambda: Adam([leaf([1.0])], float("nan"))),
    (ValueError, "Invalid momentum", lambda: SGD([leaf([1.0])], 0.1, -0.5)),
    (ValueError, "Invalid weight_decay", lambda: AdamW([leaf([1.0])], weight_decay=-1)),
    (ValueError, "Invalid beta parameter at index 1: 1.0", lambda: Adam([leaf([1.0])], betas=(0.9, 1.0))),
    (ValueError, "Nesterov", lambda: SGD([leaf([1.0])], 0.1, nesterov=True)),
    (TypeError, "nesterov must be True or False, got 'no'", lambda: SGD([leaf([1.0])], 0.1, 0.9, nesterov="no")),
    (TypeError, "lr must be a number, got '0.1'", lambda: SGD([leaf([1.0])], "0.1")),
    (TypeError, "lr must be a number, got None", lambda: AdamW([leaf([1.0])], None)),
    (TypeError, "momentum must be a number, got True", lambda: SGD([leaf([1.0])], 0.1, True)),
    (ValueError, "Invalid dampening: nan; any finite number", lambda: SGD([leaf([1.0])], 0.1, 0.9, dampening=float("nan"))),
    (TypeError, r"betas must be two numbers, \(beta1, beta2\), got 0.9", lambda: Adam([leaf([1.0])], betas=0.9)),
    (ValueError, r"Invalid betas: \(0.9,\); two numbers", lambda: Adam([leaf([1.0])], betas=(0.9,))),
    (ValueError, r"Invalid betas: \(0.9, 0.99, 0.999\)", lambda: Adam([leaf([1.0])], betas=(0.9, 0.99, 0.999))),
    (TypeError, "beta parameter at index 0 must be a number, got None", lambda: Adam([leaf([1.0])], betas=(None, 0.9))),
    (ValueError, "Invalid eps: inf", lambda: Adam([leaf([1.0])], eps=float("inf"))),
])  # fmt: skip
def test_bad_options(error, message, make):
    with pytest.raises(error, match=message):
        make()
