"""Losses beside torch's."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import Tensor
from minigrad.losses import cross_entropy, log_softmax, softmax

pytestmark = pytest.mark.parity

SHAPES = [(4,), (5, 4), (0, 4), (3, 4, 2), (2, 4, 3, 2), (3, 1)]
AWKWARD = [0.0, 1e36, -1e36, np.inf, -np.inf, np.nan]


def close(got, expected, dtype):
    rtol = 2e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got.data, expected.detach().numpy(), rtol=rtol, atol=rtol)
    assert got.shape == tuple(expected.shape) and f"torch.{got.dtype}" == str(expected.dtype)


@settings(max_examples=150)
@given(data=st.data())
def test_cross_entropy(torch, data):
    shape = data.draw(st.sampled_from(SHAPES))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    logits = (rng.normal(size=shape) * data.draw(st.sampled_from([1, 100]))).astype(dtype)
    awkward = rng.random(shape) < data.draw(st.sampled_from([0, 0, 0.1, 0.5]))
    logits[awkward] = rng.choice(AWKWARD, awkward.sum())
    classes = shape[1] if len(shape) > 1 else shape[0]
    ignore_index = data.draw(st.sampled_from([-100, 0, 255]))
    targets = rng.integers(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    targets = np.where(rng.random(targets.shape) < data.draw(st.sampled_from([0, 0.3, 1])), ignore_index, targets)
    options = {
        "reduction": data.draw(st.sampled_from(["none", "sum", "mean"])), "ignore_index": ignore_index,
        "label_smoothing": data.draw(st.sampled_from([0.0, 0.1, 1.0])),
    }

    x, tx = Tensor(logits, requires_grad=True), torch.tensor(logits, requires_grad=True)
    ours, theirs = cross_entropy(x, targets, **options), torch.nn.functional.cross_entropy(tx, torch.tensor(targets), **options)
    close(ours, theirs, dtype)
    seed = rng.normal(size=ours.shape).astype(dtype)
    ours.backward(seed)
    theirs.backward(torch.tensor(seed))
    close(x.grad, tx.grad, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("fn", [softmax, log_softmax], ids=lambda fn: fn.__name__)
def test_softmax(torch, fn, dim, dtype):
    rng = np.random.default_rng(0)
    array = (rng.normal(size=(3, 4, 5)) * 30).astype(dtype)
    array[0, 0, :2] = -np.inf
    x, tx = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    ours, theirs = fn(x, dim), getattr(torch.nn.functional, fn.__name__)(tx, dim)
    close(ours, theirs, dtype)
    seed = rng.normal(size=array.shape).astype(dtype)
    ours.backward(seed)
    theirs.backward(torch.tensor(seed))
    close(x.grad, tx.grad, dtype)
