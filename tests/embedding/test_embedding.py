"""Embedding and the layers made of it: numbers, options, refusals; rows of cases/embedding.jsonl, faults of others."""
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding import (
    GPT2_STD,
    Embedding,
    EmbeddingBag,
    GPTConfig,
    InputEmbedding,
    OneHotEmbedding,
    PositionalEmbedding,
    TiedHead,
    TokenEmbedding,
)
from minigrad import Tensor, manual_seed, random
from minigrad.functional import embedding, scatter_add
from minigrad.ids import IdTypeError

CASES = Path(__file__).parent / "cases/embedding.jsonl"
ROWS = {row["id"]: row for row in map(json.loads, CASES.open(encoding="utf-8"))}
SMALL = GPTConfig(n_head=1, vocab_size=7, block_size=4, n_embd=3)


def leaf(values):
    return Tensor(values, requires_grad=True, dtype=np.float32)


# --- the reported faults: each function gives what its row expects ---


def bool_ids():
    embedding([True, False, True, True], np.zeros((4, 3)))


def float_ids():
    embedding(np.array([1, 0], np.float32), np.zeros((4, 3)))


def neg_id():
    embedding([0, -1], np.zeros((4, 3)))


def oob_forward_clamps():
    embedding([4], np.zeros((4, 3)))


def readonly_out_alias():
    table = Tensor(np.zeros((4, 3)))
    for ids in ([1], 1, np.int64(1), [[1]], np.arange(4)):
        embedding(ids, table).data[...] += 1
    return table.sum().item()


def maxnorm_leaf():
    w = leaf(np.full((4, 4), 2))
    embedding([0, 1, 2, 2], w, max_norm=1.0).sum().backward()
    return {"grad": w.grad[:, 0].tolist(), "row0": w.data[0].tolist()}


def maxnorm_size_dependent():
    results = []
    for count in (6, 7):
        w = leaf(np.full((3, 2), 3))
        embedding(np.tile(np.arange(3), (count, 1)), w, max_norm=1.0).sum().backward()
        results.append([w.data[0].tolist(), w.grad[:, 0].tolist()])
    return results


def padding_from_pretrained():
    layer = Embedding.from_pretrained(np.arange(6, dtype=np.float32).reshape(3, 2), freeze=False, padding_idx=1)
    out = layer([1, 2])
    out.sum().backward()
    return {"out": out.tolist(), "grad": layer.weight.grad.tolist()}


def padding_gets_grad():
    manual_seed(0)
    ids = random.randint(0, 10, (256, 3, 7))
    layer = Embedding(10, 5, padding_idx=0)
    layer(ids).sum(2).sum().backward()
    assert layer.weight.grad.data[1:].all()
    return layer.weight.grad[0].tolist()


def padding_negative():
    layer = Embedding(4, 2, padding_idx=-1)
    layer([3, 3, 2]).sum().backward()
    sums = layer.weight.grad[:, 0].tolist()
    return {"padding_idx": layer.padding_idx, "row_sums": sums, "init_row": layer.weight[3].tolist()}


def padding_reinit():
    layer = Embedding(3, 2, padding_idx=1)
    layer.weight.data[...] = random.normal(0, 1, (3, 2))
    nonzero = bool(layer.weight.data[1].any())
    layer.reset_parameters()
    return {"after_normal_nonzero": nonzero, "after_reset": layer.weight[1].tolist()}


def padding_reinit_fastai():
    """Every way of this library to draw a table, GPT-2's deviation included."""
    layers = [kind(7, 3, padding_idx=2, std=GPT2_STD) for kind in (Embedding, OneHotEmbedding, EmbeddingBag)]
    layers += [kind(SMALL, padding_idx=2, std=GPT2_STD) for kind in (TokenEmbedding, PositionalEmbedding)]
    for layer in layers:
        for _ in range(2):
            assert not layer.weight.data[2].any() and layer.weight.data[3].all()
            layer.reset_parameters()
    return ROWS["padding-reinit-fastai"]["expected"]


def padding_sparse_ignored():
    w = leaf(np.ones((3, 2)))
    embedding([0, 1, 0], w, padding_idx=0, sparse=True).sum().backward()
    return [w.grad.coalesce().ids.tolist()]


def freq_scale():
    w = leaf(np.ones((4, 3)))
    embedding([1, 1, 1, 2], w, scale_grad_by_freq=True).sum().backward()
    return w.grad[:, 0].tolist()


