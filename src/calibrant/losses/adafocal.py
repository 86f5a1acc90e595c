"""AdaFocal: an exponent per confidence bin, adapted to the miscalibration on validation data."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from calibrant._math.binning import mukhoti_bin_sums
from calibrant._math.checks import check_at_least, check_is_number
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Integer, Shaped
from calibrant.losses._module import LossModule, properness
from calibrant.losses._row_loss import Steps, Terms, row_loss
from calibrant.losses._rows import Reduction, as_rows

__all__ = ["AdaFocalLoss", "adafocal_loss", "updated_gammas"]


@properness("as it starts: focal with γ = 1")
def adafocal_loss(
    logits: Float[Tensor, "N C *d"] | Float[Tensor, " C"],
    labels: Integer[Tensor, " N *d"] | Integer[Tensor, ""] | None = None,
    *,
    gammas: Float[Tensor, " B"],
    edges: Float[Tensor, " B+1"],
    targets: Float[Tensor, "N C *d"] | Float[Tensor, " C"] | None = None,
    weight: Float[Tensor, " C"] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Float[Tensor, ""] | Float[Tensor, " N *d"]:
    r"""AdaFocal's loss for given bins: focal if the exponent is positive, inverse focal if negative.

    .. math:: \ell = -(1 - p_t)^{\gamma} \log p_t \ \text{ if } \gamma \ge 0, \qquad
              \ell = -(1 + p_t)^{|\gamma|} \log p_t \ \text{ if } \gamma < 0, \qquad \gamma = \gamma_b(p_t)

    The true class's probability :math:`p_t` is in bin b if ``edges[b] <= p_t < edges[b + 1]``; the first and
    the last bin take what lies outside. Exponents carry no gradient.

    Args:
        logits: Scores, shape ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``.
        labels: True classes, integers of shape ``(N,)``, ``(N, d1, ...)`` or ``()``.
        gammas: Exponent of each bin, of either sign, shape ``(B,)``.
        edges: Ends of the bins, ascending, shape ``(B + 1,)``.
        targets: Distributions over the classes in place of ``labels``; the loss is then its expectation.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`focal_loss`.

    Returns:
        Scalar, not negative, or the shape of ``labels`` for ``"none"``; type as in :func:`focal_loss`.

    Raises:
        InputError: If shapes disagree.
        TypeError: If ``labels`` are not integers.

    Note:
        Not continuous at the edges; elsewhere differentiable any number of times. Costs as
        :func:`focal_loss`, and O(N B) for the bins.

    References:
        Ghosh, Schaaf and Gormley, "AdaFocal: Calibration-aware Adaptive Focal Loss", NeurIPS 2022.

    Example:
        >>> import torch
        >>> gammas, edges = torch.tensor([2.0, -1.0]), torch.tensor([0.0, 0.5, 1.0])
        >>> logits = torch.tensor([[0.2, 0.8], [0.8, 0.2]]).log()
        >>> values = adafocal_loss(logits, torch.tensor([0, 0]), gammas=gammas, edges=edges, reduction="none")
        >>> [round(value, 4) for value in values.tolist()]  # 0.8 ** 2 * -log 0.2, 1.8 * -log 0.8
        [1.03, 0.4017]
    """
    if gammas.ndim != 1 or edges.shape != (len(gammas) + 1,):
        raise InputError(
            "`edges` must be one more than `gammas`; "
            f"got shapes {tuple(edges.shape)} and {tuple(gammas.shape)}."
        )
    rows = as_rows(logits, labels, targets, weight, ignore_index, reduction)
    return row_loss(rows, Terms(Steps(gammas, edges[1:-1])))


def updated_gammas(
    gammas: Float[Tensor, " B"],
    gaps: Float[Tensor, " B"],
    *,
    rate: float = 1.0,
    switch: float = 0.2,
    lowest: float = -2.0,
    highest: float = 20.0,
) -> Float[Tensor, " B"]:
    r"""AdaFocal's exponents, updated by the gaps (mean confidence minus accuracy) of the bins.

    .. math:: \gamma' = \gamma e^{\mathrm{sign}(\gamma) \lambda\, \mathrm{gap}}

    so that over-confidence moves an exponent up and under-confidence down; one whose size falls below
    ``switch`` changes sides to ``switch`` with the other sign (focal to inverse focal and back). The result
    is clipped to ``[lowest, highest]``.

    Args:
        gammas: Exponent of each bin, shape ``(B,)``.
        gaps: Mean confidence minus accuracy of each bin, 0 if empty, shape ``(B,)``.
        rate: :math:`\lambda`.
        switch: Size below which an exponent changes sides.
        lowest: Lower bound.
        highest: Upper bound.

    Returns:
        The new exponents, shape ``(B,)``.

    References:
        Ghosh, Schaaf and Gormley, "AdaFocal: Calibration-aware Adaptive Focal Loss", NeurIPS 2022.

    Example:
        >>> import torch
        >>> updated_gammas(torch.tensor([1.0, 0.21, -0.21]), torch.tensor([0.0, -0.1, 0.1])).tolist()
        [1.0, -0.2..., 0.2...]
    """
    moved = gammas * torch.where(gammas > 0, rate * gaps, -rate * gaps).exp()
    switched = torch.where(moved > 0, -switch, torch.full_like(moved, switch))
    return torch.where(moved.abs() < switch, switched, moved).clamp(lowest, highest)


class _Bins(nn.Module):
    gammas: Tensor
    edges: Tensor


def _check(*, num_bins: int, initial_gamma: float, **_rest: float) -> None:
    check_is_number("initial_gamma", initial_gamma)
    if not math.isfinite(initial_gamma):
        raise InputError(f"`initial_gamma` must be finite; got {initial_gamma}.")
    check_at_least("num_bins", num_bins, 1)


class AdaFocalLoss(_Bins, LossModule, function=adafocal_loss, check=_check):
    """:func:`adafocal_loss` as a module, with its bins; call :meth:`update` after each epoch.

    It starts as focal loss with ``initial_gamma`` everywhere, in bins of equal width. Exponents and edges are
    buffers: they survive ``state_dict`` and move with the module.

    Args:
        num_bins: Number of bins.
        initial_gamma: Exponent of every bin before the first update, of either sign.
        rate: Speed at which exponents follow the gaps; see :func:`updated_gammas`.
        switch: Size below which an exponent changes sides.
        lowest: Lower bound of the exponents.
        highest: Upper bound of the exponents.
        weight: Weight of each class, shape ``(C,)``.
        ignore_index: Label of samples that do not count.
        reduction: See :func:`adafocal_loss`.
    """

    num_bins: int = 15
    initial_gamma: float = 1.0
    rate: float = 1.0
    switch: float = 0.2
    lowest: float = -2.0
    highest: float = 20.0

    def _start(self) -> None:
        gammas = torch.full((self.num_bins,), float(self.initial_gamma), dtype=torch.float64)
        self.register_buffer("gammas", gammas)
        self.register_buffer("edges", torch.linspace(0, 1, self.num_bins + 1, dtype=torch.float64))

    @torch.no_grad()
    def update(self, confidences: Float[Tensor, " N"], correct: Shaped[Tensor, " N"]) -> None:
        """Update the exponents by a validation set's gaps, and the edges to its quantiles.

        Args:
            confidences: Probability of the predicted class for each sample, shape ``(N,)``.
            correct: Correctness of the predictions, shape ``(N,)``, booleans or 0 and 1.

        Raises:
            InputError: If the shapes disagree, there are no samples, or a value is out of range.

        Note:
            Edges are the interpolated quantiles of the reference's code (``binning="mukhoti"``), which lose
            the lowest confidence; it does not move an exponent.
        """
        if confidences.ndim != 1 or confidences.shape != correct.shape or len(confidences) == 0:
            raise InputError(
                "`confidences` and `correct` must have the same shape (N,) with N >= 1; "
                f"got {tuple(confidences.shape)} and {tuple(correct.shape)}."
            )
        if ((confidences < 0) | (confidences > 1 + 1e-3)).any() or ((correct != 0) & (correct != 1)).any():
            raise InputError("`confidences` must be probabilities, and `correct` booleans or 0 and 1.")
        bins = mukhoti_bin_sums(confidences.double(), correct.double(), self.num_bins)
        gaps = (bins.confidences - bins.outcomes) / bins.counts.clamp(min=1)
        settings = {name: getattr(self, name) for name in ("rate", "switch", "lowest", "highest")}
        moved = updated_gammas(self.gammas, gaps.to(self.gammas), **settings)
        # In place: others hold these buffers (DDP, compiled code, EMA copies).
        self.gammas.copy_(moved)
        self.edges.copy_(bins.edges)
