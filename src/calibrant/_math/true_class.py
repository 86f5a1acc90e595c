r"""The true class against all the others, by its log-odds.

Losses that look at :math:`p_t` alone are functions of :math:`s = \log p_t - \log(1 - p_t) = z_t - \log
\sum_{j \ne t} e^{z_j}`, whose gradient :math:`\partial s / \partial z` (one at t, minus the softmax of the
others elsewhere) stays bounded. Those of :math:`\log(1 - p_t)` and of powers of :math:`1 - p_t` are quotients
of vanishing numbers when the network is sure. :math:`-\log p_t` is softplus(-s), :math:`-\log(1 - p_t)` is
softplus(s).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from calibrant._math.shapes import Float, Int

# Log-odds above which log(1 + exp(-s)) is exp(-s), even in float64.
_SURE = 40.0


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
