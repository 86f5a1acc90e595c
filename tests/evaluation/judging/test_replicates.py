"""The bootstrap engine: what it draws, and that it computes what the metrics do."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.evaluation.judging.measure import replicate
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.resampling.events import Events, width_bins
from calibrant.evaluation.resampling.resamples import MOST_DELETIONS, Deletions, EventErrors, Means, Resamples
from calibrant.predictions import Kind, Predictions
from evaluation_values import public_values

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


def all_counts(resamples: Resamples, size: int = 1 << 20) -> np.ndarray:
    return resamples.by_row(np.concatenate(list(resamples.blocks(size))))


def values_of(kind: Kind, predictions: Predictions, rows: np.ndarray, num_bins: int) -> dict[str, float]:
    """What the public metrics say of chosen rows, where they are defined."""
    weights = None if predictions.weights is None else predictions.weights[rows]
    probs, labels = predictions.probs[rows], predictions.labels[rows]
    values = public_values(kind, probs, labels, weights=weights, num_bins=num_bins)
    return {name: value for name, value in values.items() if value is not None}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", [1 << 16, 16])
def test_a_replicate_is_the_metric_of_the_resampled_rows(
    made, rng, kind, ties, weighted, units, monkeypatch
) -> None:
    """Every replicate equals the public metric on the rows drawn, with ties and weights, and in batches."""
    monkeypatch.setattr("calibrant.evaluation.resampling.resamples.MOST_UNITS", units)
    weights = rng.choice([0.0, 0.5, 1.0, 1 / 3, 2.7], size=70) if weighted else None
    predictions = made(kind, 70, 5, ties=ties, sharpness=2, weights=weights)
    resamples = Resamples(70, 12, (3,))
    found = replicate(reduce_predictions(predictions, 7), 7, resamples)
    for place, counts in enumerate(all_counts(resamples)):
        expected = values_of(kind, predictions, np.repeat(np.arange(70), counts), 7)
        assert {name: found[name][place] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_that_comparison_bites(made) -> None:
    predictions = made("multiclass", 70, 5)
    resamples = Resamples(70, 2, (3,))
    found = replicate(reduce_predictions(predictions, 7), 7, resamples)
    other = np.repeat(np.arange(70), all_counts(resamples)[1])
    expected = values_of("multiclass", predictions, other, 7)
    alike = {name for name, value in expected.items() if abs(found[name][0] - value) <= 1e-6}
    assert not alike & {"accuracy", "nll", "brier", "ece", "adaptive_ece", "l2_ece", "smce", "classwise_ece"}


@pytest.mark.parametrize("num_bins", [1, 3, 15])
def test_fewer_samples_than_bins(num_bins) -> None:
    probs, labels = torch.tensor([0.3, 0.9], dtype=torch.float64), torch.tensor([1, 0])
    errors = EventErrors(Events(probs.numpy(), np.array([1.0, 0.0])), num_bins)(np.ones((1, 2), np.uint8))
    options = {"num_bins": num_bins}
    expected = metrics.expected_calibration_error(probs, labels, **options).item()
    adaptive = metrics.adaptive_calibration_error(probs, labels, **options).item()
    assert errors["width l1"][0] == pytest.approx(expected, abs=1e-15)
    assert errors["mass l1"][0] == pytest.approx(adaptive, abs=1e-15)


@given(data=st.data(), num_samples=st.integers(1, 25), num_bins=st.integers(1, 8), weighted=st.booleans())
def test_the_order_of_rows_is_immaterial(data, num_samples, num_bins, weighted) -> None:
    """Rows, their weights and their counts shuffled together give the same errors, whatever the ties."""

    def column(values: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(data.draw(st.lists(values, min_size=num_samples, max_size=num_samples)), dtype=float)

    confidences = column(st.sampled_from([0.0, 0.2, 0.5, 2 / 3, 0.9, 1.0]))
    outcomes, counts = column(st.sampled_from([0, 1])), column(st.integers(0, 3)).astype(np.uint8)[None]
    weights = column(st.sampled_from([0.0, 0.5, 1.0, 1 / 3, 7.0])) if weighted else None
    order = np.array(data.draw(st.permutations(range(num_samples))))
    drawn = int(counts.sum())
    if weights is None and drawn != num_samples:  # without weights a resample has as many rows as the sample
        counts = np.ones((1, num_samples), np.uint8)
    shuffled_weights = None if weights is None else weights[order]
    here = EventErrors(Events(confidences, outcomes, weights), num_bins)(counts)
    there = EventErrors(Events(confidences[order], outcomes[order], shuffled_weights), num_bins)(
        np.ascontiguousarray(counts[:, order])
    )
    for name, error in here.items():
        assert there[name] == pytest.approx(error, abs=1e-12, nan_ok=True), name


def test_resamples_are_the_same_in_any_blocks_and_at_every_walk() -> None:
    """The draws do not depend on how they are cut into blocks; another seed draws otherwise."""
    resamples = Resamples(50, 40, (1, 2))
    whole = all_counts(resamples)
    assert (whole.sum(axis=1) == 50).all()
    assert np.array_equal(whole, all_counts(resamples, size=50 * 7))
    assert not np.array_equal(whole, all_counts(Resamples(50, 40, (1, 3))))
    # Over 4000 resamples of 20 rows each mean count is one; |z| < 4, the last row included.
    rng = np.random.default_rng((1, 2))
    by_numpy = [np.bincount(rng.integers(0, 50, size=50), minlength=50) for _ in range(40)]
    assert np.array_equal(whole, by_numpy)
    means = all_counts(Resamples(20, 4000, (0,))).mean(axis=0)
    assert np.abs(means - 1).max() < 4 * np.sqrt(19 / 20 / 4000)


def test_batches_of_rows_have_the_same_size_and_keep_the_variance_of_a_mean(rng, monkeypatch) -> None:
    """The resampled mean of rows in random batches varies as that of single rows does; |z| < 4."""
    monkeypatch.setattr("calibrant.evaluation.resampling.resamples.MOST_UNITS", 1000)
    resamples = Resamples(5000, 1000, (0,))
    assert (np.bincount(resamples.units) == 5).all()
    values = np.sort(rng.exponential(size=5000))  # the order of rows does not matter
    ratios = {"mean": (values, np.ones(5000))}
    means = Means(ratios, resamples.units)(next(resamples.blocks()))["mean"]
    assert abs(means.std() / (values.std() / np.sqrt(5000)) - 1) < 4 * np.sqrt(1 / 2000 + 1 / 2000)


@pytest.mark.parametrize("num_samples", [1, 7, MOST_DELETIONS + 55])
def test_deletions_leave_out_every_row_once(num_samples) -> None:
    """Each row is missing from exactly one of the deletions, whatever the blocks; groups are even."""
    deletions = Deletions(num_samples, (1, 2))
    counts = np.concatenate(list(deletions.blocks(5 * num_samples)))
    assert counts.shape == (min(num_samples, MOST_DELETIONS), num_samples)
    assert ((1 - counts).sum(axis=0) == 1).all()
    assert set((1 - counts).sum(axis=1)) <= {num_samples // len(counts), num_samples // len(counts) + 1}


@pytest.mark.parametrize("kind", KINDS)
def test_a_deletion_is_the_metric_of_the_rows_left(made, kind) -> None:
    """What BCa intervals learn from equals the public metrics on the rows that are not left out."""
    predictions = made(kind, 30, 3, ties=True, sharpness=2)
    deletions = Deletions(30, (0,))
    found = replicate(reduce_predictions(predictions, 6), 6, deletions)
    for place, counts in enumerate(np.concatenate(list(deletions.blocks()))[:8]):
        expected = values_of(kind, predictions, np.flatnonzero(counts), 6)
        expected = {name: value for name, value in expected.items() if name in found}
        assert {name: found[name][place] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_the_spread_of_a_resampled_mean_is_its_standard_error(made) -> None:
    """The standard deviation of the resampled accuracy is that of a binomial share; |z| < 4."""
    predictions = made("multiclass", 500)
    reduced = reduce_predictions(predictions, 5)
    accuracy = replicate(reduced, 5, Resamples(500, 4000, (0,)))["accuracy"]
    share = reduced.values["accuracy"]
    expected = np.sqrt(share * (1 - share) / 500)
    assert abs(accuracy.std() / expected - 1) < 4 / np.sqrt(2 * 4000)
    assert abs(accuracy.mean() - share) < 4 * expected / np.sqrt(4000)


def test_a_resample_without_weight_is_undefined(made) -> None:
    """Where all rows drawn have weight zero, every metric of the resample is NaN, silently."""
    weights = np.zeros(8)
    weights[0] = 1.0
    found = replicate(
        reduce_predictions(made("multiclass", 8, weights=weights), 5), 5, Resamples(8, 60, (0,))
    )
    drawn = all_counts(Resamples(8, 60, (0,)))[:, 0] > 0
    assert 0 < drawn.sum() < 60
    for name in ("accuracy", "ece", "adaptive_ece", "l2_ece", "classwise_ece"):
        assert np.array_equal(~np.isnan(found[name]), drawn), name
    # The only sample left out leaves errors undefined, with weight or without.
    for weights in (None, np.ones(1)):
        errors = EventErrors(Events(np.array([0.7]), np.ones(1), weights), 15)(np.zeros((1, 1), np.uint8))
        for name in ("width l1", "mass l1", "width l2", "smooth"):
            assert np.isnan(errors[name]).all(), name


def test_bins_that_were_not_drawn_have_no_error(rng) -> None:
    """Around a bin of one sample, wherever it stands, rounding of weights makes no largest error."""
    for below in range(28, 36):
        probs = np.concatenate(
            [rng.uniform(0.41, 0.45, below), [0.7], rng.uniform(0.81, 0.85, 47)]
        )  # in bins 7, 11 and 13 of 15
        probs.sort()
        event = Events(probs, (rng.random(len(probs)) < probs).astype(np.float64), rng.random(len(probs)))
        counts = all_counts(Resamples(len(probs), 200, (below,)))
        mass = counts * event.weights
        bins = width_bins(probs, 15)
        held = np.stack([mass[:, bins == each].sum(axis=1) for each in (6, 10, 12)])
        gaps = mass * (event.outcomes - probs)
        sums = np.stack([np.abs(gaps[:, bins == each].sum(axis=1)) for each in (6, 10, 12)])
        expected = np.divide(sums, held, out=np.zeros_like(sums), where=held > 0).max(axis=0)
        assert EventErrors(event, 15)(counts)["width max"] == pytest.approx(expected, abs=1e-10)