def addat_mutates_index():
    """NumPy's own row has -1 in it, which is refused here; the caller's ids stay as they are, refused or not."""
    ids = np.array([-1, 1, -1, 2])
    with pytest.raises(IndexError, match="id -1 at position 0"):
        scatter_add(ids, np.ones((4, 1)), num_rows=10)
    assert ids.tolist() == ROWS["addat-mutates-index"]["expected"]["idx"]
    ids = np.array([9, 1, 9, 2])
    out = np.arange(10) + scatter_add(ids, np.ones((4, 1)), num_rows=10).data[:, 0]
    assert ids.tolist() == [9, 1, 9, 2]
    return {"idx": [-1, 1, -1, 2], "a9": out[9]}


def addat_negative_125():
    """Refused before NumPy sees it; the row's sum, with the place counted from the front."""
    w = leaf([[1.0]])
    with pytest.raises(IndexError, match="id -1"):
        embedding([-1], w)
    return (w.data + scatter_add([0], leaf([[1.0]]), num_rows=1).data)[0].tolist()


def addat_values_not_advanced():
    i = np.arange(20000)
    out = scatter_add(i % 7, i[:, None].astype(float), num_rows=7).data[:, 0]
    return bool((out == np.bincount(i % 7, weights=i, minlength=7)).all())


def all_same_id():
    w = leaf(np.zeros((5, 2)))
    embedding(np.zeros(1024, np.int64), w).sum().backward()
    return w.grad.tolist()


def dup_pairs():
    """Counting pairs is the gradient of reading their cells."""
    t, z = np.array([1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]), leaf(np.zeros((26, 26)))
    z[t[:-1], t[1:]].sum().backward()
    return {"total": z.grad.sum().item(), "cell_1_2": z.grad[1, 2].item(), "cell_6_1": z.grad[6, 1].item()}


def addat_slow():
    """The values; how long it takes is scripts/bench.py's, not a test's."""
    numbers = np.random.default_rng(0)
    ids, weights = numbers.integers(0, 1000, 100_000), numbers.normal(size=100_000)
    for width in (1, 3):
        out = scatter_add(ids, np.repeat(weights[:, None], width, axis=1), num_rows=1000).data
        np.testing.assert_array_equal(out[:, -1], np.bincount(ids, weights, minlength=1000))
    return ROWS["addat-slow"]["expected"]


def sparse_accumulate():
    w = leaf(np.zeros((10, 3)))
    for _ in range(2):
        embedding([7, 1, 3], w, sparse=True).sum().backward()
    return {"nnz": len(w.grad.ids), "dense": w.grad.to_dense()[:, 0].tolist()}


def tied_distributed():
    w = leaf([[1.0, 2.0], [3.0, 4.0]])
    layer = Embedding.from_pretrained(w, freeze=False)
    head = TiedHead(layer)
    for ids in ([0], [1]):
        head(layer(ids)).sum().backward()
    return layer.weight.grad.tolist()


@pytest.mark.parametrize("name", ROWS)
def test_case(name):
    answer, expected = globals()[name.replace("-", "_")], ROWS[name]["expected"]
    if isinstance(expected, dict) and "error" in expected:
        with pytest.raises({"RuntimeError": RuntimeError, "IndexError": IndexError}[expected["error"]]):
            answer()
    else:
        assert answer() == expected, ROWS[name]["cause"]


# --- the layer ---


def test_six_rows_of_three_after_a_seed_are_torchs_numbers():
    manual_seed(123)
    np.testing.assert_allclose(
        Embedding(6, 3).weight.data,
        [[0.3373702, -0.17777722, -0.16895628], [0.9177646, 1.5809696, 1.3010399], [1.2753012, -0.2009531, -0.16056378],
         [-0.401488, 0.96657157, -1.148144], [-1.1588678, 0.325471, -0.63150537], [-2.839994, -0.78485334, -1.4095725]],
        rtol=0, atol=4e-6,  # without AVX2 torch's own numbers differ by as much
    )  # fmt: skip


def test_eight_rows_of_four_ids_through_a_table_of_50257_by_256_give_8_by_4_by_256():
    layer = Embedding.from_pretrained(np.zeros((50257, 256), np.float32))
    ids = np.random.default_rng(0).integers(0, 50257, (8, 4))
    assert layer(ids).shape == (8, 4, 256) and layer(ids).dtype == np.float32


@pytest.mark.parametrize("ids", [2, [], [2], [[0, 1], [2, 2]], np.zeros((2, 0, 3), np.uint8), Tensor([1, 2])], ids=str)
def test_ids_of_any_shape_become_vectors_along_one_more_axis(ids):
    layer = Embedding(3, 5)
    out = layer(ids)
    assert out.shape == (*np.shape(ids), 5)
    np.testing.assert_array_equal(out.data, layer.weight.data[np.asarray(ids, np.int64)])


