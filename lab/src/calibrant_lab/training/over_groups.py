"""Metrics of each label or class, with intervals over groups of samples, such as patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import width_bin_index
from calibrant._math.drawing import num_units
from calibrant._math.errors import InputError
from calibrant.evaluation.resampling.events import Vector
from calibrant.evaluation.resampling.intervals import centred_interval
from calibrant.evaluation.resampling.resamples import Resamples
from calibrant.evaluation.result import Estimate

Outcomes = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """Ranking and calibration of one label, or of one class against the others."""

    name: str
    num_positives: int
    auroc: Estimate
    """Without a value where all samples have the label, or none."""
    ece: Estimate
    gap: Estimate
    """Mean probability less share of positives."""


def label_rows(
    probs: NDArray[np.float64],
    outcomes: Outcomes,
    groups: Sequence[str],
    names: Sequence[str],
    *,
    num_bins: int = 15,
    num_resamples: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[LabelRow, ...]:
    """Return AUROC, calibration error and gap of each column, with intervals from resampled groups.

    Whole groups are drawn with replacement, as many as there are, so samples of one group need not be
    independent of each other; groups must be. Replicates are moved to centre on the value, as elsewhere in an
    evaluation. Calibrators and network count as given: their own uncertainty is not in the intervals.

    Args:
        probs: Probability of each label, ``(N, C)``.
        outcomes: Whether it holds, ``(N, C)``.
        groups: The group of each sample.
        names: Names of the labels.
        num_bins: Bins of equal width, for the ECE.
        num_resamples: How often groups are drawn.
        level: Coverage aimed at.
        seed: Decides what is drawn.

    Raises:
        InputError: If there are fewer than two groups.

    Example:
        >>> probs, outcomes = np.array([[0.9], [0.8], [0.3], [0.2]]), np.array([[1], [0], [1], [0]]) == 1
        >>> (row,) = label_rows(probs, outcomes, ["a", "a", "b", "b"], ["mass"], num_resamples=20)
        >>> row.auroc.value, round(row.gap.value, 4)
        (0.75, 0.05)
    """
    _, code = np.unique(np.asarray(groups), return_inverse=True)
    if num_units(len(code), code) < 2:
        raise InputError("`groups` must name at least two groups; got one, which cannot be resampled.")
    columns = [_Column(probs[:, k], outcomes[:, k], num_bins) for k in range(probs.shape[1])]
    resamples = Resamples(len(code), num_resamples, (seed,), code)
    replicates = np.array(
        [
            [column.values(weights) for column in columns]
            for counts in resamples.blocks()
            for weights in (row.astype(np.float64) for row in resamples.by_row(counts))
        ]
    )
    plain = np.ones(len(probs))
    bounds = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0))
    rows: list[LabelRow] = []
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        found: list[Estimate] = []
        for value, seen, limits in zip(column.values(plain), replicates[:, place].T, bounds, strict=True):
            if np.isnan(value):
                found.append(Estimate(value=None, reason="all samples have the label, or none"))
                continue
            low, high = centred_interval(value, seen, level, limits) or (None, None)
            found.append(Estimate(value=float(value), low=low, high=high))
        positives = int(outcomes[:, place].sum())
        rows.append(LabelRow(name=name, num_positives=positives, auroc=found[0], ece=found[1], gap=found[2]))
    return tuple(rows)


class _Column:
    """One label, sorted once for all resamples."""

    def __init__(self, probs: Vector, outcomes: Outcomes, num_bins: int) -> None:
        order = np.argsort(probs, kind="stable")
        ranked = probs[order]
        self._probs, self._outcomes, self._num_bins = probs, outcomes.astype(np.float64), num_bins
        self._order, self._positive = order, outcomes[order]
        self._ends = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)  # of runs of equal scores
        self._bins = width_bin_index(torch.from_numpy(probs), num_bins).numpy()

    def values(self, weights: Vector) -> tuple[float, float, float]:
        """Return AUROC (NaN if one side has no weight), ECE and gap."""
        difference = weights * (self._probs - self._outcomes)
        error = np.abs(np.bincount(self._bins, difference, minlength=self._num_bins)).sum()
        total = weights.sum()
        return self._area(weights[self._order]), float(error / total), float(difference.sum() / total)

    def _area(self, ranked: Vector) -> float:
        positives = np.diff(np.cumsum(np.where(self._positive, ranked, 0.0))[self._ends], prepend=0.0)
        below = np.cumsum(np.where(self._positive, 0.0, ranked))[self._ends]
        middles = below - np.diff(below, prepend=0.0) / 2  # weight of lower negatives; ties count one half
        high, low = float(positives.sum()), float(below[-1])
        return float(positives @ middles) / (high * low) if high > 0 and low > 0 else float("nan")
