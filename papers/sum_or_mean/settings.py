"""Settings of the study of sum and mean: the ways to take the step, and the losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from papers.losses.settings import BALANCED, DECAY, LONG_TAIL, Arm, Setting

HARDLY_LEARNED = 0.4
"""A run whose test error is higher is named on the page; chance is 0.9."""
RATE = 0.1
"""The usual learning rate, of which others are multiples."""
SUM, MEAN, STEP, LONG, SLOW, HELD, LIGHT = "sum", "mean", "step", "long", "slow", "held", "light"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How the loss becomes a step.

    Attributes:
        key: Its name in the results file.
        why: What it is for.
        reduction: How the loss is reduced over the batch.
        rate: The learning rate of the first epochs.
        clip: The norm at which gradients are clipped.
        decay: Weight decay.
    """

    key: str
    why: str
    reduction: str
    rate: float = RATE
    clip: float = 2.0
    decay: float = DECAY

    @property
    def title(self) -> str:
        """What it is called on pages: the reduction, and by what factor the rate is raised.

        Example:
            >>> Way(key="long", why="", reduction="mean", rate=0.358, decay=1.4e-4).title
            'mean ×3.58, decay ÷3.6'
        """
        times = "" if self.rate == RATE else f" ×{self.rate / RATE:.3g}"
        clip = "" if self.clip == 2 else f", clip {self.clip:g}"
        decay = "" if self.decay == DECAY else f", decay ÷{DECAY / self.decay:.2g}"
        return f"{self.reduction}{times}{clip}{decay}"

    @property
    def where(self) -> Mapping[str, Any]:
        """The settings that tell its runs from those of others, but for weight decay."""
        return {
            "reduction": self.reduction,
            "optimiser.learning_rate": self.rate,
            "optimiser.clip_norm": self.clip,
        }

    def losses(self, imbalance: float = BALANCED.imbalance) -> Setting:
        """The losses, at its weight decay, on balanced or on long-tailed images."""
        arms = (replace(arm, weight_decay=self.decay) if arm.weight_decay else arm for arm in LOSSES.arms)
        return replace(LOSSES, imbalance=imbalance, arms=tuple(arms))


WAYS = (
    Way(key=SUM, reduction="sum", why="as in the code of Mukhoti et al. (2020) for images"),
    Way(key=MEAN, reduction="mean", why="as in the study of losses"),
    Way(
        key=STEP,
        reduction="mean",
        rate=0.217,
        why="gradients of cross-entropy, times the rate, about as long as with the sum",
    ),
    Way(
        key=LONG,
        reduction="mean",
        rate=0.358,
        why="gradients of focal loss (γ = 3), times the rate, about as long as with the sum",
    ),
    Way(
        key=SLOW,
        reduction="mean",
        rate=0.0606,
        why="gradients of cross-entropy, times the rate, about as long as focal loss's with the mean",
    ),
    Way(
        key=HELD,
        reduction="sum",
        clip=0.56,
        why="gradients as long as the mean's first ones under focal loss, to the end",
    ),
    Way(
        key=LIGHT,
        reduction="mean",
        rate=0.358,
        decay=1.4e-4,
        why="rate times weight decay as with the sum",
    ),
)
TITLES: Mapping[str, str] = {way.key: way.title for way in WAYS}
_ELSEWHERE = {"mmce", "mdca", "margin-smoothing"}
"""Losses of the study of losses that are not tried here."""
LOSSES = Setting(
    key="sum-or-mean",
    title="Fashion-MNIST",
    imbalance=BALANCED.imbalance,
    arms=(
        *(arm for arm in BALANCED.arms if arm.key not in _ELSEWHERE),
        Arm(
            key="sample-focal-532",
            title="FLSD-532",
            loss="sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))",
        ),
        Arm(
            key="scheduled-531",
            title="FLSc-531",
            loss="scheduled-focal(gammas=(5, 3, 1), milestones=(6, 15))",
        ),
        Arm(
            key="scheduled-532",
            title="FLSc-532",
            loss="scheduled-focal(gammas=(5, 3, 2), milestones=(6, 15))",
        ),
    ),
)
"""Most losses of the study of losses, and three more of the papers."""
RESNET_HOURS = 0.44 * (45_000 // 128 + 1) * 60 / 3600
"""CPU hours of a run on CIFAR-10 with a ResNet of 20 layers: a step took 0.44 CPU seconds, 60 epochs."""
TAIL = "long tail"
"""With it the keys of claims about long-tailed images end."""
PARTS: Mapping[str, float] = {"ways": BALANCED.imbalance, "tail": LONG_TAIL.imbalance}
"""The parts of the results by their images: what each is called there, and its imbalance."""
