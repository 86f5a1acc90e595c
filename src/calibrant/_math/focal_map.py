r"""Focal calibration map: true probabilities from the outputs of a network trained with focal loss.

With :math:`g(q) = (1-q)^\gamma (1 + \gamma R)`, the factor of focal loss's gradient, where
:math:`R = -q \log q / (1-q)`, the map is :math:`\rho_i \propto q_i / g(q_i)`. Everything is in logarithms:
:math:`\log\rho` is the log-softmax of :math:`\log q - \log g(q)`. Half precision is computed in float32 and
returned in the caller's type; float32 and float64 are computed as they are. NaN passes through, and nothing
here waits for the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from calibrant._math.arrays import CACHED_ELEMENTS
from calibrant._math.checks import check_is_number
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.simplex import TopSplit, back_to, normalise_gaps, split_top, working_dtype

# Its exp is zero in every float type, and unlike -inf it can be multiplied by zero.
_LOWEST_LOG = -1e4


def check_gamma(gamma: float | Tensor, *, elementwise: bool = False) -> None:
    """Refuse an exponent without a map; the value of a tensor is not checked."""
    if isinstance(gamma, Tensor):
        if gamma.ndim > 0 and not elementwise:
            raise InputError(f"`gamma` must be one number; got a tensor of shape {tuple(gamma.shape)}.")
        return
    check_is_number("gamma", gamma)
    if not (math.isfinite(gamma) and gamma > -1):
        raise InputError(
            f"`gamma` must be finite and greater than -1, else the focal map is not a bijection; got {gamma}."
        )


def widen(
    scores: Tensor, gamma: float | Tensor, *, elementwise: bool = False
) -> tuple[Tensor, float | Tensor]:
    check_gamma(gamma, elementwise=elementwise)
    wide = scores.to(working_dtype(scores.dtype))
    return wide, gamma.to(wide) if isinstance(gamma, Tensor) else gamma


def in_blocks(
    function: Callable[[Float[Tensor, "*N C"]], Float[Tensor, "*N C"]], rows: Float[Tensor, "*N C"]
) -> Float[Tensor, "*N C"]:
    """Apply a function of rows; on a CPU block by block, so that each step's input stays in cache."""
    traced = torch.compiler.is_compiling()  # a traced graph does not depend on the size of its rows
    if traced or rows.device.type != "cpu" or rows.ndim != 2 or rows.numel() <= CACHED_ELEMENTS:
        return function(rows)
    # Split, not sliced: the gradient of a slice is as large as the whole.
    return torch.cat([function(block) for block in rows.split(max(1, CACHED_ELEMENTS // rows.shape[-1]))])


def entropy_ratio(probs: Float[Tensor, "*N"], log_probs: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """R, for probabilities not close to one."""
    return probs * log_probs.clamp(min=_LOWEST_LOG) / (probs - 1)


def entropy_ratio_of_top(odds: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """R of a probability 1 / (1 + odds), by its series if the quotient's derivatives would be 0 / 0."""
    small = odds < (1e-8 if odds.dtype == torch.float64 else 1e-4)
    safe = torch.where(small, 1, odds)
    return torch.where(small, 1 - odds / 2, safe.log1p() / safe)


def log_gradient_factor(
    probs: Float[Tensor, "*N"], ratio: Float[Tensor, "*N"], gamma: float | Tensor
) -> Float[Tensor, "*N"]:
    """Logarithm of g, for probabilities not close to one."""
    return gamma * (-probs).log1p() + (gamma * ratio).log1p()


def log_gradient_factor_of_top(split: TopSplit, gamma: float | Tensor) -> Float[Tensor, "*N 1"]:
    odds = split.odds
    log_total = odds.log1p()
    close = gamma * (split.log_odds - log_total) + (gamma * entropy_ratio_of_top(odds)).log1p()
    # Up to a half by the formula of the other classes, so that equal logits give equal results.
    likely = odds < 1
    probs = 1 / (1 + torch.where(likely, 1, odds))
    return torch.where(likely, close, log_gradient_factor(probs, entropy_ratio(probs, -log_total), gamma))


def map_rows(logits: Float[Tensor, "*N C"], gamma: float | Tensor) -> Float[Tensor, "*N C"]:
    split = split_top(logits)
    probs = split.probs_of_others()
    factor = log_gradient_factor(probs, entropy_ratio(probs, split.gaps - split.odds.log1p()), gamma)
    gaps = split.gaps - (factor - log_gradient_factor_of_top(split, gamma))
    # The map keeps the order; rounding must not lift a close second over the top class.
    return normalise_gaps(split.top, gaps - gaps.detach().clamp(min=0))


def map_sizes(sizes: Float[Tensor, "*N"], gamma: float | Tensor) -> Float[Tensor, "*N"]:
    """The map on non-negative log-odds, with full relative accuracy near zero."""
    odds = (-sizes).exp()
    likely = entropy_ratio_of_top(odds)  # R of the likelier event
    # R of the likelier event minus R of the other, without cancellation at even odds.
    difference = -(-2 * sizes).expm1() * likely - sizes.clamp(max=-_LOWEST_LOG) * odds
    return (1 + gamma) * sizes + (-gamma * difference / (1 + gamma * likely)).log1p()


def focal_map_logits(logits: Float[Tensor, "*N C"], gamma: float | Tensor) -> Float[Tensor, "*N C"]:
    """Calibrated log-probabilities; ``gamma`` 0 is log-softmax. Differentiable in both arguments."""
    wide, exponent = widen(logits, gamma)
    return back_to(in_blocks(lambda rows: map_rows(rows, exponent), wide), logits.dtype)


def focal_map_log_odds(log_odds: Float[Tensor, "*N"], gamma: float | Tensor) -> Float[Tensor, "*N"]:
    """Calibrated log-odds of binary events, element by element; differentiable in both arguments.

    ``gamma`` may be a tensor that broadcasts: one exponent per column.
    """
    wide, exponent = widen(log_odds, gamma, elementwise=True)
    # The map is odd. Not by abs() and sign(): their derivatives at zero are zero, the map's is not.
    negative = wide < 0
    mapped = map_sizes(torch.where(negative, -wide, wide), exponent)
    return back_to(torch.where(negative, -mapped, mapped), log_odds.dtype)
