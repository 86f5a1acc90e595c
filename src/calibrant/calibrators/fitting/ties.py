"""Calibration errors of many interpolated rows of log-odds at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import mass_boundaries
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.fitting.focal_rows import log_odds_of_top
from calibrant.calibrators.fitting.objectives import NUM_BINS, Objective
from calibrant.calibrators.fitting.samples import Samples


@dataclass(frozen=True, eq=False)
class TiedSamples:
    """Samples of equal log-odds put together, so that interpolation cannot tear them apart."""

    members: Int[Tensor, " G"] | None  # one sample of each group; None where each is its own
    sizes: Float[Tensor, " G"]  # number of samples, or weight
    outcomes: Float[Tensor, " G"]  # summed with weights
    targets: Float[Tensor, " B"]  # cumulative sizes at which bins of equal mass end
    is_weighted: bool

    @staticmethod
    def of(samples: Samples) -> TiedSamples:
        """Grouped by their log-odds at T = 1."""
        log_odds = torch.cat([log_odds_of_top(block, 1.0, (0.0,))[0] for block in samples.blocks()])
        values, group = torch.unique(samples.judged(log_odds).cpu(), return_inverse=True)
        outcomes = samples.outcomes.cpu()
        sizes = torch.ones_like(outcomes) if samples.weights is None else samples.weights.cpu()
        outcomes = outcomes * sizes
        members = None
        if len(values) < samples.num_samples:
            members = torch.zeros_like(group[: len(values)]).scatter_(0, group, torch.arange(len(group)))
            outcomes = torch.bincount(group, outcomes, len(values))
            sizes = torch.bincount(group, sizes, len(values))
        if samples.weights is None:
            targets = mass_boundaries(samples.num_samples, NUM_BINS)[1:-1].to(torch.float64)
        else:
            targets = torch.arange(1, NUM_BINS, dtype=torch.float64) / NUM_BINS * sizes.sum()
        return TiedSamples(members, sizes, outcomes, targets, samples.weights is not None)

    def representatives(self, table: Float[Tensor, "M N"]) -> Float[Tensor, "M G"]:
        """One column for each group."""
        return table if self.members is None else table[:, self.members]

    def errors(self, objective: Objective, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        """The objective of each row."""
        if objective == "smce":
            return self.smooth_errors(log_odds)
        return self.width_errors(log_odds) if objective == "ece" else self.mass_errors(log_odds)

    def smooth_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        """Smooth calibration error, of each row."""
        from calibrant._math.lipschitz import smooth_calibration_error  # numba

        outcomes, sizes = (self.outcomes / self.sizes).numpy(), self.sizes.numpy()
        rows = log_odds.sigmoid().to(torch.float64).numpy()
        return torch.tensor([smooth_calibration_error(row, outcomes, sizes) for row in rows])

    def width_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        """Calibration error over bins of equal width, of each row."""
        confidences = log_odds.sigmoid()
        bins = (confidences * NUM_BINS).ceil_().sub_(1).clamp_(0, NUM_BINS - 1).to(torch.int64)
        bins += NUM_BINS * torch.arange(len(bins))[:, None]
        residuals = torch.addcmul(self.outcomes, self.sizes, confidences.to(torch.float64), value=-1)
        sums = torch.bincount(bins.view(-1), residuals.view(-1), minlength=NUM_BINS * len(bins))
        return sums.view(-1, NUM_BINS).abs().sum(dim=1) / self.sizes.sum()

    def mass_errors(self, log_odds: Float[Tensor, "J G"]) -> Float[Tensor, " J"]:
        """Calibration error over bins of equal mass, of each row."""
        order = _order(log_odds)
        confidences = log_odds.gather(1, order).sigmoid()
        sizes = self.sizes[order]
        reached = sizes.cumsum(dim=1)
        residuals = torch.addcmul(self.outcomes[order], sizes, confidences.to(torch.float64), value=-1)
        cumulative = residuals.cumsum(dim=1)
        targets = self.targets.expand(len(order), -1).contiguous()
        last = torch.searchsorted(reached, targets * (1 - 1e-12)).clamp_(max=reached.shape[1] - 1)
        ends = cumulative.gather(1, last)
        if not self.is_weighted:  # a bin may end inside a group, whose residual is shared
            beyond = reached.gather(1, last) - targets
            ends -= beyond / sizes.gather(1, last) * residuals.gather(1, last)
        zero = torch.zeros(len(ends), 1, dtype=ends.dtype)
        return torch.diff(ends, prepend=zero, append=cumulative[:, -1:]).abs().sum(dim=1) / self.sizes.sum()


def _order(values: Float[Tensor, "J G"]) -> Int[Tensor, "J G"]:
    """Ascending order of each row: sorting numbers that carry their place is faster than argsort."""
    bits = values.numpy().view(np.int32)
    keys = np.where(bits < 0, np.int32(-(2**31)) - bits, bits).astype(np.int64) << 32
    keys |= np.arange(values.shape[1])
    keys.sort(axis=1)
    return torch.from_numpy(keys & (2**32 - 1))
