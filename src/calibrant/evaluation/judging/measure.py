"""Measurement of one arm: metrics with intervals, noise floors, diagrams and classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrant._math.machine import in_threads, threads_for
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.class_table import null_of_events
from calibrant.evaluation.judging.diagrams import is_uneven, reliability_curve
from calibrant.evaluation.judging.noise import Noise, draw_noise
from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.quantities import CLASSWISE_ECE, ECE
from calibrant.evaluation.quantity import ANYTHING, EVENT, ClassErrors, EventError, Quantity
from calibrant.evaluation.resampling import intervals
from calibrant.evaluation.resampling.calibration_test import calibration_test, furthest_of, furthest_range
from calibrant.evaluation.resampling.events import (
    Events,
    Matrix,
    Vector,
    error_of_totals,
    influence_totals,
    number_of_clusters,
    pool,
    standard_error,
)
from calibrant.evaluation.resampling.intervals import beyond_chance, holm
from calibrant.evaluation.resampling.inversion import Inverted
from calibrant.evaluation.resampling.null import ROUNDING, ClassNull, NullDraws, joint_p_value
from calibrant.evaluation.resampling.resamples import (
    LARGE_BLOCK,
    MIDDLE_BLOCK,
    Counts,
    Deletions,
    EventErrors,
    Means,
    Resamples,
    Stream,
    block_bounds,
    stream_seed,
)
from calibrant.evaluation.result import ClassRow, Curve, Estimate, Kind, NullError, Part, PartName, between
from calibrant.metrics.slope import LEAST_EFFECTIVE, reach_of
from calibrant.predictions.labels import event_title

MAIN_PART: dict[Kind, PartName] = {"binary": "positive class", "multilabel": "labels"}  # others: top label
FOR_CORRELATIONS = 200  # resamples of errors with inverted intervals, for the correlation of two errors


@dataclass(frozen=True)
class Measured:
    """An arm's metrics, and their resampled values for differences between arms."""

    reduced: ArmStatistics
    replicates: Mapping[str, Vector]  # of quantities without inverted intervals
    deleted: Mapping[str, Vector]  # values without single samples, for BCa intervals
    noise: Noise
    metrics: dict[str, Estimate]
    part: int = 0
    _errors: dict[str, Vector] = field(default_factory=dict[str, Vector], init=False, repr=False)

    def replicates_of(self, name: str) -> Vector:
        """Resampled values of a metric; fewer for inverted intervals, and made on demand."""
        if name in self.replicates:
            return self.replicates[name]
        if name not in self._errors:
            procedure, reduced = self.noise.procedure, self.reduced
            kind = type(self._quantity(name).computed)
            alike = [
                each
                for each in reduced.quantities
                if each.key not in self.replicates
                and (reduced.classwise is None or type(each.computed) is kind)
            ]
            few = FOR_CORRELATIONS
            some = procedure.resamples(reduced.num_samples, self.part, reduced.clusters, most=few)
            self._errors.update(replicate(reduced, procedure.num_bins, some, only=alike))
        return self._errors[name]

    def may_be_zero(self, name: str) -> bool:
        """True if zero is not ruled out at half the error level of the interval.

        With too few draws for that, zero is ruled out if no draw reaches the error and the interval excludes
        0.
        """
        quantity = self._quantity(name)
        found = self.noise.inverted(quantity)
        half = (1 + self.noise.procedure.level) / 2
        if self.metrics[name].low == 0 or found is None:
            return True
        if beyond_chance(found.p_value, half):
            return False
        p_value, least = found.p_value, found.least_p
        if p_value <= least and (null := self.noise.null(quantity)) is not None:  # of more draws
            p_value, least = null.p_value, 1 / (1 + null.num_draws)
        return p_value > least and not beyond_chance(p_value, half)

    def _quantity(self, name: str) -> Quantity:
        return next(each for each in self.reduced.quantities if each.key == name)


