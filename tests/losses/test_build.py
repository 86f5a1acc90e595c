"""Losses by name."""

import pytest
import torch

from calibrant import losses
from calibrant._math.errors import InputError


def test_every_name_builds_its_module() -> None:
    """Each available name makes a loss with the module's defaults, which is trained with at once."""
    logits = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(8) % 3
    for name in losses.available():
        module = losses.build(name)
        hot = torch.nn.functional.one_hot(labels, 3)
        assert module(logits, hot if name.startswith("multilabel") else labels).isfinite()
    assert {"cross-entropy", "focal"} < set(losses.available())


def test_settings_are_passed_on() -> None:
    loss = losses.build(
        "sample-focal(thresholds=(0.19, 1.0), gammas=(5, 3), closed='right', reduction='sum')"
    )
    assert repr(loss) == repr(
        losses.SampleFocalLoss(thresholds=(0.19, 1.0), gammas=(5, 3), closed="right", reduction="sum")
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foccal", "there is no loss 'foccal'; did you mean 'focal'"),
        ("dual_focal", "did you mean 'dual-focal'"),
        ("focal(gama=2)", "loss 'focal' has no setting 'gama'; did you mean 'gamma'"),
        ("focal(gamma=two)", "with literal values"),
        ("focal(2)", "with literal values"),
        ("focal(gamma=-3)", "`gamma` must be finite and greater than -1"),
    ],
)
def test_mistakes_name_the_nearest(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        losses.build(text)
    with pytest.raises(TypeError, match=r"'gamma'; write settings in the text, as in build"):
        losses.build("focal", gamma=2)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "focal-calibration(gamma=2, weight=0.5)",
            "`weight` holds class weights, a tensor that a text cannot give",
        ),
        ("focal(gamma='x')", r"focal\(gamma='x'\): `gamma` must be a number; got 'x'"),
    ],
)
def test_values_of_the_wrong_type_are_wrong_input(text, words) -> None:
    with pytest.raises(InputError, match=words):
        losses.build(text)
