"""Judging a calibrator on samples it was not fitted on: folds, held-out losses, over-correction."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, nll_loss

from calibrant._math.checks import Task
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.folds import out_of_fold
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.fitting.data import CalibrationData

NOISE = 2.0  # standard errors


def fold_numbers(
    ranking: Float[Tensor, " N"], outcomes: Tensor, num_folds: int, seed: int = 0
) -> Int[Tensor, " N"]:
    """The fold of each sample: every run of equally many in order of ``ranking`` is dealt out at random.

    So each fold has confidences of all sizes, and the order of the rows is immaterial.
    """
    order = torch.argsort(outcomes.to(torch.float64), stable=True)
    order = order[torch.argsort(ranking[order], stable=True)]
    generator = torch.Generator().manual_seed(seed)
    num_runs = -(-len(order) // num_folds)
    dealt = torch.rand(num_runs, num_folds, generator=generator).argsort(dim=1).reshape(-1)[: len(order)]
    folds = torch.empty_like(order)
    folds[order] = dealt.to(order.device)
    return folds


def folds_of_alike(
    confidences: Float[Tensor, " N"], labels: Tensor, num_folds: int
) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"]]:
    """The fold of each sample, and its kind: those of one confidence and label are held out together."""
    rows = torch.stack([confidences, labels.to(confidences)], dim=1)
    kinds, kind = torch.unique(rows, dim=0, return_inverse=True)
    return fold_numbers(kinds[:, 0], kinds[:, 1], num_folds)[kind], kind


def cluster_folds(codes: Int[Tensor, " N"], num_folds: int, seed: int = 0) -> Int[Tensor, " N"]:
    """The fold of each sample, where clusters stay together: the largest first, each to the smallest fold."""
    sizes = torch.bincount(codes)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    folds, filled = torch.empty_like(sizes), torch.zeros(num_folds)
    for cluster in order[torch.argsort(-sizes[order], stable=True)].tolist():
        folds[cluster] = filled.argmin()
        filled[folds[cluster]] += sizes[cluster]
    return folds[codes]


def check_folds(folds: int, num_samples: int, *, default: int = 0) -> None:
    """Refuse numbers of folds that leave some fold with fewer than two samples.

    ``default`` is what the caller takes where nothing is said; 0 for no folds.
    """
    if num_samples < 4:
        raise InputError(f"there must be at least 4 samples to cut into folds; got {num_samples}.")
    if folds < 2 or folds > num_samples // 2:
        none, else_ = ("", f" (it is {default} where it is not given)") if default else ("0, or ", "")
        raise InputError(
            f"`folds` must be {none}from 2 to {num_samples // 2}, half the number of samples{else_}; "
            f"got {folds}."
        )


def held_out(
    data: CalibrationData, refitted: Callable[[CalibrationData, Tensor], Tensor], *, folds: int, seed: int
) -> dict[str, float]:
    """What calibrators fitted on the other folds say of each sample: log-loss, confidence, accuracy.

    ``excess`` is by how many standard errors accuracy lies above confidence, and ``excess_before`` the same
    of the scores as they came. ``refitted`` fits to some samples and maps the scores of others.
    """
    check_folds(folds, len(data.scores))
    confidence_before, correct_before = _confidence(data.scores, data.labels, data.kind)
    numbers = fold_numbers(confidence_before, correct_before, folds, seed)

    def judged(inside: Tensor) -> Tensor:
        calibrated = refitted(data.part(~inside), data.scores[inside].to(torch.float64))
        labels = data.labels[inside]
        losses = log_losses(calibrated, labels, data.kind)
        return torch.stack([losses, *_confidence(calibrated, labels, data.kind)], dim=1)

    with without_warnings():
        losses, confidence, correct = out_of_fold(numbers, judged).unbind(dim=1)
    weights = torch.ones_like(confidence_before) if data.weights is None else data.weights
    shares = weights / weights.sum()
    found = {
        "log_loss": float(losses @ shares),
        "confidence": float(confidence @ shares),
        "accuracy": float(correct @ shares),
        "excess": _in_standard_errors(correct - confidence, shares),
        "excess_before": _in_standard_errors(correct_before - confidence_before, shares),
    }
    return {name: value for name, value in found.items() if math.isfinite(value)}


def over_correction(found: dict[str, float]) -> str | None:
    """What to say where over-confidence has become under-confidence beyond noise."""
    excess = found.get("excess", 0.0)
    if excess <= NOISE or found.get("excess_before", 0.0) >= 0:
        return None
    return (
        f"it over-corrects: on held-out folds it says {found['confidence']:.1%} and is right "
        f"{found['accuracy']:.1%} of the time, {excess:.1f} standard errors more"
    )


def mean_and_error(
    values: Float[Tensor, " N"], shares: Float[Tensor, " N"], alike: Int[Tensor, " N"] | None = None
) -> tuple[float, float]:
    """Weighted mean, and its standard error, for which those alike count as one sample."""
    mean = float(values @ shares)
    away = (values - mean) * shares
    return mean, float((away if alike is None else torch.bincount(alike, away)).square().sum().sqrt())


def _in_standard_errors(values: Tensor, shares: Tensor) -> float:
    mean, error = mean_and_error(values, shares)
    return mean / error if error > 0 else 0.0


def log_losses(calibrated: Tensor, labels: Tensor, kind: Task) -> Float[Tensor, " N"]:
    """Log-loss of each sample, from log-probabilities or log-odds; the mean over several labels."""
    if kind == "multiclass":
        return nll_loss(calibrated, labels, reduction="none")
    return _by_row(-logsigmoid(torch.where(labels == 1, calibrated, -calibrated)))


def _confidence(
    scores: Tensor, labels: Tensor, kind: Task
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Probability of the likelier class, and whether it is right; of several labels the means."""
    wide = scores.to(torch.float64)
    if kind == "multiclass":
        confidence, top = wide.softmax(dim=1).max(dim=1)
        return confidence, (top == labels).to(torch.float64)
    right = ((wide > 0) == (labels == 1)).to(torch.float64)
    return _by_row(wide.abs().sigmoid()), _by_row(right)


def _by_row(values: Tensor) -> Tensor:
    return values.mean(dim=1) if values.ndim == 2 else values
