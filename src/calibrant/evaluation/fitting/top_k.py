"""Temperature scaling as an arm, where only the largest logits of each sample are known."""

from __future__ import annotations

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.top_k import TopK
from calibrant.calibrators import TemperatureScaling, fit_top_k_temperature
from calibrant.evaluation.fitting.split import Split
from calibrant.evaluation.fitting.templates import FittedCalibrator, Template


def fit_to_rows(template: Template, split: Split) -> FittedCalibrator:
    """The temperature of whole rows, and the test samples as it repairs them.

    Raises:
        InputError: If the largest logits of the samples are not known.
    """
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


def _confidence(top_k: TopK, calibrator: TemperatureScaling) -> torch.Tensor:
    return top_k.at(float(calibrator.temperature)).confidence
