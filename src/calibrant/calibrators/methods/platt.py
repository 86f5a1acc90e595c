"""Platt scaling."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.newton import Expansion, Minimum, Vector, minimise_in_box
from calibrant.calibrators.affine import Affine, scaling
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples


class PlattScaling(Calibrator):
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
        fixed_slope: Whether the slope stays 1 and only the intercept is fitted. This corrects calibration in
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
        >>> import torch
        >>> log_odds = torch.tensor([1.0] * 100 + [-1.0] * 100)
        >>> labels = torch.tensor([1] * 20 + [0] * 80 + [1] * 5 + [0] * 95)  # right ranking, wrong prevalence
        >>> calibrator = PlattScaling().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([1.0, -1.0])).tolist()]
        [0.2, 0.05]
    """

    name = "platt"
    title = "Platt scaling"
    named_after_person = True
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    for_other_kinds = "for two classes pass `logits[:, 1] - logits[:, 0]`, for more use temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    unit_powers: ClassVar = {"slope": -1}
    parameter_ranges: ClassVar = {"slope": (-math.inf, math.inf), "intercept": (-math.inf, math.inf)}
    objective = "nll"
    slope: Tensor
    intercept: Tensor

    def __init__(self, *, fixed_slope: bool = False) -> None:
        super().__init__()
        self.fixed_slope = fixed_slope

    def num_parameters(self, num_classes: int) -> int:
        """Slope and intercept, or the intercept alone."""
        del num_classes
        return 1 if self.fixed_slope else 2

    def _solve(self, samples: Samples) -> Solution:
        return likeliest_line(samples, fixed_slope=self.fixed_slope)

    def _in_any_unit(self, samples: Samples) -> bool:
        del samples
        return not self.fixed_slope

    def affine(self) -> Affine:
        """Slope and intercept."""
        return scaling(self.num_outputs(), self.slope, self.intercept)

    def _transform(self, scores: Tensor) -> Tensor:
        return scores * self.slope.to(scores) + self.intercept.to(scores)


def likeliest_line(samples: Samples, *, fixed_slope: bool = False) -> Solution:
    """Slope and intercept, and how they were found."""
    log_odds, outcomes = samples.scores.to(torch.float64), samples.outcomes
    shares = samples.masses / samples.masses.sum()
    targets, free_slope, trouble = _attainable(log_odds, outcomes, samples.masses, fixed_slope=fixed_slope)
    before = _log_loss(log_odds, outcomes, shares)
    slope, intercept, found = _most_likely_line(log_odds, targets, shares, free_slope=free_slope)
    after = _log_loss(slope * log_odds + intercept, outcomes, shares)
    if after >= before:
        slope, intercept, after = 1.0, 0.0, before
    return Solution(
        converged=found.slope < 1e-8,
        steps=found.steps,
        before=before,
        after=after,
        parameters={"slope": slope, "intercept": intercept},
        certificate={"gradient": found.slope},
        message=f"gradient {found.slope:.1e}",
        warnings=(trouble,) if trouble else (),
    )


def _attainable(
    log_odds: Tensor, outcomes: Tensor, weights: Tensor, *, fixed_slope: bool
) -> tuple[Tensor, bool, str | None]:
    """Targets whose likelihood has an optimum, whether the slope is free, and what was in the way."""
    happened = outcomes == 1
    positives, negatives = float(weights[happened].sum()), float(weights[~happened].sum())
    high, low = (positives + 1) / (positives + 2), 1 / (negatives + 2)
    smooth = low + (high - low) * outcomes
    if positives == 0 or negatives == 0:
        return (
            smooth,
            False,
            "the slope stays 1 and targets are smoothed, as only one class occurs",
        )
    if fixed_slope:
        return outcomes, False, None
    if bool((log_odds == log_odds[0]).all()):
        return outcomes, False, "all log-odds are equal, so the slope stays 1"
    above, below = log_odds[happened], log_odds[~happened]
    if above.min() >= below.max() or above.max() <= below.min():
        return smooth, True, "a threshold separates the classes, so targets are smoothed"
    return outcomes, True, None


def _log_loss(logits: Tensor, targets: Tensor, shares: Tensor) -> float:
    """Mean negative log-likelihood; log(1 + e^x) is taken as logaddexp(0, x)."""
    return float((torch.logaddexp(logits, torch.zeros_like(logits)) - targets * logits) @ shares)


def _most_likely_line(
    log_odds: Tensor, targets: Tensor, shares: Tensor, *, free_slope: bool
) -> tuple[float, float, Minimum]:
    """Slope and intercept, found on log-odds that are 1 from their median, mostly; some may be far out."""
    centre = float(log_odds.median())
    scale = float((log_odds - centre).abs() @ shares) if free_slope else 1.0
    standard = (log_odds - centre) / scale

    def function(point: Vector) -> Expansion:
        logits = standard * point[0] + point[1]
        probs = logits.sigmoid()
        residuals, spread = shares * (probs - targets), shares * probs * (1 - probs)
        mixed = float(spread @ standard)
        return Expansion(
            _log_loss(logits, targets, shares),
            np.array([float(residuals @ standard), float(residuals.sum())]),
            np.array([[float(spread @ standard.square()), mixed], [mixed, float(spread.sum())]]),
        )

    bounds = np.array([math.inf if free_slope else scale, math.inf])
    low = np.array([-math.inf if free_slope else scale, -math.inf])
    base = float((targets @ shares).logit())
    starts = [np.array([scale, centre]), np.array([0.0 if free_slope else scale, base])]
    start = min(starts, key=lambda point: function(point).value)
    found = minimise_in_box(function, start, low, bounds, longest_step=math.inf)
    slope = float(found.point[0]) / scale
    return slope, float(found.point[1]) - slope * centre, found
