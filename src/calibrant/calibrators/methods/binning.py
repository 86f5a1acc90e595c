"""Calibrators that are constant in bins: histogram binning, scaling-binning, Bayesian binning."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import torch

from calibrant._math.checks import check_choice, check_num_bins
from calibrant._math.errors import InputError
from calibrant._math.scores import steady_sigmoid
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.methods.events import EventCalibrator, EventMap, Ordered, constant_in_bins
from calibrant.calibrators.methods.log_odds import maximum_likelihood_line

HistogramBins: TypeAlias = Literal["mass", "width"]
_SPREAD = 10.0  # bins run from N^(1/3) / 10 to 10 N^(1/3)
_STRENGTH = 2.0  # of the prior, in samples, divided among the bins
_NEGLIGIBLE = 1e-4  # weight relative to the largest


class HistogramBinning(EventCalibrator):
    r"""Replace each probability by the actual rate in its bin.

    .. math:: \hat p = \frac{\sum_{i \in b} y_i + m \, \bar p_b}{N_b + m}

    of the bin b that the probability p lies in, with mean probability :math:`\bar p_b`. In multiclass logits
    every class is an event of its own, and the results are normalised.

    Args:
        num_bins: Number of bins.
        binning: ``"mass"``: equally many samples in each, as far as equal probabilities can be kept together;
            ``"width"``: ``(i / B, (i + 1) / B]``.
        prior: m, weight of the original probabilities in samples; 0 is the method of the paper,
            with probabilities of 0 and 1 where a bin saw nothing else.

    Raises:
        InputError: If a setting is out of range.

    Note:
        O(N C log N). Samples of one bin become equal: accuracy and log loss often suffer while the
        calibration error falls. With fewer than 30 samples of some class, a cross-validated share of the
        original probabilities is mixed in. If even the calibration samples' Brier score would rise,
        nothing is changed, with a warning. An empty bin keeps its centre. Zeros count as 1e-12.

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

    def _fit_event(self, samples: Ordered) -> EventMap:
        if self.binning == "mass":
            bins = samples.equal_mass(self.num_bins)
            ends = samples.ends(bins)
            centres = torch.zeros_like(ends)  # no bin is empty
        else:
            numbers = torch.arange(self.num_bins).to(samples.points)
            upper = (numbers[1:] / self.num_bins).logit()
            bins = torch.searchsorted(upper, samples.points)
            ends = torch.cat([upper, samples.points[-1:].clamp(min=50.0)])
            centres = (numbers + 0.5) / self.num_bins
        masses, hits = (torch.bincount(bins, part, len(ends)) for part in (samples.masses, samples.hits))
        stated = torch.bincount(bins, samples.masses * samples.points.sigmoid(), len(ends))
        full = masses > 0
        means = torch.where(full, stated / torch.where(full, masses, 1), centres)
        count = masses + self.prior
        values = torch.where(full, (hits + self.prior * means) / torch.where(full, count, 1), centres)
        return EventMap(ends, values.clamp(0, 1))

    def _in_any_unit(self, samples: Samples) -> bool:
        return self.binning == "mass" and super()._in_any_unit(samples)


class ScalingBinning(EventCalibrator):
    r"""Platt scaling, then the average probability within each bin.

    .. math:: \hat p = \frac{1}{N_b} \sum_{i \in b} \sigma(a s_i + c)

    Means of a fitted function vary less than the shares of events of :class:`HistogramBinning`, and with one
    probability per bin, the calibration error of the result can be measured. That of a continuous map cannot.
    In multiclass logits every class is an event of its own with its log-odds s, and the results are
    normalised.

    Args:
        num_bins: Number of bins.

    Raises:
        InputError: If there is not at least one bin.

    Note:
        O(N C log N). The paper splits the calibration samples in three; here all serve every step. Samples of
        one bin become alike. With fewer than 30 samples of some class, a cross-validated share of the
        original probabilities is mixed in. If even the calibration samples' Brier score would rise,
        nothing is changed, with a warning.

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

    def _fit_event(self, samples: Ordered) -> EventMap:
        outcomes = samples.outcomes.to(torch.int64)
        line = maximum_likelihood_line(Samples(samples.log_odds, outcomes, samples.weights))
        bins = samples.equal_mass(self.num_bins)
        ends = samples.ends(bins)
        slope, intercept = line.parameters.values()
        scaled = samples.masses * steady_sigmoid(slope * samples.points + intercept)
        values = torch.bincount(bins, scaled, len(ends)) / torch.bincount(bins, samples.masses, len(ends))
        return EventMap(ends, values.clamp(0, 1), line.said)


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
        1e-4 of the best one's weight are left out. With fewer than 30 samples of some class, a
        cross-validated share of the original probabilities is mixed in. If even the calibration
        samples' Brier score would rise, nothing is changed, with a warning.

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

    def _fit_event(self, samples: Ordered) -> EventMap:
        root = float(samples.weights.sum()) ** (1 / 3)
        fewest, most = max(1, math.floor(root / _SPREAD)), max(1, math.ceil(root * _SPREAD))
        binnings = [_binning(samples, num_bins) for num_bins in range(fewest, most + 1)]
        best = max(evidence for evidence, _ in binnings)
        kept = [(math.exp(evidence - best), function) for evidence, function in binnings]
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


def _binning(samples: Ordered, num_bins: int) -> tuple[float, EventMap]:
    bins = samples.equal_mass(num_bins)
    ends = samples.ends(bins)
    masses, hits = (torch.bincount(bins, part, len(ends)) for part in (samples.masses, samples.hits))
    edges = torch.cat([ends.new_zeros(1), ends[:-1].sigmoid(), ends.new_ones(1)])
    centres = ((edges[1:] + edges[:-1]) / 2).clamp(1e-9, 1 - 1e-9)
    strength = _STRENGTH / len(ends)
    alpha, beta = strength * centres, strength * (1 - centres)
    evidence = math.lgamma(strength) - torch.lgamma(masses + strength)
    evidence += torch.lgamma(hits + alpha) - torch.lgamma(alpha)
    evidence += torch.lgamma(masses - hits + beta) - torch.lgamma(beta)
    return float(evidence.sum()), EventMap(ends, (hits + alpha) / (masses + strength))
