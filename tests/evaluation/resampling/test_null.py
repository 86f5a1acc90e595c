"""What a calibrated model shows by chance: the draws, numbers of events, and noise where few are expected."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from calibrant import metrics
from calibrant._math.lipschitz import smooth_calibration_error
from calibrant.evaluation.resampling.event_cells import BinnedEvents, ResidualSums, bin_matrix
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.inversion import SparseNoise
from calibrant.evaluation.resampling.null import DrawnCounts, draw_null, group_starts, noise_of, null_error


def events(
    rng: np.random.Generator, num_samples: int, *, ties: bool = False, weighted: bool = False
) -> Events:
    confidences = rng.beta(4, 1.5, size=num_samples)
    if ties:
        confidences = np.round(confidences, 1)
    weights = rng.choice([0.0, 0.5, 1.0, 2.3], size=num_samples) if weighted else None
    return Events(confidences, (rng.random(num_samples) < confidences).astype(float), weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
def test_the_bins_of_the_draws_are_those_of_the_metrics(rng, ties, weighted) -> None:
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
    draws = draw_null(BinnedEvents(given, 1), 4000, (0,)).errors["width l1"]
    spread = math.sqrt((given.confidences * (1 - given.confidences)).sum()) / 2000
    mean = spread * math.sqrt(2 / math.pi)
    assert abs(draws.mean() - mean) < 4 * spread * math.sqrt(1 - 2 / math.pi) / math.sqrt(4000)
    assert np.quantile(draws, 0.95) == pytest.approx(1.959964 * spread, rel=0.05)  # a quantile of 4000 draws


@pytest.mark.parametrize("weighted", [False, True])
def test_smooth_errors_of_the_draws(rng, weighted) -> None:
    """Samples of their own, drawn again from the same stream, have the smooth errors of the draws."""
    given = events(rng, 60, weighted=weighted)
    draws = draw_null(BinnedEvents(given, 5), 20, (3,))
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
    draws = draw_null(BinnedEvents(given, 5), 4000, (3,))
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
        draws = draw_null(BinnedEvents(given, 10), num_draws, (model,))
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
        draws = draw_null(BinnedEvents(boastful, 10), 199, (model,))
        errors = np.abs(bin_matrix(boastful, 10) @ (boastful.outcomes - boastful.confidences)) / 250
        small += null_error("ece", errors[:10].sum(), draws.errors["width l1"], 0.95).p_value < 0.2
    assert small > 40


def test_the_p_value_counts_the_observation_itself() -> None:
    """(1 + k) / (1 + draws): never zero, and one where every draw reaches the observation."""
    draws = np.array([0.1, 0.2, 0.3, 0.4])
    assert null_error("ece", 0.9, draws, 0.95).p_value == pytest.approx(1 / 5)
    assert null_error("ece", 0.3, draws, 0.95).p_value == pytest.approx(3 / 5)
    assert null_error("ece", 0.0, draws, 0.95).p_value == pytest.approx(1.0)
    # Confidences of one are always right when drawn: the error by chance is exactly zero.
    draws = draw_null(BinnedEvents(Events(np.ones(30), np.ones(30)), 15), 50, (0,))
    assert draws.errors["width l1"].max() == 0
    assert draws.errors["mass l1"].max() == 0
    assert draws.errors["smooth"].max() == 0


def test_draws_depend_on_the_seed_alone(rng) -> None:
    given = events(rng, 100)
    first, again, other = (
        draw_null(BinnedEvents(given, 5), 20, (seed,)).errors["width l1"].tolist() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_tables_against_every_outcome(rng) -> None:
    """The table of eight events is the sum over all 256 outcomes."""
    probs = rng.random(8)
    expected = np.zeros(9)
    for outcome in itertools.product((0, 1), repeat=8):
        expected[sum(outcome)] += math.prod(p if y else 1 - p for p, y in zip(probs, outcome, strict=True))
    table = DrawnCounts(probs, np.array([0, 8])).tables
    assert table[:8] == pytest.approx(np.cumsum(expected)[:8], abs=1e-15)
    assert table[8] > 1


def test_every_uniform_number_finds_its_place(rng) -> None:
    """The number drawn is the count of table entries that the uniform number has passed, of each group."""
    probs = rng.beta(0.3, 0.3, size=100)
    starts = np.array([0, 1, 3, 40, 100])
    drawn = DrawnCounts(probs, starts).draw(np.random.default_rng(5), 500)
    uniform = np.random.default_rng(5).random((4, 500), dtype=np.float32)
    tables = DrawnCounts(probs, starts).tables
    for group, (start, stop) in enumerate(itertools.pairwise(starts)):
        table = tables[start + group : stop + group + 1]
        assert drawn[group].tolist() == np.searchsorted(table, uniform[group], side="right").tolist()
    # No group is larger than 256, all begin where they must, and the end is told.
    first = np.zeros(1000, dtype=bool)
    first[[0, 10, 300]] = True
    assert group_starts(first).tolist() == [0, 10, 266, 300, 556, 812, 1000]
    assert group_starts(np.ones(1, dtype=bool)).tolist() == [0, 1]


def few(num_draws: int) -> tuple[ResidualSums, Matrix]:
    """Two bins that expect 0.6 and 1.2 events, one that expects one that is none, and one of many."""
    stated = np.repeat([0.03, 0.12, 0.95, 0.5], [20, 10, 20, 100])
    cells = BinnedEvents(Events(stated, np.zeros(150)), 10)
    return noise_of([cells], [draw_null(cells, num_draws, (0,), num_kept=num_draws)], "width l1")


def as_it_is(noise: Matrix) -> tuple[Vector, NDArray[np.float32], Vector]:
    """Noise that is neither shrunk nor enlarged."""
    return np.ones(noise.shape[1]), np.empty((0, 0), np.float32), np.zeros(noise.shape[1])


def test_without_gaps_the_draws_are_those_under_calibration() -> None:
    """Counts come back from their uniform numbers, in three bins of the four that hold anything."""
    cells, noise = few(50)
    sparse, gaps = SparseNoise(cells, noise, 0), np.zeros(10)
    assert sparse.counted(gaps).nonzero()[0].tolist() == [0, 1, 9]
    np.testing.assert_allclose(sparse.sums(gaps, *as_it_is(noise)), noise, atol=1e-12)


@pytest.mark.parametrize("gap", [-0.03, 0.1])
def test_gaps_draw_binomial_counts(gap) -> None:
    """Mean and variance of 20 trials with the gap, to four standard errors; at a rate of zero none."""
    cells, noise = few(4000)
    gaps = np.zeros(10)
    gaps[0] = gap
    sums = SparseNoise(cells, noise, 0).sums(gaps, *as_it_is(noise))
    counts, rate = 150 * sums[:, 0] + 0.6, 0.03 + gap
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert abs(counts.mean() - 20 * rate) <= 4 * np.sqrt(20 * rate * (1 - rate) / 4000) + 1e-9
    assert counts.var() == pytest.approx(20 * rate * (1 - rate), rel=0.1, abs=1e-9)


def test_added_up_at_once_errors_are_those_of_the_sums() -> None:
    cells, noise = few(50)
    gaps = np.full(10, 0.02)
    more, extra = np.linspace(0, 0.1, 10) * (np.arange(10) % 2), np.ones(noise.shape, np.float32)
    sparse = SparseNoise(cells, noise, 0)
    assert 0 < sparse.counted(gaps).sum() < 10
    found = sparse.errors(gaps, np.full(10, 0.7), extra, more)
    sums = sparse.sums(gaps, np.full(10, 0.7), extra, more)
    np.testing.assert_allclose(found, cells.error(sums), rtol=1e-12)
    unlike = SparseNoise(replace(cells, per_size=None), noise, 0).errors(gaps, np.full(10, 0.7), extra, more)
    np.testing.assert_allclose(found, unlike, rtol=1e-12)
