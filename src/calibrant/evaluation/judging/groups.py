"""The table by group: predicted and actual rates."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.measure import in_holm, main_events, replicate
from calibrant.evaluation.judging.reduce import ArmStatistics, Ratios, effective_number_of, mean_error
from calibrant.evaluation.quantities import ACCURACY, ECE, GAP, MEAN_CONFIDENCE, binned
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.calibration_test import calibration_test, furthest_of
from calibrant.evaluation.resampling.event_cells import BinnedEvents, Kernel
from calibrant.evaluation.resampling.events import Events, Indices
from calibrant.evaluation.resampling.intervals import (
    TOLERABLE_GAP,
    beyond_chance,
    centred_interval,
    holm,
    wilson_interval,
)
from calibrant.evaluation.resampling.inversion import invert
from calibrant.evaluation.resampling.null import draw_null, fewest_draws, noise_of, null_error
from calibrant.evaluation.resampling.resamples import Resamples, Stream, stream_seed
from calibrant.evaluation.result import Arm, Estimate, GroupRow, NullError, Part, between

MEANS = (ACCURACY, MEAN_CONFIDENCE, GAP)
_KEYS = frozenset(each.key for each in MEANS)
_KERNEL: Kernel = "width l1"  # of the ECE
FEWEST = 30  # samples, or clusters, of a group that is tested separately
MOST = 100  # groups that are tested separately: the largest


def group_rows(
    reduced: ArmStatistics, groups: Sequence[str] | None, procedure: Procedure
) -> tuple[GroupRow, ...]:
    r"""One row per group, by name; groups below 30 samples, and all beyond the 100 largest, are pooled.

    A group is evaluated as all samples are: with two classes the positive one counts, resamples of its rows
    give the intervals, and draws of its outcomes the noise floor. Bootstrap intervals of few samples are too
    narrow, so the rate gets Wilson's interval, and that of the gap reaches at least as far.

    ``adjusted_p`` is Holm's. A row is ``vague`` if the interval of its gap is wider than 5 points to a side:
    such a group may be off by as much unnoticed.
    """
    if groups is None:
        return ()
    known = np.asarray(groups, dtype=object)
    weighted = np.arange(len(known))
    if reduced.weights is not None:  # of a group without weight nothing is known
        weighted = np.flatnonzero(np.isin(known.astype(str), known[reduced.weights > 0].astype(str)))
    pooled = pooled_names(
        known[weighted], None if reduced.clusters is None else reduced.clusters[weighted].tolist()
    )
    ratios = None
    if EVENT not in reduced.events:
        ratios = {key: pair for key, pair in reduced.ratios.items() if key in _KEYS}
    names, place = np.unique(pooled, return_inverse=True)
    chosen: list[Group] = []
    for k, name in enumerate(names):
        rows = weighted[place == k]
        events = tuple(event.part(rows) for event in main_events(reduced))
        own = ratios and {key: (above[rows], below[rows]) for key, (above, below) in ratios.items()}
        chosen.append(group_of(str(name), events, len(rows), own))
    return rows_of_groups(chosen, procedure)


def with_groups(arm: Arm, rows: tuple[GroupRow, ...], level: float) -> Arm:
    """Add group rows to the arm; two or more groups are another part of its verdict."""
    if len(rows) < 2:
        return replace(arm, groups=rows)
    p = min(row.adjusted_p for row in rows)
    part = Part(name="groups", holds=True, p_value=p, adjusted_p=p, num_draws=rows[0].null.num_draws)
    return replace(arm, groups=rows, parts=in_holm([*arm.parts, part], level))


Group: TypeAlias = tuple[str, ArmStatistics, int]  # name, statistics, number of samples


def group_of(name: str, events: tuple[Events, ...], count: int, ratios: Ratios | None = None) -> Group:
    """A group with these events; without ratios, the event's frequency counts as accuracy."""
    if ratios is None:
        (event,) = events
        above = (event.outcomes, event.confidences, event.confidences - event.outcomes)
        mass = event.mass
        ratios = {each.key: (mass * values, mass) for each, values in zip(MEANS, above, strict=True)}
    reduced = ArmStatistics(
        quantities=MEANS,
        weights=events[0].weights,
        ratios=ratios,
        events={"": events},
        values={key: float(above.sum() / below.sum()) for key, (above, below) in ratios.items()},
        reasons={},
        influences={},
        clusters=events[0].clusters,
    )
    return name, reduced, count


def rows_of_groups(groups: Sequence[Group], procedure: Procedure) -> tuple[GroupRow, ...]:
    num_draws = max(procedure.num_draws, math.ceil(2 * len(groups) / (1 - procedure.level)))
    found = [_row(each, procedure, num_draws, place=place) for place, each in enumerate(groups)]
    adjusted = holm([row.p_value for row in found])
    rows = [replace(row, adjusted_p=value) for row, value in zip(found, adjusted, strict=True)]
    return tuple(sorted(rows, key=_numbers_in_order))


