"""What bounded Lipschitz functions see of the residuals, and what a Lipschitz change of the scores gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_choice
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, Vector, one_event, over_events

__all__ = [
    "SmoothCalibrationWitness",
    "post_processing_gap",
    "smooth_calibration_error",
    "smooth_calibration_witness",
]


def smooth_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Smooth calibration error: the most that a bounded Lipschitz function can see of the residuals.

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
        classwise: Whether every class counts, not only the top label; an event ``(N,)`` then counts as the
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
    """A function that attains the smooth calibration error, and a bound that shows it cannot be beaten."""

    value: float
    upper_bound: float
    points: Float[Tensor, " n"]
    residuals: Float[Tensor, " n"]
    values: Float[Tensor, " n"]

    def __call__(self, scores: ArrayLike) -> Tensor:
        """The function at any scores: straight between the points, constant beyond them."""
        at = as_float_tensor(scores, name="scores")
        values = np.interp(at.to("cpu", torch.float64).numpy(), self.points.numpy(), self.values.numpy())
        return torch.as_tensor(values, dtype=torch.float64).to(at.device)


def smooth_calibration_witness(
    probs: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None, ignore_index: int | None = None
) -> SmoothCalibrationWitness:
    r"""The function w that attains the smooth calibration error.

    Where w is positive the model is under-confident (outcomes exceed what was stated), where it is negative,
    over-confident. The witness proves :math:`\mathrm{smCE} \ge` ``value``: it is 1-Lipschitz with values in
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
    r"""Squared loss or log loss less the least that a gentle, Lipschitz change can reach.

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
