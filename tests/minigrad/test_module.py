"""Module and Parameter: found by name, each once, saved and loaded without loss."""
import copy
import pickle

import numpy as np
import pytest

from embedding import Embedding
from minigrad import Module, Parameter, Tensor


class Pair(Module):
    def __init__(self, tied=False):
        self.a = Embedding(3, 2)
        self.b = Embedding(3, 2)
        self.scale = Parameter([1.0])
        self.rest = [Embedding(1, 1), Embedding(1, 1)]
        self.label = "not a parameter"
        if tied:
            self.b.weight = self.a.weight

    def forward(self, ids):
        return self.scale * (self.a(ids) + self.b(ids))


def test_parameters_are_named_by_their_path_a_modules_own_first():
    names = [name for name, _ in Pair().named_parameters()]
    assert names == ["scale", "a.weight", "b.weight", "rest.0.weight", "rest.1.weight"]


def test_a_shared_parameter_comes_once_and_has_two_names_in_the_state():
    model = Pair(tied=True)
    assert [name for name, _ in model.named_parameters()] == ["scale", "a.weight", "rest.0.weight", "rest.1.weight"]
    assert "b.weight" in model.state_dict()
    model([0, 0]).sum().backward()
    assert model.a.weight.grad.tolist() == [[4.0, 4.0], [0.0, 0.0], [0.0, 0.0]]  # two uses, each of two lookups
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_a_parameter_shares_the_memory_it_is_made_over_and_a_result_is_an_ordinary_tensor():
    array = np.zeros((2, 2), np.float32)
    parameter = Parameter(array)
    array[0, 0] = 5
    assert parameter.data is array and parameter.requires_grad
    assert type(parameter + 1) is Tensor and type(parameter.detach()) is Tensor
    assert repr(Parameter(array, requires_grad=False)) == "Parameter containing:\ntensor([[5., 0.],\n        [0., 0.]])"
    with pytest.raises(RuntimeError, match="floating point"):
        Parameter(np.arange(3))
    assert Parameter(np.arange(3), requires_grad=False).tolist() == [0, 1, 2]


def test_copies_and_pickles_keep_the_type_the_tie_and_the_numbers():
    model = Pair(tied=True)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.a.weight is twin.b.weight and twin.a.weight is not model.a.weight
        assert type(twin.scale) is Parameter and twin.a.weight.tolist() == model.a.weight.tolist()


def test_a_state_loads_in_place_cast_to_the_parameters_type():
    model, twin = Pair(), Pair()
    before = twin.a.weight
    state = {name: value.numpy().astype(np.float64) for name, value in model.state_dict().items()}
    assert repr(twin.load_state_dict(state)) == "<All keys matched successfully>"
    assert twin.a.weight is before and before.dtype == np.float32
    assert twin.a.weight.tolist() == model.a.weight.tolist()
    state["a.weight"][:] = 9  # a copy was loaded
    assert twin.a.weight.tolist() == model.a.weight.tolist()
    assert np.shares_memory(model.state_dict()["scale"].numpy(), model.scale.data)


def test_a_state_that_does_not_fit_is_refused_whole_and_changes_nothing():
    model = Pair()
    kept = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    state = {**{name: value + 1 for name, value in kept.items()}, "b.weight": np.zeros((4, 2)), "q": np.zeros(1)}
    del state["scale"]
    with pytest.raises(RuntimeError) as error:
        model.load_state_dict(state)
    assert str(error.value).splitlines() == [
        "Error(s) in loading state_dict for Pair:",
        '\tMissing key(s) in state_dict: "scale". ',
        '\tUnexpected key(s) in state_dict: "q". ',
        "\tsize mismatch for b.weight: copying a param with shape (4, 2) from checkpoint, "
        "the shape in current model is (3, 2).",
    ]
    assert all(np.array_equal(value.numpy(), kept[name]) for name, value in model.state_dict().items())
    with pytest.raises(RuntimeError, match='parameter named "scale"'):
        model.load_state_dict({"scale": "one"}, strict=False)
    with pytest.raises(TypeError, match="dict-like"):
        model.load_state_dict(3)


def test_a_loose_load_says_what_it_did_not_match():
    keys = Pair().load_state_dict({"scale": [2.0], "q": [1.0]}, strict=False)
    assert keys.unexpected_keys == ["q"] and "a.weight" in keys.missing_keys and "scale" not in keys.missing_keys


def test_loading_is_noticed_by_a_backward_that_needs_the_old_numbers():
    model = Pair()
    out = model.scale * model.scale
    model.load_state_dict({"scale": [2.0]}, strict=False)
    with pytest.raises(RuntimeError, match="inplace"):
        out.backward()


def test_train_and_eval_reach_every_module():
    model = Pair()
    assert model.training and model.eval() is model
    assert not model.training and not model.rest[1].training
    assert model.train().a.training


def test_the_repr_is_indented_as_torchs():
    assert repr(Pair()).splitlines() == [
        "Pair(", "  (a): Embedding(3, 2)", "  (b): Embedding(3, 2)", "  (rest.0): Embedding(1, 1)",
        "  (rest.1): Embedding(1, 1)", ")",
    ]  # fmt: skip


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        Module()(1)
