"""Images: one channel is an event, and labels of the scores' shape are several labels with a warning."""

import numpy as np
import pytest

from calibrant._math.errors import CalibrantWarning
from calibrant.calibrators import TemperatureScaling
from calibrant.metrics import expected_calibration_error
from calibrant.predictions import predictions_of_positions


@pytest.fixture
def masks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits ``(N, 1, H, W)`` and masks ``(N, H, W)``."""
    logits = rng.normal(size=(6, 1, 5, 4))
    return logits, (rng.random((6, 5, 4)) < 1 / (1 + np.exp(-logits[:, 0]))).astype(int)


def test_one_channel_is_an_event(masks) -> None:
    logits, labels = masks
    flat = TemperatureScaling().fit(logits.ravel(), labels.ravel())
    probs = 1 / (1 + np.exp(-logits))
    for given in (labels, labels[:, None]):
        fitted = TemperatureScaling().fit(logits, given)
        assert fitted.temperature == pytest.approx(flat.temperature)
        assert fitted.predict_proba(logits).shape == logits.shape
        error = expected_calibration_error(probs, given)
        assert error == expected_calibration_error(probs.ravel(), labels.ravel())
        assert predictions_of_positions(probs=probs, labels=given).kind == "binary"


def test_rows_of_an_image_are_no_labels_without_a_word(masks) -> None:
    """Three axes alike may be several labels at positions; what else they may be is said."""
    logits, labels = masks
    with pytest.warns(CalibrantWarning, match="read as 5 labels at each of 4 positions"):
        expected_calibration_error(1 / (1 + np.exp(-logits[:, 0])), labels)
