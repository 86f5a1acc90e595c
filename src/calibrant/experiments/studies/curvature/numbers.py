"""What the runs of the curvature study show: the results file, its quantities, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.studies.curvature.settings import ARMS, FAMILIES, SETTINGS, Setting, arm_named

LOSSES = ("own", "cross_entropy")
_SPLITS = ("train", "test")
PATH_COLUMNS = ("loss", "lambda_max", "residual", "trace", "trace_error")
_WHOSE = {"own": "own loss", "cross_entropy": "cross-entropy"}
Run: TypeAlias = Mapping[str, Any]
"""A run of :func:`numbers_of`, or what one found."""
Pick: TypeAlias = Callable[[Run], "float | None"]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number of each run at the end of training.

    Attributes:
        key: Its name in the results file.
        title: What it is called on the page.
        path: Where a run's findings have it; ``last`` is the last checkpoint.
        over: What it is divided by, if anything; without a number where that is not above zero.
        less: What is first taken off that.
    """

    key: str
    title: str
    path: str
    over: str = ""
    less: str = ""

    def measure(self, found: Run) -> float | None:
        """The number among a run's findings."""
        value = _at(found, self.path)
        if not self.over or value is None:
            return value
        whole = (_at(found, self.over) or 0.0) - (_at(found, self.less) or 0.0 if self.less else 0.0)
        return value / whole if whole > 0 else None

    def pick(self, run: Run) -> float | None:
        """The number in a run of the page."""
        return run["end"][self.key]


def _at(found: Run, path: str) -> float | None:
    value: Any = {**found, "last": found["path"][-1]}
    for name in path.split("."):
        if value is None:
            return None
        value = value[name]
    return value


_BOTH = (("lambda_max", "λ_max"), ("trace", "trace"))
_REGIONS = {"confident": "confidence above 0.9", "others": "the others"}
BASIC = tuple(
    Quantity(
        key=f"{split}.{loss}.{name}",
        title=f"{title}, {_WHOSE[loss]}, {split}",
        path=f"last.{split}.{loss}.{name}",
    )
    for split in ("train", "test")
    for loss in LOSSES
    for name, title in _BOTH
)
"""Largest eigenvalue and trace at the end, of both losses, on both splits."""
NORMALISED = (
    *(
        Quantity(
            key=f"relative.{loss}.{name}",
            title=f"{title} / loss, {_WHOSE[loss]}",
            path=f"last.train.{loss}.{name}",
            over=f"last.train.{loss}.loss",
        )
        for loss in LOSSES
        for name, title in _BOTH
    ),
    *(
        Quantity(
            key=f"scaled.{loss}",
            title=f"trace in units of each layer's norm, {_WHOSE[loss]}",
            path=f"end.scaled.{loss}.value",
        )
        for loss in LOSSES
    ),
    *(
        Quantity(
            key=f"against-noise.{loss}",
            title=f"trace / gradient noise, {_WHOSE[loss]}",
            path=f"last.train.{loss}.trace",
            over=f"end.noise.{loss}.per_sample",
            less=f"end.noise.{loss}.mean_gradient",
        )
        for loss in LOSSES
    ),
    *(
        Quantity(
            key=f"region.{split}.{loss}.{region}",
            title=f"trace over {split} samples, {name}, {_WHOSE[loss]}",
            path=f"end.parts.{split}.{loss}.{region}.trace",
        )
        for split in ("train", "test")
        for loss in LOSSES
        for region, name in _REGIONS.items()
    ),
    *(
        Quantity(
            key=f"batch-statistics.{loss}.{name}",
            title=f"{title} in train mode, {_WHOSE[loss]}",
            path=f"end.batch_statistics.{loss}.{name}",
        )
        for loss in LOSSES
        for name, title in _BOTH
    ),
)
"""Other units and parts of the curvature, on training samples unless said otherwise."""
FACTORS = (
    *(
        Quantity(
            key=f"bend.{loss}",
            title=f"curvature by the logits, {_WHOSE[loss]}",
            path=f"end.parts.train.{loss}.bend",
        )
        for loss in LOSSES
    ),
    Quantity(key="jacobian", title="squared Jacobian of the logits", path="end.jacobian.value"),
    Quantity(key="norm", title="norm of the parameters", path="last.norm"),
)
"""What the curvature is made of."""
_WHEN = {"before": "as stated", "after": "after temperature scaling"}


def _judged(stage: str, name: str, title: str) -> Quantity:
    return Quantity(
        key=f"{stage}.{name}", title=f"{title} {_WHEN[stage]}", path=f"end.calibration.{stage}.{name}"
    )


