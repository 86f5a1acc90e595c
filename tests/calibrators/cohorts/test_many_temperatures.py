"""Temperatures of many models at once: those found one by one, whatever is in the batch."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning
from calibrant.calibrators import FitResult, TemperatureScaling, fit_temperatures


def one_by_one(logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> list[FitResult]:
    """What ``TemperatureScaling`` finds for each model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return [
            TemperatureScaling()
            .fit(logits[m], labels[m], weights=None if weights is None else weights[m])
            .fit_result_
            for m in range(len(logits))
        ]


@pytest.fixture(params=["multiclass", "binary"])
def batch(request: pytest.FixtureRequest, calibrated: Callable[..., Any]) -> tuple[Tensor, Tensor]:
    """Five models: under- and over-confident, separable, misleading, all equal."""
    scores, labels = calibrated(request.param, 120)
    best = scores.argmax(dim=1) if request.param == "multiclass" else (scores > 0).to(torch.int64)
    logits = torch.stack([0.3 * scores, 20 * scores, scores, -scores, torch.zeros_like(scores)])
    return logits, torch.stack([labels, labels, best, best, labels])


@pytest.mark.parametrize("weighted", [False, True])
def test_each_model_gets_its_own_temperature(batch: tuple[Tensor, Tensor], weighted: bool) -> None:
    logits, labels = batch
    weights = torch.rand(labels.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    fits = fit_temperatures(logits, labels, weights=weights if weighted else None)
    alone = one_by_one(logits, labels, weights if weighted else None)
    temperatures = torch.tensor([result.parameters["temperature"] for result in alone])
    torch.testing.assert_close(fits.temperatures, temperatures.double(), rtol=1e-7, atol=0)  # gradient 1e-9
    before, after = (torch.tensor([getattr(r, name) for r in alone]).double() for name in ("before", "after"))
    torch.testing.assert_close(fits.before, before, rtol=1e-6, atol=1e-7)  # collected as float32
    torch.testing.assert_close(fits.after, after, rtol=1e-6, atol=1e-7)
    assert fits.converged.all()
    assert fits.temperatures[2:].tolist() == [1e-4, 1e4, 1.0]
    assert fits.slopes[2] > 0 > fits.slopes[3]
    assert fits.slopes[:2].abs().max() < 1e-9


def test_labels_and_weights_may_be_shared(batch: tuple[Tensor, Tensor]) -> None:
    """One row of labels or weights stands for all models; an expanded table of logits for all resamples."""
    logits, labels = batch
    counts = torch.randint(0, 3, labels.shape, generator=torch.Generator().manual_seed(0))
    shared = fit_temperatures(logits[:2], labels[0], weights=counts[0])
    given = fit_temperatures(logits[:2], labels[:2], weights=counts[:1].expand(2, -1))
    assert torch.equal(shared.temperatures, given.temperatures)
    resampled = fit_temperatures(logits[1].expand(5, *logits[1].shape), labels[0], weights=counts)
    for model in range(5):
        rows = torch.arange(labels.shape[1]).repeat_interleave(counts[model])
        alone = fit_temperatures(logits[1][None, rows], labels[0][rows])
        assert resampled.temperatures[model] == pytest.approx(alone.temperatures.item(), rel=1e-7)


def test_batches_and_blocks_change_nothing(
    batch: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large batches are fitted in parts, and many rows in blocks, with the same result."""
    whole = fit_temperatures(*batch)
    monkeypatch.setattr("calibrant.calibrators.cohorts.many_temperatures._MOST_ENTRIES", 1000)
    monkeypatch.setattr("calibrant.calibrators.cohorts.many_temperatures.CACHED_ELEMENTS", 700)
    parts = fit_temperatures(*batch)
    torch.testing.assert_close(parts.temperatures, whole.temperatures, rtol=1e-8, atol=0)
    assert torch.equal(parts.converged, whole.converged)


def test_exhausted_models_are_told(batch: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of steps, a model is not called converged, and its likelihood is that of its temperature."""
    logits, labels = batch
    monkeypatch.setattr("calibrant._math.convex_minimum.MAX_STEPS", 2)
    fits = fit_temperatures(logits, labels)
    assert fits.converged.tolist() == [False, False, False, False, True]
    if logits.ndim == 3:
        scaled = logits[1] / fits.temperatures[1]
        loss = torch.nn.functional.cross_entropy(scaled, labels[1])
        assert fits.after[1].item() == pytest.approx(loss.item(), rel=1e-12)


def test_zero_probabilities_are_floored() -> None:
    """A probability of zero counts as 1e-12, as in single fits."""
    logits = torch.tensor([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0], [0.3, 0.3, 0.4]], dtype=torch.float64).log()
    labels = torch.tensor([0, 2, 1])
    fits = fit_temperatures(logits[None], labels)
    (alone,) = one_by_one(logits[None], labels[None])
    assert fits.temperatures.item() == pytest.approx(alone.parameters["temperature"], rel=1e-7)
    assert math.isfinite(fits.before.item())
