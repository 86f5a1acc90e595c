r"""Inverse focal calibration map: outputs of a network trained with focal loss from true probabilities.

Newton's method in log-probabilities relative to the top class, where the map is nearly linear: four or five
steps for the usual exponents. A step that does not lessen the largest residual is halved, row by row; as the
map is a bijection with a regular Jacobian for every :math:`\gamma > -1`, that arrives from anywhere. With
:math:`u_i = \log q_i - \log g(q_i)` the Jacobian is a diagonal and a rank-one term (rows sum to one): a step
costs little more than the map. Derivatives are those of the implicit function, and can be differentiated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from calibrant._math import focal_map
from calibrant._math.errors import ConvergenceError
from calibrant._math.shapes import Bool, Float, Int
from calibrant._math.simplex import TopSplit, back_to, gaps_to_top, normalise_gaps, split_gaps, split_top

# On a CPU, all rows take a few steps, then the unfinished ones take the rest.
_FEW_STEPS = 5
_MANY_STEPS = 2000  # gamma = 5, 20, 50, 100 and 1000 needed 6, 11, 18, 43 and about 1000
# Of a Newton step; if not even this part lowers the residual, the rest is rounding.
_LEAST_PART = 1e-6


def _steps_unseen(gamma: float | Tensor) -> int:
    """Steps on a device that should not wait for residuals: enough up to gamma = 50."""
    return 24 if isinstance(gamma, Tensor) else 8 + int(max(gamma, 0) // 2)


def slope_by_log_odds(probs: Tensor, misses: Tensor, ratio: Tensor, gamma: float | Tensor) -> Tensor:
    """Derivative of u by the log-odds of ``probs``; ``misses`` is one minus ``probs``, ``ratio`` its R."""
    return misses + gamma * (2 * probs - ratio + gamma * probs * ratio) / (1 + gamma * ratio)


class _Linearised(NamedTuple):
    split: TopSplit
    ratio: Float[Tensor, "*N C"]  # R of the other classes
    ratio_of_top: Float[Tensor, "*N 1"]
    weights: Float[Tensor, "*N C"]  # q_j / (1 - q_top) over du_j / dlog q_j, for the others
    slopes: Float[Tensor, "*N C"]  # du_j / dlog q_j, for the others
    top_share: Float[Tensor, "*N 1"]
    top_slope: Float[Tensor, "*N 1"]  # (1 - q) du / dlog q of the top class: stays finite at a vertex
    norm: Float[Tensor, "*N 1"]


def _linearise(split: TopSplit, gamma: Tensor) -> _Linearised:
    probs = split.probs_of_others()
    ratio = focal_map.entropy_ratio(probs, split.gaps - split.odds.log1p())
    ratio_of_top = focal_map.entropy_ratio_of_top(split.odds)
    slopes = slope_by_log_odds(probs, 1 - probs, ratio, gamma) / (1 - probs)
    top_share = 1 / (1 + split.odds)
    top_slope = slope_by_log_odds(top_share, split.odds * top_share, ratio_of_top, gamma)
    weights = split.shares_of_others() / slopes
    norm = top_share + top_slope * weights.sum(-1, keepdim=True)
    return _Linearised(split, ratio, ratio_of_top, weights, slopes, top_share, top_slope, norm)


def _undo(at: _Linearised, residual: Tensor, residual_of_top: Tensor) -> tuple[Tensor, Tensor]:
    """Change of log q that changes u by the residuals and a constant; row sums stay."""
    pulled = (at.weights * residual).sum(-1, keepdim=True)
    constant = -(at.top_slope * pulled + at.top_share * residual_of_top) / at.norm
    others = (residual + constant) / at.slopes
    return others, -at.split.odds * (at.split.shares_of_others() * others).sum(-1, keepdim=True)


def _undo_transposed(at: _Linearised, others: Tensor, top: Tensor) -> tuple[Tensor, Tensor]:
    pulled = (others - top * at.split.ratios * at.split.shift.exp()) / at.slopes
    total = pulled.sum(-1, keepdim=True) / at.norm
    return pulled - total * at.top_slope * at.weights, -total * at.top_share


def _by_gamma(at: _Linearised, gamma: Tensor) -> tuple[Tensor, Tensor]:
    others = -(-at.split.probs_of_others()).log1p() - at.ratio / (1 + gamma * at.ratio)
    log_miss = at.split.log_odds - at.split.odds.log1p()
    return others, -log_miss - at.ratio_of_top / (1 + gamma * at.ratio_of_top)


def _newton_step(
    top: Int[Tensor, "*N 1"], target: Float[Tensor, "*N C"], gaps: Float[Tensor, "*N C"], gamma: Tensor
) -> tuple[Float[Tensor, "*N C"], Float[Tensor, "*N 1"]]:
    """Newton's change of ``gaps``, and the largest residual that it removes to first order."""
    at = _linearise(split_gaps(top, gaps), gamma)
    factor = focal_map.log_gradient_factor(at.split.probs_of_others(), at.ratio, gamma)
    mapped = gaps - factor + focal_map.log_gradient_factor_of_top(at.split, gamma)
    residual = torch.where(target == -torch.inf, 0, target - mapped)
    others, of_top = _undo(at, residual, torch.zeros_like(at.norm))
    return others - of_top, residual.abs().amax(-1, keepdim=True)


