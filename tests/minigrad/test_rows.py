"""lookup, scatter_add and RowSparse: the pair, and the quick way that has to give the same to the last bit."""
import gc
import re
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import RowSparse, Tensor, functional, gradcheck, gradgradcheck, segments
from minigrad.ids import IdTypeError, checked_ids
from minigrad.rows import add_rows, lookup, scatter_add

DTYPES = ["float32", "float64", "int64", "int32"]


@st.composite
def additions(draw):
    """A table, ids with many repeats and rows to add, of some thousand rows at most, in any memory order."""
    num_rows, width = draw(st.integers(1, 40)), draw(st.sampled_from([0, 1, 2, 3, 5, 16, 700]))
    seed, dtype = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from(DTYPES))
    numbers = np.random.default_rng(seed)
    skew = draw(st.sampled_from([1, 3, 20]))  # 20: nearly every id is 0
    ids = (numbers.random(draw(st.integers(0, 600))) ** skew * num_rows).astype(np.intp)
    table = (numbers.normal(size=(num_rows, width)) * 10).astype(dtype)
    rows = (numbers.normal(size=(len(ids), width)) * 10).astype(dtype)
    if draw(st.booleans()):
        rows = np.asfortranarray(rows)
    if draw(st.booleans()):
        table = np.asfortranarray(table)
    return table, ids, rows


def added(table, ids, rows):
    out = table.copy()
    np.add.at(out, ids, rows)
    return out


@given(additions(), st.sampled_from([2, 3, 8]), st.sampled_from([64, 4096, 1 << 18]), st.booleans(), st.booleans())
def test_the_quick_way_adds_the_same_to_the_last_bit(case, rounds, block, few, threads):
    table, ids, rows = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "ROUNDS", rounds)
        patch.setattr(segments, "BLOCK", block)
        patch.setattr(segments, "FEW", 64 if few else 0)
        patch.setattr(segments, "SHARED", 64 if threads else 1 << 30)  # 64 bytes: they share whatever there is
        got = table.copy(order="K")
        segments.add_rows(got, ids, rows)
        fresh = np.zeros_like(table)
        segments.add_rows(fresh, ids, rows, fresh=True)
        unique, sums = segments.coalesce(ids, rows)
        taken = segments.take(table, ids)
    np.testing.assert_array_equal(got, added(table, ids, rows))
    np.testing.assert_array_equal(fresh, added(np.zeros_like(table), ids, rows))
    np.testing.assert_array_equal(unique, np.unique(ids))
    np.testing.assert_array_equal(sums, fresh[unique])
    np.testing.assert_array_equal(taken, table[ids])


