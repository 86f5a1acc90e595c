r"""What calibrators minimise, as functions of temperature T and focal exponent :math:`\gamma`.

The probabilities are :math:`\rho_\gamma(\mathrm{softmax}(z / T))`. With x the logits minus the largest, over
T, q their softmax, and :math:`R = -q \log q / (1 - q)`, the map gives class k the logit

.. math:: v_k = \log q_k - \gamma \log(1 - q_k) - \log(1 + \gamma R_k).

The top class, whose q may be as good as one, is known by the odds against it, the sum S of :math:`e^x` over
the others: :math:`\log q = -\log(1 + S)`, :math:`1 - q = S / (1 + S)`, :math:`R = \log(1 + S) / S`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch

from calibrant._math.binning import binned, width_bin_index
from calibrant._math.focal_map import entropy_ratio_of_top

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy.typing import NDArray
    from torch import Tensor

    from calibrant.calibrators._samples import Block, Samples

    Vector: TypeAlias = NDArray[np.float64]
    Matrix: TypeAlias = NDArray[np.float64]

Objective: TypeAlias = Literal["nll", "ece", "adaptive_ece", "brier", "smce", "classwise"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)
DIFFERENTIABLE = frozenset({"nll", "brier"})
JUDGED = frozenset({"ece", "adaptive_ece", "smce"})  # errors of the confidences judged, and of nothing else
BINNED = frozenset({"ece", "adaptive_ece", "classwise"})
NUM_BINS = 15
_LOG2_E = 1 / math.log(2)
_PAIRS = ((0, 0), (0, 1), (1, 1))


def objective_value(samples: Samples, objective: Objective, temperature: float, gamma: float = 0.0) -> float:
    """The objective at one point: the metric of that name on the calibrated probabilities."""
    if objective in DIFFERENTIABLE:
        return _smooth_value(samples, objective, temperature, gamma)
    if in_effect(objective, samples) == "classwise":
        return _classwise_error(samples, temperature, gamma)
    confidences = judged_confidences(samples, temperature, gamma)
    if objective == "smce":
        return _smooth_error(samples, confidences)
    return _binned_error(samples, objective, confidences)


def in_effect(objective: Objective, samples: Samples) -> Objective:
    """The objective itself, or a simpler one that is the same: an event is its only class."""
    return "ece" if objective == "classwise" and samples.is_event else objective


def judged_confidences(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    """Calibrated probabilities of the top class, or of the event."""
    blocks = [log_odds_of_top(block, temperature, (gamma,))[0] for block in samples.blocks()]
    return samples.judged(torch.cat(blocks)).sigmoid()


def _smooth_error(samples: Samples, confidences: Float[Tensor, " N"]) -> float:
    """Smooth calibration error, exactly."""
    from calibrant._math.lipschitz import smooth_calibration_error  # numba

    weights = None if samples.weights is None else samples.weights.cpu().numpy()
    return smooth_calibration_error(confidences.cpu().numpy(), samples.outcomes.cpu().numpy(), weights)


def _classwise_error(samples: Samples, temperature: float, gamma: float) -> float:
    """Calibration error over 15 bins of equal width, of every class, averaged."""
    num_classes = samples.scores.shape[1]
    sums = torch.zeros(num_classes * NUM_BINS, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = _Rows(block, temperature, gamma)
        probs = rows.probs.scatter(1, block.top, rows.hit)
        bins = width_bin_index(probs, NUM_BINS)
        bins += torch.arange(0, len(sums), NUM_BINS, device=bins.device)
        sums.index_add_(0, bins.view(-1), (probs * block.shares[:, None]).view(-1))
        label = torch.where(block.wrong, block.truth, block.top)
        sums.index_add_(0, bins.gather(1, label)[:, 0], block.shares, alpha=-1)
    return float(sums.abs().sum()) / num_classes


def _binned_error(samples: Samples, objective: Objective, confidences: Float[Tensor, " N"]) -> float:
    """Calibration error over 15 bins of equal width or equal mass."""
    sums = binned(
        confidences,
        samples.outcomes,
        num_bins=NUM_BINS,
        binning="mass" if objective == "adaptive_ece" else "width",
        weights=samples.weights,
    )
    return float(sums.calibration_error("l1"))


class Slopes(NamedTuple):
    """A function of the inverse temperature, and its two derivatives."""

    value: float
    first: float
    second: float


def likelihood_slopes(samples: Samples, inverse_temperature: float) -> Slopes:
    """Mean negative log-likelihood without focal map: convex in the inverse temperature."""
    # Only what takes a pass over the table is taken block by block: operations on few rows are mostly calls.
    parts = [_sums_below(block, inverse_temperature, samples.room) for block in samples.blocks()]
    sums = [column[0] if len(column) == 1 else torch.cat(column) for column in zip(*parts, strict=True)]
    terms = _likelihood_of_top(_SumsBelow(*sums), inverse_temperature)
    value, first, second = (torch.dot(term, samples.shares).item() for term in terms)
    gap = samples.mean_gap
    return Slopes(value - inverse_temperature * gap, first - gap, second)


def likelihood(samples: Samples, inverse_temperature: float) -> float:
    """The same without the derivatives."""
    odds = [
        (block.second * inverse_temperature).exp_()
        * _ratios(block, inverse_temperature, samples.room).sum(1, keepdim=True)
        for block in samples.blocks()
    ]
    value = torch.cat(odds)[:, 0].log1p_() @ samples.shares
    return float(value) - inverse_temperature * samples.mean_gap


def likelihood_terms(
    block: Block, inverse_temperature: float | Float[Tensor, "M 1 1"]
) -> Float[Tensor, "*M n 3"]:
    """Negative log-likelihood of each row, and its first and second derivative by the inverse temperature."""
    of_rows = (
        inverse_temperature[..., 0] if isinstance(inverse_temperature, torch.Tensor) else inverse_temperature
    )
    value, first, second = _likelihood_of_top(_sums_below(block, inverse_temperature), of_rows)
    gap = torch.where(block.wrong, block.second + block.below.gather(-1, block.truth), 0)[..., 0]
    return torch.stack([value - of_rows * gap, first - gap, second], dim=-1)


class _SumsBelow(NamedTuple):
    """Of the other classes' odds against the second, r = exp(beta b): sums of r, r b and r b squared."""

    total: Float[Tensor, "*M n"]
    first: Float[Tensor, "*M n"]
    second: Float[Tensor, "*M n"]
    gap: Float[Tensor, "*M n"]  # of the second class to the top one, at most 0


