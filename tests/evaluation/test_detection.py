"""The error of detections by confidence and place, against netcal and by hand."""

import numpy as np
import pytest

from calibrant.evaluation import detection_calibration_error


@pytest.fixture(scope="module")
def detections() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """400 detections that are the less right the further left they are."""
    rng = np.random.default_rng(0)
    stated, places = rng.uniform(0.02, 0.98, 400), rng.uniform(0.02, 0.98, (400, 2))
    return stated, rng.random(400) < stated**1.5 * (0.4 + 0.6 * places[:, 0]), places


def test_it_is_netcal_s(detections) -> None:
    """Netcal 1.4.0, `ECE(bins, detection=True, sample_threshold=least).measure`, gave these numbers."""
    stated, right, places = detections

    def value(covariates: np.ndarray | None, **options: object) -> float:
        return detection_calibration_error(stated, right, covariates, num_draws=9, **options).value

    assert value(places, num_bins=5) == pytest.approx(0.2656790115288728, rel=1e-12)
    assert value(places, num_bins=[6, 3, 2], least=10) == pytest.approx(0.1788537311240523, rel=1e-12)
    assert value(None, num_bins=15) == pytest.approx(0.22316119792512717, rel=1e-12)


def test_an_error_by_place_is_found_that_confidence_hides() -> None:
    """Too sure on the left and too unsure on the right: no error by confidence, a clear one by place."""
    rng = np.random.default_rng(1)
    stated, place = np.full(2000, 0.6), rng.random(2000)
    right = rng.random(2000) < 0.3 + 0.6 * place
    alone = detection_calibration_error(stated, right, num_draws=99)
    by_place = detection_calibration_error(stated, right, place[:, None], num_bins=[1, 4], num_draws=99)
    assert (alone.low, alone.p_value > 0.05) == (0.0, True)
    assert by_place.low < 0.15 < by_place.high  # the true one
    assert (by_place.low > 0.08, by_place.p_value, by_place.num_bins) == (True, 0.01, 4)


def test_copies_in_an_image_count_once() -> None:
    """Ten copies of 60 calibrated detections are beyond chance only where they pass for independent."""
    rng = np.random.default_rng(3)
    stated = rng.uniform(0.2, 0.8, 60)
    right = rng.random(60) < stated
    copies = np.repeat(np.arange(60), 10)
    images = [f"image {k}" for k in copies]
    alone = detection_calibration_error(stated[copies], right[copies], num_draws=99)
    whole = detection_calibration_error(stated[copies], right[copies], images=images, num_draws=99)
    assert alone.value == whole.value
    assert (alone.p_value, whole.p_value > 0.05, whole.low) == (0.01, True, 0.0)
