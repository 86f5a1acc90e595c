r"""Yes/no events: stated probabilities and outcomes, and the noise of their clusters.

**Clusters** are pixels of an image, visits of a patient, tokens of a document. Samples of
one depend on each other, so outcomes cannot be drawn one by one. Clusters are independent, and their noise is
known from the residuals themselves. In each draw the residuals of a whole cluster keep or change their sign
(a wild bootstrap with Rademacher signs). Within a cluster, and from bin to bin, residuals stay together, so
the covariance of the bins' sums is cluster-robust: the sum over the clusters of the outer products of their
totals.

**Gaps** are taken from the residuals before the signs are drawn, so that the noise under any gaps is that
of a model with these gaps (Cameron, Gelbach and Miller call the null "imposed"). Without gaps it is the noise
under calibration.

**Rare events**: the residuals understate the noise. A bin that expects a third of an event and holds none has
hardly a residual. So noise is never less than that of independent samples; independent draws add the missing
variance of a bin.

References:
    Cameron, Gelbach and Miller, "Bootstrap-Based Improvements for Inference with Clustered Errors", Review of
    Economics and Statistics 90, 2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.binning import binned, width_bin_index
from calibrant.evaluation.resampling.intervals import effective_number
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
    """All labels as one event; without clusters, the labels of a sample are one."""

    def pooled(name: str) -> Any:
        known = [each for event in events if (each := getattr(event, name)) is not None]
        return np.concatenate(known) if known else None

    whole = Events(*(pooled(field.name) for field in fields(Events)))
    return replace(whole, clusters=np.concatenate([event.codes for event in events]))


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


def indicator(codes: Indices, values: Vector | None = None) -> Any:
    """Sparse ``(N, G)`` membership of clusters, times the values."""
    from scipy.sparse import csr_array

    entries = np.ones(len(codes)) if values is None else values
    return csr_array((entries, (np.arange(len(codes)), codes)), shape=(len(codes), int(codes.max()) + 1))


def signs(rng: np.random.Generator, num_clusters: int, num_draws: int) -> Matrix:
    drawn = rng.integers(0, 2, (num_clusters, num_draws), dtype=np.int8)
    return (2 * drawn - 1).astype(np.float64)


def cluster_totals(values: Vector, codes: Indices) -> Vector:
    return np.bincount(codes, values).astype(np.float64)


@dataclass(frozen=True)
class Clustered:
    """Cluster noise in the entries and bins of `ResidualSums`, divided by the total weight.

    ``masses`` ``(R', E)`` are the entries' masses, summed over the clusters with the signs of each draw. The
    others ``(F,)`` are sums over the clusters, in each bin: of squared residual sums, of those times the
    mass, and of squared masses.
    """

    masses: Matrix
    residual_squares: Vector
    products: Vector
    mass_squares: Vector

    @classmethod
    def of(cls, residuals: Any, masses: Any, drawn: Matrix) -> Clustered:
        """Make it from the sums of each cluster in each bin, sparse ``(F, G)``, and the drawn masses."""

        def total(matrix: Any) -> Vector:
            return np.asarray(matrix.sum(axis=1)).ravel()

        return cls(
            masses=drawn,
            residual_squares=total(residuals.power(2)),
            products=total(residuals.multiply(masses)),
            mass_squares=total(masses.power(2)),
        )

    def taken(self, gaps: Vector, bin_mass: Vector) -> Vector:
        """The part of the gaps ``(F,)`` to take from the residuals: nothing with one cluster, all with many.

        A cluster that is alone in its bin fits the gap by itself, and nothing would be left of its noise.
        """
        shared = np.divide(self.mass_squares, bin_mass**2, out=np.ones_like(bin_mass), where=bin_mass > 0)
        return gaps * np.clip(1 - shared, 0.0, 1.0)

    def bin_errors(self, gaps: Vector, bin_mass: Vector) -> Vector:
        """Cluster-robust standard error of the gap of each bin ``(F,)``."""
        inside, taken = bin_mass > 0, self.taken(gaps, bin_mass)
        squares = self.residual_squares - 2 * taken * self.products + taken**2 * self.mass_squares
        roots = np.sqrt(np.maximum(squares, 0.0))
        return np.divide(roots, bin_mass, out=np.zeros_like(bin_mass), where=inside)


def joined_clusters(parts: Sequence[Clustered]) -> Clustered:
    return Clustered(
        np.concatenate([part.masses for part in parts], axis=1),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("residual_squares", "products", "mass_squares")
        ),
    )


def mean_and_variance(values: Vector, weights: Vector | None, codes: Indices) -> tuple[float, float]:
    """A weighted mean and its cluster-robust variance."""
    mass = np.ones(len(values)) if weights is None else weights
    mean = float(mass @ values / mass.sum())
    totals = cluster_totals(mass * (values - mean), codes)
    count = len(totals)
    return mean, float(totals @ totals) / float(mass.sum()) ** 2 * count / max(1, count - 1)


def number_of_clusters(weights: Vector | None, codes: Indices) -> float:
    totals = np.bincount(codes) if weights is None else cluster_totals(weights, codes)
    return effective_number(totals.astype(np.float64))


def effective_share_number(outcomes: Vector, weights: Vector | None, codes: Indices, most: float) -> float:
    """Number of independent samples that would give a share the same precision.

    It is at most ``most``, the number of samples; that of clusters if all are equal.
    """
    share, variance = mean_and_variance(outcomes, weights, codes)
    clusters = number_of_clusters(weights, codes)
    if variance <= 0 or not 0 < share < 1:
        return clusters
    return min(max(share * (1 - share) / variance, 1.0), most)


def auroc_influence(
    scores: Vector, positive: NDArray[np.bool_], weights: Vector | None
) -> tuple[float, Vector] | None:
    r"""The area and the influence of each sample on it; ``None`` if one side has no weight.

    With :math:`V_i` the share of the other side that sample :math:`i` is ranked rightly against (ties count
    one half), the area is the mean of :math:`V_i` over the positives, and also over the negatives. The
    influences :math:`\psi_i` are :math:`(V_i - \mathrm{AUROC})` over the share of its side, so that the root
    of :math:`\sum_i w_i^2 \psi_i^2 / (\sum_i w_i)^2` is the standard error. With the factor :math:`m/(m-1)`
    for a side of :math:`m` samples this is DeLong's. The influences of two models on the same samples
    subtract, which gives the standard error of the difference; those of several classes average.

    References:
        DeLong, DeLong and Clarke-Pearson, "Comparing the Areas under Two or More Correlated Receiver
        Operating Characteristic Curves", Biometrics 44, 1988.
    """
    from calibrant.evaluation.resampling.kernels import rank_negatives  # compiled

    mass = np.ones(len(scores)) if weights is None else weights
    high, low = float(mass[positive].sum()), float(mass[~positive].sum())
    if not (high > 0 and low > 0):
        return None
    order = np.flatnonzero(positive)
    order = order[np.argsort(scores[order])]
    ranked, reached = scores[order], np.append(0.0, np.cumsum(mass[order]))
    starts, ends = (np.searchsorted(ranked, ranked, side) for side in ("left", "right"))
    below, right = np.zeros(len(reached)), np.empty(len(scores))
    rank_negatives(scores, positive, mass, ranked, ends, reached, below, right)
    right[order] = np.cumsum(below)[starts] / low
    area = float((mass * right)[positive].sum()) / high
    influence = right - area
    num_positive = int(positive.sum())
    of_positives = (high + low) / high * _small_sample_factor(num_positive)
    of_negatives = (high + low) / low * _small_sample_factor(len(scores) - num_positive)
    return area, influence * np.where(positive, of_positives, of_negatives)


def standard_error(influence: Vector, weights: Vector | None, clusters: Indices | None = None) -> float:
    """The standard error of a statistic from the influences of the samples, summed over clusters if any."""
    if clusters is not None:
        return error_of_totals(influence_totals(influence, weights, clusters))
    mass = np.ones(len(influence)) if weights is None else weights
    return float(np.sqrt(((mass * influence) ** 2).sum()) / mass.sum())


def influence_totals(influence: Vector, weights: Vector | None, clusters: Indices) -> Vector:
    mass = np.ones(len(influence)) if weights is None else weights
    return cluster_totals(mass * influence, clusters) / mass.sum()


def error_of_totals(totals: Vector) -> float:
    return float(np.sqrt(totals @ totals * len(totals) / max(1, len(totals) - 1)))


def _small_sample_factor(count: int) -> float:
    """Root of m / (m - 1): the variance over a side is estimated from that side's own mean."""
    return float(np.sqrt(count / (count - 1))) if count > 1 else 1.0


class SignedSums:
    """Sparse residuals ``(M, G)`` with a sign per cluster, filled up to independent ``variance`` ``(M,)``."""

    def __init__(self, residuals: Any, variance: Vector, seed: tuple[int, ...]) -> None:
        self._residuals = residuals
        own = np.asarray(residuals.power(2).sum(axis=1)).ravel()
        self._lacking = np.sqrt(1 - np.divide(own, variance, out=np.ones_like(own), where=variance > own))
        self._rng = np.random.default_rng((*seed[:2], 7))  # the same signs for all labels of a sample

    def draw(self, independent: Matrix) -> tuple[Matrix, Matrix]:
        """Residual sums ``(M, r)``, given those of independent draws, and the signs ``(G, r)``."""
        drawn = signs(self._rng, self._residuals.shape[1], independent.shape[1])
        return self._residuals @ drawn + self._lacking[:, None] * independent, drawn