def test_a_table_may_have_no_rows_or_no_columns():
    assert Embedding(0, 3)([]).shape == (0, 3) and Embedding(3, 0)([1, 2]).shape == (2, 0)
    with pytest.raises(IndexError, match="takes no id"):
        Embedding(0, 3)([0])


@pytest.mark.parametrize(
    "layer, text",
    [
        (Embedding(4, 3), "Embedding(4, 3)"),
        (Embedding(4, 3, padding_idx=-1), "Embedding(4, 3, padding_idx=3)"),
        (
            Embedding(4, 3, padding_idx=1, max_norm=2.0, scale_grad_by_freq=True, sparse=True),
            "Embedding(4, 3, padding_idx=1, max_norm=2.0, scale_grad_by_freq=True, sparse=True)",
        ),
        (Embedding(4, 3, max_norm=1, norm_type=1.0), "Embedding(4, 3, max_norm=1, norm_type=1.0)"),
        (OneHotEmbedding(4, 3, padding_idx=0), "OneHotEmbedding(4, 3, padding_idx=0)"),
        (TokenEmbedding(SMALL), "TokenEmbedding(7, 3)"),
        (PositionalEmbedding(SMALL), "PositionalEmbedding(4, 3)"),
        (TiedHead(TokenEmbedding(SMALL)), "TiedHead(in_features=3, out_features=7, tied)"),
    ],
)
def test_the_repr_names_the_sizes_and_the_options_that_are_set(layer, text):
    assert repr(layer) == text


def test_gpt2s_deviation_scales_the_numbers_torch_would_draw():
    manual_seed(1)
    drawn = Embedding(50, 20).weight.data
    manual_seed(1)
    np.testing.assert_allclose(Embedding(50, 20, std=GPT2_STD).weight.data, drawn * np.float32(0.02), rtol=1e-6)
    assert Embedding(2, 2, dtype=np.float64).weight.dtype == np.float64


def test_a_layer_over_a_table_shares_its_memory_and_learns_only_if_told_to():
    for kind in (Embedding, OneHotEmbedding, EmbeddingBag, TokenEmbedding, PositionalEmbedding):
        array = np.arange(6, dtype=np.float32).reshape(3, 2)
        frozen, learns = kind.from_pretrained(array), kind.from_pretrained(Tensor(array), freeze=False, padding_idx=-1)
        assert type(frozen) is kind and type(learns) is kind
        assert frozen.weight.data is array and not frozen.weight.requires_grad
        assert learns.weight.requires_grad and learns.weight[2].tolist() == [4.0, 5.0]  # the padding row as it is
        assert (frozen.num_embeddings, frozen.embedding_dim, learns.padding_idx) == (3, 2, 2)
        array[0] = 9
        assert frozen.weight[0].tolist() == [9.0, 9.0]
    assert Embedding.from_pretrained([[1.0, 2.0]])(0).tolist() == [1.0, 2.0]
    for kind in (Embedding, EmbeddingBag, TokenEmbedding):
        with pytest.raises(ValueError, match=r"2-dimensional, got shape \(3,\)"):
            kind.from_pretrained(np.zeros(3))


def test_max_norm_holds_in_eval_too_and_touches_only_the_rows_looked_up():
    layer = Embedding.from_pretrained(np.array([[3.0, 4.0], [0.6, 0.8], [6.0, 8.0]]), max_norm=1.0).eval()
    out = layer([0, 1, 0])
    np.testing.assert_allclose(out.data, [[0.6, 0.8]] * 3, rtol=1e-6)
    assert layer.weight[1].tolist() == [0.6, 0.8] and layer.weight[2].tolist() == [6.0, 8.0]


def test_a_use_before_the_lookup_that_scales_the_table_notices_that_it_changed():
    layer = Embedding.from_pretrained(np.full((2, 2), 5.0), freeze=False, max_norm=1.0)
    squares = layer.weight * layer.weight
    with pytest.raises(RuntimeError, match="inplace"):
        (squares.sum() + layer([0]).sum()).backward()


@pytest.mark.parametrize(
    "ids, error, words",
    [
        ([[0, 1], [7, 0]], IndexError, ["id 7", "position (1, 0)", "0 to 6"]),
        ([0, 1, -1], IndexError, ["id -1", "position 2", "0 to 6"]),
        (7, IndexError, ["id 7", "0 to 6"]),
        ([0.0], IdTypeError, ["float64", "0.0", "0 to 6"]),
        ([True], IdTypeError, ["bool"]),
        (["Hello"], IdTypeError, ["Hello"]),
    ],
    ids=str,
)
def test_a_refused_id_is_named_with_its_place_and_the_range_and_the_table_is_untouched(ids, error, words):
    for kind in (Embedding, OneHotEmbedding):
        layer = kind.from_pretrained(np.full((7, 3), 5.0), freeze=False, max_norm=1.0)
        with pytest.raises(error) as caught:
            layer(ids)
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert (layer.weight.data == 5).all() and layer.weight.grad is None