@given(additions())
def test_add_rows_and_coalesce_are_add_at(case):
    table, ids, rows = case
    got = table.copy(order="K")
    add_rows(got, ids, rows)
    np.testing.assert_array_equal(got, added(table, ids, rows))
    summed = RowSparse(ids, rows, table.shape).coalesce()
    np.testing.assert_array_equal(summed.ids, np.unique(ids))
    np.testing.assert_array_equal(summed.to_dense().numpy(), added(np.zeros_like(table), ids, rows))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_number_of_threads_changes_no_bit(monkeypatch, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    numbers = np.random.default_rng(0)
    ids = (numbers.random(5000) ** 4 * 900).astype(np.intp)
    rows = numbers.normal(size=(5000, 768)).astype(np.float32)
    unique, sums = segments.coalesce(ids, rows)
    np.testing.assert_array_equal(sums, added(np.zeros((900, 768), np.float32), ids, rows)[unique])
    np.testing.assert_array_equal(segments.take(rows, ids), rows[ids])


def test_not_a_number_stays_in_its_own_row():
    ids, rows = np.arange(200) % 50, np.ones((200, 4), np.float32)
    rows[7] = np.nan
    rows[9] = np.inf
    table = scatter_add(ids, Tensor(rows), num_rows=60).numpy()
    assert np.isnan(table[7]).all() and np.isinf(table[9]).all()
    assert np.isfinite(np.delete(table, [7, 9], axis=0)).all()


def test_rows_may_be_of_any_rank():
    ids = np.arange(100) % 3
    for shape in ((), (2,), (2, 3)):
        rows = np.random.default_rng(0).normal(size=(100, *shape))
        expected = added(np.zeros((5, *shape)), ids, rows)
        np.testing.assert_array_equal(scatter_add(ids, Tensor(rows), num_rows=5).numpy(), expected)
        np.testing.assert_array_equal(RowSparse(ids, rows, (5, *shape)).coalesce().to_dense().numpy(), expected)


@pytest.mark.parametrize("ids", [2, [], [0, 2, 2], [[1, 1], [0, 3]], np.zeros((2, 0), np.int32)], ids=str)
def test_each_is_the_others_transpose(ids):
    """<lookup(table), rows> = <table, scatter_add(rows)>: what makes one the backward of the other."""
    numbers = np.random.default_rng(0)
    table = numbers.normal(size=(4, 3))
    rows = numbers.normal(size=(*np.shape(ids), 3))
    left = (lookup(ids, Tensor(table)).numpy() * rows).sum()
    right = (table * scatter_add(ids, Tensor(rows), num_rows=4).numpy()).sum()
    assert left == pytest.approx(right)
    for function, x in ((lambda t: lookup(ids, t), table), (lambda r: scatter_add(ids, r, num_rows=4), rows)):
        assert gradcheck(function, [Tensor(x, requires_grad=True)])
        assert gradgradcheck(function, [Tensor(x, requires_grad=True)])


@pytest.mark.parametrize(
    "ids, error, words",
    [
        ([0, -1], IndexError, ["id -1", "position 1", "0 to 3"]),
        ([[0, 1], [4, 0]], IndexError, ["id 4", "position (1, 0)", "0 to 3"]),
        (9, IndexError, ["id 9", "0 to 3"]),
        (np.uint64(2**64 - 1), IndexError, [str(2**64 - 1)]),
        ([1.0, 2.0], IdTypeError, ["float64", "1.0"]),
        ([True, False], IdTypeError, ["bool"]),
        (["a"], IdTypeError, ["a"]),
        (np.zeros(0, np.float32), IdTypeError, ["float32"]),
    ],
)
def test_ids_that_name_no_row_are_refused_with_their_place_and_the_range(ids, error, words):
    table = Tensor(np.zeros((4, 2), np.float32))
    for call in (lambda: lookup(ids, table), lambda: scatter_add(ids, np.zeros((*np.shape(ids), 2)), num_rows=4)):
        with pytest.raises(error) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)
    assert not table.data.any()


def test_an_empty_table_takes_no_id():
    with pytest.raises(IndexError, match="takes no id"):
        checked_ids([0], 0)
    assert checked_ids([], 0).shape == (0,)


@pytest.mark.parametrize("ids, place", [([-1], "0"), ([5, -1], "1"), ([[0, 1], [2, -1]], r"\(1, 1\)")], ids=str)
def test_a_one_hot_vector_is_of_an_id_that_is_0_or_more(ids, place):
    with pytest.raises(IndexError, match=f"^id -1 at position {place} is out of range: ids are 0 or more$"):
        functional.one_hot(ids)
    with pytest.raises(IndexError, match=f"^id -1 at position {place} is out of range: a table of 6 rows takes ids 0 to 5"):
        functional.one_hot(ids, 6)
    with pytest.raises(IdTypeError, match="got float64 of shape .1,., the first is .*1.5.*; valid are 0 and more"):
        functional.one_hot([1.5])
    with pytest.raises(functional.OptionError, match="num_classes must be 0 or more, or -1 .*; got -2"):
        functional.one_hot([0], -2)
    with pytest.raises(TypeError):
        functional.one_hot([0], 1.5)


def test_ids_changed_after_the_lookup_do_not_change_its_gradient():
    ids, table = np.array([0, 1]), Tensor(np.zeros((3, 1), np.float32), requires_grad=True)
    out = lookup(ids, table).sum()
    ids[:] = 2
    out.backward()
    assert table.grad.tolist() == [[1.0], [1.0], [0.0]]


def test_the_way_back_of_a_sparse_lookup_makes_nothing_of_the_tables_size():
    table = Tensor(np.zeros((200_000, 16), np.float32), requires_grad=True)  # 12.8 MB
    ids = np.arange(1000) * 7
    tracemalloc.start()
    lookup(ids, table, sparse=True).sum().backward()
    table.grad.coalesce()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("sparse", [(True, False), (False, True), (True, True)], ids=str)
