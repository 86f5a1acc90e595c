"""Temperature scaling as an arm, where only the largest logits of each sample are known."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.top_k import TopK
from calibrant.calibrators import Calibrator, TemperatureScaling, fit_top_k_temperature
from calibrant.evaluation.fitting.split import NUM_FOLDS, Split, stratified_folds
from calibrant.evaluation.fitting.templates import FittedCalibrator, Template
from calibrant.predictions import Predictions
from calibrant.predictions.top_k import has_row_temperature

FLOOR = 1e-12  # of what is stated of the outcome, so that one sample does not decide alone


def fit_to_rows(template: Template, split: Split) -> FittedCalibrator:
    """The temperature of whole rows, and the test samples as it repairs them."""
    given = None if split.calibration is None else split.calibration
    if given is None or given.top_k is None or split.test.top_k is None:
        raise InputError("the largest logits of each sample must be known.")
    weights, held = given.weights, split.test.top_k
    calibrator = fit_top_k_temperature(given.top_k, weights=weights)
    confidence = _confidence(held, calibrator)
    if split.folds is not None:
        for fold in np.unique(split.folds).tolist():
            inside = torch.from_numpy(split.folds == fold)
            others = None if weights is None else weights[~inside]
            found = fit_top_k_temperature(given.top_k.rows(~inside), weights=others)
            confidence[inside] = _confidence(held.rows(inside), found)
    return FittedCalibrator(template, calibrator, split.test.replace_probs(confidence))


def judged_on_rows(
    wanted: Sequence[Template], calibration: Predictions, seed: int
) -> dict[str, tuple[Calibrator, Tensor]]:
    """Calibrators that act on rows, fitted, with their held-out losses of being right or wrong."""
    found: dict[str, tuple[Calibrator, Tensor]] = {}
    for each in wanted:
        if has_row_temperature(each.calibrator.text, calibration):
            with contextlib.suppress(InputError):  # said where the arm is fitted
                found[each.calibrator.text] = held_out(calibration, seed)
    return found


def held_out(calibration: Predictions, seed: int) -> tuple[Calibrator, Tensor]:
    """The temperature of whole rows, and the losses under those of the other folds."""
    if calibration.top_k is None or calibration.labels is None:
        raise InputError("the largest logits of each sample must be known, and labels.")
    top_k, weights = calibration.top_k, calibration.weights
    folds = torch.from_numpy(stratified_folds(calibration, NUM_FOLDS, seed))
    stated = torch.empty(len(folds), dtype=torch.float64)
    for fold in folds.unique():
        inside = folds == fold
        others = None if weights is None else weights[~inside]
        found = fit_top_k_temperature(top_k.rows(~inside), weights=others)
        stated[inside] = _confidence(top_k.rows(inside), found)
    right = calibration.labels == 1
    losses = -torch.where(right, stated, 1 - stated).clamp(min=FLOOR).log()
    return fit_top_k_temperature(top_k, weights=weights), losses


def _confidence(top_k: TopK, calibrator: TemperatureScaling) -> torch.Tensor:
    return top_k.at(float(calibrator.temperature)).confidence
