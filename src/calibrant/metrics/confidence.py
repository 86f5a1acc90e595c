"""How many predictions are made with high confidence, and how many of those are right."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs, check_share
from calibrant._math.scores import top_label, weighted_mean
from calibrant._math.shapes import Float
from calibrant.metrics._common import columns

__all__ = ["HighConfidence", "high_confidence"]


@dataclass(frozen=True)
class HighConfidence:
    """Share of confident predictions and their accuracy; ``None`` where there are none."""

    share: Float[Tensor, ""]
    accuracy: Float[Tensor, ""] | None


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
