"""Reliability diagrams as numbers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import bin_sums, width_edges
from calibrant.evaluation.resampling.clusters import effective_share_number, within
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, width_bins
from calibrant.evaluation.resampling.intervals import wilson_interval
from calibrant.evaluation.result import Curve

FINE_BINS = 45  # about as many in the histogram: a multiple of the diagram's own bins
EMPTY = (None,) * 6


def reliability_curve(name: str, events: Events, null_outcomes: Matrix, num_bins: int, level: float) -> Curve:
    """The diagram of one kind of event.

    ``null_outcomes`` are the sums over its bins ``(B, draws)`` under calibration.

    The interval of a share is Wilson's (with weights or clusters: for their effective number). The expected
    range is where the share of the bin lies, at the same level, when every outcome is drawn from its stated
    probability.
    """
    index = width_bins(events.confidences, num_bins)
    confidences, outcomes = torch.from_numpy(events.confidences), torch.from_numpy(events.outcomes)
    weights = None if events.weights is None else torch.from_numpy(events.weights)
    mass, confidence, outcome = (
        sums.tolist() for sums in bin_sums(torch.from_numpy(index), num_bins, confidences, outcomes, weights)
    )
    squares = mass if events.weights is None else np.bincount(index, events.weights**2, num_bins).tolist()
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
            inside = index == b
            part = None if events.weights is None else events.weights[inside]
            codes = within(events.clusters, inside)
            numbers = None if events.numbers is None else events.numbers[inside]
            number = effective_share_number(events.outcomes[inside], part, codes, numbers)
        interval = wilson_interval(share, number, level)
        bins.append((confidence[b] / mass[b], share, *interval, *expected))
    confidence, accuracy, low, high, expected_low, expected_high = zip(*bins, strict=True)

    fine = num_bins * max(1, round(FINE_BINS / num_bins))
    fine_index = width_bins(events.confidences, fine)
    return Curve(
        name=name,
        edges=tuple(width_edges(num_bins).tolist()),
        counts=tuple(_numbers(index, events, num_bins)),
        confidence=confidence,
        accuracy=accuracy,
        low=low,
        high=high,
        expected_low=expected_low,
        expected_high=expected_high,
        histogram_edges=tuple(width_edges(fine).tolist()),
        histogram_correct=tuple(_numbers(fine_index, events, fine, events.outcomes > 0)),
        histogram_incorrect=tuple(_numbers(fine_index, events, fine, events.outcomes == 0)),
    )


def _numbers(
    index: Indices, events: Events, size: int, which: NDArray[np.bool_] | slice = slice(None)
) -> list[int]:
    """How many samples are in each bin; a row may stand for many."""
    counts = None if events.numbers is None else events.numbers[which]
    return np.bincount(index[which], counts, size).astype(np.int64).tolist()
