"""Quadratic scaling."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.shapes import Float
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.doubts import few
from calibrant.calibrators.fitting.regression import Regression, regress
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import fit_temperature


class QuadraticScaling(Calibrator):
    r"""Fit a parabola to the log-odds.

    .. math:: \hat p = \sigma(a s^2 + b s + c)

    It is the exact posterior where the log-odds s of either class are normally distributed, each with a
    variance of its own; with equal variances a = 0, which is :class:`PlattScaling`. In multilabel predictions
    every column has its own parabola. The order of samples changes beyond the parabola's vertex; where
    samples lie there a warning says so.

    Where the likelihood has no maximum (only one class occurs, an interval separates the classes) departures
    from temperature scaling cost as much as one sample would, and a warning says so.

    Raises:
        InputError: On ``fit``, for multiclass logits.

    Note:
        Newton's method on a convex function of three parameters to a gradient below 1e-8.

    References:
        Berta, Holzmüller, Jordan and Bach, "Structured Matrix Scaling for Multi-Class Calibration", 2025,
        arXiv:2511.03685.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([-1.0] * 100 + [0.0] * 100 + [2.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < share for share in (30, 40, 90)]).long()
        >>> calibrator = QuadraticScaling().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([-1.0, 0.0, 2.0])).tolist()]
        [0.3, 0.4, 0.9]
    """

    name = "quadratic"
    title = "Quadratic scaling"
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    for_other_kinds = "for two classes pass `logits[:, 1] - logits[:, 0]`"
    unit_powers: ClassVar = {"a": -2, "b": -1}
    parameter_ranges: ClassVar = dict.fromkeys("abc", (-math.inf, math.inf))
    objective = "nll"
    a: Tensor
    b: Tensor
    c: Tensor

    def _solve(self, samples: Samples) -> Solution:
        base = fit_temperature(samples, "nll", "continuous")
        log_odds = samples.scores.to(torch.float64)
        middle = float(log_odds @ samples.shares)
        scale = float(((log_odds - middle).square() @ samples.shares).sqrt()) or 1.0
        standard = (log_odds - middle) / scale
        # Class 0 has no features, so that class 1 has the log-odds for its logit.
        own = torch.stack([standard.square(), standard, torch.ones_like(standard)])
        features = torch.stack([torch.zeros_like(own), own], dim=2)  # (3, N, 2)
        centre = standard.new_zeros(2, 3)
        centre[1, 1:] = standard.new_tensor([scale, middle]) / base.parameters["temperature"]
        ridge = torch.zeros_like(centre)
        fitted = regress(Regression(features, samples.labels, samples.shares, ridge, centre), centre)
        warnings: list[str] = []
        if fitted.unbounded:
            ridge += 1 / samples.total_weight
            fitted = regress(Regression(features, samples.labels, samples.shares, ridge, centre), centre)
            warnings.append(
                "the likelihood has no maximum (one class only, or an interval separates the classes), so "
                "departures from temperature scaling were penalised"
            )
        first, second, third = fitted.theta[1].tolist()
        first, second = first / scale / scale, second / scale
        parameters = {
            "a": first,
            "b": second - 2 * middle * first,
            "c": third + (middle * first - second) * middle,
        }
        after = _log_loss(_parabola(log_odds, *parameters.values()), samples)
        return Solution(
            converged=fitted.converged,
            steps=fitted.steps,
            before=base.before,
            after=after,
            parameters=parameters,
            certificate={"gradient": fitted.gradient},
            message=f"gradient {fitted.gradient:.1e}",
            warnings=(
                *warnings,
                *_trouble(log_odds, first, parameters["b"]),
                *few(samples.num_samples),
            ),
            compared={"temperature": base.after},
        )

    def _transform(self, scores: Tensor) -> Tensor:
        return _parabola(scores, self.a.to(scores), self.b.to(scores), self.c.to(scores))


def _parabola(scores: Tensor, a: float | Tensor, b: float | Tensor, c: float | Tensor) -> Tensor:
    return (a * scores + b) * scores + c


def _log_loss(logits: Tensor, samples: Samples) -> float:
    return float((torch.nn.functional.softplus(logits) - samples.labels * logits) @ samples.shares)


def _trouble(log_odds: Float[Tensor, " N"], a: float, b: float) -> list[str]:
    """What about the data or the parabola needs saying."""
    if bool((log_odds == log_odds[0]).all()):
        return ["all log-odds are equal"]
    if bool((2 * a * log_odds + b < 0).any()):
        return ["the parabola falls for some samples: the higher their score, the lower the probability"]
    return []