class _Descent(NamedTuple):
    gaps: Float[Tensor, "*N C"]
    unfinished: Bool[Tensor, "*N 1"]  # rows that further steps would improve


def _descend(
    top: Int[Tensor, "*N 1"],
    target: Float[Tensor, "*N C"],
    gaps: Float[Tensor, "*N C"],
    gamma: Tensor,
    steps: int,
) -> _Descent:
    small = torch.finfo(gaps.dtype).eps ** 0.5 / 16  # the error after a step of this size is its square
    on_cpu = gaps.device.type == "cpu"
    change, residual = _newton_step(top, target, gaps, gamma)
    part = torch.ones_like(residual)
    for _ in range(steps):
        large = (change.abs() > small * (1 - gaps)).any(-1, keepdim=True)
        if on_cpu and not bool((large & (part > _LEAST_PART)).any()):
            break
        trial = gaps + part * change
        next_change, next_residual = _newton_step(top, target, trial, gamma)
        better = next_residual < residual
        gaps = torch.where(better, trial, gaps)
        change = torch.where(better, next_change, change)
        residual = torch.where(better, next_residual, residual)
        part = torch.where(better, 1, part / 2)
    large = (change.abs() > small * (1 - gaps)).any(-1, keepdim=True)
    gaps = torch.where(large, gaps, gaps + change).clamp(max=0)  # the map keeps the order
    return _Descent(gaps, large & (part > _LEAST_PART))


def _solve_rows(logits: Float[Tensor, "*N C"], gamma: Tensor, steps: int) -> Float[Tensor, "*N C"]:
    top, target = gaps_to_top(logits)
    if logits.device.type != "cpu":
        return normalise_gaps(top, _descend(top, target, target, gamma, steps).gaps)
    gaps, unfinished = _descend(top, target, target, gamma, _FEW_STEPS)
    if bool(unfinished.any()):
        left = unfinished.squeeze(-1)
        own_gamma = gamma.expand(top.shape)[left]
        last = _descend(top[left], target[left], gaps[left], own_gamma, _MANY_STEPS)
        if bool(last.unfinished.any()):
            count = int(last.unfinished.sum())
            raise ConvergenceError(
                f"the inverse focal map did not converge in {count} rows; use a smaller `gamma`."
            )
        gaps[left] = last.gaps
    return normalise_gaps(top, gaps)


def _solve(logits: Tensor, gamma: Tensor, steps: int) -> Tensor:
    if gamma.ndim > 0:
        return _solve_rows(logits, gamma, steps)
    return focal_map.in_blocks(lambda rows: _solve_rows(rows, gamma, steps), logits)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
    ctx.save_for_backward(output, inputs[1])