def _sums_below(
    block: Block, inverse_temperature: float | Float[Tensor, "M 1 1"], room: Tensor | None = None
) -> _SumsBelow:
    ones = torch.ones_like(block.below[..., 0, :])  # products with it are faster than short sums
    ratios = _ratios(block, inverse_temperature, room)
    total = _times(ratios, ones)
    first = _times(ratios.mul_(block.below), ones)
    return _SumsBelow(total, first, _times(ratios.mul_(block.below), ones), block.second[..., 0])


def _times(table: Float[Tensor, "*M n K"], ones: Float[Tensor, "*M K"]) -> Float[Tensor, "*M n"]:
    return torch.mv(table, ones) if table.ndim == 2 else (table @ ones[..., None])[..., 0]


def _ratios(
    block: Block, inverse_temperature: float | Float[Tensor, "M 1 1"], room: Tensor | None
) -> Float[Tensor, "*M n K"]:
    """Odds of the others against the second class, in ``room`` if that is given."""
    # By powers of two: where nothing is left of a class, torch's exp takes several times as long.
    out = None if room is None else room[: len(block.below)]
    return torch.mul(block.below, inverse_temperature * _LOG2_E, out=out).exp2_()


def _likelihood_of_top(
    sums: _SumsBelow, inverse_temperature: float | Float[Tensor, "M 1"]
) -> tuple[Float[Tensor, "*M n"], Float[Tensor, "*M n"], Float[Tensor, "*M n"]]:
    """Minus the log-probability of the top class, and its derivatives by the inverse temperature."""
    weight = (sums.gap * inverse_temperature).exp_()
    odds = weight * sums.total  # S, at most C - 1
    weight.div_(1 + odds)  # probability of the second class
    # Sums over the others of r times their gap to the top class, and times its square.
    inner = torch.addcmul(sums.first, sums.gap, sums.total)
    first = weight * inner
    second = torch.addcmul(sums.second, sums.gap, inner.add_(sums.first))
    return odds.log1p_(), first, second.mul_(weight).addcmul_(first, first, value=-1)


