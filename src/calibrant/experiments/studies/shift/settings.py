"""Settings of the shift study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULTS: Mapping[str, Any] = {"loss": "cross-entropy", "train": 10_000, "epochs": 21, "images": 2000}
"""As in the study of losses; so many test images are corrupted, and as many of each foreign set are shown."""

TITLES: Mapping[str, str] = {
    "cross-entropy": "cross-entropy",
    "focal(gamma=3)": "focal, γ = 3",
    "sample-focal": "FLSD-53",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL, γ = 3, λ = 0.5",
    "label-smoothing(smoothing=0.05)": "label smoothing, 0.05",
    "brier": "Brier",
    "mmce": "MMCE",
    "dual-focal(gamma=5)": "dual focal, γ = 5",
}
CROSS_ENTROPY, FCL, FLSD = (
    "cross-entropy",
    "focal-calibration(gamma=3, calibration_weight=0.5)",
    "sample-focal",
)

CALIBRATORS = ("temperature", "focal-temperature", "vector", "ensemble-temperature")
AS_TRAINED = "as-trained"
STAGES: Mapping[str, str] = {
    AS_TRAINED: "as trained",
    "temperature": "temperature",
    "focal-temperature": "focal temperature",
    "vector": "vector",
    "ensemble-temperature": "ensemble temperature",
}
IN_SENTENCES: Mapping[str, str] = {
    AS_TRAINED: "no calibrator",
    "temperature": "temperature scaling",
    "focal-temperature": "focal temperature scaling",
    "vector": "vector scaling",
}
NUM_CORRUPTIONS = 15
"""How many Hendrycks and Dietterich (2019) have."""
SEVERITIES = (1, 2, 3, 4, 5)
LARGEST = 4
"""Without so many corruptions a mean over them is shown too."""
FOREIGN: Mapping[str, str] = {"notmnist_ood": "notMNIST", "mnist": "MNIST"}
SHORT: Mapping[str, str] = {loss: loss.partition("(")[0] for loss in TITLES}
"""Losses as keys of claims name them."""
CORRUPTED = "corrupted"
"""The name under which corrupted images of the highest severity stand among the foreign ones."""

PAPER_FCL = "focal calibration loss (2025), table 4"
TABLE_4: Mapping[str, str] = {
    "cross-entropy": "weight-decay",
    "sample-focal": "focal-sample(53)",
    "label-smoothing(smoothing=0.05)": "label-smoothing",
    "brier": "brier",
    "mmce": "mmce",
    "dual-focal(gamma=5)": "dual-focal",
}
"""What table 4 calls losses that FCL is held against; it lacks focal loss with γ = 3."""
SVHN, CORRUPTED_CIFAR = "CIFAR-10/SVHN", "CIFAR-10/CIFAR-10-C"
"""What table 4 calls its rows: against foreign images, and against corrupted ones."""
SCORES: Mapping[str, str] = {"max_probability": "top probability", "entropy": "entropy"}
"""By what foreign images are told; the first as in one of the authors' public versions."""
