r"""Objectives of calibrators as functions of temperature T and focal exponent :math:`\gamma`.

The probabilities are :math:`\rho_\gamma(\mathrm{softmax}(z / T))`. With x the logits minus the largest, over
T, q their softmax, and :math:`R = -q \log q / (1 - q)`, the map gives class k the logit

.. math:: v_k = \log q_k - \gamma \log(1 - q_k) - \log(1 + \gamma R_k).

The top class, whose q may be as good as one, is known by the odds against it, the sum S of :math:`e^x` over
the others: :math:`\log q = -\log(1 + S)`, :math:`1 - q = S / (1 + S)`, :math:`R = \log(1 + S) / S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import binned, width_bin_index
from calibrant._math.focal_map import entropy_ratio_of_top
from calibrant._math.newton import Expansion, Vector
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.samples import Block, Samples

Objective: TypeAlias = Literal["nll", "ece", "adaptive_ece", "brier", "smce", "classwise"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)
DIFFERENTIABLE = frozenset({"nll", "brier"})
JUDGED = frozenset({"ece", "adaptive_ece", "smce"})  # errors of the confidences judged, and of nothing else
BINNED = frozenset({"ece", "adaptive_ece", "classwise"})
NUM_BINS = 15


def objective_value(samples: Samples, objective: Objective, temperature: float, gamma: float = 0.0) -> float:
    if objective in DIFFERENTIABLE:
        return _smooth_value(samples, objective, temperature, gamma)
    if in_effect(objective, samples) == "classwise":
        return _classwise_error(samples, temperature, gamma)
    confidences = judged_confidences(samples, temperature, gamma)
    if objective == "smce":
        return _smooth_error(samples, confidences)
    return _binned_error(samples, objective, confidences)


def in_effect(objective: Objective, samples: Samples) -> Objective:
    """The objective, or an equal simpler one: an event is its only class."""
    return "ece" if objective == "classwise" and samples.is_event else objective


def judged_confidences(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    blocks = [log_odds_of_top(block, temperature, (gamma,))[0] for block in samples.blocks()]
    return samples.judged(torch.cat(blocks)).sigmoid()


def _smooth_error(samples: Samples, confidences: Float[Tensor, " N"]) -> float:
    from calibrant._math.lipschitz import smooth_calibration_error  # numba

    weights = None if samples.weights is None else samples.weights.cpu().numpy()
    return smooth_calibration_error(confidences.cpu().numpy(), samples.outcomes.cpu().numpy(), weights)


def _classwise_error(samples: Samples, temperature: float, gamma: float) -> float:
    num_classes = samples.scores.shape[1]
    sums = torch.zeros(num_classes * NUM_BINS, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = FocalRows(block, temperature, gamma)
        probs = rows.probs.scatter(1, block.top, rows.hit)
        bins = width_bin_index(probs, NUM_BINS)
        bins += torch.arange(0, len(sums), NUM_BINS, device=bins.device)
        sums.index_add_(0, bins.view(-1), (probs * block.shares[:, None]).view(-1))
        label = torch.where(block.wrong, block.truth, block.top)
        sums.index_add_(0, bins.gather(1, label)[:, 0], block.shares, alpha=-1)
    return float(sums.abs().sum()) / num_classes


def _binned_error(samples: Samples, objective: Objective, confidences: Float[Tensor, " N"]) -> float:
    sums = binned(
        confidences,
        samples.outcomes,
        num_bins=NUM_BINS,
        binning="mass" if objective == "adaptive_ece" else "width",
        weights=samples.weights,
    )
    return float(sums.calibration_error("l1"))


def smooth_objective(samples: Samples, objective: Objective, temperature: float, gamma: float) -> Expansion:
    if samples.is_event and samples.scores.device.type == "cpu":
        from calibrant.calibrators.fitting.compiled_losses import event_expansion  # compiled

        given = (temperature, gamma, objective == "brier")
        return of_six(np.sum([event_expansion(block, *given) for block in samples.blocks()], axis=0))
    totals = torch.zeros(6, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        totals += _expansion(block, objective, temperature, gamma)
    return of_six((totals * _scale(samples, objective)).cpu().numpy())


def of_six(numbers: Vector) -> Expansion:
    """Expansion from the value, two slopes, and second derivatives: by the first, mixed, by the second."""
    value, first, second, bend, mixed, bend_second = numbers.tolist()
    return Expansion(value, np.array([first, second]), np.array([[bend, mixed], [mixed, bend_second]]))


def _expansion(block: Block, objective: Objective, temperature: float, gamma: float) -> Float[Tensor, " D"]:
    """Sums over a block: loss, and derivatives by log T and gamma up to second order."""
    if block.below.device.type == "cpu":
        from calibrant.calibrators.fitting.compiled_losses import class_expansion  # compiled

        return torch.from_numpy(class_expansion(block, temperature, gamma, objective == "brier"))
    return expansion_by_tables(block, objective, temperature, gamma)


def expansion_by_tables(
    block: Block, objective: Objective, temperature: float, gamma: float
) -> Float[Tensor, " D"]:
    """Sums of :func:`_expansion` without compiled loops, on any device and several times as slow."""
    with torch.enable_grad():
        at = block.shares.new_tensor([0.0, gamma]).requires_grad_()  # logarithm of a factor of T
        rows = FocalRows(block, temperature * at[0].exp(), at[1])
        value = (rows.log_loss() if objective == "nll" else rows.brier_score()) @ block.shares
        slopes = torch.autograd.grad(value, at, create_graph=True)[0]
        bends = [torch.autograd.grad(slope, at, retain_graph=True)[0] for slope in slopes]
    return torch.stack([value, *slopes, bends[0][0], bends[0][1], bends[1][1]]).detach()


def log_losses(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    return torch.cat([FocalRows(block, temperature, gamma).log_loss() for block in samples.blocks()])


def _smooth_value(samples: Samples, objective: Objective, temperature: float, gamma: float) -> float:
    total = torch.zeros((), dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = FocalRows(block, temperature, gamma)
        total += (rows.log_loss() if objective == "nll" else rows.brier_score()) @ block.shares
    return float(total) * _scale(samples, objective)


def _scale(samples: Samples, objective: Objective) -> float:
    """Factor of the Brier score: an event's is (p - y)², without a sum over its two outcomes."""
    return 0.5 if objective == "brier" and samples.is_event else 1.0


