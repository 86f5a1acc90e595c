"""The formulas of the losses anew, naively: they share nothing with our implementation.

A value per sample (per entry with several labels), or one for the batch.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import brentq, linprog
from torch import Tensor, nn


def _true(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    probs = torch.softmax(logits, 1)
    return probs, probs[torch.arange(len(labels)), labels]


def _one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.one_hot(labels, logits.shape[1]).to(logits.dtype)


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p_t."""
    return -_true(logits, labels)[1].log()


def focal(gamma: float) -> Callable[[Tensor, Tensor], Tensor]:
    """-(1 - p_t) ** gamma log p_t."""

    def values(logits: Tensor, labels: Tensor) -> Tensor:
        true = _true(logits, labels)[1]
        return -((1 - true) ** gamma) * true.log()

    return values


def sample_focal(logits: Tensor, labels: Tensor) -> Tensor:
    """FLSD-532."""
    true = _true(logits, labels)[1]
    gammas = [5.0 if p < 0.2 else 3.0 if p < 0.5 else 2.0 for p in true.tolist()]
    return torch.stack([-((1 - p) ** g) * p.log() for p, g in zip(true, gammas, strict=True)])


def dual_focal(logits: Tensor, labels: Tensor) -> Tensor:
    """With gamma 5."""
    values = []
    for row, label in zip(torch.softmax(logits, 1), labels.tolist(), strict=True):
        below = [p for k, p in enumerate(row) if k != label and p < row[label]]
        runner_up = max(below) if below else torch.zeros(())
        values.append(-((1 - row[label] + runner_up) ** 5) * row[label].log())
    return torch.stack(values)


ADAFOCAL = {
    "gammas": torch.tensor([2.0, -1.5, 0.7, -0.3], dtype=torch.float64),
    "edges": torch.tensor([0.1, 0.2, 0.4, 0.7, 0.9], dtype=torch.float64),
}


def adafocal(logits: Tensor, labels: Tensor) -> Tensor:
    """With the bins of ``ADAFOCAL``."""
    values = []
    for p in _true(logits, labels)[1]:
        bin_of_p = sum(p.item() >= edge for edge in (0.2, 0.4, 0.7))
        gamma = (2.0, -1.5, 0.7, -0.3)[bin_of_p]
        power = (1 - p) ** gamma if gamma >= 0 else (1 + p) ** -gamma
        values.append(-power * p.log())
    return torch.stack(values)


def brier(logits: Tensor, labels: Tensor) -> Tensor:
    """The squared distance to the label."""
    return ((torch.softmax(logits, 1) - _one_hot(logits, labels)) ** 2).sum(1)


def focal_calibration(norm: int) -> Callable[[Tensor, Tensor], Tensor]:
    """With gamma 2 and weight 0.5."""

    def values(logits: Tensor, labels: Tensor) -> Tensor:
        difference = torch.softmax(logits, 1) - _one_hot(logits, labels)
        return focal(2)(logits, labels) + 0.5 * (difference.abs() ** norm).sum(1)

    return values


def label_smoothing(logits: Tensor, labels: Tensor) -> Tensor:
    """A tenth to all classes."""
    target = 0.9 * _one_hot(logits, labels) + 0.1 / logits.shape[1]
    return -(target * torch.softmax(logits, 1).log()).sum(1)


def label_smoothing_others(logits: Tensor, labels: Tensor) -> Tensor:
    """A tenth to the other classes."""
    hot = _one_hot(logits, labels)
    target = 0.9 * hot + 0.1 * (1 - hot) / (logits.shape[1] - 1)
    return -(target * torch.softmax(logits, 1).log()).sum(1)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """With margin 1.5 and penalty 0.3."""
    gaps = logits.max(1, keepdim=True).values - logits
    return cross_entropy(logits, labels) + 0.3 * (gaps - 1.5).clamp(min=0).mean(1)


def _kernel(confidences: Tensor) -> Tensor:
    return (-(confidences[:, None] - confidences[None, :]).abs() / 0.4).exp()


