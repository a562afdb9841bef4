"""Every operation: first and second derivatives against finite differences, over shapes that are awkward."""
import copy
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from minigrad import Tensor, erf, functional, grad, gradcheck, gradgradcheck, maximum, ops, where
from minigrad.rows import lookup, scatter_add

SHAPES = {"0-d": (), "vector": (3,), "matrix": (2, 3), "empty": (0, 3), "with ones": (2, 1, 3)}
BROADCASTS = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 1, 3), (4, 1)), ((0, 3), (3,)), ((4, 0), (4, 1))]
LAYOUTS = {
    "contiguous": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "reversed": lambda a: np.ascontiguousarray(a[::-1])[::-1] if a.ndim else a,
}


def away_from_ties(shape, seed=0, low=0.3, high=2.0):
    """Distinct numbers, none near 0 and none near another: every operation here is smooth around them."""
    n = math.prod(shape)
    return np.random.default_rng(seed).permutation(np.linspace(low, high, n)).reshape(shape)


def leaf(array):
    """A leaf over this very array, whatever its strides."""
    tensor = Tensor._wrap(array)
    tensor.requires_grad = True
    return tensor


def check(fn, *inputs):
    assert gradcheck(fn, inputs)
    assert gradgradcheck(fn, inputs)


UNARY = {
    "neg": lambda x: -x, "exp": lambda x: x.exp(), "log": lambda x: x.log(), "sqrt": lambda x: x.sqrt(),
    "tanh": lambda x: x.tanh(), "sigmoid": lambda x: x.sigmoid(), "relu": lambda x: (x - 1).relu(),
    "erf": erf, "gelu": lambda x: x.gelu(), "gelu tanh": lambda x: x.gelu("tanh"), "abs": lambda x: (x - 1).abs(),
    "square": lambda x: x ** 2, "cube root": lambda x: x ** (1 / 3), "power of 2": lambda x: 2 ** x,
    "reciprocal": lambda x: 1 / x, "two minus": lambda x: 2 - x, "astype": lambda x: x.astype("float64"),
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean() if x.size else x.sum(),
    "max": lambda x: x.max() if x.size else x, "min": lambda x: x.min() if x.size else x,
    "reshape": lambda x: x.reshape(-1) if x.size else x.reshape(x.shape[::-1]), "T": lambda x: x.T * x.T,
    "unsqueeze": lambda x: x.unsqueeze(-1), "squeeze": lambda x: x.squeeze(), "expand": lambda x: x.expand(2, *x.shape),
    "sum_to_size": lambda x: (x * x).sum_to_size((1,) * x.ndim),
    "where": lambda x: where(x > 1, x * x, 2 * x),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, shape, layout):
    check(UNARY[name], leaf(LAYOUTS[layout](away_from_ties(SHAPES[shape]))))


BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "power": lambda a, b: a ** b, "maximum": maximum, "where": lambda a, b: where(np.asarray(True), a * b, b),
}


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary_broadcasts(name, shapes):
    a, b = (leaf(away_from_ties(shape, seed, 0.3 + seed / 30, 2 + seed / 7)) for seed, shape in enumerate(shapes))
    check(BINARY[name], a, b)
    check(lambda b, a: BINARY[name](a, b), b, a)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 2), (-1, 0), None, ()])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "var"])
def test_reductions(name, dim, keepdim):
    x = leaf(away_from_ties((2, 3, 4)))
    check(lambda x: getattr(x, name)(dim=dim, keepdim=keepdim), x)
    got = getattr(x, name)(axis=dim, keepdims=keepdim).data
    options = {"ddof": 1} if name == "var" else {}
    np.testing.assert_allclose(got, getattr(np, name)(x.data, axis=dim or None if dim != 0 else 0, keepdims=keepdim, **options))


@pytest.mark.parametrize("shapes", [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((3,), (5, 3, 2)), ((5, 2, 3), (3,)),
], ids=str)
def test_matmul(shapes):
    a, b = (leaf(away_from_ties(shape, seed)) for seed, shape in enumerate(shapes))
    np.testing.assert_allclose((a @ b).data, a.data @ b.data)
    check(ops.matmul, a, b)


@pytest.mark.parametrize("key", [
    0, -1, slice(1, None), slice(None, None, 2), (0, 1), (..., 1), (None, 1), np.array([0, 0, 1]), np.array([-1, 1]),
    (np.array([0, 0]), np.array([1, 1])), np.array([[True, False, True], [False, True, True]]), (slice(None), [0, 0]),
    Tensor([1, 1]), (), np.array([], int),
], ids=repr)
def test_indexing(key):
    x = leaf(away_from_ties((2, 3)))
    check(lambda x: x[key] * x[key], x)