def log_odds_of_top(block: Block, temperature: float, gammas: Sequence[float]) -> list[Float[Tensor, " n"]]:
    soft = _soften(block, temperature)
    terms = _focal_terms(soft) if any(gammas) else None
    found: list[Tensor] = []
    for gamma in gammas:
        log_odds = soft.log_odds
        if terms is not None and gamma != 0:
            total = _weights(soft, terms, gamma).sum(dim=1, keepdim=True)
            log_odds = soft.log_largest + total.log() - _logit_of_top(soft, gamma)
        found.append(-log_odds[:, 0])
    return found


@dataclass(frozen=True, eq=False)
class _Softened:
    gaps: Float[Tensor, "n K"]  # x
    ratios: Float[Tensor, "n K"]  # probabilities over that of the second class
    log_odds: Float[Tensor, "n 1"]  # log S
    odds: Float[Tensor, "n 1"]
    log_total: Float[Tensor, "n 1"]  # log(1 + S)
    log_largest: Float[Tensor, "n 1"]  # log-probability of the second class


def _soften(block: Block, temperature: float | Tensor) -> _Softened:
    beta = 1 / temperature
    gaps = block.below * beta
    largest = block.second * beta
    ratios = gaps.exp()
    log_odds = largest + ratios.sum(dim=1, keepdim=True).log()
    odds = log_odds.exp()
    log_total = odds.log1p()
    return _Softened(gaps + largest, ratios, log_odds, odds, log_total, largest - log_total)


@dataclass(frozen=True, eq=False)
class _FocalTerms:
    """The focal map's terms of the other classes; their q is at most 1/2."""

    probs: Float[Tensor, "n K"]  # q
    miss: Float[Tensor, "n K"]  # 1 - q
    log_miss: Float[Tensor, "n K"]
    ratio: Float[Tensor, "n K"]  # R


def _focal_terms(soft: _Softened) -> _FocalTerms:
    probs = soft.ratios * soft.log_largest.exp()
    miss = 1 - probs
    ratio = (soft.log_total - soft.gaps) * probs / miss
    return _FocalTerms(probs, miss, miss.log(), ratio)


def _weights(soft: _Softened, terms: _FocalTerms, gamma: float | Tensor) -> Float[Tensor, "n K"]:
    """exp(v) of the other classes, over the probability of the second class."""
    return (terms.log_miss * -gamma).exp() * soft.ratios / (terms.ratio * gamma + 1)


def _logit_of_top(soft: _Softened, gamma: float | Tensor) -> Float[Tensor, "n 1"]:
    log_miss = soft.log_odds - soft.log_total
    return -soft.log_total - gamma * log_miss - (gamma * entropy_ratio_of_top(soft.odds)).log1p()


class FocalRows:
    """Rows after the focal map. Tables (n, K) run over the other classes; (n, 1) or (n,) are per row."""

    def __init__(self, block: Block, temperature: float | Tensor, gamma: float | Tensor) -> None:
        self.block, self.gamma = block, gamma
        self.soft = soft = _soften(block, temperature)
        self.terms = terms = _focal_terms(soft)
        weights = _weights(soft, terms, gamma)
        total = weights.sum(dim=1, keepdim=True)
        self.top = _logit_of_top(soft, gamma)
        log_odds = soft.log_largest + total.log() - self.top  # of all the others
        self.probs = weights * (log_odds.sigmoid() / total)  # (n, K)
        self.log_total = log_odds.exp().log1p()  # (n, 1)
        self.miss, self.hit = log_odds.sigmoid(), (-log_odds).sigmoid()

    def log_loss(self) -> Float[Tensor, " n"]:
        soft, terms, gamma = self.soft, self.terms, self.gamma
        logit = self._of_label(soft.gaps) - soft.log_total - gamma * self._of_label(terms.log_miss)
        logit = logit - (gamma * self._of_label(terms.ratio)).log1p()
        return (self.log_total - torch.where(self.block.wrong, logit - self.top, 0))[:, 0]

    def brier_score(self) -> Float[Tensor, " n"]:
        hit, miss = self.hit, self.miss
        own = torch.where(self.block.wrong, hit * hit + 1 - 2 * self._of_label(self.probs), miss * miss)
        return own[:, 0] + self.probs.square().sum(dim=1)

    def _of_label(self, table: Float[Tensor, "n K"]) -> Float[Tensor, "n 1"]:
        return table.gather(1, self.block.truth)
