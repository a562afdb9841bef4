"""functional.embedding and Embedding against torch: options x id shapes x id dtypes x memory order, one grid."""
import itertools

import numpy as np
import pytest

import minigrad
from embedding import Embedding
from minigrad import RowSparse, Tensor, functional

pytestmark = pytest.mark.parity

V, C = 7, 5
OPTIONS = {
    "plain": {},
    "padding": {"padding_idx": 2},
    "padding from the end": {"padding_idx": -1},
    "max_norm": {"max_norm": 1.5},
    "max_norm 1": {"max_norm": 2.0, "norm_type": 1.0},
    "max_norm inf": {"max_norm": 0.7, "norm_type": float("inf")},
    "max_norm of half": {"max_norm": 3.0, "norm_type": 0.5},
    "max_norm 3.5": {"max_norm": 1.0, "norm_type": 3.5},
    "max_norm counts": {"max_norm": 3.0, "norm_type": 0.0},
    "max_norm to zero": {"max_norm": 0.0},
    "by frequency": {"scale_grad_by_freq": True},
    "sparse": {"sparse": True},
    "sparse, padding": {"sparse": True, "padding_idx": 2},
    "sparse, max_norm": {"sparse": True, "max_norm": 1.0},
    "by frequency, padding": {"scale_grad_by_freq": True, "padding_idx": -2},
    "by frequency, padding, max_norm": {"scale_grad_by_freq": True, "padding_idx": 0, "max_norm": 1.2},
}
SHAPES = [(), (0,), (1,), (6,), (2, 0), (0, 2), (3, 4), (2, 3, 4), (1, 1, 1, 2)]
ORDERS = {
    "contiguous": lambda a: a,
    "reversed": lambda a: a[..., ::-1] if a.ndim else a,
    "transposed": lambda a: a.T,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
}
DTYPES = ["int64", "int32", "uint8", "int16", "uint64", "int8", ">i8"]


def filled(shape, dtype, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def dense(gradient):
    return gradient.to_dense().numpy() if isinstance(gradient, RowSparse) else gradient.numpy()


def torch_dense(gradient):
    return (gradient.to_dense() if gradient.is_sparse else gradient).numpy()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_gradient_and_table_are_torchs(torch, options, shape):
    for seed, (order, dtype) in enumerate(itertools.product(ORDERS, DTYPES)):
        real = ("float32", "float64")[seed % 2]
        ids = ORDERS[order](np.random.default_rng(seed).integers(0, V, shape)).astype(dtype)
        if order != "contiguous":
            ids = ORDERS[order](ids)  # astype made it contiguous
        table = filled((V, C), real, seed)
        ours = Tensor(table, requires_grad=True)
        theirs = torch.tensor(table, requires_grad=True)
        out = functional.embedding(ids, ours, **options)
        expected = torch.nn.functional.embedding(torch.tensor(ids.astype(np.int64)), theirs, **options)
        tolerance = {"rtol": 3e-6, "atol": 1e-6} if "max_norm" in options else {"rtol": 0, "atol": 0}
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), **tolerance)
        np.testing.assert_allclose(ours.data, theirs.detach().numpy(), **tolerance)

        upstream = filled(out.shape, real, seed + 1)
        out.backward(upstream)
        if shape == () and options.get("sparse") and "padding_idx" in options:  # torch's backward raises IndexError
            options = {**options, "sparse": False}
            expected = torch.nn.functional.embedding(torch.tensor(ids.astype(np.int64)), theirs, **options)
            assert ours.grad.ids.tolist() == [i for i in [int(ids)] if i != options["padding_idx"]]
            ours.grad = ours.grad.to_dense()
        expected.backward(torch.tensor(upstream))
        assert isinstance(ours.grad, RowSparse) == bool(options.get("sparse"))
        assert ours.grad.shape == (V, C) and ours.grad.dtype == real
        np.testing.assert_allclose(dense(ours.grad), torch_dense(theirs.grad), rtol=1e-6, atol=1e-6)
        if options.get("sparse"):
            np.testing.assert_array_equal(ours.grad.ids, theirs.grad._indices()[0].numpy())
            np.testing.assert_array_equal(ours.grad.coalesce().ids, theirs.grad.coalesce().indices()[0].numpy())


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_two_backwards_accumulate_as_in_torch(torch, options):
    table = filled((V, C), "float32", 3)
    ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
    for seed in (0, 1):
        ids = np.random.default_rng(seed).integers(0, V, 9)
        functional.embedding(ids, ours, **options).sum().backward()
        torch.nn.functional.embedding(torch.tensor(ids), theirs, **options).sum().backward()
    np.testing.assert_allclose(dense(ours.grad), torch_dense(theirs.grad), rtol=1e-6, atol=1e-6)
    if options.get("sparse") and "padding_idx" not in options:  # there torch may merge where it should concatenate
        assert len(ours.grad.ids) == theirs.grad._nnz()


