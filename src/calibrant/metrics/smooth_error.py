"""Errors without bins: by Lipschitz functions or changes of scores, by a kernel, and over all boundaries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_at_least, check_choice
from calibrant._math.kernel_smoothing import HeatSeries, SmoothedResiduals, shares
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Average, Vector, check_bandwidth, one_event, over_events

__all__ = [
    "SmoothCalibrationWitness",
    "SmoothReliabilityCurve",
    "averaged_two_bin_error",
    "post_processing_gap",
    "smooth_calibration_error",
    "smooth_calibration_witness",
    "smooth_ece",
    "smooth_reliability_curve",
]

NARROWEST_CURVE = 1e-3  # a finer curve is finer than a pixel
EMPTY = 1e-6  # density below which a curve is undefined


@suggesting()
def smooth_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Smooth calibration error: the largest mean of residuals times a bounded Lipschitz function.

    .. math::
        \mathrm{smCE} = \sup_w \frac{\sum_i \omega_i (y_i - p_i) \, w(p_i)}{\sum_i \omega_i} ,
        \qquad w : [0, 1] \to [-1, 1], \quad |w(s) - w(t)| \le |s - t|

    There are no bins and no jumps: the error changes by at most twice the mean change of the probabilities.
    Classes ``(N, C)`` with labels ``(N,)``: p is the top probability and y whether the top label is right, or
    with ``classwise=True`` each class against all others. An event ``(N,)``: p is its probability. Several
    labels per sample ``(N, C)``: one event per column.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        classwise: Measure every class, not only the top label; an event ``(N,)`` then counts as the
            two classes ``(1 - p, p)``.
        average: With ``classwise`` or several labels per sample: ``"macro"`` for the mean over the columns,
            ``"none"`` for one value per column.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        At least the size of the mean residual, at most the mean size of the residuals merged where
        probabilities are equal. A finite sample of a calibrated model has an error of order :math:`N^{-1/2}`.
        Exact to rounding (a linear programme solved by dynamic programming, whose dual bound agrees to about
        1e-15; see :func:`smooth_calibration_witness`). Time O(N log N) to sort and about as much to solve;
        the first call compiles. Not differentiable by autograd.

    References:
        Foster and Hart, "Smooth calibration, leaky forecasts, finite recall, and Nash dynamics", Games and
        Economic Behavior 109, 2018. Błasiok, Gopalan, Hu and Nakkiran, "A Unifying Theory of Distance from
        Calibration", STOC 2023.

    Example:
        >>> import torch
        >>> smooth_calibration_error(torch.tensor([0.2, 0.4, 0.6, 0.9]), torch.tensor([0, 1, 0, 1])).item()
        0.0625...
    """
    from calibrant._math import lipschitz  # numba: imported where it is first needed

    measure = lipschitz.smooth_calibration_error
    return over_events(measure, probs, labels, classwise, average, weights, ignore_index)


@dataclass(frozen=True)
class SmoothCalibrationWitness:
    """A function that attains the smooth calibration error, and a bound that proves it optimal."""

    value: float
    upper_bound: float
    points: Float[Tensor, " n"]
    residuals: Float[Tensor, " n"]
    values: Float[Tensor, " n"]

    def __call__(self, scores: ArrayLike) -> Tensor:
        """Evaluate the function: linear between the points, constant beyond them."""
        at = as_float_tensor(scores, name="scores")
        values = np.interp(at.to("cpu", torch.float64).numpy(), self.points.numpy(), self.values.numpy())
        return torch.as_tensor(values, dtype=torch.float64).to(at.device)


