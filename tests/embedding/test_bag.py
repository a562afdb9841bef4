"""embedding_bag and EmbeddingBag: what a bag is, its derivatives, and what is refused; rows of cases/bag.jsonl."""
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding import Embedding, EmbeddingBag
from minigrad import Tensor, gradcheck, gradgradcheck
from minigrad.functional import embedding_bag
from minigrad.ids import IdTypeError

ROWS = {row["id"]: row for row in map(json.loads, (Path(__file__).parent / "cases/bag.jsonl").open(encoding="utf-8"))}
V, C = 6, 3


def table(dtype=np.float64):
    return np.random.default_rng(0).normal(size=(V, C)).astype(dtype)


# --- the reported faults ---


def last_offset():
    weight = np.arange(300, dtype=np.float32).reshape(100, 3)
    return embedding_bag(np.arange(4), weight, [0, 3, 4], include_last_offset=True, padding_idx=61).tolist()


def no_offsets_but_ids():
    with pytest.raises(ValueError, match="there are 2 ids and no offsets"):
        embedding_bag([1, 2], table(), np.zeros(0, np.int64), mode="max")
    return ROWS["bag-no-offsets-but-ids"]["expected"]  # "shape (0,D), or a ValueError; never a crash ..."


def only_empty():
    return embedding_bag([], np.ones((4, 3), np.float32), [0], mode="mean").tolist()


def psw_frozen_weight():
    factors = Tensor([1.0, 0.5], requires_grad=True)
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    embedding_bag([1, 2], weight, [0], mode="sum", per_sample_weights=factors).sum().backward()
    return factors.grad.tolist()


@pytest.mark.parametrize("name", ROWS)
def test_case(name):
    assert globals()[name.removeprefix("bag-").replace("-", "_")]() == ROWS[name]["expected"], ROWS[name]["cause"]


# --- what a bag is ---


@st.composite
def bags(draw):
    """Lists of ids, some of them empty; and one padding index or none."""
    lists = draw(st.lists(st.lists(st.integers(0, V - 1), max_size=5), max_size=6))
    return lists, draw(st.none() | st.integers(-V, V - 1))


