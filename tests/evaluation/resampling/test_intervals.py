"""Intervals: closed forms, coverage, and what they must contain."""

import math

import numpy as np
import pytest

from calibrant.evaluation import compare, evaluate
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.measure import measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.resampling.events import Events, calibration_line, standard_error
from calibrant.evaluation.resampling.intervals import (
    centred_interval,
    effective_number,
    highest_share,
    normal_interval,
    resampled_interval,
    share_interval_at_end,
    too_few,
    wilson_interval,
)
from calibrant.evaluation.resampling.resamples import EventErrors, Resamples
from calibrant.predictions import Predictions

EVERYWHERE = (-math.inf, math.inf)


def test_wilson_against_published_values() -> None:
    assert wilson_interval(0.8, 10, 0.95) == pytest.approx((0.4902, 0.9433), abs=5e-5)  # four digits
    assert wilson_interval(81 / 263, 263, 0.95) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0.0, 5, 0.95)[0] == 0
    # The value plus and minus 1.96 standard errors, within the bounds.
    assert normal_interval(0.5, 0.1, 0.95, (0, 1)) == pytest.approx((0.5 - 0.1959964, 0.5 + 0.1959964))
    assert normal_interval(0.95, 0.1, 0.95, (0, 1))[1] == 1


def test_replicates_are_moved_to_the_value_before_their_percentiles() -> None:
    """The interval of replicates 0..100 around a value of 20 is 20 plus and minus 47.5."""
    low, high = centred_interval(20.0, np.arange(101.0), 0.95, EVERYWHERE) or (0, 0)
    assert (low, high) == pytest.approx((20 - 47.5, 20 + 47.5))
    assert centred_interval(0.1, np.arange(101.0) / 100, 0.95, (0, 1)) == pytest.approx((0, 0.575))
    # NaN replicates do not count, and where fewer than two are left there is no interval.
    values = np.append(np.arange(101.0), [np.nan] * 50)
    assert centred_interval(50.0, values, 0.9, EVERYWHERE) == pytest.approx((5, 95))
    assert centred_interval(1.0, np.array([np.nan, 1.0]), 0.9, EVERYWHERE) is None


