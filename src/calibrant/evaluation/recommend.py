"""Which arm to use, decided on the calibration samples alone and never by the calibration error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from calibrant.calibrators.base import floor_zero_probabilities
from calibrant.evaluation.arms import FIT_FAILURES, Labelled, Template
from calibrant.evaluation.ranking import standard_error
from calibrant.evaluation.resampling import Vector
from calibrant.evaluation.split import NUM_FOLDS, stratified_folds
from calibrant.evaluation.streams import Stream, generator
from calibrant.predictions import Predictions

UNCALIBRATED = "uncalibrated"
MOST_ELEMENTS = 1 << 21  # of scores used for the choice: 21 000 samples of 100 classes


@dataclass(frozen=True)
class Contender:
    """One arm in the cross-validation."""

    name: str
    nll: float
    behind: float
    """How far its NLL lies above the best one's."""
    standard_error: float
    """Of that difference, over the samples."""


@dataclass(frozen=True)
class Recommendation:
    """The choice and what it was made from, simplest arm first."""

    name: str
    contenders: tuple[Contender, ...]
    num_samples: int


def recommend(fitted: Sequence[tuple[Template, int]], calibration: Predictions, seed: int) -> Recommendation:
    """The simplest arm whose cross-validated NLL is within one standard error of the best.

    ``fitted`` holds each calibrator with its number of fitted parameters; fewer is simpler, none the
    simplest. The standard error is that of the paired difference, sample by sample. Probabilities of exactly
    zero count as 1e-12 in every arm, so that one of them does not decide alone.
    """
    calibration = _sample(calibration, seed)
    data = Labelled.of(calibration)
    folds = torch.from_numpy(stratified_folds(calibration, NUM_FOLDS, seed, stream=Stream.FOLDS))
    losses: dict[str, Vector] = {UNCALIBRATED: _losses(data.scores, data.labels).numpy()}
    for template, _ in sorted(fitted, key=lambda pair: pair[1]):
        found = _held_out_losses(template, data, folds)
        if found is not None:
            losses[template.name] = found
    weights = None if data.weights is None else data.weights.numpy()
    means = {name: float(np.average(each, weights=weights)) for name, each in losses.items()}
    best = min(means, key=lambda name: means[name])
    contenders = tuple(
        Contender(
            name,
            means[name],
            means[name] - means[best],
            standard_error(each - losses[best] - (means[name] - means[best]), weights),
        )
        for name, each in losses.items()
    )
    chosen = next(each.name for each in contenders if each.behind <= each.standard_error)
    return Recommendation(chosen, contenders, calibration.num_samples)


def _held_out_losses(template: Template, data: Labelled, folds: Tensor) -> Vector | None:
    """NLL of every sample after a calibrator fitted on the other folds; ``None`` where a fit fails."""
    losses = torch.empty(len(folds), dtype=torch.float64)
    for k in range(int(folds.max()) + 1):
        held_out = folds == k
        try:
            calibrator = template.fit(data.rows(~held_out))
        except FIT_FAILURES:
            return None
        with torch.no_grad():
            scores = calibrator(data.scores[held_out].to(torch.float64))
        losses[held_out] = _losses(scores, data.labels[held_out])
    return losses.numpy()


def _losses(scores: Tensor, labels: Tensor) -> Tensor:
    """NLL of every sample from log-probabilities or log-odds; a probability of zero counts as 1e-12."""
    kind = "multiclass" if scores.ndim == 2 and labels.ndim == 1 else "multilabel"
    scores = floor_zero_probabilities(scores.to(torch.float64), kind)[0]
    if kind == "multiclass":
        return functional.cross_entropy(scores, labels, reduction="none")
    losses = functional.softplus(torch.where(labels == 1, -scores, scores))
    return losses if losses.ndim == 1 else losses.mean(dim=1)


def _sample(predictions: Predictions, seed: int) -> Predictions:
    """As many rows as the choice needs."""
    width = 1 if predictions.kind == "binary" else predictions.num_classes or 1
    most = max(2, math.ceil(MOST_ELEMENTS / width))
    if predictions.num_samples <= most:
        return predictions
    rows = generator(seed, Stream.FOLDS, part=1).permutation(predictions.num_samples)[:most]
    return predictions.rows(np.sort(rows))
