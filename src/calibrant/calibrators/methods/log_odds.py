"""Calibrators of log-odds by curves of two or three numbers: Platt, beta and quadratic scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.newton import Expansion, Matrix, Minimum, Vector, minimise_in_box
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_sigmoid
from calibrant.calibrators.affine import Affine, scaling
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.data import few
from calibrant.calibrators.fitting.regression import Regression, regress
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import fit_temperature

_ONE_CLASS = "only one class occurs"
_EQUAL = "all log-odds are equal"
_THRESHOLD = "a threshold separates the classes"
_SAID_OF_A_LINE = {
    _ONE_CLASS: f"the slope stays 1 and targets are smoothed, as {_ONE_CLASS}",
    _EQUAL: f"{_EQUAL}, so the slope stays 1",
    _THRESHOLD: f"{_THRESHOLD}, so targets are smoothed",
}
_IDENTITY: Vector = np.array([1.0, 1.0, 0.0])
_LOG_2 = math.log(2)
_HUGE = 1e150  # the square of which is a number


class _Curve(Calibrator):
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    for_other_kinds = "pass `logits[:, 1] - logits[:, 0]` of two classes"
    objective = "nll"


class PlattScaling(_Curve):
    r"""Fit a slope and an intercept to the log-odds.

    .. math:: \hat p = \sigma(a s + b)

    In multilabel predictions every column has its own a and b. The intercept corrects a shift of the
    log-odds, as between a balanced training set and the natural prevalence; no temperature can.

    This is the plain likelihood, without Platt's smoothed targets, so that the mean probability equals the
    prevalence. Where it has no optimum, because a threshold separates the classes, it falls back on those
    targets, :math:`(N_1 + 1) / (N_1 + 2)` and :math:`1 / (N_0 + 2)`; where only one class occurs, or all
    log-odds are equal, the slope stays 1. Both are warned of, and the log-odds are left as they came where
    that is likelier.

    Args:
        fixed_slope: Keep the slope 1 and fit only the intercept. This corrects calibration in
            the large, for a place where the event is more frequent or rarer.

    Raises:
        InputError: On ``fit``, for multiclass logits.

    Note:
        Newton's method on a convex function of two parameters, O(N) per step. A negative slope (the
        scores rank the wrong way round) is allowed and warned of.

    References:
        Platt, "Probabilistic Outputs for Support Vector Machines", 1999. Lin, Lin and Weng, "A Note on
        Platt's Probabilistic Outputs", Machine Learning 68, 2007.

    Example:
        >>> log_odds = torch.tensor([1.0] * 100 + [-1.0] * 100)
        >>> labels = torch.tensor([1] * 20 + [0] * 80 + [1] * 5 + [0] * 95)  # right ranking, wrong prevalence
        >>> calibrator = PlattScaling().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([1.0, -1.0])).tolist()]
        [0.2, 0.05]
    """

    name = "platt"
    title = "Platt scaling"
    named_after_person = True
    for_other_kinds = f"{_Curve.for_other_kinds}, or use temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    unit_powers: ClassVar = {"slope": -1}
    parameter_ranges: ClassVar = dict.fromkeys(("slope", "intercept"), (-math.inf, math.inf))
    slope: Tensor
    intercept: Tensor

    def __init__(self, *, fixed_slope: bool = False) -> None:
        super().__init__()
        self.fixed_slope = fixed_slope

    def num_parameters(self, num_classes: int) -> int:
        """Two for slope and intercept, or one for the intercept alone."""
        del num_classes
        return 1 if self.fixed_slope else 2

    def _solve(self, samples: Samples) -> Solution:
        return maximum_likelihood_line(samples, fixed_slope=self.fixed_slope)

    def _in_any_unit(self, samples: Samples) -> bool:
        del samples
        return not self.fixed_slope

    def affine(self) -> Affine:
        """Slope and intercept."""
        return scaling(self.num_outputs(), self.slope, self.intercept)

    def _transform(self, scores: Tensor) -> Tensor:
        return scores * self.slope.to(scores) + self.intercept.to(scores)


def maximum_likelihood_line(samples: Samples, *, fixed_slope: bool = False) -> Solution:
    """Slope and intercept, with the course of their fit."""
    log_odds, outcomes, masses = samples.scores.to(torch.float64), samples.outcomes, samples.masses
    shares, targets = masses / masses.sum(), outcomes
    trouble = _obstacle(log_odds, outcomes, either_way=True)
    if fixed_slope and trouble != _ONE_CLASS:
        trouble = None
    if trouble in {_ONE_CLASS, _THRESHOLD}:
        high, low = float(masses @ outcomes), float(masses @ (1 - outcomes))
        high, low = (high + 1) / (high + 2), 1 / (low + 2)
        targets = low + (high - low) * outcomes
    free_slope = not fixed_slope and trouble in {None, _THRESHOLD}
    # Most log-odds are then about 1 from their median, apart from outliers.
    centre = float(log_odds.median())
    scale = float((log_odds - centre).abs() @ shares) if free_slope else 1.0
    design = torch.stack([(log_odds - centre) / scale, torch.ones_like(log_odds)], dim=1)
    low, constant, high = (-math.inf, 0.0, math.inf) if free_slope else (scale, scale, scale)
    starts = [np.array([scale, centre]), np.array([constant, float((targets @ shares).logit())])]
    box = np.array([low, -math.inf]), np.array([high, math.inf])
    found = _least(design, targets, shares, starts, box=box)
    slope = float(found.point[0]) / scale
    intercept = float(found.point[1]) - slope * centre
    before = _log_loss(log_odds, outcomes, shares)
    after = _log_loss(slope * log_odds + intercept, outcomes, shares)
    if after >= before:
        slope, intercept, after = 1.0, 0.0, before
    return Solution.by_gradient(
        found.slope,
        steps=found.steps,
        before=before,
        after=after,
        parameters={"slope": slope, "intercept": intercept},
        warnings=(_SAID_OF_A_LINE[trouble],) if trouble else (),
    )


class BetaCalibration(_Curve):
    r"""Fit a three-parameter curve, suited to beta-distributed scores.

    .. math:: \hat p = \sigma\left( a \log p - b \log(1 - p) + c \right), \qquad a, b \ge 0

    With a = b this is :class:`PlattScaling` with a slope that is not negative; with a and b of its own each
    side, near 0 and near 1, is corrected by itself. In multilabel predictions every column has its own a, b
    and c. The order of samples stays.

    If the likelihood has no maximum (only one class occurs, a threshold separates the classes), departures
    from a = b = 1, c = 0 cost as much as one sample, with a warning.

    Raises:
        InputError: On ``fit``, for multiclass logits, of which :class:`DirichletCalibration` is this.

    Note:
        Newton's method on a convex function of three parameters, O(N) per step.

    References:
        Kull, Silva Filho and Flach, "Beta calibration: a well-founded and easily implemented improvement on
        logistic calibration for binary classifiers", AISTATS 2017.

    Example:
        >>> log_odds = torch.tensor([1.0] * 100 + [0.0] * 100 + [-3.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < share for share in (70, 50, 10)]).long()
        >>> calibrator = BetaCalibration().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([1.0, 0.0, -3.0])).tolist()]
        [0.7, 0.5, 0.1]
    """

    name = "beta"
    title = "Beta calibration"
    for_other_kinds = f"{_Curve.for_other_kinds}, or use dirichlet"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    parameter_ranges: ClassVar = {"a": (0.0, math.inf), "b": (0.0, math.inf), "c": (-math.inf, math.inf)}
    a: Tensor
    b: Tensor
    c: Tensor

    def _solve(self, samples: Samples) -> Solution:
        log_odds, outcomes, total = samples.scores.to(torch.float64), samples.outcomes, samples.total_weight
        shares = samples.masses / total
        trouble = _obstacle(log_odds, outcomes, either_way=False)
        # log p = half + even - log 2, and -log(1 - p) = half - even + log 2: apart these keep their digits.
        half, even = log_odds / 2, -_log_cosh(log_odds / 2)
        features = (half + even - _LOG_2).clamp(-_HUGE, _HUGE), (half - even + _LOG_2).clamp(-_HUGE, _HUGE)
        squares = [float(shares @ feature.square()) or 1.0 for feature in features]
        ridge = (1 / total if trouble else 0.0) * np.array([*squares, 1.0])

        def least(*columns: tuple[Tensor, float, float]) -> tuple[Vector, Minimum]:
            """Minimum over the intercept and factors of columns, each of which adds to a and b."""
            design, to_abc = [torch.ones_like(half)], np.zeros((3, 1 + len(columns)))
            to_abc[2, 0] = 1
            for number, (column, to_a, to_b) in enumerate(columns, 1):
                middle = float(column.median())
                size = float((column - middle).abs() @ shares) or 1.0
                design.append((column - middle) / size)
                to_abc[:, number] = np.array([to_a, to_b, (to_a - to_b) * _LOG_2 - middle]) / size
            base = (shares @ outcomes).clamp(1e-12, 1 - 1e-12).logit().item()
            starts = [np.array([base, *[0.0] * len(columns)]), np.linalg.pinv(to_abc) @ _IDENTITY]
            found = _least(torch.stack(design, 1), outcomes, shares, starts, penalty=(to_abc, ridge))
            return to_abc @ found.point, found

        def loss(point: Vector) -> float:
            a, b, c = point.tolist()
            return _log_loss((a + b) * half + (a - b) * (even - _LOG_2) + c, outcomes, shares)

        point, found = least((half, 0.5, 0.5), (even, 0.5, -0.5))
        if point[:2].min() < 0:  # a and b are not both free, so one is on its bound
            ends = [least((half - even, 0.0, 1.0)), least((half + even, 1.0, 0.0)), least()]
            allowed = [end for end in ends if end[0][:2].min() >= 0]
            point, found = min(allowed, key=lambda end: end[1].value)
        before, after = loss(_IDENTITY), loss(point)
        if not after <= before:
            point, after = _IDENTITY, before
        told = (f"{trouble}, so departures from the identity were penalised",) if trouble else ()
        return Solution.by_gradient(
            found.slope,
            steps=found.steps,
            before=before,
            after=after,
            parameters=dict(zip("abc", point.tolist(), strict=True)),
            warnings=told or few(samples.num_samples),
        )

    def _transform(self, scores: Tensor) -> Tensor:
        near_zero, near_one = log_sigmoid(scores), log_sigmoid(-scores)
        return self.a.to(scores) * near_zero - self.b.to(scores) * near_one + self.c.to(scores)


class QuadraticScaling(_Curve):
    r"""Fit a parabola to the log-odds.

    .. math:: \hat p = \sigma(a s^2 + b s + c)

    It is the exact posterior where the log-odds s of either class are normally distributed, each with a
    variance of its own; with equal variances a = 0, which is :class:`PlattScaling`. In multilabel predictions
    every column has its own parabola. The order of samples changes beyond the parabola's vertex, with a
    warning if samples are there.

    Where the likelihood has no maximum (only one class occurs, an interval separates the classes) departures
    from temperature scaling cost as much as one sample would, with a warning.

    Raises:
        InputError: On ``fit``, for multiclass logits.

    Note:
        Newton's method on a convex function of three parameters to a gradient below 1e-8.

    References:
        Berta, Holzmüller, Jordan and Bach, "Structured Matrix Scaling for Multi-Class Calibration", 2025,
        arXiv:2511.03685.

    Example:
        >>> log_odds = torch.tensor([-1.0] * 100 + [0.0] * 100 + [2.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < share for share in (30, 40, 90)]).long()
        >>> calibrator = QuadraticScaling().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([-1.0, 0.0, 2.0])).tolist()]
        [0.3, 0.4, 0.9]
    """

    name = "quadratic"
    title = "Quadratic scaling"
    unit_powers: ClassVar = {"a": -2, "b": -1}
    parameter_ranges: ClassVar = dict.fromkeys("abc", (-math.inf, math.inf))
    a: Tensor
    b: Tensor
    c: Tensor

    def _solve(self, samples: Samples) -> Solution:
        base = fit_temperature(samples, "nll", "continuous")
        log_odds = samples.scores.to(torch.float64)
        middle = float(log_odds @ samples.shares)
        scale = float(((log_odds - middle).square() @ samples.shares).sqrt()) or 1.0
        standard = (log_odds - middle) / scale
        # Class 0 has no features, so the logit of class 1 is the log-odds.
        own = torch.stack([standard.square(), standard, torch.ones_like(standard)])
        features = torch.stack([torch.zeros_like(own), own], dim=2)  # (3, N, 2)
        centre = standard.new_zeros(2, 3)
        centre[1, 1:] = standard.new_tensor([scale, middle]) / base.parameters["temperature"]
        problem = Regression(features, samples.labels, samples.shares, torch.zeros_like(centre), centre)
        fitted = regress(problem)
        warnings: list[str] = []
        if fitted.unbounded:
            fitted = regress(replace(problem, ridge=problem.ridge + 1 / samples.total_weight))
            warnings.append(
                "the likelihood has no maximum (one class only, or an interval separates the classes), so "
                "departures from temperature scaling were penalised"
            )
        first, second, third = fitted.theta[1].tolist()
        first, second = first / scale / scale, second / scale
        a, b, c = first, second - 2 * middle * first, third + (middle * first - second) * middle
        if bool((log_odds == log_odds[0]).all()):
            warnings.append(_EQUAL)
        elif bool((2 * a * log_odds + b < 0).any()):
            warnings.append(
                "the parabola falls for some samples: the higher their score, the lower the probability"
            )
        return Solution.by_gradient(
            fitted.gradient,
            converged=fitted.converged,
            steps=fitted.steps,
            before=base.before,
            after=_log_loss((a * log_odds + b) * log_odds + c, samples.outcomes, samples.shares),
            parameters={"a": a, "b": b, "c": c},
            warnings=(*warnings, *few(samples.num_samples)),
            compared={"temperature": base.after},
        )

    def _transform(self, scores: Tensor) -> Tensor:
        a, b, c = (each.to(scores) for each in (self.a, self.b, self.c))
        return (a * scores + b) * scores + c


def _obstacle(log_odds: Tensor, outcomes: Tensor, *, either_way: bool) -> str | None:
    """Cause of a line's undetermined parameters; ``either_way`` allows a negative slope."""
    above, below = (log_odds[outcomes == each] for each in (1, 0))
    if not len(above) or not len(below):
        return _ONE_CLASS
    if bool((log_odds == log_odds[0]).all()):
        return _EQUAL
    apart = above.min() >= below.max() or (either_way and above.max() <= below.min())
    return _THRESHOLD if apart else None


