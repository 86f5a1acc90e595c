"""What a calibrated model shows by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant._math.lipschitz import smooth_calibration_error
from calibrant.evaluation.resampling.event_cells import bin_matrix
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.resampling.null import draw_null, null_error


def events(
    rng: np.random.Generator, num_samples: int, *, ties: bool = False, weighted: bool = False
) -> Events:
    """Calibrated events."""
    confidences = rng.beta(4, 1.5, size=num_samples)
    if ties:
        confidences = np.round(confidences, 1)
    weights = rng.choice([0.0, 0.5, 1.0, 2.3], size=num_samples) if weighted else None
    return Events(confidences, (rng.random(num_samples) < confidences).astype(float), weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_the_bins_of_the_draws_are_those_of_the_metrics(rng, ties, weighted) -> None:
    """With the outcomes observed, the matrix behind the draws gives the metrics' own errors."""
    given = events(rng, 83, ties=ties, weighted=weighted)
    total = 83 if given.weights is None else given.weights.sum()
    errors = np.abs(bin_matrix(given, 7) @ (given.outcomes - given.confidences)) / total
    probs, labels = torch.from_numpy(given.confidences), torch.from_numpy(given.outcomes)
    options = {"num_bins": 7, "weights": given.weights}
    width = metrics.expected_calibration_error(probs, labels, **options).item()
    mass = metrics.adaptive_calibration_error(probs, labels, **options).item()
    assert errors[:7].sum() == pytest.approx(width, abs=1e-14)
    assert errors[7:].sum() == pytest.approx(mass, abs=1e-14)


def test_one_bin_has_a_closed_form(rng) -> None:
    """With one bin the error is the absolute mean residual: half-normal; |z| < 4, and 2 % for the limit."""
    given = events(rng, 2000)
    draws = draw_null(given, 1, 4000, (0,)).errors["width l1"]
    spread = math.sqrt((given.confidences * (1 - given.confidences)).sum()) / 2000
    mean = spread * math.sqrt(2 / math.pi)
    assert abs(draws.mean() - mean) < 4 * spread * math.sqrt(1 - 2 / math.pi) / math.sqrt(4000)
    assert np.quantile(draws, 0.95) == pytest.approx(1.959964 * spread, rel=0.05)  # a quantile of 4000 draws


@pytest.mark.parametrize("weighted", [False, True])
def test_smooth_errors_of_the_draws(rng, weighted) -> None:
    """Samples of their own, drawn again from the same stream, have the smooth errors of the draws."""
    given = events(rng, 60, weighted=weighted)
    draws = draw_null(given, 5, 20, (3,))
    ranked = np.argsort(given.confidences)
    uniform = np.random.Generator(np.random.SFC64((3,))).random((60, 20), dtype=np.float32)
    outcomes = (uniform >= 1 - given.confidences[ranked, None]).astype(float)
    weights = None if given.weights is None else given.weights[ranked]
    expected = [smooth_calibration_error(given.confidences[ranked], drawn, weights) for drawn in outcomes.T]
    assert draws.errors["smooth"] == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_draws_of_groups_are_those_of_single_samples(rng, ties, weighted) -> None:
    """Drawn as numbers of groups or one by one, errors have the same law: first two moments, |z| < 4.5."""
    given = events(rng, 1500, ties=ties, weighted=weighted)
    total = 1500 if given.weights is None else given.weights.sum()
    draws = draw_null(given, 5, 4000, (3,))
    outcomes = rng.random((4000, 1500)) < given.confidences
    plain = np.abs(bin_matrix(given, 5) @ (outcomes - given.confidences).T) / total
    for ours, theirs in (
        (draws.errors["width l1"], plain[:5].sum(axis=0)),
        (draws.errors["mass l1"], plain[5:].sum(axis=0)),
    ):
        for power in (1, 2):
            one, two = ours**power, theirs**power
            assert abs(one.mean() - two.mean()) < 4.5 * math.sqrt((one.var() + two.var()) / 4000)


def test_p_values_of_calibrated_models_are_uniform() -> None:
    """Over 150 calibrated samples the p-values of both errors spread evenly; |z| < 4 in every fifth."""
    num_models, num_draws = 150, 99
    found = {"ece": [], "adaptive_ece": [], "smce": []}
    for model in range(num_models):
        given = events(np.random.default_rng(model), 250)
        draws = draw_null(given, 10, num_draws, (model,))
        errors = np.abs(bin_matrix(given, 10) @ (given.outcomes - given.confidences)) / 250
        for name, observed, null in (
            ("ece", errors[:10].sum(), draws.errors["width l1"]),
            ("adaptive_ece", errors[10:].sum(), draws.errors["mass l1"]),
            ("smce", smooth_calibration_error(given.confidences, given.outcomes), draws.errors["smooth"]),
        ):
            found[name].append(null_error(name, observed, null, 0.95).p_value)
    for name, p_values in found.items():
        fifths = np.histogram(p_values, bins=5, range=(0, 1))[0]
        z = (fifths - num_models / 5) / math.sqrt(num_models * 0.2 * 0.8)
        assert np.abs(z).max() < 4, (name, fifths)
        assert min(p_values) >= 1 / (1 + num_draws)


def test_the_uniformity_check_bites() -> None:
    """Models that state a little too much get small p-values: the law above can fail."""
    small = 0
    for model in range(50):
        honest = events(np.random.default_rng(model), 250)
        boastful = Events(np.minimum(1, honest.confidences + 0.08), honest.outcomes)
        draws = draw_null(boastful, 10, 199, (model,))
        errors = np.abs(bin_matrix(boastful, 10) @ (boastful.outcomes - boastful.confidences)) / 250
        small += null_error("ece", errors[:10].sum(), draws.errors["width l1"], 0.95).p_value < 0.2
    assert small > 40


def test_the_p_value_counts_the_observation_itself() -> None:
    """(1 + k) / (1 + draws): never zero, and one where every draw reaches the observation."""
    draws = np.array([0.1, 0.2, 0.3, 0.4])
    assert null_error("ece", 0.9, draws, 0.95).p_value == pytest.approx(1 / 5)
    assert null_error("ece", 0.3, draws, 0.95).p_value == pytest.approx(3 / 5)
    assert null_error("ece", 0.0, draws, 0.95).p_value == pytest.approx(1.0)


def test_draws_depend_on_the_seed_alone(rng) -> None:
    """The same seed gives the same bits, another seed others."""
    given = events(rng, 100)
    first, again, other = (draw_null(given, 5, 20, (seed,)).errors["width l1"].tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_certainty_leaves_nothing_to_chance() -> None:
    """Confidences of one are always right when drawn: the error by chance is exactly zero."""
    draws = draw_null(Events(np.ones(30), np.ones(30)), 15, 50, (0,))
    assert draws.errors["width l1"].max() == 0
    assert draws.errors["mass l1"].max() == 0
    assert draws.errors["smooth"].max() == 0
