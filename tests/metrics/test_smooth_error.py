"""The smooth calibration error and the post-processing gap as the caller sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant.metrics import (
    expected_calibration_error,
    post_processing_gap,
    smooth_calibration_error,
    smooth_calibration_witness,
)

MEASURES = [smooth_calibration_error, post_processing_gap]


def table(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (80, 4) of an over-confident model and its labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(80, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return torch.softmax(2 * logits, 1), labels


@pytest.mark.parametrize("measure", MEASURES)
def test_top_label_is_the_event_of_being_right(measure: Any) -> None:
    """(N, C) with (N,) is the binary measure of the top probability and of whether the top label is right."""
    probs, labels = table()
    confidence, prediction = probs.max(dim=1)
    value = measure(probs, labels)
    assert value.dtype == torch.float64
    assert value.shape == ()
    assert value == measure(confidence, prediction == labels)


@pytest.mark.parametrize("measure", MEASURES)
def test_classwise_is_one_event_per_class(measure: Any) -> None:
    """Each class against all others, also one that no label names; the mean is over all of them."""
    probs, labels = table()
    labels = labels.clamp(max=2)  # class 3 never happens
    each = measure(probs, labels, classwise=True, average="none")
    assert each.tolist() == [measure(probs[:, k], labels == k).item() for k in range(4)]
    assert measure(probs, labels, classwise=True).item() == pytest.approx(each.mean().item(), abs=1e-15)


@pytest.mark.parametrize("measure", MEASURES)
def test_several_labels_are_one_event_per_column(measure: Any) -> None:
    """(N, C) with (N, C): one value per column, or their mean."""
    probs, labels = table()
    some, outcomes = probs[:, :3], torch.nn.functional.one_hot(labels, 4)[:, :3]
    each = measure(some, outcomes, average="none")
    assert each.tolist() == measure(probs, labels, classwise=True, average="none")[:3].tolist()
    assert measure(some, outcomes).item() == pytest.approx(each.mean().item(), abs=1e-15)


@pytest.mark.parametrize("measure", MEASURES)
def test_weights_replicate_and_arrays_are_taken(measure: Any) -> None:
    """Weight k is k rows; NumPy and torch, float32 and float64 (of the same numbers) agree."""
    probs, labels = table()
    probs = probs.float()
    times = torch.arange(80) % 4
    value = measure(probs, labels, weights=times)
    assert value == pytest.approx(
        measure(probs.repeat_interleave(times, 0), labels.repeat_interleave(times)).item(), abs=1e-12
    )
    assert value == measure(probs.numpy(), labels.numpy(), weights=times.numpy())
    assert value == measure(probs.double(), labels, weights=times.double())


@pytest.mark.parametrize("measure", MEASURES)
def test_refusals(measure: Any) -> None:
    """One value has no average to leave out; what is no probability is named."""
    probs, labels = table()
    with pytest.raises(ValueError, match="`average` must be"):
        measure(probs, labels, average="none")
    with pytest.raises(ValueError, match="`average` must be"):
        measure(probs, labels, classwise=True, average="micro")
    with pytest.raises(ValueError, match="row 1 holds nan"):
        measure([0.5, float("nan")], [0, 1])


def test_between_the_binned_error_and_nothing() -> None:
    """Smoothing sees no more than exact bins: with one distinct score per bin the ECE is an upper bound."""
    rng = np.random.default_rng(0)
    probs = rng.integers(0, 15, 500) / 15 + 1 / 30  # the middles of fifteen bins
    labels = rng.random(500) < np.clip(2 * probs - 0.4, 0, 1)
    smooth = smooth_calibration_error(probs, labels).item()
    assert abs((labels - probs).mean()) <= smooth
    assert smooth < expected_calibration_error(probs, labels) - 0.01
    assert smooth**2 <= post_processing_gap(probs, labels) <= 2 * smooth


def test_witness_certifies_the_value() -> None:
    """The witness attains the error as a function of the scores, is 1-Lipschitz into [-1, 1], not beaten."""
    probs, labels = table()
    weights = 1.0 + torch.arange(80) % 3
    witness = smooth_calibration_witness(probs, labels, weights=weights)
    confidence, prediction = probs.max(dim=1)
    residual = (prediction == labels).double() - confidence
    attained = (weights * residual * witness(confidence)).sum() / weights.sum()
    assert attained.item() == pytest.approx(witness.value, abs=1e-12)
    assert witness.value == smooth_calibration_error(probs, labels, weights=weights).item()
    assert witness.upper_bound == pytest.approx(witness.value, abs=1e-12)
    assert (witness.residuals @ witness.values).item() == pytest.approx(witness.value, abs=1e-12)
    grid = torch.linspace(0, 1, 1001, dtype=torch.float64)
    values = witness(grid)
    assert values.abs().max() <= 1
    assert values.diff().abs().max() <= 1e-3 + 1e-12
    assert witness(torch.zeros(2, 3)).shape == (2, 3)


def test_witness_shows_the_direction() -> None:
    """Over-confidence makes w negative, under-confidence positive."""
    assert smooth_calibration_witness([0.9, 0.9], [0, 1]).values.item() == -1
    assert smooth_calibration_witness([0.1, 0.1], [0, 1]).values.item() == 1


def test_witness_is_of_one_event() -> None:
    """Several labels per sample are refused with the remedy."""
    probs, _ = table()
    with pytest.raises(ValueError, match=r"pass one column: `probs\[:, k\], labels\[:, k\]`"):
        smooth_calibration_witness(probs, torch.ones_like(probs))


@pytest.mark.real_data
def test_real_networks(data_folder: Path) -> None:
    """On seven real networks the certificate closes, the sandwich holds, and binning sees no less."""
    files = sorted((data_folder / "toplabel_confidences").glob("*.npz"))
    assert len(files) == 7
    for file in files:
        with np.load(file, allow_pickle=False) as arrays:
            confidence, correct = arrays["confidence"], arrays["true_label"] == arrays["pred_label"]
        witness = smooth_calibration_witness(confidence, correct)
        assert witness.upper_bound - witness.value < 1e-12
        assert witness.value**2 <= post_processing_gap(confidence, correct) <= 2 * witness.value
        binned = expected_calibration_error(confidence, correct).item()
        assert abs((correct - confidence.astype(float)).mean()) - 1e-12 <= witness.value <= binned + 0.01