def _least(
    design: Float[Tensor, "N F"],
    targets: Float[Tensor, " N"],
    shares: Float[Tensor, " N"],
    starts: Sequence[Vector],
    *,
    box: tuple[Vector, Vector] | None = None,
    penalty: tuple[Matrix, Vector] | None = None,
) -> Minimum:
    """Weights of columns with the least mean log loss, by Newton's method from the best start.

    A penalty ``(M, r)`` is half the sum of r times the squared deviations of ``M @ weights`` from the
    identity's a, b and c.
    """
    from calibrant._math.table_kernels import logistic_expansion  # compiled

    given = design.cpu().numpy(), targets.cpu().numpy(), shares.cpu().numpy()

    def function(point: Vector) -> Expansion:
        value, gradient, hessian = logistic_expansion(*given, point)
        if penalty is not None:
            to_abc, ridge = penalty
            away = to_abc @ point - _IDENTITY
            value += 0.5 * float(ridge @ away**2)
            gradient = gradient + to_abc.T @ (ridge * away)
            hessian = hessian + to_abc.T @ (ridge[:, None] * to_abc)
        return Expansion(value, gradient, hessian)

    known = {point.tobytes(): function(point) for point in starts}
    start = min(starts, key=lambda point: known[point.tobytes()].value)
    free = np.full(len(start), math.inf)

    def looked_up(point: Vector) -> Expansion:
        return known.pop(point.tobytes(), None) or function(point)

    return minimise_in_box(looked_up, start, *(box or (-free, free)), longest_step=math.inf)


def _log_loss(logits: Tensor, targets: Tensor, shares: Tensor) -> float:
    return float((torch.logaddexp(logits, torch.zeros_like(logits)) - targets * logits) @ shares)


def _log_cosh(values: Tensor) -> Tensor:
    size = values.abs()
    small = 2 * (size.clamp(max=1) / 2).sinh().square()
    return torch.where(size < 1, small.log1p(), size - _LOG_2 + (-2 * size).exp().log1p())
