"""Canonical calibration error: of the whole vector of probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_choice, check_probs
from calibrant._math.dirichlet_kernel import likeliest_bandwidth, regress
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.metrics._common import Average, averaged, check_average, check_bandwidth, columns

__all__ = ["canonical_calibration_error"]


def canonical_calibration_error(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    norm: Literal["l1", "l2"] = "l1",
    bandwidth: float | None = None,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Calibration error of the whole vector of probabilities, by a Dirichlet kernel (ECE-KDE).

    .. math::
        \left( \frac1N \sum_j \left\| \frac{\sum_{i \ne j} k_h(p_j; p_i) \, e_{y_i}}
        {\sum_{i \ne j} k_h(p_j; p_i)} - p_j \right\|_q^q \right)^{1/q} , \qquad
        k_h(\cdot\,; p_i) = \mathrm{Dirichlet}(p_i / h + 1)

    with :math:`q = 1` or 2 and :math:`e_y` the one-hot vector of a label. A model is canonically calibrated
    if among the samples with the same vector p the classes have the frequencies p; top-label and classwise
    calibration are less. An event ``(N,)`` has a Beta kernel and counts one term, so the same model written
    as two columns ``(1 - p, p)`` has 2 (``"l1"``) or :math:`\sqrt 2` (``"l2"``) times as much. Several labels
    per sample: every column is an event.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``; rows are scaled to sum to one.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        norm: ``"l1"`` (q = 1) or ``"l2"`` (q = 2).
        bandwidth: h, positive. By default the value, out of 20 from 1e-5 to 1 (15 of them logarithmically up
            to 0.1), under which each probability vector is likeliest given the others.
        average: ``"macro"`` for the mean over the labels where samples have several, ``"none"`` for one
            value per label.
        weights: Weights of the samples, shape ``(N,)``, not negative: of each sample as a neighbour, and in
            the mean over j.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64: for classes in ``[0, 2]`` (``"l1"``) or :math:`[0, \sqrt 2]`, for events in ``[0,
        1]``; shape ``(C,)`` for ``average="none"``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist, or no
            sample has a neighbour (there is one sample only, or all are certain and of different classes).

    Note:
        Consistent, not unbiased: the kernel smooths errors away and its noise adds some; a calibrated model
        does not score 0. It needs many samples for more than a few classes. A sample at which no other has a
        density (it has probability zero for a class that all others hold possible) is left out of the mean.
        The value varies with h, so compare models at one h. O(N² C) time; the choice of h costs 20
        exponentials for each pair, but at most 2000 samples (evenly spaced in the order of their largest
        probability) are judged for it. Beyond O(N C), a few MiB of memory. Gradients are cut.

    References:
        Popordanoska, Sayer and Blaschko, "A Consistent and Differentiable Lp Canonical Calibration Error
        Estimator", NeurIPS 2022.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.8, 0.2]] * 5), torch.tensor([0, 0, 0, 0, 1])
        >>> round(canonical_calibration_error(probs, labels, bandwidth=0.1).item(), 6)
        0.16
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("norm", norm, ("l1", "l2"))
    check_average(average, checked)
    check_bandwidth(bandwidth)
    errors = torch.stack([_error(*table, checked.weights, norm, bandwidth) for table in _tables(checked)])
    return averaged(errors, average)


def _tables(checked: Checked) -> Iterator[tuple[Float[Tensor, "N C"], Int[Tensor, " N"], bool]]:
    """Probabilities of all classes and labels, for every event or the classes; whether it is an event."""
    if checked.task == "multiclass":
        table = checked.scores.to(torch.float64)
        yield table / table.sum(dim=1, keepdim=True), checked.target, False
        return
    for column, outcomes in columns(checked):
        event = column.to(torch.float64)
        yield torch.stack([1 - event, event], dim=1), outcomes.to(torch.int64), True


def _error(
    table: Float[Tensor, "N C"],
    labels: Int[Tensor, " N"],
    event: bool,
    weights: Float[Tensor, " N"] | None,
    norm: Literal["l1", "l2"],
    bandwidth: float | None,
) -> Float[Tensor, ""]:
    if weights is not None:
        counted = weights > 0
        table, labels, weights = table[counted], labels[counted], weights[counted]
    if bandwidth is None:
        bandwidth = likeliest_bandwidth(table, weights)
    frequencies, known = regress(table, labels, bandwidth, weights)
    if not bool(known.any()):
        raise InputError(
            "`probs` must hold at least two samples that are near each other; here no sample has a neighbour."
        )
    gaps = (frequencies - table)[known]
    if event:
        gaps = gaps[:, 1:]
    distances = gaps.abs().sum(dim=1) if norm == "l1" else gaps.square().sum(dim=1)
    shares = torch.ones_like(distances) if weights is None else weights[known]
    mean = shares @ distances / shares.sum()
    return mean if norm == "l1" else mean.sqrt()
