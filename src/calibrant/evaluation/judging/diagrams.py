"""Diagrams as numbers: reliability with and without bins, smCE witness, risk–coverage, ROC."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrant import metrics
from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import width_edges
from calibrant._math.checks import check_at_least, check_choice, check_level, check_probs, check_whole
from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant._math.sorting import ascending_order
from calibrant._math.text_form import named
from calibrant.evaluation.arguments import Procedure, as_judged, names_of, no_labels, test_of
from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.resampling.event_cells import BinnedEvents, bin_matrix, weights_by_place
from calibrant.evaluation.resampling.events import (
    Events,
    Indices,
    Matrix,
    SignedSums,
    Vector,
    effective_share_number,
    indicator,
    pool,
    standard_error,
    width_bins,
)
from calibrant.evaluation.resampling.intervals import normal_interval, wilson_interval
from calibrant.evaluation.resampling.null import DrawnSums, draw_null
from calibrant.evaluation.resampling.resamples import Stream, block_bounds, generator, stream_seed
from calibrant.evaluation.result import Band, Curve, Estimate, SelectiveRisk, Shapes, Witness, between
from calibrant.metrics.out_of_distribution import Detection, Ranking
from calibrant.predictions import Predictions
from calibrant.predictions.labels import POSITIVE_CLASS, event_title

MOST_IN_ONE = 0.8  # of the mass, in one bin of equal width
LEAST = 1e-9  # probability that the histogram tells from zero
FINE_BINS = 45  # of the histogram, roughly: a multiple of the diagram's bins
EMPTY = (None,) * 6
NOISE_DRAWS = 1000  # for the band of one diagram

MOST_POINTS = 200  # of one curve
BAND_POINTS = 101
BAND_DRAWS = 200  # at most
MOST_DRAWN = 1 << 22  # numbers held at once
MOST_GROUPS = 2_000  # of neighbouring samples, regressed as one
STRAIGHT = 1e-9


def is_uneven(events: Events, num_bins: int) -> bool:
    """True if one bin of equal width holds nearly everything."""
    mass = np.bincount(width_bins(events.confidences, num_bins), events.weights, num_bins)
    return bool(mass.max() > MOST_IN_ONE * mass.sum())


def reliability_curve(
    name: str, events: Events, null_outcomes: Matrix, num_bins: int, level: float, *, by_mass: bool = False
) -> Curve:
    """The diagram of one kind of event.

    ``null_outcomes`` are the sums over its bins ``(B, draws)`` under calibration. Shares have Wilson's
    interval (with weights or clusters, for their effective number); the expected range is that of the share
    under calibration. With bins of equal mass, histogram bins have equal widths of the logarithm.
    """
    stated, index = events.confidences, width_bins(events.confidences, num_bins)
    if by_mass:
        matrix = bin_matrix(events, num_bins)[num_bins:]
    else:
        matrix = weights_by_place(index, num_bins, events.mass).tocsr()
    mass, confidence, outcome = (matrix @ np.stack([np.ones_like(stated), stated, events.outcomes], axis=1)).T
    squares = mass if events.weights is None else matrix.power(2).sum(axis=1)
    tails = [(1 - level) / 2, (1 + level) / 2]
    bins: list[tuple[float | None, ...]] = []
    for b in range(num_bins):
        if mass[b] == 0:
            bins.append(EMPTY)
            continue
        share = min(1.0, outcome[b] / mass[b])
        expected = np.quantile(null_outcomes[b] / mass[b], tails).clip(0, 1).tolist()
        number = mass[b] ** 2 / squares[b]
        if events.clusters is not None:
            part = events.part(np.sort(matrix[[b]].indices))
            number = effective_share_number(part.outcomes, part.weights, part.codes, part.counts.sum())
        interval = wilson_interval(share, float(number), level)
        bins.append((float(confidence[b] / mass[b]), float(share), *interval, *expected))
    means, accuracy, low, high, expected_low, expected_high = zip(*bins, strict=True)

    fine = _fine_edges(stated, num_bins, by_mass=by_mass)
    size = len(fine) - 1
    place = np.clip(np.searchsorted(fine, stated) - 1, 0, size - 1) if by_mass else width_bins(stated, size)
    return Curve(
        name=name,
        edges=_mass_edges(stated, matrix) if by_mass else tuple(width_edges(num_bins).tolist()),
        counts=tuple(_counts(events, matrix) if by_mass else _numbers(index, events, num_bins)),
        confidence=means,
        accuracy=accuracy,
        low=low,
        high=high,
        expected_low=expected_low,
        expected_high=expected_high,
        histogram_edges=tuple(fine.tolist()),
        histogram_correct=tuple(_numbers(place, events, size, events.outcomes > 0)),
        histogram_incorrect=tuple(_numbers(place, events, size, events.outcomes == 0)),
    )


def event_of(predictions: Predictions, class_: int | str | None = None) -> tuple[str, Events]:
    """Name and samples of a diagram's event: one class against the rest, or the main event."""
    if not predictions.has_labels:
        raise no_labels(predictions)
    two = predictions.num_classes == 2 and predictions.kind != "multilabel"
    test = test_of(as_judged(predictions, class_ if two else None))
    weights = None if test.weights is None else test.weights.numpy()
    clusters = None if test.clusters is None else cluster_codes(test.clusters)

    def events(stated: Any, happened: Any) -> Events:
        return Events(stated.double().numpy(), happened.double().numpy(), weights, clusters)

    if test.kind == "binary":
        title = event_title(test.class_names)
        if class_ is not None and title == POSITIVE_CLASS:
            title = str(test.class_names[1] if test.class_names else class_)
        return title, events(test.probs, test.labels)
    if class_ is None and test.kind != "multilabel":
        return "top label", events(test.confidence, test.correct)
    probs, labels = test.probs, test.labels
    if labels is None:
        raise no_labels(predictions)
    if class_ is None:
        return "all labels", pool(tuple(map(events, probs.T, labels.T)))
    names = names_of(test)
    places = {str(place): place for place in range(len(names))}
    place = named(str(class_), places | {name: k for k, name in enumerate(names)}, "class")
    return names[place], events(probs[:, place], labels[:, place] if labels.ndim == 2 else labels == place)