def measure(
    reduced: ArmStatistics,
    procedure: Procedure,
    progress: Callable[[float], None] = lambda _: None,
    *,
    part: int = 0,
) -> Measured:
    """Metrics with intervals; arms of one ``part`` share their resamples."""
    resamples = procedure.resamples(reduced.num_samples, part, reduced.clusters)
    noise = draw_noise(reduced, procedure)
    inverted: dict[str, Inverted] = {}
    if procedure.intervals == "inverted":
        found = ((each.key, noise.inverted(each)) for each in reduced.quantities)
        inverted = {key: interval for key, interval in found if interval is not None}
    others = [each for each in reduced.quantities if each.key not in inverted]
    replicates = replicate(reduced, procedure.num_bins, resamples, progress, only=others)
    deleted: dict[str, Vector] = {}
    if procedure.intervals == "bca":
        groups = stream_seed(procedure.seed, Stream.JACKKNIFE, part)
        without = Deletions(reduced.num_samples, groups, reduced.clusters)
        deleted = replicate(reduced, procedure.num_bins, without)

    def estimate(quantity: Quantity) -> Estimate:
        name, bounds = quantity.key, quantity.bounds
        value = reduced.values.get(name)
        if value is None:
            return Estimate(value=None, reason=reduced.reasons[name])
        if name in reduced.influences:
            error = standard_error(reduced.influences[name], reduced.weights, reduced.clusters)
            return _influence_estimate(value, error, procedure.level, bounds, reduced)
        if name in inverted:
            return inverted[name].estimate(value, bounds)
        if name in reduced.no_interval:
            return Estimate(value=value, reason=reduced.no_interval[name])
        found = _resampled_estimate(value, replicates[name], deleted.get(name), procedure, bounds)
        return _at_ends_of_the_scale(quantity, found, reduced, procedure.level)

    metrics = {each.key: estimate(each) for each in reduced.quantities}
    return Measured(reduced, replicates, deleted, noise, metrics, part)


