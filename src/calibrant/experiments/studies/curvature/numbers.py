"""What the runs of the curvature study show: the results file, its quantities, and paired differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from calibrant.experiments.means import Mean, mean_of, summary
from calibrant.experiments.studies.curvature.settings import ARMS, FAMILIES, SETTINGS, Setting

LOSSES = ("own", "cross_entropy")
PATH_COLUMNS = ("loss", "lambda_max", "residual", "trace", "trace_error")
_WHOSE = {"own": "own loss", "cross_entropy": "cross-entropy"}
Run: TypeAlias = Mapping[str, Any]
"""A run of the results file, as :func:`runs_from` gives it."""
Pick: TypeAlias = Callable[[Run], "float | None"]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number of each run at the end of training; ``measure`` takes it from a record."""

    key: str
    title: str
    measure: Callable[[Run], float | None]

    def pick(self, run: Run) -> float | None:
        """The number in a run of the results file."""
        return run["end"][self.key]


def _curvature(title: str, split: str, loss: str, name: str) -> Quantity:
    whose = {"own": "own loss", "cross_entropy": "cross-entropy"}[loss]
    return Quantity(
        key=f"{split}.{loss}.{name}",
        title=f"{title}, {whose}, {split}",
        measure=lambda run: run["path"][-1][split][loss][name],
    )


BASIC = tuple(
    _curvature(title, split, loss, name)
    for split in ("train", "test")
    for loss in ("own", "cross_entropy")
    for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
)
"""Largest eigenvalue and trace at the end, of both losses, on both splits."""


def _scaled(loss: str) -> Quantity:
    return Quantity(
        key=f"scaled.{loss}",
        title=f"trace in units of each layer's norm, {_WHOSE[loss]}",
        measure=lambda run: run["end"]["scaled"][loss]["value"],
    )


def _relative(loss: str, name: str, title: str) -> Quantity:
    def measure(run: Run) -> float | None:
        found = run["path"][-1]["train"][loss]
        return found[name] / found["loss"] if found["loss"] > 0 else None

    return Quantity(key=f"relative.{loss}.{name}", title=f"{title} / loss, {_WHOSE[loss]}", measure=measure)


def _against_noise(loss: str) -> Quantity:
    def measure(run: Run) -> float | None:
        noise = run["end"]["noise"][loss]
        spread = noise["per_sample"] - noise["mean_gradient"]
        return run["path"][-1]["train"][loss]["trace"] / spread if spread > 0 else None

    return Quantity(
        key=f"against-noise.{loss}", title=f"trace / gradient noise, {_WHOSE[loss]}", measure=measure
    )


def _region(loss: str, region: str, split: str) -> Quantity:
    names = {"confident": "confidence above 0.9", "others": "the others"}
    return Quantity(
        key=f"region.{split}.{loss}.{region}",
        title=f"trace over {split} samples, {names[region]}, {_WHOSE[loss]}",
        measure=lambda run: run["end"]["parts"][split][loss][region]["trace"],
    )


def _batch_statistics(loss: str, name: str, title: str) -> Quantity:
    def measure(run: Run) -> float | None:
        found = run["end"]["batch_statistics"]
        return None if found is None else found[loss][name]

    return Quantity(
        key=f"batch-statistics.{loss}.{name}", title=f"{title} in train mode, {_WHOSE[loss]}", measure=measure
    )


NORMALISED = (
    *(
        _relative(loss, name, title)
        for loss in LOSSES
        for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
    ),
    *(_scaled(loss) for loss in LOSSES),
    *(_against_noise(loss) for loss in LOSSES),
    *(
        _region(loss, region, split)
        for split in ("train", "test")
        for loss in LOSSES
        for region in ("confident", "others")
    ),
    *(
        _batch_statistics(loss, name, title)
        for loss in LOSSES
        for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
    ),
)
"""Other units and parts of the curvature, on training samples unless said otherwise."""
FACTORS = (
    *(
        Quantity(
            key=f"bend.{loss}",
            title=f"curvature by the logits, {_WHOSE[loss]}",
            measure=lambda run, loss=loss: run["end"]["parts"]["train"][loss]["bend"],
        )
        for loss in LOSSES
    ),
    Quantity(
        key="jacobian",
        title="squared Jacobian of the logits",
        measure=lambda run: run["end"]["jacobian"]["value"],
    ),
    Quantity(key="norm", title="norm of the parameters", measure=lambda run: run["path"][-1]["norm"]),
)
"""What the curvature is made of."""


def _judged(stage: str, name: str, title: str) -> Quantity:
    when = {"before": "as stated", "after": "after temperature scaling"}[stage]
    return Quantity(
        key=f"{stage}.{name}",
        title=f"{title} {when}",
        measure=lambda run: run["end"]["calibration"][stage][name],
    )


