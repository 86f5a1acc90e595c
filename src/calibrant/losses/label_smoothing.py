"""Cross-entropy with smoothed labels."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import compiled_loss
from calibrant.losses._rows import Reduction, Rows, allowed_classes, as_rows, check_number

__all__ = ["LabelSmoothingLoss", "label_smoothing_loss"]

Spread: TypeAlias = Literal["all", "others"]


@properness("elicits (1 − α) p + α / C")
def label_smoothing_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    smoothing: float = 0.05,
    spread: Spread = "all",
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Cross-entropy against labels smoothed by a share :math:`\alpha` = ``smoothing``.

    .. math:: \ell = -\sum_k y_k \log p_k

    With ``spread="all"`` (Szegedy et al., torch) the part goes to all classes equally,
    :math:`y = (1 - \alpha) 1[k = t] + \alpha / C`; with ``"others"`` to the wrong ones only,
    :math:`y_t = 1 - \alpha` and :math:`\alpha / (C - 1)` elsewhere. Classes masked by a logit of -inf get no
    part of it, and C counts the others.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        smoothing: The part given away, in ``[0, 1]`` (for ``"others"`` at most ``(C - 1) / C``); 0 is
            cross-entropy.
        spread: To which classes.
        targets: Distributions over the classes in place of ``labels``, smoothed equally.
        weight: Weight of each class, shape ``(C,)``; it applies to each class's part of the label.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree or ``smoothing`` is out of range.
        TypeError: If ``labels`` are not integers.

    Note:
        Not proper: its minimum is at the smoothed distribution. Differentiable any number of times. O(N C)
        time and memory.

    References:
        Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.2]]).log()
        >>> loss = label_smoothing_loss(logits, torch.tensor([0]), smoothing=0.1)  # y = (0.95, 0.05)
        >>> round(loss.item(), 4)
        0.2925
    """
    _check(smoothing=smoothing, spread=spread)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    num_classes = rows.logits.shape[1]
    if spread == "others" and smoothing > (num_classes - 1) / num_classes:
        raise InputError(
            f"`smoothing` must be at most (C - 1) / C = {(num_classes - 1) / num_classes:.4g} "
            f"to go to the other classes; got {smoothing}."
        )
    if smoothing == 0:
        return rows.layout.finish(rows.cross_entropy())
    plain = partial(_plain, smoothing, spread)
    if rows.weight is not None:  # each class's part of the label has its own
        return plain(rows)
    return compiled_loss(rows, plain, smoothing=smoothing, spread_to_all=spread == "all")


def _plain(smoothing: float, spread: Spread, rows: Rows) -> Tensor:
    allowed = allowed_classes(rows.logits)
    count = allowed.sum(-1, dtype=rows.logits.dtype)  # (R,)
    share, part = smoothing / count, torch.full_like(count, smoothing)
    if spread == "others":
        # Giving a part to all classes leaves part / C with the true one.
        share = smoothing / (count - 1).clamp(min=1)
        part = share * count
    if rows.soft:
        smoothed = (1 - part).unsqueeze(-1) * rows.labels + share.unsqueeze(-1) * allowed
        return rows.layout.finish(rows._replace(labels=smoothed).cross_entropy())
    log_probs = torch.log_softmax(rows.logits, -1)
    given = log_probs.masked_fill(~allowed, 0)
    if rows.weight is not None:
        given = given * rows.weight
    kept = (1 - part) * rows.weights() * -rows.of_true_class(log_probs)
    return rows.reduce(kept - share * given.sum(-1), weighted=True)


def _check(*, smoothing: float, spread: str) -> None:
    check_number("smoothing", smoothing, at_most=1)
    check_choice("spread", spread, ("all", "others"))


class LabelSmoothingLoss(LossModule, function=label_smoothing_loss, check=_check):
    """:func:`label_smoothing_loss` as a module."""

    smoothing: float = 0.05
    spread: Spread = "all"
