"""Settings of the study of dynamics: the ways to take the step, the losses, the epochs that are compared."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.experiments.claims import OWN
from calibrant.experiments.studies.losses.settings import BALANCED, MUKHOTI

WAYS: Mapping[str, str] = {"sum": "sum, clipped at 2", "mean": "mean"}
LOSSES: Mapping[str, tuple[str, str]] = {
    arm.key: (arm.loss, arm.title)
    for arm in BALANCED.arms
    if arm.key in {"cross-entropy", "focal-1", "focal-2", "focal-3", "sample-focal"}
    and arm.class_weights == "none"
}
TITLES: Mapping[str, str] = {key: title for key, (_, title) in LOSSES.items()}
EPOCHS = 21
SOURCES: Mapping[str, str] = {"sum": MUKHOTI, "mean": OWN}
"""Who claims it: the authors' code sums, so with the mean their account is asked of something else."""
START = 12
"""Three epochs later: what the drop itself does is over, and what follows is claimed."""
HELD_OUT = (
    "error", "ece", "nll", "nll_correct", "nll_incorrect", "entropy_correct", "entropy_incorrect",
    "p_true_correct", "p_true_incorrect",
)  # fmt: skip
"""What is measured of the calibration split after every epoch."""
TRAINING = ("error", "nll", "nll_correct", "nll_incorrect")
"""What is measured of the training images of some runs, after some epochs."""
QUESTIONS: Mapping[str, str] = {
    f"{way}-{start}": f"{question} ({title}):"
    for way, title in WAYS.items()
    for start, question in {
        "rise": "The NLL of wrong images rises less under focal loss than cross-entropy",
        "entropy": "Wrong images keep more entropy under focal loss",
        "true": "Wrong images have more probability of the true class under focal loss, right ones less",
        "norm": "The last layer is longer under focal loss at first, shorter in the end",
        "gradients": "Focal loss's gradients shrink more",
        "sure": "Right images keep a high probability of the true class",
    }.items()
}
"""What claims are about, by how their keys begin."""
