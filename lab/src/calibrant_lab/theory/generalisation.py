r"""A world with known true probabilities, and a linear model's performance in it.

Features are independent standard normal; the log-odds of the event are ``signal`` times the first of them. A
linear model on d features, d - 1 of which say nothing, over-fits the more the larger d / n is, as a network
does that has capacity to spare. Its log-odds t and the true ones are jointly normal, so what it would show on
infinitely many test samples is an integral, not a sample: for t = w x and :math:`v = \|w\|`

.. math:: P(y = 1 \mid t) = \mathbb E\, \sigma(a t + b \varepsilon) , \qquad
          a = s w_1 / v^2 , \quad b = s \sqrt{1 - w_1^2 / v^2} .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import check_at_least
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float

__all__ = ["LinearFit", "LogisticWorld", "TestPerformance", "fit_linear"]

Link: TypeAlias = Callable[[Tensor], Tensor]
SampleLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]

_NODES = 240
_TAIL = 10.0  # standard deviations; beyond lies 1e-23 of the mass
_MAX_STEPS = 200
_DIVERGED = 1e4
_SETTLED = 1e-10


def check_positive(name: str, value: float, *, or_zero: bool = False) -> None:
    if not (math.isfinite(value) and (value > 0 or (or_zero and value == 0))):
        rule = "not negative" if or_zero else "positive"
        raise InputError(f"`{name}` must be finite and {rule}; got {value}.")


def check_inside(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise InputError(f"`{name}` must be inside (0, 1); got {value}.")


class TestPerformance(NamedTuple):
    """Performance of a model on infinitely many test samples."""

    __test__ = False  # not a test case, despite its name

    accuracy: float
    confidence: float
    overconfidence: float  # confidence - accuracy
    calibration_error: float  # mean of |stated - true probability of the event| given the score
    cross_entropy: float
    temperature: float  # that minimises cross-entropy; above 1: over-confident


class LinearFit(NamedTuple):
    """Weights that minimise a loss, if the fit converged."""

    weights: Float[Tensor, " D"]
    converged: bool  # False: the steps ran out, or the classes can be separated and there is no minimum
    gradient_norm: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class LogisticWorld:
    r"""Standard normal features, of which only the first affects the event's log-odds.

    Args:
        num_features: How many features there are, d.
        signal: Standard deviation of the true log-odds, s.

    Example:
        >>> world = LogisticWorld(num_features=3, signal=2.0)
        >>> truth = world.performance(torch.tensor([2.0, 0.0, 0.0]))
        >>> round(truth.overconfidence, 12) + 0.0, round(truth.temperature, 12)
        (0.0, 1.0)
        >>> round(world.performance(torch.tensor([3.0, 1.0, 1.0])).temperature, 4)
        2.0739
    """

    num_features: int
    signal: float

    def __post_init__(self) -> None:
        check_at_least("num_features", self.num_features, 1)
        check_positive("signal", self.signal)

    def sample(self, num_samples: int, *, seed: int) -> tuple[Float[Tensor, "N D"], Float[Tensor, " N"]]:
        """Return features and outcomes in {0, 1}, float64, reproducible by seed."""
        generator = np.random.default_rng(seed)
        features = generator.normal(size=(num_samples, self.num_features))
        event = generator.random(num_samples) < 1 / (1 + np.exp(-self.signal * features[:, 0]))
        return torch.from_numpy(features), torch.from_numpy(event.astype(np.float64))

    def performance(self, weights: Float[Tensor, " D"], *, link: Link | None = None) -> TestPerformance:
        r"""Return a linear model's performance on infinitely many new samples.

        Args:
            weights: Weights of the features; the model's log-odds are t = w x.
            link: Applied to t before the sigmoid: odd, and of t's sign; a calibration map for instance.

        Returns:
            Accuracy, confidence, their difference, the true calibration error, cross-entropy in nats, and the
            temperature that minimises cross-entropy (infinite if the weights point the wrong way).

        Raises:
            InputError: If there is not one weight per feature, or all are zero.

        Note:
            Quadrature with 240 nodes each way: smooth quantities to 1e-10, the calibration error to 1e-5 if
            the stated and the true probabilities cross.
        """
        size = self._norm_of(weights)
        nodes, shares = _half_line()
        scores = size * nodes
        true = self.posterior(weights, scores)
        stated = scores if link is None else link(scores)
        probs = stated.sigmoid()
        surprise = torch.nn.functional.softplus(stated, threshold=40.0) - true * stated

        def slopes(inverse: float) -> tuple[float, float]:
            scaled = (inverse * stated).sigmoid()
            bend = (shares * stated.square() * scaled * (1 - scaled)).sum().item()
            return (shares * stated * (scaled - true)).sum().item(), bend

        inverse = convex_minimum(slopes, 1e-9, 1e9)
        confidence, accuracy = (shares * probs).sum().item(), (shares * true).sum().item()
        return TestPerformance(
            accuracy,
            confidence,
            confidence - accuracy,
            (shares * (probs - true).abs()).sum().item(),
            (shares * surprise).sum().item(),
            1 / inverse if inverse > 1e-9 else math.inf,
        )

    def posterior(self, weights: Float[Tensor, " D"], log_odds: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
        """Return the event's true probability given a linear model's log-odds.

        Args:
            weights: Weights of the features; the model's log-odds are t = w x.
            log_odds: Values of t.

        Raises:
            InputError: If there is not one weight per feature, or all are zero.

        Example:
            >>> world = LogisticWorld(num_features=2, signal=2.0)
            >>> log_odds = torch.tensor([0.0, 1.0], dtype=torch.float64)
            >>> log_odds.sigmoid(), world.posterior(torch.tensor([2.0, 1.0]), log_odds)
            (tensor([0.5000, 0.7311], dtype=torch.float64), tensor([0.5000, 0.6648], dtype=torch.float64))
        """
        size = self._norm_of(weights)
        along = weights[0].double().item() / size
        spread = self.signal * math.sqrt(max(1 - along**2, 0.0))
        half, shares = _half_line()
        centre = (self.signal * along / size) * log_odds.double()[:, None]
        both = ((centre + spread * half).sigmoid() + (centre - spread * half).sigmoid()) / 2
        return both @ shares

    def _norm_of(self, weights: Float[Tensor, " D"]) -> float:
        if weights.shape != (self.num_features,):
            raise InputError(f"`weights` must have shape ({self.num_features},); got {tuple(weights.shape)}.")
        size = torch.linalg.vector_norm(weights.double()).item()
        if not (math.isfinite(size) and size > 0):
            raise InputError("`weights` must be finite and not all zero.")
        return size


def fit_linear(
    features: Float[Tensor, "N D"], outcomes: Float[Tensor, " N"], loss: SampleLoss, *, penalty: float = 0.0
) -> LinearFit:
    r"""The linear model without bias that minimises a loss on a sample.

    Args:
        features: Shape ``(N, D)``.
        outcomes: In {0, 1}, shape ``(N,)``.
        loss: From log-odds ``(N,)`` and outcomes ``(N,)`` to one value per sample, twice differentiable.
        penalty: Weight :math:`\delta` of :math:`\frac{\delta}{2} \|w\|^2`, added to the mean loss.

    Returns:
        The weights, and whether a minimum was found.

    Raises:
        InputError: If shapes disagree or ``penalty`` is negative.

    Note:
        Newton's method from zero with a line search. Where a sample's curvature is negative (focal loss of a
        confidently wrong sample) it counts as zero, and the minimum may be a local one. If the classes can be
        separated, losses such as cross-entropy have none without a penalty.

    Example:
        >>> features, outcomes = LogisticWorld(num_features=2, signal=2.0).sample(20_000, seed=0)
        >>> def cross_entropy(log_odds, outcomes):
        ...     return torch.nn.functional.softplus(log_odds) - outcomes * log_odds
        >>> fit_linear(features, outcomes, cross_entropy).weights
        tensor([ 2.0032, -0.0331], dtype=torch.float64)
    """
    if features.ndim != 2 or outcomes.shape != features.shape[:1]:
        raise InputError(
            f"`outcomes` must have one entry per row of `features` {tuple(features.shape)}; "
            f"got shape {tuple(outcomes.shape)}."
        )
    check_positive("penalty", penalty, or_zero=True)
    rows, truth = features.double(), outcomes.double()
    weights = torch.zeros(rows.shape[1], dtype=torch.float64)
    ridge = (penalty + 1e-10) * torch.eye(rows.shape[1], dtype=torch.float64)

    def value(at: Tensor) -> float:
        return loss(rows @ at, truth).mean().item() + penalty / 2 * at.square().sum().item()

    size, steps = math.inf, 0
    while steps < _MAX_STEPS:
        slope, bend = derivatives(loss, rows @ weights, truth)
        gradient = rows.T @ slope / len(rows) + penalty * weights
        size = torch.linalg.vector_norm(gradient).item()
        if size <= _SETTLED or torch.linalg.vector_norm(weights).item() > _DIVERGED:
            break
        steps += 1
        hessian = (rows.T * bend.clamp(min=0.0)) @ rows / len(rows) + ridge
        direction = -torch.linalg.solve(hessian, gradient)
        length = _step_length(value, weights, direction, (gradient @ direction).item())
        if length == 0:
            break
        weights = weights + length * direction
    # A gradient that vanishes because every sample is right beyond doubt is not a minimum.
    separated = bool(((rows @ weights) * (2 * truth - 1) > 0).all())
    return LinearFit(weights, size <= 100 * _SETTLED and (penalty > 0 or not separated), size, steps)


def _step_length(value: Callable[[Tensor], float], at: Tensor, direction: Tensor, slope: float) -> float:
    """Return the longest of 1, 1/2, 1/4, ... that lowers the value enough for its slope; or 0."""
    before, length = value(at), 1.0
    while length > 1e-10:
        if value(at + length * direction) <= before + 1e-4 * length * slope + 1e-15:
            return length
        length /= 2
    return 0.0


def derivatives(loss: SampleLoss, log_odds: Tensor, outcomes: Tensor) -> tuple[Tensor, Tensor]:
    """Return each sample's first and second derivative in its log-odds."""
    scores = log_odds.detach().requires_grad_(True)
    values = loss(scores, outcomes)
    (slope,) = torch.autograd.grad(values.sum(), scores, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), scores)
    return slope.detach(), bend


@cache
def _half_line() -> tuple[Float[Tensor, " M"], Float[Tensor, " M"]]:
    """Return nodes and weights for the half-normal distribution."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    points = (nodes + 1) * _TAIL / 2
    density = weights * np.exp(-points * points / 2)
    return torch.from_numpy(points), torch.from_numpy(density / density.sum())
