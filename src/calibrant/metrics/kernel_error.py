"""Kernel-smoothed calibration error, and the smooth reliability curve."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_at_least
from calibrant._math.kernel_smoothing import HeatSeries, SmoothedResiduals, shares
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, Vector, check_bandwidth, one_event, over_events

__all__ = ["SmoothReliabilityCurve", "smooth_ece", "smooth_reliability_curve"]

NARROWEST_CURVE = 1e-3  # a finer curve is finer than a pixel
EMPTY = 1e-6  # density below which a curve says nothing


def smooth_ece(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    bandwidth: float | None = None,
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Smoothed expected calibration error (smECE), at the bandwidth that equals it.

    .. math::
        \mathrm{smECE}_\sigma = \int_0^1 \Big| \frac1N \sum_i (y_i - p_i) K_\sigma(t, p_i) \Big| \, dt ,
        \qquad \mathrm{smECE} = \sigma^* \ \text{with}\ \mathrm{smECE}_{\sigma^*} = \sigma^*

    :math:`K_\sigma` is the Gaussian density of standard deviation σ with what falls beyond 0 or 1 reflected
    back into the interval, so that it integrates to one over t. :math:`\mathrm{smECE}_\sigma` never increases
    with σ; hence there is one such σ*. This is another quantity than
    :func:`~calibrant.metrics.smooth_calibration_error`, which is at most 1.8 times as large. Which events
    count is as there, and so are errors and arguments but ``bandwidth``: a fixed σ, positive, for which the
    value is :math:`\mathrm{smECE}_\sigma`.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Note:
        At least the size of the mean residual. Correct to 1e-6 without a mesh whose width would bias it: the
        smoothing is a cosine series, the integral is taken between the zeros of the integrand. A bandwidth
        below 1e-6 is taken as 2^-20. Time O(N) and a few Fourier transforms of length 16/σ. Not
        differentiable by autograd.

    References:
        Błasiok and Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", ICLR 2024.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.2, 0.4, 0.6, 0.9]), torch.tensor([0, 1, 0, 1])
        >>> round(smooth_ece(probs, labels).item(), 6)
        0.13664
    """
    check_bandwidth(bandwidth)

    def measure(scores: Vector, outcomes: Vector, mass: Vector | None) -> float:
        smoothed = SmoothedResiduals(scores, outcomes, mass)
        return smoothed.fixed_point() if bandwidth is None else smoothed.error(bandwidth)

    return over_events(measure, probs, labels, classwise, average, weights, ignore_index)


@dataclass(frozen=True)
class SmoothReliabilityCurve:
    """One entry per position; ``confidence`` and ``outcome`` are ``None`` where there is hardly a sample."""

    positions: tuple[float, ...]
    density: tuple[float, ...]
    confidence: tuple[float | None, ...]
    outcome: tuple[float | None, ...]
    bandwidth: float


def smooth_reliability_curve(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    bandwidth: float | None = None,
    num_points: int = 201,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> SmoothReliabilityCurve:
    r"""The curve of a smooth reliability diagram: outcome against confidence, both smoothed by one kernel.

    .. math::
        \delta(t) = \frac1N \sum_i K_\sigma(t, p_i) , \qquad
        \hat p(t) = \frac{\sum_i p_i K_\sigma(t, p_i)}{\sum_i K_\sigma(t, p_i)} , \qquad
        \hat y(t) = \frac{\sum_i y_i K_\sigma(t, p_i)}{\sum_i K_\sigma(t, p_i)}

    with the kernel of :func:`smooth_ece`. Drawn as :math:`\hat y` against :math:`\hat p`, its distance from
    the diagonal, weighted by the density, is the error:
    :math:`\int |\hat y - \hat p| \, \delta \, dt = \mathrm{smECE}_\sigma`.

    Args:
        probs: Probabilities of the classes ``(N, C)`` (the top label counts) or of an event ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1}, shape ``(N,)``.
        bandwidth: σ, positive; by default the smECE of the sample. Below 0.001 it is taken as 0.001.
        num_points: Number of positions, equally spaced from 0 to 1; at least 2.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``positions`` t, ``density`` δ (integrates to one), ``confidence`` and ``outcome`` in ``[0, 1]``
        (``None`` where the density is below 1e-6), each ``num_points`` numbers, and the ``bandwidth`` used.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or samples have several labels
            (pass one column of each: ``probs[:, k], labels[:, k]``).

    References:
        Błasiok and Nakkiran, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", ICLR 2024.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.2, 0.4, 0.6, 0.9]), torch.tensor([0, 1, 0, 1])
        >>> curve = smooth_reliability_curve(probs, labels, bandwidth=0.1, num_points=3)
        >>> curve.positions, [round(outcome, 3) for outcome in curve.outcome]
        ((0.0, 0.5, 1.0), [0.002, 0.496, 0.999])
    """
    check_bandwidth(bandwidth)
    check_at_least("num_points", num_points, 2)
    scores, outcomes, mass = one_event(probs, labels, weights, ignore_index)
    if bandwidth is None:
        bandwidth = SmoothedResiduals(scores, outcomes, mass).fixed_point()
    bandwidth = max(bandwidth, NARROWEST_CURVE)
    share = shares(len(scores), mass)
    cells = num_points - 1
    refined = math.ceil(4 / bandwidth / cells)  # as many times finer as the series needs

    def smoothed(masses: Vector) -> Vector:
        return HeatSeries(np.minimum(scores, 1.0), masses).values(bandwidth, cells * refined)[::refined]

    density = np.maximum(smoothed(share), 0.0)
    filled = density >= EMPTY

    def mean(values: Vector) -> tuple[float | None, ...]:
        means = np.divide(smoothed(share * values), density, out=np.zeros(num_points), where=filled)
        return tuple(
            float(value) if known else None
            for value, known in zip(np.clip(means, 0.0, 1.0), filled, strict=True)
        )

    return SmoothReliabilityCurve(
        positions=tuple(np.linspace(0.0, 1.0, num_points).tolist()),
        density=tuple(density.tolist()),
        confidence=mean(scores),
        outcome=mean(outcomes),
        bandwidth=bandwidth,
    )