def test_effective_number_of_samples() -> None:
    assert effective_number(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_number(np.array([1.0, 0.0, 0.0])) == 1
    assert effective_number(np.zeros(3)) == 0


def test_every_interval_contains_its_value(made) -> None:
    """Also where the model is calibrated, and the errors of all resamples but few lie above its own."""
    predictions = made("multiclass", 1000)
    judged = measure(
        reduce_predictions(predictions, 15),
        Procedure(kind="multiclass", num_bins=15, num_resamples=300, num_draws=1, level=0.95, seed=0),
    )
    given = {name: estimate for name, estimate in judged.metrics.items() if estimate.value is not None}
    assert len(given) >= 15
    for name, estimate in given.items():
        assert estimate.low <= estimate.value <= estimate.high, name
    assert np.quantile(judged.replicates_of("ece"), 0.2) > judged.metrics["ece"].value


def test_intervals_cover() -> None:
    """95 % intervals of accuracy and of a clear calibration error hold the truth in 91 to 98.5 % of cases.

    The error is that of one bin, 0.1 in truth; the limits are about four standard deviations of the count.
    """
    num_models, num_samples = 400, 300
    covered = {"accuracy": 0, "ece": 0}
    for model in range(num_models):
        rng = np.random.default_rng(model)
        outcomes = (rng.random(num_samples) < 0.8).astype(float)
        confidences = np.full(num_samples, 0.9)
        resamples = Resamples(num_samples, 400, (model,))
        counts = next(iter(resamples.blocks()))
        errors = EventErrors(Events(confidences, outcomes), 15)(counts)["width l1"]
        ece = abs(outcomes.mean() - 0.9)
        for name, value, replicates, truth in (
            ("accuracy", outcomes.mean(), counts @ outcomes / num_samples, 0.8),
            ("ece", ece, errors, 0.1),
        ):
            low, high = centred_interval(value, replicates, 0.95, (0, 1)) or (0, 0)
            covered[name] += low <= truth <= high
    for name, count in covered.items():
        assert 0.91 < count / num_models < 0.985, name


def test_moved_percentiles_cover_small_errors_that_plain_ones_miss() -> None:
    """A true error of 0.0214 at 2000 samples: about 88 % of intervals hold it, plain percentiles 55 %.

    The limits are four standard deviations of a share over 120 models.
    """
    truth = 0.0214  # of 2 million samples
    covered = {"moved": 0, "plain": 0}
    for model in range(120):
        rng = np.random.default_rng(model)
        true = np.abs(1.5 * rng.normal(size=2000))
        outcomes = (rng.random(2000) < 1 / (1 + np.exp(-true))).astype(float)
        errors = EventErrors(Events(1 / (1 + np.exp(-1.15 * true)), outcomes), 15)
        value = errors(np.ones((1, 2000), np.uint8))["width l1"][0]
        replicates = errors(next(iter(Resamples(2000, 200, (model,)).blocks())))["width l1"]
        low, high = centred_interval(value, replicates, 0.95, (0, 1)) or (0, 0)
        covered["moved"] += low <= truth <= high
        low, high = np.quantile(replicates, [0.025, 0.975])
        covered["plain"] += low <= truth <= high
    assert covered["moved"] / 120 > 0.88 - 4 * math.sqrt(0.88 * 0.12 / 120)
    assert covered["plain"] / 120 < 0.55 + 4 * math.sqrt(0.55 * 0.45 / 120)


def test_plain_percentiles_stay_where_they_are() -> None:
    values = np.append(np.arange(101.0), np.nan)
    assert resampled_interval("percentile", 20.0, values, None, 0.9, EVERYWHERE) == pytest.approx((5, 95))
    assert resampled_interval("percentile", 20.0, values, None, 0.9, (10, 90)) == pytest.approx((10, 90))
    for kind in ("centred", "inverted"):
        assert resampled_interval(kind, 20.0, values, None, 0.9, EVERYWHERE) == pytest.approx((-25, 65))
    assert resampled_interval("percentile", 1.0, np.array([np.nan, 1.0]), None, 0.9, EVERYWHERE) is None
    # BCa has none where all replicates lie on one side; equal ones count half to each.
    values = np.arange(1.0, 101.0)
    assert resampled_interval("bca", 0.5, values, None, 0.9, EVERYWHERE) is None
    assert resampled_interval("bca", 200.0, values, None, 0.9, EVERYWHERE) is None
    assert resampled_interval("bca", 1.0, np.array([np.nan, 1.0]), None, 0.9, EVERYWHERE) is None
    assert resampled_interval("bca", 1.0, np.ones(50), np.ones(50), 0.9, EVERYWHERE) == (1, 1)
    assert resampled_interval("bca", 50.5, values, np.full(3, np.nan), 0.9, EVERYWHERE) == pytest.approx(
        resampled_interval("percentile", 50.5, values, None, 0.9, EVERYWHERE), abs=1e-9
    )


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bca_against_scipy(rng, level) -> None:
    """With every row left out once, the interval of a skewed mean is that of scipy.stats.bootstrap."""
    from scipy.stats import bootstrap

    sample = rng.exponential(size=40)
    theirs = bootstrap(
        (sample,),
        np.mean,
        confidence_level=level,
        n_resamples=999,
        method="BCa",
        rng=np.random.default_rng(0),
    )
    deleted = (sample.sum() - sample) / 39
    ours = resampled_interval("bca", sample.mean(), theirs.bootstrap_distribution, deleted, level, EVERYWHERE)
    assert ours == pytest.approx(theirs.confidence_interval, abs=1e-12)
    plain = resampled_interval("percentile", 0, theirs.bootstrap_distribution, None, level, EVERYWHERE)
    assert ours[1] > plain[1]  # the test can fail: skewness moves the interval


def test_choosing_intervals_changes_intervals_only(made) -> None:
    """Values stay; those with influences keep their interval; a change has a BCa interval too."""
    predictions = made("binary", 300, sharpness=2, split=np.arange(300) % 2)
    options = {"bootstrap": 200, "null_draws": 10, "calibrators": ["temperature"]}
    found = {
        kind: evaluate(predictions, intervals=kind, **options) for kind in ("centred", "percentile", "bca")
    }
    first = found["centred"]
    for kind, other in found.items():
        assert other.settings.intervals == kind
        for arm, same in zip(other.arms, first.arms, strict=True):
            assert {k: v.value for k, v in arm.metrics.items()} == {
                k: v.value for k, v in same.metrics.items()
            }
            assert arm.metrics["slope"] == same.metrics["slope"]
    assert len({each.arms[0].metrics["nll"].low for each in found.values()}) == 3
    assert len({each.arms[1].change["nll"].low for each in found.values()}) == 3


def test_intervals_of_the_slope_cover() -> None:
    """95 % intervals of a slope hold the planted 0.5 in 91 to 98.5 % of 400 models: four deviations."""
    covered = 0
    for model in range(400):
        rng = np.random.default_rng(model)
        log_odds = 2 * rng.normal(size=400)
        outcomes = (rng.random(400) < 1 / (1 + np.exp(-0.5 * log_odds))).astype(float)
        line = calibration_line(Events(1 / (1 + np.exp(-log_odds)), outcomes), "slope")
        low, high = normal_interval(line.value, standard_error(line.influence, None), 0.95, EVERYWHERE)
        covered += low <= 0.5 <= high
    assert 0.91 < covered / 400 < 0.985


def test_shares_against_scipy() -> None:
    from scipy.stats import binomtest

    for n in (1, 3, 40):
        for hits in (0, n):
            theirs = binomtest(hits, n).proportion_ci(0.9, method="exact")
            assert share_interval_at_end(hits / n, n, 0.9) == pytest.approx(tuple(theirs), abs=1e-12)
        for hits in range(n + 1):
            high = binomtest(hits, n, alternative="less").proportion_ci(0.95, method="exact").high
            assert highest_share(hits / n, n, 0.95) == pytest.approx(high, abs=1e-12)


def test_no_interval_is_a_point_where_samples_are_few() -> None:
    """Of one sure sample, or where all are right, the interval of the share says how few they are."""
    probs = np.array([[0.995, 0.005], [0.7, 0.3], [0.6, 0.4], [0.8, 0.2]])
    weights = np.array([1.0, 1.0, 2.0, 0.0])
    for mass, number in ((None, 4), (weights, 16 / 6)):
        predictions = Predictions(probs=probs, labels=[0, 0, 0, 0], weights=mass)
        options = {"bootstrap": 100, "null_draws": 20, "calibrators": []}
        for kind in ("centred", "percentile", "bca"):
            metrics = evaluate(predictions, intervals=kind, **options).arms[0].metrics
            assert (metrics["accuracy"].low, metrics["accuracy"].high) == pytest.approx(
                (0.025 ** (1 / number), 1)
            )
            sure = metrics["high_confidence_accuracy"]
            assert (sure.value, sure.low, sure.high) == pytest.approx((1, 0.025, 1))
    wrong = Predictions(probs=probs, labels=[0, 1, 0, 0])
    metrics = evaluate(wrong, bootstrap=100, null_draws=20, calibrators=[]).arms[0].metrics
    assert metrics["accuracy"].low < 0.5  # of resamples that differ, as ever
    alone = metrics["entropy_incorrect"]
    assert (alone.low, alone.high, alone.reason) == (None, None, "no interval: it is that of one sample")
    assert metrics["entropy_correct"].low < metrics["entropy_correct"].high


@pytest.mark.parametrize(("num_samples", "known"), [(5, False), (6, True)])
def test_so_few_samples_change_nothing_beyond_noise(num_samples, known) -> None:
    """Where all samples go one way, their signs alone do so with the probability 2 ** (1 - n)."""
    assert too_few(num_samples, 0.95) is not known
    assert not too_few(5, 0.9)
    log_odds = np.linspace(1, 2, num_samples)
    models = [("a", Predictions(logits=log_odds, labels=np.ones(num_samples)))]
    models.append(("b", Predictions(logits=2 * log_odds, labels=np.ones(num_samples))))
    found = compare(models, bootstrap=100, null_draws=20)
    change = found.models[1].difference["nll"]
    assert change.value < -0.1
    assert (change.low is not None) is known
    assert (change.reason == "no interval: too few samples") is not known
    assert ("noise could explain" in found.verdict.partition("log loss")[2]) is not known
