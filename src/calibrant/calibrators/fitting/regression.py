r"""Multinomial logistic regression of classes on features, by Newton's method.

Class k of sample n has the logit :math:`u_{nk} = \theta_k \cdot \phi_{nk}`; the objective is

.. math::
   \sum_n s_n \Big( \log \sum_k e^{u_{nk}} - u_{n y_n} \Big)
   + \tfrac12 \sum_{kf} r_{kf} (\theta_{kf} - \theta^0_{kf})^2 ,

convex in :math:`\theta`, with shares :math:`s_n` that sum to one. Features are the same for all classes
(matrix scaling) or each class has its own (vector scaling), whose factor of the first all may share
(bias-corrected temperature scaling). Few parameters are solved for with their Hessian,
many by conjugate gradients, which need it only times a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from calibrant._math.newton import halved
from calibrant._math.shapes import Bool, Float, Int

TOLERANCE = 1e-9  # of derivatives by parameters of features whose mean square is one
_NEARLY = 10 * TOLERANCE
_DENSE = 512  # parameters; beyond, conjugate gradients
_MAX_STEPS = 60
_DAMPING = 1e-11  # of the mean curvature: flat directions stay unchanged
_FALLS = 0.3  # reduction of the gradient that lets second derivatives serve again
_SETTLED = 1e-2  # largest change of a logit by Newton's last step
_MAX_PRODUCTS = 500
_ROUGH = 1e-4  # residual's and penalty's least share for which float32 is enough
_FLAT = 1e-6  # of the mean curvature; conjugate gradients avoid flatter directions
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Regression:
    """One regression problem."""

    features: Float[Tensor, "N F"] | Float[Tensor, "F N C"]
    labels: Int[Tensor, " N"]
    shares: Float[Tensor, " N"]
    ridge: Float[Tensor, "C F"]
    centre: Float[Tensor, "C F"]
    tied: bool = False  # whether all classes share the factor of their first feature

    @property
    def tolerance(self) -> float:
        """Gradient at which Newton's method stops; smaller if classes share a factor."""
        return TOLERANCE / 1000 if self.tied else TOLERANCE

    @cached_property
    def happened(self) -> Float[Tensor, "C F"]:
        table = self.shares.new_zeros(len(self.labels), len(self.ridge))
        return self.gather(table.scatter_(1, self.labels[:, None], self.shares[:, None]))

    @cached_property
    def products(self) -> Float[Tensor, "N P"]:
        """Products of two features, once for each pair."""
        first, second = _pairs(self.features.shape[1])[0]
        return self.features[:, first] * self.features[:, second]

    @cached_property
    def axes(self) -> tuple[Float[Tensor, " F"], Float[Tensor, "F F"]]:
        """Second moments of common features along their axes, and the axes as columns."""
        moments, axes = torch.linalg.eigh(self.features.T @ (self.shares[:, None] * self.features))
        return moments.clamp(min=0), axes

    def logits(self, theta: Float[Tensor, "C F"]) -> Float[Tensor, "N C"]:
        if self.features.ndim == 2:
            return self.features @ theta.T
        logits = self.features[0] * theta[:, 0]
        for feature, factor in zip(self.features[1:], theta.T[1:], strict=True):
            logits.addcmul_(feature, factor)
        return logits

    def value_of(self, theta: Float[Tensor, "C F"], losses: Float[Tensor, " N"]) -> float:
        """Mean negative log-likelihood, and half the weighted squared distance from the centre."""
        distance = float((self.ridge * (theta - self.centre).square()).sum())
        return 0.5 * distance + float(losses @ self.shares)

    def losses(self, theta: Float[Tensor, "C F"]) -> Float[Tensor, " N"]:
        return self.probs(theta)[1]

    def probs(self, theta: Float[Tensor, "C F"]) -> tuple[Float[Tensor, "N C"], Float[Tensor, " N"]]:
        """Probabilities, and the negative log-likelihood of each sample."""
        logits = self.logits(theta)
        logits -= logits.amax(dim=1, keepdim=True)
        gap = logits.gather(1, self.labels[:, None])
        total = logits.exp_().sum(dim=1, keepdim=True)
        return logits.div_(total), (total.log() - gap)[:, 0]

    def moves_little(self, gradient: Float[Tensor, "C F"]) -> bool:
        """Return True if the penalty alone keeps Newton's step from changing any logit noticeably."""
        most = float(self.features.abs().max()) * math.sqrt(self.ridge.shape[1])
        return most * float(gradient.norm()) <= _SETTLED / 2 * float(self.ridge.min())

    def part(self, rows: Bool[Tensor, " N"], strength: float) -> Regression:
        features = self.features[rows] if self.features.ndim == 2 else self.features[:, rows]
        labels, shares, ridge = self.labels[rows], self.shares[rows], strength * self.ridge
        return replace(self, features=features, labels=labels, shares=shares / shares.sum(), ridge=ridge)

    def gather(self, residuals: Float[Tensor, "N C"]) -> Float[Tensor, "C F"]:
        if self.features.ndim == 2:
            return residuals.T @ self.features
        return self.shared_out(
            torch.stack([(residuals * feature).sum(dim=0) for feature in self.features], dim=1)
        )

    def shared_out(self, table: Float[Tensor, "C F"]) -> Float[Tensor, "C F"]:
        """The table; if classes share a factor, with its first column replaced by its mean."""
        return torch.cat([table[:, :1].mean().expand(len(table), 1), table[:, 1:]], 1) if self.tied else table


