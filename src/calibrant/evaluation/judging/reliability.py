"""Reliability diagrams as numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import width_edges
from calibrant._math.checks import check_at_least, check_level, check_probs
from calibrant.evaluation.resampling.clusters import effective_share_number
from calibrant.evaluation.resampling.event_cells import bin_matrix, weights_by_place
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector, width_bins
from calibrant.evaluation.resampling.intervals import wilson_interval
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.result import Band, Curve
from calibrant.metrics import smooth_reliability_curve

MOST_IN_ONE = 0.8  # of the mass, in one bin of equal width
LEAST = 1e-9  # probability that the histogram tells from zero
FINE_BINS = 45  # about as many in the histogram: a multiple of the diagram's own bins
EMPTY = (None,) * 6


def is_uneven(events: Events, num_bins: int) -> bool:
    """True if one bin of equal width holds nearly everything."""
    mass = np.bincount(width_bins(events.confidences, num_bins), events.weights, num_bins)
    return bool(mass.max() > MOST_IN_ONE * mass.sum())


def reliability_curve(
    name: str, events: Events, null_outcomes: Matrix, num_bins: int, level: float, *, by_mass: bool = False
) -> Curve:
    """The diagram of one kind of event.

    ``null_outcomes`` are the sums over its bins ``(B, draws)`` under calibration.

    The interval of a share is Wilson's (with weights or clusters: for their effective number). The expected
    range is where the share of the bin lies, at the same level, when every outcome is drawn from its stated
    probability. Bins have equal width, or equal mass, and then those of the histogram equal widths of the
    logarithm.
    """
    stated, index = events.confidences, width_bins(events.confidences, num_bins)
    matrix = weights_by_place(index, num_bins, events.mass)
    if by_mass:
        matrix = bin_matrix(events, num_bins)[num_bins:]
    mass, confidence, outcome = (matrix @ np.stack([np.ones_like(stated), stated, events.outcomes], axis=1)).T
    squares = mass if events.weights is None else matrix.power(2).sum(axis=1)
    tails = [(1 - level) / 2, (1 + level) / 2]
    bins: list[tuple[float | None, ...]] = []
    for b in range(num_bins):
        if mass[b] == 0:
            bins.append(EMPTY)
            continue
        share = min(1.0, outcome[b] / mass[b])
        expected = np.quantile(null_outcomes[b] / mass[b], tails).tolist()
        number = mass[b] ** 2 / squares[b]
        if events.clusters is not None:
            part = events.part(np.sort(matrix[[b]].indices))
            number = effective_share_number(part.outcomes, part.weights, part.codes, part.numbers)
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


def _fine_edges(stated: Vector, num_bins: int, *, by_mass: bool) -> Vector:
    fine = num_bins * max(1, round(FINE_BINS / num_bins))
    if not by_mass:
        return width_edges(fine).numpy()
    low, high = max(float(stated.min()), LEAST), max(float(stated.max()), 2 * LEAST)
    return np.geomspace(min(low, high / 2), high, fine + 1)


def _mass_edges(stated: Vector, matrix: Any) -> tuple[float, ...]:
    """Midway between what the bins hold, from 0 to 1."""
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
    """Number of samples in each bin; a row can stand for many."""
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
        num_draws: How often outcomes are drawn.
        seed: Seed of the draws.

    Returns:
        ``positions`` (stated, smoothed), ``low`` and ``high``, where there are samples enough.

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
        smooth_reliability_curve(
            confidences, drawn, bandwidth=bandwidth, num_points=num_points, weights=weights
        )
        for drawn in draws
    ]
    known = [place for place, found in enumerate(curves[0].outcome) if found is not None]
    outcomes = np.array([[curve.outcome[place] for place in known] for curve in curves], dtype=np.float64)
    low, high = np.quantile(outcomes, [(1 - level) / 2, (1 + level) / 2], axis=0)
    positions = [curves[0].confidence[place] for place in known]
    return Band(
        positions=tuple(at for at in positions if at is not None),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
    )