def _pull_back(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor | None, None]:
    (grad,) = grad_outputs
    log_probs, gamma = ctx.saved_tensors
    at = _linearise(split_top(log_probs), gamma)
    top = at.split.top
    others, of_top = _undo_transposed(at, grad.scatter(-1, top, 0), grad.gather(-1, top))
    by_gamma = None
    if ctx.needs_input_grad[1]:
        by_others, by_top = _by_gamma(at, gamma)
        per_row = (others * by_others).sum(-1, keepdim=True) + of_top * by_top
        by_gamma = -per_row.sum_to_size(gamma.shape)
    return others.scatter(-1, top, of_top), by_gamma, None


class _InverseRows(torch.autograd.Function):
    """Rows of logits to log-probabilities, with the derivatives of the implicit function."""

    @staticmethod
    def forward(logits: Tensor, gamma: Tensor, steps: int) -> Tensor:
        return _solve(logits, gamma, steps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        _keep(ctx, inputs, output)
        ctx.save_for_forward(output, inputs[1])

    backward = staticmethod(_pull_back)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Tensor | None) -> Tensor:
        by_logits, by_gamma, _ = grad_inputs
        log_probs, gamma = ctx.saved_tensors
        at = _linearise(split_top(log_probs), gamma)
        top = at.split.top
        others, of_top = torch.zeros_like(log_probs), torch.zeros_like(at.norm)
        if by_logits is not None:
            others, of_top = by_logits.scatter(-1, top, 0), by_logits.gather(-1, top)
        if by_gamma is not None:
            factor_of_others, factor_of_top = _by_gamma(at, gamma)
            others, of_top = others - factor_of_others * by_gamma, of_top - factor_of_top * by_gamma
        others, of_top = _undo(at, others, of_top)
        return others.scatter(-1, top, of_top)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Tensor, int]:
        logits, gamma, steps = args
        at, gamma_at, _ = in_dims
        # Rows are independent: one more leading dimension suffices.
        logits = logits.expand(info.batch_size, *logits.shape) if at is None else logits.movedim(at, 0)
        if gamma_at is not None:
            gamma = gamma.movedim(gamma_at, 0)
            gamma = gamma.reshape(info.batch_size, *[1] * (logits.ndim - gamma.ndim), *gamma.shape[1:])
        return _InverseRows.apply(logits, gamma, steps), 0


@torch.library.custom_op("calibrant::inverse_focal_map", mutates_args=())
def _opaque(logits: Tensor, gamma: Tensor, steps: int) -> Tensor:
    """Hide the solver from ``torch.compile``, which would trace it."""
    return _solve(logits, gamma, steps)


@_opaque.register_fake
def _(logits: Tensor, *_: object) -> Tensor:
    return torch.empty_like(logits)


_opaque.register_autograd(_pull_back, setup_context=_keep)


def inverse_focal_map_logits(logits: Float[Tensor, "*N C"], gamma: float | Tensor) -> Float[Tensor, "*N C"]:
    """Log-probabilities whose focal map is the softmax of ``logits``; differentiable in both arguments."""
    wide, exponent = focal_map.widen(logits, gamma)
    exponent = exponent if isinstance(exponent, Tensor) else wide.new_full((), exponent)
    solve = _opaque if torch.compiler.is_compiling() else _InverseRows.apply
    return back_to(solve(wide, exponent, _steps_unseen(gamma)), logits.dtype)


def inverse_focal_map_log_odds(log_odds: Float[Tensor, "*N"], gamma: float | Tensor) -> Float[Tensor, "*N"]:
    """Log-odds whose focal map is ``log_odds``, element by element; differentiable in both arguments."""
    wide, exponent = focal_map.widen(log_odds, gamma)
    rows = inverse_focal_map_logits(torch.stack([torch.zeros_like(wide), wide], -1), exponent)
    return back_to(rows[..., 1] - rows[..., 0], log_odds.dtype)