def mmce_weighted(as_published: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """By the matrix of pairs, with penalty 2."""

    def value(logits: Tensor, labels: Tensor) -> Tensor:
        confidences, predictions = torch.softmax(logits, 1).max(1)
        right = (predictions == labels).to(logits.dtype)
        wrong, kernel = 1 - right, _kernel(confidences)
        m, n = right.sum(), wrong.sum()

        def mean(left: Tensor, other: Tensor, pairs: Tensor) -> Tensor:
            again = pairs + 1e-5 if as_published else 1.0
            return (left[:, None] * other[None, :] * kernel).sum() / pairs / again

        missed, claimed = right * (1 - confidences), wrong * confidences
        square = (
            mean(missed, missed, m * m) + mean(claimed, claimed, n * n) - 2 * mean(missed, claimed, m * n)
        )
        return cross_entropy(logits, labels).mean() + 2 * (square + 1e-10).sqrt()

    return value


def mmce_plain(logits: Tensor, labels: Tensor) -> Tensor:
    """By the matrix of pairs, with penalty 2."""
    confidences, predictions = torch.softmax(logits, 1).max(1)
    residuals = (predictions == labels).to(logits.dtype) - confidences
    square = (residuals[:, None] * residuals[None, :] * _kernel(confidences)).mean()
    return cross_entropy(logits, labels).mean() + 2 * (square + 1e-10).sqrt()


def mdca(logits: Tensor, labels: Tensor) -> Tensor:
    """With gamma 1 and penalty 0.8."""
    probs = torch.softmax(logits, 1)
    total = torch.zeros((), dtype=logits.dtype)
    for k in range(logits.shape[1]):
        total = total + (probs[:, k].mean() - (labels == k).to(logits.dtype).mean()).abs()
    return focal(1)(logits, labels).mean() + 0.8 * total / logits.shape[1]


def smooth_calibration(logits: Tensor, labels: Tensor) -> Tensor:
    """By a linear programme, with penalty 0.7."""
    confidences, predictions = torch.softmax(logits, 1).max(1)
    points = confidences.numpy()
    residuals = ((predictions == labels).numpy() - points) / len(points)
    rows, bounds = [], []
    for i, j in itertools.permutations(range(len(points)), 2):
        row = np.zeros(len(points))
        row[i], row[j] = 1, -1
        rows.append(row)
        bounds.append(abs(points[i] - points[j]))
    solved = linprog(-residuals, A_ub=np.array(rows), b_ub=bounds, bounds=(-1, 1), method="highs")
    return cross_entropy(logits, labels).mean() - 0.7 * solved.fun


def proper_focal(logits: Tensor, labels: Tensor) -> Tensor:
    """By bisection: q_i solves log w(q_i) = log p_i + c with w = -1 / FL', and c makes the q_i sum to one."""
    gamma = 2.0

    def log_w(q: float) -> float:
        slope = (1 - q) ** gamma / q - gamma * (1 - q) ** (gamma - 1) * np.log(q)
        return -np.log(slope)

    def q_of(log_p: float, c: float) -> float:
        return brentq(lambda q: log_w(q) - log_p - c, 1e-12, 1 - 1e-9, xtol=1e-15)

    values = []
    for row, label in zip(torch.log_softmax(logits, 1).tolist(), labels.tolist(), strict=True):
        c = brentq(lambda c, row=row: sum(q_of(p, c) for p in row) - 1, -8, 8, xtol=1e-14)
        q = q_of(row[label], c)
        values.append(-((1 - q) ** gamma) * np.log(q))
    return torch.tensor(values, dtype=logits.dtype)


def multilabel(
    gamma: float, calibration_weight: float, *, alpha: float | None = None
) -> Callable[[Tensor, Tensor], Tensor]:
    """Label by label."""
    ones, zeros = (1.0, 1.0) if alpha is None else (alpha, 1 - alpha)

    def values(logits: Tensor, labels: Tensor) -> Tensor:
        s = torch.sigmoid(logits)
        focal = -ones * labels * (1 - s) ** gamma * s.log()
        focal = focal - zeros * (1 - labels) * s**gamma * (1 - s).log()
        return focal + calibration_weight * (s - labels) ** 2

    return values
