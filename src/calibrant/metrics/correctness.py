"""Accuracy and error rate."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs
from calibrant._math.scores import hits, misses
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, mean_score

__all__ = ["accuracy", "error_rate"]


def accuracy(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Share of samples whose most probable class is the true one.

    .. math:: \mathrm{acc} = \frac{1}{N} \sum_i \mathbf 1[\arg\max_k p_{ik} = y_i]

    Among equally probable classes the lowest is predicted. An event ``(N,)`` is predicted where its
    probability exceeds one half.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        average: Where samples have several labels: ``"macro"`` for the mean over the labels (one minus the
            Hamming loss, not the share of samples with every label right), ``"none"`` for one value each.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Example:
        >>> import torch
        >>> accuracy(torch.tensor([[0.6, 0.4], [0.5, 0.5]]), torch.tensor([0, 1])).item()
        0.5
    """
    return mean_score(hits, check_probs(probs, labels, weights, ignore_index=ignore_index), average)


def error_rate(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    """Share of samples whose most probable class is not the true one: one minus :func:`accuracy`.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out. ``average`` and the errors are as there.

    Returns:
        Scalar float64 in ``[0, 1]``; shape ``(C,)`` for ``average="none"``.

    Example:
        >>> import torch
        >>> error_rate(torch.tensor([0.9, 0.2, 0.7, 0.6]), torch.tensor([1, 0, 1, 0])).item()
        0.25
    """
    return mean_score(misses, check_probs(probs, labels, weights, ignore_index=ignore_index), average)
