"""Post-processing gap: what a gentle recalibration could still gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.metrics._events import over_events

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from calibrant._math.arrays import ArrayLike
    from calibrant.metrics._common import Average


def post_processing_gap(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    classwise: bool = False,
    average: Average = "macro",
    weights: ArrayLike | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Squared loss less the least that a Lipschitz change of the probabilities can reach.

    .. math::
        \mathrm{pGap} = \frac{1}{N} \sum_i (p_i - y_i)^2
        - \min_\kappa \frac{1}{N} \sum_i \left( \kappa(p_i) - y_i \right)^2 ,
        \qquad \kappa(p) = p + \eta(p) \in [0, 1], \quad |\eta(s) - \eta(t)| \le |s - t|

    So κ may rise at most twice as fast as p, and never fall. Which events count is as in
    :func:`~calibrant.metrics.smooth_calibration_error`; for every sample
    :math:`\mathrm{smCE}^2 \le \mathrm{pGap} \le 2 \, \mathrm{smCE}`.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        classwise: Whether every class counts, not only the top label.
        average: With ``classwise`` or several labels per sample: ``"macro"`` for the mean over the columns,
            ``"none"`` for one value per column.
        weights: Weights of the samples, shape ``(N,)``, not negative.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        ValueError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Measured on the sample κ is fitted to, so it is positive even for a calibrated model, and of order
        :math:`N^{-2/3}` there. Exact to rounding (dynamic programming, certified to about 1e-15 by the dual).
        Time O(N log N) to sort and about as much to solve; the first call compiles. Not differentiable by
        autograd.

    References:
        Błasiok, Gopalan, Hu and Nakkiran, "When Does Optimizing a Proper Loss Yield Calibration?", NeurIPS
        2023.

    Example:
        >>> import torch
        >>> post_processing_gap(torch.tensor([0.8, 0.8, 0.8, 0.8]), torch.tensor([0, 1, 0, 1])).item()
        0.09...
    """
    from calibrant._math import lipschitz_regression  # numba: imported where it is first needed

    return over_events(
        lambda scores, outcomes, mass: lipschitz_regression.post_processing_gap(scores, outcomes, mass).value,
        probs,
        labels,
        classwise=classwise,
        average=average,
        weights=weights,
    )
