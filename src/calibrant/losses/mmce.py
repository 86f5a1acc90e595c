"""Maximum mean calibration error (MMCE) as a penalty on cross-entropy."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import check_at_least
from calibrant._math.shapes import Bool, Float, Integer
from calibrant.losses._confidence import confidence_loss, right_and_counted
from calibrant.losses._module import BatchLossModule, properness
from calibrant.losses._rows import as_rows, check_mean, check_not_negative

__all__ = ["MMCELoss", "mmce_loss"]

# Below it exp(1 / bandwidth) nears the end of float32.
_NARROWEST = 0.02
# Keeps the square root's derivative finite at zero; the authors' value.
_UNDER_ROOT = 1e-10
# The authors' guard on the counts of the weighted form as published.
_UNDER_COUNT = 1e-5


@properness(
    "unweighted, the penalty is zero at the truth and nowhere negative: strictly proper; "
    "the weighted one is not zero at the truth"
)
def mmce_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""],
    *,
    penalty: float = 2.0,
    weighted: bool = True,
    as_published: bool = True,
    bandwidth: float = 0.4,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean"] = "mean",
) -> Float[Tensor, ""]:
    r"""Cross-entropy plus the maximum mean calibration error of the batch.

    .. math:: L = \mathrm{CE} + \lambda\, \mathrm{MMCE}, \qquad
              \mathrm{MMCE}^2 = \sum_{ij} w_i w_j e^{-|r_i - r_j| / h}

    with :math:`\lambda` = ``penalty``, the confidence :math:`r_i = \max_k p_{ik}`, the correctness
    :math:`c_i` (which carries no gradient) and h = ``bandwidth``. Among N samples m are predicted right and
    n wrong.

    * Weighted: :math:`w_i = (1 - r_i) / m` if right, :math:`-r_i / n` if wrong; 0 if m or n is 0.
    * Unweighted: :math:`w_i = (c_i - r_i) / N`.

    ``as_published=True``, the default, computes what the published code computes. Weighted: the three blocks
    of the sum are means over pairs, divided by :math:`m^2`, :math:`n^2` and :math:`mn` a second time.
    Unweighted: the square root is missing. Published results with ``penalty=2`` are those of this form. Twice
    divided, the weighted error falls in proportion to the batch's size (it is 56 times smaller on a batch of
    64), so that a penalty means something else at every batch size. ``as_published=False`` follows the
    definition; choose its penalty anew, for 2 is far too strong: on Fashion-MNIST the error rate was 20 to
    21% instead of 13% (five seeds each, ``papers/losses``).

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        penalty: Weight of the calibration error, not negative; 0 is cross-entropy.
        weighted: Average right and wrong predictions separately.
        as_published: Compute the published code's value instead of the definition.
        bandwidth: Width of the kernel, at least 0.02; confidences are within 1 of each other.
        weight: Weight of each class in the cross-entropy, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: ``"mean"`` only: the error is one of the batch.

    Returns:
        Scalar, not negative; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or an option is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        Not continuous where the prediction changes, with kinks where two confidences are equal (they do not
        move each other); elsewhere differentiable any number of times. Exact in O(N C + N log N) time and
        O(N C) memory.

    References:
        Kumar, Sarawagi and Jain, "Trainable Calibration Measures for Neural Networks from Kernel Mean
        Embeddings", ICML 2018.

    Example:
        >>> import torch
        >>> from calibrant.losses import cross_entropy_loss
        >>> logits = torch.tensor([[0.8, 0.2], [0.4, 0.6]]).log()
        >>> labels = torch.tensor([0, 0])  # r = (0.8, 0.6), right and wrong: w = (0.2, -0.6)
        >>> error = mmce_loss(logits, labels, penalty=1.0, as_published=False)
        >>> error = error - cross_entropy_loss(logits, labels)
        >>> round(error.item(), 4)  # sqrt(0.04 + 0.36 - 2 * 0.12 * exp(-0.5))
        0.5044
    """
    check_mean("MMCE", reduction)
    _check(penalty=penalty, bandwidth=bandwidth)
    rows = as_rows(logits, labels, None, weight, ignore_index, reduction)
    if penalty == 0:
        return rows.layout.finish(rows.cross_entropy())
    settings: dict[str, Any] = {"weighted": weighted, "as_published": as_published, "bandwidth": bandwidth}

    def plain(logits: Tensor) -> Tensor:
        seen = rows._replace(logits=logits)
        return seen.cross_entropy() + penalty * _error(*right_and_counted(seen), **settings)

    return confidence_loss(rows, penalty, partial(_error_and_gradient, **settings), plain)


def _error(
    confidences: Float[Tensor, " R"],
    right: Bool[Tensor, " R"],
    counted: Bool[Tensor, " R"],
    *,
    weighted: bool,
    as_published: bool,
    bandwidth: float,
) -> Float[Tensor, ""]:
    def pairs(left: Tensor, other: Tensor | None = None) -> Tensor:
        return laplacian_pair_sum(confidences, left, other, bandwidth=bandwidth)

    if not weighted:
        square = pairs(torch.where(counted, right.to(confidences.dtype) - confidences, 0) / counted.sum())
        return square if as_published else _root(square)
    wrong = counted & ~right
    num_right, num_wrong = (each.sum().clamp(min=1).to(confidences.dtype) for each in (right, wrong))
    missed = torch.where(right, 1 - confidences, 0) / num_right
    claimed = torch.where(wrong, confidences, 0) / num_wrong
    if as_published:
        square = (
            pairs(missed) / (num_right**2 + _UNDER_COUNT)
            + pairs(claimed) / (num_wrong**2 + _UNDER_COUNT)
            - 2 * pairs(missed, claimed) / (num_right * num_wrong + _UNDER_COUNT)
        )
    else:
        square = pairs(missed - claimed)
    return torch.where(right.any() & wrong.any(), _root(square), 0)


def _error_and_gradient(
    confidences: Float[Tensor, " R"],
    right: Bool[Tensor, " R"],
    counted: Bool[Tensor, " R"],
    *,
    weighted: bool,
    as_published: bool,
    bandwidth: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, " R"]]:
    r""":func:`_error`, :math:`\sum_{ab} F_{ab} w_a^T K w_b` or its root, with the derivative."""
    from calibrant.losses._compiled import laplacian_sums  # numba: imported where it is first needed

    order = np.argsort(confidences.numpy())
    points, hits, known = (each.numpy()[order].astype(float) for each in (confidences, right, counted))
    misses = known - hits
    num_right, num_wrong = hits.sum(), misses.sum()
    if weighted:
        hits, misses = hits / max(num_right, 1), misses / max(num_wrong, 1)
        weights, slopes = np.stack([hits * (1 - points), misses * points]), np.stack([-hits, misses])
        counts = np.array([num_right, num_wrong])
        pairs = np.outer(counts, counts) + _UNDER_COUNT if as_published else 1
        form = np.array([[1, -1], [-1, 1]]) / pairs
    else:
        weights, slopes = ((hits - known * points) / known.sum())[None], (-known / known.sum())[None]
        form = np.ones((1, 1))
    sums = np.empty((3, *weights.shape))
    laplacian_sums(points, weights, float(bandwidth), sums)
    pulled, moved = sums.sum(0), (sums[2] - sums[0]) / bandwidth
    square = (weights * (form @ pulled)).sum()
    gradient = np.empty_like(points)
    gradient[order] = 2 * (slopes * (form @ pulled) + (form @ weights) * moved).sum(0)
    if weighted or not as_published:
        root = math.sqrt(max(square, 0) + _UNDER_ROOT) if square == square else math.nan
        gradient *= 0 if square < 0 else 0.5 / root
        square = root
    if weighted and not (num_right and num_wrong):
        square, gradient = 0.0, np.zeros_like(gradient)
    return confidences.new_full((), square), torch.from_numpy(gradient).to(confidences)


def laplacian_pair_sum(
    points: Float[Tensor, " N"],
    left: Float[Tensor, " N"],
    right: Float[Tensor, " N"] | None = None,
    *,
    bandwidth: float,
) -> Float[Tensor, ""]:
    r""":math:`\sum_{ij} l_i r_j e^{-|x_i - x_j| / h}`, for points within a few bandwidths of each other.

    Sorted, :math:`e^{-|x_i - x_j|/h} = e^{x_j/h} e^{-x_i/h}` for :math:`x_j \le x_i`: one cumulative sum
    serves every i. Exact; O(N log N) time and O(N) memory where the matrix of pairs needs the square.

    Without ``right`` it is ``left``. Differentiable any number of times; as with the matrix of pairs, equal
    points do not move each other.
    """
    points, order = points.sort()
    left = left[order]
    place = torch.arange(len(points), device=points.device)
    # Start of each point's run of equal points: earlier points are at a distance.
    begins = torch.cat([place[:1] == 0, points[1:] > points[:-1]])
    start = torch.where(begins, place, 0).cummax(0).values
    growth = ((points - points[:1].detach()) / bandwidth).exp()

    def with_earlier(here: Tensor, there: Tensor) -> Tensor:
        at_a_distance = _before(there * growth)[start] / growth
        equal = _before(there)
        return (here * (at_a_distance + equal - equal[start])).sum()

    if right is None:
        return (left * left).sum() + 2 * with_earlier(left, left)
    right = right[order]
    return (left * right).sum() + with_earlier(left, right) + with_earlier(right, left)


def _before(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    return values.cumsum(0) - values


def _root(square: Float[Tensor, ""]) -> Float[Tensor, ""]:
    # The sum is negative only by rounding.
    return (square.clamp(min=0) + _UNDER_ROOT).sqrt()


def _check(*, penalty: float, bandwidth: float, **_rest: bool) -> None:
    check_not_negative(penalty=penalty, bandwidth=bandwidth)
    check_at_least("bandwidth", bandwidth, _NARROWEST)


class MMCELoss(BatchLossModule, function=mmce_loss, check=_check):
    """:func:`mmce_loss` as a module."""

    penalty: float = 2.0
    weighted: bool = True
    as_published: bool = True
    bandwidth: float = 0.4
