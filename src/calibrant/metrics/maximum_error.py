"""Maximum calibration error."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import Binning
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, binned_error

__all__ = ["maximum_calibration_error"]


def maximum_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    num_bins: int = 15,
    binning: Binning = "width",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Largest gap between confidence and accuracy over the bins.

    .. math:: \mathrm{MCE} = \max_b \left| \mathrm{acc}(S_b) - \mathrm{conf}(S_b) \right|

    Empty bins count as 0. What is judged and how the bins lie: see
    :func:`~calibrant.metrics.expected_calibration_error`.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out. All other arguments and the errors are as there.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Note:
        A single sample in a bin of its own decides the value: read it beside the bin counts of
        :func:`~calibrant.metrics.reliability_table`. Not differentiable.

    References:
        Naeini et al., "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI 2015, eq. (4).

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.9, 0.9, 0.1]), torch.tensor([1, 0, 0])
        >>> round(maximum_calibration_error(probs, labels).item(), 6)
        0.4
    """
    return binned_error(
        lambda sums: sums.calibration_error("max"),
        probs,
        labels,
        weights,
        ignore_index,
        average,
        num_bins,
        binning,
    )
