"""On real predictions the estimators stand in the relations that theory gives them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from calibrant import metrics

pytestmark = pytest.mark.real_data

CLASSES = [
    ("logits_netcal_cifar/lenet-5-cifar-10.npz", ""),
    ("logits_netcal_cifar/wideresnet-16-4-cifar-100.npz", ""),
    ("logits_valtest_noisycal/ham10000.npz", "_test"),
    ("logits_eurosat_rgb/eurosat_rgb.npz", ""),
]


def read(path: Path, suffix: str) -> tuple[torch.Tensor, np.ndarray]:
    """Logits and labels."""
    with np.load(path, allow_pickle=False) as file:
        labels = file[f"labels{suffix}"]
        if f"logits{suffix}" in file:
            return torch.from_numpy(file[f"logits{suffix}"]).to(torch.float64), labels
        return torch.from_numpy(np.log(np.maximum(file[f"probs{suffix}"], 1e-12))).to(torch.float64), labels


@pytest.mark.parametrize(("name", "suffix"), CLASSES)
def test_errors_of_the_top_label(data_folder: Path, name: str, suffix: str) -> None:
    """Debiased not above plain, halves that add up, a sweep near the bins, top-1 the top label."""
    logits, labels = read(data_folder / name, suffix)
    probs = logits.softmax(dim=1)
    for norm in ("l1", "l2"):
        for binning in ("width", "mass"):
            plain = metrics.expected_calibration_error(probs, labels, norm=norm, binning=binning)
            debiased = metrics.expected_calibration_error(
                probs, labels, norm=norm, binning=binning, debias=True
            )
            assert 0 < debiased <= plain
    ece = metrics.expected_calibration_error(probs, labels).item()
    halves = metrics.over_confidence_error(probs, labels), metrics.under_confidence_error(probs, labels)
    assert float(sum(halves)) == pytest.approx(ece, abs=1e-12)
    assert metrics.sweep_calibration_error(probs, labels).item() == pytest.approx(ece, abs=0.005)
    assert 2 < metrics.monotone_num_bins(probs, labels) < 500
    assert metrics.top_k_calibration_error(probs, labels, k=1).item() == pytest.approx(ece, abs=1e-12)
    top_three = metrics.top_k_calibration_error(probs, labels, k=3).item()
    assert 0 < top_three < ece
    negligible = metrics.thresholded_calibration_error(probs, labels).item()
    assert negligible > metrics.classwise_calibration_error(probs, labels, binning="mass").item()


@pytest.mark.parametrize(("name", "suffix"), CLASSES)
def test_parts_of_the_scores(data_folder: Path, name: str, suffix: str) -> None:
    """Miscalibration exceeds the squared binned error, and the best temperature takes some of it off."""
    logits, labels = read(data_folder / name, suffix)
    probs = logits.softmax(dim=1)

    def likelihood(log_temperature: float) -> float:
        table = (logits / np.exp(log_temperature)).softmax(dim=1)
        return metrics.negative_log_likelihood(table, labels).item()

    found = minimize_scalar(likelihood, bounds=(-2, 2), method="bounded")
    recalibrated = (logits / np.exp(found.x)).softmax(dim=1)
    for score in ("brier", "nll"):
        parts = metrics.score_decomposition(probs, labels, score=score)
        total = parts.miscalibration - parts.discrimination + parts.uncertainty
        assert total.item() == pytest.approx(parts.score.item(), abs=1e-14)
        after = metrics.score_decomposition(recalibrated, labels, score=score)
        if "eurosat" not in name:  # well calibrated as it is
            assert after.miscalibration < 0.75 * parts.miscalibration
        refinement = metrics.refinement_decomposition(probs, recalibrated, labels, score=score)
        assert 0 < refinement.calibration < 0.3 * refinement.score
    brier = metrics.score_decomposition(probs, labels)
    assert brier.miscalibration > metrics.squared_calibration_error(probs, labels)
    curve = metrics.corp_reliability_curve(probs, labels)
    assert 5 < len(curve.values) < 200


def test_canonical_error(data_folder: Path) -> None:
    """For 2000 images in ten classes: above the top-label error, and above that of labels drawn as stated."""
    logits, labels = read(data_folder / CLASSES[0][0], "")
    probs, labels = logits[:2000].softmax(dim=1), labels[:2000]
    drawn = torch.multinomial(probs, 1, generator=torch.Generator().manual_seed(2))[:, 0]
    error = metrics.canonical_calibration_error(probs, labels).item()
    assert metrics.expected_calibration_error(probs, labels).item() < error < 1
    assert metrics.canonical_calibration_error(probs, drawn).item() < error
