"""How an arm is chosen: by NLL cross-validated on calibration samples, the simpler where noise decides."""

import numpy as np
import pytest

from calibrant.evaluation.fitting.recommend import Recommendation, recommend
from calibrant.evaluation.fitting.templates import Template, templates
from calibrant.predictions import Predictions


def chosen(predictions: Predictions, *names: str) -> Recommendation:
    found: list[Template] = templates(names, predictions.kind)
    return recommend(found, predictions, 0)


def test_the_simplest_within_one_standard_error_wins(made) -> None:
    """Temperature where the model is too sharp, Platt where it is shifted too, nothing where it is honest."""
    options = ("temperature", "platt")
    assert chosen(made("binary", 3000), *options).name == "uncalibrated"
    assert chosen(made("binary", 3000, sharpness=2), *options).name == "temperature"
    assert chosen(made("binary", 3000, sharpness=2, shift=1), *options).name == "platt"


def test_a_gain_within_noise_changes_nothing(made) -> None:
    """Honest models of which a calibrator happens to have the best NLL, by less than a standard error."""
    close = 0
    for seed in range(12):
        found = chosen(made("binary", 300, seed=seed), "temperature", "platt")
        first = found.choice.candidates[0]
        if 0 < first.behind <= first.standard_error:
            close += 1
            assert found.name == "uncalibrated"
    assert close > 0


def test_candidates_tell_why(made) -> None:
    """The best is behind by nothing, the chosen by at most one standard error, all simpler ones by more."""
    found = chosen(made("multiclass", 1000, sharpness=1.5), "temperature", "focal-temperature")
    names = [each.name for each in found.choice.candidates]
    assert names == ["uncalibrated", "temperature", "focal-temperature"]
    assert min(each.behind for each in found.choice.candidates) == 0
    place = names.index(found.name)
    assert found.choice.candidates[place].behind <= found.choice.candidates[place].standard_error
    assert all(each.behind > each.standard_error for each in found.choice.candidates[:place])


def test_a_probability_of_zero_does_not_decide_alone(made) -> None:
    """One certain mistake among honest predictions counts 27.6 nats in every arm, and no NLL is infinite."""
    honest = made("multiclass", 2000)
    probs = honest.probs.clone()
    probs[0] = 0.0
    probs[0, (honest.labels[0] + 1) % 4] = 1.0
    found = chosen(Predictions(probs=probs, labels=honest.labels), "temperature")
    assert all(np.isfinite(each.nll) for each in found.choice.candidates)
    extra = chosen(honest, "temperature").choice.candidates[0]
    assert found.choice.candidates[0].nll == pytest.approx(
        extra.nll + 27.6 / 2000, abs=2e-3
    )  # less that row's NLL


def test_large_calibration_sets_are_sampled(made, monkeypatch) -> None:
    monkeypatch.setattr("calibrant.evaluation.fitting.recommend.MOST_ELEMENTS", 400)
    found = chosen(made("multiclass", 1000), "temperature")
    assert found.choice.num_samples == 100
    assert found == chosen(made("multiclass", 1000), "temperature")
    # Samples of weight zero do not matter to the NLL.
    predictions = made("binary", 400)
    weights = (np.arange(400) % 2).astype(float)
    weighted = Predictions(logits=predictions.scores, labels=predictions.labels, weights=weights)
    half = predictions.rows(np.arange(400) % 2 == 1)
    assert chosen(weighted, "temperature").choice.candidates[0].nll == pytest.approx(
        chosen(half, "temperature").choice.candidates[0].nll, abs=1e-12
    )
