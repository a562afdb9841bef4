"""save and load: the same numbers back, ties kept, and never half a file."""
import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from embedding import EmbeddingBag, GPTConfig, InputEmbedding, TiedHead
from minigrad import Module, Parameter, Tensor, load, save, saving
from minigrad.saving import read_tensors

CONFIG = GPTConfig(n_head=1, vocab_size=5, block_size=3, n_embd=2)


class Tied(Module):
    def __init__(self):
        self.input = InputEmbedding(CONFIG)
        self.head = TiedHead(self.input.wte)
        self.bag = EmbeddingBag(4, 2)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_a_model_comes_back_to_the_last_bit_with_its_tie(path):
    model, twin = Tied(), Tied()
    save(model, path)
    assert repr(twin.load_state_dict(load(path))) == "<All keys matched successfully>"
    assert all(np.array_equal(a.data, b.data) for a, b in zip(model.parameters(), twin.parameters()))
    assert twin.head.weight is twin.input.wte.weight


def test_a_shared_parameter_is_in_the_file_once_under_its_first_name(path):
    save(Tied(), path)
    assert set(read_tensors(path)[0]) == {"input.wte.weight", "input.wpe.weight", "bag.weight"}
    state = load(path)
    assert set(state) == set(Tied().state_dict())
    assert state["head.weight"].data is state["input.wte.weight"].data


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name != "__metadata__"),
        arrays.arrays(
            st.sampled_from(["<f4", "<f8", "<f2", ">f4", "<i8", "<i4", "u1", "?"]), arrays.array_shapes(min_dims=0, min_side=0)
        ),
        max_size=4,
    )
)
def test_any_state_comes_back_whatever_its_types_shapes_and_names(tmp_path_factory, state):
    path = tmp_path_factory.mktemp("any") / "state"
    save(state, path)
    loaded = load(path)
    assert set(loaded) == set(state)
    for name, array in state.items():
        assert loaded[name].shape == array.shape and loaded[name].dtype == array.dtype.newbyteorder("=")
        assert loaded[name].numpy().tobytes() == array.astype(array.dtype.newbyteorder("=")).tobytes()


def test_the_order_in_memory_does_not_matter(path):
    array = np.arange(6.0).reshape(2, 3)
    save({"columns": array.T, "every other": array[:, ::2], "all": array, "again": Tensor(array)}, path)
    state = load(path)
    assert state["columns"].tolist() == array.T.tolist() and state["every other"].tolist() == array[:, ::2].tolist()
    assert state["all"].tolist() == state["again"].tolist() == array.tolist()


def test_values_whose_memory_is_made_for_the_moment_are_not_taken_for_one(path):
    class Made:
        def __init__(self, number):
            self.number = number

        def __array__(self, dtype=None, copy=None):
            return np.full((3, 2), self.number).T  # in an order that is copied, and its memory then used again

    save({str(n): Made(float(n)) for n in range(20)}, path)
    assert [load(path)[str(n)].data[0, 0] for n in range(20)] == list(range(20))


def test_names_that_the_header_has_a_meaning_for_are_ordinary_names(path):
    array = np.ones(2)
    save({"pt": array, "format": array}, path)
    assert set(load(path)) == {"pt", "format"}
    save({"pt": array}, path)
    assert set(load(path)) == {"pt"}
    with pytest.raises(ValueError, match="__metadata__"):
        save({"__metadata__": array}, path)
    with pytest.raises(ValueError, match=r"'a\\ud800' cannot be the name .* surrogate"):
        save({"a\ud800": array}, path)


def test_what_is_loaded_can_be_trained(path):
    save({"weight": Parameter([1.0, 2.0])}, path)
    weight = Parameter(load(path)["weight"])
    (weight * weight).sum().backward()
    weight.data -= weight.grad.data
    assert weight.tolist() == [-1.0, -2.0] and load(path)["weight"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "what, error, words",
    [
        (3, TypeError, "got int"),
        ({1: np.ones(2)}, TypeError, "got 1"),
        ({"a": np.ones(2), "b": "words"}, TypeError, "'b' must be floats"),
        ({"c": np.ones(2, complex)}, TypeError, "complex128"),
        ({"d": np.array([None])}, TypeError, "object"),
    ],
)
def test_what_cannot_be_saved_is_named_and_leaves_the_file_that_was_there(path, what, error, words):
    save({"weight": np.ones(2)}, path)
    with pytest.raises(error, match=words):
        save(what, path)
    assert load(path)["weight"].tolist() == [1, 1] and os.listdir(path.parent) == [path.name]


def test_a_file_that_shrinks_while_it_is_read_is_refused(path, monkeypatch):
    save({"a": np.ones(9999)}, path)
    place = saving._place

    def shrinking(*entry):
        os.truncate(path, 20_000)
        return place(*entry)

    monkeypatch.setattr(saving, "_place", shrinking)
    with pytest.raises(ValueError, match=f"{path.name}: damaged.* it ended before byte "):
        load(path)


