"""Settings of the study of dynamics: the ways to take the step, the losses, the epochs that are compared."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.experiments.claims import OWN, Departure
from calibrant.experiments.studies.losses.settings import BALANCED, DROP, MUKHOTI

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
"""Three epochs after the drop of the rate: its own effect is over, and what follows is claimed."""
STARTS = range(DROP, 16)
"""Epochs from which the rise of the NLL is shown as well, up to the second drop of the rate."""
FIRST = 1
"""The epoch that stands for the paper's epoch 10 of 350, the base of its figure 4."""
HELD_OUT = (
    "error", "ece", "nll", "nll_correct", "nll_incorrect", "entropy_correct", "entropy_incorrect",
    "p_true_correct", "p_true_incorrect",
)  # fmt: skip
"""What is measured of the calibration split after every epoch."""
TRAINING = ("error", "nll", "nll_correct", "nll_incorrect")
"""What is measured of the training images of some runs, after some epochs."""
SURE = 0.95
"""What the paper finds the mean true-class probability of correctly classified images to stay above."""
LEVEL_OF_THEIRS = Departure(
    verdict="depends on the network",
    what=f"A mean probability above {SURE:g} is what Mukhoti et al. (2020) find of a ResNet-50 that errs on "
    "some 5 % of the test images of CIFAR-10; a network that errs more often is less sure of what it gets "
    "right.",
)
"""What is done otherwise where an absolute level is asked for."""
SIMILAR = 1.25
"""The factor within which lengths of gradients count as similar."""
SAME_ERROR = 0.005
"""The difference within which errors count as almost the same: half a percentage point."""
QUESTIONS: Mapping[str, str] = {
    f"{way}-{start}": f"{question} ({title}):"
    for way, title in WAYS.items()
    for start, question in {
        "rise": "The NLL of misclassified images rises less under focal loss than under cross-entropy",
        "entropy": "Misclassified images keep more entropy under focal loss, from the beginning",
        "true": "Under focal loss the true class of misclassified images is more probable, that of correctly "
        "classified ones less",
        "nll-right": "Correctly classified images have the higher NLL under focal loss",
        "ece-lower": "Focal loss has the lower ECE in the end",
        "error": "Focal loss errs about as often as cross-entropy",
        "norm": "The last layer is longer under focal loss at first, shorter in the end",
        "gradients": "Gradients are similar at first, and focal loss's shrink more",
        "sure": "Correctly classified images keep a high probability of the true class",
    }.items()
}
"""What claims are about, by how their keys begin."""
