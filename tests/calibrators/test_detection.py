"""Confidences of detections calibrated together with where the box is, against netcal."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import CalibrantWarning, InputError, load_calibrator
from calibrant.calibrators import (
    DetectionCalibration,
    fit_detections,
    load_detection_calibration,
    save_detection_calibration,
)

NETCAL = {
    "logistic": [0.26414046888923753, 0.05974264006429542, 0.032804778206505285, 0.018901994167215493],
    "beta": [0.2895144470630493, 0.03803611986922192, 0.01290640198329918, 0.006208175657006447],
    "dependent-logistic": [
        0.3343309407070926,
        0.06335102952948851,
        0.010417328653368875,
        0.007314331079555035,
    ],
}
"""What `transform` of netcal 1.4.0 gives the first four, by maximum likelihood."""


@pytest.fixture(scope="module")
def detections() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    stated, places = rng.uniform(0.02, 0.98, 400), rng.uniform(0.02, 0.98, (400, 2))
    return stated, rng.random(400) < stated**1.5 * (0.4 + 0.6 * places[:, 0]), places


@pytest.mark.parametrize("method", NETCAL)
def test_it_is_netcal_s(detections, method) -> None:
    found = fit_detections(*detections, method=method)
    probs = found.predict_proba(detections[0][:4], detections[2][:4])
    assert probs.tolist() == pytest.approx(NETCAL[method], abs=5e-4)
    again = DetectionCalibration.from_json(found.to_json())
    assert again == found
    assert found.loss < fit_detections(*detections[:2], method=method).loss


def test_a_file_holds_all_and_nothing_else_is_taken_for_one(detections, tmp_path) -> None:
    """Saved and loaded it is the same; a file of another calibrator, or a damaged one, is refused."""
    found = fit_detections(*detections, method="beta", names=("x", "y"))
    save_detection_calibration(found, tmp_path / "c.safetensors")
    assert load_detection_calibration(tmp_path / "c.safetensors") == found
    with pytest.raises(InputError, match="load_detection_calibration reads it"):
        load_calibrator(tmp_path / "c.safetensors")
    save_detection_calibration(replace(found, weights=found.weights[:2]), tmp_path / "d.safetensors")
    with pytest.raises(InputError, match="is damaged"):
        load_detection_calibration(tmp_path / "d.safetensors")


def test_separable_detections_are_warned_of() -> None:
    """Right ones state more than .5, wrong ones less: no weight is large enough, and that is said."""
    stated = np.linspace(0.01, 0.99, 40)
    with pytest.warns(CalibrantWarning, match="separates all 40"):
        fit_detections(stated, stated > 0.5)


def test_a_planted_dependence_is_recovered() -> None:
    """Weights of the log-odds and of the place within 4 standard errors, of 20,000 detections."""
    rng = np.random.default_rng(1)
    odds, place = rng.normal(size=20_000), rng.random((20_000, 1))
    true = 1 / (1 + np.exp(-(0.6 * odds + 1.5 * place[:, 0] - 1.0)))
    found = fit_detections(1 / (1 + np.exp(-odds)), rng.random(20_000) < true, place)
    assert (*found.weights, found.bias) == pytest.approx((0.6, 1.5, -1.0), abs=0.22)
    assert found.weights[0] == pytest.approx(0.6, abs=0.07)


def test_what_is_wrong_is_said(detections) -> None:
    stated, right, places = detections
    with pytest.raises(InputError, match="right and wrong detections"):
        fit_detections(stated, np.ones(400), places)
    with pytest.raises(InputError, match="must have 2 columns, as in the fit; got 0"):
        fit_detections(stated, right, places).predict_proba(stated)
    with pytest.raises(InputError, match="not a calibrator of detections"):
        DetectionCalibration.from_json("{}")
    for weights in ("[1.0]", "[NaN, 1.0]"):
        text = f'{{"method": "beta", "weights": {weights}, "bias": 0, "num_covariates": 0, "loss": 0.1}}'
        with pytest.raises(InputError, match="not a calibrator of detections"):
            DetectionCalibration.from_json(text)
    with pytest.raises(InputError, match="take shares of the image"):
        fit_detections(stated, right, 100 * places)
    for names in (("a",), ("a", "b", "c"), ("a", "a")):
        with pytest.raises(InputError, match="`names` must hold a name of its own for each of 2 covariates"):
            fit_detections(stated, right, places, names=names)
