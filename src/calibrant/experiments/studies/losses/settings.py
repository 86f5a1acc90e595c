"""Settings of the loss study: data and network, and the arms tried there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant._math.text_form import named
from calibrant.experiments.claims import Departure

BASE: Mapping[str, Any] = {
    "model": "calibrant.experiments.studies.losses.network:StridedCNN(width=8)",
    "data": {"name": "fashion_mnist", "calibration": 5000, "policy": 5000, "train": 10000},
    "optimiser": {
        "name": "sgd",
        "learning_rate": 0.1,
        "momentum": 0.9,
        "weight_decay": 5e-4,
        "clip_norm": 2.0,
    },
    "schedule": {"name": "steps", "milestones": [9, 15], "factor": 0.1},
    "training": {"epochs": 21, "batch_size": 128},
    "hardware": {"accelerator": "cpu", "threads": 1, "channels_last": True},
    "evaluation": {"calibrators": ["temperature"], "bootstrap": 20},
}
"""``recipes/fashion-mnist-losses.toml``; a test holds one to the other."""


MUKHOTI = "Mukhoti et al. (2020)"
FCL = "focal calibration loss (2025)"
KULL = "Komisarenko and Kull (2024)"
PRACTICE = "common practice"
DEPARTURES: Mapping[str, tuple[Departure, ...]] = {
    MUKHOTI: (
        Departure(
            verdict="depends on the reduction",
            what="The code of Mukhoti et al. (2020) for images sums the loss over the batch and clips "
            "gradients at 2; this study averages it, which makes the same clipping and learning rate act "
            "otherwise, and temperatures and errors after focal loss change with it.",
        ),
    ),
}
"""What the study does otherwise than a paper, by the source of the claims that may depend on it."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train: what it changes in the setting's recipe.

    Attributes:
        key: Its folder.
        title: What it is called on the page.
        changes: Settings of the recipe, as ``calibrant train --set`` takes them.
        published: What the published tables call the method.
        last: Whether it is trained when all other arms are done.
    """

    key: str
    title: str
    changes: tuple[str, ...]
    published: str | None = None
    last: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Data and network, and the arms tried there.

    Attributes:
        key: Its folder, and the name of its page.
        title: What it is called on the page.
        base: The recipe that the arms change.
        arms: What is tried.
        changes: What the setting itself changes in ``base``.
    """

    key: str
    title: str
    base: Mapping[str, Any]
    arms: tuple[Arm, ...]
    changes: tuple[str, ...] = ()


def _loss(key: str, title: str, loss: str, published: str | None = None, *, last: bool = False) -> Arm:
    return Arm(key=key, title=title, changes=(f'loss="{loss}"',), published=published, last=last)


def _weighted(arm: Arm) -> Arm:
    """The same arm with class weights."""
    return Arm(
        key=f"{arm.key}-alpha",
        title=f"{arm.title}, α",
        changes=(*arm.changes, "training.class_weights=balanced"),
    )


_CROSS_ENTROPY = _loss("cross-entropy", "cross-entropy", "cross-entropy", "cross-entropy")
_NO_DECAY = Arm(
    key="cross-entropy-no-decay",
    title="cross-entropy, no weight decay",
    changes=('loss="cross-entropy"', "optimiser.weight_decay=0.0"),
)
_FOCAL = tuple(
    _loss(f"focal-{gamma}", f"focal, γ = {gamma}", f"focal(gamma={gamma})", f"focal(gamma={gamma})")
    for gamma in (1, 2, 3)
)
_SAMPLE = _loss("sample-focal", "FLSD-53 (sample-dependent γ)", "sample-focal", "focal-sample(53)")
_FCL = _loss(
    "focal-calibration",
    "focal calibration, γ = 3, λ = 0.5",
    "focal-calibration(gamma=3, calibration_weight=0.5)",
    "focal-calibration",
)
_SMOOTHING = _loss(
    "label-smoothing", "label smoothing, 0.05", "label-smoothing(smoothing=0.05)", "label-smoothing"
)
_BRIER = _loss("brier", "Brier", "brier", "brier")

BALANCED = Setting(
    key="fashion-mnist",
    title="Fashion-MNIST",
    base=BASE,
    arms=(
        _NO_DECAY,
        _CROSS_ENTROPY,
        *_FOCAL,
        _SAMPLE,
        _FCL,
        _SMOOTHING,
        _BRIER,
        _loss("adafocal", "AdaFocal", "adafocal", "ada-focal"),
        _loss("dual-focal", "dual focal, γ = 5", "dual-focal(gamma=5)", "dual-focal"),
        _loss("mmce", "MMCE, weighted, λ = 2, normalised once", "mmce(as_published=False)", "mmce"),
        _loss("mmce-published", "MMCE, as published, λ = 2", "mmce", "mmce", last=True),
        _loss("mdca", "cross-entropy + MDCA, β = 1", "mdca", last=True),
        _loss(
            "margin-smoothing", "margin-based label smoothing, m = 10", "margin-label-smoothing", last=True
        ),
    ),
)
LONG_TAIL = Setting(
    key="long-tail",
    title="Long-tailed Fashion-MNIST",
    base=BASE,
    arms=(
        _CROSS_ENTROPY,
        _weighted(_CROSS_ENTROPY),
        _FOCAL[2],
        _weighted(_FOCAL[2]),
        _SAMPLE,
        _FCL,
        _SMOOTHING,
        _BRIER,
    ),
    changes=("data.imbalance=100.0",),
)
SETTINGS = (BALANCED, LONG_TAIL)


def setting_named(key: str) -> Setting:
    """The setting of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> setting_named("long-tail").changes
        ('data.imbalance=100.0',)
    """
    return named(key, {each.key: each for each in SETTINGS}, "setting", place=" in this study")
