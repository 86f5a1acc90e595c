r"""Logarithms of probabilities and of their complements, accurate for confident networks.

The largest logit of a row is treated apart. The probability that it misses is summed from the other classes,
never taken as ``1 - p``, so that ``log p`` keeps its digits when ``p`` rounds to one, and ``log(1 - p)`` when
the others underflow. Classes are in the last dimension, a logit of ``-inf`` is a probability of zero, and NaN
passes through. Half precision is computed in float32 and returned in the caller's type.

Losses that look at the true class's :math:`p_t` alone are functions of its log-odds :math:`s = \log p_t -
\log(1 - p_t) = z_t - \log \sum_{j \ne t} e^{z_j}`, whose gradient :math:`\partial s / \partial z` (one at t,
minus the softmax of the others elsewhere) stays bounded. Those of :math:`\log(1 - p_t)` and of powers of
:math:`1 - p_t` are quotients of vanishing numbers when the network is sure. :math:`-\log p_t` is
softplus(-s), :math:`-\log(1 - p_t)` is softplus(s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from calibrant._math.shapes import Float, Int

# Stands for the logarithm of zero where infinity would meet infinity: it survives a factor of 1e7 in float32.
LOG_OF_ZERO = -1e30
# Log-odds above which log(1 + exp(-s)) is exp(-s), even in float64.
_SURE = 40.0


def working_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def back_to(result: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert to the caller's type; values beyond float16 become its largest number, not infinity."""
    if result.dtype == dtype:
        return result
    return result.to(dtype).nan_to_num(nan=math.nan)


@dataclass(frozen=True, eq=False)
class TopSplit:
    """Rows of logits seen from their largest entry; all but ``top`` and ``shift`` differentiable."""

    top: Int[Tensor, "*N 1"]  # index of the largest logit, the first among equals
    gaps: Float[Tensor, "*N C"]  # the other logits minus the largest; -inf at the largest one's index
    shift: Float[Tensor, "*N 1"]  # the largest gap
    ratios: Float[Tensor, "*N C"]  # exp(gaps - shift)
    total: Float[Tensor, "*N 1"]  # their sum, 1 to C - 1
    log_odds: Float[Tensor, "*N 1"]  # of all others against the top class, right also where odds underflow
    odds: Float[Tensor, "*N 1"]  # at most C - 1

    def probs_of_others(self) -> Float[Tensor, "*N C"]:
        """Softmax of the row, with 0 for the top class."""
        return self.ratios * (self.shift.exp() / (1 + self.odds))

    def shares_of_others(self) -> Float[Tensor, "*N C"]:
        """Softmax of the row without the top class, which has 0."""
        return self.ratios / self.total


def top_class(logits: Float[Tensor, "N C"]) -> Int[Tensor, " N"]:
    """Index of each row's largest logit, the first of equals; never traced."""
    if logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(logits.detach().numpy().argmax(axis=1))  # many times as fast
    return logits.argmax(dim=1)


def gaps_to_top(logits: Float[Tensor, "*N C"]) -> tuple[Int[Tensor, "*N 1"], Float[Tensor, "*N C"]]:
    """Index of each row's largest logit, and all logits minus it, with -inf at that index."""
    # Gathered, not reduced by amax: among equals the whole derivative belongs to one entry.
    top = logits.argmax(-1, keepdim=True)
    return top, (logits - logits.gather(-1, top)).scatter(-1, top, -math.inf)


def split_gaps(top: Int[Tensor, "*N 1"], gaps: Float[Tensor, "*N C"]) -> TopSplit:
    shift = gaps.detach().amax(-1, keepdim=True).clamp(min=LOG_OF_ZERO)
    ratios = (gaps - shift).exp()
    total = ratios.sum(-1, keepdim=True)
    total = torch.where(total == 0, 1, total)  # every other class has probability zero
    return TopSplit(top, gaps, shift, ratios, total, shift + total.log(), shift.exp() * total)


def split_top(logits: Float[Tensor, "*N C"]) -> TopSplit:
    return split_gaps(*gaps_to_top(logits))


def normalise_gaps(top: Int[Tensor, "*N 1"], gaps: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
    """Log-probabilities of rows given by ``gaps_to_top``."""
    log_top = -gaps.exp().sum(-1, keepdim=True).log1p()
    return (gaps + log_top).scatter(-1, top, log_top)


def log_softmax(logits: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
    """Log-probabilities; unlike torch's, the largest keeps its relative precision as it approaches zero."""
    wide = logits.to(working_dtype(logits.dtype))
    return back_to(normalise_gaps(*gaps_to_top(wide)), logits.dtype)


def log_one_minus_softmax(logits: Float[Tensor, "*N C"]) -> Float[Tensor, "*N C"]:
    """Logarithm of ``1 - softmax(logits)`` for every class, from the other classes."""
    return back_to(log_one_minus(split_top(logits.to(working_dtype(logits.dtype)))), logits.dtype)


def log_one_minus(split: TopSplit) -> Float[Tensor, "*N C"]:
    """:func:`log_one_minus_softmax` of rows seen from their largest entry."""
    others = (-split.probs_of_others()).log1p()
    return others.scatter(-1, split.top, split.log_odds - split.odds.log1p())


def log_sigmoid(log_odds: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """Logarithm of the probability; in a traced graph by steps that ONNX has too, with all digits."""
    if not torch.compiler.is_compiling():
        return functional.logsigmoid(log_odds)
    return log_odds.minimum(torch.zeros_like(log_odds)) - (-log_odds.abs()).exp().log1p()


class TrueClass(NamedTuple):
    logit: Float[Tensor, " N"]  # of the true class
    others: Float[Tensor, "N C"]  # the logits, a number near the lowest in place of the true class
    log_sum: Float[Tensor, " N"]  # log-sum-exp of the others

    @property
    def log_odds(self) -> Float[Tensor, " N"]:
        return self.logit - self.log_sum


def see_true_class(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> TrueClass:
    index = labels.unsqueeze(-1)
    # Not -inf: where every other class is masked, the sum, twice the sum and their gradients stay finite.
    others = logits.scatter(-1, index, torch.finfo(logits.dtype).min / 4)
    return TrueClass(logits.gather(-1, index).squeeze(-1), others, torch.logsumexp(others, -1))


def softplus(x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """``log(1 + exp(x))``; torch's own stops at 20, where float64 still resolves the difference."""
    return functional.softplus(x, threshold=_SURE)


def focal_power(log_odds: Float[Tensor, "*N"], gamma: float | Tensor) -> Float[Tensor, "*N"]:
    r""":math:`(1 - p)^\gamma` of the event with these log-odds, in logarithms: no power of zero."""
    return (-gamma * softplus(log_odds)).exp()


def focal_value(log_odds: Float[Tensor, "*N"], gamma: float) -> Float[Tensor, "*N"]:
    surprise = softplus(-log_odds)
    if gamma >= 0:
        return focal_power(log_odds, gamma) * surprise
    # The power overflows where the surprise underflows: add logarithms. That of softplus(-s) is -s there.
    sure = log_odds > _SURE
    log_surprise = torch.where(sure, -log_odds, softplus(-log_odds.clamp(max=_SURE)).log())
    return (log_surprise - gamma * softplus(log_odds)).exp()
