"""One division of a file into halves: each half is judged by what was fitted on the other."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import without_warnings
from calibrant._math.shapes import Int, Shaped
from calibrant.calibrators import Calibrator, build
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions


@dataclass(frozen=True)
class Crossed:
    """What calibrators that did not see a sample say of it, and how long a fit took."""

    probs: Tensor
    seconds: float
    calibrators: tuple[Calibrator, ...]


@dataclass(frozen=True)
class Division:
    """One file, divided into halves at random within each class."""

    predictions: Predictions
    seed: int

    @cached_property
    def data(self) -> Labelled:
        """All samples."""
        return Labelled.of(self.predictions)

    @cached_property
    def halves(self) -> Int[Tensor, " N"]:
        """The half of each sample, 0 or 1."""
        return torch.from_numpy(stratified_folds(self.predictions, 2, self.seed))

    def judged(self, text: str) -> Crossed:
        """Every sample, judged by a calibrator that was fitted on the half without it."""
        seconds = 0.0
        calibrators: list[Calibrator] = []
        probs = torch.empty(self.data.scores.shape, dtype=torch.float64)
        for half in (0, 1):
            inside = self.halves == half
            start = time.process_time()
            calibrators.append(fit_quietly(build(text), self.data.rows(~inside)))
            seconds += (time.process_time() - start) / 2
            probs[inside] = calibrators[-1].predict_proba(self.data.scores[inside]).double()
        return Crossed(probs, seconds, tuple(calibrators))

    def judged_again(self, fitted: Crossed, counts: Shaped[np.ndarray, " N"]) -> Tensor:
        """The same with other weights: each calibrator fitted again to its half's resampled samples."""
        times = torch.from_numpy(counts.astype(np.float64))
        times = times if self.data.weights is None else times * self.data.weights
        probs = torch.empty_like(fitted.probs)
        for half, calibrator in zip((0, 1), fitted.calibrators, strict=True):
            inside = self.halves == half
            drawn = ~inside & (times > 0)
            data = self.data.rows(drawn)
            with without_warnings():
                again = calibrator.refit(data.scores, data.labels, weights=times[drawn])
            probs[inside] = again.predict_proba(self.data.scores[inside]).double()
        return probs
