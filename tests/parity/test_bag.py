"""functional.embedding_bag and EmbeddingBag against torch: modes x options x shapes of bags, one grid.

Two calls are never made on torch 2.13: ids without any offset (it writes out of bounds), and include_last_offset with
ids behind the last offset (it leaves them out).
"""
import itertools

import numpy as np
import pytest

import minigrad
from embedding import EmbeddingBag
from minigrad import RowSparse, Tensor, functional

pytestmark = pytest.mark.parity

V, C = 7, 5
OPTIONS = {
    "plain": {},
    "padding": {"padding_idx": 2},
    "padding from the end": {"padding_idx": -1},
    "max_norm": {"max_norm": 1.5},
    "max_norm 1, padding": {"max_norm": 2.0, "norm_type": 1.0, "padding_idx": 0},
    "sparse": {"sparse": True},
    "sparse, padding": {"sparse": True, "padding_idx": 2},
    "weights": {"weights": True},
    "weights, padding": {"weights": True, "padding_idx": 3},
    "weights, sparse, max_norm": {"weights": True, "sparse": True, "max_norm": 1.2},
}
BAGS = {  # shape of the ids, offsets
    "rows": ((4, 3), None),
    "rows of one": ((3, 1), None),
    "no rows": ((0, 3), None),
    "bags": ((9,), [0, 2, 3]),
    "empty bags": ((6,), [0, 0, 2, 2, 6]),
    "only empty": ((0,), [0, 0]),
    "no bags": ((0,), []),
    "last offset": ((6,), [0, 1, 1, 6]),
    "last offset, no bag": ((0,), [0]),
}
DTYPES = ["int64", "int32", "uint8", ">i8"]


def filled(shape, dtype, seed):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def dense(gradient):
    return gradient.to_dense().numpy() if isinstance(gradient, RowSparse) else gradient.numpy()


def torch_dense(gradient):
    return (gradient.to_dense() if gradient.is_sparse else gradient).numpy()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
