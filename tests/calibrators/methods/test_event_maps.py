"""Maps of single events (isotonic, binnings, beta, quadratic) and mixtures: closed forms and references."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import betaln
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from calibrant import CalibrantWarning, InputError
from calibrant.calibrators import (
    BayesianBinning,
    BetaCalibration,
    Calibrator,
    EnsembleTemperatureScaling,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    QuadraticScaling,
    ScalingBinning,
    SmoothedTemperatureScaling,
    TemperatureScaling,
    build,
)

STEPS = ["isotonic", 'isotonic(ties="kept")', "histogram", "scaling-binning", "bayesian-binning"]


def quietly(calibrator: Calibrator, *data: Any, **options: Any) -> Any:
    """Fit, whatever there is to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return calibrator.fit(*data, **options)


@pytest.fixture
def event(calibrated: Callable[..., Any]) -> tuple[Tensor, Tensor]:
    """Log-odds with ties, over-confident, and what happened."""
    scores, labels = calibrated("binary", 400)
    return (1.7 * scores + 0.5).round(decimals=1), labels


def test_isotonic_agrees_with_scikit_learn(event: tuple[Tensor, Tensor]) -> None:
    scores, labels = event
    weights = torch.rand(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    calibrator = IsotonicCalibration(ties="kept").fit(scores, labels, weights=weights)
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores.numpy(), labels.numpy(), weights.numpy())
    points = torch.linspace(-12, 12, 333, dtype=torch.float64)
    np.testing.assert_allclose(
        calibrator.predict_proba(points).numpy(), reference.predict(points.numpy()), atol=1e-10
    )


def test_broken_ties_keep_the_ranking(event: tuple[Tensor, Tensor]) -> None:
    """With ties broken a higher score always has a higher probability; kept, some are equal."""
    scores, labels = event
    points = scores.unique()
    assert (IsotonicCalibration().fit(scores, labels).predict_proba(points).diff() > 0).all()
    assert (IsotonicCalibration(ties="kept").fit(scores, labels).predict_proba(points).diff() == 0).any()


