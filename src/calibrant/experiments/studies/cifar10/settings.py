"""Settings of the study of CIFAR-10: the losses, and how they are reduced over the batch."""

from __future__ import annotations

from collections.abc import Mapping

SUM, MEAN = "sum", "mean"
WAYS: Mapping[str, str] = {
    SUM: "summed over the batch, gradients clipped at 2",
    MEAN: "averaged over the batch, gradients clipped at 2",
}
LOSSES: Mapping[str, tuple[str, str]] = {
    "cross-entropy": ("cross-entropy", "cross-entropy"),
    **{f"focal-{gamma}": (f"focal(gamma={gamma})", f"focal, γ = {gamma}") for gamma in (1, 2, 3, 5, 7)},
    "sample-focal": ("sample-focal", "FLSD-53"),
    "adafocal": ("adafocal", "AdaFocal"),
    "focal-calibration": (
        "focal-calibration(gamma=3, calibration_weight=0.5)",
        "FCL, γ = 3, λ = 0.5",
    ),
    "brier": ("brier", "Brier"),
    "mmce-published": ("mmce", "MMCE, as published"),
    "label-smoothing": ("label-smoothing(smoothing=0.05)", "label smoothing, 0.05"),
    "dual-focal": ("dual-focal(gamma=5)", "dual focal, γ = 5"),
}
"""How the grid spells a loss, and what the page calls it."""
CORRUPTIONS = ("gaussian-noise", "motion-blur", "fog", "brightness", "contrast", "jpeg-compression")
IMAGES = 2000
"""So many test images are corrupted, and as many of each foreign set are shown."""
FOREIGN: Mapping[str, str] = {"fashion_mnist": "Fashion-MNIST in grey", "notmnist_ood": "notMNIST"}
TABLE_4 = frozenset(
    ("cross-entropy", "sample-focal", "brier", "mmce-published", "label-smoothing", "dual-focal")
)
"""The losses that FCL is held against in the table of its paper on foreign images."""
PEOPLE = ("temperature", "focal-temperature")
"""What is held against people beside the network as trained."""
TITLES: Mapping[str, str] = {key: title for key, (_, title) in LOSSES.items()}
