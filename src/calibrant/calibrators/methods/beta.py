"""Beta calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.newton import Expansion, Matrix, Minimum, Vector, minimise_in_box
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_sigmoid
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.doubts import few
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples

_IDENTITY: Vector = np.array([1.0, 1.0, 0.0])
_LOG_2 = math.log(2)
_HUGE = 1e150  # the square of which is a number


class BetaCalibration(Calibrator):
    r"""Fit a three-parameter curve, suited to beta-distributed scores.

    .. math:: \hat p = \sigma\left( a \log p - b \log(1 - p) + c \right), \qquad a, b \ge 0

    With a = b this is :class:`PlattScaling` with a slope that is not negative; with a and b of its own each
    side, near 0 and near 1, is mended by itself. In multilabel predictions every column has its own a, b and
    c. The order of samples stays.

    Where the likelihood has no maximum (only one class occurs, a threshold separates the classes) departures
    from a = b = 1, c = 0 cost as much as one sample would, and a warning says so.

    Raises:
        InputError: On ``fit``, for multiclass logits, of which :class:`DirichletCalibration` is this.

    Note:
        Newton's method on a convex function of three parameters, O(N) per step.

    References:
        Kull, Silva Filho and Flach, "Beta calibration: a well-founded and easily implemented improvement on
        logistic calibration for binary classifiers", AISTATS 2017.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([1.0] * 100 + [0.0] * 100 + [-3.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < share for share in (70, 50, 10)]).long()
        >>> calibrator = BetaCalibration().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([1.0, 0.0, -3.0])).tolist()]
        [0.7, 0.5, 0.1]
    """

    name = "beta"
    title = "Beta calibration"
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    for_other_kinds = "for two classes pass `logits[:, 1] - logits[:, 0]`, for more use dirichlet"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    parameter_ranges: ClassVar = {"a": (0.0, math.inf), "b": (0.0, math.inf), "c": (-math.inf, math.inf)}
    objective = "nll"
    a: Tensor
    b: Tensor
    c: Tensor

    def _solve(self, samples: Samples) -> Solution:
        log_odds = samples.scores.to(torch.float64)
        outcomes, total = samples.outcomes, samples.total_weight
        in_the_way = _in_the_way(log_odds, outcomes)
        loss = _Loss(log_odds, outcomes, samples.masses / total, 1 / total if in_the_way else 0.0)
        point, found = loss.least()
        before, after = loss.of(_IDENTITY), loss.of(point)
        if not after <= before:
            point, after = _IDENTITY, before
        return Solution(
            converged=found.slope < 1e-8,
            steps=found.steps,
            before=before,
            after=after,
            parameters=dict(zip("abc", point.tolist(), strict=True)),
            certificate={"gradient": found.slope},
            message=f"gradient {found.slope:.1e}",
            warnings=(f"{in_the_way}, so departures from the identity were penalised",)
            if in_the_way
            else few(samples.num_samples),
        )

    def _transform(self, scores: Tensor) -> Tensor:
        near_zero, near_one = log_sigmoid(scores), log_sigmoid(-scores)
        return self.a.to(scores) * near_zero - self.b.to(scores) * near_one + self.c.to(scores)


class _Loss:
    """Mean negative log-likelihood and, if need be, the penalty, of one event's log-odds."""

    def __init__(self, log_odds: Tensor, outcomes: Tensor, shares: Tensor, ridge: float) -> None:
        # log p = half + even - log 2, and -log(1 - p) = half - even + log 2: apart these keep their digits.
        self._half, self._even = log_odds / 2, -_log_cosh(log_odds / 2)
        self._outcomes, self._shares = outcomes, shares
        near_zero, near_one = self._half + self._even - _LOG_2, self._half - self._even + _LOG_2
        squares = [
            float(shares @ feature.clamp(-_HUGE, _HUGE).square()) or 1.0 for feature in (near_zero, near_one)
        ]
        self._ridge: Vector = ridge * np.array([*squares, 1.0])

    def least(self) -> tuple[Vector, Minimum]:
        """The minimum with a and b free or, where that leaves the quarter allowed, on its sides."""
        both = [(self._half, (0.5, 0.5)), (self._even, (0.5, -0.5))]
        point, found = self._least_along(both)
        if point[:2].min() >= 0:
            return point, found
        sides = [[(self._half - self._even, (0.0, 1.0))], [(self._half + self._even, (1.0, 0.0))], []]
        ends = [end for end in map(self._least_along, sides) if end[0][:2].min() >= 0]
        return min(ends, key=lambda end: end[1].value)

    def of(self, point: Vector) -> float:
        """The loss without the penalty."""
        a, b, c = point.tolist()
        logits = (a + b) * self._half + (a - b) * (self._even - _LOG_2) + c
        return float(_losses(logits, self._outcomes) @ self._shares)

    def _least_along(self, columns: Sequence[tuple[Tensor, tuple[float, float]]]) -> tuple[Vector, Minimum]:
        """The minimum over the intercept and factors of some columns, each of which adds to a and b."""
        features, to_abc = [torch.ones_like(self._half)], np.zeros((3, 1 + len(columns)))
        to_abc[2, 0] = 1
        for number, (column, sides) in enumerate(columns, 1):
            middle = float(column.median())
            size = float((column - middle).abs() @ self._shares) or 1.0
            features.append((column - middle) / size)
            to_abc[:, number] = np.array([*sides, (sides[0] - sides[1]) * _LOG_2 - middle]) / size
        design = torch.stack(features, dim=1)

        def function(place: Vector) -> Expansion:
            return self._expansion(design, to_abc, place)

        base = (self._shares @ self._outcomes).clamp(1e-12, 1 - 1e-12).logit().item()
        starts = [np.array([base, *[0.0] * len(columns)]), np.linalg.pinv(to_abc) @ _IDENTITY]
        start = min(starts, key=lambda place: function(place).value)
        free = np.full(len(start), math.inf)
        found = minimise_in_box(function, start, -free, free, longest_step=math.inf)
        return to_abc @ found.point, found

    def _expansion(self, design: Tensor, to_abc: Matrix, place: Vector) -> Expansion:
        logits = design @ torch.as_tensor(place).to(design)
        probs = logits.sigmoid()
        gradient = (self._shares * (probs - self._outcomes)) @ design
        spread = self._shares * probs * (1 - probs)
        hessian = design.T @ (spread[:, None] * design)
        away = to_abc @ place - _IDENTITY
        return Expansion(
            float(_losses(logits, self._outcomes) @ self._shares) + 0.5 * float(self._ridge @ away**2),
            gradient.cpu().numpy() + to_abc.T @ (self._ridge * away),
            hessian.cpu().numpy() + to_abc.T @ (self._ridge[:, None] * to_abc),
        )


def _losses(logits: Tensor, outcomes: Tensor) -> Float[Tensor, " N"]:
    return torch.nn.functional.softplus(logits) - outcomes * logits


def _log_cosh(values: Tensor) -> Tensor:
    """With all digits where it is small."""
    size = values.abs()
    small = 2 * (size.clamp(max=1) / 2).sinh().square()
    return torch.where(size < 1, small.log1p(), size - _LOG_2 + (-2 * size).exp().log1p())


def _in_the_way(log_odds: Tensor, outcomes: Tensor) -> str | None:
    """What leaves parameters undetermined, so that a penalty is needed."""
    happened = outcomes == 1
    if bool(happened.all()) or not bool(happened.any()):
        return "only one class occurs"
    if bool((log_odds == log_odds[0]).all()):
        return "all log-odds are equal"
    if bool(log_odds[happened].min() >= log_odds[~happened].max()):
        return "a threshold separates the classes"
    return None
