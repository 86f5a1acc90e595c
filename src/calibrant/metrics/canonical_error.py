r"""Canonical calibration error: of the whole vector of probabilities, by a kernel on the simplex.

The kernel of sample i with bandwidth h is the Dirichlet density of parameters :math:`p_i / h + 1`, whose mode
is :math:`p_i`:

.. math:: \log k_h(p; p_i) = \log \Gamma(1/h + C) - \sum_k \log \Gamma(p_{ik}/h + 1)
          + \frac1h \sum_k p_{ik} \log p_k .

The last sum does not depend on h: one matrix product serves every bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_choice, check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Bool, Float, Int
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Average, averaged, check_average, check_bandwidth, columns

__all__ = ["canonical_calibration_error"]

CANDIDATES = (*torch.logspace(-5, -1, 15, dtype=torch.float64).tolist(), 0.2, 0.4, 0.6, 0.8, 1.0)

_CACHED = 2**17  # entries of the kernel matrix held at a time: 1 MiB
# Stands for log 0: its product with a zero is zero. For other probabilities no product is below -745.
_LOG_OF_ZERO = -1e30
_IMPOSSIBLE = -1e4
# Log densities this far below the largest count as zero. (Smaller ones would be
# subnormal numbers, which are slow.)
_NEGLIGIBLE = -600.0
_JUDGES = 2000  # samples at most for choosing the bandwidth


@suggesting()
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
            to 0.1), that maximises the likelihood of each probability vector given the others.
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
            sample has a neighbour (one sample, or all certain and of different classes).

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
    """Probabilities of all classes and labels, for every event or the classes; and whether it is an event."""
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
        bandwidth = _best_bandwidth(table, weights)
    frequencies, known = _regress(table, labels, bandwidth, weights)
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


def _regress(
    probs: Float[Tensor, "N C"],
    labels: Int[Tensor, " N"],
    bandwidth: float,
    weights: Float[Tensor, " N"] | None = None,
) -> tuple[Float[Tensor, "N C"], Bool[Tensor, " N"]]:
    """Mean of the other samples' labels at every sample, by the kernel; and the mask of known means."""
    frequencies = torch.zeros_like(probs)
    known = torch.zeros(len(probs), dtype=torch.bool, device=probs.device)
    terms = _own_terms(probs, bandwidth, weights)
    one_hot = torch.nn.functional.one_hot(labels, probs.shape[1]).to(torch.float64)
    everyone = torch.arange(len(probs), device=probs.device)
    for rows, products in _products(probs, everyone):
        known[rows] = _has_neighbours(products)
        density = products.div_(bandwidth).add_(terms)
        density.sub_(density.amax(dim=1, keepdim=True))
        torch.threshold_(density, _NEGLIGIBLE, -torch.inf).exp_()
        frequencies[rows] = density @ one_hot / density.sum(dim=1, keepdim=True)
    return frequencies, known


def _best_bandwidth(probs: Float[Tensor, "N C"], weights: Float[Tensor, " N"] | None = None) -> float:
    """Bandwidth in ``CANDIDATES`` with the highest likelihood of each sample given the others.

    At most 2000 samples are used, evenly spaced in the order of their largest probabilities.
    """
    judges = torch.arange(len(probs), device=probs.device)
    if len(probs) > _JUDGES:
        places = torch.arange(_JUDGES, device=probs.device) * len(probs) // _JUDGES
        judges = probs.amax(dim=1).argsort(stable=True)[places]
    shares = (torch.ones_like(probs[:, 0]) if weights is None else weights)[judges]
    terms = [_own_terms(probs, bandwidth, weights) for bandwidth in CANDIDATES]
    totals = torch.zeros(len(CANDIDATES), dtype=torch.float64, device=probs.device)
    for rows, products in _products(probs, judges):
        known = _has_neighbours(products)
        for index, bandwidth in enumerate(CANDIDATES):
            density = torch.logsumexp((products / bandwidth).add_(terms[index]), dim=1)
            totals[index] += density.where(known, 0.0) @ shares[rows]
    return CANDIDATES[int(totals.argmax())]


def _has_neighbours(products: Float[Tensor, "n N"]) -> Bool[Tensor, " n"]:
    """Mask of samples where another sample has a density, which no bandwidth changes."""
    return products.amax(dim=1) > _IMPOSSIBLE


def _own_terms(
    probs: Float[Tensor, "N C"], bandwidth: float, weights: Float[Tensor, " N"] | None
) -> Float[Tensor, " N"]:
    """Part of the log kernel that depends only on its sample, weight included."""
    constant = torch.lgamma(torch.tensor(1 / bandwidth + probs.shape[1], dtype=torch.float64))
    terms = constant.to(probs.device) - torch.lgamma(probs / bandwidth + 1).sum(dim=1)
    return terms if weights is None else terms + weights.log()


def _products(
    probs: Float[Tensor, "N C"], judges: Int[Tensor, " M"]
) -> Iterator[tuple[slice, Float[Tensor, "n N"]]]:
    """Slices of ``judges``, and the sums over k of p_ik log p_k there for all i except themselves."""
    step = max(1, _CACHED // len(probs))
    for start in range(0, len(judges), step):
        rows = slice(start, min(start + step, len(judges)))
        own = judges[rows]
        products = probs[own].log().clamp(min=_LOG_OF_ZERO) @ probs.t()
        products.scatter_(1, own[:, None], _LOG_OF_ZERO)
        yield rows, products
