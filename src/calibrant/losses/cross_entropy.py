"""Cross-entropy: torch's own, with the arguments common to all losses here."""

from __future__ import annotations

from torch import Tensor

from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._rows import Reduction, as_rows

__all__ = ["CrossEntropyLoss", "cross_entropy_loss"]


@properness("strictly proper (Gibbs' inequality)")
def cross_entropy_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Cross-entropy, the baseline.

    .. math:: \ell = -\log p_t, \qquad p = \mathrm{softmax}(z)

    Computed by ``torch.nn.functional.cross_entropy``; float16 and bfloat16 are computed in float32.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        targets: Distributions over the classes in place of ``labels``, of the shape of ``logits``; the loss
            is then its expectation, :math:`-\sum_k y_k \log p_k`.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: ``"mean"`` divides by the weights of the samples that count (by their number for
            ``targets``), ``"sum"`` adds up, ``"none"`` gives one value per sample, 0 where it does not count.
            The mean of no samples is NaN, as of torch's cross-entropy.

    Returns:
        Scalar in nats, not negative, or the shape of ``labels`` for ``"none"``; the type of ``logits``,
        float32 under autocast.

    Raises:
        InputError: If shapes disagree; values are not read.
        TypeError: If ``labels`` are not integers.
        IndexError: If a label is that of no class. Torch finds it; on a CPU the message names the classes.

    Note:
        Strictly proper. Differentiable any number of times. O(N C) time and memory.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.8, 0.2]]).log()
        >>> round(cross_entropy_loss(logits, torch.tensor([0])).item(), 4)  # -log 0.8
        0.2231
    """
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    return rows.layout.finish(rows.cross_entropy())


class CrossEntropyLoss(LossModule, function=cross_entropy_loss):
    """:func:`cross_entropy_loss` as a module."""
