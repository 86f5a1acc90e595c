"""Foreign samples against the test samples of an evaluation, and the error of detections."""

from typing import Any

import numpy as np
import pytest

from calibrant import metrics
from calibrant.evaluation import Evaluation, detection_calibration_error, evaluate
from calibrant.predictions import Predictions

FEW = {"bootstrap": 40, "null_draws": 10}


def foreign(num_samples: int = 300, **more: Any) -> Predictions:
    """Scores of samples that the model is unsure of; labels are not needed."""
    rng = np.random.default_rng(8)
    return Predictions(logits=0.3 * rng.normal(size=(num_samples, 4)), **more)


def test_every_arm_is_judged_and_changes_are_paired(made) -> None:
    predictions = made(num_samples=600, sharpness=2.0, split=np.arange(600) % 2)
    found = evaluate(predictions, ood=foreign(), calibrators=["temperature"], **FEW)
    detected = found.out_of_distribution
    assert (detected.score, detected.num_in, detected.num_out) == ("entropy", 300, 300)
    assert [arm.name for arm in detected.arms] == ["uncalibrated", "temperature"]
    inside = metrics.out_of_distribution_scores(logits=predictions.test.scores)
    outside = metrics.out_of_distribution_scores(logits=foreign().scores)
    expected = metrics.out_of_distribution_detection(inside, outside)
    first = {name: estimate.value for name, estimate in detected.arms[0].metrics.items()}
    assert first == pytest.approx(
        {
            "auroc": expected.auroc,
            "aupr": expected.aupr,
            "aupr_in": expected.aupr_in,
            "fpr_at_95": expected.fpr_at_tpr,
            "fpr_at_95_in": expected.fpr_at_tpr_in,
        },
        rel=1e-12,
    )
    assert all(each.low <= each.value <= each.high for arm in detected.arms for each in arm.metrics.values())
    change, after = (each["auroc"].value for each in (detected.arms[1].change, detected.arms[1].metrics))
    assert change == pytest.approx(after - expected.auroc, abs=1e-12)
    assert "By entropy, 300 out-of-distribution samples are distinguished from 300 test" in detected.sentence
    assert Evaluation.from_json(found.to_json()) == found


def test_copies_in_clusters_tell_as_much_as_the_samples(made) -> None:
    predictions, others = made(num_samples=200), foreign(100)
    plain = evaluate(predictions, ood=others, calibrators=[], **FEW).out_of_distribution
    found = [each.rows(np.repeat(np.arange(len(each)), 3)) for each in (predictions, others)]
    names = [[f"{row:03d}" for row in np.repeat(np.arange(len(each) // 3), 3)] for each in found]
    mine, theirs = (each.with_clusters(name) for each, name in zip(found, names, strict=True))
    copied = evaluate(mine, ood=theirs, calibrators=[], **FEW).out_of_distribution
    for key, wanted in plain.arms[0].metrics.items():
        got = copied.arms[0].metrics[key]
        assert (got.value, got.low, got.high) == pytest.approx(
            (wanted.value, wanted.low, wanted.high), rel=0.02
        )


def test_scores_that_need_logits_have_no_calibrated_arms(made) -> None:
    predictions = made(num_samples=200, split=np.arange(200) % 2)
    found = evaluate(predictions, ood=foreign(50), ood_score="energy", calibrators=["temperature"], **FEW)
    assert [arm.name for arm in found.out_of_distribution.arms] == ["uncalibrated"]


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
