"""Brier score."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs
from calibrant._math.scores import brier_scores
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, mean_score

__all__ = ["brier_score"]


def brier_score(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Mean squared distance between the probabilities and what happened.

    .. math::
        \mathrm{Brier} = \frac{1}{N} \sum_i \sum_k \left( p_{ik} - \mathbf 1[y_i = k] \right)^2
        \quad \text{(classes)}, \qquad
        \frac{1}{N} \sum_i (p_i - y_i)^2 \quad \text{(an event)}

    Summed over the classes, not averaged. An event ``(N,)`` counts one term, so the same model written as
    two columns ``(1 - p, p)`` scores exactly twice as much.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        average: ``"macro"`` for the mean over the labels where samples have several (each an event),
            ``"none"`` for one value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 2]`` for classes, in ``[0, 1]`` for events; shape ``(C,)`` for
        ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Strictly proper. Other packages divide by ``C`` (mean squared error) or halve.

    References:
        Brier, "Verification of Forecasts Expressed in Terms of Probability", Monthly Weather Review 78, 1950.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([0.8, 0.3]), torch.tensor([1, 0])
        >>> round(brier_score(probs, labels).item(), 4)
        0.065
        >>> round(brier_score(torch.stack([1 - probs, probs], dim=1), labels).item(), 4)
        0.13
    """
    return mean_score(brier_scores, check_probs(probs, labels, weights, ignore_index=ignore_index), average)
