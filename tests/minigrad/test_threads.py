"""Work shared among threads: each item once, errors heard, and the BLAS put back as it was."""
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import threads
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
