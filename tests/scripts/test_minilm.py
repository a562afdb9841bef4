"""MiniLM's tables: whole numbers times a scale, a damaged model named; and what nearness means in them."""
import numpy as np
import pytest
from fetching.minilm import minilm_tables

from bpe.wordpiece import WordPiece
from embedding import nearest
from embedding.neighbours import cosine

RNG = np.random.default_rng(0)


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    return varint(number << 3) + varint(value) if isinstance(value, int) else varint(number << 3 | 2) + varint(len(value)) + value


def onnx_tensor(name, array, data_type):
    return field(5, b"".join(field(1, n) for n in array.shape) + field(2, data_type) + field(8, name.encode()) + field(9, array.tobytes()))


def onnx_model(rows=5, places=3, width=4):
    tensors = []
    for part, count in (("word", rows), ("position", places)):
        q = RNG.integers(-127, 128, (count, width)).astype("i1")
        scale = RNG.random((count, 1)).astype("f4")
        name = f"inner.embeddings.{part}_embeddings.weight"
        tensors += [(q, scale), onnx_tensor(f"{name}_q", q, 3) + onnx_tensor(f"{name}_scale", scale, 1)]
    (q, s), words, (_, _), positions = tensors
    other = onnx_tensor("some.bias", np.ones(3, "f4"), 1)
    return field(1, 8) + field(7, other + words + positions), q * s


def test_the_quantised_table_is_whole_numbers_times_a_scale_a_row(tmp_path):
    model, table = onnx_model()
    (tmp_path / "model.onnx").write_bytes(model)
    tokens, positions = minilm_tables(tmp_path / "model.onnx")
    assert np.array_equal(tokens, table) and tokens.dtype == np.float32 and positions.shape == (3, 4)


def test_the_quantised_model_cut_anywhere_is_refused_with_the_file(tmp_path):
    model, _ = onnx_model()
    for length in range(len(model)):
        (tmp_path / "model.onnx").write_bytes(model[:length])
        with pytest.raises(ValueError, match="model.onnx: not the MiniLM model it should be: "):
            minilm_tables(tmp_path / "model.onnx")


def test_cat_is_nearer_to_dog_than_to_subpoena(fetched):
    tokens, positions = minilm_tables(fetched("minilm"))
    bert = WordPiece.from_file(fetched("bert"))
    assert tokens.shape == (30522, 384) and positions.shape == (512, 384)

    def vector(word):  # a word of several pieces ("sub", "##po", "##ena") is the mean of their rows
        return tokens[bert.encode(word)].mean(axis=0)

    cat = vector("cat")
    assert cosine(cat, vector("dog")) > 0.4 > cosine(cat, vector("subpoena"))
    assert np.linalg.norm(cat - vector("dog")) < np.linalg.norm(cat - vector("subpoena"))
    (king, monday), (queen, tuesday) = bert.encode("king monday"), bert.encode("queen tuesday")
    assert queen in nearest(tokens, king, 3)[0] and nearest(tokens, monday, 1)[0] == [tuesday]
