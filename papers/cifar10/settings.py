"""Settings of the study of CIFAR-10: the losses, and how they become a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from papers.losses.settings import DECAY
from papers.sum_or_mean import settings as of_steps
from papers.sum_or_mean.settings import LONG, MEAN, SLOW, STEP, SUM, Way

WAYS: Mapping[str, str] = {
    SUM: "summed over the batch, gradients clipped at 2",
    MEAN: "averaged over the batch, gradients clipped at 2",
}
"""The ways of which everything is asked, and what the page calls them."""
RATES: Mapping[str, float] = {SUM: 0.1, MEAN: 0.1, STEP: 0.163, LONG: 0.206, SLOW: 0.0793}
STEPS: Mapping[str, Way] = {
    way.key: replace(way, rate=RATES[way.key]) for way in of_steps.WAYS if way.key in RATES
}
"""Those and the ways in which gradients, times the rate, are about as long as another's."""
NORMS: Mapping[str, float] = {"cross-entropy": 1.225, "focal-3": 0.972}
"""Mean norms of the mean's gradients before the rate drops, in one run each: what the rates match."""
DROPS, FACTOR = (13, 21), 0.1
"""After these epochs the learning rate drops, by this factor."""
NO_DECAY = "cross-entropy-no-decay"
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
    "sample-focal-532": ("sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))", "FLSD-532"),
    "scheduled-531": ("scheduled-focal(gammas=(5, 3, 1), milestones=(9, 21))", "FLSc-531"),
    "scheduled-532": ("scheduled-focal(gammas=(5, 3, 2), milestones=(9, 21))", "FLSc-532"),
    NO_DECAY: ("cross-entropy", "cross-entropy, no weight decay"),
}
"""How the grid spells a loss, and what the page calls it."""
WANTED: Mapping[str, Mapping[str, str | float]] = {
    key: {"loss": loss, "optimiser.weight_decay": 0.0 if key == NO_DECAY else DECAY}
    for key, (loss, _) in LOSSES.items()
}
"""The settings that tell the runs of a loss from those of others."""
CORRUPTIONS = ("gaussian-noise", "motion-blur", "fog", "brightness", "contrast", "jpeg-compression")
IMAGES = 2000
"""So many test images are corrupted, and as many of each foreign set are shown."""
FOREIGN: Mapping[str, str] = {"fashion_mnist": "Fashion-MNIST in grey", "notmnist_ood": "notMNIST"}
PEOPLE = ("temperature", "focal-temperature")
"""What is held against people beside the network as trained."""
TITLES: Mapping[str, str] = {key: title for key, (_, title) in LOSSES.items()}
