"""Scaling-binning."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.checks import check_num_bins
from calibrant._math.scores import steady_sigmoid
from calibrant._math.shapes import Float
from calibrant.calibrators.families.bins import Ordered, constant_in_bins, sums_in_bins
from calibrant.calibrators.families.events import EventCalibrator, EventMap
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.methods.platt import likeliest_line


class ScalingBinning(EventCalibrator):
    r"""Platt scaling, then the average probability within each bin.

    .. math:: \hat p = \frac{1}{N_b} \sum_{i \in b} \sigma(a s_i + c)

    Means of a fitted function vary less than the shares of events of :class:`HistogramBinning`, and since
    only as many probabilities occur as there are bins, the calibration error of the result can be measured,
    which that of a continuous map cannot. In multiclass logits every class is an event of its own with its
    log-odds s, and the results are normalised.

    Args:
        num_bins: How many bins.

    Raises:
        InputError: If there is not at least one bin.

    Note:
        O(N C log N). The paper splits the calibration samples in three; here all serve every step.
        Samples of one bin become alike. With fewer than 30 samples a class, a cross-validated share of the
        probabilities as they came is mixed in; where even the calibration samples' Brier score would rise,
        nothing is changed; both with a warning.

    References:
        Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([-2.0] * 100 + [2.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < 30, torch.arange(100) < 60]).long()
        >>> calibrator = ScalingBinning(num_bins=2).fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([-3.0, 1.0])).tolist()]
        [0.3, 0.6]
    """

    name = "scaling-binning"
    title = "Scaling-binning"

    def __init__(self, *, num_bins: int = 15) -> None:
        check_num_bins(num_bins)
        super().__init__()
        self.num_bins = num_bins

    def _fit_event(
        self, log_odds: Float[Tensor, " N"], outcomes: Float[Tensor, " N"], weights: Float[Tensor, " N"]
    ) -> EventMap:
        line = likeliest_line(Samples(log_odds, outcomes.to(torch.int64), weights))
        samples = Ordered(log_odds, outcomes, weights)
        bins = samples.equal_mass(self.num_bins)
        ends = samples.ends(bins)
        slope, intercept = line.parameters.values()
        scaled = samples.masses * steady_sigmoid(slope * samples.points + intercept)
        values = sums_in_bins(scaled, bins, len(ends)) / sums_in_bins(samples.masses, bins, len(ends))
        return EventMap(ends, values.clamp(0, 1), line.said)

    _map_events = staticmethod(constant_in_bins)
