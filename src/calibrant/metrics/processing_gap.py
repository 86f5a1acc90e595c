"""Post-processing gap: what a gentle recalibration could still gain."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average
from calibrant.metrics._events import over_events

__all__ = ["post_processing_gap"]


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
        loss is found by an interior point method, in some dozen tridiagonal systems, certified to about 1e-9,
        at worst 1e-7; probabilities closer to 0 or 1 than 1e-12 count as this close. Not differentiable by
        autograd.

    References:
        Błasiok, Gopalan, Hu and Nakkiran, "When Does Optimizing a Proper Loss Yield Calibration?", NeurIPS
        2023.

    Example:
        >>> import torch
        >>> post_processing_gap(torch.tensor([0.8, 0.8, 0.8, 0.8]), torch.tensor([0, 1, 0, 1])).item()
        0.09...
    """
    from calibrant._math.likelihood_gap import likelihood_gap  # numba: imported where it is first needed
    from calibrant._math.lipschitz_regression import post_processing_gap as squared_gap

    check_choice("score", score, ("brier", "nll"))
    gap = squared_gap if score == "brier" else likelihood_gap
    return over_events(
        lambda scores, outcomes, mass: gap(scores, outcomes, mass).value,
        probs,
        labels,
        classwise=classwise,
        average=average,
        weights=weights,
        ignore_index=ignore_index,
    )