@pytest.mark.parametrize(
    "sizes, options, error, words",
    [
        ((3.0, 2), {}, TypeError, "num_embeddings must be an integer, got 3.0"),
        ((3, True), {}, TypeError, "embedding_dim must be an integer, got True"),
        ((-1, 2), {}, RuntimeError, "num_embeddings is a negative dimension: -1"),
        ((3, 2), {"padding_idx": 3}, AssertionError, "3 is not from -3 to 2"),
        ((3, 2), {"padding_idx": -4}, AssertionError, "-4 is not from -3 to 2"),
        ((3, 2), {"_weight": np.zeros((2, 3))}, AssertionError, "(2, 3) is not (3, 2)"),
    ],
)
def test_sizes_and_options_that_make_no_sense_are_refused_as_by_torch(sizes, options, error, words):
    with pytest.raises(error) as caught:
        Embedding(*sizes, **options)
    assert words in str(caught.value)


def test_max_norm_below_zero_is_refused_where_torch_turns_the_rows_around():
    with pytest.raises(ValueError, match="got -1.0"):
        Embedding(2, 2, max_norm=-1.0)
    layer = Embedding.from_pretrained(np.ones((2, 2)))
    layer.max_norm = -1.0
    with pytest.raises(ValueError, match="got -1.0"):
        layer([0])
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]


