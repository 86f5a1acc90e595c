"""Negative log-likelihood."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs
from calibrant._math.scores import negative_log_likelihoods
from calibrant._math.shapes import Float
from calibrant.metrics._common import Average, mean_score

__all__ = ["negative_log_likelihood"]


def negative_log_likelihood(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Mean negative log-likelihood (log-loss, cross-entropy) in nats.

    .. math:: \mathrm{NLL} = -\frac{1}{N} \sum_i \log p_{i, y_i}

    A probability of exactly 0 for what happened makes it infinite: nothing is clipped. An event ``(N,)``
    scores :math:`-\log p` where it happened and :math:`-\log(1 - p)` where not.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        average: ``"macro"`` for the mean over the labels where samples have several, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, inf]``; shape ``(C,)`` for ``average="none"``. (Rows that sum to slightly more
        than one, see :func:`~calibrant.metrics.expected_calibration_error`, may give -1e-3.)

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or an option does not exist.

    Note:
        Strictly proper: minimal in expectation at the true probabilities only.

    References:
        Good, "Rational Decisions", Journal of the Royal Statistical Society B 14, 1952.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.5, 0.5], [0.0, 1.0]]), torch.tensor([0, 1])
        >>> round(negative_log_likelihood(probs, labels).item(), 4)
        0.3466
        >>> negative_log_likelihood(probs, torch.tensor([0, 0])).item()
        inf
    """
    return mean_score(
        negative_log_likelihoods, check_probs(probs, labels, weights, ignore_index=ignore_index), average
    )
