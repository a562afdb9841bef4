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
