"""Entropy of the predictions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_choice, check_probs
from calibrant._math.errors import InputError
from calibrant._math.scores import entropies, hits, weighted_mean
from calibrant._math.shapes import Float
from calibrant.metrics._common import columns

__all__ = ["predictive_entropy"]


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
        among: Which samples to average over: all, or those whose most probable class is the true one
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
    """Entropy and correctness of every decision; several labels per sample one after the other."""
    if checked.task != "multilabel":
        values = entropies(checked.scores, events=checked.task == "binary")
        return values, hits(checked.scores, checked.target)
    each = list(columns(checked))
    return (torch.cat([entropies(p, events=True) for p, _ in each]), torch.cat([hits(p, y) for p, y in each]))
