"""Means over the samples: proper scores, accuracy, confident predictions and entropy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_choice, check_probs, check_share
from calibrant._math.errors import InputError
from calibrant._math.scores import (
    brier_scores,
    entropies,
    hits,
    misses,
    negative_log_likelihoods,
    top_label,
    weighted_mean,
)
from calibrant._math.shapes import Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import Average, columns, mean_score

__all__ = [
    "HighConfidence",
    "accuracy",
    "brier_score",
    "error_rate",
    "high_confidence",
    "negative_log_likelihood",
    "predictive_entropy",
]


@suggesting()
def negative_log_likelihood(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Mean negative log-likelihood (log loss, cross-entropy) in nats.

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


@suggesting()
def brier_score(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Average = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | Float[Tensor, " C"]:
    r"""Mean squared distance between the probabilities and the outcomes.

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


@suggesting()
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
        average: If samples have several labels: ``"macro"`` for the mean over the labels (one minus the
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


@suggesting()
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


@dataclass(frozen=True)
class HighConfidence:
    """Share of confident predictions and their accuracy; ``None`` without any."""

    share: Float[Tensor, ""]
    accuracy: Float[Tensor, ""] | None


@suggesting()
def high_confidence(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    threshold: float = 0.99,
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> HighConfidence:
    r"""Share and accuracy of the predictions whose confidence is at least ``threshold``.

    .. math:: S = \{ i : \max_k p_{ik} \ge t \}, \qquad \frac{|S|}{N}, \qquad \mathrm{acc}(S)

    The confidence of an event ``(N,)`` is ``max(p, 1 - p)``. With several labels per sample, each decision
    (sample and label) counts as one event.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        threshold: The least confidence that counts, in ``[0, 1]``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        ``share``, a scalar float64 in ``[0, 1]``, and ``accuracy``, likewise, or ``None`` where no sample of
        positive weight is that confident.

    Raises:
        InputError: If shapes disagree, or a value is not finite or out of range.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020 (S99).

    Example:
        >>> import torch
        >>> found = high_confidence(torch.tensor([0.995, 0.5, 0.001, 0.7]), torch.tensor([1, 0, 1, 1]))
        >>> found.share.item(), found.accuracy.item()
        (0.5, 0.5)
        >>> high_confidence(torch.tensor([0.5]), torch.tensor([1])).accuracy is None
        True
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_share("threshold", threshold)
    several = checked.task == "multilabel"
    problems = list(columns(checked)) if several else [(checked.scores, checked.target)]
    tops = [top_label(p, y) for p, y in problems]
    confident = torch.cat([top.confidence >= threshold for top in tops]).to(torch.float64)
    correct = torch.cat([top.correct for top in tops])
    all_weights = None if checked.weights is None else checked.weights.repeat(len(tops))
    counted = confident if all_weights is None else confident * all_weights
    return HighConfidence(
        share=weighted_mean(confident, all_weights),
        accuracy=weighted_mean(correct, counted) if bool((counted > 0).any()) else None,
    )


@suggesting()
def predictive_entropy(
    probs: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    among: Literal["all", "correct", "incorrect"] = "all",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""]:
    r"""Mean entropy of the predicted distributions, in nats.

    .. math:: \bar H = -\frac{1}{N} \sum_i \sum_k p_{ik} \log p_{ik}, \qquad 0 \log 0 = 0

    An event ``(N,)`` has the entropy of ``(1 - p, p)``. With several labels per sample, each decision (sample
    and label) counts as one event.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``. Needed to tell correct from
            incorrect, and to tell several labels per sample from classes.
        among: Samples to average over: all, or those whose most probable class is the true one
            (``"correct"``) or is not (``"incorrect"``).
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, log C]`` (``[0, log 2]`` for events).

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, an option does not exist, or no
            sample of positive weight is of the kind asked for.

    Note:
        Overconfident models have a low entropy among the incorrect.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020, section 4.

    Example:
        >>> import torch
        >>> probs, labels = torch.tensor([[0.5, 0.5], [1.0, 0.0]]), torch.tensor([1, 0])
        >>> round(predictive_entropy(probs).item(), 4)
        0.3466
        >>> round(predictive_entropy(probs, labels, among="incorrect").item(), 4)
        0.6931
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("among", among, ("all", "correct", "incorrect"))
    if among == "all":
        events = checked.task != "multiclass"
        return weighted_mean(entropies(checked.scores, events=events), checked.weights)
    values, right = _decisions(checked)
    share = right if among == "correct" else 1 - right
    if checked.weights is not None:
        share = share * checked.weights.repeat(len(share) // checked.num_samples)
    if not bool((share > 0).any()):
        raise InputError(f"no sample is {among}, so there is no entropy among the {among}.")
    return weighted_mean(values, share)


def _decisions(checked: Checked) -> tuple[Tensor, Tensor]:
    if checked.task != "multilabel":
        values = entropies(checked.scores, events=checked.task == "binary")
        return values, hits(checked.scores, checked.target)
    each = list(columns(checked))
    return (torch.cat([entropies(p, events=True) for p, _ in each]), torch.cat([hits(p, y) for p, y in each]))
