"""Yes/no events: stated probabilities and outcomes, and type names of arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import binned, width_bin_index
from calibrant.metrics.slope import Sample, fit

Vector: TypeAlias = NDArray[np.float64]  # (N,) over samples or (R,) over resamples
Matrix: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
_EVEN = 1e-12  # by how much shares of the weight differ from rounding alone


@dataclass(frozen=True)
class Events:
    """Stated probabilities and outcomes of yes/no events: the top label is right, or a class occurs."""

    confidences: Vector
    outcomes: Vector  # 0 or 1
    weights: Vector | None = None
    clusters: Indices | None = None  # cluster number of each sample; None: independent
    squares: Vector | None = None  # summed squared weights of rows that stand for many samples
    numbers: Vector | None = None  # of samples of each such row
    cells: Vector | None = None  # mean confidence of each row's cell, which orders rows in bins of equal mass

    @property
    def mass(self) -> Vector:
        return np.ones(len(self.outcomes)) if self.weights is None else self.weights

    @property
    def squared_mass(self) -> Vector:
        """The squared weight of each row, summed over the samples that it stands for."""
        return self.mass**2 if self.squares is None else self.squares

    @property
    def counts(self) -> Vector:
        """Number of samples of each row."""
        return np.ones(len(self.outcomes)) if self.numbers is None else self.numbers

    @property
    def codes(self) -> Indices:
        """Cluster number of each row; independent rows are clusters of their own."""
        return np.arange(len(self.outcomes)) if self.clusters is None else self.clusters

    @property
    def places(self) -> Vector:
        """Order of the rows in bins of equal mass."""
        return self.confidences if self.cells is None else self.cells

    @property
    def counted(self) -> bool:
        """True if a row stands for many samples."""
        return self.squares is not None

    @cached_property
    def witness(self) -> tuple[float, Vector, Vector]:
        """The smooth calibration error; distinct scores and, there, the function that attains it."""
        from calibrant._math.lipschitz import smooth_calibration_solution  # compiled

        points, _, best = smooth_calibration_solution(self.confidences, self.outcomes, self.weights)
        return best.value, points, best.witness

    def part(self, rows: Any) -> Events:
        """Some of the samples; clusters are renumbered from 0 without gaps."""
        clusters = self.clusters
        if clusters is not None:
            clusters = np.unique(clusters[rows], return_inverse=True)[1].astype(np.int64)
        others = {
            name: None if (each := getattr(self, name)) is None else each[rows]
            for name in ("weights", "squares", "numbers", "cells")
        }
        return Events(self.confidences[rows], self.outcomes[rows], clusters=clusters, **others)


def width_bins(confidences: Vector, num_bins: int) -> Indices:
    return width_bin_index(torch.from_numpy(confidences), num_bins).numpy()


def pool(events: tuple[Events, ...]) -> Events:
    def pooled(name: str) -> Any:
        known = [each for event in events if (each := getattr(event, name)) is not None]
        return np.concatenate(known) if known else None

    return Events(*(pooled(field.name) for field in fields(Events)))


def binned_error(
    confidences: Vector,
    outcomes: Vector,
    weights: Vector | None,
    *,
    num_bins: int,
    binning: Literal["width", "mass"],
    norm: Literal["l1", "l2", "max"],
) -> float:
    mass = None if weights is None else torch.from_numpy(weights)
    stated, happened = torch.from_numpy(confidences), torch.from_numpy(outcomes)
    sums = binned(stated, happened, num_bins=num_bins, binning=binning, weights=mass)
    return float(sums.calibration_error(norm))


class Line(NamedTuple):
    """A parameter and the influence of each sample on it."""

    value: float
    influence: Vector  # (N,)


def calibration_line(events: Events, parameter: Literal["slope", "intercept"]) -> Line | str:
    r"""Slope of outcomes on log-odds, or intercept at a slope of one; else the reason it is undefined.

    The influences :math:`\psi_i = I^{-1} x_i (y_i - \hat p_i)`, I the information per unit of weight, make
    the root of :math:`\sum_i w_i^2 \psi_i^2 / (\sum_i w_i)^2` the standard error even if the line does not
    fit (the sandwich). With weights it is HC3, or the mean square that the line expects if that is larger.
    Those of two models on the same samples subtract.

    References:
        White, "Maximum Likelihood Estimation of Misspecified Models", Econometrica 50, 1982.
    """
    sample = Sample.of(events.confidences, events.outcomes, events.weights)
    why = sample.why_undefined(slope=parameter == "slope")
    if why is not None:
        return why
    found = fit(sample) if parameter == "slope" else fit(sample, slope=1.0)
    influence = np.zeros(len(events.confidences))
    counted = slice(None) if events.weights is None else events.weights > 0
    even = sample.shares.max() - sample.shares.min() < _EVEN
    # The line follows the outcomes of rows of large weight.
    influence[counted] = (found.influence if even else found.weighted_influence(sample.shares))[:, -1]
    return Line(float(found.parameters[-1]), influence)