def _numbers_in_order(row: GroupRow) -> list[tuple[float, str]]:
    """Sort key of a group's name, with 9 before 10."""
    parts = re.split(r"(\d+)", row.name)
    return [(float(part), "") if part.isdecimal() else (math.inf, part) for part in parts]


def _row(group: Group, procedure: Procedure, num_draws: int, *, place: int) -> GroupRow:
    """The row of one group, whose ``adjusted_p`` is not adjusted yet."""
    name, part, count = group
    events, level = part.events[""], procedure.level
    values, estimates = part.values, _intervals(part, procedure, place)
    seed = stream_seed(procedure.seed, Stream.GROUPS, place)
    tests = [calibration_test(event, num_draws, (*seed, 1_000 + label)) for label, event in enumerate(events)]
    p_value = furthest_of(tests).p_value
    null, ece = _error_and_null(events, procedure, num_draws, place)
    accuracy = wilson_interval(min(1.0, values[ACCURACY.key]), effective_number_of(part, ACCURACY.key), level)
    estimates[ACCURACY.key] = between(values[ACCURACY.key], accuracy)
    stated, gap = values[MEAN_CONFIDENCE.key], estimates[GAP.key]
    low = min(value for value in (gap.low, stated - accuracy[1]) if value is not None)
    high = max(value for value in (gap.high, stated - accuracy[0]) if value is not None)
    return GroupRow(
        name=name,
        count=count,
        actual=estimates[ACCURACY.key],
        predicted=estimates[MEAN_CONFIDENCE.key],
        gap=Estimate(value=gap.value, low=low, high=high),
        ece=ece,
        null=null,
        p_value=p_value,
        adjusted_p=p_value,
        vague=(high - low) / 2 > TOLERABLE_GAP,
    )


def _alone(codes: Indices | None, num_samples: int) -> str | None:
    """The reason for a missing interval: a single sample or cluster."""
    units = num_samples if codes is None else int(codes.max()) + 1
    return f"no interval: one {'sample' if codes is None else 'cluster'}" if units < 2 else None


def _intervals(part: ArmStatistics, procedure: Procedure, place: int) -> dict[str, Estimate]:
    """Means with bootstrap intervals, except for a single sample or cluster."""
    values, codes = part.values, part.clusters
    if reason := _alone(codes, part.num_samples):
        return {name: Estimate(value=value, reason=reason) for name, value in values.items()}
    seed = stream_seed(procedure.seed, Stream.GROUPS, place)
    resamples = Resamples(part.num_samples, procedure.num_resamples, seed, codes)
    found = replicate(part, procedure.num_bins, resamples)
    return {
        each.key: between(
            values[each.key],
            centred_interval(values[each.key], found[each.key], procedure.level, each.bounds),
        )
        for each in part.quantities
    }


def _error_and_null(
    events: tuple[Events, ...], procedure: Procedure, num_draws: int, place: int
) -> tuple[NullError, Estimate]:
    observed = mean_error(binned("width", "l1"), events, procedure.num_bins)
    num_bins, num_kept = procedure.num_bins, fewest_draws(procedure.level)
    places = [BinnedEvents(event, num_bins) for event in events]
    seed = stream_seed(procedure.seed, Stream.GROUPS, place)
    drawn = [
        draw_null(cells, num_draws, (*seed, label + 1), num_kept=num_kept)
        for label, cells in enumerate(places)
    ]
    errors = sum(draws.errors[_KERNEL] / len(events) for draws in drawn)
    null = null_error(ECE.key, observed, np.asarray(errors), procedure.level)
    if reason := _alone(events[0].clusters, len(events[0].confidences)):
        return null, Estimate(value=observed, reason=reason)
    real = beyond_chance(null.p_value, procedure.level)
    ends = invert(*noise_of(places, drawn, _KERNEL), procedure.level, real=real, seed=procedure.seed)
    return null, ends.estimate(observed, ECE.bounds)


def pooled_names(groups: np.ndarray[Any, Any], clusters: Iterable[object] | None) -> np.ndarray[Any, Any]:
    """Name to evaluate each sample under: its group's, or one for all small groups.

    Example:
        >>> names = np.array(["a"] * 40 + ["b"] * 3 + ["c"] * 2)
        >>> np.unique(pooled_names(names, None)).tolist()
        ['a', 'other (2 groups)']
    """
    units = range(len(groups)) if clusters is None else clusters
    sizes = Counter(name for name, _ in set(zip(groups.tolist(), units, strict=True)))
    large, other = large_groups(sizes)
    return np.array([name if name in large else other for name in groups.tolist()], dtype=object)


def large_groups(sizes: Mapping[str, int]) -> tuple[set[str], str]:
    """The groups to evaluate separately, and the name of all others together."""
    ranked = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST]
    large = {name for name in ranked if sizes[name] >= FEWEST}
    rest = set(sizes) - large
    return large, f"other ({len(rest)} groups)" if len(rest) > 1 else "".join(rest)
