"""Selective prediction: risk among the answered samples against their share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs, check_share, check_weights
from calibrant._math.errors import InputError
from calibrant._math.scores import top_label
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import (
    Average,
    Vector,
    averaged,
    check_average,
    columns,
    numbers,
    refuse_several,
)

__all__ = [
    "RiskCoverageCurve",
    "coverage_at_risk",
    "risk_at_coverage",
    "risk_coverage_area",
    "risk_coverage_curve",
    "selective_risk_curve",
]


@dataclass(frozen=True, kw_only=True)
class RiskCoverageCurve:
    """Risk at every threshold of confidence, from the highest down; ties are answered together."""

    thresholds: tuple[float, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]
    area: float
    excess_area: float

    def risk_at(self, coverage: float) -> float:
        """Risk if at least a share ``coverage`` is answered, the most confident first."""
        check_share("coverage", coverage)
        return self.risk[next(k for k, share in enumerate(self.coverage) if share >= coverage * (1 - 1e-12))]

    def coverage_at(self, risk: float) -> float:
        """Largest share of samples answered at a risk of at most ``risk``; 0 if none."""
        check_share("risk", risk)
        kept = zip(self.coverage, self.risk, strict=True)
        return max((share for share, each in kept if each <= risk), default=0.0)


@suggesting()
def selective_risk_curve(
    confidences: ArrayLike, losses: ArrayLike, *, weights: ArrayLike | None = None
) -> RiskCoverageCurve:
    r"""Risk and coverage when only samples at least as confident as a threshold are answered.

    .. math::
        \mathrm{cov}(t) = \frac{\sum_{c_i \ge t} \omega_i}{\sum_i \omega_i}, \qquad
        r(t) = \frac{\sum_{c_i \ge t} \omega_i \ell_i}{\sum_{c_i \ge t} \omega_i}, \qquad
        \mathrm{AURC} = \frac{\sum_i \omega_i \, r(c_i)}{\sum_i \omega_i}

    For any measure of confidence, be it a probability or not, and any loss of an answer in [0, 1], such as
    0 if right and 1 if wrong.

    Args:
        confidences: Confidence in each sample, shape ``(N,)``; higher is more confident.
        losses: Cost of answering each sample, shape ``(N,)``, in ``[0, 1]``.
        weights: Weights of the samples, shape ``(N,)``, not negative.

    Returns:
        ``thresholds`` (the distinct confidences of samples with weight, descending), ``coverage`` and
        ``risk`` at each, in ``[0, 1]``; ``area`` and ``excess_area`` as in :func:`risk_coverage_area`.

    Raises:
        InputError: If shapes disagree, or a value is not finite or out of range.

    Note:
        No threshold can part a tie, so a tie counts as a whole and the order of the rows never matters.
        O(N log N) time. Not differentiable.

    References:
        Geifman, Uziel and El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers",
        ICLR 2019.

    Example:
        >>> curve = selective_risk_curve([0.9, 0.6, 0.6, 0.2], [0, 1, 0, 1])
        >>> curve.thresholds, curve.coverage
        ((0.9, 0.6, 0.2), (0.25, 0.75, 1.0))
        >>> [round(risk, 3) for risk in curve.risk], round(curve.area, 4)
        ([0.0, 0.333, 0.5], 0.2917)
    """
    confidence, loss = numbers(confidences, "confidences"), numbers(losses, "losses")
    if loss.shape != confidence.shape:
        raise InputError(
            f"`losses` must have the shape of `confidences`, {confidence.shape}; got {loss.shape}."
        )
    if not (loss.min() >= 0 and loss.max() <= 1):
        row = int(np.argmax((loss < 0) | (loss > 1)))
        raise InputError(f"`losses` must be between 0 and 1; row {row} holds {loss[row]:g}.")
    mass = None if weights is None else check_weights(weights, len(loss)).cpu().numpy()
    return _curve(confidence, loss, mass)


@suggesting()
def risk_coverage_curve(
    probs: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, ignore_index: int | None = None
) -> RiskCoverageCurve:
    """Error rate among the samples with the highest confidence, against the share of samples kept.

    The confidence is the top probability, of an event ``(N,)`` the larger of p and 1 − p; the loss is 1 where
    the prediction is wrong. See :func:`selective_risk_curve`, which takes any confidence and any loss (so
    also confidences with only right or wrong).

    Args:
        probs: Probabilities of the classes ``(N, C)`` or of an event ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1}, shape ``(N,)``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``thresholds``, ``coverage`` and ``risk``, one entry per distinct confidence, and the two areas.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or samples have several labels
            (pass one column of each: ``probs[:, k], labels[:, k]``).

    References:
        El-Yaniv and Wiener, "On the Foundations of Noise-free Selective Classification", JMLR 11, 2010.

    Example:
        >>> curve = risk_coverage_curve([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]], [0, 1, 1])
        >>> [round(share, 3) for share in curve.coverage], [round(risk, 3) for risk in curve.risk]
        ([0.333, 0.667, 1.0], [0.0, 0.0, 0.333])
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    refuse_several(checked, "curve")
    mass = None if checked.weights is None else checked.weights.cpu().numpy()
    return _curve_of(checked.scores, checked.target, mass)


