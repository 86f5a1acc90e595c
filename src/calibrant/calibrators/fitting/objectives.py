r"""Objectives of calibrators as functions of temperature T and focal exponent :math:`\gamma`.

The probabilities are :math:`\rho_\gamma(\mathrm{softmax}(z / T))`. With x the logits minus the largest, over
T, q their softmax, and :math:`R = -q \log q / (1 - q)`, the map gives class k the logit

.. math:: v_k = \log q_k - \gamma \log(1 - q_k) - \log(1 + \gamma R_k).

The top class, whose q may be as good as one, is known by the odds against it, the sum S of :math:`e^x` over
the others: :math:`\log q = -\log(1 + S)`, :math:`1 - q = S / (1 + S)`, :math:`R = \log(1 + S) / S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
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
        total = torch.zeros((), dtype=torch.float64, device=samples.scores.device)
        for block in samples.blocks():
            total += FocalRows(block, temperature, gamma).loss(objective) @ block.shares
        return float(total) * _scale(samples, objective)
    if in_effect(objective, samples) == "classwise":
        return _classwise_error(samples, temperature, gamma)
    confidences = judged_confidences(samples, temperature, gamma)
    if objective == "smce":
        from calibrant._math.lipschitz import smooth_calibration_error  # numba

        weights = None if samples.weights is None else samples.weights.cpu().numpy()
        return smooth_calibration_error(confidences.cpu().numpy(), samples.outcomes.cpu().numpy(), weights)
    binning = "mass" if objective == "adaptive_ece" else "width"
    given = confidences, samples.outcomes
    sums = binned(*given, num_bins=NUM_BINS, binning=binning, weights=samples.weights)
    return float(sums.calibration_error("l1"))


def in_effect(objective: Objective, samples: Samples) -> Objective:
    """The objective, or an equal simpler one: an event is its only class."""
    return "ece" if objective == "classwise" and samples.is_event else objective


def judged_confidences(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    blocks = [log_odds_of_top(block, temperature, (gamma,))[0] for block in samples.blocks()]
    return samples.judged(torch.cat(blocks)).sigmoid()


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


def smooth_objective(samples: Samples, objective: Objective, temperature: float, gamma: float) -> Expansion:
    """Loss, and derivatives by log T and gamma up to second order."""
    if samples.scores.device.type == "cpu":
        from calibrant.calibrators.fitting.compiled_losses import class_expansion, event_expansion  # compiled

        expansion = event_expansion if samples.is_event else class_expansion
        given = (temperature, gamma, objective == "brier")
        return of_six(np.sum([expansion(block, *given) for block in samples.blocks()], axis=0))
    totals = torch.zeros(6, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        totals += expansion_by_tables(block, objective, temperature, gamma)
    return of_six((totals * _scale(samples, objective)).cpu().numpy())


def of_six(numbers: Vector) -> Expansion:
    """Expansion from the value, two slopes, and second derivatives: by the first, mixed, by the second."""
    value, first, second, bend, mixed, bend_second = numbers.tolist()
    return Expansion(value, np.array([first, second]), np.array([[bend, mixed], [mixed, bend_second]]))


def expansion_by_tables(
    block: Block, objective: Objective, temperature: float, gamma: float
) -> Float[Tensor, " D"]:
    """Six sums over a block without compiled loops, on any device and several times as slow."""
    with torch.enable_grad():
        at = block.shares.new_tensor([0.0, gamma]).requires_grad_()  # logarithm of a factor of T
        rows = FocalRows(block, temperature * at[0].exp(), at[1])
        value = rows.loss(objective) @ block.shares
        slopes = torch.autograd.grad(value, at, create_graph=True)[0]
        bends = [torch.autograd.grad(slope, at, retain_graph=True)[0] for slope in slopes]
    return torch.stack([value, *slopes, bends[0][0], bends[0][1], bends[1][1]]).detach()


def log_losses(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    return torch.cat([FocalRows(block, temperature, gamma).log_loss() for block in samples.blocks()])


def _scale(samples: Samples, objective: Objective) -> float:
    """Factor of the Brier score: an event's is (p - y)², without a sum over its two outcomes."""
    return 0.5 if objective == "brier" and samples.is_event else 1.0


def log_odds_of_top(block: Block, temperature: float, gammas: Sequence[float]) -> list[Float[Tensor, " n"]]:
    soft = _Softened(block, temperature)
    return [-(soft.weighted(gamma)[-1] if gamma else soft.log_odds)[:, 0] for gamma in gammas]


class _Softened:
    """Rows before the focal map. Tables (n, K) run over the other classes, whose q is at most 1/2."""

    def __init__(self, block: Block, temperature: float | Tensor) -> None:
        beta = 1 / temperature
        self._gaps, self._largest = block.below * beta, block.second * beta
        self.ratios = self._gaps.exp()  # probabilities over that of the second class
        self.log_odds = self._largest + self.ratios.sum(dim=1, keepdim=True).log()  # log S
        self.odds = self.log_odds.exp()
        self.log_total = self.odds.log1p()  # log(1 + S)
        self.log_largest = self._largest - self.log_total  # log-probability of the second class

    @cached_property
    def focal_terms(self) -> tuple[Float[Tensor, "n K"], Float[Tensor, "n K"], Float[Tensor, "n K"]]:
        """-log q, log(1 - q), and R."""
        surprise = self.log_total - (self._gaps + self._largest)
        probs = self.ratios * self.log_largest.exp()
        miss = 1 - probs
        return surprise, miss.log(), surprise * probs / miss

    def weighted(self, gamma: float | Tensor) -> tuple[Float[Tensor, "n K"], Tensor, Tensor, Tensor]:
        """exp(v) over the second class's probability, and its sums; v of the top class, log-odds."""
        _, log_miss, ratio = self.focal_terms
        weights = (log_miss * -gamma).exp() * self.ratios / (ratio * gamma + 1)
        top = -self.log_total - gamma * (self.log_odds - self.log_total)
        top = top - (gamma * entropy_ratio_of_top(self.odds)).log1p()
        total = weights.sum(dim=1, keepdim=True)
        return weights, total, top, self.log_largest + total.log() - top


class FocalRows:
    """Rows after the focal map. Tables (n, K) run over the other classes; (n, 1) or (n,) are per row."""

    def __init__(self, block: Block, temperature: float | Tensor, gamma: float | Tensor) -> None:
        self.block, self.gamma, self.soft = block, gamma, _Softened(block, temperature)
        weights, total, self.top, log_odds = self.soft.weighted(gamma)
        self.log_total = log_odds.exp().log1p()  # (n, 1)
        self.miss, self.hit = log_odds.sigmoid(), (-log_odds).sigmoid()
        self.probs = weights * (self.miss / total)  # (n, K)

    def loss(self, objective: Objective) -> Float[Tensor, " n"]:
        return self.log_loss() if objective == "nll" else self.brier_score()

    def log_loss(self) -> Float[Tensor, " n"]:
        surprise, log_miss, ratio = (table.gather(1, self.block.truth) for table in self.soft.focal_terms)
        logit = -surprise - self.gamma * log_miss - (self.gamma * ratio).log1p()
        return (self.log_total - torch.where(self.block.wrong, logit - self.top, 0))[:, 0]

    def brier_score(self) -> Float[Tensor, " n"]:
        hit, miss = self.hit, self.miss
        label = self.probs.gather(1, self.block.truth)
        own = torch.where(self.block.wrong, hit * hit + 1 - 2 * label, miss * miss)
        return own[:, 0] + self.probs.square().sum(dim=1)
