"""How far other calibration samples would have moved a calibrated probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.shapes import Float
from calibrant.calibrators import Calibrator
from calibrant.calibrators.affine import Affine
from calibrant.calibrators.fitting.samples import floor_zero_probabilities
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions

_LEAST = 20  # refits, below which quantiles say nothing
_MOST = 1 << 23  # probabilities of which quantiles are taken at a time


@dataclass(frozen=True)
class Refits:
    """One calibrator, fitted on resamples of its calibration samples."""

    calibrators: tuple[Calibrator, ...]
    level: float

    def interval(self, scores: Float[Tensor, "N ..."]) -> tuple[Tensor, Tensor]:
        """Percentiles of the probabilities that the refits give, for each probability."""
        outside = (1 - self.level) / 2
        levels = torch.tensor([outside, 1 - outside], dtype=torch.float64)
        rows = max(1, _MOST * len(scores) // (len(self.calibrators) * max(1, scores.numel())))
        parts = [torch.quantile(self._probs(part), levels, dim=0) for part in scores.split(rows)]
        low, high = torch.cat(parts, dim=1)
        return low, high

    def _probs(self, scores: Float[Tensor, "N ..."]) -> Float[Tensor, "R N ..."]:
        if self._maps is None:
            return torch.stack([torch.as_tensor(each.predict_proba(scores)) for each in self.calibrators])
        factors, shifts = self._maps
        kind = self.calibrators[0].kind_
        wide = floor_zero_probabilities(scores.double(), kind)[0]
        if wide.ndim == 1:
            return torch.sigmoid(wide * factors + shifts)
        mapped = wide * factors[:, None] + shifts[:, None]  # (N, K) -> (R, N, K)
        return mapped.softmax(dim=2) if kind == "multiclass" else mapped.sigmoid()

    @cached_property
    def _maps(self) -> tuple[Tensor, Tensor] | None:
        """A factor and a shift of each score, ``(R, K)``, where that is what all the refits do."""
        found = [each.affine() for each in self.calibrators]
        if not all(each is not None and _only_scales(each) for each in found):
            return None
        kept = [each for each in found if each is not None]
        return torch.stack([each.weight.diag() for each in kept]), torch.stack([each.bias for each in kept])


def _only_scales(affine: Affine) -> bool:
    return not bool((affine.weight - affine.weight.diag().diag()).any())


def refits(
    calibrator: Calibrator,
    rows: Predictions,
    *,
    number: int = 200,
    level: float = 0.95,
    seed: int = 0,
    tell: Callable[[str, float], None] = lambda *_: None,
) -> Refits | None:
    """Fit a calibrator's like on resamples of rows, or of whole clusters such as patients.

    A resample without a finding, on which nothing can be fitted, is left out. None if too few are left.
    """
    data, units = Labelled.of(rows), _units(rows)
    generator = np.random.default_rng(seed)
    found: list[Calibrator] = []
    for turn in range(number):
        tell("fitting the calibrator on resamples", turn / number)
        drawn = generator.integers(len(units), size=len(units))
        index = torch.from_numpy(np.concatenate([units[unit] for unit in drawn]))
        try:
            found.append(fit_quietly(calibrator.unfitted(), data.rows(index)))
        except (InputError, ConvergenceError):
            continue
    return Refits(tuple(found), level) if len(found) >= min(_LEAST, number) else None


def _units(rows: Predictions) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """What is drawn: rows, or the rows of each cluster."""
    if rows.clusters is None:
        return [np.array([row]) for row in range(rows.num_samples)]
    _, numbers = np.unique(np.asarray(rows.clusters), return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)