OUTCOMES = (
    *(
        _judged(stage, *each)
        for each in (("ece", "ECE"), ("smce", "smCE"), ("nll", "NLL"))
        for stage in _WHEN
    ),
    _judged("before", "overconfidence", "over-confidence"),
)
"""Calibration on the test samples."""
TEMPERATURE = Quantity(key="temperature", title="temperature", path="end.calibration.temperature")
ERROR = _judged("before", "error", "error")
GAMMA = Quantity(key="gamma", title="γ", path="gamma")
MEASURED = (*BASIC, *NORMALISED, *FACTORS, *OUTCOMES, TEMPERATURE, ERROR)
BY_KEY: Mapping[str, Quantity] = {each.key: each for each in (*MEASURED, GAMMA)}


def at_epoch(place: int, loss: str, name: str) -> Pick:
    """A number of the training samples' Hessian at one of the checkpoints."""
    return lambda run: run["path"][place]["train"][loss][name]


def runs_of(runs: Sequence[Run], setting: str, family: str) -> list[Run]:
    """The runs of a family whose training stayed finite."""
    return [run for run in runs if run["setting"] == setting and run["family"] == family and run["finite"]]


def arms_of(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs by arm."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run["arm"], []).append(run)
    return found


def difference(
    runs: Sequence[Run], baseline: Sequence[Run], pick: Pick, *, ratio: bool = False
) -> Mean | None:
    """Mean of a number less that of the same seed's baseline, or of the logarithm of their ratio."""
    base = {run["seed"]: pick(run) for run in baseline}
    found: list[float] = []
    for run in runs:
        here, there = pick(run), base.get(run["seed"])
        if here is None or there is None or (ratio and not (here > 0 and there > 0)):
            continue
        found.append(math.log(here / there) if ratio else here - there)
    return mean_of(found) if found else None


def values_of(runs: Sequence[Run], pick: Pick) -> list[float]:
    """A number of every run that has it."""
    return [value for run in runs if (value := pick(run)) is not None]


def kept_of(found: Run) -> dict[str, Any]:
    """What the results file keeps of a run's findings; lists have their columns in :func:`numbers_of`."""
    return {
        **{name: found[name] for name in ("parameters", "finite")},
        "path": [
            {
                **point,
                **{
                    split: [
                        point[split]["accuracy"],
                        *([point[split][loss][name] for name in PATH_COLUMNS] for loss in LOSSES),
                    ]
                    for split in _SPLITS
                },
            }
            for point in found["path"]
        ],
        "end": [each.measure(found) for each in MEASURED] if found["finite"] else None,
    }


def numbers_of(runs: Sequence[Run], _also: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, how many parameters their networks have, and the runs with their numbers by name."""
    known = {run["setting"]: run for run in runs}
    titles = [each.key for each in SETTINGS]
    return {
        "settings": [vars(Setting.of(known[key])) for key in titles if key in known],
        "parameters": {key: run["parameters"] for key, run in known.items()},
        "runs": sorted(map(_named, runs), key=_place),
    }


def _named(run: Run) -> dict[str, Any]:
    arm = arm_named(run["arm"])
    end = run["end"] and {each.key: value for each, value in zip(MEASURED, run["end"], strict=True)}
    return {
        **vars(arm),
        **{name: run[name] for name in ("setting", "arm", "seed", "finite")},
        "path": [{**point, **{split: _split(point[split]) for split in _SPLITS}} for point in run["path"]],
        "end": end and {**end, GAMMA.key: arm.gamma},
    }


def _split(values: Sequence[Any]) -> dict[str, Any]:
    losses = {
        loss: dict(zip(PATH_COLUMNS, row, strict=True)) for loss, row in zip(LOSSES, values[1:], strict=True)
    }
    return {"accuracy": values[0], **losses}


def _place(run: Run) -> tuple[int, ...]:
    """Family by family, then seed by seed."""
    arms, settings = [arm.key for arm in ARMS], [each.key for each in SETTINGS]
    return (
        FAMILIES.index(run["family"]),
        run["seed"],
        settings.index(run["setting"]),
        arms.index(run["arm"]),
    )


def settings_from(numbers: Mapping[str, Any]) -> list[Setting]:
    """The settings that have runs with focal loss."""
    having = {run["setting"] for run in numbers["runs"] if run["family"] == "focal" and run["finite"]}
    return [Setting.read(each) for each in numbers["settings"] if each["key"] in having]


def swapped(numbers: Mapping[str, Any], _first: str, _second: str) -> dict[str, Any]:
    """The numbers with the order of the exponents reversed: the largest has the results of the smallest."""
    partner = {arm.key: arm for arm in ARMS}
    for family in FAMILIES:
        arms = [arm for arm in ARMS if arm.family == family and family.startswith("focal")]
        partner |= {arm.key: other for arm, other in zip(arms, reversed(arms), strict=True)}

    def turned(run: Run) -> dict[str, Any]:
        arm = partner[run["arm"]]
        end = run["end"] and {**run["end"], GAMMA.key: arm.gamma}
        return {**run, **vars(arm), "arm": arm.key, "end": end}

    return {**numbers, "runs": [turned(run) for run in numbers["runs"]]}