def test_a_cell_read_twice_gets_both_gradients_and_a_tensor_iterates_over_its_rows():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x[[0, 0, 2]] * Tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [11.0, 0.0, 100.0]
    assert [row.tolist() for row in Tensor([[1.0, 2.0], [3.0, 4.0]])] == [[1.0, 2.0], [3.0, 4.0]]


KEYS = {
    "ids": (np.array([0, 1]), lambda i: i), "list": ([0, 1], lambda i: i), "tensor": (Tensor([0, 1]), lambda i: i),
    "mask": (np.array([True, True, False]), lambda i: i), "pair": (np.array([0, 1]), lambda i: (i, i)),
    "slice and ids": (np.array([0, 1]), lambda i: (slice(1), i)), "0-d": (np.array(0), lambda i: i),
}  # fmt: skip
USES = {
    "where": lambda x, c: where(c > 0, x, 5.0), "condition": lambda x, c: where(c, x, 5.0),
    "mul": lambda x, c: x * c, "rmul": lambda x, c: c * x, "div": lambda x, c: x / c, "rdiv": lambda x, c: c / x,
    "pow": lambda x, c: x ** c, "rpow": lambda x, c: c ** x, "maximum": lambda x, c: maximum(x, c),
    "matmul": lambda x, c: x @ c, "rmatmul": lambda x, c: c @ x, "of a vector": lambda x, c: x @ c[0], "by a vector": lambda x, c: c[0] @ x,
    "of many": lambda x, c: x.expand(2, 3, 3) @ c, "by many": lambda x, c: np.broadcast_to(c, (2, 3, 3)) @ x,
    "layer_norm": lambda x, c: functional.layer_norm(x, 3, c[0], c[1]),
    "bag": lambda x, c: functional.embedding_bag([[0, 1, 2]], x, mode="sum", per_sample_weights=c[:1]),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
def test_what_a_tensor_was_indexed_with_may_change_before_the_gradient_goes_back(name):
    (key, of), x = KEYS[name], leaf(away_from_ties((3, 3)))
    expected = grad((x[of(key)] * x[of(key)]).sum(), x)[0].tolist()
    changing = copy.deepcopy(key)
    y = (x[of(changing)] * x[of(changing)]).sum()
    if isinstance(changing, list):
        changing[:] = [2, 2, 2]
    else:
        (changing.data if isinstance(changing, Tensor) else changing)[...] = 2
    assert grad(y, x)[0].tolist() == expected


@pytest.mark.parametrize("name", USES)
def test_an_array_that_was_computed_with_may_change_before_the_gradient_goes_back(name):
    x = leaf(away_from_ties((3, 3)))
    constant = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0], [1.0, 0.0, 2.0]])
    expected = grad(USES[name](x, constant).sum(), x)[0].tolist()
    y = USES[name](x, constant).sum()
    constant[...] = 7
    np.testing.assert_array_equal(grad(y, x)[0].tolist(), expected)


@pytest.mark.parametrize("ids", [2, [1, 1, 2], [[0, 2], [2, 2]], np.zeros((0,), int), np.zeros((2, 0), np.int32)], ids=repr)
def test_lookup_and_scatter_add_are_each_others_backward(ids):
    table = leaf(away_from_ties((3, 2)))
    check(lambda t: lookup(ids, t), table)
    rows = leaf(away_from_ties((*np.shape(ids), 2)))
    check(lambda r: scatter_add(ids, r, num_rows=3), rows)
    # <lookup(ids, t), r> = <t, scatter_add(ids, r)>: the definition of a transpose
    left = (lookup(ids, table).data * rows.data).sum()
    right = (table.data * scatter_add(ids, rows, num_rows=3).data).sum()
    assert left == pytest.approx(right)


def test_a_small_network_passes_both_checks():
    w1, b1, w2 = (leaf(away_from_ties(s, i, -1, 1)) for i, s in enumerate([(3, 4), (4,), (4, 2)]))
    x = np.random.default_rng(0).normal(size=(5, 3))

    def network(w1, b1, w2):
        hidden = (Tensor(x) @ w1 + b1).tanh()
        out = (hidden @ w2).exp()
        return (out / out.sum(-1, keepdim=True)).log().mean()

    check(network, w1, b1, w2)


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3, min_side=0), st.randoms(use_true_random=False))
def test_a_gradient_has_its_tensors_shape_and_dtype_whatever_broadcast(shapes, random):
    dtypes = [random.choice([np.float32, np.float64]) for _ in range(2)]
    a, b = (Tensor(np.ones(s, d), requires_grad=True) for s, d in zip(shapes.input_shapes, dtypes))
    ga, gb = grad((a * b + a - b / 2).sum(), [a, b])
    assert (ga.shape, ga.dtype, gb.shape, gb.dtype) == (a.shape, a.dtype, b.shape, b.dtype)
    total = math.prod(shapes.result_shape)
    assert float(ga.sum()) == pytest.approx(2 * total) and float(gb.sum()) == pytest.approx(0.5 * total)