def _curve_of(
    curve: Callable[..., Any],
    predictions: Predictions,
    class_: int | str | None = None,
    *,
    level: float = 0.95,
    **options: Any,
) -> tuple[str, Any]:
    """Name and curve of :func:`event_of`."""
    name, event = event_of(predictions, class_)
    if curve is metrics.decision_curve and name in {"top label", "all labels"}:
        said = "--positive-class, or --label of several labels"
        raise InputError(f"a decision curve needs an event; say which class it is: `class_` ({said}).")
    mass = {"weights": event.weights, "clusters": event.clusters}
    return name, curve(event.confidences, event.outcomes, level=level, **mass, **options)


decisions_of = partial(_curve_of, metrics.decision_curve)
flexible_of = partial(_curve_of, metrics.flexible_calibration_curve)


def curve_of(
    predictions: Predictions,
    class_: int | str | None = None,
    *,
    num_bins: int = 15,
    binning: Literal["width", "mass"] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Curve:
    """Reliability diagram of one event; an uneven one gets bins of equal mass by default."""
    check_whole("bins", num_bins, 1)
    check_level(level)
    if binning is not None:
        check_choice("binning", binning, ("width", "mass"))
    name, event = event_of(predictions, class_)
    drawn = draw_null(BinnedEvents(event, num_bins), NOISE_DRAWS, stream_seed(seed, Stream.NULL))
    uneven = name != "top label" and is_uneven(event, num_bins)
    by_mass = uneven if binning is None else binning == "mass"
    outcomes = drawn.outcomes_by_mass if by_mass else drawn.outcomes
    return reliability_curve(name, event, outcomes, num_bins, level, by_mass=by_mass)


def _fine_edges(stated: Vector, num_bins: int, *, by_mass: bool) -> Vector:
    fine = num_bins * max(1, round(FINE_BINS / num_bins))
    if not by_mass:
        return width_edges(fine).numpy()
    low, high = max(float(stated.min()), LEAST), max(float(stated.max()), 2 * LEAST)
    return np.geomspace(min(low, high / 2), high, fine + 1)


def _mass_edges(stated: Vector, matrix: Any) -> tuple[float, ...]:
    """Bin edges midway between neighbouring bins' values, from 0 to 1."""
    held = [stated[matrix[[b]].indices] for b in range(matrix.shape[0])]
    inner = [
        (float(below.max()) + float(above.min())) / 2 if len(below) and len(above) else math.nan
        for below, above in itertools.pairwise(held)
    ]
    filled = [0.0, *inner, 1.0]
    for place, end in enumerate(filled):
        if math.isnan(end):  # an empty bin has no width
            filled[place] = filled[place - 1]
    return tuple(filled)


def _counts(events: Events, matrix: Any) -> list[int]:
    weights = events.mass
    per_weight = np.divide(events.counts, weights, out=np.zeros_like(weights), where=weights > 0)
    return np.rint(matrix @ per_weight).astype(np.int64).tolist()


def _numbers(
    index: Indices, events: Events, size: int, which: NDArray[np.bool_] | slice = slice(None)
) -> list[int]:
    counts = None if events.numbers is None else events.numbers[which]
    return np.bincount(index[which], counts, size).astype(np.int64).tolist()


def smooth_consistency_band(
    probs: ArrayLike,
    *,
    bandwidth: float,
    weights: ArrayLike | None = None,
    level: float = 0.95,
    num_points: int = 101,
    num_draws: int = 200,
    seed: int = 0,
) -> Band:
    """Pointwise range of the smooth reliability curve when every outcome is drawn from its probability.

    Args:
        probs: Probabilities of the classes ``(N, C)`` (the top label counts) or of an event ``(N,)``.
        bandwidth: That of the curve, as ``smooth_reliability_curve(...).bandwidth``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        level: Share of the draws that lie in the band at each position.
        num_points: Number of positions, equally spaced from 0 to 1 before smoothing.
        num_draws: Number of draws.
        seed: Seed of the draws.

    Returns:
        ``positions`` (stated, smoothed), ``low`` and ``high``, where there are enough samples.

    Raises:
        InputError: If a value is out of range.

    Note:
        As many curves as draws: some milliseconds for each 100 000 samples and draw. Top labels are right or
        wrong with their own probability.

    References:
        Bröcker and Smith, "Increasing the Reliability of Reliability Diagrams", Weather and Forecasting 22,
        2007 (consistency resampling).

    Example:
        >>> import numpy as np
        >>> probs = np.random.default_rng(0).uniform(size=500)
        >>> band = smooth_consistency_band(probs, bandwidth=0.05, num_points=3)
        >>> all(low < at < high for at, low, high in zip(band.positions, band.low, band.high))
        True
    """
    check_level(level)
    check_at_least("num_draws", num_draws, 2)
    checked = check_probs(probs, None, weights)
    stated = checked.scores.amax(dim=1) if checked.task == "multiclass" else checked.scores
    confidences = stated.double().clamp(max=1).cpu().numpy()
    rng = generator(seed, Stream.NULL)
    draws = (rng.random(len(confidences)) < confidences for _ in range(num_draws))
    curves = [
        metrics.smooth_reliability_curve(
            confidences, drawn, bandwidth=bandwidth, num_points=num_points, weights=weights
        )
        for drawn in draws
    ]
    known = [place for place, found in enumerate(curves[0].outcome) if found is not None]
    outcomes = np.array([[curve.outcome[place] for place in known] for curve in curves], dtype=np.float64)
    return _band([curves[0].confidence[place] or 0.0 for place in known], outcomes, level)


def _band(positions: Sequence[float], curves: Matrix, level: float) -> Band:
    low, high = np.quantile(curves, [(1 - level) / 2, (1 + level) / 2], axis=0)
    high = np.minimum(high, 1)
    return Band(positions=tuple(positions), low=tuple(low.tolist()), high=tuple(high.tolist()))


def shapes_of_arm(reduced: ArmStatistics, procedure: Procedure, names: tuple[str, ...]) -> tuple[Shapes, ...]:
    """The diagrams of all samples: of the positive class and the top label, or of all labels together."""
    kind, level, seed = procedure.kind, procedure.level, procedure.seed
    draws = min(BAND_DRAWS, procedure.num_draws)

    def of(name: str, event: Events, decision: Events | None) -> Shapes:
        return shapes_of(name, event, decision, level=level, seed=seed, draws=draws)

    top = reduced.events[""]
    if kind == "multilabel":
        event = pool(top)
        sure = np.maximum(event.confidences, 1 - event.confidences)
        right = ((event.confidences > 0.5) == (event.outcomes > 0)).astype(np.float64)
        return (of("all labels", event, Events(sure, right, event.weights, event.clusters)),)
    found = (of("top label", top[0], top[0]),)
    return (of(event_title(names), reduced.events["event_"][0], None), *found) if kind == "binary" else found


def shapes_of(
    name: str, event: Events, decision: Events | None, *, level: float, seed: int, draws: int = BAND_DRAWS
) -> Shapes:
    """Diagrams of one event and, if given, of decisions: confidences and whether answers were right."""
    probs, outcomes = event.confidences, event.outcomes
    value, *function = event.witness
    points, values = _bends(*function)
    vars(event).pop("witness")  # as large as the samples
    return Shapes(
        name=name,
        corp=metrics.corp_reliability_curve(probs, outcomes, weights=event.weights),
        band=consistency_band(event, level=level, seed=seed, draws=draws),
        witness=Witness(value=value, points=tuple(points.tolist()), values=tuple(values.tolist())),
        selection=None if decision is None else selection(decision, level),
        roc=None if decision is event else _roc(event),
    )


def consistency_band(event: Events, *, level: float, seed: int, draws: int = BAND_DRAWS) -> Band:
    """Pointwise range of the CORP curve when every outcome is drawn from its stated probability.

    At each of 101 equally spaced positions between the lowest and the highest probability; beyond these the
    curve is not defined. In clusters the signs of residuals are drawn, the same for all of a cluster.
    """
    from calibrant.evaluation.resampling.kernels import isotonic_curves  # compiled

    order = ascending_order(event.confidences)
    stated = event.confidences[order]
    mass = event.mass[order]
    counted = mass > 0
    stated, mass = stated[counted], mass[counted]
    starts = np.append(0, np.flatnonzero(np.diff(stated)) + 1)  # of ties
    starts = starts[:: -(-len(starts) // MOST_GROUPS)]
    squares = mass if event.squares is None else event.squares[order][counted]
    drawn = None if event.counted else DrawnSums(stated, mass, starts)
    weights = np.add.reduceat(mass, starts)
    points = np.add.reduceat(mass * stated, starts) / weights
    positions = np.linspace(points[0], points[-1], BAND_POINTS)
    rng = generator(seed, Stream.NULL, part=1_000_003)  # a part of its own, far from those of the labels
    curves = np.empty((draws, BAND_POINTS))
    moved = None if event.clusters is None else _signed(event, order[counted], starts, seed)
    for start, stop in block_bounds(draws, MOST_DRAWN // (len(starts) if drawn is None else drawn.size)):
        expected = weights * points
        if drawn is None:
            spread = np.sqrt(np.add.reduceat(squares * stated * (1 - stated), starts))
            sums = expected + spread * rng.standard_normal((stop - start, len(spread)))
        else:
            sums = drawn.draw(rng, stop - start).T
        if moved is not None:
            sums = (moved.draw((sums - expected).T)[0].T + expected).clip(0.0, weights)
        curves[start:stop] = isotonic_curves(points, weights, np.ascontiguousarray(sums), positions)
    return _band(positions.tolist(), curves, level)


def _signed(event: Events, rows: NDArray[np.int64], starts: NDArray[np.int64], seed: int) -> SignedSums:
    """Cluster noise of sums over neighbours, which begin at ``starts`` in the ordered rows."""
    part = event.part(rows)
    residuals = indicator(part.codes, part.mass * (part.outcomes - part.confidences))
    point = np.zeros(len(rows), np.int64)
    point[starts[1:]] = 1
    variance = np.add.reduceat(part.squared_mass * part.confidences * (1 - part.confidences), starts)
    return SignedSums(indicator(np.cumsum(point)).T @ residuals, variance, (seed, 3))


def selection(decision: Events, level: float) -> SelectiveRisk:
    """The risk–coverage curve of decisions, and its areas with intervals from the samples' influences."""
    losses = 1 - decision.outcomes
    curve = metrics.selective_risk_curve(decision.confidences, losses, weights=decision.weights)
    influence, excess = area_influences(decision.confidences, losses, curve)
    places = _spread(np.array(curve.coverage))
    thinned = metrics.RiskCoverageCurve(
        thresholds=tuple(curve.thresholds[i] for i in places),
        coverage=tuple(curve.coverage[i] for i in places),
        risk=tuple(curve.risk[i] for i in places),
        area=curve.area,
        excess_area=curve.excess_area,
    )
    return SelectiveRisk(
        curve=thinned,
        area=_estimate(curve.area, influence, decision, level),
        excess_area=_estimate(curve.excess_area, excess, decision, level),
    )


def area_influences(
    confidences: Vector, losses: Vector, curve: metrics.RiskCoverageCurve
) -> tuple[Vector, Vector]:
    r"""Influence of each sample on AURC and on E-AURC.

    With G(t) the coverage and r(t) the risk at threshold t, sample i moves the mean risk A by its own
    :math:`r(c_i) - A`, and the risk at every threshold that it reaches:
    :math:`\sum_{t \le c_i} (\ell_i - r(t)) \, \Delta G(t) / G(t)`. The area of the best order has the
    derivative :math:`-\ln(1 - r)` by the risk of all.
    """
    ascending = np.array(curve.thresholds)[::-1]
    place = np.minimum(np.searchsorted(ascending, confidences), len(ascending) - 1)
    place = len(ascending) - 1 - place  # of each sample in the curve's order
    coverage, risk = np.array(curve.coverage), np.array(curve.risk)
    step = np.diff(coverage, prepend=0.0) / coverage

    def from_here(values: Vector) -> Vector:
        return np.cumsum(values[::-1])[::-1][place]

    influence = risk[place] - curve.area + losses * from_here(step) - from_here(step * risk)
    overall = float(risk[-1])
    slope = -math.log1p(-overall) if overall < 1 else 0.0
    return influence, influence - slope * (losses - overall)


def thinned_roc(found: Detection) -> metrics.RocCurve:
    along = (found.false / found.false[-1] + found.true / found.true[-1]) / 2
    return found.curve(_spread(along))


def _roc(event: Events) -> metrics.RocCurve | None:
    positive, negative = event.mass * event.outcomes, event.mass * (1 - event.outcomes)
    if not (positive.any() and negative.any()):
        return None
    return thinned_roc(Ranking.of(event.confidences).detection(negative, positive))


def _estimate(value: float, influence: Vector, decision: Events, level: float) -> Estimate:
    error = standard_error(influence, decision.weights, decision.clusters)
    return between(value, normal_interval(value, error, level, (0.0, 1.0)))


def _spread(along: Vector) -> NDArray[np.int64]:
    """Indices of at most ``MOST_POINTS`` values, evenly spread over a rising quantity; keeps the last."""
    if len(along) <= MOST_POINTS:
        return np.arange(len(along))
    targets = np.linspace(along[0], along[-1], MOST_POINTS)
    return np.unique(np.searchsorted(along, targets))


def _bends(points: Vector, values: Vector) -> tuple[Vector, Vector]:
    """Drop points inside straight segments of a piecewise linear function."""
    if len(points) < 3:
        return points, values
    slopes = np.diff(values) / np.diff(points)
    bends = np.flatnonzero(np.abs(np.diff(slopes)) > STRAIGHT) + 1
    kept = np.concatenate([[0], bends, [len(points) - 1]])
    if len(kept) > MOST_POINTS:
        kept = kept[_spread(points[kept])]
    return points[kept], values[kept]
