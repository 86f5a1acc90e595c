"""The exponent that every function of the theory takes."""

import inspect

import numpy as np
import pytest

from calibrant import theory

ROW = np.array([[0.2, 0.3, 0.5]])
OTHERS = {"num_classes": 3, "calibration_weight": 0.5, "p": 0.3, "p0": 0.3, "posterior": ROW, "logits": ROW}
NAMES = [
    name
    for name in theory.__all__
    if inspect.isfunction(getattr(theory, name))
    and "gamma" in inspect.signature(getattr(theory, name)).parameters
]


@pytest.mark.parametrize("gamma", ["2", None, [2.0]])
@pytest.mark.parametrize("name", sorted({*NAMES} - {"implied_weight_decay"}))
def test_what_is_no_number_is_refused_in_one_sentence(name: str, gamma: object) -> None:
    """A text, a list or nothing; by the name of the argument, with the value."""
    function = getattr(theory, name)
    needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    given = {each.name: OTHERS.get(each.name, ROW) for each in needed} | {"gamma": gamma}
    with pytest.raises(TypeError, match=r"^`gamma` must be a number; got ") as caught:
        function(**given)
    assert str(caught.value).endswith(f"{gamma!r}.")


def test_other_kinds_of_numbers_will_do() -> None:
    expected = theory.gradient_threshold(gamma=2.0)
    for gamma in (2, np.float32(2), np.float64(2), np.int64(2)):
        assert theory.gradient_threshold(gamma=gamma) == pytest.approx(expected, abs=1e-5)  # in float32
