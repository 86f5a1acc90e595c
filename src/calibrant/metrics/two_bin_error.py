"""Averaged two-bin calibration error: squared residuals on both sides of a boundary, over all boundaries."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Average, Vector, over_events

__all__ = ["averaged_two_bin_error"]


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
