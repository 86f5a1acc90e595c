"""Values of metrics in closed form, and the problems on which they have one."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Problem(NamedTuple):
    task: str
    probs: np.ndarray
    labels: np.ndarray

    def rows(self, index: Any) -> Problem:
        return Problem(self.task, self.probs[index], self.labels[index])


def event_nll(p: float, f: float) -> float:
    """Mean log loss of saying ``p`` where the frequency is ``f``."""
    return -f * math.log(p) - (1 - f) * math.log1p(-p)


def event_entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log1p(-p)


def debiased_l2(gap: float, f: float, n: int) -> float:
    """Every residual of ``n`` but for the outcome the same: their variance is that of the outcomes."""
    return math.sqrt(max(0.0, gap**2 - f * (1 - f) / (n - 1)))


def debiased_l1(gap: float, f: float, n: int) -> float:
    """Twice the size of the gap, less its mean size under noise of its own variance."""
    noise = math.sqrt(f * (1 - f) / (n - 1))
    folded = noise * math.sqrt(2 / math.pi) * math.exp(-((gap / noise) ** 2) / 2)
    return max(0.0, 2 * gap - folded - gap * math.erf(gap / noise / math.sqrt(2)))


def divergence(p: float, f: float) -> float:
    """What saying ``p`` costs more than saying ``f``, in nats."""
    return event_nll(p, f) - event_entropy(f)


def debiased_square(gap: float, f: float, n: int) -> float:
    """Square of the gap, less the variance of its mean outcome."""
    return gap**2 - f * (1 - f) / (n - 1)


def brier_surprise(p: float, f: float, n: int) -> float:
    """Brier score less its expectation, in standard deviations; at one half nothing varies."""
    return 0.0 if p == 0.5 else math.copysign(1, 1 - 2 * p) * math.sqrt(n) * (f - p) / math.sqrt(p * (1 - p))


def smoothed_ends(width: float) -> float:
    """Half the distance of two Gaussians, of what lies at 0 and at 1, each reflected at both ends."""
    cdf = NormalDist(0, width).cdf
    return sum((-1) ** m * 2 * (cdf(0.5 - m) - cdf(-m)) for m in range(-40, 41))


def worst_smooth_ece() -> float:
    """The width at which that equals the width."""
    return float(brentq(lambda width: smoothed_ends(width) - width, 0.01, 1.0, xtol=1e-15))


def temperature_gain(q: Vector, f: Vector) -> float:
    def loss(log_beta: float) -> float:
        logits = math.exp(log_beta) * np.log(q)
        return float(np.log(np.exp(logits - logits.max()).sum()) + logits.max() - f @ logits)

    best = minimize_scalar(
        loss, bounds=(-math.log(1e4), math.log(1e4)), method="bounded", options={"xatol": 1e-10}
    )
    return loss(0.0) - min(best.fun, loss(-math.log(1e4)))


def left_out(q: Vector, f: Vector, n: int) -> float:
    """Distance between ``q`` and the frequencies among the other samples, on average over the samples."""
    others = (n * f - np.eye(len(f))) / (n - 1)
    return float(f @ np.abs(others - q).sum(axis=1))


def every_class_occurs(problem: Problem) -> bool:
    """Whether every class or label has samples that are of it and samples that are not."""
    if problem.task == "multiclass":
        return len(np.unique(problem.labels)) == problem.probs.shape[1]
    means = problem.labels.mean(axis=0)
    return bool(((means > 0) & (means < 1)).all())


def has_neighbours(problem: Problem) -> bool:
    """Whether some sample gives another a density: it excludes every class that the other excludes."""
    tables = [problem.probs]
    if problem.task != "multiclass":
        tables = [np.stack([1 - p, p], axis=1) for p in problem.probs.reshape(len(problem.probs), -1).T]
    excluded = [table == 0 for table in tables]
    near = [~(zero[:, None] & ~zero[None]).any(axis=2) for zero in excluded]
    return all((each.sum() > len(each)) for each in near)  # more than each itself
