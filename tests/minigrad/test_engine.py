"""The walk back: what it adds up, what it keeps and frees, and who owns a gradient."""
import copy
import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

import minigrad
from minigrad import RowSparse, Tensor, grad, no_grad, operation
from minigrad.rows import lookup


def leaf(values, dtype=None):
    return Tensor(values, requires_grad=True, dtype=dtype)


def test_a_chain_of_100_000_operations_goes_back_and_is_freed_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    assert sys.getrecursionlimit() < 100_000
    y.backward()
    assert x.grad.item() == 1.0
    last = weakref.ref(y)
    del y
    assert last() is None


@pytest.mark.parametrize("make", [
    lambda x: x * 2, lambda x: x.exp(), lambda x: x.max(), lambda x: x.var(), lambda x: x @ x, lambda x: lookup([0, 0], x),
    lambda x: x.sigmoid().tanh().sqrt() / x, lambda x: x[0].relu().gelu(),
])
def test_a_graph_dies_with_its_last_name_with_the_cyclic_collector_off(make):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    gc.collect()
    gc.disable()
    try:
        y = make(x)
        tensor, node = weakref.ref(y), weakref.ref(y._node)
        del y
        assert tensor() is None and node() is None
        y = make(x)
        (y * y).sum().backward()  # and after a walk
        tensor, node = weakref.ref(y), weakref.ref(y._node)
        del y
        assert tensor() is None and node() is None
    finally:
        gc.enable()


def test_backward_frees_what_the_forward_kept():
    x = leaf(np.ones(1000))
    y = (x * 2).exp()
    kept = weakref.ref(y._node.saved["out"][0])
    z = y.sum()
    del y
    assert kept() is not None
    z.backward()
    assert kept() is None


def test_a_second_backward_raises_unless_the_first_kept_the_graph():
    x = leaf(3.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="'mul' a second time.*retain_graph=True"):
        y.backward()
    y = x * x
    x.zero_grad()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 12.0


def test_a_second_backward_through_what_kept_nothing_is_fine():
    x = leaf(1.0)
    y = x + x
    y.backward()
    y.backward()
    assert x.grad.item() == 4.0


def test_a_lookup_counts_as_keeping_its_ids():
    table = leaf(np.ones((3, 2)))
    y = lookup([0, 1], table).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_gradients_never_share_an_array_with_each_other_or_with_the_seed():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    seed = np.ones(2, np.float32)
    (a + b).backward(seed)
    assert not np.shares_memory(a.grad.data, b.grad.data)
    seed *= 5
    a.grad.data *= 7
    assert a.grad.tolist() == [7.0, 7.0] and b.grad.tolist() == [1.0, 1.0]
    c = leaf([1.0, 2.0])
    seed = Tensor([1.0, 1.0])
    c.backward(seed)  # a leaf is its own output
    assert not np.shares_memory(c.grad.data, seed.data)
    (g,) = grad(c.reshape(2, 1), c, grad_outputs=Tensor([[1.0], [1.0]]))
    g.data[:] = 9
    assert c.grad.tolist() == [1.0, 1.0]


def test_row_sparse_gradients_do_not_share_rows_either():
    a, b = leaf(np.zeros((3, 2))), leaf(np.zeros((3, 2)))
    out = minigrad.functional.embedding([0, 1], a, sparse=True) + minigrad.functional.embedding([0, 2], b, sparse=True)
    (out * 2).sum().backward()
    assert isinstance(a.grad, RowSparse) and isinstance(b.grad, RowSparse)
    assert not np.shares_memory(a.grad.rows.data, b.grad.rows.data)


def test_what_backward_adds_does_not_change_a_gradient_given_out_by_grad():
    x = leaf([1.0])
    y = x * 3
    (g,) = grad(y, x, retain_graph=True)
    y.backward()
    (x * 3).backward()
    assert g.tolist() == [3.0] and x.grad.tolist() == [6.0]


def test_a_seed_in_another_dtype_is_taken_and_one_of_another_shape_refused():
    x = leaf([1.0, 2.0])
    (x * 2).backward(np.ones(2))
    assert x.grad.dtype == np.float32
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \(1,\)"):
        (x * 2).backward(Tensor([1.0]))
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        Tensor([1.0]).backward()


def test_no_grad_is_a_context_a_decorator_and_nests():
    x = leaf([1.0])
    guard = no_grad()
    with guard:
        with guard:
            assert not (x * 2).requires_grad
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad

    @no_grad()
    def evaluate(depth):
        return evaluate(depth - 1) if depth else x * 2

    assert not evaluate(3).requires_grad and (x * 2).requires_grad


def test_no_grad_in_one_thread_does_not_stop_another():
    x, inside, done = leaf([1.0]), threading.Event(), threading.Event()

    def evaluating():
        with no_grad():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=evaluating)
    thread.start()
    inside.wait(10)
    assert (x * 2).requires_grad
    done.set()
    thread.join()


def test_create_graph_gives_second_and_third_derivatives():
    x = leaf(3.0)
    (first,) = grad(x ** 3, x, create_graph=True)
    (second,) = grad(first, x, create_graph=True)
    (third,) = grad(second, x)
    assert (first.item(), second.item(), third.item()) == (27.0, 18.0, 6.0)
    x.grad = None
    (x ** 3).backward(create_graph=True)
    assert x.grad.requires_grad
    x.grad.backward()  # .grad = 27 + 18, and the 27 is left as it was for whoever holds it
    assert x.grad.item() == 45.0