def test_one_sparse_and_one_dense_use_of_a_table_make_a_dense_gradient(torch):
    table = filled((V, C), "float32", 3)
    ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
    hidden = filled((4, C), "float32", 4)
    for sparse_first in (True, False):
        uses = [functional.embedding([1, 1, 6], ours, sparse=True).sum(), (hidden @ ours.T).sum()]
        (uses[0] + uses[1] if sparse_first else uses[1] + uses[0]).backward()
        embedded = torch.nn.functional.embedding(torch.tensor([1, 1, 6]), theirs, sparse=True)
        (embedded.sum() + (torch.tensor(hidden) @ theirs.T).sum()).backward()
    assert isinstance(ours.grad, Tensor) and not theirs.grad.is_sparse
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": -1},
        {"padding_idx": 1, "max_norm": 2.0, "scale_grad_by_freq": True, "sparse": True},
        {"max_norm": 1, "norm_type": 1},
        {"norm_type": 3.0},
        {"sparse": True},
    ],
)
def test_the_repr_is_torchs_to_the_letter(torch, options):
    assert repr(Embedding(4, 3, **options)) == repr(torch.nn.Embedding(4, 3, **options))


def test_a_table_drawn_after_a_seed_holds_and_prints_torchs_numbers(torch):
    minigrad.manual_seed(123)
    torch.manual_seed(123)
    ours, theirs = Embedding(6, 3, padding_idx=4), torch.nn.Embedding(6, 3, padding_idx=4)
    assert repr(ours.weight) == repr(theirs.weight)
    ours.reset_parameters()
    theirs.reset_parameters()
    assert repr(ours.weight) == repr(theirs.weight)


def test_second_derivatives_through_the_options_are_torchs(torch):
    ids, table = [1, 1, 2, 4], filled((V, C), "float64", 5)
    for options in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True}, {"padding_idx": 1, "scale_grad_by_freq": True}):
        ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
        (first,) = minigrad.grad((functional.embedding(ids, ours, **options) ** 3).sum(), ours, create_graph=True)
        embedded = torch.nn.functional.embedding(torch.tensor(ids), theirs, **options)
        (expected,) = torch.autograd.grad((embedded ** 3).sum(), theirs, create_graph=True)
        np.testing.assert_allclose(first.detach().numpy(), expected.detach().numpy())
        if options.get("scale_grad_by_freq") is None:  # torch has no second derivative by frequency
            (second,) = minigrad.grad((first ** 2).sum(), ours)
            (expected,) = torch.autograd.grad((expected ** 2).sum(), theirs)
            np.testing.assert_allclose(second.numpy(), expected.numpy())


def test_one_hot_and_layer_norm_are_torchs(torch):
    for shape in ((), (3,), (2, 3), (0,)):
        ids = np.random.default_rng(0).integers(0, 5, shape)
        expected = torch.nn.functional.one_hot(torch.tensor(ids), 5).numpy()
        ours = functional.one_hot(ids, 5)
        np.testing.assert_array_equal(ours.numpy(), expected)
        assert ours.dtype == expected.dtype and ours.shape == expected.shape
    np.testing.assert_array_equal(
        functional.one_hot([0, 2]).numpy(), torch.nn.functional.one_hot(torch.tensor([0, 2])).numpy()
    )
    values = filled((2, 3, 4), "float64", 1)
    for shape in ((4,), (3, 4)):
        weight, bias = filled(shape, "float64", 2), filled(shape, "float64", 3)
        ours = [Tensor(a, requires_grad=True) for a in (values, weight, bias)]
        theirs = [torch.tensor(a, requires_grad=True) for a in (values, weight, bias)]
        out = functional.layer_norm(ours[0], shape, *ours[1:])
        expected = torch.nn.functional.layer_norm(theirs[0], shape, *theirs[1:])
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy())
        upstream = filled(values.shape, "float64", 4)
        out.backward(upstream)
        expected.backward(torch.tensor(upstream))
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=1e-12)
