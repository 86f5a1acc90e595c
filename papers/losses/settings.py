"""Settings of the loss study: data and network, and the arms tried there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from calibrant._math.text_form import named
from papers.claims import Departure

MUKHOTI = "Mukhoti et al. (2020)"
GUO = f"{MUKHOTI}, quoting Guo et al. (2017)"
FCL = "focal calibration loss (2025)"
KULL = "Komisarenko and Kull (2024)"
ADAPTIVE_ECE_SEARCH = "temperature(objective='adaptive_ece', search='grid')"
"""How Mukhoti et al. (2020) choose the temperature whose adaptive ECE they print."""
GROUPS: Mapping[str, slice] = {"frequent": slice(0, 3), "middle": slice(3, 7), "rare": slice(7, 10)}
"""Places of the classes of long-tailed images, the most frequent ones first."""
OF_GROUPS: Mapping[str, str] = {
    "frequent": "the three most frequent classes",
    "middle": "the four classes of middling frequency",
    "rare": "the three rarest classes",
}
"""The groups as sentences name them."""
DROP = 9
"""The last epoch at the first learning rate."""
DECAY = 5e-4
"""The usual weight decay, of nearly every arm."""
DEPARTURES: Mapping[str, tuple[Departure, ...]] = {
    MUKHOTI: (
        Departure(
            verdict="depends on the reduction",
            what="The code of Mukhoti et al. (2020) for images, as last released, sums the loss over the "
            "batch and clips gradients at 2; this study averages it, which makes the same clipping and "
            "learning rate act otherwise, and temperatures and errors after focal loss change with it.",
        ),
    ),
}
"""What the study does otherwise than a paper, by the source of the claims that may depend on it."""
UNBALANCED = Departure(
    verdict="beyond the paper",
    what="None of the papers has long-tailed images, so what is found on them decides no claim of theirs.",
)
"""What is done otherwise wherever a paper's claim is asked of the long tail."""
BY_DESIGN = Departure(
    verdict="depends on the design",
    what="The setting (images, augmentation, rate and epochs) was chosen so that cross-entropy ends "
    "over-confident.",
)
"""Why cross-entropy's over-confidence is no finding on images."""
CONTRAST, ARGUMENT = (1.5, 3.0), (2.0, 2.5)
"""Cross-entropy's temperatures in Komisarenko and Kull (2024): what section 2 holds focal loss's "close to 1"
against, and what the argument of section 4.1 starts from."""
BY_LIKELIHOOD = Departure(
    verdict="depends on the criterion",
    what="Temperatures and exponents are fitted by likelihood here; Komisarenko and Kull (2024) choose them "
    "by the ECE with bins of equal mass, and claim that this error is lower, which is asked here, too, as "
    "adaptive ECE.",
)
"""What is done otherwise where focal temperature scaling is judged by its error of calibration."""
OF_FCL = (
    "The paper on focal calibration loss chose γ and λ for each network (on images γ from 2 to 4, λ 0.5 "
    "or 1.5); here all have γ = 3 and λ = 0.5, as three of its nine networks on images. The one exponent "
    "of dual focal loss that it names is 2, here it is 5; of clipping it says nothing. The code of its "
    "experiments is not public: they follow that of Mukhoti et al. (2020), it says, which sums the loss "
    "over the batch, while the code of the loss that its authors published later averages."
)
"""How far the study is from the paper on focal calibration loss: other values of a loss that is claimed for
all, which leaves no claim open."""
TEST_IMAGES = 10_000
"""Fashion-MNIST's own test images, which judge every run."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train; `grid.toml` says what all ways share.

    Attributes:
        key: Its name in the results file.
        title: What it is called on the page.
        loss: As the grid spells it.
        weight_decay: Weight decay of the optimiser.
        class_weights: Class weights in training.
        published: What the published tables call the method.
    """

    key: str
    title: str
    loss: str
    weight_decay: float = DECAY
    class_weights: str = "none"
    published: str | None = None

    @property
    def where(self) -> Mapping[str, Any]:
        """The settings that tell its runs from those of others."""
        return {
            "loss": self.loss,
            "optimiser.weight_decay": self.weight_decay,
            "training.class_weights": self.class_weights,
        }


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Data, and the arms tried there.

    Attributes:
        key: The name of its page.
        title: What it is called on the page.
        imbalance: How many images the first class has for each of the last.
        arms: What is tried.
    """

    key: str
    title: str
    imbalance: float
    arms: tuple[Arm, ...]

    @property
    def where(self) -> Mapping[str, Any]:
        """The settings that tell its runs from those of others."""
        return {"data.imbalance": self.imbalance}

    @property
    def wanted(self) -> Mapping[str, Mapping[str, Any]]:
        """The settings of the runs of every arm."""
        return {arm.key: {**self.where, **arm.where} for arm in self.arms}


def _weighted(arm: Arm) -> Arm:
    """The same arm with class weights, which no paper has."""
    return Arm(key=f"{arm.key}-alpha", title=f"{arm.title}, α", loss=arm.loss, class_weights="balanced")


_CROSS_ENTROPY = Arm(
    key="cross-entropy", title="cross-entropy", loss="cross-entropy", published="cross-entropy"
)
_NO_DECAY = Arm(
    key="cross-entropy-no-decay",
    title="cross-entropy, no weight decay",
    loss="cross-entropy",
    weight_decay=0.0,
)
_FOCAL = tuple(
    Arm(
        key=f"focal-{gamma}",
        title=f"focal, γ = {gamma}",
        loss=f"focal(gamma={gamma})",
        published=f"focal(gamma={gamma})",
    )
    for gamma in (1, 2, 3)
)
_SAMPLE = Arm(
    key="sample-focal",
    title="FLSD-53 (sample-dependent γ)",
    loss="sample-focal",
    published="focal-sample(53)",
)
_FCL = Arm(
    key="focal-calibration",
    title="focal calibration, γ = 3, λ = 0.5",
    loss="focal-calibration(gamma=3, calibration_weight=0.5)",
    published="focal-calibration",
)
_SMOOTHING = Arm(
    key="label-smoothing",
    title="label smoothing, 0.05",
    loss="label-smoothing(smoothing=0.05)",
    published="label-smoothing",
)
_BRIER = Arm(key="brier", title="Brier", loss="brier", published="brier")

BALANCED = Setting(
    key="fashion-mnist",
    title="Fashion-MNIST",
    imbalance=1.0,
    arms=(
        _NO_DECAY,
        _CROSS_ENTROPY,
        *_FOCAL,
        _SAMPLE,
        _FCL,
        _SMOOTHING,
        _BRIER,
        Arm(key="adafocal", title="AdaFocal", loss="adafocal", published="ada-focal"),
        Arm(key="dual-focal", title="dual focal, γ = 5", loss="dual-focal(gamma=5)", published="dual-focal"),
        Arm(
            key="mmce",
            title="MMCE, weighted, λ = 2, normalised once",
            loss="mmce(as_published=False)",
            published="mmce",
        ),
        Arm(key="mmce-published", title="MMCE, as published, λ = 2", loss="mmce", published="mmce"),
        Arm(key="mdca", title="cross-entropy + MDCA, β = 1", loss="mdca"),
        Arm(
            key="margin-smoothing",
            title="margin-based label smoothing, m = 10",
            loss="margin-label-smoothing",
        ),
    ),
)
LONG_TAIL = Setting(
    key="long-tail",
    title="Long-tailed Fashion-MNIST",
    imbalance=100.0,
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
)
SETTINGS = (BALANCED, LONG_TAIL)


def setting_named(key: str) -> Setting:
    """The setting of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> setting_named("long-tail").imbalance
        100.0
    """
    return named(key, {each.key: each for each in SETTINGS}, "setting", place=" in this study")