def test_one_function_for_all_classes_keeps_their_order(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("multiclass", 500)
    scores = 2 * scores + torch.tensor([0.0, 1.0, 2.0, -1.0])
    shared = IsotonicCalibration(functions="shared").fit(scores, labels).predict_proba(scores)
    assert torch.equal(shared.argsort(dim=1), scores.argsort(dim=1))
    own = IsotonicCalibration().fit(scores, labels).predict_proba(scores)
    assert not torch.equal(own.argmax(dim=1), scores.argmax(dim=1))


@pytest.mark.parametrize("text", STEPS)
def test_weights_count_copies_to_the_last_digit(event: tuple[Tensor, Tensor], text: str) -> None:
    scores, labels = event
    counts = torch.randint(0, 4, (400,), generator=torch.Generator().manual_seed(2))
    weighted = quietly(build(text), scores, labels, weights=counts)
    copied = quietly(build(text), scores.repeat_interleave(counts), labels.repeat_interleave(counts))
    torch.testing.assert_close(
        weighted.predict_proba(scores), copied.predict_proba(scores), rtol=0, atol=1e-7
    )


def test_histogram_holds_shares_of_events() -> None:
    """Each bin of equal mass says the share of events in it, shrunk by one sample at most."""
    scores = torch.linspace(-3, 3, 600, dtype=torch.float64)
    labels = (torch.arange(600) % 7 < torch.arange(600) // 100).long()
    raw = quietly(HistogramBinning(num_bins=6, prior=0.0), scores, labels)
    shares = labels.double().reshape(6, 100).mean(dim=1).repeat_interleave(100)
    torch.testing.assert_close(raw.predict_proba(scores).clamp(1e-9), shares.clamp(1e-9))
    shrunk = quietly(HistogramBinning(num_bins=6), scores, labels).predict_proba(scores)
    means = scores.sigmoid().reshape(6, 100).mean(dim=1).repeat_interleave(100)
    torch.testing.assert_close(shrunk, (100 * shares + means) / 101)


def test_equal_widths_are_closed_on_the_right() -> None:
    """0.5 belongs to the lower of two bins."""
    probs = torch.tensor([0.2, 0.5, 0.7, 0.9], dtype=torch.float64)
    calibrator = HistogramBinning(num_bins=2, binning="width", prior=0.0)
    fitted = quietly(calibrator, probs.logit().repeat(10), torch.tensor([0, 1, 1, 0] * 8 + [0, 1, 1, 1] * 2))
    assert fitted.predict_proba(torch.tensor([0.0])).item() == pytest.approx(0.5)
    assert fitted.predict_proba(torch.tensor([0.01])).item() == pytest.approx(0.6)


def test_scaling_binning_has_as_many_values_as_bins(event: tuple[Tensor, Tensor]) -> None:
    scores, labels = event
    calibrator = ScalingBinning(num_bins=8).fit(scores, labels)
    probs = calibrator.predict_proba(scores)
    assert len(probs.unique()) == 8
    platt = build("platt").fit(scores, labels).predict_proba(scores)
    for value in probs.unique():
        assert platt[probs == value].mean().item() == pytest.approx(value.item(), rel=1e-9)


def test_bayesian_binning_is_the_posterior_mean(event: tuple[Tensor, Tensor]) -> None:
    """Written out with scipy's beta function, on samples without ties, the average is the same."""
    scores = event[0] + torch.linspace(0, 0.01, 400, dtype=torch.float64)
    labels = event[1]
    order = scores.argsort()
    points, outcomes = scores[order].numpy(), labels[order].double().numpy()
    logs, curves = [], []
    for num_bins in range(max(1, math.floor(400 ** (1 / 3) / 10)), math.ceil(400 ** (1 / 3) * 10) + 1):
        bins = np.floor((np.arange(400) + 0.5) * num_bins / 400).astype(int)
        last = np.flatnonzero(np.diff(bins))
        edges = 1 / (1 + np.exp(-(points[last] + points[last + 1]) / 2))
        edges = np.concatenate([[0.0], edges, [1.0]])
        prior = 2 / num_bins * (edges[1:] + edges[:-1]) / 2
        other = 2 / num_bins - prior
        hits, counts = np.bincount(bins, outcomes), np.bincount(bins)
        logs.append(float((betaln(hits + prior, counts - hits + other) - betaln(prior, other)).sum()))
        curves.append(((hits + prior) / (counts + 2 / num_bins))[bins])
    share = np.exp(np.array(logs) - max(logs))
    expected = share @ np.array(curves) / share.sum()
    probs = BayesianBinning().fit(scores, labels).predict_proba(scores[order]).numpy()
    np.testing.assert_allclose(probs, expected, atol=2e-4)  # binnings of weight below 1e-4 are left out


def test_useless_bins_change_nothing_and_say_so() -> None:
    scores = torch.tensor([3.0, -3.0] * 100)
    labels = torch.tensor([1, 0] * 95 + [0, 1] * 5)
    with pytest.warns(CalibrantWarning, match="so nothing was changed"):
        calibrator = HistogramBinning(num_bins=1).fit(scores, labels)
    torch.testing.assert_close(calibrator.predict_proba(scores), scores.double().sigmoid())
    assert calibrator.fit_result_.after == calibrator.fit_result_.before


@pytest.mark.parametrize("text", STEPS)
def test_few_samples_are_said(text: str) -> None:
    with pytest.warns(CalibrantWarning, match="has only 5 samples"):
        build(text).fit(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]), torch.tensor([0, 1, 0, 1, 1]))