@pytest.mark.parametrize("mode, of", [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
@given(case=bags())
def test_a_bag_is_numpys_sum_mean_or_max_of_its_rows(mode, of, case):
    lists, padding = case
    flat, sizes = [i for ids in lists for i in ids], [len(ids) for ids in lists]
    ends = np.cumsum([0, *sizes])
    rows = [table()[[i for i in ids if padding is None or i != padding % V]] for ids in lists]
    expected = np.array([of(some, axis=0) if len(some) else np.zeros(C) for some in rows]).reshape(-1, C)
    if lists:
        got = embedding_bag(flat, table(), ends[:-1], mode=mode, padding_idx=padding)
        np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)
    got = embedding_bag(flat, table(), ends, mode=mode, padding_idx=padding, include_last_offset=True)
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), mode=st.sampled_from(["sum", "mean"]), by_frequency=st.booleans())
def test_value_and_gradient_are_those_of_an_embedding_summed_by_hand(seed, mode, by_frequency):
    ids = np.random.default_rng(seed).integers(0, V, (4, 5))
    bag = EmbeddingBag.from_pretrained(table(), freeze=False, mode=mode, scale_grad_by_freq=by_frequency)
    plain = Embedding.from_pretrained(table(), freeze=False, scale_grad_by_freq=by_frequency)
    out, expected = bag(ids), getattr(plain(ids), mode)(1)
    np.testing.assert_allclose(out.data, expected.data, atol=1e-12)
    upstream = np.random.default_rng(seed + 1).normal(size=(4, C))
    out.backward(upstream)
    expected.backward(upstream)
    np.testing.assert_allclose(bag.weight.grad.numpy(), plain.weight.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("ids, offsets", [([[0, 1, 1], [5, 2, 0]], None), ([0, 1, 1, 5], [0, 0, 3, 4]), ([], [0, 0])], ids=str)
def test_it_can_be_differentiated_twice(mode, ids, offsets):
    weight = Tensor(table(), requires_grad=True)
    assert gradcheck(lambda w: embedding_bag(ids, w, offsets, mode=mode), [weight])
    assert gradgradcheck(lambda w: embedding_bag(ids, w, offsets, mode=mode) ** 3, [weight])
    if mode == "sum":
        factors = Tensor(np.linspace(-1, 2, np.size(ids)).reshape(np.shape(ids)), requires_grad=True)
        both = [weight, factors]
        assert gradcheck(lambda w, f: embedding_bag(ids, w, offsets, mode="sum", per_sample_weights=f), both)
        assert gradgradcheck(lambda w, f: embedding_bag(ids, w, offsets, mode="sum", per_sample_weights=f), both)


def test_each_id_once_by_frequency_gets_one_share():
    """Three times id 1, in two bags: its row gets the mean of its three gradients (torch 2.13 gets others wrong)."""
    weight = Tensor(np.ones((4, 1)), requires_grad=True)
    out = embedding_bag([1, 1, 1, 2, 3], weight, [0, 2], scale_grad_by_freq=True, mode="sum")
    out.backward([[1.0], [10.0]])
    assert weight.grad.tolist() == [[0.0], [4.0], [10.0], [10.0]]


def test_the_first_of_equals_gets_the_gradient_and_nan_is_the_largest_wherever_it_stands():
    weight = Tensor([[1.0], [2.0], [2.0], [np.nan]], requires_grad=True)
    embedding_bag([[0, 1, 2]], weight, mode="max").backward([[5.0]])
    assert weight.grad.tolist() == [[0.0], [5.0], [0.0], [0.0]]
    for ids in ([[3, 0]], [[0, 3, 1]]):
        assert np.isnan(embedding_bag(ids, weight, mode="max").item())


def test_a_sparse_bag_makes_nothing_of_the_tables_size():
    bag = EmbeddingBag.from_pretrained(table(), freeze=False, sparse=True, padding_idx=1, mode="mean")
    bag([1, 3, 1, 0], [0, 2]).backward(np.array([[2.0] * C, [6.0] * C]))
    assert bag.weight.grad.ids.tolist() == [3, 0] and bag.weight.grad.rows.tolist() == [[2.0] * C, [6.0] * C]


def test_max_norm_changes_the_rows_in_the_table_also_those_of_the_padding():
    bag = EmbeddingBag.from_pretrained(np.full((3, 1), 5.0), max_norm=1.0, padding_idx=1)
    assert bag.eval()([[0, 1]]).item() == pytest.approx(1)
    np.testing.assert_allclose(bag.weight.data.ravel(), [1, 1, 5], rtol=1e-6)


def test_bags_of_no_ids_are_zeros_where_torch_refuses_them():
    assert embedding_bag(np.zeros((3, 0), int), table()).tolist() == [[0.0] * C] * 3


# --- the layer ---


def test_the_layer_takes_the_mean_unless_told_otherwise_and_its_padding_row_begins_as_zeros():
    layer = EmbeddingBag(V, C, padding_idx=-1)
    assert layer.mode == "mean" and layer.padding_idx == V - 1 and not layer.weight.data[-1].any()
    assert repr(layer) == "EmbeddingBag(6, 3, mode='mean', padding_idx=5)"
    np.testing.assert_array_equal(layer([[2, 5], [2, 2]]).data, layer.weight.data[[2, 2]])
    layer.weight.data[...] = 1
    layer.reset_parameters()
    assert not layer.weight.data[-1].any() and layer.weight.data[:-1].all()


def test_a_layer_over_a_table_shares_its_memory_and_leaves_its_padding_row():
    array = table(np.float32)
    frozen = EmbeddingBag.from_pretrained(array, mode="max", padding_idx=1)
    learns = EmbeddingBag.from_pretrained(Tensor(array), freeze=False)
    assert frozen.weight.data is array and array[1].all()
    assert not frozen.weight.requires_grad and learns.weight.requires_grad and learns.weight.dtype == np.float32
    with pytest.raises(AssertionError, match="2-dimensional"):
        EmbeddingBag.from_pretrained(np.zeros(3))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"mode": "avg"}, "one of sum, mean, max; got 'avg'"),
        ({"mode": "max", "sparse": True}, "sparse=True has no meaning in mode 'max'"),
        ({"mode": "max", "scale_grad_by_freq": True}, "scale_grad_by_freq=True has no meaning in mode 'max'"),
        ({"padding_idx": 6}, "6 is not from -6 to 5"),
        ({"_weight": np.zeros((2, 2))}, "(2, 2) is not (6, 3)"),
    ],
)
def test_options_that_make_no_sense_are_refused_when_the_layer_is_made(options, words):
    with pytest.raises(ValueError) as error:
        EmbeddingBag(V, C, **options)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["scale_grad_by_freq", "sparse", "include_last_offset"])