def test_a_row_sparse_gradient_stays_so_only_beside_its_like(sparse):
    table = Tensor(np.zeros((3, 2), np.float32), requires_grad=True)
    for ids, one in zip(([1, 1], [2, 1]), sparse):
        functional.embedding(ids, table, sparse=one).sum().backward()
    assert isinstance(table.grad, RowSparse) == all(sparse)
    gradient = table.grad.to_dense() if all(sparse) else table.grad
    assert gradient.tolist() == [[0.0, 0.0], [3.0, 3.0], [1.0, 1.0]]
    together = Tensor(np.zeros((3, 2), np.float32), requires_grad=True)  # in one backward
    parts = [functional.embedding(ids, together, sparse=one) for ids, one in zip(([1, 1], [2, 1]), sparse)]
    (parts[0] + parts[1]).sum().backward()
    assert type(together.grad) is type(table.grad)


def test_the_rows_of_a_sum_keep_no_other_gradient_alive():
    rows = np.ones((4, 2), np.float32)
    one = RowSparse([0, 1, 1, 0], rows, (3, 2))
    two = one + one
    assert two.ids.tolist() == [0, 1, 1, 0, 0, 1, 1, 0] and len(two.coalesce().ids) == 2
    watched = weakref.ref(one)
    del one
    gc.collect()
    assert watched() is None


def test_gradients_of_tables_of_different_shapes_are_not_added():
    four, nine, wide = (RowSparse([1], np.ones((1, shape[1])), shape) for shape in ((4, 2), (9, 2), (4, 1)))
    for one, other in ((four, nine), (nine, four), (four, wide)):
        with pytest.raises(ValueError, match=re.escape(f"of shapes {one.shape} and {other.shape}")):
            one + other


def test_rows_that_do_not_fit_the_ids_are_refused():
    with pytest.raises(ValueError, match=r"need rows \(2, 3\), got \(3, 3\)"):
        RowSparse([0, 1], np.zeros((3, 3)), (4, 3))


def test_few_and_many_are_tested_both():
    assert 0 < segments.FEW < 600


def test_a_seed_lends_its_memory_to_one_sparse_gradient_at_a_time():
    a, b = (Tensor(np.zeros((3, 2), np.float32), requires_grad=True) for _ in range(2))
    seed = np.ones((2, 2), np.float32)
    (lookup([0, 1], a, sparse=True) + lookup([0, 2], b, sparse=True)).backward(seed)
    borrowed = [np.shares_memory(t.grad.rows.data, seed) for t in (a, b)]
    assert sorted(borrowed) == [False, True] and not np.shares_memory(a.grad.rows.data, b.grad.rows.data)
    lookup([0, 1], c := Tensor(np.zeros((3, 2)), requires_grad=True, dtype=np.float32), sparse=True).backward(seed)
    assert not np.shares_memory(c.grad.rows.data, seed)
    for t in (a, b, c):
        t.zero_grad()
    lookup([0], c, sparse=True).backward(seed[:1])  # given back: it can be lent again
    assert np.shares_memory(c.grad.rows.data, seed)


def test_a_gradient_that_was_made_for_the_lookup_becomes_its_rows_without_a_copy():
    table = Tensor(np.zeros((10, 1000), np.float32), requires_grad=True)
    ids, factor = np.arange(1000) % 10, np.ones((20, 50, 1000), np.float32)  # a gradient of 4 MB
    out = (lookup(ids, table, sparse=True).reshape(20, 50, 1000) * factor).sum()
    tracemalloc.start()
    out.backward()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6_000_000


def test_a_gradient_spread_by_broadcasting_is_not_written_into():
    table = Tensor(np.zeros((4, 3), np.float32), requires_grad=True)
    for _ in range(2):
        lookup([0, 1, 1], table, sparse=True).sum().backward()
    table.grad.rows.data[0] = 7
    assert table.grad.to_dense().tolist() == [[8.0] * 3, [4.0] * 3, [0.0] * 3, [0.0] * 3]


@pytest.mark.parametrize(("ids", "told"), [([1, None], "None at position 1"), ([2, 2**70, 3], f"{2**70} at position 1")])
def test_what_is_no_id_in_a_list_is_named_with_its_place(ids, told):
    with pytest.raises(IdTypeError, match=f"ids must be integers, got object of shape .*, {told}; valid are 0 to 5"):
        checked_ids(ids, 6)
