"""A table trained here opens in torch, and one trained there opens here: bit for bit, ties and all."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import minigrad
from embedding import GPTConfig, InputEmbedding, TiedHead
from embedding.pretrained import from_pretrained
from minigrad import Module, load, optim, save

pytestmark = pytest.mark.parity

CONFIG = GPTConfig(n_head=1, vocab_size=7, block_size=4, n_embd=3)


@pytest.fixture(scope="module")
def safetensors_torch(torch):
    return pytest.importorskip("safetensors.torch", reason="pip install '.[parity]' brings safetensors")


class Ours(Module):
    def __init__(self):
        self.input = InputEmbedding(CONFIG)
        self.head = TiedHead(self.input.wte)

    def forward(self, ids):
        return self.head(self.input(ids))


@pytest.fixture
def trained():
    minigrad.manual_seed(1)
    model = Ours()
    optimizer = optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model([[1, 2, 3]]).sum().backward()
        optimizer.step()
    return model


@pytest.fixture
def theirs(torch):
    model = torch.nn.Module()
    model.input = torch.nn.Module()
    model.input.wte, model.input.wpe = torch.nn.Embedding(7, 3), torch.nn.Embedding(4, 3)
    model.head = torch.nn.Linear(3, 7, bias=False)
    model.head.weight = model.input.wte.weight
    return model


def same_bits(ours, theirs):
    return ours.detach().numpy().tobytes() == theirs.detach().numpy().tobytes()


def test_a_model_trained_here_opens_in_torch_with_its_tie(safetensors_torch, trained, theirs, tmp_path):
    save(trained, tmp_path / "model.safetensors")
    missing, unexpected = safetensors_torch.load_model(theirs, str(tmp_path / "model.safetensors"))
    assert not missing and not unexpected
    assert theirs.head.weight is theirs.input.wte.weight
    assert same_bits(trained.input.wte.weight, theirs.head.weight)
    assert same_bits(trained.input.wpe.weight, theirs.input.wpe.weight)
    ids = [4, 0, 2]
    hidden = theirs.input.wte.weight[ids] + theirs.input.wpe.weight[:3]
    np.testing.assert_allclose(trained(ids).data, theirs.head(hidden).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_a_model_trained_in_torch_opens_here_with_its_tie(safetensors_torch, trained, theirs, tmp_path):
    safetensors_torch.save_model(theirs, str(tmp_path / "model.safetensors"))
    trained.load_state_dict(load(tmp_path / "model.safetensors"))
    assert same_bits(trained.head.weight, theirs.input.wte.weight)
    assert same_bits(trained.input.wpe.weight, theirs.input.wpe.weight)


def test_there_and_back_is_the_same_bits_in_each_dtype(torch, safetensors_torch, tmp_path):
    state = {
        name: torch.arange(6).reshape(2, 3).to(getattr(torch, name))
        for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
    }
    state["float32"][0, 0], state["float32"][0, 1] = float("nan"), -0.0
    safetensors_torch.save_file(state, str(tmp_path / "theirs"))
    loaded = load(tmp_path / "theirs")
    save(loaded, tmp_path / "ours")
    back = safetensors_torch.load_file(str(tmp_path / "ours"))
    assert loaded.keys() == state.keys() == back.keys()
    for name, tensor in state.items():
        assert str(loaded[name].dtype) == name and back[name].dtype == tensor.dtype
        assert same_bits(loaded[name], tensor) and same_bits(back[name], tensor)


@given(
    st.dictionaries(
        st.text(max_size=5).filter(lambda name: name not in ("__metadata__", "format")),
        arrays.arrays(st.sampled_from(["f8", ">f4", "f2", "i8", "u2", "u1", "?"]), arrays.array_shapes(min_dims=0, min_side=0)),
        max_size=4,
    )
)
def test_any_file_written_here_is_read_by_the_formats_own_reader(tmp_path_factory, state):
    reader = pytest.importorskip("safetensors.numpy", reason="pip install '.[parity]' brings safetensors")
    path = tmp_path_factory.mktemp("any") / "state"
    save(state, path)
    theirs = reader.load_file(path)
    assert theirs.keys() == state.keys()
    for name, array in state.items():
        assert theirs[name].shape == array.shape and theirs[name].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()


def test_the_header_names_a_framework_as_transformers_asks(safetensors_torch, trained, tmp_path):
    save(trained, tmp_path / "model.safetensors")
    with safetensors_torch.safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "head.weight": "input.wte.weight"}


def test_the_two_tables_are_found_by_gpt2s_names(safetensors_torch, trained, tmp_path):
    save(trained, tmp_path / "model.safetensors")
    layer = from_pretrained(tmp_path / "model.safetensors")
    assert layer.wte.weight.tolist() == trained.input.wte.weight.tolist()
