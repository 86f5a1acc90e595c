"""Intervals of changes under cross-fitting, which contain what the fits leave uncertain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

from calibrant.calibrators import FitResult
from calibrant.evaluation.quantities import BRIER, NLL
from calibrant.evaluation.result import Estimate

OF_OPTIMISM, MOST = 2.0, 1.8


def widened(
    changes: Mapping[str, Estimate],
    after: Mapping[str, Estimate],
    fit: FitResult,
    number: float,
    level: float,
) -> dict[str, Estimate]:
    r"""The changes with wider intervals, if samples were judged by calibrators fitted on the other folds.

    Each sample takes part in the fits that judge the other ones, so their losses are correlated. The
    variance that this adds to the change of the log-loss is about :math:`2 \omega / n`, with the optimism
    :math:`\omega`: the cross-fitted loss minus that of the samples of the fit. It is worth most where the
    calibrator changes little. All changes of an arm are widened alike, by 2.8 times the variance at most.

    In simulations of Platt scaling by five folds (600 sets each), intervals contained the change in 78 to 94%
    of sets without this, and in 93 to 97% with it: ``benchmarks/cross_fitted_changes.py``.

    Args:
        changes: The changes of an arm.
        after: The arm's own values.
        fit: Its calibrator's fit to all samples.
        number: How many samples there are, or clusters.
        level: That of the intervals.

    References:
        Bayle, Bayle, Janson and Mackey, "Cross-validation confidence intervals for test error", NeurIPS 2020
        (where the plain variance holds); Nadeau and Bengio, "Inference for the generalization error", Machine
        Learning 52, 2003.
    """
    known = fit.objective in {NLL.key, BRIER.key}
    change, found = (changes.get(fit.objective), after.get(fit.objective)) if known else (None, None)
    if change is None or found is None or found.value is None or change.low is None or change.high is None:
        return dict(changes)
    error = (change.high - change.low) / (2 * NormalDist().inv_cdf((1 + level) / 2))
    added = OF_OPTIMISM * max(0.0, found.value - fit.after) / number
    share = min(MOST, added / error**2) if error > 0 else 0.0
    return {name: _wider(each, math.sqrt(1 + share)) for name, each in changes.items()}


def _wider(estimate: Estimate, factor: float) -> Estimate:
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        return estimate
    return replace(estimate, low=value - factor * (value - low), high=value + factor * (high - value))