# --- as mathematics has it ---


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.lists(st.integers(0, 4), max_size=3),
    padding=st.none() | st.integers(-7, 6),
    max_norm=st.none() | st.sampled_from([0.5, 1.5, 4.0]),
)
def test_the_one_hot_product_has_the_values_and_the_gradient_of_the_lookup(seed, shape, padding, max_norm):
    numbers = np.random.default_rng(seed)
    table, ids = numbers.normal(size=(7, 3)), numbers.integers(0, 7, shape)
    layers = [
        kind.from_pretrained(table.copy(), freeze=False, padding_idx=padding, max_norm=max_norm)
        for kind in (Embedding, OneHotEmbedding)
    ]
    outs = [layer(ids) for layer in layers]
    np.testing.assert_array_equal(outs[0].data, outs[1].data)
    np.testing.assert_array_equal(layers[0].weight.data, layers[1].weight.data)
    upstream = numbers.normal(size=outs[0].shape)
    for out in outs:
        out.backward(upstream)
    np.testing.assert_allclose(layers[0].weight.grad.numpy(), layers[1].weight.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("option", ["scale_grad_by_freq", "sparse"])
def test_the_one_hot_layer_refuses_what_a_matrix_product_has_not(option):
    for make in (lambda: OneHotEmbedding(3, 2, **{option: True}),
                 lambda: OneHotEmbedding.from_pretrained(np.zeros((3, 2)), **{option: True})):
        with pytest.raises(ValueError, match=f"{option} has no meaning for OneHotEmbedding: use Embedding"):
            make()


# --- GPT-2's two ends ---


def test_a_tokens_vector_and_its_positions_are_added():
    layer = InputEmbedding(SMALL)
    ids = [[5, 6, 5], [0, 0, 1]]
    np.testing.assert_array_equal(layer(ids).data, layer.wte.weight.data[ids] + layer.wpe.weight.data[:3])
    layer(ids).sum().backward()
    assert layer.wte.weight.grad[:, 0].tolist() == [2, 1, 0, 0, 0, 2, 1]
    assert layer.wpe.weight.grad[:, 0].tolist() == [2, 2, 2, 0]  # both texts have each position


def test_positions_are_rows_from_0_on_by_ids_or_by_length():
    positions = PositionalEmbedding(SMALL)
    for ids in (3, [6, 6, 6], [[1, 2, 3]], np.zeros((2, 5, 3), int)):
        np.testing.assert_array_equal(positions(ids).data, positions.weight.data[:3])
    assert positions(0).shape == (0, 3) and positions(4).shape == (4, 3)


@pytest.mark.parametrize("ids", [5, [0] * 5, [[0] * 5]], ids=str)
def test_a_sequence_longer_than_the_position_table_is_refused_with_both_lengths(ids):
    for positions in (PositionalEmbedding(SMALL), PositionalEmbedding.from_pretrained(np.zeros((4, 3)))):
        with pytest.raises(ValueError, match="a sequence of 5 tokens is longer than the position table: block_size is 4"):
            positions(ids)


def test_the_heads_weight_is_the_table_and_its_gradient_the_sum_of_both_uses():
    tokens = TokenEmbedding(SMALL)
    head = TiedHead(tokens)
    assert head.weight is tokens.weight and [p is tokens.weight for p in head.parameters()] == [True]
    ids, upstream = [2, 2, 5], np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    head(tokens(ids)).backward(upstream)

    vectors = tokens.weight.data[ids]
    as_head = upstream.T @ vectors                                     # logits = h W^T, so dL/dW = g^T h
    as_table = scatter_add(ids, upstream @ tokens.weight.data, 7).data  # and dL/dh = g W goes to the rows read
    np.testing.assert_allclose(tokens.weight.grad.numpy(), as_head + as_table, rtol=1e-5, atol=1e-6)
    assert not as_table[0].any() and tokens.weight.grad.numpy()[0].any()  # a row never read learns by the head


def test_a_padding_row_gets_no_gradient_from_lookups_but_from_the_head():
    tokens = TokenEmbedding(SMALL, padding_idx=0)
    tokens.weight.data[...] = 1
    TiedHead(tokens)(tokens([0, 1])).sum().backward()
    assert tokens.weight.grad[0].tolist() == [2.0] * 3 and tokens.weight.grad[1].tolist() == [9.0] * 3


@pytest.mark.parametrize(
    "sizes, error, words",
    [
        ({"n_embd": 100}, ValueError, "n_embd must be a multiple of n_head: 100 is not one of 12"),
        ({"vocab_size": 0}, ValueError, "vocab_size must be at least 1, got 0"),
        ({"block_size": -1}, ValueError, "block_size must be at least 1, got -1"),
        ({"n_layer": 1.5}, TypeError, "n_layer must be an integer, got 1.5"),
        ({"n_head": True}, TypeError, "n_head must be an integer, got True"),
        ({"n_embd": "768"}, TypeError, "n_embd must be an integer, got '768'"),
    ],
)
def test_a_config_that_no_gpt_can_have_is_refused_by_the_name_of_the_size(sizes, error, words):
    with pytest.raises(error) as caught:
        GPTConfig(**sizes)
    assert str(caught.value) == words


def test_a_config_is_the_smallest_gpt2_unless_told_otherwise_and_does_not_change():
    config = GPTConfig()
    assert (config.n_layer, config.n_head, config.n_embd, config.vocab_size, config.block_size) == (12, 12, 768, 50257, 1024)
    assert config == GPTConfig(vocab_size=np.int64(50257)) and config.head_size == 64
    with pytest.raises(AttributeError):
        config.n_embd = 1


@pytest.mark.parametrize(("length", "error"), [(3.7, TypeError), (True, TypeError), (-1, ValueError), (5, ValueError)])
def test_a_length_that_is_none_has_no_positions(length, error):
    with pytest.raises(error):
        PositionalEmbedding(GPTConfig(block_size=4, n_embd=12))(length)


def test_an_option_of_the_wrong_type_or_for_integers_leaves_the_table_alone():
    for padding in (1.5, True):
        with pytest.raises(TypeError, match="padding_idx must be an integer"):
            Embedding(3, 2, padding_idx=padding)
    for options, reason in (
        ({"max_norm": "a"}, "max_norm must be a number, got 'a'"), ({"max_norm": True}, "max_norm must be a number"),
        ({"max_norm": 1, "norm_type": None}, "norm_type must be a number, got None"),
        ({"sparse": "no"}, "sparse must be True or False, got 'no'"),
        ({"scale_grad_by_freq": 0}, "scale_grad_by_freq must be True or False, got 0"),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=reason):
            Embedding(3, 2, **options)
        with pytest.raises(TypeError, match=reason):
            embedding([0], np.ones((3, 2)), **options)
    table = np.array([[3, 4]])
    with pytest.raises(ValueError, match="max_norm needs a table of floats, this one is int64"):
        Embedding.from_pretrained(table, max_norm=1.0)([0])
    assert table.tolist() == [[3, 4]]


@pytest.mark.parametrize("layer", [Embedding, EmbeddingBag])
def test_a_table_that_is_given_has_its_own_dtype_and_is_frozen_or_not(layer):
    with pytest.raises(TypeError, match="freeze must be True or False, got 'no'"):
        layer.from_pretrained(np.ones((2, 2), np.float32), freeze="no")
    with pytest.raises(TypeError, match="the table has its own dtype"):
        layer.from_pretrained(np.ones((2, 2), np.float32), dtype=np.float64)
