"""The checker itself: a wrong backward is caught, and the message can be acted on."""
import numpy as np
import pytest

from minigrad import GradcheckError, Tensor, gradcheck, gradgradcheck, operation


@operation
def wrong(a):
    return a * a
wrong.vjp(lambda g, a: g * 3 * a)  # should be 2


@operation
def half_wrong(a):
    return a * a
half_wrong.vjp(lambda g, a: g * 2 * a.detach())  # the value is right, its own derivative is lost


def x64(*values):
    return Tensor(np.array(values), requires_grad=True)


def test_a_wrong_backward_is_named_with_function_input_entry_and_both_numbers():
    with pytest.raises(GradcheckError, match=r"gradcheck of wrong: input 1, entry \(0,\) of shape \(2,\): "
                                             r"backward gives \S+, finite differences give \S+"):
        gradcheck(type("named", (), {"__call__": lambda s, a, b: a + wrong(b), "__name__": "wrong"})(), [x64(1.0, 2.0), x64(1.0, 3.0)])
    assert gradcheck(wrong, x64(1.0), raise_exception=False) is False


def test_a_backward_that_cannot_be_differentiated_is_caught_by_gradgradcheck_only():
    assert gradcheck(half_wrong, x64(1.0, 2.0))
    with pytest.raises(GradcheckError, match="the gradient of half_wrong"):
        gradgradcheck(half_wrong, x64(1.0, 2.0))


def test_nan_does_not_pass():
    with pytest.raises(GradcheckError, match="backward gives nan"):
        gradcheck(lambda x: x / x * 0 + (x - x) / (x - x), x64(1.0))


def test_float32_and_no_gradient_are_refused():
    with pytest.raises(ValueError, match="float64, input 0 is float32"):
        gradcheck(lambda x: x, Tensor([1.0], requires_grad=True))
    with pytest.raises(ValueError, match="an input that requires a gradient"):
        gradcheck(lambda x: x, Tensor([1.0]))


def test_several_inputs_and_outputs_some_without_gradient():
    def fn(a, ids, b):
        return a * 2, b[ids] * a, b.detach() * 3

    assert not gradcheck(fn, [x64(1.0), np.array([0]), x64(2.0, 3.0)], raise_exception=False)  # detach hides a dependence
    assert gradcheck(lambda a, ids, b: (a * 2, b[ids] * a), [x64(1.0), np.array([0]), x64(2.0, 3.0)])
    assert gradgradcheck(lambda a, ids, b: (a * 2, b[ids] * a), [x64(1.0), np.array([0]), x64(2.0, 3.0)])