@suggesting()
def risk_coverage_area(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    excess: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Area under the risk–coverage curve (AURC), or its excess over the best order (E-AURC).

    .. math::
        \mathrm{AURC} = \frac1N \sum_i r(c_i), \qquad
        \text{E-AURC} = \mathrm{AURC} - \left( r + (1 - r) \ln(1 - r) \right)

    :math:`r(t)` is the error rate of the samples at least as confident as t, and r that of all. With distinct
    confidences this is the mean risk over the coverages 1/N, 2/N, …, 1. The subtracted area is that of a
    confidence that ranks every right answer above every wrong one, in the limit of many samples; so E-AURC
    judges the order alone, AURC the accuracy as well.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        excess: Subtract the area of the best order.
        average: With several labels per sample: ``"macro"`` for the mean over the labels, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``, lower is better; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Measures how well confidence separates right from wrong answers, not calibration: any
        increasing function of the confidence has the same area. Ties as in :func:`selective_risk_curve`: one
        confidence for all samples has the error rate as its area. E-AURC is never negative. O(N log N).

    References:
        Geifman, Uziel and El-Yaniv, "Bias-Reduced Uncertainty Estimation for Deep Neural Classifiers",
        ICLR 2019, section 3.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]]), torch.tensor([0, 1, 1])
        >>> round(risk_coverage_area(probs, labels).item(), 4)
        0.1111
        >>> round(risk_coverage_area(probs, labels, excess=True).item(), 4)
        0.0481
    """
    area = attrgetter("excess_area" if excess else "area")
    return _of_curves(area, probs, labels, average, weights, ignore_index)


@suggesting()
def risk_at_coverage(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    coverage: float,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """The error rate of the most confident samples, if a share ``coverage`` of all is answered.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        coverage: The least share of samples that are answered, in ``[0, 1]``.
        average: With several labels per sample: ``"macro"`` for the mean over the labels, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``.

    Raises:
        InputError: See :func:`risk_coverage_area`; also if ``coverage`` is no share.

    Note:
        Ties as in :func:`selective_risk_curve`: where the share ends within a tie, all of it is answered.

    Example:
        >>> risk_at_coverage([0.95, 0.9, 0.8, 0.7, 0.6], [1, 1, 1, 0, 0], coverage=0.8).item()
        0.25
    """
    check_share("coverage", coverage)
    return _of_curves(lambda curve: curve.risk_at(coverage), probs, labels, average, weights, ignore_index)


@suggesting()
def coverage_at_risk(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    risk: float,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """The largest share of samples, the most confident first, whose error rate is at most ``risk``.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        risk: The largest error rate, in ``[0, 1]``.
        average: With several labels per sample: ``"macro"`` for the mean over the labels, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; 0 if even the most confident samples are wrong more often.

    Raises:
        InputError: See :func:`risk_coverage_area`; also if ``risk`` is no share.

    Example:
        >>> coverage_at_risk([0.95, 0.9, 0.8, 0.7, 0.6], [1, 1, 1, 0, 0], risk=0.05).item()
        0.6
    """
    check_share("risk", risk)
    return _of_curves(lambda curve: curve.coverage_at(risk), probs, labels, average, weights, ignore_index)


def best_area(risk: float) -> float:
    """Area of the best order of answers, for many samples with a share ``risk`` of errors.

    Example:
        >>> best_area(0.0), best_area(1.0), round(best_area(0.5), 4)
        (0.0, 1.0, 0.1534)
    """
    right = 1 - risk
    return risk + (right * float(np.log1p(-risk)) if right > 0 else 0.0)


def _of_curves(
    value: Callable[[RiskCoverageCurve], float],
    probs: ArrayLike,
    labels: ArrayLike,
    average: Average,
    weights: ArrayLike | None,
    ignore_index: int | None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """A number of each curve; their mean, or one per label if requested."""
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_average(average, checked)
    mass = None if checked.weights is None else checked.weights.cpu().numpy()
    several = checked.task == "multilabel"
    each = columns(checked) if several else iter([(checked.scores, checked.target)])
    values = [value(_curve_of(scores, target, mass)) for scores, target in each]
    return averaged(torch.tensor(values, dtype=torch.float64, device=checked.scores.device), average)


def _curve_of(scores: Tensor, target: Tensor, weights: Vector | None) -> RiskCoverageCurve:
    found = top_label(scores, target.to(torch.int64))
    return _curve(
        found.confidence.cpu().numpy(), 1.0 - found.correct.to("cpu", torch.float64).numpy(), weights
    )


def _curve(confidence: Vector, loss: Vector, weights: Vector | None) -> RiskCoverageCurve:
    """Curve from cumulative sums, highest confidence first, read at the end of each tie."""
    if weights is not None:
        counted = weights > 0
        confidence, loss, weights = confidence[counted], loss[counted], weights[counted]
    order = np.argsort(-confidence, kind="stable")
    ranked = confidence[order]
    mass = np.ones(len(order)) if weights is None else weights[order]
    ends = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    kept, lost = np.cumsum(mass)[ends], np.cumsum(mass * loss[order])[ends]
    risk = np.minimum(lost / kept, 1.0)
    coverage = kept / kept[-1]
    area = float(np.diff(coverage, prepend=0.0) @ risk)
    return RiskCoverageCurve(
        thresholds=tuple(ranked[ends].tolist()),
        coverage=tuple(coverage.tolist()),
        risk=tuple(risk.tolist()),
        area=area,
        excess_area=max(0.0, area - best_area(float(risk[-1]))),
    )
