"""Confidences, and whether they were right: judged, repaired, and written back in their own form."""

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import build, load_calibrator
from calibrant.predictions import Predictions
from command_line import call, one_line

FEW = {"bootstrap": 40, "null_draws": 60}


@pytest.fixture(scope="module")
def stated() -> dict[str, np.ndarray]:
    """What a language model says of its answers, too high in one group and too low in the other."""
    rng = np.random.default_rng(1)
    truth, group = rng.normal(0.5, 1, size=900), np.arange(900) // 2 % 2
    correct = (rng.random(900) < 1 / (1 + np.exp(-truth))).astype(int)
    confidence = 1 / (1 + np.exp(-(2 * truth + np.where(group == 0, 1.5, -1.5))))
    groups = np.where(group == 0, "code", "maths")
    return {"confidence": confidence, "correct": correct, "groups": groups, "split": np.arange(900) % 2}


def test_calibrators_are_fitted_to_being_right(stated) -> None:
    """Each arm is a calibrator of the log-odds of the confidence, fitted to whether the answer was right."""
    predictions = Predictions(**stated)
    found = calibrant.evaluate(predictions, calibrators=["platt", "isotonic"], **FEW)
    assert (found.kind, found.num_calibration, found.num_test) == ("top_label", 450, 450)
    calibration, test = predictions.calibration, predictions.test
    for name in ("platt", "isotonic"):
        fitted = build(name).fit(calibration.as_binary().scores, calibration.correct.long())
        repaired = fitted.predict_proba(test.as_binary().scores)
        arm = found.arm(name).metrics
        expected = calibrant.metrics.expected_calibration_error(repaired, test.correct)
        assert arm["ece"].value == pytest.approx(float(expected), abs=1e-12)
        assert arm["mean_confidence"].value == pytest.approx(float(repaired.mean()), abs=1e-12)
        assert arm["accuracy"].value == found.arms[0].metrics["accuracy"].value
    assert found.verdict.repair.space == "confidence"


def test_certainty_is_told_in_the_words_of_confidences() -> None:
    """What is wrong at a confidence of 1 makes the NLL infinite; nothing speaks of classes."""
    sure = Predictions(
        confidence=np.array([1.0, 1.0, 0.6, 0.8] * 8),
        correct=np.array([1, 0, 1, 1] * 8),
        split=np.arange(32) % 2,
    )
    found = calibrant.evaluate(sure, calibrators=["temperature"], **FEW)
    assert found.arms[0].metrics["nll"].reason == (
        "infinite: 8 samples are wrong with a confidence of 1, or right with one of 0"
    )
    said = found.arm("temperature").fit
    assert "8 probabilities of exactly 0 or 1 were counted as 1e-12 or 1 - 1e-12" in said.warnings


@pytest.mark.parametrize("method", ["platt", "isotonic", "scaling-binning"])
def test_a_file_of_confidences_is_repaired(stated, tmp_path, method) -> None:
    """Fit, apply and check in the shell: a file of the same kind, in which stated and right agree."""
    np.savez(tmp_path / "said.npz", **stated)
    assert call("check", "said.npz", "--max-ece", "0.03", folder=tmp_path).returncode == 1
    call("fit", "said.npz", "--method", method, "-o", "c.safetensors", folder=tmp_path, code=0)
    call("apply", "c.safetensors", "said.npz", "-o", "mended.npz", folder=tmp_path, code=0)
    before, after = (calibrant.load_predictions(tmp_path / f"{name}.npz") for name in ("said", "mended"))
    assert (after.kind, after.groups, after.correct.tolist()) == (
        "top_label",
        before.groups,
        before.correct.tolist(),
    )
    loaded = load_calibrator(tmp_path / "c.safetensors")
    assert after.confidence.tolist() == loaded.predict_proba(before.as_binary().scores).tolist()
    gaps = [
        abs(float((each.test.confidence - each.test.correct.double()).mean())) for each in (before, after)
    ]
    assert gaps[1] < max(gaps[0], 0.04)
    call("check", "mended.npz", "--max-ece", "0.10", folder=tmp_path, code=0)


def test_new_answers_need_no_outcome(stated, tmp_path) -> None:
    """``apply`` takes a table of confidences alone, by group, and writes a table of confidences."""
    np.savez(tmp_path / "said.npz", **stated)
    (tmp_path / "new.csv").write_text("confidence,group\n0.5,code\n0.5,maths\n", encoding="utf-8")
    call("fit", "said.npz", "--by-group", "--method", "platt", "-o", "c.safetensors", folder=tmp_path, code=0)
    call("apply", "c.safetensors", "new.csv", "-o", "out.csv", folder=tmp_path, code=0)
    code, maths = calibrant.load_predictions(tmp_path / "out.csv").confidence.tolist()
    assert code < 0.45 < 0.55 < maths
    refused = call("check", "new.csv", "--max-ece", "0.1", folder=tmp_path)
    assert (refused.returncode, "`correct` must be given" in one_line(refused.stderr)) == (2, True)


def test_a_calibrator_of_confidences_is_for_confidences(stated, tmp_path) -> None:
    """It is refused for the probabilities of an event, theirs for confidences, and one of classes."""
    np.savez(tmp_path / "said.npz", **stated)
    np.savez(tmp_path / "event.npz", probs=stated["confidence"], labels=stated["correct"])
    for name in ("said", "event"):
        call(f"fit {name}.npz --all --method platt -o {name}.safetensors", folder=tmp_path, code=0)
    first = call("apply", "said.safetensors", "event.npz", "-o", "out.npz", folder=tmp_path)
    other = call("apply", "event.safetensors", "said.npz", "-o", "out.npz", folder=tmp_path)
    third = call("fit", "said.npz", "--method", "vector", "-o", "out.safetensors", folder=tmp_path)
    assert [done.returncode for done in (first, other, third)] == [2, 2, 2]
    assert "was fitted on confidences; event.npz holds binary predictions" in one_line(first.stderr)
    assert "said.npz holds confidences only, and event.safetensors was fitted on binary" in other.stderr
    assert "said.npz holds confidences: take platt" in third.stderr


def test_foreign_answers_are_told_apart_after_the_repair_too(stated) -> None:
    """A calibrator that keeps the order keeps the AUROC; the score is that of the repaired confidence."""
    predictions = Predictions(**stated)
    foreign = Predictions(confidence=stated["confidence"][:60] ** 3, correct=np.zeros(60, dtype=int))
    found = calibrant.evaluate(predictions, calibrators=["platt"], ood=foreign, **FEW).out_of_distribution
    areas = [arm.metrics["auroc"].value for arm in found.arms]
    assert (found.score, [arm.name for arm in found.arms]) == ("max_probability", ["uncalibrated", "platt"])
    assert areas[0] == pytest.approx(areas[1], abs=1e-12)
