"""Bayesian binning into quantiles."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from calibrant._math.shapes import Float
from calibrant.calibrators.families.bins import Ordered, constant_in_bins, sums_in_bins
from calibrant.calibrators.families.events import EventCalibrator, EventMap
from calibrant.calibrators.fitting.samples import Samples

_SPREAD = 10.0  # bins run from N^(1/3) / 10 to 10 N^(1/3)
_STRENGTH = 2.0  # of the prior, in samples, shared out among the bins
_NEGLIGIBLE = 1e-4  # weight relative to the largest


class BayesianBinning(EventCalibrator):
    r"""Histogram binning, averaged over numbers of bins (BBQ).

    .. math::
       \hat p = \sum_B w_B \frac{m_b + \alpha_b}{N_b + N'/B}, \qquad
       w_B \propto \prod_b \frac{\Gamma(N'/B)}{\Gamma(N_b + N'/B)} \,
       \frac{\Gamma(m_b + \alpha_b)}{\Gamma(\alpha_b)} \, \frac{\Gamma(n_b + \beta_b)}{\Gamma(\beta_b)}

    with m events and n others in bin b of B with equally many samples, :math:`B = N^{1/3}/10, \dots,
    10 N^{1/3}`, and a Beta prior of strength :math:`N' = 2` around the centre of each bin. In multiclass
    logits every class is an event of its own, and the results are normalised.

    Note:
        A mean of step functions is one, so it is stored as such. O(C N^(4/3)) time. Binnings with less than
        1e-4 of the best one's weight are left out. With fewer than 30 samples a class, a
        cross-validated share of the probabilities as they came is mixed in; where even the calibration
        samples' Brier score would rise, nothing is changed; both with a warning.

    References:
        Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI
        2015.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([-2.0] * 500 + [2.0] * 500)
        >>> labels = torch.cat([torch.arange(500) < 150, torch.arange(500) < 300]).long()
        >>> calibrator = BayesianBinning().fit(log_odds, labels)
        >>> [round(p, 2) for p in calibrator.predict_proba(torch.tensor([-3.0, 1.0])).tolist()]
        [0.3, 0.6]
    """

    name = "bayesian-binning"
    title = "Bayesian binning"
    named_after_person = True

    def _fit_event(
        self, log_odds: Float[Tensor, " N"], outcomes: Float[Tensor, " N"], weights: Float[Tensor, " N"]
    ) -> EventMap:
        samples = Ordered(log_odds, outcomes, weights)
        root = float(weights.sum()) ** (1 / 3)
        fewest, most = max(1, math.floor(root / _SPREAD)), max(1, math.ceil(root * _SPREAD))
        binnings = [_binning(samples, num_bins) for num_bins in range(fewest, most + 1)]
        best = max(evidence for evidence, _ in binnings)
        share = {number: math.exp(evidence - best) for number, (evidence, _) in enumerate(binnings)}
        kept = [(share[number], function) for number, (_, function) in enumerate(binnings)]
        kept = [(weight, function) for weight, function in kept if weight >= _NEGLIGIBLE]
        ends = torch.cat([function.places for _, function in kept]).unique()
        total = sum(weight for weight, _ in kept)
        values = torch.zeros_like(ends)
        for weight, function in kept:
            inside = constant_in_bins(ends[None], function.places[None], function.values[None])[0]
            values += weight / total * inside
        return EventMap(ends, values.clamp(0, 1))

    def _in_any_unit(self, samples: Samples) -> bool:
        del samples
        return False  # bins are expected around the probabilities of their centres

    _map_events = staticmethod(constant_in_bins)


def _binning(samples: Ordered, num_bins: int) -> tuple[float, EventMap]:
    """Logarithm of the evidence of one binning, and its function."""
    bins = samples.equal_mass(num_bins)
    ends = samples.ends(bins)
    masses, hits = (sums_in_bins(part, bins, len(ends)) for part in (samples.masses, samples.hits))
    edges = torch.cat([ends.new_zeros(1), ends[:-1].sigmoid(), ends.new_ones(1)])
    centres = ((edges[1:] + edges[:-1]) / 2).clamp(1e-9, 1 - 1e-9)
    strength = _STRENGTH / len(ends)
    alpha, beta = strength * centres, strength * (1 - centres)
    evidence = math.lgamma(strength) - torch.lgamma(masses + strength)
    evidence += torch.lgamma(hits + alpha) - torch.lgamma(alpha)
    evidence += torch.lgamma(masses - hits + beta) - torch.lgamma(beta)
    return float(evidence.sum()), EventMap(ends, (hits + alpha) / (masses + strength))
