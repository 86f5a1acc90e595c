"""Calibrators put into the weights of a layer."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from calibrant import InputError, NotFittedError
from calibrant.calibrators import Calibrator, FocalTemperatureScaling, TemperatureScaling, available, build

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

NO_LAYER = {
    "focal-temperature": "affine only where its exponent is zero",
    "dirichlet": "affine in log-probabilities, not in logits",
}
# Those that say what affine map they are.
FOLDABLE = {
    name: build(name).kinds
    for name in available()
    if type(build(name)).affine is not Calibrator.affine and name not in NO_LAYER
}
OUTPUTS = {"binary": 1, "multiclass": 4, "multilabel": 2}


def head(kind: str, *, bias: bool = True, dtype: torch.dtype = torch.float64) -> tuple[nn.Linear, Tensor]:
    """A last layer, and what comes into it."""
    generator = torch.Generator().manual_seed(5)
    linear = nn.Linear(6, OUTPUTS[kind], bias=bias, dtype=dtype)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return linear, torch.randn(300, 6, generator=generator, dtype=dtype)


def fitted(name: str, kind: str, linear: nn.Linear, features: Tensor) -> Any:
    """A calibrator of that layer's logits, which are too sure and of other class frequencies."""
    logits = linear(features).detach().double()
    generator = torch.Generator().manual_seed(6)
    if kind == "multiclass":
        shift = torch.tensor([0.0, 1.0, -1.0, 0.5], dtype=torch.float64)
        labels = torch.multinomial((logits / 2 + shift).softmax(dim=1), 1, generator=generator)[:, 0]
    else:
        labels = torch.bernoulli((logits / 2 - 1).sigmoid(), generator=generator).long()
    if kind == "binary":
        logits, labels = logits[:, 0], labels[:, 0]
    return build(name).fit(logits, labels)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, kinds in FOLDABLE.items() for kind in kinds]
)
def test_folded_layer_gives_calibrated_probabilities(name: str, kind: str, bias: bool) -> None:
    """Softmax, or sigmoid, of the new layer's logits is what the calibrator makes of the old one's."""
    linear, features = head(kind, bias=bias)
    calibrator = fitted(name, kind, linear, features)
    before = [parameter.detach().clone() for parameter in linear.parameters()]
    logits = calibrator.fold_into(linear)(features)
    old = linear(features)
    if kind == "binary":
        found, wanted = logits[:, 0].sigmoid(), calibrator.predict_proba(old[:, 0])
    elif kind == "multilabel":
        found, wanted = logits.sigmoid(), calibrator.predict_proba(old)
    else:
        found, wanted = logits.softmax(dim=1), calibrator.predict_proba(old)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert all(torch.equal(*pair) for pair in zip(linear.parameters(), before, strict=True))


@pytest.mark.parametrize("name", sorted(set(available()) - set(FOLDABLE)))
def test_others_refuse_and_say_what_to_do(name: str, calibrated: Callable[..., Any]) -> None:
    """What is no affine map of logits is refused, with the remedy; nothing escapes the two lists."""
    kind = build(name).kinds[0]
    scores, labels = calibrated(kind, 200)
    # Scores of both sides of zero, falsely sure: no map of the data is the identity, or affine.
    calibrator = build(name).fit(scores.sign() * scores.abs() ** 3, labels)
    with pytest.raises(InputError, match=rf"cannot take up {name}.*use CalibratedModel\(model, calibrator\)"):
        calibrator.fold_into(nn.Linear(3, OUTPUTS[kind]))


def test_some_calibrators_fold() -> None:
    assert {"temperature", "platt", "vector", "matrix"} <= set(FOLDABLE) < set(available())


def test_focal_temperature_without_exponent_folds(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("multiclass", 300)
    calibrator = FocalTemperatureScaling().fit(2 * scores, labels)
    calibrator.gamma.zero_()
    weight = calibrator.fold_into(nn.Linear(4, 4, bias=False, dtype=torch.float64)).weight
    assert weight.shape == (4, 4)
    assert calibrator.affine().weight[0, 0].item() == pytest.approx(1 / calibrator.temperature.item())


def test_temperature_needs_no_new_bias(calibrated: Callable[..., Any]) -> None:
    """A layer without bias stays one where nothing is added, and gets one where something is."""
    scores, labels = calibrated("multiclass", 300)
    linear = nn.Linear(3, 4, bias=False)
    assert TemperatureScaling().fit(2 * scores, labels).fold_into(linear).bias is None
    assert build("vector").fit(2 * scores + torch.arange(4), labels).fold_into(linear).bias is not None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_keeps_its_kind(dtype: torch.dtype) -> None:
    """Type, gradients and mode are those of the old layer; random numbers are left alone."""
    linear, features = head("multiclass", dtype=dtype)
    calibrator = fitted("vector", "multiclass", linear, features)
    linear.requires_grad_(False).eval()
    state = torch.get_rng_state()
    folded = calibrator.fold_into(linear)
    assert torch.equal(torch.get_rng_state(), state)
    assert folded.weight.dtype == dtype
    assert not folded.weight.requires_grad
    assert not folded.training


def test_wrong_layers_are_refused(calibrated: Callable[..., Any]) -> None:
    binary = TemperatureScaling().fit(*calibrated("binary", 100))
    with pytest.raises(InputError, match="must have 1 output, which temperature was fitted on; got 4"):
        binary.fold_into(nn.Linear(3, 4))
    with pytest.raises(TypeError, match=r"must be an nn\.Linear; got Conv2d"):
        binary.fold_into(nn.Conv2d(3, 1, 1))
    with pytest.raises(NotFittedError, match="call fit"):
        TemperatureScaling().fold_into(nn.Linear(3, 4))
