"""What users stumbled over, at the keyboard."""

import numpy as np
import pytest

import calibrant
from calibrant.calibrators.selection import usual_candidates
from calibrant.evaluation.fitting.templates import Labelled, cross_fit, templates
from calibrant.predictions import Predictions
from calibrant_lab.sweep.store import Store
from command_line import call, one_line

FEW = {"bootstrap": 100, "null_draws": 60}


def test_three_samples_get_a_calibrator_and_a_warning(tmp_path) -> None:
    np.savez(tmp_path / "p.npz", logits=[[1.0, 2, 0], [2, 0, 0], [0, 1, 4]], labels=[0, 0, 1])
    done = call("fit", "p.npz", "--all", "-o", "c.safetensors", folder=tmp_path, code=0)
    assert "3 samples are too few to choose a calibrator by (at least 20): temperature" in done.stdout
    assert "choose another with --method" in done.stdout
    assert calibrant.load_calibrator(tmp_path / "c.safetensors").name == "temperature"
    np.savez(tmp_path / "w.npz", probs=[0.25, 0.75] * 50, labels=[0, 1] * 50, weights=[1] * 3 + [0] * 97)
    done = call("fit", "w.npz", "--all", "-o", "w.safetensors", folder=tmp_path, code=0)
    assert "3 samples are too few to choose a calibrator by" in done.stdout


def test_labels_as_words_with_one_score_are_fitted_and_repaired(tmp_path) -> None:
    """The option that the refusal names is there; a calibrator knows its own word."""
    rows = "".join(f"{'spam' if k % 3 else 'eggs'},{0.25 + k / 200}\n" for k in range(90))
    (tmp_path / "p.csv").write_text(f"label,prob\n{rows}")
    refused = call("fit p.csv --all -o c.safetensors", folder=tmp_path, code=2)
    assert "Pass the word for class 1 as --positive-class" in refused.stderr
    call("fit p.csv --all --method platt --positive-class spam -o c.safetensors", folder=tmp_path, code=0)
    call("apply c.safetensors p.csv -o q.csv", folder=tmp_path, code=0)
    loaded = calibrant.load_predictions(tmp_path / "p.csv", positive_class="spam")
    found = calibrant.apply(tmp_path / "c.safetensors", tmp_path / "p.csv")
    assert found.probs.tolist() == calibrant.apply(tmp_path / "c.safetensors", loaded).probs.tolist()
    written = (tmp_path / "q.csv").read_text().splitlines()[1].split(",")
    assert (written[0], float(written[1])) == ("eggs", found.probs[0].item())
    (tmp_path / "n.csv").write_text("label,prob\n" + "1,0.75\n0,0.25\n" * 20)
    refused = call("fit n.csv --all --positive-class 0 -o d.safetensors", folder=tmp_path, code=2)
    assert "--positive-class must be the class whose score is given" in refused.stderr


def model(seed: int, *, sharpness: float, accurate: float) -> Predictions:
    """Ten classes; right in a share of cases, with confidences that are too high by the sharpness."""
    rng = np.random.default_rng(seed)
    labels = np.arange(600) % 4
    told = np.where(rng.random(600) < accurate, labels, 3 - labels)
    logits = np.zeros((600, 4))
    logits[np.arange(600), told] = sharpness * np.log(3 * accurate / (1 - accurate))
    return Predictions(logits=logits, labels=labels)


def test_the_lower_accuracy_is_said() -> None:
    """The model with the lowest error is right less often, and the headline does not hide it."""
    honest, sharp = model(0, sharpness=1.0, accurate=0.6), model(1, sharpness=2.0, accurate=0.9)
    verdict = calibrant.compare([("honest", honest), ("sharp", sharp)], **FEW).verdict
    assert "Lowest calibration error: honest" in verdict
    assert "The accuracy of honest, 0.5" in verdict
    assert ", is lower than that of sharp, 0.9" in verdict
    alike = calibrant.compare([("one", honest), ("other", model(0, sharpness=1.5, accurate=0.6))], **FEW)
    assert "accuracy" not in alike.verdict


def test_rounding_is_no_difference() -> None:
    logits = model(0, sharpness=1.5, accurate=0.7)
    probs = Predictions(probs=logits.probs, labels=logits.labels)
    assert "beyond noise" not in calibrant.compare([("logits", logits), ("probs", probs)], **FEW).verdict


def test_few_wrong_decisions_fit_few_numbers() -> None:
    assert "vector" in usual_candidates("multiclass", 4000, 10, wrong=20)
    assert "vector" not in usual_candidates("multiclass", 4000, 10, wrong=19)
    assert "isotonic" not in usual_candidates("multiclass", 4000, 10, wrong=19)
    assert usual_candidates("binary", 4000, wrong=0) == ("temperature", "platt", "beta")


def test_nearly_separable_data_are_not_made_worse() -> None:
    """Whatever is recommended has no worse NLL on the test samples, unless an error is clearly better."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 5, 600)
        logits = rng.normal(size=(600, 5))
        logits[np.arange(600), labels] += 8
        wrong = rng.random(600) > 0.99
        logits[wrong, (labels[wrong] + 1) % 5] += 12
        given = Predictions(logits=logits, labels=labels, split=np.arange(600) % 2)
        found = calibrant.evaluate(given, **FEW)
        first, chosen = found.arms[0], found.arm(found.verdict.recommended)
        lower = chosen is not first and chosen.change["ece"].high < 0
        assert lower or chosen.metrics["nll"].value <= first.metrics["nll"].value


def test_cross_fitting_tells_how_far_it_is() -> None:
    (template,) = templates(["temperature"], "multiclass")
    given, told = model(0, sharpness=2.0, accurate=0.7), list[float]()
    cross_fit(template, Labelled.of(given), np.arange(600) % 4, told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]


LOGITS = np.log([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.4, 0.3, 0.3]])
SHARES = np.exp(LOGITS)


def test_large_weights_change_nothing() -> None:
    """An error is that of equal weights, up to the largest and down to the least that are allowed."""
    values = [
        calibrant.metrics.expected_calibration_error(SHARES, [0, 1, 1, 0], weights=np.full(4, weight))
        for weight in (1.0, 1e60, 1e-60)
    ]
    assert float(max(values) - min(values)) < 1e-15


def test_huge_logits_are_not_called_silent() -> None:
    with pytest.warns(calibrant.CalibrantWarning, match="4 samples tell little") as told:
        fitted = calibrant.calibrators.build("temperature").fit(LOGITS * 1e13, [0, 1, 2, 1])
    said = " ".join(str(each.message) for each in told)
    assert "is a bound" not in said
    assert "say nothing" not in said
    assert float(fitted.temperature) > 1e12


def test_a_store_is_no_folder_of_other_things(tmp_path) -> None:
    """A sweep does not mix its files with those of another kind; a store that was begun is one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    done = call("sweep", "digits-losses", "--store", "mine", folder=tmp_path, code=2)
    assert "mine is not a store of runs: it holds other files, such as thesis.tex" in one_line(done.stderr)
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["thesis.tex"]
    for names in (
        (".DS_Store", "runs"),
        ("leases", "notes.md"),
        ("runs", "runs/1", "runs/1/result.json", "a"),
    ):
        begun = tmp_path / names[0].strip(".")
        begun.mkdir()
        for name in names:
            (begun / name).mkdir(parents=True)
        assert Store(begun).fingerprints() is not None
