"""Area under the ROC curve."""

from __future__ import annotations

import warnings
from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, check_probs
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.shapes import Bool, Float
from calibrant._math.text_form import suggesting
from calibrant.metrics._common import check_average, columns

__all__ = ["auroc"]


@overload
def auroc(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Literal["macro"] = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""]: ...
@overload
def auroc(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Literal["none"],
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> tuple[Float[Tensor, ""] | None, ...]: ...
@suggesting()
def auroc(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    average: Literal["macro", "none"] = "macro",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> Float[Tensor, ""] | tuple[Float[Tensor, ""] | None, ...]:
    r"""Area under the ROC curve: of an event, of each label, or of each class against all others.

    .. math:: \mathrm{AUROC} = P(p^+ > p^-) + \tfrac12 P(p^+ = p^-)

    for a random positive and a random negative sample: ties count one half.

    It is undefined for a class that no sample, or every sample, belongs to. Such a class is left out of the
    mean, and a :class:`~calibrant.CalibrantWarning` says so; with ``average="none"`` its place is ``None``.

    Args:
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: Classes ``(N,)``, or outcomes in {0, 1} of the shape of ``probs``.
        average: ``"macro"`` for the unweighted mean over classes or labels, ``"none"`` for one value each.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        ignore_index: Samples or positions with this label are left out.

    Returns:
        Scalar float64 in ``[0, 1]``; for ``average="none"`` a tuple of ``C``, each such a scalar or ``None``.

    Raises:
        InputError: If shapes disagree, a value is not finite or out of range, or no class has both positive
            and negative samples.

    Note:
        Measures only the ranking, not calibration. O(C N log N).

    References:
        Hanley and McNeil, "The Meaning and Use of the Area under a Receiver Operating Characteristic (ROC)
        Curve", Radiology 143, 1982.

    Example:
        >>> import torch
        >>> auroc(torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1])).item()
        0.875
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_average(average, checked, per_class=True)
    each = areas(checked)
    if average == "none":
        return tuple(each)
    defined = [value for value in each if value is not None]
    if not defined:
        raise InputError(
            "`labels` must hold a positive and a negative sample of some class; else AUROC is undefined."
        )
    if len(defined) < len(each):
        missing = [str(k) for k, value in enumerate(each) if value is None]
        listed = ", ".join(missing[:10]) + (", ..." if len(missing) > 10 else "")
        warnings.warn(
            f"AUROC omits {len(missing)} of {len(each)} classes that never or always occur ({listed}).",
            CalibrantWarning,
            stacklevel=2,
        )
    return torch.stack(defined).mean()


def areas(checked: Checked) -> list[Float[Tensor, ""] | None]:
    """Area of the single event, or of every column; ``None`` if undefined."""
    return [_area(p, y, checked.weights) for p, y in columns(checked)]


def _area(
    scores: Float[Tensor, " N"], positive: Bool[Tensor, " N"], weights: Float[Tensor, " N"] | None
) -> Float[Tensor, ""] | None:
    if 2 * int(positive.sum()) > len(positive):  # look up the smaller group, which also loses fewer digits
        mirrored = _area(scores, ~positive, weights)
        return None if mirrored is None else 1 - mirrored
    chosen = positive.nonzero()[:, 0]
    own = torch.ones(len(chosen), dtype=torch.float64, device=scores.device)
    ranked, below = _ranked(scores, weights)
    if weights is not None:
        own = weights[chosen]
    pairs = own.sum() * (below[-1] - own.sum())
    if not bool(pairs > 0):
        return None
    values = scores[chosen].to(ranked.dtype)
    worse = below[torch.searchsorted(ranked, values)] + below[torch.searchsorted(ranked, values, right=True)]
    # Pairs of two positives add own.sum() ** 2 to the doubled count, in any order.
    return ((own * worse).sum() - own.sum().square()) / (2 * pairs)


def _ranked(scores: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Scores in ascending order, and the weight below each place among them."""
    if weights is not None:
        ranked, order = scores.to(torch.float64).sort()
        return ranked, torch.cat([weights.new_zeros(1), weights[order].cumsum(dim=0)])
    if scores.dtype not in {torch.float32, torch.float64}:
        scores = scores.to(torch.float32)
    if scores.device.type == "cpu":  # numpy sorts plain values several times faster than torch
        ranked = torch.from_numpy(np.sort(scores.numpy()))
    else:
        ranked = scores.sort().values
    return ranked, torch.arange(len(ranked) + 1, dtype=torch.float64, device=ranked.device)
