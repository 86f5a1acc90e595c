r"""What chance adds to a binned calibration error, and how to take it off.

The residuals :math:`r_i = c_i - y_i` of a bin, of weights :math:`w_i`, have the mean

.. math:: g = \frac{\sum_i w_i r_i}{\sum_i w_i} , \qquad
          U = \frac{\sum_{i \ne j} w_i w_j r_i r_j}{\sum_{i \ne j} w_i w_j}
            = \frac{(\sum_i w_i r_i)^2 - \sum_i w_i^2 r_i^2}{(\sum_i w_i)^2 - \sum_i w_i^2} .

The square of g is too large by the variance of g. U leaves out the products of a residual with itself; those
of different samples are independent, so U is unbiased for the square of the expected residual, and
:math:`g^2 - U` for the variance of g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.binning import mass_bin_index, mass_boundaries, mass_order, width_bin_index
from calibrant._math.shapes import Float, Int, Shaped

# Below this share of the squared weight of a bin, its pairs of different samples are rounding errors.
_NO_PAIRS = 1e-12
_ROUNDING = 1e-14


@dataclass(frozen=True)
class PairSums:
    """Per bin, the sums of which those over all pairs of different samples are made."""

    masses: Float[Tensor, " B"]  # of weights
    residuals: Float[Tensor, " B"]  # of weighted residuals
    squared_masses: Float[Tensor, " B"]  # of squares of weights
    squared_residuals: Float[Tensor, " B"]  # of squares of weighted residuals

    def squared_error(self) -> Float[Tensor, ""]:
        """Mean of U over the bins by weight, maybe negative; a bin without two samples counts as zero."""
        shares = self.masses / self.masses.sum()
        error = shares @ self._mean_products(self.residuals.square() - self.squared_residuals)
        # What is zero but for rounding must not come back as its root.
        rounding = _ROUNDING * (
            shares @ self._mean_products(self.residuals.square() + self.squared_residuals)
        )
        return error.where(error.abs() > rounding, 0.0)

    def absolute_error(self) -> Float[Tensor, ""]:
        """Mean over the bins of the size of g, less what noise of its variance would add to that size."""
        products = self._mean_products(self.residuals.square() - self.squared_residuals)
        size = (self.residuals / self.masses.where(self.masses > 0, 1.0)).abs()
        noise = (size.square() - products).clamp(min=0).sqrt()
        noisy = noise > 0
        ratio = size / noise.where(noisy, 1.0)
        # The mean size of a normal variable of this mean and deviation.
        folded = noise * math.sqrt(2 / math.pi) * (-ratio.square() / 2).exp()
        folded = folded + size * (ratio / math.sqrt(2)).erf()
        debiased = torch.where(noisy, 2 * size - folded, size).where(self._has_pairs(), 0.0)
        return (self.masses * debiased).sum() / self.masses.sum()

    def _has_pairs(self) -> Tensor:
        return self._pairs() > _NO_PAIRS * self.masses.square()

    def _pairs(self) -> Float[Tensor, " B"]:
        return self.masses.square() - self.squared_masses

    def _mean_products(self, products: Float[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Sums of products over the pairs of each bin as means; zero where there are no two samples."""
        some = self._has_pairs()
        return (products / self._pairs().where(some, 1.0)).where(some, 0.0)


def pair_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    *,
    num_bins: int,
    binning: Literal["width", "mass"],
    weights: Float[Tensor, " N"] | None = None,
) -> PairSums:
    confidences, outcomes = confidences.to(torch.float64), outcomes.to(torch.float64)
    if binning == "mass":
        return _mass_pair_sums(confidences, outcomes, num_bins, weights)
    index = width_bin_index(confidences, num_bins)
    masses = torch.ones_like(confidences) if weights is None else weights
    return PairSums(*_sums(index, num_bins, masses, masses * (confidences - outcomes)))


def _mass_pair_sums(
    confidences: Float[Tensor, " N"],
    outcomes: Shaped[Tensor, " N"],
    num_bins: int,
    weights: Float[Tensor, " N"] | None,
) -> PairSums:
    """Sums where an edge parts equal confidences: each sample counts in a bin by the part that fell there."""
    order = mass_order(confidences, weights)
    ranked = confidences[order]
    masses = torch.ones_like(ranked) if weights is None else weights[order]
    boundaries = mass_boundaries(len(ranked), num_bins, None if weights is None else masses)
    index = mass_bin_index(boundaries.to(ranked.device), len(ranked))
    tie = torch.unique_consecutive(ranked, return_inverse=True)[1]
    ties = int(tie[-1]) + 1
    whole = _sums(tie, ties, masses, masses * (ranked - outcomes[order]))
    # A segment is what one tie has in one bin.
    starts = torch.ones_like(tie, dtype=torch.bool)
    starts[1:] = (tie.diff() > 0) | (index.diff() > 0)
    tie_of, bin_of = tie[starts], index[starts]
    parts = torch.bincount(starts.cumsum(dim=0) - 1, masses, minlength=len(tie_of))
    fraction = parts / whole[0][tie_of].where(whole[0][tie_of] > 0, 1.0)
    scaled = (
        total[tie_of] * scale
        for total, scale in zip(whole, (fraction, fraction, fraction**2, fraction**2), strict=True)
    )
    return PairSums(*(torch.bincount(bin_of, part, minlength=num_bins) for part in scaled))


def _sums(index: Int[Tensor, " N"], size: int, masses: Tensor, residuals: Tensor) -> tuple[Tensor, ...]:
    """At each index: weight, weighted residual, and the sums of their squares."""
    values = (masses, residuals, masses.square(), residuals.square())
    return tuple(torch.bincount(index, value, minlength=size) for value in values)
