"""Windows and batches: what is x, what is y, and that nothing is copied, lost or passed over in silence."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedding import SlidingWindows, batches
from embedding.windows import CHECKED_AT_ONCE, token_file
from minigrad.random import Generator


def test_eight_windows_of_four_tokens_give_eight_by_four():
    (x, y), *rest = batches(SlidingWindows(list(range(100, 133)), context_length=4, stride=4), batch_size=8)
    assert not rest
    assert x.tolist() == np.arange(100, 132).reshape(8, 4).tolist()
    assert y.tolist() == np.arange(101, 133).reshape(8, 4).tolist()


@given(length=st.integers(2, 60), context=st.integers(1, 12), stride=st.integers(1, 15))
def test_windows_are_those_of_the_plain_loop(length, context, stride):
    ids = [7 * i % 50 for i in range(length)]
    plain = [(ids[i:i + context], ids[i + 1:i + context + 1]) for i in range(0, length - context, stride)]
    if not plain:
        with pytest.raises(ValueError, match=f"{length} ids are too few: .* {context} and its target take {context + 1}"):
            SlidingWindows(ids, context, stride)
        return
    windows = SlidingWindows(ids, context, stride)
    assert [(x.tolist(), y.tolist()) for x, y in (windows[i] for i in range(len(windows)))] == plain


def test_windows_and_batches_in_order_are_views_and_cannot_be_written():
    ids = np.arange(1000)
    windows = SlidingWindows(ids, 8, 3)
    x, y = next(batches(windows, 16))
    assert np.shares_memory(x, ids) and np.shares_memory(y, ids) and np.shares_memory(windows.inputs, ids)
    with pytest.raises(ValueError, match="read-only"):
        x[0, 0] = 1


def test_the_stride_is_the_context_unless_given_so_that_no_id_is_twice_in_x():
    assert SlidingWindows(range(9), 4).inputs.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert repr(SlidingWindows(range(9), 4)) == "SlidingWindows(2 windows of 4, stride 4, over 9 ids)"


def test_a_shuffled_pass_has_every_window_once_with_its_own_target():
    windows = SlidingWindows(range(401), 4)
    x, y = (np.concatenate(parts) for parts in zip(*batches(windows, 16, shuffle=True, drop_last=False)))
    assert sorted(x[:, 0]) == list(range(0, 400, 4)) and (x[1:, 0] != x[:-1, 0] + 4).any()
    assert (y == x + 1).all()


def test_the_order_follows_from_the_seed_and_a_pass_can_be_taken_up_in_the_middle():
    windows = SlidingWindows(range(401), 4)
    whole = [x.tolist() for x, _ in batches(windows, 7, shuffle=True, generator=Generator(5))]
    assert whole == [x.tolist() for x, _ in batches(windows, 7, shuffle=True, generator=Generator(5))]
    assert whole != [x.tolist() for x, _ in batches(windows, 7, shuffle=True, generator=Generator(6))]
    resumed = [x.tolist() for x, _ in batches(windows, 7, shuffle=True, generator=Generator(5), start=9)]
    assert resumed == whole[9:]


def test_the_order_is_drawn_at_the_call_and_each_pass_has_another():
    windows, generator = SlidingWindows(range(401), 4), Generator(5)
    first, second = (batches(windows, 7, shuffle=True, generator=generator) for _ in range(2))
    second_x = next(second)[0].tolist()
    assert next(first)[0].tolist() == next(batches(windows, 7, shuffle=True, generator=Generator(5)))[0].tolist()
    assert second_x != next(batches(windows, 7, shuffle=True, generator=Generator(5)))[0].tolist()


def test_the_last_batch_is_left_out_or_smaller():
    windows = SlidingWindows(range(41), 4)
    assert [len(x) for x, _ in batches(windows, 4)] == [4, 4]
    assert [len(x) for x, _ in batches(windows, 4, drop_last=False)] == [4, 4, 2]


def test_fewer_windows_than_a_batch_is_said_and_not_an_empty_pass():
    windows = SlidingWindows(range(41), 4)
    with pytest.raises(ValueError, match="10 windows do not fill one batch of 16; drop_last=False"):
        batches(windows, 16)
    with pytest.raises(ValueError, match="start is 4, of 2 batches"):
        batches(windows, 5, start=4)


@pytest.mark.parametrize("ids, error, message", [
    ([], ValueError, "there are no ids"),
    ([1, 2, 3], ValueError, "3 ids are too few: one window of 4 and its target take 5"),
    ([1, 2, 3, 4], ValueError, "4 ids are too few"),
    ([1.5] * 9, TypeError, "ids must be integers, got float64, the first is .*1.5"),
    ([True] * 9, TypeError, "ids must be integers, got bool"),
    ([[1, 2, 3, 4, 5]], ValueError, r"one row of integers, got shape \(1, 5\)"),
])
def test_ids_that_make_no_windows_are_refused_with_the_numbers(ids, error, message):
    with pytest.raises(error, match=message):
        SlidingWindows(ids, 4)


@pytest.mark.parametrize("context, stride, error", [(0, 1, ValueError), (4, 0, ValueError), (2.0, 1, TypeError), (True, 1, TypeError)])
def test_sizes_that_make_no_sense_are_refused(context, stride, error):
    with pytest.raises(error, match="context_length|stride"):
        SlidingWindows(range(9), context, stride)


def test_arguments_of_another_type_are_refused_by_name():
    for vocab_size, error in ((3.5, TypeError), ("x", TypeError), (0, ValueError), (-5, ValueError)):
        with pytest.raises(error, match="vocab_size must be"):
            SlidingWindows(range(9), 4, vocab_size=vocab_size)
    windows = SlidingWindows(range(9), 4)
    with pytest.raises(TypeError, match="start must be an integer, a number of batches, got 0.5"):
        batches(windows, 1, start=0.5)
    with pytest.raises(TypeError, match="generator must be a minigrad.random.Generator, got Generator"):
        batches(windows, 1, shuffle=True, generator=np.random.default_rng(0))


def test_text_under_the_name_of_an_array_is_not_read_as_ids(tmp_path):
    path = tmp_path / "text.npy"
    path.write_text("an even number of bytes!")
    with pytest.raises(ValueError, match=r"text.npy: no .npy file: it begins with b'an eve', not with b'.x93NUMPY'"):
        SlidingWindows(path, 4)


@pytest.mark.parametrize("bad", [50257, -1])
def test_an_id_beyond_the_vocabulary_is_named_with_its_place(bad):
    ids = np.zeros(CHECKED_AT_ONCE + 10, np.int32)
    ids[-3] = bad
    with pytest.raises(IndexError, match=f"id {bad} at position {CHECKED_AT_ONCE + 7} is beyond .* 0 to 50256"):
        SlidingWindows(ids, 4, vocab_size=50257)


def header(magic=20240520, version=1, tokens=100):
    return np.array([magic, version, tokens] + [0] * 253, "<i4").tobytes()


@pytest.fixture
def on_disk(tmp_path):
    def write(*parts: bytes):
        path = tmp_path / "train.bin"
        path.write_bytes(b"".join(parts))
        return path

    return write


def test_a_token_file_is_mapped_not_read_in_nanogpts_form_and_in_llm_cs(on_disk):
    ids = np.random.default_rng(0).integers(0, 50257, 100)
    for parts in ([ids.astype("<u2").tobytes()], [header(), ids.astype("<u2").tobytes()],
                  [header(20240801, 7), ids.astype("<u4").tobytes()]):
        windows = SlidingWindows(on_disk(*parts), 4, vocab_size=50257)
        assert windows.ids.tolist() == ids.tolist()
        assert isinstance(windows.ids.base, np.memmap) and np.shares_memory(next(batches(windows, 8))[0], windows.ids.base)


def test_an_npy_file_is_known_for_what_it_is(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(100, dtype=np.int32))
    assert SlidingWindows(str(tmp_path / "ids.npy"), 4).ids.tolist() == list(range(100))
    whole = (tmp_path / "ids.npy").read_bytes()
    for length in (20, 300):
        (tmp_path / "ids.npy").write_bytes(whole[:length])
        with pytest.raises(ValueError, match="ids.npy: a damaged .npy file"):
            SlidingWindows(tmp_path / "ids.npy", 4)


@pytest.mark.parametrize("parts, message", [
    ([b""], "train.bin: the file is empty"),
    ([bytes(201)], "train.bin: 201 bytes, an odd number"),
    ([header(), bytes(198)], "train.bin: 1,222 bytes, where its header says 100 tokens, which take 1,224"),
    ([header(tokens=0)], "its header says 0 tokens"),
    ([header(version=2), bytes(200)], "version 2 of llm.c's token files; 1 is known"),
    ([bytes(6)], "train.bin: 3 ids are too few: one window of 4 and its target take 5"),
])
def test_a_damaged_token_file_is_refused_by_name_and_numbers(on_disk, parts, message):
    with pytest.raises(ValueError, match=message):
        SlidingWindows(on_disk(*parts), 4)


def test_an_id_in_a_file_beyond_the_vocabulary_is_named_with_the_file(on_disk):
    path = on_disk(np.array([1, 2, 60000, 4, 5, 6], "<u2").tobytes())
    with pytest.raises(IndexError, match="train.bin: id 60000 at position 2 is beyond the vocabulary"):
        SlidingWindows(path, 4, vocab_size=50257)
    assert token_file(path).dtype == np.uint16
