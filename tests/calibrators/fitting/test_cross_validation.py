"""Cross-validation: over-correction is noticed, and the exponent is used only where it pays."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, load_calibrator
from calibrant._math.errors import without_warnings
from calibrant._math.focal_map_inverse import inverse_focal_map_logits
from calibrant.calibrators import (
    Calibrator,
    FocalTemperatureScaling,
    PlattScaling,
    TemperatureScaling,
    available,
    build,
)
from calibrant.calibrators.fitting.data import fold_numbers, over_correction


def overdone(name: str) -> Calibrator:
    """The calibrator of that name with a fault: log-odds of what it says are divided by 6."""
    kind: Any = type(build(name))

    class Overdone(kind):
        def _transform(self, scores: Tensor) -> Tensor:
            mapped = super()._transform(scores) / 6  # a map without a slope leaves them 3 times too large
            return torch.log_softmax(mapped, dim=1) if self.kind_ == "multiclass" else mapped

    return Overdone()


def test_folds_are_fair() -> None:
    """Folds differ by at most one sample, each has its share of every run, and rows may come in any order."""
    generator = torch.Generator().manual_seed(0)
    ranking, outcomes = torch.rand(103, generator=generator), torch.ones(103)
    numbers = fold_numbers(ranking, outcomes, 5)
    assert sorted(torch.bincount(numbers).tolist()) in ([20, 20, 21, 21, 21], [20, 20, 20, 21, 22])
    in_order = numbers[ranking.argsort()]
    for start in range(0, 100, 5):
        assert sorted(in_order[start : start + 5].tolist()) == [0, 1, 2, 3, 4]
    shuffle = torch.randperm(103, generator=generator)
    assert torch.equal(fold_numbers(ranking[shuffle], outcomes, 5), numbers[shuffle])
    assert not torch.equal(fold_numbers(ranking, outcomes, 5, seed=1), numbers)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_held_out_figures_are_those_of_the_folds(calibrated: Callable[..., Any], kind: str) -> None:
    """Log-loss, confidence and accuracy are recomputed fold by fold; the fit itself is as without folds."""
    scores, labels = calibrated(kind, 200)
    scores = 3 * scores
    weights = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) + 0.1
    fitted = TemperatureScaling().fit(scores, labels, weights=weights, folds=4, seed=2)
    plain = TemperatureScaling().fit(scores, labels, weights=weights)
    assert fitted.fit_result_.parameters == plain.fit_result_.parameters
    assert plain.fit_result_.held_out == {}
    found = fitted.fit_result_.held_out
    if kind == "multiclass":
        confidence, top = scores.softmax(dim=1).max(dim=1)
        right = (top == labels).double()
        key = (confidence, right)
    else:
        right = ((scores > 0) == (labels == 1)).double()
        confidence = scores.abs().sigmoid()
        key = (confidence.mean(1), right.mean(1)) if kind == "multilabel" else (confidence, right)
    numbers = fold_numbers(*key, 4, 2)
    total = loss = said = hits = 0.0
    for fold in range(4):
        inside = numbers == fold
        probs = (
            TemperatureScaling().fit(scores[~inside], labels[~inside], weights=weights[~inside])
        ).predict_proba(scores[inside])
        if kind == "multiclass":
            own, best = probs.gather(1, labels[inside, None])[:, 0], probs.amax(dim=1)
            hit = right[inside]
        else:
            own = torch.where(labels[inside] == 1, probs, 1 - probs)
            best, hit = torch.maximum(probs, 1 - probs), right[inside]
        share = weights[inside] if own.ndim == 1 else weights[inside, None] / own.shape[1]
        loss += float((-own.log() * share).sum())
        said += float((best * share).sum())
        hits += float((hit * share).sum())
        total += float(weights[inside].sum())
    assert found["log_loss"] == pytest.approx(loss / total, rel=1e-9)
    assert found["confidence"] == pytest.approx(said / total, rel=1e-9)
    assert found["accuracy"] == pytest.approx(hits / total, rel=1e-9)


@pytest.mark.parametrize("name", available())
def test_every_over_correction_is_said(name: str, calibrated: Callable[..., Any]) -> None:
    """Over-confident before, under-confident after, beyond noise: said of a fault, not of an honest fit."""
    scores, labels = calibrated(build(name).kinds[0], 2000)
    with pytest.warns(CalibrantWarning, match="it over-corrects: on held-out folds it says"):
        held_out = overdone(name).fit(3 * scores, labels, folds=3).fit_result_.held_out
    assert held_out["excess"] > 2 > -2 > held_out["excess_before"]
    with without_warnings():
        honest = build(name).fit(3 * scores, labels, folds=3).fit_result_
    assert not any("over-corrects" in warning for warning in honest.warnings)


def test_only_turned_signs_are_over_corrections() -> None:
    said = {"confidence": 0.8, "accuracy": 0.83}
    assert not over_correction({**said, "excess": 1.9, "excess_before": -9.0})
    assert not over_correction({**said, "excess": 5.0, "excess_before": 7.0})
    assert "says 80.0% and is right 83.0%" in str(
        over_correction({**said, "excess": 2.5, "excess_before": -9.0})
    )


def test_excess_is_a_standard_score(calibrated: Callable[..., Any]) -> None:
    """On calibrated data the excess of the scores as they came is a draw from a standard normal."""
    excesses = [
        TemperatureScaling()
        .fit(*calibrated("binary", 300, seed=seed), folds=2)
        .fit_result_.held_out["excess_before"]
        for seed in range(30)
    ]
    assert abs(sum(excesses)) / math.sqrt(30) < 4
    assert 0.4 < math.sqrt(sum(value**2 for value in excesses) / 30) < 1.7  # chi of 30 degrees: 4 sigma


def test_every_calibrator_can_be_checked(calibrated: Callable[..., Any], tmp_path: Path) -> None:
    scores, labels = calibrated("binary", 80)
    fitted = PlattScaling().fit(2 * scores, labels, folds=3)
    fitted.save(tmp_path / "platt.safetensors")
    assert load_calibrator(tmp_path / "platt.safetensors").fit_result_ == fitted.fit_result_
    assert set(fitted.fit_result_.held_out) == {
        "log_loss", "confidence", "accuracy", "excess", "excess_before",
    }  # fmt: skip


def test_exponent_is_used_where_it_pays(calibrated: Callable[..., Any]) -> None:
    """A planted focal map keeps its exponent; data that a temperature calibrates lose theirs."""
    scores, labels = calibrated("multiclass", 3000)
    planted = 4 * inverse_focal_map_logits(torch.log_softmax(scores, dim=1), 2.0)
    result = FocalTemperatureScaling(selection="cross_validated").fit(planted, labels).fit_result_
    free = FocalTemperatureScaling().fit(planted, labels).fit_result_
    assert result.parameters == free.parameters
    assert result.held_out["gain"] > result.held_out["gain_error"] > 0
    assert "held-out log loss falls" in result.message
    free = FocalTemperatureScaling().fit(2 * scores, labels).fit_result_
    result = FocalTemperatureScaling(selection="cross_validated").fit(2 * scores, labels).fit_result_
    assert free.parameters["gamma"] != 0
    assert result.parameters["gamma"] == 0
    assert result.parameters["temperature"] == TemperatureScaling().fit(2 * scores, labels).temperature.item()
    assert result.held_out["gain"] <= result.held_out["gain_error"]
    assert result.after == result.compared["temperature"]


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_few_samples_use_no_exponent() -> None:
    logits = torch.tensor([[2.0, 0.1, -1.0], [0.3, 0.2, 0.1], [-1.0, 4.0, 0.0]])
    calibrator = FocalTemperatureScaling(selection="cross_validated").fit(logits, [0, 1, 2])
    assert calibrator.gamma == 0
    free = FocalTemperatureScaling().fit(logits, [0, 1, 2])
    assert free.gamma == 0 or "gamma needs 10 samples" in calibrator.fit_result_.message