def test_a_disk_that_fills_up_leaves_the_file_that_was_there_and_no_other(path, monkeypatch):
    save({"weight": np.ones(2)}, path)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        save({"weight": np.zeros(2)}, path)
    assert load(path)["weight"].tolist() == [1, 1] and os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_link_stays_and_a_pipe_is_written_to(path):
    save({"a": np.ones(3)}, path)
    link, pipe = path.with_name("link"), path.with_name("pipe")
    link.symlink_to(path.name)
    save({"a": np.zeros(3)}, link)
    assert link.is_symlink() and load(path)["a"].tolist() == [0, 0, 0]
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    save({"a": np.zeros(3)}, pipe)
    assert os.read(reader, 1 << 16) == path.read_bytes() and pipe.is_fifo()
    os.close(reader)


def test_a_folder_that_is_not_there_is_named_by_the_path_asked_for(tmp_path):
    path = tmp_path / "nowhere" / "model.safetensors"
    with pytest.raises(FileNotFoundError, match=f"'{path}'"):
        save({"weight": np.ones(2)}, path)
    with pytest.raises(FileNotFoundError, match=str(path)):
        load(path)
    with pytest.raises(OSError, match=str(tmp_path)):
        load(tmp_path)


def test_a_damaged_file_is_named(path):
    save({"weight": np.ones(2)}, path)
    whole = path.read_bytes()
    for data in (b"", whole[:4], whole[:-1], whole + b"\0", b"\xff" * 40, b"no safetensors file at all"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=f"{path}: damaged, or no safetensors file"):
            load(path)


@given(st.data())
def test_a_file_with_a_byte_changed_is_read_or_refused_with_its_name(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("changed") / "state"
    save({"a": np.ones((2, 1), "f4"), "b": np.zeros(0, "u1")}, path)
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.sampled_from(b'[]{}",:0189-aF \xff'))
    path.write_bytes(whole)
    try:
        load(path)
    except ValueError as error:
        assert str(error).startswith(f"{path}: ")


@pytest.mark.parametrize("entry", [
    '{"dtype":["F32"],"shape":[],"data_offsets":[0,4]}',
    '{"dtype":"F32","shape":{},"data_offsets":[0,4]}',
    '{"dtype":"F32","shape":[4611686018427387904,0],"data_offsets":[4,4]}',
    '{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}',
    '{"dtype":"F32","shape":[2],"data_offsets":[0,4]}',
    '{"dtype":"F32","shape":[1],"data_offsets":[4,8]}',
    "3",
])
def test_an_entry_that_is_no_tensors_is_named(path, entry):
    with pytest.raises(ValueError, match=f"{path}: damaged, or no safetensors file: weight"):
        load(written_by_hand(path, f'{{"weight":{entry}}}'.encode(), bytes(4)))


@pytest.mark.parametrize(("header", "reason"), [
    ('{"a":[0,16],"b":[8,24]}', "b begins at byte 8, where 16 bytes are before it"),
    ('{"a":[0,8],"b":[16,24]}', "b begins at byte 16, where 8 bytes are before it"),
    ('{"a":[0,16]}', "the tensors take 16 bytes, and 24 are there"),
    ('{"a":[0,24],"a":[0,24]}', "'a' stands twice in its header"),
    ('{"a":[0,8],"b":3}', "an entry of its header is no tensor's|b should have dtype"),
])  # fmt: skip
def test_tensors_lie_one_after_another_whichever_is_asked_for(path, header, reason):
    header = re.sub(r"\[(\d+),(\d+)\]", lambda m: (
        f'{{"dtype":"U8","shape":[{int(m[2]) - int(m[1])}],"data_offsets":[{m[1]},{m[2]}]}}'), header)
    written_by_hand(path, header.encode(), bytes(24))
    for names in (None, ["a"]):
        with pytest.raises(ValueError, match=f"{path}: damaged, or no safetensors file: .*{reason}"):
            read_tensors(path, names)


def written_by_hand(path, header, body):
    path.write_bytes(len(header).to_bytes(8, "little") + header + body)
    return path


def test_bfloat16_is_the_upper_half_of_a_float32(path):
    header = b'{"weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    weight = load(written_by_hand(path, header, b"\x80\x3f\x00\xc0"))["weight"]
    assert weight.tolist() == [1, -2] and weight.dtype == np.float32


def test_numbers_that_numpy_does_not_have_are_named(path):
    header = b'{"weight":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}'
    with pytest.raises(ValueError, match=f"{path}: weight is of dtype F8_E4M3; F64, F32, .* can be read"):
        load(written_by_hand(path, header, b"\x80"))