def log_odds_of_top(block: Block, temperature: float, gammas: Sequence[float]) -> list[Float[Tensor, " n"]]:
    """Log-odds of the top class at one temperature, for each exponent."""
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


class Expansion(NamedTuple):
    """A function of log T and gamma around a point: value, gradient, second derivatives."""

    value: float
    gradient: Vector
    hessian: Matrix


def smooth_objective(samples: Samples, objective: Objective, temperature: float, gamma: float) -> Expansion:
    """Mean negative log-likelihood, or Brier score."""
    if samples.is_event and samples.scores.device.type == "cpu":
        from calibrant.calibrators._event_objective import event_expansion  # compiled

        value, *rest = event_expansion(
            *samples.event_arrays, temperature, gamma, objective == "brier"
        ).tolist()
        return Expansion(value, np.array(rest[:2]), np.array([[rest[2], rest[3]], [rest[3], rest[4]]]))
    totals = torch.zeros(6, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = _Rows(block, temperature, gamma)
        losses = rows.log_loss_expansion() if objective == "nll" else rows.brier_score_expansion()
        totals += torch.stack(losses) @ block.shares
    value, *rest = (totals * _scale(samples, objective)).tolist()
    return Expansion(value, np.array(rest[:2]), np.array([[rest[2], rest[3]], [rest[3], rest[4]]]))


def log_losses(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    """Negative log-likelihood of each sample."""
    return torch.cat([_Rows(block, temperature, gamma).log_loss() for block in samples.blocks()])


def _smooth_value(samples: Samples, objective: Objective, temperature: float, gamma: float) -> float:
    total = torch.zeros((), dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = _Rows(block, temperature, gamma)
        total += (rows.log_loss() if objective == "nll" else rows.brier_score()) @ block.shares
    return float(total) * _scale(samples, objective)


def _scale(samples: Samples, objective: Objective) -> float:
    """Of events the Brier score is (p - y)², not summed over the two outcomes."""
    return 0.5 if objective == "brier" and samples.is_event else 1.0


@dataclass(frozen=True, eq=False)
class _Softened:
    """Rows at one temperature; the map's exponent comes later."""

    gaps: Float[Tensor, "n K"]  # x
    ratios: Float[Tensor, "n K"]  # probabilities over that of the second class
    log_odds: Float[Tensor, "n 1"]  # log S
    odds: Float[Tensor, "n 1"]
    log_total: Float[Tensor, "n 1"]  # log(1 + S)
    log_largest: Float[Tensor, "n 1"]  # log-probability of the second class


def _soften(block: Block, temperature: float) -> _Softened:
    beta = 1 / temperature
    gaps = block.below * beta
    largest = block.second * beta
    ratios = gaps.exp()
    log_odds = largest + ratios.sum(dim=1, keepdim=True).log()
    odds = log_odds.exp()
    log_total = odds.log1p()
    return _Softened(gaps.add_(largest), ratios, log_odds, odds, log_total, largest - log_total)


@dataclass(frozen=True, eq=False)
class _FocalTerms:
    """What the map needs of the other classes; their q is at most 1/2."""

    probs: Float[Tensor, "n K"]  # q
    miss: Float[Tensor, "n K"]  # 1 - q
    log_miss: Float[Tensor, "n K"]
    ratio: Float[Tensor, "n K"]  # R


def _focal_terms(soft: _Softened) -> _FocalTerms:
    probs = soft.ratios * soft.log_largest.exp()
    miss = 1 - probs
    ratio = (soft.gaps - soft.log_total).mul_(probs).div_(miss).neg_()
    return _FocalTerms(probs, miss, miss.log(), ratio)


def _weights(soft: _Softened, terms: _FocalTerms, gamma: float) -> Float[Tensor, "n K"]:
    """exp(v) of the other classes, over the probability of the second class."""
    return (terms.log_miss * -gamma).exp_().mul_(soft.ratios).div_(terms.ratio * gamma + 1)


def _logit_of_top(soft: _Softened, gamma: float) -> Float[Tensor, "n 1"]:
    log_miss = soft.log_odds - soft.log_total
    return -soft.log_total - gamma * log_miss - (gamma * entropy_ratio_of_top(soft.odds)).log1p()


class _Rows:
    """Rows after the map. Tables (n, K) run over the other classes; what is (n, 1) or (n,) is of the row."""

    def __init__(self, block: Block, temperature: float, gamma: float) -> None:
        self.block, self.gamma = block, gamma
        self.soft = soft = _soften(block, temperature)
        self.terms = terms = _focal_terms(soft)
        weights = _weights(soft, terms, gamma)
        total = weights.sum(dim=1, keepdim=True)
        self.top = _logit_of_top(soft, gamma)
        log_odds = soft.log_largest + total.log() - self.top  # of all the others
        self.probs = weights.mul_(log_odds.sigmoid() / total)  # (n, K)
        self.log_total = log_odds.exp().log1p()  # (n, 1)
        self.miss, self.hit = log_odds.sigmoid(), (-log_odds).sigmoid()

    def log_loss(self) -> Float[Tensor, " n"]:
        soft, terms, gamma = self.soft, self.terms, self.gamma
        logit = self._of_label(soft.gaps) - soft.log_total - gamma * self._of_label(terms.log_miss)
        logit = logit - (gamma * self._of_label(terms.ratio)).log1p()
        return (self.log_total - torch.where(self.block.wrong, logit - self.top, 0))[:, 0]

    def log_loss_expansion(self) -> list[Float[Tensor, " n"]]:
        slopes = [mean - own for mean, own in zip(self._means, self._own(slice(0, 2)), strict=True)]
        bends = [bend - own for bend, own in zip(self._bends, self._own(slice(2, 5)), strict=True)]
        return [self.log_loss(), *(column[:, 0] for column in (*slopes, *bends))]

    def brier_score(self) -> Float[Tensor, " n"]:
        hit, miss = self.hit, self.miss
        own = torch.where(self.block.wrong, hit * hit + 1 - 2 * self._of_label(self.probs), miss * miss)
        return own[:, 0] + self.probs.square().sum(dim=1)

    def brier_score_expansion(self) -> list[Float[Tensor, " n"]]:
        squares, top_square = self.probs.square(), self.hit.square()
        purity = squares.sum(dim=1, keepdim=True) + top_square
        truth = torch.where(
            self.block.wrong, self._of_label(self.probs), self.hit
        )  # probability of the label
        own = [slope - mean for slope, mean in zip(self._own(slice(0, 2)), self._means, strict=True)]
        found: list[Tensor] = []
        for centred, of_top, of_label in zip(self._centred, self._centred_top, own, strict=True):
            found.append(2 * (_dot(squares, centred) + top_square * of_top - truth * of_label))
        for place, (i, j), bend, curve in zip(
            (2, 3, 4), _PAIRS, self._bends, self._own(slice(2, 5)), strict=True
        ):
            table = torch.addcmul(self._others[place], self._centred[i], self._centred[j], value=2)
            of_top = self._top[place] + 2 * self._centred_top[i] * self._centred_top[j]
            of_label = own[i] * own[j] + curve - bend
            found.append(2 * (_dot(squares, table) + top_square * of_top - bend * purity - truth * of_label))
        return [self.brier_score(), *(column[:, 0] for column in found)]

    def _of_label(self, table: Float[Tensor, "n K"]) -> Float[Tensor, "n 1"]:
        """Entries of the label; without meaning where that is the top class."""
        return table.gather(1, self.block.truth)

    def _own(self, which: slice) -> list[Float[Tensor, "n 1"]]:
        """Derivatives of v of the label."""
        pairs = zip(self._others[which], self._top[which], strict=True)
        return [torch.where(self.block.wrong, self._of_label(table), top) for table, top in pairs]

    @cached_property
    def _means(self) -> list[Float[Tensor, "n 1"]]:
        """First derivatives of v averaged over all classes: those of log sum exp(v)."""
        return [_dot(self.probs, self._others[i]) + self.hit * self._top[i] for i in (0, 1)]

    @cached_property
    def _centred(self) -> list[Float[Tensor, "n K"]]:
        return [self._others[i] - self._means[i] for i in (0, 1)]

    @cached_property
    def _centred_top(self) -> list[Float[Tensor, "n 1"]]:
        return [self._top[i] - self._means[i] for i in (0, 1)]

    @cached_property
    def _bends(self) -> list[Float[Tensor, "n 1"]]:
        """Second derivatives of log sum exp(v): mean of v's own, and covariance of its slopes."""
        return [
            _dot(self.probs, torch.addcmul(self._others[place], self._centred[i], self._centred[j]))
            + self.hit * (self._top[place] + self._centred_top[i] * self._centred_top[j])
            for place, (i, j) in zip((2, 3, 4), _PAIRS, strict=True)
        ]

    @cached_property
    def _gap_moments(self) -> tuple[Float[Tensor, "n 1"], Float[Tensor, "n 1"]]:
        """Mean of x, and of x², over the other classes by their probabilities before the map."""
        soft = self.soft
        total = soft.ratios.sum(dim=1, keepdim=True)
        weighted = soft.ratios * soft.gaps
        return weighted.sum(dim=1, keepdim=True) / total, _dot(weighted, soft.gaps) / total

    @cached_property
    def _top(self) -> tuple[Float[Tensor, "n 1"], ...]:
        """Derivatives of the top class's v, a function of log S: by log T, by gamma, and as in ``_PAIRS``."""
        gamma, odds = self.gamma, self.soft.odds
        mean, square = self._gap_moments  # d log S / d log T = -mean
        prob, ratio = 1 / (1 + odds), entropy_ratio_of_top(odds)
        miss, damped = odds * prob, 1 + gamma * ratio
        ratio_slope = prob - ratio  # dR / d log S
        ratio_bend = -miss * prob - ratio_slope
        slope = -miss - gamma * prob - gamma * ratio_slope / damped
        bend = (gamma - 1) * miss * prob - gamma * (ratio_bend - gamma * ratio_slope**2 / damped) / damped
        mixed = -prob - ratio_slope / damped**2
        return (
            -slope * mean,
            self.soft.log_total - self.soft.log_odds - ratio / damped,
            bend * mean**2 - slope * (mean**2 - square - mean),
            -mixed * mean,
            (ratio / damped) ** 2,
        )

    @cached_property
    def _others(self) -> tuple[Float[Tensor, "n K"], ...]:
        """The same derivatives of the other classes' v, functions of log q."""
        gamma, terms = self.gamma, self.terms
        probs, miss, ratio = terms.probs, terms.miss, terms.ratio
        damped = ratio * gamma + 1
        damped_ratio = ratio / damped
        odds = probs / miss
        ratio_slope = (ratio - probs).div_(miss)  # dR / d log q
        ratio_bend = (ratio_slope * (1 + probs)).sub_(probs).div_(miss)
        ratio_slope /= damped
        slope = (odds - ratio_slope).mul_(gamma).add_(1)
        bend = (odds / miss).sub_(ratio_bend.div_(damped)).addcmul_(ratio_slope, ratio_slope, value=gamma)
        mixed = odds.sub_(ratio_slope.div_(damped))
        # d log q / d log T = (mean of x) - x; its own derivative is minus that, minus the variance of x.
        mean, square = (self.soft.odds / (1 + self.soft.odds) * moment for moment in self._gap_moments)
        variance = square - mean**2
        change = mean - self.soft.gaps
        return (
            slope * change,
            (terms.log_miss + damped_ratio).neg_(),
            bend.mul_(gamma).mul_(change).sub_(slope).mul_(change).sub_(slope.mul_(variance)),
            mixed.mul_(change),
            damped_ratio.square_(),
        )


def _dot(one: Float[Tensor, "n K"], other: Float[Tensor, "n K"]) -> Float[Tensor, "n 1"]:
    return torch.linalg.vecdot(one, other)[..., None]