@dataclass(frozen=True, eq=False)
class Fitted:
    """End point of the descent."""

    theta: Float[Tensor, "C F"]
    value: float
    gradient: float  # its largest entry
    steps: int
    unbounded: bool  # the gradient fades but the parameters keep growing: the likelihood has no maximum

    @property
    def converged(self) -> bool:
        return self.gradient <= _NEARLY and not self.unbounded


def regress(
    problem: Regression, start: Float[Tensor, "C F"] | None = None, *, tolerance: float = TOLERANCE
) -> Fitted:
    """Newton's method with halved steps: never above the start, which defaults to the centre.

    Second derivatives that lowered the gradient a lot also serve later steps, with BFGS corrections.
    """
    theta = problem.centre if start is None else start
    probs, losses = problem.probs(theta)
    value = problem.value_of(theta, losses)
    steps, largest, unbounded = 0, math.inf, False
    curvature: _Curvature | None = None
    while steps < _MAX_STEPS:
        steps += 1
        gradient = _gradient(problem, theta, probs)
        before, largest = largest, float(gradient.abs().max())
        if largest <= tolerance > TOLERANCE:
            break
        if largest <= problem.tolerance and curvature is None and problem.moves_little(gradient):
            break  # without the step, which may take long
        if curvature is not None and (largest > _FALLS * before or not curvature.add(theta, gradient)):
            curvature = None
        if kept := curvature is not None:
            step = curvature.step(gradient)
        else:
            step, factor = _newton_step(problem, probs, gradient)
            curvature = None if factor is None else _Curvature(factor, theta, gradient)
        # Small enough, or the limit of conjugate gradients.
        if largest <= problem.tolerance or before / 2 < largest <= _NEARLY:
            # In separable data the gradient fades as parameters grow, but Newton's step does not shrink.
            moved = problem.logits(step)
            unbounded = float((moved - moved.mean(dim=1, keepdim=True)).abs().max()) > _SETTLED
            if kept and not unbounded:  # which ends closer to the tolerance
                theta = theta - step
            break
        found = _along(problem, theta, value, -step, gradient, largest)
        if found is not None:
            theta, value, probs = found
        elif kept:
            curvature = None
        else:
            break
    return Fitted(theta, value, largest, steps, unbounded)


