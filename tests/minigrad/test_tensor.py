"""What a Tensor is: its dtype rules, its conversions, and how it prints."""
import numpy as np
import pytest

from minigrad import Module, Parameter, Tensor, functional, no_grad
from minigrad.ids import IdTypeError

f32, f64 = np.float32, np.float64


def test_python_floats_become_float32_and_arrays_keep_their_dtype():
    assert Tensor([1.0, 2.0]).dtype == f32 and Tensor(1.5).dtype == f32
    assert Tensor(np.ones(2)).dtype == f64 and Tensor([np.float64(1.0)]).dtype == f64
    assert Tensor([1, 2]).dtype == np.int64 and Tensor([True]).dtype == np.bool_
    assert Tensor([1.0], dtype=f64).dtype == f64
    assert Tensor(Tensor(np.ones(2))).dtype == f64


def test_a_tensor_copies_the_array_it_is_given():
    array = np.zeros(3)
    tensor = Tensor(array)
    array += 1
    assert tensor.tolist() == [0, 0, 0]


@pytest.mark.parametrize("op", ["__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
                                "__rtruediv__", "__pow__", "__rpow__"])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_float32_stays_float32_against_python_numbers_and_0d_float64(op, shape):
    x = Tensor(np.ones(shape, f32))
    assert getattr(x, op)(2).dtype == f32
    assert getattr(x, op)(2.5).dtype == f32
    assert getattr(x, op)(True).dtype == f32
    if shape:
        assert getattr(x, op)(np.float64(2.5)).dtype == f32
        assert getattr(x, op)(Tensor(np.array(2.5))).dtype == f32
    assert getattr(Tensor(np.ones(shape)), op)(2.5).dtype == f64


def test_mixed_kinds_follow_torch():
    ints, floats = Tensor([1, 2]), Tensor([1.0, 2.0])
    assert (ints * floats).dtype == f32 and (ints * 2.5).dtype == f32 and (ints / ints).dtype == f32
    assert (ints * 2).dtype == np.int64 and (floats * Tensor(np.ones(2))).dtype == f64
    assert (np.ones(2, f32) * floats).dtype == f32 and isinstance(np.ones(2, f32) * floats, Tensor)


def test_chained_methods_keep_float32():
    x = Tensor(np.ones((2, 3), f32), requires_grad=True)
    for y in (x.mean(), x.var(), x.gelu(), x.sigmoid(), x.tanh(), x.sqrt(), x.max(), x.min(), x.sum(), x.exp().log(), x ** 0.5):
        assert y.dtype == f32, y
        x.zero_grad()
        y.sum().backward()
        assert x.grad.dtype == f32


def test_comparisons_give_arrays_of_bools():
    x = Tensor([1.0, 2.0])
    assert isinstance(x > 1.5, np.ndarray) and (x > 1.5).tolist() == [False, True]
    assert (x == Tensor([1.0, 3.0])).tolist() == [True, False] and (x != 1).tolist() == [False, True]
    assert (x <= 1).tolist() == [True, False] and (x >= 2).tolist() == [False, True] and (x < 2).tolist() == [True, False]
    assert len({x, x}) == 1  # hashed by identity


def test_conversions():
    assert Tensor(2.5).item() == 2.5 and float(Tensor([2.5])) == 2.5 and int(Tensor(3)) == 3 and bool(Tensor(0.0)) is False
    assert [10, 20, 30][Tensor(1)] == 20
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert np.shares_memory(x.detach().numpy(), x.data) and not x.detach().requires_grad
    assert np.asarray(x.detach()).tolist() == [1.0, 2.0] and np.asarray(x.detach(), dtype=f64).dtype == f64
    assert Tensor(x).tolist() == [1.0, 2.0]  # a copy, which does not require a gradient
    assert len(x) == 2 and x.size == 2 and x.ndim == 1 and x.shape == (2,)
    with pytest.raises(RuntimeError, match="Use tensor.detach"):
        x.numpy()
    with pytest.raises(ValueError, match=r"one entry, this one has shape \(2,\)"):
        x.item()
    with pytest.raises(TypeError, match="0-d"):
        len(Tensor(1.0))


@pytest.mark.parametrize("function", [
    np.asarray, np.array, np.copy, np.sort, np.zeros_like, np.linalg.norm, lambda x: np.concatenate([x, x]), lambda x: np.stack([x, x]),
    lambda x: np.dot(x, x), lambda x: np.allclose(x, x), lambda x: np.asarray(x, float), lambda x: np.array([x * 2, x]),
    lambda x: np.zeros(2).__setitem__(slice(None), x), lambda x: Tensor([x, x]),
])  # fmt: skip
def test_a_function_of_numpys_does_not_lose_the_gradient_without_a_word(function):
    x = Tensor([1.0, 2.0], requires_grad=True)
    for tensor in (x, x * 2, Parameter([1.0, 2.0])):
        with pytest.raises(RuntimeError, match=r"requires grad.*Use tensor\.detach\(\)\.numpy\(\) instead"):
            function(tensor)
    function(x.detach())
    with no_grad():
        function(x * 2)


