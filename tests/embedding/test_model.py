"""The model that trains a table: what it reads, where its loss begins, and whose rows its gradient reaches."""
import math

import numpy as np
import pytest

from embedding.model import NextToken
from minigrad import Tensor, gradcheck, random

V, C, T, H = 30, 4, 3, 5


@pytest.fixture
def model():
    random.manual_seed(1)
    return NextToken(V, C, T, H)


def test_a_context_becomes_one_vector_and_its_products_with_the_table_are_the_scores(model):
    hidden = model([[1, 2, 3], [4, 5, 6]])
    assert hidden.shape == (2, C)
    assert model.head(hidden).shape == (2, V)


def test_the_loss_is_minus_the_log_of_the_probability_of_what_came_next(model):
    ids, targets = [[1, 2, 3], [4, 5, 6]], [7, 8]
    scores = model.head(model(ids)).detach().numpy().astype(np.float64)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert model.loss(ids, targets).item() == pytest.approx(-np.log([p[0, 7], p[1, 8]]).mean(), rel=1e-6)


def test_it_begins_as_who_knows_nothing(model):
    assert model.loss([[1, 2, 3]], [4]).item() == pytest.approx(math.log(V), abs=0.01)


def test_a_seed_gives_the_same_model_twice():
    numbers = []
    for _ in range(2):
        random.manual_seed(5)
        numbers.append(NextToken(V, C, T, H).state_dict())
    assert all(np.array_equal(numbers[0][name], numbers[1][name]) for name in numbers[0])


def test_the_table_is_one_parameter_with_two_uses(model):
    assert [name for name, _ in model.named_parameters()] == [
        "straight", "input.wte.weight", "input.wpe.weight", "hidden.weight", "hidden.bias", "output.weight", "output.bias",
    ]  # fmt: skip
    assert model.head.weight is model.input.wte.weight


def test_each_row_of_the_table_gets_a_gradient_through_the_head_and_those_read_another_one(model):
    model.loss([[1, 2, 2]], [3]).backward()
    both = model.input.wte.weight.grad.numpy()
    assert both.any(axis=1).all()

    model.zero_grad()
    hidden = model([[1, 2, 2]]).detach()
    scores = np.exp(hidden.numpy() @ model.head.weight.data.T)
    error = scores / scores.sum()
    error[0, 3] -= 1  # softmax - one_hot
    through_the_head = error.T @ hidden.numpy()
    read = np.abs(both - through_the_head).max(axis=1) > 1e-7
    assert np.flatnonzero(read).tolist() == [1, 2]


def test_without_its_hidden_layer_it_begins_with_the_sum_of_the_rows(model):
    model.output.weight.data[:] = 0
    rows = model.input.wte.weight.data[[1, 2, 3]] + model.input.wpe.weight.data
    np.testing.assert_allclose(model([[1, 2, 3]]).data, rows.sum(axis=0, keepdims=True), rtol=1e-6)


def test_the_order_of_a_context_matters(model):
    assert not np.allclose(model([[1, 2, 3]]).data, model([[3, 2, 1]]).data)


def test_the_gradients_are_those_of_finite_differences(model):
    values = [Tensor(p.data.astype(np.float64) * 50, requires_grad=True) for p in model.parameters()]  # 50: far from 0

    def loss(straight, table, positions, hidden, hidden_bias, output, output_bias):
        model.input.wte.weight = model.head.weight = table
        model.input.wpe.weight = positions
        model.hidden.weight, model.hidden.bias = hidden, hidden_bias
        model.output.weight, model.output.bias, model.straight = output, output_bias, straight
        return model.loss([[1, 2, 2], [4, 5, 6]], [7, 8])

    assert gradcheck(loss, values)


def test_what_always_follows_is_learned(model):
    ids, targets = np.array([[1, 2, 3], [4, 5, 6]]), np.array([7, 8])
    for _ in range(400):
        model.zero_grad()
        loss = model.loss(ids, targets)
        loss.backward()
        for parameter in model.parameters():
            parameter.data -= 0.5 * parameter.grad.data
    assert loss.item() < 0.05


@pytest.mark.parametrize("ids", [[[1, 2]], [[1, 2, 3, 4]], [1, 2, 3]])
def test_a_context_of_another_length_is_refused_with_both(model, ids):
    with pytest.raises(ValueError, match=r"\(B, 3\).*got \("):
        model(ids)


def test_an_id_beyond_the_table_is_refused_with_its_place(model):
    with pytest.raises(IndexError, match=r"id 30 at position \(0, 1\)"):
        model([[1, 30, 2]])


@pytest.mark.parametrize("name", ["width", "context", "hidden"])
def test_a_size_below_one_is_refused_by_its_name(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        NextToken(V, **{name: 0})
    with pytest.raises(TypeError, match=f"{name} must be an integer, got 1.5"):
        NextToken(V, **{name: 1.5})