OUTCOMES = (
    _judged("before", "ece", "ECE"),
    _judged("after", "ece", "ECE"),
    _judged("before", "smce", "smCE"),
    _judged("after", "smce", "smCE"),
    _judged("before", "nll", "NLL"),
    _judged("after", "nll", "NLL"),
    _judged("before", "overconfidence", "over-confidence"),
)
"""Calibration on the test samples."""
TEMPERATURE = Quantity(
    key="temperature", title="temperature", measure=lambda run: run["end"]["calibration"]["temperature"]
)
ERROR = _judged("before", "error", "error")
GAMMA = Quantity(key="gamma", title="γ", measure=lambda run: run["gamma"])
BY_KEY: Mapping[str, Quantity] = {
    each.key: each for each in (*BASIC, *NORMALISED, *FACTORS, *OUTCOMES, TEMPERATURE, ERROR, GAMMA)
}


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


def in_order(kept: Sequence[Run]) -> list[Run]:
    """The runs that a store holds, with the numbers of their arms: family by family, then seed by seed."""
    arms, settings = {arm.key: arm for arm in ARMS}, [each.key for each in SETTINGS]
    found = [{**vars(arms[run["arm"]]), **run} for run in kept]

    def place(run: Run) -> tuple[int, ...]:
        arm = list(arms).index(run["arm"])
        return FAMILIES.index(run["family"]), run["seed"], settings.index(run["setting"]), arm

    return sorted(found, key=place)


def numbers_of(records: Sequence[Run]) -> dict[str, Any]:
    """The results file: every mean, and each run's own numbers."""
    known = {record["setting"]: Setting.of(record) for record in records}
    settings = [known[each.key] for each in SETTINGS if each.key in known]
    compact = {
        "columns": {"path": list(PATH_COLUMNS), "end": list(BY_KEY)},
        "settings": [vars(setting) for setting in settings],
        "parameters": {record["setting"]: record["parameters"] for record in records},
        "runs": [_compact(record) for record in records],
    }
    runs = runs_from(compact)
    arms = {
        setting.key: {
            arm: {
                key: summary(values) for key, each in BY_KEY.items() if (values := values_of(own, each.pick))
            }
            for family in FAMILIES
            for arm, own in arms_of(runs_of(runs, setting.key, family)).items()
        }
        for setting in settings
    }
    return {**compact, "arms": arms}


def _compact(record: Run) -> dict[str, Any]:
    return {
        **{name: record[name] for name in ("setting", "arm", "seed", "finite")},
        "path": [_point(each) for each in record["path"]],
        "end": [_short(each.measure(record)) for each in BY_KEY.values()] if record["finite"] else None,
    }


def _point(found: Mapping[str, Any]) -> dict[str, Any]:
    """A checkpoint: for each split and loss the numbers that ``columns`` names."""
    return {
        "epoch": found["epoch"],
        **{name: _short(found[name]) for name in ("ece", "nll", "norm")},
        **{
            split: {
                "accuracy": _short(found[split]["accuracy"]),
                **{loss: [_short(found[split][loss][name]) for name in PATH_COLUMNS] for loss in LOSSES},
            }
            for split in ("train", "test")
        },
    }


def _short(value: float | None) -> float | None:
    """Four digits; nothing for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.4g}")


def settings_from(numbers: Mapping[str, Any]) -> list[Setting]:
    """The settings of a results file that have runs with focal loss."""
    having = {run["setting"] for run in runs_from(numbers) if run["family"] == "focal" and run["finite"]}
    return [Setting.read(each) for each in numbers["settings"] if each["key"] in having]


def runs_from(numbers: Mapping[str, Any]) -> list[Run]:
    """The runs of a results file, numbers by name."""
    columns, arms = numbers["columns"], {arm.key: arm for arm in ARMS}

    def named(point: Mapping[str, Any]) -> dict[str, Any]:
        splits = {
            split: {
                **point[split],
                **{loss: dict(zip(columns["path"], point[split][loss], strict=True)) for loss in LOSSES},
            }
            for split in ("train", "test")
        }
        return {**point, **splits}

    return [
        {
            **vars(arms[run["arm"]]),
            **run,
            "path": [named(point) for point in run["path"]],
            "end": run["end"] and dict(zip(columns["end"], run["end"], strict=True)),
        }
        for run in numbers["runs"]
    ]


def swapped(numbers: Mapping[str, Any], _first: str, _second: str) -> dict[str, Any]:
    """The numbers with the order of the exponents reversed: the largest has the results of the smallest."""
    partner: dict[str, str] = {}
    for family in FAMILIES:
        keys = [arm.key for arm in ARMS if arm.family == family]
        partner |= dict(zip(keys, reversed(keys), strict=True)) if family.startswith("focal") else {}
    place = numbers["columns"]["end"].index(GAMMA.key)
    gammas = {arm.key: arm.gamma for arm in ARMS}

    def turned(run: Mapping[str, Any]) -> dict[str, Any]:
        arm = str(partner.get(run["arm"], run["arm"]))
        end = run["end"] and [gammas[arm] if at == place else each for at, each in enumerate(run["end"])]
        return {**run, "arm": arm, "end": end}

    return {**numbers, "runs": [turned(run) for run in numbers["runs"]]}
