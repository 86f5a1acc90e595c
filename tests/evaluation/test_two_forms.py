"""Two columns and one number per sample say the same, and are judged the same."""

import json

import numpy as np
import pytest

import calibrant
from calibrant.evaluation.gate.check import check
from calibrant.predictions import Predictions, open_predictions
from command_line import call

FEW = {"bootstrap": 40, "null_draws": 40}
ONE = FEW | {"calibrators": ["temperature"]}
AS_IT_IS = FEW | {"calibrators": []}


@pytest.fixture(scope="module")
def forms() -> dict[str, dict[str, np.ndarray]]:
    """An over-confident model of a rare event, in four forms."""
    rng = np.random.default_rng(5)
    truth = rng.normal(-2, 1, size=1200)
    labels = (rng.random(1200) < 1 / (1 + np.exp(-truth))).astype(int)
    odds, level = 2.5 * truth + 3, rng.normal(size=1200)
    probs = 1 / (1 + np.exp(-odds))
    beside = {"labels": labels, "split": np.arange(1200) % 2}
    return {
        "log-odds": {"logits": odds, **beside},
        "logits": {"logits": np.stack([level, odds + level], axis=1), **beside},
        "one column": {"probs": probs, **beside},
        "two columns": {"probs": np.stack([1 - probs, probs], axis=1), **beside},
    }


def judged(predictions: Predictions, **options: object) -> dict[str, object]:
    """An evaluation as data, without what names the form and the time."""
    found = json.loads(calibrant.evaluate(predictions, **FEW, **options).to_json())
    found["notes"] = [note for note in found["notes"] if not note.startswith("Two columns are one event")]
    found["verdict"].pop("repair")
    return found


def test_two_columns_are_judged_as_one(forms) -> None:
    one, two = (judged(Predictions(**forms[name])) for name in ("one column", "two columns"))
    assert one["kind"] == two["kind"] == "binary"
    assert one == two
    assert "on average, actual rate " in two["verdict"]["headline"]


def test_two_logits_are_judged_as_their_difference(forms) -> None:
    one, two = (calibrant.evaluate(Predictions(**forms[name]), **ONE) for name in ("log-odds", "logits"))
    assert one.verdict.recommended == two.verdict.recommended
    for arm, other in zip(one.arms, two.arms, strict=True):
        for key, found in arm.metrics.items():
            if found.value is not None:
                assert other.metrics[key].value == pytest.approx(found.value, rel=1e-9), (arm.name, key)


@pytest.mark.parametrize("positive_class", [None, 0, 1])
def test_a_gate_gives_both_forms_the_same_answer(forms, positive_class) -> None:
    """A model that states far more than occurs fails in either form, whichever class is positive."""
    one, two = (
        check(Predictions(**forms[name]), {"ece": 0.05}, bootstrap=40, positive_class=positive_class)
        for name in ("one column", "two columns")
    )
    assert (one.passed, two.passed) == (False, False)
    assert one.checks == two.checks
    assert "of the positive class" in two.checks[0].sentence


def test_the_forms_can_be_compared(forms) -> None:
    named = [(name, Predictions(**forms[name])) for name in ("one column", "two columns")]
    found = calibrant.compare(named, **FEW)
    assert (found.kind, found.paired) == ("binary", True)
    assert {each.value for each in found.models[1].difference.values()} == {0.0}
    against = check(named[0][1], baseline=named[1][1], bootstrap=40)
    assert (against.passed, against.paired) == (True, True)


def test_one_form_may_be_calibrated_on_the_other(forms) -> None:
    one, two = Predictions(**forms["one column"]), Predictions(**forms["two columns"])
    mixed = calibrant.evaluate(two.test, calibration=one.calibration, **ONE)
    plain = calibrant.evaluate(one.test, calibration=one.calibration, **ONE)
    assert mixed.arms == plain.arms


