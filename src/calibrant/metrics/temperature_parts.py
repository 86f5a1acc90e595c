"""A proper score before and after the best temperature: "refine, then calibrate"."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, row_slices
from calibrant._math.checks import Checked, check_choice, check_probs
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.shapes import Float
from calibrant.metrics.score_parts import RefinementDecomposition, Score, refinement_decomposition

__all__ = ["TemperatureDecomposition", "temperature_decomposition"]

LOWEST, HIGHEST = 1e-4, 1e4  # of the temperature
_FLOOR = 1e-12


@dataclass(frozen=True)
class TemperatureDecomposition:
    """A proper score = calibration + refinement, and the temperature that tells them apart."""

    score: Float[Tensor, ""]
    calibration: Float[Tensor, ""]
    refinement: Float[Tensor, ""]
    temperature: float


def temperature_decomposition(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    score: Score = "nll",
    weights: ArrayLike | None = None,
    ignore_index: int | None = None,
) -> TemperatureDecomposition:
    r"""What one temperature takes off a proper score, and what is left.

    .. math:: S(p) = \underbrace{S(p) - S(p_T)}_{\text{calibration}} + \underbrace{S(p_T)}_{\text{refinement}}
              , \qquad p_T \propto p^{1/T}

    with the T in ``[1e-4, 1e4]`` of greatest likelihood on these very samples, for both scores. As
    :func:`~calibrant.metrics.refinement_decomposition`, with the recalibration found here; the other
    arguments and errors are as there. For several labels per sample (and an event) :math:`p^{1/T}` is
    weighed against :math:`(1 - p)^{1/T}`, one T for all.

    ``probs`` are probabilities of shape ``(N, C)`` or ``(N,)``; ``labels`` are classes ``(N,)``, or outcomes
    in {0, 1} of the shape of ``probs``; ``weights`` have shape ``(N,)`` and are not negative; labels
    ``ignore_index`` are left out.

    Returns:
        ``score``, ``calibration`` and ``refinement``, float64 scalars, and the temperature. The calibration
        part of the NLL is never negative, that of the Brier score may be, by little.

    Note:
        One number is fitted to the samples judged, which makes calibration too large by about 1 / (2 N) nats.
        Probabilities below 1e-12 are recalibrated as if they were 1e-12 (the score itself takes them as they
        are). Where every true class is the most probable one T ends at 0.01. O(N C) time per step of Newton's
        method. Not differentiable.

    References:
        Berta, Holzmüller, Jordan and Bach, "Rethinking Early Stopping: Refine, Then Calibrate", 2025.

    Example:
        >>> import torch
        >>> parts = temperature_decomposition(torch.tensor([0.9, 0.9, 0.9, 0.9]), torch.tensor([1, 1, 1, 0]))
        >>> round(parts.temperature, 6), round(parts.refinement.item(), 6)  # log 9 / log 3, entropy of 3/4
        (2.0, 0.562335)
    """
    checked = check_probs(probs, labels, weights, ignore_index=ignore_index)
    check_choice("score", score, ("brier", "nll"))
    temperature = 1 / convex_minimum(lambda beta: _slopes(checked, beta), 1 / HIGHEST, 1 / LOWEST)
    after = torch.empty(checked.scores.shape, dtype=torch.float64, device=checked.scores.device)
    for rows in row_slices(checked.scores):
        scaled = _log_table(checked, rows) / temperature
        table = torch.softmax(scaled, dim=-1)
        after[rows] = table if checked.task == "multiclass" else table[..., 1]
    parts: RefinementDecomposition = refinement_decomposition(
        checked.scores, after, checked.target, score=score, weights=checked.weights
    )
    return TemperatureDecomposition(parts.score, parts.calibration, parts.refinement, temperature)


def _log_table(checked: Checked, rows: slice) -> Tensor:
    """Floored log-probabilities of some rows: of the classes, or of no and yes for each event."""
    probs = checked.scores[rows].to(torch.float64)
    if checked.task != "multiclass":
        probs = torch.stack([1 - probs, probs], dim=-1)
    return probs.clamp(min=_FLOOR).log()


def _slopes(checked: Checked, beta: float) -> tuple[float, float]:
    """Derivatives of the mean NLL by 1 / T: expectation less what happened, and variance, of log p."""
    first = second = total = 0.0
    for rows in row_slices(checked.scores):
        logs, labels = _log_table(checked, rows), checked.target[rows]
        table = torch.softmax(beta * logs, dim=-1)
        mean = (table * logs).sum(dim=-1)
        variance = (table * (logs - mean[..., None]).square()).sum(dim=-1)
        excess = mean - logs.gather(-1, labels[..., None])[..., 0]
        share = torch.ones(len(logs), dtype=torch.float64, device=logs.device)
        if checked.weights is not None:
            share = checked.weights[rows]
        if excess.ndim == 2:
            share = share[:, None].expand_as(excess)
        first += float((share * excess).sum())
        second += float((share * variance).sum())
        total += float(share.sum())
    return first / total, second / total
