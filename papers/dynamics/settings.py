"""Settings of the study of dynamics: the ways to take the step, the losses, the epochs that are compared."""

from __future__ import annotations

from collections.abc import Mapping

from papers.claims import OWN, Departure
from papers.losses.settings import BALANCED, DROP, MUKHOTI

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
SECOND = 15
"""The last epoch before the second drop of the rate."""
STARTS = range(DROP, SECOND + 1)
"""Epochs from which changes are shown as well, up to the second drop of the rate."""
FIRST = 1
"""The epoch from which a change "throughout training" is asked; the base of figure 4, too."""
HELD_OUT = (
    "error", "ece", "nll", "nll_correct", "nll_incorrect", "entropy_correct", "entropy_incorrect",
    "p_true_correct", "p_true_incorrect",
)  # fmt: skip
"""What is measured of the calibration split after every epoch."""
TRAINING = ("error", "nll", "nll_correct", "nll_incorrect")
"""What is measured of the training images, after some epochs."""
SURE = 0.95
"""What the paper finds the mean true-class probability of correctly classified images to stay above."""
LEVEL_OF_THEIRS = Departure(
    verdict="depends on the network",
    what=f"A mean probability above {SURE:g} is what Mukhoti et al. (2020) find of a ResNet-50 that errs on "
    "some 5 % of the test images of CIFAR-10; a network that errs more often is less sure of what it gets "
    "right.",
)
"""What is done otherwise where an absolute level is asked for."""
LENGTHS = Departure(
    verdict="depends on the schedule",
    what="Figure 4 of Mukhoti et al. (2020) has epochs 10, 100 and 200 of 350, the last of them between the "
    f"drops of the rate after 150 and 250. Epochs {FIRST} and {SECOND} stand for 10 and 200 here; but their "
    f"epoch 10 comes after some {10 * -(-45_000 // 128):,} steps, and the whole training here has "
    f"{EPOCHS * -(-10_000 // 128):,}.",
)
"""What is done otherwise where lengths of gradients are compared."""
SIMILAR = 1.25
"""The factor within which lengths of gradients count as similar."""
SAME_ERROR = 0.005
"""The difference within which errors count as almost the same: half a percentage point."""
QUESTIONS: Mapping[str, str] = {
    f"{way}-{start}": f"{question} ({title}):"
    for way, title in WAYS.items()
    for start, question in {
        "rise": "The NLL of misclassified images rises less under focal loss than under cross-entropy",
        "entropy": "Misclassified images keep more entropy under focal loss, before the drop and after it",
        "true": "Under focal loss the true class of misclassified images is more probable, that of correctly "
        "classified ones less",
        "nll-right": "Correctly classified images have higher NLL under focal loss",
        "ece-lower": "Focal loss has lower ECE in the end",
        "error": "Focal loss errs about as often as cross-entropy",
        "norm-reversal": "The last layer has the larger weight norm under focal loss at first, and the "
        "smaller one in the end",
        "gradients": "Gradients are similar at first, and focal loss's shrink more",
        "sure": "Correctly classified images keep a high probability of the true class",
    }.items()
}
"""What claims are about, by how their keys begin."""