def test_grad_of_several_outputs_inputs_and_intermediates():
    x, y = leaf(2.0), leaf(5.0)
    middle = x * y
    out = middle * x
    gx, gm = grad([out, middle], [x, middle], grad_outputs=[None, Tensor(10.0)], retain_graph=True)
    assert gm.item() == 2.0 + 10.0
    assert gx.item() == 2 * 2 * 5 + 10 * 5
    assert x.grad is None and y.grad is None
    with pytest.raises(RuntimeError, match=r"no output depends on input 1 of shape \(\)"):
        grad(x * 2, [x, y])
    assert grad(x * 2, [x, y], allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="input 0, of shape .*, does not require grad"):
        grad(x * 2, Tensor(1.0))


def test_grad_leaves_alone_what_does_not_lead_to_its_inputs():
    calls = []

    @operation
    def watched(a):
        return a * 1
    watched.vjp(lambda g: (calls.append(1), g)[1])

    x, y = leaf(2.0), leaf(3.0)
    grad(watched(x) + y * 2, y)
    assert calls == []


def test_a_tensor_changed_in_place_after_its_use_is_noticed():
    x = leaf([1.0, 2.0])
    w = Tensor([3.0, 4.0], requires_grad=True)
    y = (x * w).sum()
    w.data *= 2
    w._changed()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("again", [lambda x: (x * 5).sum(), lambda x: lookup([0], x)], ids=["dense", "row-sparse"])
def test_a_gradient_that_was_used_and_then_added_to_is_noticed(again):
    x, w = leaf([2.0, 3.0]), leaf([1.0, 1.0])
    (x * 2).sum().backward()
    y = (x.grad * w).sum()
    again(x).backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()
    (x.grad * w).sum().backward()
    assert w.grad.tolist() == x.grad.tolist()


def test_a_once_differentiable_operation_refuses_create_graph():
    @operation(once_differentiable=True)
    def fused(a):
        return a * 2
    fused.vjp(lambda g: g * 2)
    x = leaf(1.0)
    fused(x).backward()
    assert x.grad.item() == 2.0
    with pytest.raises(RuntimeError, match="'fused' can be differentiated once only"):
        grad(fused(x), x, create_graph=True)


def test_dense_and_row_sparse_contributions_to_one_table_add_up_in_any_order():
    for order in (0, 1):
        table = leaf(np.arange(6.0).reshape(3, 2))
        parts = [lambda t: lookup([1, 1, 0], t).sum(), lambda t: (t * t).sum(), lambda t: lookup([2], t).sum() * 3]
        total = sum((p(table) for p in (parts[::-1] if order else parts)), start=Tensor(0.0))
        total.backward()
        expected = 2 * table.data + np.array([[1, 1], [2, 2], [3, 3]])
        np.testing.assert_array_equal(table.grad.data, expected)
        total = sum((p(table) for p in parts), start=Tensor(0.0))
        total.backward()
        np.testing.assert_array_equal(table.grad.data, 2 * expected)


def test_a_row_sparse_gradient_that_meets_an_operation_becomes_dense():
    table = leaf(np.ones((3, 2)))
    lookup([1, 1], table * 5).sum().backward()
    np.testing.assert_array_equal(table.grad.data, [[0, 0], [10, 10], [0, 0]])


def test_deepcopy_and_pickle_take_leaves_and_refuse_results():
    x = leaf([1.0, 2.0])
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert y.tolist() == [1.0, 2.0] and y.requires_grad and y.grad.tolist() == [3.0, 3.0]
    assert not np.shares_memory(x.data, y.data) and not np.shares_memory(x.grad.data, y.grad.data)
    z = pickle.loads(pickle.dumps(x))
    assert z.tolist() == [1.0, 2.0] and z.requires_grad and z.dtype == np.float32
    for refuse in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="only a leaf"):
            refuse(x * 2)


def test_assigning_grad_checks_shape_dtype_and_type():
    x = leaf([1.0, 2.0])
    x.grad = Tensor([1.0, 1.0])
    for bad in (Tensor([1.0]), Tensor(np.ones(2))):
        with pytest.raises(RuntimeError, match="a gradient has its tensor's shape and dtype"):
            x.grad = bad
    with pytest.raises(TypeError, match="got ndarray"):
        x.grad = np.ones(2)


def test_an_input_named_twice_has_two_gradients_and_inputs_may_come_from_a_generator():
    x = leaf([1.0, 2.0])
    first, second = grad((x * 3).sum(), (t for t in (x, x)))
    assert not np.shares_memory(first.data, second.data)
    assert first.tolist() == second.tolist() == [3.0, 3.0]
    model = minigrad.Module()
    model.a, model.b = minigrad.Parameter([1.0]), minigrad.Parameter([2.0])
    assert [g.tolist() for g in grad((model.a * model.b).sum(), model.parameters())] == [[2.0], [1.0]]


@pytest.mark.parametrize("view", [
    lambda t: t.T, lambda t: t.reshape(4), lambda t: t[0], lambda t: t.detach(), lambda t: t.T.unsqueeze(0), minigrad.Parameter,
])
def test_a_change_in_place_is_noticed_through_a_view(view):
    table, x = leaf([[1.0, 2.0], [3.0, 4.0]]), leaf(1.0)
    y = (view(table) * x).sum()
    table.data += 1
    table._changed()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_result_of_its_own_does_not_change_with_what_it_came_from():
    table, x = leaf([[1.0, 2.0]]), leaf(2.0)
    y = ((table + 0) * x).sum()
    table.data += 1
    table._changed()
    y.backward()
    assert x.grad.item() == 3.0
