"""Class frequencies of unlabelled data, and probabilities for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from calibrant import InputError, metrics
from calibrant.calibrators import (
    BiasCorrectedTemperatureScaling,
    PlattScaling,
    TemperatureScaling,
    adjust_to_prior,
    estimate_prior,
)
from calibrant.calibrators.drift import source_prior_of

MEANS = torch.tensor([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]], dtype=torch.float64)


def normals(prior: list[float], num_samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Labels drawn from a prior, and features that are normal around each class's mean."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor(prior), num_samples, replacement=True, generator=generator)
    noise = torch.randn(num_samples, 2, generator=generator, dtype=torch.float64)
    return MEANS[labels] + noise, labels


def posterior(features: Tensor, prior: Any) -> Tensor:
    squares = (features[:, None] - MEANS).square().sum(dim=2)
    return (torch.as_tensor(prior, dtype=torch.float64).log() - squares / 2).softmax(dim=1)


def test_estimate_is_the_maximum_of_the_likelihood() -> None:
    features, _ = normals([0.7, 0.2, 0.1], 400, 0)
    source = np.array([0.2, 0.3, 0.5])
    probs, weights = posterior(features, source).numpy(), np.arange(400) % 3 + 0.5

    def loss(free: Any) -> float:
        prior = np.exp([*free, 0.0]) / np.exp([*free, 0.0]).sum()
        return -weights @ np.log(probs @ (prior / source)) / weights.sum()

    best = minimize(loss, np.zeros(2), tol=1e-12, method="BFGS").x
    expected = np.exp([*best, 0.0]) / np.exp([*best, 0.0]).sum()
    found = estimate_prior(probs, source_prior=source, weights=weights)
    assert found.converged
    np.testing.assert_allclose(found.prior, expected, atol=1e-4)  # the likelihood is flat to 1e-6 nats there
    assert loss(np.log(found.prior[:2]) - np.log(found.prior[2])) <= loss(best) + 1e-6 / weights.sum()


def test_weights_have_no_unit() -> None:
    probs = posterior(normals([0.7, 0.2, 0.1], 400, 0)[0], [1 / 3] * 3)
    weights = np.random.default_rng(0).gamma(2, 1, 400)
    found = estimate_prior(probs, source_prior=[1 / 3] * 3, weights=weights)
    for unit in (1e-3, 1e3):
        other = estimate_prior(probs, source_prior=[1 / 3] * 3, weights=unit * weights)
        assert other.standard_errors == pytest.approx(found.standard_errors, rel=1e-9)
        assert (other.steps, other.converged) == (found.steps, True)
    constant = estimate_prior(probs, source_prior=[1 / 3] * 3, weights=np.full(400, 7.0))
    plain = estimate_prior(probs, source_prior=[1 / 3] * 3)
    assert constant.standard_errors == pytest.approx(plain.standard_errors, rel=1e-9)


def test_standard_errors_cover_with_uneven_weights() -> None:
    """As often as without weights; an error that ignored how uneven they are would cover 70 of 100."""
    rng, covered = np.random.default_rng(1), 0
    for _ in range(200):
        happens = rng.random(300) < 0.2
        score = rng.normal(size=300) + 2 * happens
        weights = rng.lognormal(sigma=1.2, size=300)
        found = estimate_prior(1 / (1 + np.exp(2 - 2 * score)), source_prior=0.5, weights=weights)
        covered += abs(found.prior[1] - 0.2) <= 1.96 * found.standard_errors[1]
    assert 176 <= covered <= 200


def test_adjustment_is_bayes_rule() -> None:
    features, _ = normals([0.2, 0.3, 0.5], 100, 0)
    source, new = [0.2, 0.3, 0.5], [0.6, 0.4, 0.0]
    adjusted = adjust_to_prior(posterior(features, source), prior=new, source_prior=source)
    torch.testing.assert_close(adjusted, posterior(features, new), rtol=1e-12, atol=1e-12)
    back = adjust_to_prior(
        adjust_to_prior([0.2, 0.7], prior=0.3, source_prior=0.6), prior=0.6, source_prior=0.3
    )
    torch.testing.assert_close(back, torch.tensor([0.2, 0.7], dtype=torch.float64), rtol=1e-12, atol=0)


def test_no_shift_is_estimated_as_none() -> None:
    features, labels = normals([0.5, 0.3, 0.2], 1000, 3)
    calibrator = BiasCorrectedTemperatureScaling().fit(3 * features @ MEANS.T, labels)
    source = source_prior_of(calibrator)
    np.testing.assert_allclose(source, labels.bincount() / 1000, atol=1e-12)
    found = estimate_prior(calibrator.predict_proba(3 * features @ MEANS.T), source_prior=source)
    # The gradient of the likelihood is that of the shifts, zero: the estimate does not move at all.
    np.testing.assert_allclose(found.prior, source, atol=1e-6)


def test_class_biases_make_the_difference() -> None:
    """Of logits with a class offset the frequencies are found with shifts, not by a temperature alone."""
    source, truth = [0.4, 0.3, 0.3], [0.8, 0.1, 0.1]
    offset = torch.tensor([0.0, 2.0, 0.0])
    features, labels = normals(source, 5000, 0)
    new, new_labels = normals(truth, 5000, 1)
    misses = {}
    for calibrator in (BiasCorrectedTemperatureScaling(), TemperatureScaling()):
        calibrator.fit(2 * (posterior(features, source).log() + offset), labels)
        probs = calibrator.predict_proba(2 * (posterior(new, source).log() + offset))
        found = estimate_prior(probs, source_prior=source_prior_of(calibrator))
        misses[calibrator.name] = np.abs(np.array(found.prior) - truth).max()
        if calibrator.name == "bias-corrected-temperature":
            adjusted = adjust_to_prior(probs, prior=found.prior, source_prior=found.source_prior)
            before, after = (metrics.negative_log_likelihood(each, new_labels) for each in (probs, adjusted))
            assert after < before - 0.05
    assert misses["bias-corrected-temperature"] < 0.03
    assert misses["temperature"] > 0.2
    assert not TemperatureScaling.mends_frequencies
    assert BiasCorrectedTemperatureScaling.mends_frequencies


def test_bcts_is_the_likeliest_temperature_with_shifts() -> None:
    """BCTS is as likely as scipy's best, and never less than temperature; hopeless data are warned of."""
    features, labels = normals([0.5, 0.3, 0.2], 400, 5)
    logits = 3 * features @ MEANS.T

    def loss(point: Any) -> float:
        table = torch.as_tensor(point[0]) * logits + torch.tensor([*point[1:], 0.0])
        return float(torch.nn.functional.cross_entropy(table, labels))

    best = minimize(loss, np.array([1.0, 0.0, 0.0]), tol=1e-12, method="BFGS").fun
    calibrator = BiasCorrectedTemperatureScaling().fit(logits, labels)
    assert calibrator.fit_result_.after == pytest.approx(best, abs=1e-10)
    assert calibrator.fit_result_.after <= calibrator.fit_result_.compared["temperature"]
    assert len(calibrator.weight.unique()) == 1
    with pytest.warns(match="the likelihood has no maximum"):
        BiasCorrectedTemperatureScaling().fit(logits, torch.zeros(400))
    with pytest.raises(InputError, match="use platt for a slope and an intercept"):
        BiasCorrectedTemperatureScaling().fit(logits[:, 0], labels > 0)