def test_an_option_that_is_neither_true_nor_false_is_refused_when_the_layer_is_made(name):
    with pytest.raises(TypeError, match=f"{name} must be True or False, got 'no'"):
        EmbeddingBag(V, C, **{name: "no"})


@pytest.mark.parametrize(
    "ids, options, error, words",
    [
        ([[0, 1], [6, 0]], {}, IndexError, ["id 6", "position (1, 0)", "0 to 5"]),
        ([0, -1], {"offsets": [0]}, IndexError, ["id -1", "position 1", "0 to 5"]),
        ([[0.0]], {}, IdTypeError, ["float64"]),
        ([0], {"offsets": [0.0]}, IdTypeError, ["offsets", "float64", "0.0"]),
        ([[0]], {"offsets": [0]}, ValueError, ["(1, 1)", "offsets must be None, got [0]"]),
        ([0, 1], {}, ValueError, ["(2,)", "need offsets"]),
        (1, {}, ValueError, ["got shape ()"]),
        ([[[1]]], {}, ValueError, ["got shape (1, 1, 1)"]),
        ([0, 1], {"offsets": [[0]]}, ValueError, ["got shape (1, 1)"]),
        ([0, 1], {"offsets": 0}, ValueError, ["got shape ()"]),
        ([0, 1], {"offsets": []}, ValueError, ["2 ids and no offsets"]),
        ([0, 1], {"offsets": [1]}, ValueError, ["at 0", "offsets[0] is 1"]),
        ([0, 1], {"offsets": [0, 3]}, ValueError, ["offset 3 at position 1", "2 ids take offsets 0 to 2"]),
        ([0, 1], {"offsets": [0, -1]}, ValueError, ["offset -1 at position 1", "0 to 2"]),
        ([0, 1], {"offsets": np.array([0, 2**64 - 1], np.uint64)}, ValueError, [f"offset {2**64 - 1} at position 1"]),
        ([0, 1], {"offsets": [0, 2, 1]}, ValueError, ["1 at position 2 comes after 2"]),
        ([0, 1], {"offsets": [0, 1], "include_last_offset": True}, ValueError, ["number of ids, 2; got 1"]),
        ([], {"offsets": [], "include_last_offset": True}, ValueError, ["one offset at least"]),
        ([[0]], {"mode": "avg"}, ValueError, ["'avg'"]),
        ([[0]], {"padding_idx": 9}, ValueError, ["9 is not from -6 to 5"]),
        ([[0]], {"max_norm": -1.0}, ValueError, ["-1.0"]),
        ([[0]], {"sparse": "no"}, TypeError, ["sparse must be True or False, got 'no'"]),
        ([[0]], {"scale_grad_by_freq": 1}, TypeError, ["scale_grad_by_freq", "got 1"]),
        ([0], {"offsets": [0], "include_last_offset": "no"}, TypeError, ["include_last_offset", "got 'no'"]),
        ([[0]], {"per_sample_weights": [[1.0]], "mode": "mean"}, NotImplementedError, ["'sum'", "'mean'"]),
        ([[0]], {"per_sample_weights": [1.0], "mode": "sum"}, ValueError, ["(1, 1)", "(1,)"]),
        ([[0]], {"per_sample_weights": np.ones((1, 1), np.float32), "mode": "sum"}, ValueError, ["float64", "float32"]),
    ],
    ids=str,
)
def test_what_makes_no_bags_is_refused_with_its_value_and_its_place_and_the_table_is_untouched(ids, options, error, words):
    weight = Tensor(table() * 100, requires_grad=True)
    with pytest.raises(error) as caught:
        embedding_bag(ids, weight, **{"max_norm": 1.0, **options})
    assert all(word in str(caught.value) for word in words), str(caught.value)
    np.testing.assert_array_equal(weight.data, table() * 100)


def test_a_weight_that_is_no_table_is_refused():
    with pytest.raises(ValueError, match=r"2-D.*\(3,\)"):
        embedding_bag([[0]], np.zeros(3))


def test_by_frequency_and_sparse_are_refused_together_on_the_way_back_as_by_embedding():
    weight = Tensor(table(), requires_grad=True)
    with pytest.raises(RuntimeError, match="use one of the two"):
        embedding_bag([[0]], weight, scale_grad_by_freq=True, sparse=True).sum().backward()
