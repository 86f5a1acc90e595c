"""One arm judged: metrics with intervals, what chance would give, diagrams, classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.bootstrap import replicate
from calibrant.evaluation.curves import reliability_curve
from calibrant.evaluation.intervals import Bounds, normal_interval, percentile_interval
from calibrant.evaluation.null import draw_null, null_error
from calibrant.evaluation.ranking import standard_error
from calibrant.evaluation.reduce import Reduced
from calibrant.evaluation.resampling import Events, Matrix, Resamples, Vector
from calibrant.evaluation.result import Curve, Estimate, Kind, NullError
from calibrant.evaluation.streams import Stream, stream_seed

METRICS = (
    "accuracy",
    "mean_confidence",
    "gap",
    "nll",
    "brier",
    "ece",
    "adaptive_ece",
    "l2_ece",
    "mce",
    "classwise_ece",
    "auroc",
    "entropy",
    "entropy_correct",
    "entropy_incorrect",
    "high_confidence_share",
    "high_confidence_accuracy",
)
MORE_METRICS: Mapping[Kind, tuple[str, ...]] = {
    "binary": ("event_ece", "event_adaptive_ece", "mean_probability", "prevalence"),
    "multilabel": ("mean_probability", "prevalence"),
}
ANYTHING: Bounds = (-math.inf, math.inf)
BOUNDS: Mapping[str, Bounds] = {  # of the others: 0 to 1
    "gap": (-1.0, 1.0),
    "nll": (0.0, math.inf),
    "brier": (0.0, 2.0),
    "entropy": (0.0, math.inf),
    "entropy_correct": (0.0, math.inf),
    "entropy_incorrect": (0.0, math.inf),
}


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """How every arm is judged."""

    kind: Kind
    num_bins: int
    num_resamples: int
    num_draws: int
    level: float
    seed: int

    def __post_init__(self) -> None:
        for name, value, least in (
            ("num_bins", self.num_bins, 1),
            ("bootstrap", self.num_resamples, 2),
            ("null_draws", self.num_draws, 1),
            ("seed", self.seed, 0),
        ):
            if value < least:
                raise InputError(f"`{name}` must be at least {least}; got {value}.")
        if not 0 < self.level < 1:
            raise InputError(f"`level` must lie between 0 and 1, as in 0.95; got {self.level}.")


@dataclass(frozen=True)
class Judged:
    """An arm's metrics, and the resampled ones that differences between arms are made of."""

    reduced: Reduced
    replicates: Mapping[str, Vector]
    metrics: dict[str, Estimate]


def judge(
    reduced: Reduced,
    procedure: Procedure,
    progress: Callable[[float], None] = lambda _: None,
    *,
    part: int = 0,
) -> Judged:
    """Metrics with intervals; arms of the same ``part`` are resampled alike."""
    seed = stream_seed(procedure.seed, Stream.BOOTSTRAP, part)
    num_samples = len(reduced.ratios["accuracy"][0])
    resamples = Resamples(num_samples, procedure.num_resamples, seed)
    replicates = replicate(reduced, procedure.num_bins, resamples, progress)
    metrics: dict[str, Estimate] = {}
    for name in (*METRICS, *MORE_METRICS.get(procedure.kind, ())):
        value, bounds = reduced.values.get(name), BOUNDS.get(name, (0.0, 1.0))
        if value is None:
            metrics[name] = Estimate(value=None, reason=reduced.reasons[name])
        elif name == "auroc":
            metrics[name] = _auroc_estimate(value, reduced, procedure.level, bounds)
        else:
            metrics[name] = _estimate(value, replicates[name], procedure.level, bounds)
    return Judged(reduced, replicates, metrics)


def change(after: Judged, before: Judged, level: float, *, paired: bool = True) -> dict[str, Estimate]:
    """What differs between two arms; ``paired`` if they were judged on the same samples."""
    changes: dict[str, Estimate] = {}
    for name, estimate in after.metrics.items():
        other = before.metrics[name]
        if estimate.value is None or other.value is None:
            changes[name] = Estimate(value=None, reason=estimate.reason or other.reason)
            continue
        value = estimate.value - other.value
        if name == "auroc":
            changes[name] = _auroc_change(value, after.reduced, before.reduced, level, paired=paired)
        else:
            changes[name] = _estimate(
                value, after.replicates[name] - before.replicates[name], level, ANYTHING
            )
    return changes


def _estimate(value: float, replicates: Vector, level: float, bounds: Bounds) -> Estimate:
    interval = percentile_interval(value, replicates, level, bounds)
    if interval is None:
        return Estimate(value=value, reason="no interval: undefined in the resamples")
    return Estimate(value=value, low=interval[0], high=interval[1])


def _auroc_estimate(value: float, reduced: Reduced, level: float, bounds: Bounds) -> Estimate:
    error = standard_error(reduced.influence, reduced.weights)
    low, high = normal_interval(value, error, level, bounds)
    return Estimate(value=value, low=low, high=high)


def _auroc_change(value: float, after: Reduced, before: Reduced, level: float, *, paired: bool) -> Estimate:
    if paired:
        error = standard_error(after.influence - before.influence, after.weights)
    else:
        errors = (standard_error(each.influence, each.weights) for each in (after, before))
        error = math.hypot(*errors)
    low, high = normal_interval(value, error, level, ANYTHING)
    return Estimate(value=value, low=low, high=high)


class NullsAndCurves(TypedDict):
    """What arms and compared models have in common, by the names of their fields."""

    null: tuple[NullError, ...]
    curves: tuple[Curve, ...]


def nulls_and_curves(reduced: Reduced, procedure: Procedure, label_names: tuple[str, ...]) -> NullsAndCurves:
    """What a calibrated model of this size would show, beside what this one does."""
    nulls: list[NullError] = []
    curves: list[Curve] = []
    for prefix, events in reduced.events.items():
        names = ("positive class",) if prefix else label_names if len(events) > 1 else ("top label",)
        means, drawn = _null_of(events, names, procedure)
        curves = [*drawn, *curves]  # the positive class before the top label
        for name, draws in means.items():
            metric = prefix + name
            nulls.append(null_error(metric, reduced.values[metric], draws, procedure.level))
    return {"null": tuple(nulls), "curves": tuple(curves)}


def _null_of(
    events: tuple[Events, ...], names: tuple[str, ...], procedure: Procedure
) -> tuple[dict[str, Vector], list[Curve]]:
    """Mean errors under calibration, and a diagram of each event; of several also one of all."""
    num_bins, num_draws, level = procedure.num_bins, procedure.num_draws, procedure.level
    ece, adaptive = np.zeros(num_draws), np.zeros(num_draws)
    pooled: Matrix = np.zeros((num_bins, num_draws))
    curves: list[Curve] = []
    for part, (name, event) in enumerate(zip(names, events, strict=True)):
        draws = draw_null(event, num_bins, num_draws, stream_seed(procedure.seed, Stream.NULL, part))
        ece += draws.ece / len(events)
        adaptive += draws.adaptive_ece / len(events)
        pooled += draws.outcomes
        curves.append(reliability_curve(name, event, draws.outcomes, num_bins, level))
    if len(events) > 1:
        curves.insert(0, reliability_curve("all labels", pool(events), pooled, num_bins, level))
    return {"ece": ece, "adaptive_ece": adaptive}, curves


def pool(events: tuple[Events, ...]) -> Events:
    """The events of all labels as one."""
    weights = [event.weights for event in events if event.weights is not None]
    return Events(
        np.concatenate([event.confidences for event in events]),
        np.concatenate([event.outcomes for event in events]),
        np.concatenate(weights) if weights else None,
    )