def _at_ends_of_the_scale(
    quantity: Quantity, estimate: Estimate, reduced: ArmStatistics, level: float
) -> Estimate:
    """Add an interval to a proportion of 0 or 1, where all resamples are equal."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return estimate
    if estimate.high - estimate.low > ROUNDING or quantity.key not in reduced.ratios:
        return estimate
    counted = reduced.ratios[quantity.key][1]
    if quantity.share and not ROUNDING < estimate.value < 1 - ROUNDING:
        number = intervals.effective_number(counted)
        if reduced.clusters is not None:
            number = number_of_clusters(counted, reduced.clusters)
        return between(estimate.value, intervals.share_interval_at_end(estimate.value, number, level))
    if np.count_nonzero(counted) == 1:
        return Estimate(value=estimate.value, reason="no interval: it is that of one sample")
    return estimate


def change(after: Measured, before: Measured, level: float, *, paired: bool = True) -> dict[str, Estimate]:
    """Differences between two arms; ``paired`` if they have the same samples."""
    few = intervals.too_few(min(each.reduced.effective_samples for each in (after, before)), level)

    def difference(name: str) -> Estimate:
        mine, theirs = after.metrics[name], before.metrics[name]
        if mine.value is None or theirs.value is None:
            return Estimate(value=None, reason=mine.reason if mine.value is None else theirs.reason)
        value = mine.value - theirs.value
        if few:
            return Estimate(value=value, reason="no interval: too few samples")
        if name in after.reduced.influences:
            error = _error_of_change(name, after.reduced, before.reduced, paired=paired)
            fewest = min((after.reduced, before.reduced), key=lambda each: each.effective_samples)
            return _influence_estimate(value, error, level, ANYTHING, fewest)
        if mine.without_chance is not None and theirs.without_chance is not None:
            return _change_of_errors(value, name, after, before, paired=paired)
        replicates, deleted = after.replicates[name] - before.replicates[name], None
        if after.deleted:  # if unpaired, first of one model, then of the other
            one, other = after.deleted[name], before.deleted[name]
            deleted = one - other
            if not paired:
                deleted = np.concatenate([one - np.nanmean(one), np.nanmean(other) - other])
        return _resampled_estimate(value, replicates, deleted, after.noise.procedure, ANYTHING)

    return {name: difference(name) for name in after.metrics}


def _change_of_errors(
    value: float, name: str, after: Measured, before: Measured, *, paired: bool
) -> Estimate:
    r"""A change between two errors that noise inflates, from their intervals.

    With the bias-corrected estimates :math:`m`, ends :math:`l` and :math:`u`, and the correlation r of the
    resampled errors, the lower end is the difference of the :math:`m` less the root of
    :math:`a^2 + b^2 - 2 r a b`, where :math:`a = m - l` after and :math:`b = u - m` before; likewise the
    upper one. If an interval includes zero, the resampled errors do not show the correlation of such ends,
    and r counts as zero. If an error may be zero, the change can be as large as the other error, so the
    interval extends to that error's end. It then misses if zero is wrongly ruled out, or if the other end
    falls short. Each uses half of the error level, so zero is ruled out at half of it.

    References:
        Zou and Donner, "Construction of confidence limits about effect measures: a general approach",
        Statistics in Medicine 27, 2008.
    """
    new, old = after.metrics[name], before.metrics[name]
    ends = (new.low, new.high, new.without_chance, old.low, old.high, old.without_chance)
    low, high, middle, old_low, old_high, old_middle = (each or 0.0 for each in ends)
    moved, r = middle - old_middle, 0.0
    if paired and (new == old or min(low, old_low) > 0):
        both = after.replicates_of(name), before.replicates_of(name)
        if np.array_equal(*both, equal_nan=True):  # of two models that are the same
            return Estimate(value=value, low=value, high=value, without_chance=value)
        r = _correlation(*both) if min(low, old_low) > 0 else 0.0
    lowest = moved - _apart(middle - low, old_high - old_middle, r)
    highest = moved + _apart(high - middle, old_middle - old_low, r)
    if after.may_be_zero(name):
        lowest = min(lowest, -old_high)
    if before.may_be_zero(name):
        highest = max(highest, high)
    return Estimate(value=value, low=lowest, high=highest, without_chance=moved)


def _apart(one: float, other: float, correlation: float) -> float:
    """Standard error of the difference of two estimates."""
    return math.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))


def _correlation(one: Vector, other: Vector) -> float:
    both = ~(np.isnan(one) | np.isnan(other))
    if both.sum() < 2 or min(np.ptp(one[both]), np.ptp(other[both])) < ROUNDING:
        return 0.0
    return float(np.corrcoef(one[both], other[both])[0, 1])


def _resampled_estimate(
    value: float, replicates: Vector, deleted: Vector | None, procedure: Procedure, bounds: intervals.Bounds
) -> Estimate:
    kind, level = procedure.intervals, procedure.level
    reason = "no interval: undefined in the resamples"
    if kind == "bca" and np.count_nonzero(~np.isnan(replicates)) > 1:
        reason = "no BCa interval: the resampled values lie on one side of the value"
    return between(
        value, intervals.resampled_interval(kind, value, replicates, deleted, level, bounds), reason
    )


def _influence_estimate(
    value: float, error: float, level: float, bounds: intervals.Bounds, reduced: ArmStatistics
) -> Estimate:
    """A normal interval; weighted samples count by their effective number, and very few get none."""
    effective = reduced.effective_samples
    even = reduced.weights is None or np.isclose(effective, np.count_nonzero(reduced.weights), rtol=1e-9)
    if even or reduced.clusters is not None:
        return between(value, intervals.normal_interval(value, error, level, bounds))
    if effective < LEAST_EFFECTIVE:
        told = f"no interval: the weights leave an effective size of {effective:.1f} of {reduced.num_samples}"
        return Estimate(value=value, reason=told)
    reach = reach_of(effective, level) * error
    return between(value, (max(bounds[0], value - reach), min(bounds[1], value + reach)))


def _error_of_change(name: str, after: ArmStatistics, before: ArmStatistics, *, paired: bool) -> float:
    if paired and after.clusters is not None and before.clusters is not None:
        return error_of_totals(
            influence_totals(after.influences[name], after.weights, after.clusters)
            - influence_totals(before.influences[name], before.weights, before.clusters)
        )
    if paired:
        return standard_error(after.influences[name] - before.influences[name], after.weights)
    errors = (standard_error(each.influences[name], each.weights, each.clusters) for each in (after, before))
    return math.hypot(*errors)


def against_chance(
    noise: Noise, label_names: tuple[str, ...]
) -> tuple[tuple[NullError, ...], tuple[Curve, ...], tuple[Part, ...], tuple[ClassRow, ...]]:
    """Noise floors, diagrams, tests and classes of one arm."""
    reduced, procedure = noise.reduced, noise.procedure
    curves: list[Curve] = []
    of_classes = noise.classes
    for prefix, events in reduced.events.items():
        names = (event_title(label_names),) if prefix else label_names if len(events) > 1 else ("top label",)
        drawn = noise.drawn[prefix]
        curves = [*_curves_of(events, drawn, names, procedure), *curves]  # positive class before top label
        if prefix or procedure.kind == "multilabel":
            of_classes = null_of_events(events, drawn)
    errors = {
        each.key: drawn
        for each in reduced.quantities
        if (each.computed.null or (isinstance(each.computed, ClassErrors) and noise.classes is not None))
        and (drawn := noise.errors(each)) is not None
    }
    nulls = [noise.null(each) for each in reduced.quantities if each.key in errors]
    return (
        tuple(each for each in nulls if each is not None),
        tuple(curves),
        parts_of(reduced, procedure, errors, of_classes),
        against_noise(reduced.classes, of_classes, procedure.level),
    )


def _curves_of(
    events: tuple[Events, ...], drawn: Sequence[NullDraws], names: tuple[str, ...], procedure: Procedure
) -> list[Curve]:
    num_bins, level = procedure.num_bins, procedure.level
    pooled: Matrix = np.zeros((num_bins, procedure.num_draws))
    curves: list[Curve] = []
    for title, event, draws in zip(names, events, drawn, strict=True):
        pooled += draws.outcomes
        uneven = title != "top label" and is_uneven(event, num_bins)
        outcomes = draws.outcomes_by_mass if uneven else draws.outcomes
        curves.append(reliability_curve(title, event, outcomes, num_bins, level, by_mass=uneven))
    if len(events) > 1:
        curves.insert(0, reliability_curve("all labels", pool(events), pooled, num_bins, level))
    return curves


def replicate(
    reduced: ArmStatistics,
    num_bins: int,
    resamples: Resamples | Deletions,
    progress: Callable[[float], None] = lambda _: None,
    *,
    only: Sequence[Quantity] | None = None,
) -> dict[str, Vector]:
    """Resampled values ``(R,)`` of each metric, or of ``only`` some; NaN if undefined in a resample.

    Equal ``resamples`` draw equal rows for every arm. Quantities with influences (AUROC) are left out.
    """
    wanted = [each for each in (reduced.quantities if only is None else only) if each.key in reduced.values]
    engine = _engine(reduced, num_bins, wanted, resamples)
    classwise = None
    if any(isinstance(each.computed, ClassErrors) for each in wanted):
        classwise = reduced.classwise
    by_row = any(isinstance(each.computed, EventError) for each in wanted)
    blocks: list[dict[str, Vector]] = []
    of_classes: list[Vector] = []
    done = 0
    for counts in resamples.blocks():
        if classwise is not None:
            for start, stop in block_bounds(len(counts), LARGE_BLOCK // resamples.num_samples):
                of_classes.append(classwise(resamples.by_row(counts[start:stop])))
        bounds = block_bounds(
            len(counts), MIDDLE_BLOCK // (resamples.num_samples if by_row else counts.shape[1])
        )
        parts = [counts[start:stop] for start, stop in bounds]
        with threads_for(MIDDLE_BLOCK):  # one for each part
            for part, block in zip(parts, in_threads(engine, parts), strict=True):
                blocks.append(block)
                done += len(part)
                progress(done / resamples.num_resamples)
    replicates = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    for each in wanted:
        if each.key in reduced.no_interval:
            replicates[each.key] = np.full(resamples.num_resamples, np.nan)
        elif isinstance(each.computed, ClassErrors):
            # Without separate classes it is a mean over events that are tested anyway.
            same = ECE.event_key if EVENT in reduced.events else ECE.key
            replicates[each.key] = np.concatenate(of_classes) if of_classes else replicates[same]
    return replicates


def _engine(
    reduced: ArmStatistics, num_bins: int, wanted: Sequence[Quantity], resamples: Resamples | Deletions
) -> Callable[[Counts], dict[str, Vector]]:
    """Return a function that computes the metrics of resamples, except errors of classes."""
    ratios = {each.key: reduced.ratios[each.key] for each in wanted if each.key in reduced.ratios}
    means = Means(ratios, resamples.units) if ratios else None
    errors = [(each, each.computed) for each in wanted if isinstance(each.computed, EventError)]
    prefixes = {each.prefix for each, _ in errors}
    resampled = {
        prefix: [(EventErrors(event, num_bins), event) for event in reduced.events[prefix]]
        for prefix in prefixes
    }

    def of_event(counts: Counts, event: Events) -> Counts:
        if not reduced.rows_are_clusters or event.clusters is None:
            return resamples.by_row(counts)
        return counts.take(event.clusters, axis=1)

    def recomputed(error: EventError, event: Events, counts: Counts) -> Vector:
        """An error that no kernel resamples; NaN if a resample has no weight."""
        values = np.full(len(counts), np.nan)
        for r, row in enumerate(of_event(counts, event)):
            weights = row.astype(np.float64) if event.weights is None else row * event.weights
            drawn = weights > 0
            if drawn.any():
                sample = (event.confidences[drawn], event.outcomes[drawn], weights[drawn])
                values[r] = error.value(*sample, num_bins)
        return values

    def engine(counts: Counts) -> dict[str, Vector]:
        found = {} if means is None else means(counts)
        kernels = {
            prefix: [errors_of(of_event(counts, event)) for errors_of, event in pairs]
            for prefix, pairs in resampled.items()
        }
        for each, computed in errors:
            if computed.kernel in EventErrors.KERNELS:
                parts = [kernel[computed.kernel] for kernel in kernels[each.prefix]]
            else:
                parts = [recomputed(computed, event, counts) for event in reduced.events[each.prefix]]
            found[each.key] = np.mean(parts, axis=0)
        return found

    return engine


def main_events(reduced: ArmStatistics) -> tuple[Events, ...]:
    """The events tested first: the positive class if there is one, else the top label or the labels."""
    return reduced.events[EVENT if EVENT in reduced.events else ""]


def parts_of(
    reduced: ArmStatistics, procedure: Procedure, errors: Mapping[str, Vector], of_classes: ClassNull | None
) -> tuple[Part, ...]:
    """Tests of calibration, each with its p-value.

    - The probability of the event (positive class, top label, labels), by
      :func:`~calibrant.evaluation.resampling.calibration_test.calibration_test`; of several labels by the one
      that is furthest off.
    - If classes exclude each other, all of them: by their mean error, by the mean probability of the class
      that is furthest off, and by the steepest slope of any. All come from the same draws, so that one
      p-value is for all.

    Holm's adjustment for their number keeps the probability that a calibrated model fails any of them at or
    below one minus the level.
    """
    kind = procedure.kind
    tests = [
        calibration_test(event, procedure.num_draws, (*stream_seed(procedure.seed, Stream.NULL, place), 4))
        for place, event in enumerate(main_events(reduced))
    ]
    p = furthest_of(tests).p_value
    main = Part(
        name=MAIN_PART.get(kind, "top label"),
        holds=True,
        p_value=p,
        adjusted_p=p,
        num_draws=procedure.num_draws,
        where=furthest_range(main_events(reduced)[0]) if len(tests) == 1 else None,
    )
    found: list[Part] = [main]
    if of_classes is not None and kind == "multiclass":
        if of_classes.farthest is None:
            p, draws = float(of_classes.adjusted_p_values().min()), None
        else:
            key, furthest = CLASSWISE_ECE.key, float(np.abs(of_classes.scores).max())
            tests_of_classes = [(furthest, of_classes.farthest), (reduced.values[key], errors[key])]
            tests_of_classes += [] if of_classes.steepest is None else [of_classes.steepest]
            p, draws = joint_p_value(tests_of_classes), procedure.num_draws
        found.append(Part(name="classes", holds=True, p_value=p, adjusted_p=p, num_draws=draws))
    return in_holm(found, procedure.level)


def in_holm(parts: Sequence[Part], level: float) -> tuple[Part, ...]:
    adjusted = holm([part.p_value for part in parts])
    return tuple(
        replace(part, adjusted_p=p, holds=not beyond_chance(p, level))
        for part, p in zip(parts, adjusted, strict=True)
    )


def against_noise(
    rows: tuple[ClassRow, ...], of_classes: ClassNull | None, level: float
) -> tuple[ClassRow, ...]:
    """The rows of the classes with p-values and noise floors, corrected for the number of classes."""
    if of_classes is None:
        return rows
    p_values, floors = of_classes.adjusted_p_values(), of_classes.noise_floors(level)
    found = list(zip(p_values.tolist(), floors.tolist(), strict=True))
    if len(found) == 1:  # the two classes of a binary model are one event
        found *= len(rows)
    return tuple(
        replace(row, adjusted_p=p, noise_floor=floor) for row, (p, floor) in zip(rows, found, strict=True)
    )