def test_subgradients_are_torchs():
    def at(value, fn):
        x = Tensor(value, requires_grad=True)
        (g,) = grad(fn(x), x)
        return g.item()

    assert at(0.0, lambda x: x.relu()) == 0
    assert at(0.0, lambda x: x.abs()) == 0
    assert at(math.nan, lambda x: x.relu()) == 1
    assert at(math.nan, lambda x: x.abs()) == 0
    assert at(0.0, lambda x: x.sqrt()) == math.inf
    assert at(-0.0, lambda x: x.sqrt()) == at(-0.0, lambda x: x ** 0.5) == -math.inf
    assert math.isnan(at(-2.0, lambda x: x ** 0.5))


def gradient(fn, array, seed):
    x = Tensor(np.array(array, np.float32), requires_grad=True)
    return grad(fn(x), x, grad_outputs=[np.array(seed, np.float32)])[0].tolist()


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_gradient_of_a_maximum_that_is_nan_goes_to_the_nan(name):
    rows = [[1, math.nan, math.nan], [3, 5, 4] if name == "max" else [5, 3, 4]]
    assert gradient(lambda x: getattr(x, name)(1), rows, [1, 10]) == [[0, 1, 0], [0, 10, 0]]  # the first, as of equals
    assert gradient(lambda x: getattr(x, name)(), rows, 1) == [[0, 0.5, 0.5], [0, 0, 0]]
    np.testing.assert_equal(gradient(lambda x: getattr(x, name)((0, 1)), rows, 1), [[math.nan] * 3] * 2)  # as torch's amax
    np.testing.assert_equal(gradient(lambda x: getattr(x, name)((1,)), rows, [1, 10]), [[math.nan] * 3, [0, 10, 0]])
    x, y = (Tensor([math.nan, 1.0], requires_grad=True) for _ in range(2))
    assert [g.tolist() for g in grad(maximum(x, y * 0).sum(), [x, y])] == [[1, 1], [0, 0]]


@pytest.mark.parametrize("wild", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_reaches_only_what_was_chosen(wild):
    assert gradient(lambda x: x.relu(), [-1, 0, 2], [wild, wild, 1]) == [0, 0, 1]
    assert gradient(lambda x: x.max(), [1, 2, 0], 1) == [0, 1, 0]
    np.testing.assert_equal(gradient(lambda x: x.max(), [1, 2, 0], wild), [0, wild, 0])
    np.testing.assert_equal(gradient(lambda x: x.min(0), [1, 2, 0], wild), [0, 0, wild])
    np.testing.assert_equal(gradient(lambda x: maximum(x, 1), [0, 2], [wild, wild]), [0, wild])
    for form in ("none", "tanh"):
        np.testing.assert_equal(gradient(lambda x, form=form: x.gelu(form), [-1, 0, 2], [wild] * 3), [-wild, wild, wild])
    np.testing.assert_equal(gradient(lambda x: x ** 0, [0, 2], [wild, wild]), [0, 0])


def test_errors_of_reductions_and_matmul_name_the_fault():
    x = Tensor(np.zeros((2, 3, 4)))
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        x.sum((0, -3))
    with pytest.raises(IndexError, match=r"range of \[-3, 2\], but got 3"):
        x.sum(3)
    with pytest.raises(RuntimeError, match="should be floating point, got int64"):
        Tensor([1, 2]).mean()
    with pytest.raises(RuntimeError, match="max.. over dim None of an empty tensor"):
        Tensor(np.zeros(0)).max()
    assert np.isnan(Tensor(np.zeros(0)).mean().item())
    with pytest.raises(ValueError, match="inner sizes 3 and 2 differ"):
        Tensor(np.zeros((2, 3))) @ Tensor(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="at least one dimension"):
        Tensor(1.0) @ Tensor([1.0])
    with pytest.raises(ValueError, match="'none' or 'tanh', got 'fast'"):
        x.gelu("fast")
