"""Calibration slope and intercept against an independent maximiser, and their intervals."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import chi2

from calibrant.metrics import calibration_slope
from calibrant.metrics.slope import Sample, fit


def made(rng: np.random.Generator, num_samples: int, slope: float, shift: float) -> tuple:
    """Probabilities whose log-odds times a slope plus a shift are the true ones."""
    log_odds = rng.normal(size=num_samples) * 1.5
    labels = rng.random(num_samples) < 1 / (1 + np.exp(-(slope * log_odds + shift)))
    return 1 / (1 + np.exp(-log_odds)), labels.astype(int), log_odds


def negative_log_likelihood(a: float, b: float, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    """Summed, by the probability of what happened."""
    p = 1 / (1 + np.exp(-(a + b * x)))
    return -float(w @ np.log(np.where(y == 1, p, 1 - p)))


@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_against_a_general_minimiser(rng: np.random.Generator, weighted: bool) -> None:
    p, y, x = made(rng, 300, 0.6, 0.4)
    w = rng.choice([0.0, 1.0, 2.0], size=300) if weighted else np.ones(300)
    found = calibration_slope(p, y, weights=w if weighted else None)
    theirs = minimize(lambda ab: negative_log_likelihood(*ab, x, y, w), [0, 1], method="BFGS", tol=1e-10)
    assert (found.intercept.value, found.slope.value) == pytest.approx(theirs.x, abs=1e-5)  # of BFGS
    shift = minimize_scalar(lambda a: negative_log_likelihood(a, 1, x, y, w), tol=1e-12)
    assert found.in_the_large.value == pytest.approx(shift.x, abs=1e-6)
    score = np.stack([np.ones(300), x]) @ (
        w * (y - 1 / (1 + np.exp(-(found.intercept.value + found.slope.value * x))))
    )
    assert np.abs(score).max() < 1e-9  # the equations of the maximum


def test_wald_intervals_against_the_inverse_hessian(rng: np.random.Generator) -> None:
    """Half-widths are 1.96 roots of the inverse of the Hessian, here by finite differences."""
    p, y, x = made(rng, 400, 0.7, -0.3)
    found = calibration_slope(p, y)
    best, h = np.array([found.intercept.value, found.slope.value]), 1e-4
    hessian = np.empty((2, 2))
    for i, j in np.ndindex(2, 2):
        steps = [(si * h * np.eye(2)[i] + sj * h * np.eye(2)[j], si * sj) for si in (1, -1) for sj in (1, -1)]
        values = [sign * negative_log_likelihood(*(best + step), x, y, np.ones(400)) for step, sign in steps]
        hessian[i, j] = sum(values) / (4 * h * h)
    errors = np.sqrt(np.diag(np.linalg.inv(hessian)))
    for estimate, error in zip((found.intercept, found.slope), errors, strict=True):
        assert (estimate.high - estimate.low) / 2 == pytest.approx(1.959964 * error, rel=1e-4)  # differences
        assert (estimate.high + estimate.low) / 2 == pytest.approx(estimate.value, abs=1e-12)


def test_profile_intervals_end_where_the_likelihood_says(rng: np.random.Generator) -> None:
    """At both ends twice the loss of log-likelihood is the quantile, the other parameter free."""
    p, y, x = made(rng, 60, 1.4, 0.5)
    found, ones = calibration_slope(p, y, interval="profile", level=0.9), np.ones(60)
    least = negative_log_likelihood(found.intercept.value, found.slope.value, x, y, ones)
    for end in (found.slope.low, found.slope.high):
        profile = minimize_scalar(lambda a, b=end: negative_log_likelihood(a, b, x, y, ones), tol=1e-12)
        assert 2 * (profile.fun - least) == pytest.approx(chi2.ppf(0.9, 1), rel=1e-7)
    for end in (found.intercept.low, found.intercept.high):
        profile = minimize_scalar(lambda b, a=end: negative_log_likelihood(a, b, x, y, ones), tol=1e-12)
        assert 2 * (profile.fun - least) == pytest.approx(chi2.ppf(0.9, 1), rel=1e-7)
    least = negative_log_likelihood(found.in_the_large.value, 1, x, y, ones)
    for end in (found.in_the_large.low, found.in_the_large.high):
        lost = negative_log_likelihood(end, 1, x, y, ones) - least
        assert 2 * lost == pytest.approx(chi2.ppf(0.9, 1), rel=1e-7)


def test_equal_weights_scale_away_and_the_sandwich_is_near_the_information(rng: np.random.Generator) -> None:
    """Weights of 3 everywhere give the same values, and intervals within 10 % where the line is true."""
    p, y, _ = made(rng, 4000, 0.8, 0.2)
    plain, weighted = calibration_slope(p, y), calibration_slope(p, y, weights=np.full(4000, 3.0))
    assert weighted.slope.value == pytest.approx(plain.slope.value, abs=1e-10)
    assert weighted.slope.high - weighted.slope.low == pytest.approx(
        plain.slope.high - plain.slope.low, rel=0.1
    )


def test_uneven_weights_have_errors_by_hc3(rng: np.random.Generator) -> None:
    """Residuals from lines without the row, by a hat matrix; at least the variance that the line expects."""
    p, y, _ = made(rng, 40, 0.8, 0.2)
    sample = Sample.of(p, y, rng.choice([1.0, 5.0], size=40))
    line = fit(sample)
    mass = sample.shares * line.fitted * (1 - line.fitted)
    hat = (np.linalg.qr(np.sqrt(mass)[:, None] * line.columns)[0] ** 2).sum(axis=1)
    spread = line.columns @ np.linalg.inv(line.columns.T @ (mass[:, None] * line.columns))
    found = (sample.shares * (y - line.fitted) / (1 - hat)) ** 2 @ spread**2
    expected = (sample.shares * mass) @ spread**2
    covariance = line.covariance(sample.shares)
    assert np.diag(covariance) == pytest.approx(np.maximum(found, expected), rel=1e-10)


def test_where_there_is_no_estimate() -> None:
    alike = calibration_slope([0.2, 0.6], [1, 1])
    for estimate in (alike.slope, alike.intercept, alike.in_the_large):
        assert (estimate.value, estimate.reason) == (None, "undefined: all outcomes are alike")
    assert calibration_slope([0.3], [0]).slope.value is None
    flat = calibration_slope([0.2, 0.2, 0.2, 0.2], [1, 0, 0, 1])
    assert (flat.slope.value, flat.slope.reason) == (None, "undefined: all probabilities are alike")
    assert flat.in_the_large.value == pytest.approx(math.log(4), abs=1e-9)
    for labels in ([0, 0, 1, 1], [1, 1, 0, 0]):
        apart = calibration_slope([0.1, 0.4, 0.4, 0.9], labels)
        assert apart.slope.reason == "infinite: the probabilities separate the outcomes"
        assert apart.intercept.value is None
        assert apart.in_the_large.value is not None


def test_certainties_count_as_almost_certain() -> None:
    """Probabilities of 0 and 1, right and wrong, give finite estimates: a slope near zero."""
    found = calibration_slope([0.0, 0.0, 1.0, 1.0, 0.5], [0, 1, 1, 0, 1])
    assert abs(found.slope.value) < 0.1
    assert math.isfinite(found.in_the_large.value)
    one = calibration_slope([1.0, 1.0], [0, 1], interval="profile")
    assert one.in_the_large.value == pytest.approx(-math.log(1e12), abs=1e-3)
    assert one.in_the_large.low < one.in_the_large.value < one.in_the_large.high


@pytest.mark.parametrize(("spread", "num_samples"), [(1.5, 500), (0.7, 300)])
def test_intervals_of_uneven_weights_contain_the_truth(spread: float, num_samples: int) -> None:
    """Of calibrated data with weights 1 / Beta about 95 of 100 do, of those that have an interval."""
    inside, counted = 0, 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        log_odds = 2 * rng.normal(size=num_samples)
        probs = 1 / (1 + np.exp(-log_odds))
        labels = (rng.random(num_samples) < probs).astype(int)
        found = calibration_slope(probs, labels, weights=1 / rng.beta(spread, 2, size=num_samples))
        for estimate, truth in ((found.slope, 1), (found.in_the_large, 0)):
            if estimate.low is not None and estimate.high is not None:
                counted += 1
                inside += estimate.low <= truth <= estimate.high
    # The standard error of 0.95 by 100 samples or more, each counted twice, is below 0.022.
    assert counted > 60
    assert abs(inside / counted - 0.95) < 3 * 0.022


def test_intervals_contain_the_truth_where_weights_grow_with_the_score() -> None:
    """A few extreme rows decide the slope, and their outcomes seldom show how much they vary (once 0.81)."""
    inside = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        log_odds = 2 * rng.normal(size=200)
        probs = 1 / (1 + np.exp(-log_odds))
        labels = (rng.random(200) < probs).astype(int)
        slope = calibration_slope(probs, labels, weights=np.exp(np.abs(log_odds))).slope
        if slope.low is not None and slope.high is not None:
            inside.append(slope.low <= 1 <= slope.high)
    assert len(inside) > 120
    assert np.mean(inside) > 0.92


def test_one_weight_that_outweighs_all_others_leaves_no_interval() -> None:
    """One sample of 1e6 among 200: values, and why there is no interval."""
    rng = np.random.default_rng(0)
    probs = rng.uniform(0.05, 0.95, 200)
    labels = (rng.random(200) < probs).astype(int)
    found = calibration_slope(probs, labels, weights=np.r_[1e6, np.ones(199)])
    for estimate in (found.slope, found.intercept, found.in_the_large):
        assert estimate.value is not None
        assert (estimate.low, estimate.high) == (None, None)
        assert estimate.reason == "no interval: the weights leave an effective size of 1.0 of 200"