@suggesting()
def smooth_calibration_witness(
    probs: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, ignore_index: int | None = None
) -> SmoothCalibrationWitness:
    r"""The function w that attains the smooth calibration error.

    If w is positive, the model is underconfident (outcomes exceed the predictions); if it is negative,
    overconfident. The witness proves :math:`\mathrm{smCE} \ge` ``value``: it is 1-Lipschitz with values in
    [-1, 1], and ``value`` is its sum. ``upper_bound`` proves the other side, by the dual programme

    .. math:: \mathrm{smCE} = \min_h \sum_j |h_j - h_{j-1}| + \sum_j (p_{j+1} - p_j) |h_j - C_j| ,

    C being the cumulative residual over the sorted points, :math:`h_0 = 0` and :math:`h_n = C_n`.

    Args:
        probs: Probabilities of the classes ``(N, C)`` (the top label counts) or of an event ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1}, shape ``(N,)``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``value`` and ``upper_bound`` in ``[0, 1]``, equal up to rounding; on the CPU in float64, shape
        ``(n,)``: ``points`` (the distinct scores, ascending), ``residuals`` (at each point the weighted sum
        of outcome minus score, divided by the sum of all weights) and ``values`` of w. Called with scores, it
        gives w there.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or samples have several labels
            (pass one column of each: ``probs[:, k], labels[:, k]``).

    Note:
        An optimal w need not be unique; this is one of them.

    References:
        Błasiok, Gopalan, Hu and Nakkiran, "A Unifying Theory of Distance from Calibration", STOC 2023.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.8, 0.8, 0.9, 0.9]), torch.tensor([0, 1, 0, 1])
        >>> witness = smooth_calibration_witness(probs, labels)
        >>> round(witness.value, 3), witness.values.tolist()
        (0.35, [-1.0, -1.0])
    """
    from calibrant._math.lipschitz import smooth_calibration_solution

    event = one_event(probs, labels, weights, ignore_index)
    points, residuals, best = smooth_calibration_solution(*event)
    return SmoothCalibrationWitness(
        value=best.value,
        upper_bound=best.upper_bound,
        points=torch.from_numpy(points),
        residuals=torch.from_numpy(residuals),
        values=torch.from_numpy(best.witness),
    )