class _Curvature:
    """Second derivatives at one place, by their Cholesky factor, with later steps' corrections."""

    def __init__(self, factor: Float[Tensor, "P P"], theta: Tensor, gradient: Tensor) -> None:
        self._factor, self._last = factor, (theta.flatten(), gradient.flatten())
        self._steps: list[tuple[Tensor, Tensor, float]] = []

    def add(self, theta: Float[Tensor, "C F"], gradient: Float[Tensor, "C F"]) -> bool:
        """Learn from a step, unless it shows no curvature."""
        here = theta.flatten(), gradient.flatten()
        moved, changed = (new - old for new, old in zip(here, self._last, strict=True))
        curved = float(moved @ changed)
        if curved <= 0:
            return False
        self._last = here
        self._steps.append((moved, changed, curved))
        return True

    def step(self, gradient: Float[Tensor, "C F"]) -> Float[Tensor, "C F"]:
        rest, parts = gradient.flatten(), []
        for moved, changed, curved in reversed(self._steps):
            parts.append(float(moved @ rest) / curved)
            rest = rest - parts[-1] * changed
        step = torch.cholesky_solve(rest[:, None], self._factor)[:, 0]
        for (moved, changed, curved), part in zip(self._steps, reversed(parts), strict=True):
            step = step + (part - float(changed @ step) / curved) * moved
        return step.reshape(gradient.shape)


def _along(
    problem: Regression, theta: Tensor, value: float, step: Tensor, gradient: Tensor, largest: float
) -> tuple[Tensor, float, Tensor] | None:
    """Next parameters, with value and probabilities; None if no step descends."""
    descent = float((gradient * step).sum())

    def at(part: float) -> tuple[float, float, tuple[Tensor, float, Tensor]]:
        trial = theta + part * step
        probs, losses = problem.probs(trial)
        reached = problem.value_of(trial, losses)
        return reached, part * descent, (trial, reached, probs)

    def flatter(trial: tuple[Tensor, float, Tensor]) -> bool:
        return float(_gradient(problem, trial[0], trial[2]).abs().max()) < largest

    return halved(at, value, flatter=flatter)


def _gradient(problem: Regression, theta: Tensor, probs: Tensor) -> Float[Tensor, "C F"]:
    expected = problem.gather(probs * problem.shares[:, None])
    return expected - problem.happened + problem.ridge * (theta - problem.centre)


def _newton_step(
    problem: Regression, probs: Tensor, gradient: Tensor
) -> tuple[Float[Tensor, "C F"], Float[Tensor, "P P"] | None]:
    """Change to subtract from the parameters, and the Cholesky factor if found."""
    if problem.tied or gradient.numel() > _DENSE:  # products with the Hessian respect the shared factor
        return _by_conjugate_gradients(problem, probs, gradient), None
    hessian = _hessian(problem, probs)
    scale = float(hessian.diagonal().mean())
    if scale == 0:
        return torch.zeros_like(gradient), None
    eye, damping = torch.eye(len(hessian)).to(hessian), _DAMPING
    while damping < 1:
        factor, failed = torch.linalg.cholesky_ex(hessian + damping * scale * eye)
        if not bool(failed):
            return torch.cholesky_solve(gradient.reshape(-1, 1), factor).reshape(gradient.shape), factor
        damping *= 100
    return gradient / scale, None  # rounding removed all curvature


