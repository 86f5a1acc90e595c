"""Every real file with full scores gives the numbers that its README prints."""

from pathlib import Path

import numpy as np
import pytest
import torch

from calibrant import metrics

pytestmark = pytest.mark.real_data

PRINTED = 0.5e-4 + 1e-9  # four digits after the point

# file, suffix of the arrays, accuracy, mean confidence, ECE, NLL
CLASSES = [
    ("logits_cifar10_vgg16_probs/cifar10_vgg16.npz", "", 0.9359, 0.9756, 0.0398, 0.2571),
    ("logits_eurosat_rgb/eurosat_rgb.npz", "", 0.9369, 0.9427, 0.0099, 0.1900),
    ("logits_netcal_cifar/lenet-5-cifar-10.npz", "", 0.5308, 0.6387, 0.1079, 1.3699),
    ("logits_netcal_cifar/wideresnet-16-4-cifar-100.npz", "", 0.7543, 0.8022, 0.0581, 0.9564),
    ("logits_valtest_noisycal/mnist-10.npz", "_val", 0.9476, 0.9033, 0.0444, 0.1860),
    ("logits_valtest_noisycal/mnist-10.npz", "_test", 0.9468, 0.9052, 0.0426, 0.1862),
    ("logits_valtest_noisycal/ham10000.npz", "_val", 0.7339, 0.6951, 0.0527, 0.8301),
    ("logits_valtest_noisycal/ham10000.npz", "_test", 0.7527, 0.7018, 0.0519, 0.7856),
    ("probs_crossval_cleanlab/20news_test.npz", "", 0.9234, 0.7223, 0.2011, 0.6512),
    ("probs_pycalib_small/kitti_1layer_NN.npz", "", 0.9617, 0.9603, 0.0059, 0.1229),
    ("probs_pycalib_small/kitti_XGBoost.npz", "", 0.9673, 0.9289, 0.0390, 0.1182),
]

# split, prevalence, mean probability, AUROC, ECE of the positive class, Brier
CHAGAS = [
    ("val", 0.018338, 0.3151, 0.8631, 0.2968, 0.1665),
    ("test", 0.020352, 0.3134, 0.8256, 0.2930, 0.1656),
]

CHEST_AUROC = (
    0.8114,
    0.8943,
    0.7970,
    0.8839,
    0.8872,
    0.9002,
    0.7857,
    0.9565,
    0.7109,
    0.8448,
    0.7678,
    0.7951,
    0.7429,
    0.8703,
)


def read(path: Path, suffix: str) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels of a file of logits or probabilities."""
    with np.load(path, allow_pickle=False) as file:
        labels = file[f"labels{suffix}"]
        if f"probs{suffix}" in file:
            return file[f"probs{suffix}"], labels
        logits = torch.from_numpy(file[f"logits{suffix}"]).to(torch.float64)
        return torch.softmax(logits, dim=1).numpy(), labels


@pytest.mark.parametrize(("name", "suffix", "accuracy", "confidence", "ece", "nll"), CLASSES)
def test_classes(
    data_folder: Path, name: str, suffix: str, accuracy: float, confidence: float, ece: float, nll: float
) -> None:
    probs, labels = read(data_folder / name, suffix)
    assert metrics.accuracy(probs, labels).item() == pytest.approx(accuracy, abs=PRINTED)
    assert metrics.expected_calibration_error(probs, labels).item() == pytest.approx(ece, abs=PRINTED)
    clipped = np.maximum(probs, 1e-12)  # as the README does; only 20 Newsgroups holds zeros that matter
    assert metrics.negative_log_likelihood(clipped, labels).item() == pytest.approx(nll, abs=PRINTED)
    exact = metrics.negative_log_likelihood(probs, labels).item()
    assert exact == (np.inf if "20news" in name else pytest.approx(nll, abs=PRINTED))
    table = metrics.reliability_table(probs, labels)
    mean = sum(
        count * value
        for count, value in zip(table.counts, table.confidence, strict=True)
        if value is not None
    ) / len(labels)
    assert mean == pytest.approx(confidence, abs=PRINTED)


@pytest.mark.parametrize(("split", "prevalence", "mean", "area", "ece", "brier"), CHAGAS)
def test_a_rare_disease(
    data_folder: Path, split: str, prevalence: float, mean: float, area: float, ece: float, brier: float
) -> None:
    probs, labels = read(data_folder / "probs_ecg_chagas/ecg_chagas.npz", f"_{split}")
    assert labels.mean() == pytest.approx(prevalence, abs=1e-6)
    assert probs.mean() == pytest.approx(mean, abs=PRINTED)
    assert metrics.auroc(probs, labels).item() == pytest.approx(area, abs=PRINTED)
    assert metrics.expected_calibration_error(probs, labels).item() == pytest.approx(ece, abs=PRINTED)
    assert metrics.brier_score(probs, labels).item() == pytest.approx(brier, abs=PRINTED)


def test_fourteen_findings(data_folder: Path) -> None:
    path = data_folder / "logits_chestxray14_multilabel/chestxray14_densenet121.npz"
    with np.load(path, allow_pickle=False) as file:
        probs, labels = torch.from_numpy(file["logits"]).to(torch.float64).sigmoid(), file["labels"]
    each = metrics.auroc(probs, labels, average="none")
    assert [float(value) for value in each if value is not None] == pytest.approx(CHEST_AUROC, abs=PRINTED)
    assert metrics.auroc(probs, labels).item() == pytest.approx(0.8320, abs=PRINTED)
    gaps = probs.mean(dim=0) - torch.from_numpy(labels).to(torch.float64).mean(dim=0)
    errors = metrics.expected_calibration_error(probs, labels, average="none")
    assert bool((errors >= gaps - 1e-12).all())  # far too high throughout: at least the overall gap