def test_multilabel_calibrators_have_no_class_prior() -> None:
    generator = torch.Generator().manual_seed(0)
    log_odds = torch.randn(300, 2, generator=generator)
    labels = torch.bernoulli(log_odds.sigmoid(), generator=generator)
    calibrator = TemperatureScaling().fit(2 * log_odds, labels)
    with pytest.raises(InputError, match="correct every column by itself"):
        source_prior_of(calibrator)


@pytest.mark.real_data
def test_chagas_prevalence_is_found_from_balanced_calibration_data(data_folder: Path) -> None:
    """Calibrated on equally many ill and well, the 2 % of 59,700 unlabelled screenings are found.

    The share is 2.04 %; 1.77 ± 0.18 % is estimated, and the correction recovers all but a thousandth of what
    knowing the share would.
    """
    data = np.load(data_folder / "probs_ecg_chagas/ecg_chagas.npz")
    log_odds = {
        split: torch.logit(torch.from_numpy(data[f"probs_{split}"]).double()) for split in ("val", "test")
    }
    labels, truth = (torch.from_numpy(data[f"labels_{split}"]).long() for split in ("val", "test"))
    generator = torch.Generator().manual_seed(0)
    ill, well = (labels == 1).nonzero()[:, 0], (labels == 0).nonzero()[:, 0]
    rows = torch.cat([ill, well[torch.randperm(len(well), generator=generator)[: len(ill)]]])
    calibrator = PlattScaling().fit(log_odds["val"][rows], labels[rows])
    probs = calibrator.predict_proba(log_odds["test"])
    found = estimate_prior(probs, source_prior=source_prior_of(calibrator))
    assert found.converged
    assert found.prior[1] == pytest.approx(0.0204, abs=0.005)
    known = adjust_to_prior(probs, prior=float(truth.double().mean()), source_prior=found.source_prior)
    adjusted = adjust_to_prior(probs, prior=found.prior, source_prior=found.source_prior)
    before, after, best = (
        float(metrics.negative_log_likelihood(each, truth)) for each in (probs, adjusted, known)
    )
    assert before > 0.45
    assert best <= after < best + 0.001
    error = metrics.expected_calibration_error
    assert error(adjusted, truth) < 0.01 < 0.25 < error(probs, truth)


def test_standard_errors_contain_the_calibrator_fit() -> None:
    """Fitted on 500 samples, the share of 60 new sets of 5000 lies within two errors in 95%, not in 58%."""
    covered, missed, stated = np.zeros(2), list[float](), list[float]()
    for seed in range(60):
        rng = np.random.default_rng(seed)

        def draw(size: int, share: float, rng: np.random.Generator = rng) -> tuple[np.ndarray, np.ndarray]:
            labels = (rng.random(size) < share).astype(int)
            return 2 * rng.normal(size=size) + 3.0 * labels, labels

        fitted = PlattScaling().fit(*draw(500, 0.5))
        probs, source = fitted.predict_proba(draw(5000, 0.15)[0]), source_prior_of(fitted)
        for place, number in enumerate((None, 500)):
            found = estimate_prior(probs, source_prior=source, num_source=number)
            covered[place] += abs(found.prior[1] - 0.15) < 2 * found.standard_errors[1]
        missed.append(found.prior[1] - 0.15)
        stated.append(found.standard_errors[1])
    assert np.median(stated) == pytest.approx(np.sqrt(np.mean(np.square(missed))), rel=0.3)
    assert covered[0] / 60 < 0.75
    assert covered[1] / 60 >= 0.88
