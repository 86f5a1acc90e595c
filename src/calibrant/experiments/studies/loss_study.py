"""The losses side by side: each trained on Fashion-MNIST and on a long-tailed version of it, seed by seed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.text_form import nearest
from calibrant.training import Listener, Recipe, train
from calibrant.training.run import RunFolder

BASE = Recipe.read(
    {
        "model": "calibrant.experiments.studies.loss_study_network:StridedCNN(width=8)",
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
)
"""``recipes/fashion-mnist-losses.toml``; a test holds one to the other."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One way to train: what it changes in the setting's recipe."""

    key: str
    """Its folder."""
    title: str
    changes: tuple[str, ...]
    published: str | None = None
    """What the published tables call the method."""
    last: bool = False
    """To be trained when all other arms are done."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Data and network, and the arms tried there."""

    key: str
    title: str
    base: Recipe
    arms: tuple[Arm, ...]

    def recipe(self, arm: Arm, seed: int) -> Recipe:
        """What one run is made by."""
        return self.base.with_settings([f"seed={seed}", *arm.changes])

    def arm(self, key: str) -> Arm | None:
        """The arm of that name, if there is one."""
        return next((arm for arm in self.arms if arm.key == key), None)


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
    base=BASE.with_settings(["data.imbalance=100.0"]),
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
        >>> setting_named("long-tail").base.data.imbalance
        100.0
    """
    for setting in SETTINGS:
        if setting.key == key:
            return setting
    raise InputError(
        f"there is no setting {key!r} in this study{nearest(key, [each.key for each in SETTINGS])}"
    )


@dataclass(frozen=True, kw_only=True)
class Place:
    """One run of the study and where it lies."""

    setting: Setting
    arm: Arm
    seed: int
    folder: Path

    @property
    def finished(self) -> bool:
        """Whether the run was trained and judged."""
        return RunFolder(self.folder).evaluation.is_file()

    @property
    def recipe(self) -> Recipe:
        """What makes the run."""
        return self.setting.recipe(self.arm, self.seed)

    def __str__(self) -> str:
        return f"{self.setting.key}/{self.arm.key}/seed-{self.seed}"


def places(
    store: Path, *, settings: Sequence[Setting] = SETTINGS, seeds: Sequence[int] = (0, 1, 2)
) -> Iterator[Place]:
    """Every run in the order to train them, such that a study cut short is of use.

    Every setting with the first seed, then the first setting with the other seeds, then the next; arms marked
    ``last`` at the end.

    Example:
        >>> first = next(places(Path("store")))
        >>> str(first), first.folder.as_posix()
        ('fashion-mnist/cross-entropy-no-decay/seed-0', 'store/fashion-mnist/cross-entropy-no-decay/seed-0')
    """
    rounds = [(setting, seed) for seed in seeds[:1] for setting in settings]
    rounds += [(setting, seed) for setting in settings for seed in seeds[1:]]
    for last in (False, True):
        for setting, seed in rounds:
            for arm in setting.arms:
                if arm.last == last:
                    folder = store / setting.key / arm.key / f"seed-{seed}"
                    yield Place(setting=setting, arm=arm, seed=seed, folder=folder)


class WeightNorms(Listener):
    """Notes the norm of the last layer's weights after each epoch, from the checkpoint just written."""

    FILE = "weight-norms.jsonl"

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)

    def epoch(self, row: Mapping[str, Any]) -> None:
        """Add a line; of an epoch done twice the later one counts."""
        state = self.folder.load_checkpoint()
        if state is None:
            return
        matrices = [value for value in state["model"].values() if value.ndim == 2]
        norm = float(matrices[-1].double().norm())
        with (self.folder.path / self.FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"epoch": row["epoch"], "norm": norm}) + "\n")

    @classmethod
    def read(cls, folder: Path) -> dict[str, float]:
        """The norm after each epoch, by the epoch's number."""
        path = folder / cls.FILE
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return {str(row["epoch"]): row["norm"] for row in rows}


def run_loss_study(
    store: Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    seeds: Sequence[int] = (0, 1, 2),
    command: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> tuple[Place, ...]:
    """Train what is not trained yet; each run is a directory of ``calibrant train`` in ``store``.

    What was begun goes on at its last whole epoch. A training that diverges is told of and left unfinished.

    Args:
        store: The folder of the runs.
        settings: Which settings.
        seeds: Seeds of the trainings; the samples of each split stay the same.
        command: The command line to record.
        tell: Told in one line what begins and what diverged.

    Returns:
        The runs that are finished, old ones included.

    Raises:
        InputError: If a directory holds something else.
        TrainingInterrupted: If Ctrl-C came; what is done is saved.
    """
    say = tell or (lambda _line: None)
    wanted = tuple(places(store, settings=settings, seeds=seeds))
    for number, place in enumerate(wanted, start=1):
        if place.finished:
            continue
        say(f"{number}/{len(wanted)} {place}")
        place.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            train(place.recipe, place.folder, listener=WeightNorms(place.folder), command=command)
        except ConvergenceError as error:
            say(f"{place}: {error}")
    return tuple(place for place in wanted if place.finished)
