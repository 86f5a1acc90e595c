"""The settings and arms of the curvature study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from calibrant._math.text_form import named

Kind: TypeAlias = Literal["mlp", "cnn"]

EIGEN_TOLERANCE = 3e-3
TRACE_PRODUCTS = 21
GAMMAS = (0.0, 1.0, 2.0, 3.0, 5.0)
FEW_GAMMAS = (0.0, 2.0, 5.0)
BETAS = (0.0001, 0.001, 0.01)
RADII = (0.05, 0.2)
FAMILIES = ("focal", "trace", "sam", "focal-low-rate", "focal-no-decay")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Data, network and training; the same for every arm but for what the arm changes."""

    key: str
    title: str
    data: str
    kind: Kind
    batch_norm: bool
    train: int
    """Samples; each seed has its own."""
    calibration: int
    test: int
    """Samples cut off for testing where the data come without a test split."""
    measured: int
    """Training samples, and test samples, that the Hessian is taken on: the first so many."""
    downsample: int = 1
    epochs: int = 40
    checkpoints: tuple[int, ...] = (0, 1, 5, 20, 40)
    batch_size: int = 50
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 5e-4
    families: tuple[str, ...] = FAMILIES

    @classmethod
    def read(cls, found: Mapping[str, Any]) -> Setting:
        """A setting as a results file has it."""
        lists: dict[str, Any] = {
            name: tuple(value) for name, value in found.items() if isinstance(value, list)
        }
        return cls(**{**found, **lists})

    @classmethod
    def of(cls, run: Mapping[str, Any]) -> Setting:
        """The setting of a run, with the numbers that the run has."""
        named = setting_named(run["setting"])
        return cls.read({**vars(named), **{name: run[name] for name in named.numbers}})

    @property
    def numbers(self) -> dict[str, Any]:
        """All but names, as JSON has it."""
        found = {name: each for name, each in vars(self).items() if name not in {"key", "title", "families"}}
        return {**found, "checkpoints": list(self.checkpoints)}

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch: a tenth of it from half of the epochs on, a tenth of that later.

        Before training it is that of the first epoch.
        """
        return self.learning_rate * 0.1 ** ((epoch > self.epochs / 2) + (epoch > 0.75 * self.epochs))


_DIGITS = Setting(
    key="digits-plain",
    title="digits, MLP",
    data="digits",
    kind="mlp",
    batch_norm=False,
    train=400,
    calibration=400,
    test=997,
    measured=400,
)
_FASHION = Setting(
    key="fashion-plain",
    title="Fashion-MNIST, CNN",
    data="fashion_mnist",
    kind="cnn",
    batch_norm=False,
    train=1000,
    calibration=1000,
    test=10_000,
    measured=250,
    downsample=2,
    families=tuple(family for family in FAMILIES if family != "focal-low-rate"),
)
SETTINGS = (
    _DIGITS,
    replace(_DIGITS, key="digits-norm", title="digits, MLP with BatchNorm", batch_norm=True),
    _FASHION,
    replace(_FASHION, key="fashion-norm", title="Fashion-MNIST, CNN with BatchNorm", batch_norm=True),
)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train: what it changes in the setting."""

    key: str
    family: str
    gamma: float = 0.0
    beta: float = 0.0
    """Weight of the trace of cross-entropy's Hessian."""
    radius: float = 0.0
    """Radius of sharpness-aware minimisation."""

    def changes(self, setting: Setting) -> Setting:
        """The setting as this arm has it."""
        if self.family == "focal-no-decay":
            return replace(setting, weight_decay=0.0)
        if self.family == "focal-low-rate":
            return replace(setting, learning_rate=setting.learning_rate / 5)
        return setting


ARMS = (
    *(Arm(key=f"focal-{gamma:g}", family="focal", gamma=gamma) for gamma in GAMMAS),
    *(Arm(key=f"trace-{beta:g}", family="trace", beta=beta) for beta in BETAS),
    *(Arm(key=f"sam-{radius:g}", family="sam", radius=radius) for radius in RADII),
    *(
        Arm(key=f"{family}-{gamma:g}", family=family, gamma=gamma)
        for family in ("focal-no-decay", "focal-low-rate")
        for gamma in FEW_GAMMAS
    ),
)


def arm_named(key: str) -> Arm:
    """The arm of that name.

    Raises:
        InputError: If there is none.
    """
    return named(key, {each.key: each for each in ARMS}, "arm", place=" in this study")


def setting_named(key: str) -> Setting:
    """The setting of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> setting_named("digits-norm").batch_norm
        True
    """
    return named(key, {each.key: each for each in SETTINGS}, "setting", place=" in this study")
