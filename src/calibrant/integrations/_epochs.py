"""Calibration of an epoch's predictions, for the callbacks of training libraries."""

from __future__ import annotations

import math
import warnings

from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import CalibrantWarning
from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.predictions import Predictions

_ERRORS = {
    "ece": metrics.expected_calibration_error,
    "smce": metrics.smooth_calibration_error,
    "nll": metrics.negative_log_likelihood,
}


class EpochCalibration:
    """Errors of predictions before and after a temperature that is fitted during training."""

    def __init__(self, *, prefix: str = "calibration") -> None:
        super().__init__()
        self.prefix = prefix
        self.calibrator: Calibrator | None = None

    def _measured(self, logits: Tensor, labels: Tensor, *, fit: bool) -> dict[str, float]:
        """Return metrics by full names; with ``fit``, first fit the temperature on these samples."""
        if fit:
            self.calibrator = None
        finite = bool((logits < math.inf).all())  # not so if NaN
        if not finite:
            warnings.warn("logits are NaN or infinite, so are their metrics.", CalibrantWarning, stacklevel=3)
        probs: dict[str, Tensor] = {}
        if finite:
            probs["before"] = Predictions(logits=logits, labels=labels).probs
            if fit:
                self.calibrator = TemperatureScaling().fit(logits, labels)
            if self.calibrator is not None:
                probs["after"] = self.calibrator.predict_proba(logits)
        found = {
            f"{self.prefix}/{when}/{name}": float(error(probs[when], labels)) if when in probs else math.nan
            for when in (("before", "after") if fit or self.calibrator else ("before",))
            for name, error in _ERRORS.items()
        }
        if self.calibrator is not None and self.calibrator.kind_ != "multilabel":
            found[f"{self.prefix}/temperature"] = float(self.calibrator.temperature)
        return found
