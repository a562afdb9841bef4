"""Work shared among threads: each item once, errors heard, and the BLAS put back as it was."""
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import Tensor, functional, grad, operation, threads
from minigrad.engine import recording
from minigrad.optim import SGD
from minigrad.threads import in_parts, one_blas_thread


@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 5))
def test_each_item_comes_once_in_parts_that_are_no_smaller_than_asked(size, at_least, count):
    parts = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "thread_count", lambda: count)
        in_parts(lambda start, stop: parts.append((start, stop)), size, at_least)
    assert [i for start, stop in sorted(parts) for i in range(start, stop)] == list(range(size))
    assert len(parts) == 1 or min(stop - start for start, stop in parts) >= at_least
    assert len(parts) <= count or len(parts) % min(count, size // at_least) == 0, "else one thread has more to do"


@pytest.mark.parametrize("number", range(8))
def test_the_error_of_any_part_is_raised(monkeypatch, number):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)

    def work(start, stop):
        if start == number:
            raise IndexError(f"in part {number}")

    with pytest.raises(IndexError, match=f"in part {number}"):
        in_parts(work, 8)


def test_work_shared_inside_shared_work_is_done(monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    done = []
    in_parts(lambda a, b: in_parts(lambda c, d: done.extend((i, j) for i in range(a, b) for j in range(c, d)), 5), 7)
    assert sorted(done) == [(i, j) for i in range(7) for j in range(5)]


def test_the_blas_has_its_threads_again_when_the_last_is_out(monkeypatch):
    now = [4]
    monkeypatch.setattr(threads, "_openblas_threads", lambda: (lambda: now[0], lambda count: now.__setitem__(0, count)))
    entered, leave = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with pytest.raises(KeyError), one_blas_thread():
        thread.start()
        entered.wait()
        raise KeyError
    assert now == [1], "the other is still inside"
    leave.set()
    thread.join()
    assert now == [4]


@pytest.fixture
def strict():
    """The caller's own answer to inf and nan, which has to be the same afterwards, in this thread and for good."""
    before = np.seterr(all="raise")
    yield
    after = np.seterr(**before)
    assert set(after.values()) == {"raise"}, after


def test_threads_that_work_at_once_leave_the_callers_errstate_alone(strict, monkeypatch):
    monkeypatch.setattr(threads, "thread_count", lambda: 2)
    for _ in range(20):
        both, inside = threading.Barrier(2), []

        def work(start, stop, both=both, inside=inside):
            both.wait(10)  # until the other is in as well
            inside.append(set(np.geterr().values()))

        in_parts(work, 2, turns=1)
        assert inside == [{"ignore"}] * 2
        assert set(np.geterr().values()) == {"raise"}


def test_a_walk_back_inside_another_leaves_the_callers_errstate_alone(strict):
    def gradient_of_twice(g):
        inner = Tensor(1.0, requires_grad=True)
        with recording(True):
            return g * grad(inner * 2, inner)[0]

    @operation
    def twice(a):
        return a * 2
    twice.vjp(gradient_of_twice)

    x = Tensor([1.0, 1.0], requires_grad=True)
    twice(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    assert set(np.geterr().values()) == {"raise"}


def test_what_overflows_does_so_without_a_word_from_backward_coalesce_and_step(strict):
    for sparse in (True, False):
        x = Tensor([[1.0], [1.0]], requires_grad=True)
        for _ in range(2):
            functional.embedding([0, 1], x, sparse=sparse).backward(np.float32([[3e38], [1.0]]))
        gradient = x.grad.coalesce().rows if sparse else x.grad
        assert gradient.tolist() == [[np.inf], [2.0]]
        SGD([x], lr=0.25).step()
        assert x.tolist() == [[-np.inf], [0.5]]
