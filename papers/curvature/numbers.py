"""What the runs of the curvature study show: the results file, its quantities, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from calibrant._math.means import Mean, mean_of
from papers.curvature.settings import ARMS, FAMILIES, SETTINGS, Setting, arm_named
from papers.grouping import grouped

LOSSES = ("own", "cross_entropy")
_SPLITS = ("train", "test")
PATH_COLUMNS = ("loss", "lambda_max", "residual", "trace", "trace_error")
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


_NAMES: Mapping[str, Mapping[str, str]] = {
    "split": {"train": "train", "test": "test"},
    "loss": {"own": "own loss", "cross_entropy": "cross-entropy"},
    "name": {"lambda_max": "λ_max", "trace": "trace"},
    "region": {"confident": "confidence above 0.9", "others": "the others"},
    "judged": {"ece": "ECE", "smce": "smCE", "nll": "NLL"},
    "stage": {"before": "as stated", "after": "after temperature scaling"},
}
"""What a result file's names are called on the page."""


def _each(of: str, title: str, key: str, path: str, over: str = "", less: str = "") -> list[Quantity]:
    """A quantity for every combination of these names, the first varying slowest."""
    kinds = of.split()
    every = [dict(zip(kinds, chosen, strict=True)) for chosen in product(*(_NAMES[kind] for kind in kinds))]
    return [
        Quantity(
            title=title.format(**{kind: _NAMES[kind][name] for kind, name in names.items()}),
            **{
                field: text.format(**names)
                for field, text in {"key": key, "path": path, "over": over, "less": less}.items()
            },
        )
        for names in every
    ]


BASIC = _each(
    "split loss name", "{name}, {loss}, {split}", "{split}.{loss}.{name}", "last.{split}.{loss}.{name}"
)
"""Largest eigenvalue and trace at the end, of both losses, on both splits."""
_TRACE = "last.train.{loss}.trace"
_NOISE = ("end.noise.{loss}.per_sample", "end.noise.{loss}.mean_gradient")
NORMALISED = [
    *_each(
        "loss name",
        "{name} / loss, {loss}",
        "relative.{loss}.{name}",
        "last.train.{loss}.{name}",
        "last.train.{loss}.loss",
    ),
    *_each("loss", "trace in units of each layer's norm, {loss}", "scaled.{loss}", "end.scaled.{loss}.value"),
    *_each("loss", "trace / gradient noise, {loss}", "against-noise.{loss}", _TRACE, *_NOISE),
    *_each(
        "split loss region",
        "trace over {split} samples, {region}, {loss}",
        "region.{split}.{loss}.{region}",
        "end.parts.{split}.{loss}.{region}.trace",
    ),
    *_each(
        "loss name",
        "{name} in train mode, {loss}",
        "batch-statistics.{loss}.{name}",
        "end.batch_statistics.{loss}.{name}",
    ),
]
"""Other units and parts of the curvature, on training samples unless said otherwise."""
FACTORS = [
    *_each("loss", "curvature by the logits, {loss}", "bend.{loss}", "end.parts.train.{loss}.bend"),
    Quantity(key="jacobian", title="squared Jacobian of the logits", path="end.jacobian.value"),
    Quantity(key="norm", title="norm of the parameters", path="last.norm"),
]
"""What the curvature is made of."""
_SURE, ERROR = (
    Quantity(key=f"before.{name}", title=f"{title} as stated", path=f"end.calibration.before.{name}")
    for name, title in (("overconfidence", "over-confidence"), ("error", "error"))
)
_OUTCOMES = _each("judged stage", "{judged} {stage}", "{stage}.{judged}", "end.calibration.{stage}.{judged}")
OUTCOMES = [*_OUTCOMES, _SURE]
"""Calibration on the test samples."""
TEMPERATURE = Quantity(key="temperature", title="temperature", path="end.calibration.temperature")
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
    return grouped(runs, lambda run: run["arm"])


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
