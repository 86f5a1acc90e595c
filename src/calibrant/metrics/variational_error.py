"""Variational calibration error: a lower bound from any recalibration fitted on other samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, row_slices
from calibrant._math.errors import InputError
from calibrant._math.scores import weighted_mean
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics.score_parts import with_recalibrated

__all__ = ["VariationalError", "variational_calibration_error"]


@dataclass(frozen=True)
class VariationalError:
    """A lower bound of a calibration error, with the standard error over samples."""

    value: Float[Tensor, ""]
    standard_error: Float[Tensor, ""]


@suggesting()
def variational_calibration_error(
    probs: ArrayLike,
    recalibrated: ArrayLike,
    labels: ArrayLike,
    *,
    p: float = 1.0,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> VariationalError:
    r"""Lower bound of the :math:`L_p` calibration error of whole rows, by a recalibration fitted elsewhere.

    .. math::
        \mathrm E \left\| \mathrm E[e_y \mid p] - p \right\|_p
        \ge \mathrm E \left\langle d, e_y - p \right\rangle , \qquad
        d_k = \operatorname{sign}(\delta_k) \left( |\delta_k| \, / \, \|\delta\|_p \right)^{p - 1} , \quad
        \delta = g(p) - p

    :math:`e_y` is the one-hot vector of a label, and g any recalibration that was fitted on other samples.
    The better g is, the higher is the bound; with the true rates it is the error itself. Binning is not
    possible for many classes, and finds errors where there are none. This bound has no such bias: if the
    probabilities are right, its expectation is 0 for every g.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        recalibrated: Probabilities of the same shape by fits that did not see these samples, such as
            :func:`~calibrant.calibrators.out_of_fold_probs`.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        p: Which norm, from 1 to infinity.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``value``, a scalar float64, for classes in ``[-2, 2]`` with ``p=1``, for events in ``[-1, 1]``; of
        several labels the mean over the labels. Below zero the recalibration did harm. ``standard_error``
        is that of the mean over samples with g as it is, so that a value above 1.645 of them is evidence of
        miscalibration at the level of 5%.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or ``p`` is below 1.

    Note:
        Fitted on the same samples, g makes the value too large. A temperature alone sees errors of
        temperature only; several calibrators may be tried, each with its own bound. O(N C) time. Not
        differentiable.

    References:
        Berta, Braun, Holzmüller, Jordan and Bach, "A Variational Estimator for Lp Calibration Errors", 2026.

    Example:
        >>> import torch
        >>> probs, rates = torch.tensor([[0.9, 0.1]] * 4), torch.tensor([[0.75, 0.25]] * 4)
        >>> found = variational_calibration_error(probs, rates, torch.tensor([0, 0, 0, 1]))
        >>> round(found.value.item(), 6)  # |0.75 - 0.9| + |0.25 - 0.1|
        0.3
    """
    checked, after = with_recalibrated(probs, recalibrated, labels, weights, ignore_index)
    if not p >= 1:
        raise InputError(f"`p` must be at least 1; got {p}.")
    gains = torch.empty(checked.num_samples, dtype=torch.float64, device=checked.scores.device)
    for rows in row_slices(checked.scores):
        stated, better = (each.scores[rows].to(torch.float64) for each in (checked, after))
        if checked.task == "multiclass":
            truth = torch.nn.functional.one_hot(checked.target[rows], checked.num_classes)
        else:
            stated, better, truth = stated[..., None], better[..., None], checked.target[rows][..., None]
        gain = (_steepest(better - stated, p) * (truth - stated)).sum(dim=-1)
        gains[rows] = gain.mean(dim=1) if gain.ndim > 1 else gain
    value = weighted_mean(gains, checked.weights)
    total = checked.num_samples if checked.weights is None else float(checked.weights.sum())
    variance = weighted_mean((gains - value).square(), checked.weights)
    return VariationalError(value, (variance / total).sqrt())


def _steepest(change: Float[Tensor, "*N C"], p: float) -> Float[Tensor, "*N C"]:
    """Gradient of the norm: the direction of dual norm 1 whose product with the change is its norm."""
    size = change.abs()
    largest = size.amax(dim=-1, keepdim=True)
    if p == math.inf:
        first = torch.zeros_like(size).scatter_(-1, size.argmax(dim=-1, keepdim=True), 1.0)
        return change.sign() * first
    shares = size / largest.where(largest > 0, 1.0)
    norm = torch.linalg.vector_norm(shares, ord=p, dim=-1, keepdim=True)
    return change.sign() * (shares / norm.where(norm > 0, 1.0)) ** (p - 1)
