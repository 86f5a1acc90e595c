"""Calibration error with as many bins as the sample bears."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import binned
from calibrant._math.checks import check_choice
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average
from calibrant.metrics._events import Vector, one_event, over_events

__all__ = ["monotone_num_bins", "sweep_calibration_error"]


def sweep_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    binning: Literal["mass", "width"] = "mass",
    norm: Literal["l1", "l2"] = "l1",
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Calibration error with the most bins whose mean outcomes ascend (ECE sweep).

    .. math:: \mathrm{ECE}_{\mathrm{sweep}} = \mathrm{ECE}_{B^*} , \qquad
              B^* = \max \{ B : \bar y_1 \le \dots \le \bar y_b \text{ in } b \text{ bins for all } b \le B \}

    A better model has outcomes that rise with its confidence; the number of bins is raised from one until
    noise makes them fall. Empty bins are passed over, and there are never more bins than samples (of positive
    weight). What is judged and how the bins lie: see :func:`~calibrant.metrics.expected_calibration_error`.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        binning: ``"mass"`` (which the authors recommend) or ``"width"``.
        norm: ``"l1"`` or ``"l2"``.
        average: ``"macro"`` for the mean over the labels where samples have several (each with its own number
            of bins), ``"none"`` for one value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative. (A weight of two is not the same as two
            copies: bins end at whole samples, and there are at most as many.)
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Less biased than a fixed number of bins when N is small or large. A model whose outcomes fall with its
        confidence gets one bin, and with it only the size of its mean residual. The number of bins is
        :func:`monotone_num_bins`. Time O(N log N) to sort, then in practice less; the first call compiles.
        Not differentiable.

    References:
        Roelofs, Cain, Shlens and Mozer, "Mitigating Bias in Calibration Error Estimation", AISTATS 2022.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.2, 0.4, 0.6, 0.8]), torch.tensor([0, 1, 0, 1])
        >>> round(sweep_calibration_error(probs, labels).item(), 6), monotone_num_bins(probs, labels)
        (0.2, 2)
    """
    check_choice("binning", binning, ("mass", "width"))
    check_choice("norm", norm, ("l1", "l2"))

    def measure(scores: Vector, outcomes: Vector, mass: Vector | None) -> float:
        sums = binned(
            torch.from_numpy(scores),
            torch.from_numpy(outcomes),
            num_bins=_most_bins(scores, outcomes, mass, binning),
            binning=binning,
            weights=None if mass is None else torch.from_numpy(mass),
        )
        return float(sums.calibration_error(norm))

    return over_events(
        measure, probs, labels, classwise=False, average=average, weights=weights, ignore_index=ignore_index
    )


def monotone_num_bins(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    binning: Literal["mass", "width"] = "mass",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> int:
    """The number of bins that :func:`sweep_calibration_error` takes; ``probs`` hold classes or one event.

    ``probs`` have shape ``(N, C)`` with classes ``labels`` ``(N,)``, or ``(N,)`` with outcomes in {0, 1};
    ``weights`` have shape ``(N,)``, labels ``ignore_index`` are left out. Otherwise arguments and errors are
    as there; several
    labels per sample are refused (pass one column of each:
    ``probs[:, k], labels[:, k]``).

    Returns:
        From 1 to the number of samples.

    Example:
        >>> import torch
        >>> monotone_num_bins(torch.tensor([0.1, 0.2, 0.7, 0.9]), torch.tensor([0, 0, 1, 1]))
        4
    """
    check_choice("binning", binning, ("mass", "width"))
    return _most_bins(*one_event(probs, labels, weights, ignore_index), binning)


def _most_bins(scores: Vector, outcomes: Vector, weights: Vector | None, binning: str) -> int:
    from calibrant._math import monotone_bins  # numba: imported where it is first needed

    search = monotone_bins.monotone_mass_bins if binning == "mass" else monotone_bins.monotone_width_bins
    return search(scores, outcomes, weights)
