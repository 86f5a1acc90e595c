"""A local minimum of a smooth risk, by damped Newton steps in the logits."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.newton import halved
from calibrant._math.shapes import Float
from calibrant.theory.risk_minimiser_losses import Risk

_DENSE = 50  # classes up to which the matrix of second derivatives is written out
_LONGEST_STEP = 4.0
_SMALL = 1e-13  # change of a probability that ends the search
_HALVINGS = 30  # of a Newton step
_ROUNDING = 1e-13  # of the risk, relative
_FLATTER = 0.9  # by how much the gradient must then shrink
_DIFFERENCE = 1e-5  # step in a logit where second derivatives must be differences of first ones


class Point(NamedTuple):
    """Where a search ended."""

    logits: Float[Tensor, " C"]
    risk: float
    gradient_norm: float
    error: float
    """How far a further step would move a probability."""
    least_curvature: float
    """Smallest second derivative of the risk, along logits that sum to zero; NaN where not computed."""


class _Local:
    def __init__(self, risk: Risk, logits: Float[Tensor, " C"]) -> None:
        self._risk = risk
        self.logits = logits
        self._free = logits.detach().clone().requires_grad_()
        value = risk.at(self._free)
        self.value = value.item()
        twice = value.requires_grad
        try:
            (self._slope,) = torch.autograd.grad(value, self._free, create_graph=True)
        except RuntimeError:
            twice = False
            self._slope = torch.zeros_like(self._free)
        self.twice = twice and self._slope.requires_grad
        self.gradient = self._slope.detach()

    def times(self, direction: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
        """Second derivatives along a direction."""
        if self.twice:
            try:
                (product,) = torch.autograd.grad(
                    self._slope, self._free, direction, retain_graph=True, materialize_grads=True
                )
            except RuntimeError:  # differentiable once only
                self.twice = False
            else:
                return product
        length = _DIFFERENCE / float(direction.abs().max().clamp(min=1e-300))
        ahead, behind = (_gradient(self._risk, self.logits + sign * length * direction) for sign in (1, -1))
        return (ahead - behind) / (2 * length)


def _gradient(risk: Risk, logits: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
    free = logits.detach().clone().requires_grad_()
    (slope,) = torch.autograd.grad(risk.at(free), free)
    return slope


def _dense_step(local: _Local) -> tuple[Float[Tensor, " C"], float]:
    """Newton's step with every curvature taken as positive, and the smallest curvature."""
    size = len(local.logits)
    matrix = torch.stack([local.times(row) for row in torch.eye(size, dtype=torch.float64)])
    if not bool(matrix.isfinite().all()):
        return -local.gradient, math.nan
    # Any orthonormal basis of the logits that sum to zero.
    basis = torch.linalg.qr(torch.cat([torch.ones(size, 1), torch.eye(size)[:, :-1]], dim=1).double()).Q[
        :, 1:
    ]
    curvatures, directions = torch.linalg.eigh(basis.T @ (matrix + matrix.T) @ basis / 2)
    floor = max(1e-14 * float(curvatures.abs().max()), 1e-300)
    pulled = directions.T @ (basis.T @ local.gradient)
    step = -(basis @ (directions @ (pulled / curvatures.abs().clamp(min=floor))))
    return step, float(curvatures[0])


def _sparse_step(local: _Local) -> tuple[Float[Tensor, " C"], float]:
    """Newton's step by conjugate gradients, preconditioned by the probabilities."""
    scale = local.logits.softmax(0).clamp(min=1e-12)
    step = torch.zeros_like(local.gradient)
    residual = local.gradient.mean() - local.gradient  # a common shift changes nothing
    scaled = residual / scale
    direction = scaled
    product = residual @ scaled
    first = float(product)
    for _ in range(2 * len(step)):
        along = local.times(direction)
        along = along - along.mean()
        curvature = direction @ along
        if float(curvature) <= 0:
            return (step if bool(step.any()) else direction), math.nan
        length = product / curvature
        step = step + length * direction
        residual = residual - length * along
        scaled = residual / scale
        following = residual @ scaled
        if float(following) <= 1e-24 * first:
            break
        direction = scaled + following / product * direction
        product = following
    return step - step.mean(), math.nan


def _moved(logits: Float[Tensor, " C"], step: Float[Tensor, " C"]) -> float:
    """By how much a step moves a probability, to first order."""
    probs = logits.softmax(0)
    return float((probs * (step - probs @ step)).abs().max())


def descend(risk: Risk, start: Float[Tensor, " C"], *, max_steps: int = 300) -> Point:
    """Follow damped Newton steps from ``start`` until they no longer move a probability by 1e-13."""
    local = _Local(risk, start - start.mean())
    find = _dense_step if risk.num_classes <= _DENSE else _sparse_step
    step, curvature = find(local)
    for _ in range(max_steps):
        if not math.isfinite(local.value) or _moved(local.logits, step) <= _SMALL:
            break
        longest = float(step.abs().max())
        step = step * min(1.0, _LONGEST_STEP / longest)
        following = _search_along(risk, local, step)
        if following is None:
            break
        local = following
        step, curvature = find(local)
    return Point(
        local.logits, local.value, float(local.gradient.norm()), _moved(local.logits, step), curvature
    )


def _search_along(risk: Risk, local: _Local, step: Float[Tensor, " C"]) -> _Local | None:
    """The first of the halved steps that lessens the risk, or at its rounding the gradient."""
    slope, old = float(local.gradient @ step), float(local.gradient.norm())

    def at(part: float) -> tuple[float, float, _Local]:
        trial = _Local(risk, local.logits + part * step)
        return trial.value, part * slope, trial

    return halved(
        at,
        local.value,
        flatter=lambda trial: float(trial.gradient.norm()) < _FLATTER * old,
        rounding=_ROUNDING,
        halvings=_HALVINGS,
    )
