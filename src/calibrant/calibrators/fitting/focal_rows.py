r"""Rows of samples after temperature and focal map, with derivatives.

The probabilities are :math:`\rho_\gamma(\mathrm{softmax}(z / T))`. With x the logits minus the largest, over
T, q their softmax, and :math:`R = -q \log q / (1 - q)`, the map gives class k the logit

.. math:: v_k = \log q_k - \gamma \log(1 - q_k) - \log(1 + \gamma R_k).

The top class, whose q may be as good as one, is known by the odds against it, the sum S of :math:`e^x` over
the others: :math:`\log q = -\log(1 + S)`, :math:`1 - q = S / (1 + S)`, :math:`R = \log(1 + S) / S`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from calibrant._math.focal_map import entropy_ratio_of_top
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.samples import Block

_PAIRS = ((0, 0), (0, 1), (1, 1))


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


class FocalRows:
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
        """Negative log-likelihood of each row."""
        soft, terms, gamma = self.soft, self.terms, self.gamma
        logit = self._of_label(soft.gaps) - soft.log_total - gamma * self._of_label(terms.log_miss)
        logit = logit - (gamma * self._of_label(terms.ratio)).log1p()
        return (self.log_total - torch.where(self.block.wrong, logit - self.top, 0))[:, 0]

    def log_loss_expansion(self) -> list[Float[Tensor, " n"]]:
        """Log loss, its derivatives by log T and gamma, and the second ones as in ``_PAIRS``."""
        slopes = [mean - own for mean, own in zip(self._means, self._own(slice(0, 2)), strict=True)]
        bends = [bend - own for bend, own in zip(self._bends, self._own(slice(2, 5)), strict=True)]
        return [self.log_loss(), *(column[:, 0] for column in (*slopes, *bends))]

    def brier_score(self) -> Float[Tensor, " n"]:
        """Brier score of each row, summed over the classes."""
        hit, miss = self.hit, self.miss
        own = torch.where(self.block.wrong, hit * hit + 1 - 2 * self._of_label(self.probs), miss * miss)
        return own[:, 0] + self.probs.square().sum(dim=1)

    def brier_score_expansion(self) -> list[Float[Tensor, " n"]]:
        """Brier score and its derivatives, in the order of :meth:`log_loss_expansion`."""
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