def test_what_requires_a_gradient_may_be_compared_indexed_with_and_copied_from():
    x, place = Tensor([1.0, 2.0], requires_grad=True), Tensor([1])
    assert (x == x).all() and (x * 2 > x).all() and x[place].tolist() == [2.0] and x[x > 1].tolist() == [2.0]
    module = Module()
    module.weight = Parameter([0.0, 0.0])
    module.load_state_dict({"weight": x})
    assert module.weight.tolist() == [1.0, 2.0]
    with pytest.raises(IndexError):
        x[x]
    with pytest.raises(IdTypeError, match="ids must be integers, got float32"):
        functional.embedding(x, Tensor([[1.0]]))
    with pytest.raises(IdTypeError, match="targets must be integers, got float32"):
        functional.cross_entropy(Tensor([[1.0, 2.0]] * 2), x)


def test_what_cannot_be_a_tensor_or_require_a_gradient_is_refused():
    with pytest.raises(TypeError, match="floats, integers or bools, got <U1"):
        Tensor("a")
    with pytest.raises(TypeError, match="got complex128"):
        Tensor(1j)
    for data in ([1, 2], [True]):
        with pytest.raises(RuntimeError, match="only tensors of floating point dtype"):
            Tensor(data, requires_grad=True)
    y = Tensor([1.0], requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="only a leaf can stop"):
        y.requires_grad = False


def test_shapes():
    x = Tensor(np.arange(6.0).reshape(1, 2, 3))
    assert x.transpose(0, 2).shape == (3, 2, 1) and x.transpose().shape == (3, 2, 1) and x.T.shape == (3, 2, 1)
    assert x.transpose(2, 0, 1).shape == (3, 1, 2) and x.permute(1, 2, 0).shape == (2, 3, 1) and x.swapaxes(-1, -2).shape == (1, 3, 2)
    assert x.squeeze().shape == (2, 3) and x.squeeze(0).shape == (2, 3) and x.squeeze(1).shape == (1, 2, 3)
    assert x.unsqueeze(0).shape == (1, 1, 2, 3) and x.unsqueeze(-1).shape == (1, 2, 3, 1)
    assert x.reshape(3, 2).shape == (3, 2) and x.reshape((6,)).shape == (6,) and x.reshape(-1, 2).shape == (3, 2)
    assert x.expand(4, -1, -1).shape == (4, 2, 3) and Tensor([1.0]).expand(2, 3).shape == (2, 3)
    with pytest.raises(RuntimeError, match="cannot be broadcast"):
        x.sum_to_size(2, 2)


@pytest.mark.parametrize(("tensor", "text"), [
    (Tensor([[0.3374, -0.1778], [1.0, 2.0]], requires_grad=True),
     "tensor([[ 0.3374, -0.1778],\n        [ 1.0000,  2.0000]], requires_grad=True)"),
    (Tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (Tensor([1, -2]), "tensor([ 1, -2])"),
    (Tensor([True, False]), "tensor([ True, False])"),
    (Tensor(np.array([1.5])), "tensor([1.5000], dtype=float64)"),
    (Tensor(np.array([1.5]), requires_grad=True), "tensor([1.5000], dtype=float64, requires_grad=True)"),
    (Tensor(np.zeros((0, 3), f32)), "tensor([], size=(0, 3))"),
    (Tensor([]), "tensor([])"),
    (Tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (Tensor([float("nan"), float("inf"), 1.0]), "tensor([nan, inf, 1.])"),
    (Tensor(3.0), "tensor(3.)"),
    (Tensor(3.0, requires_grad=True) * 2, "tensor(6., grad_fn=<mul>)"),
], ids=lambda v: v if isinstance(v, str) else "")
def test_repr(tensor, text):
    assert repr(tensor) == text


def test_a_large_tensor_prints_its_edges():
    assert repr(Tensor(np.arange(2000.0, dtype=f32))) == (
        "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])")


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "sigmoid", "relu", "gelu", "abs", "sum", "mean", "max", "min"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)])
def test_every_operation_keeps_float32_at_every_shape_and_makes_float32_of_integers(name, shape):
    x = Tensor(np.ones(shape, f32), requires_grad=True)
    y = getattr(x, name)()
    assert y.dtype == f32
    y.sum().backward()
    assert x.grad.dtype == f32
    if name in ("exp", "log", "sqrt", "tanh", "sigmoid", "gelu"):
        assert getattr(Tensor(np.ones(shape, np.int64)), name)().dtype == f32
        assert getattr(Tensor(np.ones(shape, bool)), name)().dtype == f32


def test_a_float_is_no_index():
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        [1, 2][Tensor(1.0)]


@pytest.mark.parametrize("bad", [None, "3", 1j, np.datetime64("2020"), object()], ids=repr)
def test_arithmetic_with_what_is_no_number_is_refused(bad):
    for op in ("__add__", "__mul__", "__rsub__", "__truediv__", "__pow__"):
        with pytest.raises(TypeError):
            getattr(Tensor([1.0]), op)(bad)


def test_min_of_integers_and_bools():
    assert Tensor(np.array([0, 200], np.uint8)).min().item() == 0
    assert Tensor(np.array([-128, 3], np.int8)).min().item() == -128
    assert Tensor([True, False]).min().item() is False
    with pytest.raises(RuntimeError, match="min.. over dim None of an empty tensor"):
        Tensor(np.zeros(0)).min()


def test_habits_of_a_torch_user():
    assert f"{Tensor(2.5):.2f}" == "2.50" and f"{Tensor(2.5)}" == "tensor(2.5000)"
    assert Tensor([1.0, 2.0])[[]].shape == (0,)
    assert ([1.0, 2.0] @ Tensor([1.0, 2.0])).dtype == f32
    assert not Tensor([1.5], requires_grad=True).astype(int).requires_grad
