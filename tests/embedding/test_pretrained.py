"""Pretrained tables: the right numbers, only their bytes, a damaged file named; and what nearness means in them."""
import builtins
import itertools
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from embedding import Embedding, InputEmbedding, from_pretrained, nearest
from embedding.neighbours import cosine
from embedding.pretrained import read_tensors
from minigrad import functional, saving

RNG = np.random.default_rng(0)
WTE, WPE = RNG.standard_normal((10, 64)).astype("f4"), RNG.standard_normal((6, 64)).astype("f4")


def entry(dtype, shape, start, stop):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


@pytest.fixture
def checkpoint(tmp_path):
    """Write a checkpoint by hand: what stands in front of the two tables, then they; `changes` to the header."""

    def write(header=None, body=None, cut=None, between=1000):
        start = between + WPE.nbytes
        header = header or {
            "__metadata__": {"format": "pt"},
            "h.0.attn.c_attn.weight": entry("F32", [between // 4], 0, between),
            "wpe.weight": entry("F32", WPE.shape, between, start),
            "wte.weight": entry("F32", WTE.shape, start, start + WTE.nbytes),
        }
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        body = bytes(between) + WPE.tobytes() + WTE.tobytes() if body is None else body
        path = tmp_path / "model.safetensors"
        path.write_bytes((struct.pack("<Q", len(text)) + text + body)[:cut])
        return path

    return write


def test_the_two_tables_of_a_checkpoint_become_gpts_input(checkpoint):
    layer = from_pretrained(checkpoint())
    assert isinstance(layer, InputEmbedding)
    assert np.array_equal(layer([[3, 9, 3]]).data, (WTE[[3, 9, 3]] + WPE[:3])[None])
    assert not any(p.requires_grad for p in layer.parameters())
    assert all(p.requires_grad for p in from_pretrained(checkpoint(), freeze=False).parameters())


def test_of_a_checkpoint_only_the_header_and_the_tables_are_read(checkpoint, monkeypatch):
    path, count = checkpoint(between=40_000_000), []

    class Counted:
        def __init__(self, file):
            self.file = file
            self.seek, self.fileno = file.seek, file.fileno

        def read(self, size):
            count.append(size)
            return self.file.read(size)

        def readinto(self, into):
            count.append(len(into))
            return self.file.readinto(into)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

    opened = builtins.open
    monkeypatch.setattr(builtins, "open", lambda *a, **k: Counted(opened(*a, **k)))
    assert np.array_equal(read_tensors(path, ["wte.weight"])["wte.weight"], WTE)
    assert sum(count) < WTE.nbytes + 1000


def test_the_file_that_safetensors_writes_is_read_bit_for_bit(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy", reason="pip install '.[parity]' brings safetensors")
    tensors = {"transformer.wte.weight": WTE, "transformer.wpe.weight": WPE.astype("f2"), "d": WPE.astype("f8")}
    numpy.save_file(tensors, tmp_path / "model.safetensors")
    read = read_tensors(tmp_path / "model.safetensors", ["wte.weight", "wpe.weight", "d"])
    assert np.array_equal(read["wte.weight"], WTE)
    assert np.array_equal(read["wpe.weight"], WPE.astype("f2")) and read["wpe.weight"].dtype == np.float32
    assert np.array_equal(read["d"], WPE) and read["d"].dtype == np.float64


@pytest.mark.parametrize("shape", [(), (1,)], ids=str)
def test_halves_become_float32_and_doubles_stay_what_they_are(tmp_path, shape):
    saving.save({"half": np.ones(shape, "f2"), "double": np.full(shape, 1 / 3)}, tmp_path / "a")
    read = read_tensors(tmp_path / "a", ["half", "double"])
    assert (read["half"].dtype, read["double"].dtype, read["double"]) == ("f4", "f8", 1 / 3)


def test_bfloat16_is_the_upper_half_of_a_float32(checkpoint):
    upper = (WTE.view("<u4") >> 16).astype("<u2")
    path = checkpoint({"wte.weight": entry("BF16", WTE.shape, 0, upper.nbytes)}, upper.tobytes())
    assert np.abs(read_tensors(path, ["wte.weight"])["wte.weight"] / WTE - 1).max() < 2**-7


@pytest.mark.parametrize("change, message", [
    ({"cut": 4}, "of its 4 bytes the header would be"),
    ({"cut": 60}, "of its 60 bytes the header would be"),
    ({"cut": 3000}, "wte.weight ends at byte 5,096 of .*cut short"),
    ({"header": b"[1, 2]"}, "a JSON list, where names and tensors should be"),
    ({"header": b"{nonsense}"}, "damaged, or no safetensors file: Expecting property name"),
    ({"header": {"a": entry("F32", [1], 0, 4)}}, "no tensors are called wte.weight; there are a"),
    ({"header": {"a.wte.weight": {}, "b.wte.weight": {}}}, "2 tensors are called wte.weight"),
    ({"header": {"wte.weight": entry("I64", [1], 0, 8)}, "body": bytes(8)}, "wte.weight is of dtype int64, and should be of floats"),
    ({"header": {"wte.weight": entry("F32", [3, 4], 0, 40)}}, "takes 48 bytes, its offsets span 40"),
    ({"header": {"wte.weight": entry("F32", [-1, 4], 0, 40)}}, "should have dtype, shape and data_offsets"),
    ({"header": {"wte.weight": {"dtype": "F32", "shape": [1]}}}, "should have dtype, shape and data_offsets"),
    ({"header": {"wte.weight": entry("F32", [1], 4, 0)}}, "offsets span -4"),
])
def test_a_damaged_checkpoint_is_refused_with_the_file_and_the_numbers(checkpoint, change, message):
    path = checkpoint(**change)
    with pytest.raises(ValueError, match=message) as error:
        read_tensors(path, ["wte.weight"])
    assert str(error.value).startswith(str(path))


def test_tables_of_two_widths_are_no_checkpoint(checkpoint):
    path = checkpoint({"wte.weight": entry("F32", [2, 3], 0, 24), "wpe.weight": entry("F32", [2, 2], 24, 40)}, bytes(40))
    with pytest.raises(ValueError, match=r"wte.weight \(2, 3\) and wpe.weight \(2, 2\) are no tables of one width"):
        from_pretrained(path)


def test_any_two_one_hot_vectors_are_the_square_root_of_two_apart():
    vectors = functional.one_hot(np.arange(30), 30).numpy()
    for a, b in itertools.combinations(vectors, 2):
        assert np.linalg.norm(a - b) == math.sqrt(2) and cosine(a, b) == 0


# --- nearest ---


@given(table=hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(-3, 3)), k=st.integers(1, 14), data=st.data())
def test_nearest_is_the_sorted_list_of_all_cosines(table, k, data):
    row = data.draw(st.integers(0, len(table) - 1))
    ids, cosines = nearest(table, row, k)
    every = cosine(table, table[row])
    assert ids.tolist() == [i for i in sorted(range(len(table)), key=lambda i: (-every[i], i)) if i != row][:k]
    assert np.array_equal(cosines, every[ids])


def test_nearest_takes_a_vector_and_a_layers_weight():
    layer = Embedding.from_pretrained(WTE)
    assert nearest(layer.weight, WTE[4] * 3, 2)[0][0] == 4
    assert 4 not in nearest(layer.weight, 4, 99)[0]
    learned = Embedding.from_pretrained(WTE, freeze=False).weight  # which requires a gradient
    assert nearest(learned, learned[4], 1)[0] == [4]


def test_a_row_of_nan_is_near_to_nothing_and_comes_last():
    table = np.array([[1.0, 0.0], [np.nan, 1.0], [0.0, 1.0], [0.0, 0.0]])
    ids, cosines = nearest(table, 0, 3)
    assert ids.tolist() == [2, 3, 1] and cosines[:2].tolist() == [0, 0] and np.isnan(cosines[2])


@pytest.mark.parametrize("row, k, error", [(10, 1, IndexError), (-1, 1, IndexError), (0, 0, ValueError), (np.ones(3), 1, ValueError)])
def test_nearest_refuses_what_has_no_row(row, k, error):
    with pytest.raises(error):
        nearest(WTE, row, k)