def _hessian(problem: Regression, probs: Float[Tensor, "N C"]) -> Float[Tensor, "P P"]:
    r"""Second derivatives: a term per class, minus the outer product of the mean features."""
    num_classes, width = problem.ridge.shape
    weighted = problem.shares[:, None] * probs
    features = problem.features
    if features.ndim == 2:  # every pair of classes with every pair of features, once
        (first, second), pair = _pairs(num_classes)
        shares, rows = weighted.T.contiguous(), probs.T.contiguous()  # (C, N)
        curvatures = shares[first] * rows[second]
        curvatures[first == second] -= shares
        sums = -(curvatures @ problem.products)
        blocks = sums[pair][:, :, _pairs(width)[1]]  # (C, C, F, F)
        hessian = blocks.transpose(1, 2).reshape(num_classes * width, -1)
    else:
        rows = (probs * features * problem.shares.sqrt()[:, None]).permute(1, 2, 0).flatten(1)
        hessian = -(rows.T @ rows)
        index = torch.arange(num_classes, device=probs.device)
        own = torch.stack([problem.gather(weighted * feature) for feature in features], dim=1)
        hessian.view(num_classes, width, num_classes, width)[index, :, index] += own
    hessian.diagonal().add_(problem.ridge.flatten())
    return hessian


def _pairs(number: int) -> tuple[Int[Tensor, "2 P"], Int[Tensor, "n n"]]:
    """Unordered pairs of ``number`` things, and the index of each pair."""
    pairs = torch.triu_indices(number, number)
    which = torch.empty(number, number, dtype=torch.int64)
    which[pairs[0], pairs[1]] = which[pairs[1], pairs[0]] = torch.arange(pairs.shape[1])
    return pairs, which


def _by_conjugate_gradients(
    problem: Regression, probs: Float[Tensor, "N C"], gradient: Float[Tensor, "C F"]
) -> Float[Tensor, "C F"]:
    """Step with a residual small enough for Newton's method to keep its speed."""
    weighted = problem.shares[:, None] * probs
    condition = _preconditioner(problem, weighted * (1 - probs))
    size, flat = float(gradient.norm()), _DAMPING * float(weighted.mean())
    wanted = max(min(0.1, math.sqrt(size)) * size, problem.tolerance / 10)
    rough = wanted > _ROUGH * size and float(problem.ridge.min()) * len(problem.ridge) > _ROUGH
    inside = problem
    if rough:
        inside = replace(problem, features=problem.features.float())
        probs, weighted = probs.float(), weighted.float()

    def product(vector: Tensor) -> Tensor:
        moved = inside.logits(vector.to(probs.dtype))
        centred = moved.sub_((probs * moved).sum(dim=1, keepdim=True)).mul_(weighted)
        return inside.gather(centred).to(vector.dtype) + problem.ridge * vector

    step, residual = torch.zeros_like(gradient), gradient.clone()
    conditioned = condition(residual)
    direction, energy = conditioned, float((residual * conditioned).sum())
    for _ in range(_MAX_PRODUCTS):
        along = product(direction)
        curvature = float((direction * along).sum())
        if curvature <= flat * float(direction.square().sum()):  # only rounding errors
            break
        length = energy / curvature
        step = step + length * direction
        residual = residual - length * along
        if float(residual.norm()) <= wanted:
            break
        conditioned = condition(residual)
        following = float((residual * conditioned).sum())
        direction, energy = conditioned + (following / energy) * direction, following
    return step if bool(step.any()) else condition(gradient)


def _preconditioner(problem: Regression, spread: Float[Tensor, "N C"]) -> Callable[[Tensor], Tensor]:
    """Approximate inverse Hessian that ignores the dependence between classes."""
    features, ridge = problem.features, problem.ridge
    if features.ndim == 3:
        squares = [(spread * feature.square()).sum(dim=0) for feature in features]
        diagonal = problem.shared_out(torch.stack(squares, dim=1)) + ridge
        diagonal += _FLAT * diagonal.mean() + _TINY
        return lambda vector: vector / diagonal
    # The features' second moments have the same axes for all classes, and another size for each.
    moments, axes = problem.axes
    sizes = spread.sum(dim=0)[:, None] * moments + ridge.mean(dim=1, keepdim=True)
    sizes += _FLAT * sizes.mean() + _TINY
    return lambda vector: ((vector @ axes) / sizes) @ axes.T