@pytest.mark.parametrize("kind", [BetaCalibration, QuadraticScaling])
def test_no_other_parameters_are_likelier(event: tuple[Tensor, Tensor], kind: Any) -> None:
    scores, labels = event
    weights = torch.rand(400, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    calibrator = kind().fit(scores, labels, weights=weights)
    s, y, w = scores.numpy(), labels.numpy(), (weights / weights.sum()).numpy()
    if kind is BetaCalibration:
        features = np.stack([-np.logaddexp(0, -s), np.logaddexp(0, s), np.ones(400)])
        bounds = [(0, None), (0, None), (None, None)]
    else:
        features, bounds = np.stack([s**2, s, np.ones(400)]), [(None, None)] * 3

    def loss(point: Any) -> tuple[float, Any]:
        logits = point @ features
        return float(w @ (np.logaddexp(0, logits) - y * logits)), features @ (
            w * (1 / (1 + np.exp(-logits)) - y)
        )

    found = minimize(
        loss, [1.0, 1.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds, options={"gtol": 1e-10, "ftol": 0}
    )
    assert calibrator.fit_result_.after <= found.fun + 1e-12
    expected = 1 / (1 + np.exp(-found.x @ features))
    np.testing.assert_allclose(calibrator.predict_proba(scores).numpy(), expected, atol=1e-5)


def test_falling_parabola_is_said(calibrated: Callable[..., Any]) -> None:
    scores, _ = calibrated("binary", 500)
    with pytest.warns(CalibrantWarning, match="the parabola falls for some samples"):
        QuadraticScaling().fit(scores, (scores.abs() + 0.3 * torch.sin(7 * scores) > 2).long())


@pytest.mark.parametrize("kind", [BetaCalibration, PlattScaling, QuadraticScaling])
def test_multiclass_is_refused_with_the_remedy(calibrated: Callable[..., Any], kind: Any) -> None:
    with pytest.raises(InputError, match=r"pass `logits\[:, 1\] - logits\[:, 0\]`"):
        kind().fit(*calibrated("multiclass", 20))


@pytest.mark.parametrize(
    ("kind", "message"), [(BetaCalibration, "a threshold separates"), (QuadraticScaling, "has no maximum")]
)
def test_separable_events_are_said(kind: Any, message: str) -> None:
    scores = torch.linspace(-1, 1, 40)
    with pytest.warns(CalibrantWarning, match=message):
        fit = kind().fit(scores, (scores > 0.1).long()).fit_result_
    assert fit.converged
    assert fit.after < fit.before


def test_smoothing_is_worth_one_sample(calibrated: Callable[..., Any]) -> None:
    """The mixture is (N p + 1/C) / (N + 1) of temperature scaling, and rises by at most log(1 + 1/N)."""
    for kind, num_classes in (("multiclass", 4), ("binary", 2), ("multilabel", 2)):
        scores, labels = calibrated(kind, 150)
        plain = TemperatureScaling().fit(scores, labels)
        smoothed = SmoothedTemperatureScaling().fit(scores, labels)
        expected = (150 * plain.predict_proba(scores) + 1 / num_classes) / 151
        torch.testing.assert_close(smoothed.predict_proba(scores), expected, rtol=1e-12, atol=1e-15)
        rise = smoothed.fit_result_.after - plain.fit_result_.after
        assert rise <= math.log1p(1 / 150)


def test_smoothing_is_never_certain() -> None:
    """Even where every calibration sample is right, a later error costs no more than log(C (N + 1))."""
    scores = torch.eye(3).repeat(20, 1) * 50
    calibrator = quietly(SmoothedTemperatureScaling(), scores, torch.arange(60) % 3)
    log_probs = calibrator(torch.tensor([[900.0, 0.0, 0.0]], dtype=torch.float64))
    assert log_probs[0, 1].item() == pytest.approx(-math.log(3 * 61))


def test_ensemble_shares_are_optimal(calibrated: Callable[..., Any]) -> None:
    """No other shares on a grid of the simplex are likelier, and temperature scaling is among them."""
    scores, labels = calibrated("multiclass", 300)
    wrong = torch.arange(300) % 10 == 0
    labels = torch.where(wrong, (labels + 1) % 4, labels)
    fit = EnsembleTemperatureScaling().fit(3 * scores, labels).fit_result_
    assert fit.converged
    assert sum(fit.parameters[name] for name in ("tempered", "plain", "uniform")) == pytest.approx(1)  # type: ignore[misc]
    log_probs = torch.log_softmax(3 * scores / fit.parameters["temperature"], dim=1)
    tempered, plain = log_probs.exp(), torch.softmax(3 * scores, dim=1)
    for first in np.linspace(0, 1, 21):
        for second in np.linspace(0, 1 - first, 11):
            probs = first * tempered + second * plain + (1 - first - second) / 4
            assert fit.after <= float(torch.nn.functional.nll_loss(probs.log(), labels)) + 1e-12
    assert fit.after < fit.compared["temperature"]
