"""Values and gradients of every operation beside torch's."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import Tensor, erf, maximum, where

pytestmark = pytest.mark.parity

OPERATIONS = {  # name: (ours, torch's)
    "add": (lambda m, a, b: a + b,) * 2, "mul": (lambda m, a, b: a * b,) * 2, "div": (lambda m, a, b: a / b,) * 2,
    "rsub": (lambda m, a, b: 2 - a * b,) * 2, "pow": (lambda m, a, b: abs(a) ** b,) * 2,
    "maximum": (lambda m, a, b: maximum(a, b), lambda m, a, b: m.maximum(a, b)),
    "where": (lambda m, a, b: where(a > b, a * b, b), lambda m, a, b: m.where(a > b, a * b, b)),
    "exp": (lambda m, a, b: a.exp(),) * 2, "log": (lambda m, a, b: (abs(a) + 1).log(),) * 2,
    "tanh": (lambda m, a, b: a.tanh(),) * 2, "sigmoid": (lambda m, a, b: a.sigmoid(),) * 2,
    "relu": (lambda m, a, b: a.relu(),) * 2, "erf": (lambda m, a, b: erf(a), lambda m, a, b: m.erf(a)),
    "gelu": (lambda m, a, b: a.gelu(), lambda m, a, b: m.nn.functional.gelu(a)),
    "gelu tanh": (lambda m, a, b: a.gelu("tanh"), lambda m, a, b: m.nn.functional.gelu(a, approximate="tanh")),
    "sqrt": (lambda m, a, b: abs(a).sqrt(),) * 2, "sum": (lambda m, a, b: a.sum(0),) * 2,
    "mean": (lambda m, a, b: a.mean(-1, keepdim=True) * b,) * 2, "var": (lambda m, a, b: a.var(0),) * 2,
    "var of all": (lambda m, a, b: a.var(),) * 2, "max": (lambda m, a, b: a.max(),) * 2, "min": (lambda m, a, b: a.min(),) * 2,
    "max of dim": (lambda m, a, b: a.max(1), lambda m, a, b: a.max(1).values),
    "min of dim": (lambda m, a, b: a.min(0), lambda m, a, b: a.min(0).values),
    "max of dims": (lambda m, a, b: a.max((0, 1)), lambda m, a, b: a.amax((0, 1))),
    "min of dims": (lambda m, a, b: a.min((1,)), lambda m, a, b: a.amin((1,))),
    "matmul": (lambda m, a, b: a @ b.T if b.ndim == 2 else a @ b,) * 2,
    "transpose": (lambda m, a, b: a.transpose(0, 1) * 2,) * 2, "reshape": (lambda m, a, b: a.reshape(-1) * 3,) * 2,
    "index": (lambda m, a, b: a[[0, 0, 1]],) * 2, "expand": (lambda m, a, b: a.unsqueeze(0).expand(3, -1, -1),) * 2,
}


@pytest.mark.parametrize("other", [(2, 3), (3,), (1, 3)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(torch, name, dtype, other):
    ours, theirs = OPERATIONS[name]
    # whole numbers, so that ties, zeros and repeated values occur
    arrays = [np.random.default_rng(i).integers(-2, 3, shape).astype(dtype) for i, shape in enumerate([(2, 3), other])]
    a, b = (Tensor(x, requires_grad=True) for x in arrays)
    ta, tb = (torch.tensor(x, requires_grad=True) for x in arrays)
    got, expected = ours(None, a, b), theirs(torch, ta, tb)
    assert str(expected.dtype) == f"torch.{got.dtype}" and tuple(expected.shape) == got.shape
    rtol = 2e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got.data, expected.detach().numpy(), rtol=rtol, atol=rtol)
    seed = np.random.default_rng(9).normal(size=got.shape).astype(dtype)
    got.backward(seed)
    expected.backward(torch.tensor(seed))
    for mine, yours in ((a, ta), (b, tb)):
        assert (mine.grad is None) == (yours.grad is None)
        if mine.grad is not None:
            np.testing.assert_allclose(mine.grad.data, yours.grad.numpy(), rtol=4 * rtol, atol=4 * rtol)


EDGES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 100.0, -100.0], np.float32)
POWERS = {f"to the {e}": (lambda m, a, b, e=e: a ** e,) * 2 for e in (0, 1, 2, 3, -1, -2, 0.5, -0.5, np.nan, np.inf)}
AT_EDGES = OPERATIONS | POWERS | {
    "pow": (lambda m, a, b: a ** b,) * 2, "log": (lambda m, a, b: a.log(),) * 2, "sqrt": (lambda m, a, b: a.sqrt(),) * 2,
    "abs": (lambda m, a, b: a.abs(),) * 2, "sub": (lambda m, a, b: a - b,) * 2, "neg": (lambda m, a, b: -a,) * 2,
    "power of 2": (lambda m, a, b: 2 ** a,) * 2, "min of dim": (lambda m, a, b: a.min(1), lambda m, a, b: a.min(1).values),
}
@pytest.mark.parametrize("seed", [1.0, 0.0, np.nan, np.inf], ids=str)
@pytest.mark.parametrize("name", AT_EDGES)
def test_values_and_gradients_at_nan_infinity_and_the_zeros(torch, name, seed):
    ours, theirs = AT_EDGES[name]
    if name == "matmul":  # of one row: what a sum of several makes of nan and inf is another matter
        arrays = [EDGES[:, None], EDGES[::-1, None].copy()]
    elif name == "var of all":
        arrays = [EDGES[3:], EDGES[3:]]
    else:
        arrays = [x.copy() for x in np.meshgrid(EDGES, EDGES, indexing="ij")]  # each beside each
    a, b = (Tensor(x, requires_grad=True) for x in arrays)
    ta, tb = (torch.tensor(x, requires_grad=True) for x in arrays)
    got, expected = ours(None, a, b), theirs(torch, ta, tb)
    np.testing.assert_allclose(got.data, expected.detach().numpy(), rtol=4e-6, atol=1e-6)
    got.backward(np.full(got.shape, seed, np.float32))
    expected.backward(torch.full(got.shape, seed))
    for mine, yours in ((a, ta), (b, tb)):
        if yours.grad is not None:
            np.testing.assert_allclose(mine.grad.data, yours.grad.numpy(), rtol=8e-6, atol=1e-6)


@settings(max_examples=100)
@given(data=st.data())
def test_gradients_of_reductions_with_nan_and_infinity_among_them(torch, data):
    numbers = st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0])
    array = np.array(data.draw(st.lists(numbers, min_size=6, max_size=6)), np.float32).reshape(2, 3)
    for ours, theirs in [OPERATIONS[name] for name in OPERATIONS if name[:3] in ("sum", "mea", "var", "max", "min")]:
        if theirs is OPERATIONS["maximum"][1]:
            continue
        a, ta = Tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
        got, expected = ours(None, a, Tensor([1.0])), theirs(torch, ta, torch.tensor([1.0]))
        seed = np.array(data.draw(st.lists(numbers, min_size=got.size, max_size=got.size)), np.float32).reshape(got.shape)
        got.backward(seed)
        expected.backward(torch.tensor(seed))
        np.testing.assert_allclose(a.grad.data, ta.grad.numpy(), rtol=8e-6, atol=1e-6)


@settings(max_examples=300)
@given(data=st.data())
def test_repr_is_torchs_to_the_character(torch, data):
    shape = data.draw(st.lists(st.integers(0, 8), max_size=3).map(tuple) | st.sampled_from([(1001,), (40, 30), (7, 8, 20)]))
    kind = data.draw(st.sampled_from(["normal", "whole", "huge", "tiny", "mixed", "int", "bool"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    normal = rng.standard_normal(shape)
    array = {
        "normal": normal, "whole": np.round(normal * 3), "huge": normal * 1e9, "tiny": normal * 1e-6,
        "mixed": np.where(normal > 1, np.nan, np.where(normal < -1, np.inf, normal)),
        "int": np.round(normal * 50), "bool": normal > 0,
    }[kind].astype({"int": np.int64, "bool": np.bool_}.get(kind, np.float32))
    assert repr(Tensor(array)) == repr(torch.tensor(array)).replace("dtype=torch.", "dtype=")
    if array.dtype == np.float32:
        assert repr(Tensor(array, requires_grad=True)) == repr(torch.tensor(array, requires_grad=True))


def test_dtypes_of_mixed_operands(torch):
    operands = [2, 2.5, True, *(np.ones(shape, dtype) for shape in ((), (2,))
                                for dtype in ("float32", "float64", "int64", "int32", "bool"))]
    for x in operands[3:]:
        for y in operands:
            for op in ("__add__", "__mul__", "__truediv__"):
                theirs = getattr(torch.tensor(x), op)(torch.tensor(y) if isinstance(y, np.ndarray) else y)
                ours = getattr(Tensor(x), op)(Tensor(y) if isinstance(y, np.ndarray) else y)
                assert f"torch.{ours.dtype}" == str(theirs.dtype), (x, op, y)
