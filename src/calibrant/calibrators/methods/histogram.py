"""Histogram binning."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from calibrant._math.checks import check_choice, check_num_bins
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.families.bins import Ordered, constant_in_bins, sums_in_bins
from calibrant.calibrators.families.events import EventCalibrator, EventMap
from calibrant.calibrators.fitting.samples import Samples

HistogramBins: TypeAlias = Literal["mass", "width"]


class HistogramBinning(EventCalibrator):
    r"""Replace each probability by the actual rate in its bin.

    .. math:: \hat p = \frac{\sum_{i \in b} y_i + m \, \bar p_b}{N_b + m}

    of the bin b that the probability p lies in, with mean probability :math:`\bar p_b`. In multiclass logits
    every class is an event of its own, and the results are normalised.

    Args:
        num_bins: How many bins.
        binning: ``"mass"``: equally many samples in each, as far as equal probabilities can be kept together;
            ``"width"``: ``(i / B, (i + 1) / B]``.
        prior: m, how many samples the probabilities as they came count like; 0 is the method of the paper,
            with probabilities of 0 and 1 where a bin saw nothing else.

    Raises:
        InputError: If a setting is out of range.

    Note:
        O(N C log N). Samples of one bin become alike: accuracy and log-loss often suffer while the
        calibration error falls. With fewer than 30 samples a class, a cross-validated share of the
        probabilities as they came is mixed in; where even the calibration samples' Brier score would rise,
        nothing is changed; both with a warning. An empty bin keeps its centre. Zeros count as 1e-12.

    References:
        Zadrozny and Elkan, "Obtaining calibrated probability estimates from decision trees and naive Bayesian
        classifiers", ICML 2001.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([-2.0] * 100 + [2.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < 30, torch.arange(100) < 60]).long()
        >>> calibrator = HistogramBinning(num_bins=2, prior=0.0).fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([-3.0, 1.0])).tolist()]
        [0.3, 0.6]
    """

    name = "histogram"
    title = "Histogram binning"

    def __init__(self, *, num_bins: int = 15, binning: HistogramBins = "mass", prior: float = 1.0) -> None:
        check_num_bins(num_bins)
        check_choice("binning", binning, get_args(HistogramBins))
        if not 0 <= prior < math.inf:
            raise InputError(f"`prior` must be at least 0 and finite; got {prior!r}.")
        super().__init__()
        self.num_bins = num_bins
        self.binning: HistogramBins = binning
        self.prior = float(prior)

    def _fit_event(
        self, log_odds: Float[Tensor, " N"], outcomes: Float[Tensor, " N"], weights: Float[Tensor, " N"]
    ) -> EventMap:
        samples = Ordered(log_odds, outcomes, weights)
        bins, ends, centres = self._bins(samples)
        masses, hits = (sums_in_bins(part, bins, len(ends)) for part in (samples.masses, samples.hits))
        stated = sums_in_bins(samples.masses * samples.points.sigmoid(), bins, len(ends))
        full = masses > 0
        means = torch.where(full, stated / torch.where(full, masses, 1), centres)
        count = masses + self.prior
        values = torch.where(full, (hits + self.prior * means) / torch.where(full, count, 1), centres)
        return EventMap(ends, values.clamp(0, 1))

    def _in_any_unit(self, samples: Samples) -> bool:
        return self.binning == "mass" and super()._in_any_unit(samples)

    def _bins(self, samples: Ordered) -> tuple[Int[Tensor, " G"], Float[Tensor, " M"], Float[Tensor, " M"]]:
        """The bin of each point, where bins end, and their centres."""
        if self.binning == "mass":
            bins = samples.equal_mass(self.num_bins)
            ends = samples.ends(bins)
            return bins, ends, torch.zeros_like(ends)
        upper = (
            torch.arange(1, self.num_bins, dtype=torch.float64, device=samples.points.device) / self.num_bins
        )
        ends = torch.cat([upper.logit(), samples.points[-1:].clamp(min=50.0)])
        centres = (torch.arange(self.num_bins, dtype=torch.float64) + 0.5).to(ends.device) / self.num_bins
        return torch.searchsorted(ends[:-1].contiguous(), samples.points), ends, centres

    _map_events = staticmethod(constant_in_bins)
