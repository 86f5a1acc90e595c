"""Focal loss with an exponent that depends on the sample's own probability, and which exponent suits one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, overload

import torch
from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Integer
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Steps, Terms, row_loss
from calibrant.losses._rows import Reduction, as_rows, check_number

__all__ = ["SampleFocalLoss", "optimal_gamma", "sample_focal_loss"]

Closed: TypeAlias = Literal["left", "right"]


@properness("focal with an exponent that jumps")
def sample_focal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    thresholds: Sequence[float] = (0.2, 1.0),
    gammas: Sequence[float] = (5.0, 3.0),
    closed: Closed = "left",
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""Sample-dependent focal loss (FLSD): an exponent for each range of the true class's probability.

    .. math:: \ell = -(1 - p_t)^{\gamma(p_t)} \log p_t

    ``gammas[i]`` holds from ``thresholds[i - 1]`` (0 for the first) to ``thresholds[i]``. With
    ``closed="left"`` a probability that equals a threshold belongs to the range above it, with ``"right"`` to
    the range below. The exponent is taken from the current :math:`p_t` and carries no gradient.

    * FLSD-53 as in the authors' code, the default: 5 for :math:`p_t < 0.2`, else 3.
    * FLSD-53 as in the text of 2020: ``thresholds=(0.19, 1.0), closed="right"``.
    * FLSD-532: ``thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2)``.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        thresholds: Upper ends of the ranges, ascending; the last one is 1.
        gammas: Exponents of the ranges, not negative.
        closed: At which end the ranges include their threshold.
        targets: Distributions over the classes in place of ``labels``; the loss is then its expectation.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree, or thresholds and exponents do not fit together.
        TypeError: If ``labels`` are not integers.

    Note:
        Not continuous at the thresholds; elsewhere differentiable any number of times. Costs as
        :func:`focal_loss`. :func:`optimal_gamma` relates a threshold to an exponent.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020, section 5; and
        "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks", 2020 (threshold
        0.19).

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.1, 0.9], [0.8, 0.2]]).log()
        >>> values = sample_focal_loss(logits, torch.tensor([0, 0]), reduction="none")
        >>> [round(value, 5) for value in values.tolist()]  # 0.9 ** 5 * -log 0.1, 0.2 ** 3 * -log 0.8
        [1.35965, 0.00179]
    """
    _check(thresholds=thresholds, gammas=gammas, closed=closed)
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    return row_loss(rows, Terms(Steps(gammas, thresholds[:-1], closed == "right")))


def _check(*, thresholds: Sequence[float], gammas: Sequence[float], closed: str) -> None:
    for gamma in gammas:
        check_number("gammas", gamma)
    if not gammas or len(gammas) != len(thresholds):
        raise InputError(
            "`gammas` and `thresholds` must have the same length, at least 1; "
            f"got {len(gammas)} and {len(thresholds)}."
        )
    ends = [0.0, *thresholds]
    if thresholds[-1] != 1 or any(later <= earlier for earlier, later in pairwise(ends)):
        raise InputError(f"`thresholds` must ascend from above 0 to 1; got {tuple(thresholds)}.")
    check_choice("closed", closed, ("left", "right"))


class SampleFocalLoss(LossModule, function=sample_focal_loss, check=_check):
    """:func:`sample_focal_loss` as a module."""

    thresholds: Sequence[float] = (0.2, 1.0)
    gammas: Sequence[float] = (5.0, 3.0)
    closed: Closed = "left"

    def _start(self) -> None:
        self.thresholds, self.gammas = tuple(self.thresholds), tuple(self.gammas)


@overload
def optimal_gamma(p0: float) -> float: ...
@overload
def optimal_gamma(p0: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]: ...
def optimal_gamma(p0: float | Float[Tensor, "*N"]) -> float | Float[Tensor, "*N"]:
    r"""Exponent :math:`\gamma^*(p_0)` at which focal loss starts to push less than cross-entropy.

    Focal loss's gradient is cross-entropy's times :math:`g(p, \gamma) = (1-p)^\gamma (1 + \gamma R)`,
    :math:`R = -p \log p / (1-p)`. With :math:`\gamma = \gamma^*(p_0)` it is larger below :math:`p_0`, equal
    at :math:`p_0`, and smaller above. With :math:`x = \gamma R` and :math:`\kappa = -\log(1-p_0) / R` the
    condition :math:`g = 1` reads :math:`\log(1 + x) = \kappa x`, and so

    .. math:: \gamma^*(p_0) = -\frac1R \Big( 1 + \frac1\kappa W_{-1}\big( -\kappa e^{-\kappa} \big) \Big),

    which is the reference's formula in other letters. The principal branch :math:`W_0` gives the root
    :math:`\gamma = 0` here; from :math:`p_0 = 1/2` on the branches change roles, every exponent pushes less
    than cross-entropy, and :math:`\gamma^* = 0`.

    Args:
        p0: Probability of the true class, in (0, 1); a number or a tensor of any shape.

    Returns:
        The exponent, not negative: a float for a number, float64 of the shape of ``p0`` for a tensor. NaN
        outside (0, 1).

    Note:
        FLSD-53's round numbers are close: g is 0.987 at (0.2, 5) and 1.007 at (0.25, 3). No gradient.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020, Proposition 2.

    Example:
        >>> round(optimal_gamma(0.25), 4), optimal_gamma(0.5)
        (3.0702, 0.0)
    """
    if not isinstance(p0, Tensor):
        return optimal_gamma(torch.tensor(p0, dtype=torch.float64)).item()
    from scipy.special import lambertw

    probs = p0.detach().double()
    ratio = -probs * probs.log() / (1 - probs)
    kappa = -(-probs).log1p() / ratio
    lower = lambertw((-kappa * (-kappa).exp()).cpu().numpy(), -1).real
    scaled = -1 - torch.as_tensor(lower).to(kappa) / kappa
    # W has half its digits near 1/2. Newton's step for log(1 + x) = kappa x gives them back ...
    scaled = scaled - (scaled.log1p() - kappa * scaled) / (1 / (1 + scaled) - kappa)
    # ... until that root meets the one at zero; there its series in 1 - kappa.
    rest = 1 - kappa
    series = rest * (2 + rest * (8 / 3 + rest * (28 / 9 + rest * (464 / 135))))
    scaled = torch.where(rest < 1e-3, series, scaled)
    gammas = torch.where(probs < 0.5, (scaled / ratio).clamp(min=0), 0.0)
    return torch.where((probs > 0) & (probs < 1), gammas, torch.nan)
