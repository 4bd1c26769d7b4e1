"""Shapes are checked while the tests run: at the first calls of a function in every test, since loops call one thousands of times."""

import jaxtyping
import pytest
import torch
from jaxtyping import Float, TypeCheckError
from reference.typechecking import CALLS, checked, forget_calls
from torch import Tensor

from attrcert.metrics.mass_centre import centre


def test_another_shape_than_a_function_declares_is_refused():
    with pytest.raises(TypeCheckError, match="mass_centre"):
        centre(torch.rand(2, 3, 3), (1, 3, 3))


def test_the_first_calls_of_a_function_are_checked_and_those_of_the_next_test_again():
    @jaxtyping.jaxtyped(typechecker=checked)
    def half(v: Float[Tensor, "b n"]) -> Tensor:
        return v / 2

    for _ in range(2):
        for _ in range(CALLS - 1):
            half(torch.rand(2, 9))
        with pytest.raises(TypeCheckError):
            half(torch.rand(9))
        half(torch.rand(9))
        forget_calls()