@pytest.mark.parametrize("bags", BAGS)
def test_value_gradients_and_table_are_torchs(torch, mode, options, bags):
    weighted, options = "weights" in options, {name: value for name, value in options.items() if name != "weights"}
    if (weighted and mode != "sum") or (mode == "max" and "sparse" in options):
        with pytest.raises((ValueError, NotImplementedError)):
            functional.embedding_bag([[0]], filled((V, C), "float32", 0), mode=mode, **options,
                                     per_sample_weights=[[1.0]] if weighted else None)
        return
    shape, offsets = BAGS[bags]
    options = {**options, "mode": mode, "include_last_offset": bags.startswith("last offset")}
    for seed, (dtype, real) in enumerate(itertools.product(DTYPES, ["float32", "float64"])):
        ids = np.random.default_rng(seed).integers(0, V, shape).astype(dtype)
        table, factors = filled((V, C), real, seed), filled(shape, real, seed + 1)
        ours, our_factors = Tensor(table, requires_grad=True), Tensor(factors, requires_grad=True)
        theirs, their_factors = (torch.tensor(a, requires_grad=True) for a in (table, factors))
        out = functional.embedding_bag(
            ids, ours, None if offsets is None else np.array(offsets, dtype),
            per_sample_weights=our_factors if weighted else None, **options,
        )  # fmt: skip
        expected = torch.nn.functional.embedding_bag(
            torch.tensor(ids.astype(np.int64)), theirs,
            None if offsets is None else torch.tensor(offsets, dtype=torch.int64),
            per_sample_weights=their_factors if weighted else None, **options,
        )  # fmt: skip
        tolerance = {"rtol": 3e-6, "atol": 2e-6} if real == "float32" else {"rtol": 1e-6, "atol": 1e-12}
        assert out.shape == expected.shape and out.dtype == real
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), **tolerance)
        np.testing.assert_allclose(ours.data, theirs.detach().numpy(), **tolerance)

        upstream = filled(out.shape, real, seed + 2)
        out.backward(upstream)
        expected.backward(torch.tensor(upstream))
        assert isinstance(ours.grad, RowSparse) == options.get("sparse", False)
        assert ours.grad.dtype == real
        np.testing.assert_allclose(dense(ours.grad), torch_dense(theirs.grad), **tolerance)
        if options.get("sparse"):
            np.testing.assert_array_equal(ours.grad.ids, theirs.grad._indices()[0].numpy())
        if weighted:
            np.testing.assert_allclose(our_factors.grad.numpy(), their_factors.grad.numpy(), **tolerance)


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_by_frequency_it_is_right_where_torchs_bag_is_wrong(torch, mode, padding_idx):
    """torch 2.13 divides by counts[ids[i]] where it should by the count of the i-th distinct id: [1, 1, 1, 2, 3] in
    two bags gives 0, 1, 1/3, 1/3. The right numbers are those of its own embedding, summed by index_add."""
    ids, bags, table = np.array([1, 1, 1, 2, 3, 3, 1]), np.array([0, 0, 1, 1, 1, 2, 2]), filled((V, C), "float64", 0)
    ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
    upstream = filled((3, C), "float64", 1)
    options = {"scale_grad_by_freq": True, "mode": mode, "padding_idx": padding_idx}
    functional.embedding_bag(ids, ours, [0, 2, 5], **options).backward(upstream)
    kept = ids != (-1 if padding_idx is None else padding_idx)
    rows = torch.nn.functional.embedding(torch.tensor(ids[kept]), theirs, scale_grad_by_freq=True)
    sums = torch.zeros(3, C, dtype=torch.float64).index_add(0, torch.tensor(bags[kept]), rows)
    sizes = np.maximum(np.bincount(bags[kept], minlength=3), 1)[:, None] if mode == "mean" else 1
    (sums / torch.tensor(sizes)).backward(torch.tensor(upstream))
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy())

    one = Tensor(np.ones((4, 1)), requires_grad=True)
    functional.embedding_bag([1, 1, 1, 2, 3], one, [0, 2], scale_grad_by_freq=True, mode="sum").sum().backward()
    np.testing.assert_allclose(one.grad.numpy().ravel(), [0, 1, 1, 1])
    wrong = torch.ones(4, 1, requires_grad=True)
    torch.nn.functional.embedding_bag(
        torch.tensor([1, 1, 1, 2, 3]), wrong, torch.tensor([0, 2]), scale_grad_by_freq=True, mode="sum"
    ).sum().backward()
    if torch.__version__.startswith("2.13."):
        np.testing.assert_allclose(wrong.grad.numpy().ravel(), [0, 1, 1 / 3, 1 / 3])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "sum"},
        {"mode": "max", "norm_type": 3.0},
        {"max_norm": 2, "norm_type": 1.0, "scale_grad_by_freq": True, "mode": "sum", "sparse": True, "padding_idx": -1},
        {"max_norm": 0.5, "include_last_offset": True, "padding_idx": 0},
    ],
)
def test_the_repr_is_torchs_to_the_letter(torch, options):
    assert repr(EmbeddingBag(4, 3, **options)) == repr(torch.nn.EmbeddingBag(4, 3, **options))


def test_a_table_drawn_after_a_seed_holds_torchs_numbers_and_gives_its_bags(torch):
    minigrad.manual_seed(123)
    torch.manual_seed(123)
    ours, theirs = EmbeddingBag(6, 3, padding_idx=4), torch.nn.EmbeddingBag(6, 3, padding_idx=4)
    assert repr(ours.weight) == repr(theirs.weight)
    ids = [[1, 4], [4, 4], [5, 0]]
    np.testing.assert_allclose(ours(ids).data, theirs(torch.tensor(ids)).detach().numpy(), rtol=1e-6)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict({name: torch.tensor(value.numpy()) for name, value in ours.state_dict().items()})


def test_the_arguments_are_torchs_in_torchs_order(torch):
    import inspect

    for ours, theirs in (
        (functional.embedding_bag, torch.nn.functional.embedding_bag),
        (EmbeddingBag.__init__, torch.nn.EmbeddingBag.__init__),
    ):
        mine, torchs = (inspect.signature(function).parameters for function in (ours, theirs))
        shared = [name for name in torchs if name not in ("input", "device", "dtype")]
        assert [name for name in mine if name in shared] == shared
        assert [mine[name].default for name in shared] == [torchs[name].default for name in shared]