def test_the_positive_class_turns_the_errors_round(forms) -> None:
    """With class 0 positive the mean probability is one minus that of class 1; the top label is the same."""
    given = Predictions(**forms["two columns"])
    first, other = (
        calibrant.evaluate(given, positive_class=each, **AS_IT_IS).arms[0].metrics for each in (1, 0)
    )
    total = first["mean_probability"].value + other["mean_probability"].value
    np.testing.assert_allclose(total, 1, atol=1e-12)
    np.testing.assert_allclose(first["ece"].value, other["ece"].value, atol=1e-12)


def test_a_large_file_of_two_columns_is_judged_alike(forms, tmp_path) -> None:
    np.save(tmp_path / "logits.npy", forms["logits"]["logits"])
    np.save(tmp_path / "labels.npy", forms["logits"]["labels"])
    in_pieces, held = (open_predictions(tmp_path / "logits.npy", stream=stream) for stream in (True, False))
    assert in_pieces.streamed
    assert judged(in_pieces, calibrators=["temperature"]) == judged(held, calibrators=["temperature"])


def test_foreign_samples_keep_their_logits(forms) -> None:
    """The energy is that of both logits; the entropy is that of the probabilities, in either form."""
    given = Predictions(**forms["logits"])
    foreign = Predictions(logits=np.add(forms["logits"]["logits"][:50], [3.0, 0.0]))
    by_energy = calibrant.evaluate(given, ood=foreign, ood_score="energy", **AS_IT_IS).out_of_distribution
    energies = [-np.logaddexp(*each.values.numpy().T) for each in (given.test, foreign)]
    above = (energies[1][:, None] > energies[0]).mean()  # that a foreign sample's is the larger one
    assert by_energy.arms[0].metrics["auroc"].value == pytest.approx(above, abs=1e-12)
    single = Predictions(logits=foreign.values[:, 1] - foreign.values[:, 0])
    mixed = calibrant.evaluate(given, ood=single, **AS_IT_IS).out_of_distribution
    both = calibrant.evaluate(given, ood=foreign, **AS_IT_IS).out_of_distribution
    assert mixed.arms[0].metrics == both.arms[0].metrics


def test_the_commands_go_through_both_forms(forms, tmp_path) -> None:
    """Fit on two columns, apply to both forms, and each file comes back in its own form."""
    for name, file in (("one column", "one.npz"), ("two columns", "two.npz")):
        np.savez(tmp_path / file, **forms[name])
    call("fit", "two.npz", "--method", "platt", "-o", "c.safetensors", folder=tmp_path, code=0)
    for file in ("one", "two"):
        call("apply", "c.safetensors", f"{file}.npz", "-o", f"{file}_out.npz", folder=tmp_path, code=0)
    one, two = (np.load(tmp_path / f"{file}_out.npz")["probs"] for file in ("one", "two"))
    np.testing.assert_array_equal(two, np.stack([1 - one, one], axis=1))
    failed = [call("check", f"{file}.npz", "--max-ece", "0.05", folder=tmp_path) for file in ("one", "two")]
    passed = [
        call("check", f"{file}_out.npz", "--max-ece", "0.05", folder=tmp_path) for file in ("one", "two")
    ]
    assert [done.returncode for done in failed + passed] == [1, 1, 0, 0]
    other = call("check", "two.npz", "--max-ece", "0.05", "--positive-class", "2", folder=tmp_path)
    assert (other.returncode, "must be 0 or 1; got '2'" in other.stderr) == (2, True)


def test_a_calibrator_of_two_columns_still_applies(forms, tmp_path) -> None:
    """One that is for several classes only is fitted on the columns, and maps a file of two columns."""
    np.savez(tmp_path / "two.npz", **forms["logits"])
    assert (
        call("fit", "two.npz", "--method", "vector", "-o", "c.safetensors", folder=tmp_path).returncode == 0
    )
    call("apply", "c.safetensors", "two.npz", "-o", "out.npz", folder=tmp_path, code=0)
    loaded = calibrant.load_calibrator(tmp_path / "c.safetensors")
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npz")["probs"], loaded.predict_proba(forms["logits"]["logits"]).numpy()
    )