@suggesting()
def post_processing_gap(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    score: Literal["brier", "nll"] = "brier",
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Largest reduction of squared loss or log loss by a Lipschitz change of the probabilities.

    For the squared loss, ``score="brier"``, by changing the probabilities:

    .. math::
        \mathrm{pGap} = \frac{1}{N} \sum_i (p_i - y_i)^2
        - \min_\kappa \frac{1}{N} \sum_i \left( \kappa(p_i) - y_i \right)^2 ,
        \qquad \kappa(p) = p + \eta(p) \in [0, 1], \quad |\eta(s) - \eta(t)| \le |s - t|

    So κ may rise at most twice as fast as p, and never fall. For every sample
    :math:`\mathrm{smCE}^2 \le \mathrm{pGap} \le 2 \, \mathrm{smCE}`.

    For the log loss, ``score="nll"``, by changing the log-odds t:

    .. math::
        \mathrm{pGap} = \frac{1}{N} \sum_i \ell(y_i, t_i)
        - \min_h \frac{1}{N} \sum_i \ell(y_i, t_i + h(t_i)) ,
        \qquad |h(s) - h(t)| \le |s - t| , \quad |h| \le 4

    in nats. With the smooth calibration error of the log-odds, :math:`\mathrm{smCE}^*` (weights that change
    by at most a quarter per unit of t, so that it is not below smCE),
    :math:`2 \, \mathrm{smCE}^{*2} \le \mathrm{pGap} \le 4 \, \mathrm{smCE}^*`.

    Which events count is as in :func:`~calibrant.metrics.smooth_calibration_error`, and so are errors and the
    other arguments.

    Returns:
        Scalar float64, in ``[0, 1]`` for the squared loss, not negative for the log loss; shape ``(C,)`` for
        ``average="none"``.

    Note:
        Measured on the sample κ is fitted to, so it is positive even for a calibrated model, and of order
        :math:`N^{-2/3}` there. Exact to rounding (dynamic programming, certified to about 1e-15 by the dual).
        Time O(N log N) to sort and about as much to solve; the first call compiles. The gap of the log
        loss is found by an interior point method, in some dozen tridiagonal systems. It is certified to about
        1e-9, at worst 1e-7. Probabilities closer to 0 or 1 than 1e-12 count as this close. Not differentiable
        by autograd.

    References:
        Błasiok, Gopalan, Hu and Nakkiran, "When Does Optimizing a Proper Loss Yield Calibration?", NeurIPS
        2023.

    Example:
        >>> import torch
        >>> post_processing_gap(torch.tensor([0.8, 0.8, 0.8, 0.8]), torch.tensor([0, 1, 0, 1])).item()
        0.09...
    """
    from calibrant._math import processing_gap  # numba: imported where it is first needed

    check_choice("score", score, ("brier", "nll"))
    gap = processing_gap.post_processing_gap if score == "brier" else processing_gap.likelihood_gap

    def measure(scores: Vector, outcomes: Vector, mass: Vector | None) -> float:
        return gap(scores, outcomes, mass).value

    return over_events(measure, probs, labels, classwise, average, weights, ignore_index)


@suggesting()
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

    :math:`K_\sigma` is the Gaussian density of standard deviation σ. What falls beyond 0 or 1 is reflected
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
    """One entry per position; ``confidence`` and ``outcome`` are ``None`` where samples are too sparse."""

    positions: tuple[float, ...]
    density: tuple[float, ...]
    confidence: tuple[float | None, ...]
    outcome: tuple[float | None, ...]
    bandwidth: float


@suggesting()
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
    refined = math.ceil(4 / bandwidth / cells)  # finer by the factor that the series needs

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


@suggesting()
def averaged_two_bin_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Averaged two-bin calibration error (ATB): a squared error that rewards no false probabilities.

    .. math::
        \mathrm{ATB} = \frac{1}{N^2} \int_0^1 \Big( \sum_{i :\, p_i < q} (p_i - y_i) \Big)^2
        + \Big( \sum_{i :\, p_i \ge q} (p_i - y_i) \Big)^2 \, dq

    It is truthful: if the outcomes of an event are independent, their true probabilities have the smallest
    expected error, for every sample size: :math:`\frac{1}{N^2} \sum_i p_i (1 - p_i)`. The only others with it
    are calibrated ones that are coarser. ECE is smaller in expectation for some false probabilities.

    Which events count is as in :func:`~calibrant.metrics.smooth_calibration_error`, and so are errors and the
    other arguments. With weights, the sums are weighted and N is the sum of the weights. Truthfulness holds
    for probabilities of an event, and not for the top label, which the probabilities choose.

    Returns:
        Scalar float64 in ``[0, 1]``, in squared probabilities; shape ``(C,)`` for ``average="none"``.

    Note:
        At least half the squared mean residual. Exact to rounding: between two neighbouring probabilities the
        integrand is constant. Time O(N log N) to sort. Not differentiable by autograd.

    References:
        Hartline, Hu and Wu, "A Perfectly Truthful Calibration Measure", COLT 2026.

    Example:
        >>> import torch
        >>> averaged_two_bin_error(torch.tensor([0.25, 0.75]), torch.tensor([1, 1])).item()
        0.203125
    """
    return over_events(_averaged_two_bins, probs, labels, classwise, average, weights, ignore_index)


def _averaged_two_bins(scores: Vector, outcomes: Vector, mass: Vector | None) -> float:
    order = np.argsort(scores)
    residuals = scores - outcomes if mass is None else mass * (scores - outcomes)
    left = np.concatenate([[0.0], np.cumsum(residuals[order])])
    widths = np.diff(np.clip(scores[order], 0.0, 1.0), prepend=0.0, append=1.0)
    total = len(scores) if mass is None else mass.sum()
    return float(widths @ (left**2 + (left[-1] - left) ** 2)) / total**2
