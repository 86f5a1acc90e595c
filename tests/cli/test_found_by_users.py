"""What users stumbled over, at the keyboard."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import calibrant
from calibrant.calibrators.selection import usual_candidates
from calibrant.evaluation.fitting.templates import Labelled, cross_fit, templates
from calibrant.predictions import Predictions
from calibrant_lab.sweep.store import Store
from command_line import call, one_line

FEW = {"bootstrap": 100, "null_draws": 60}


def test_three_samples_get_a_calibrator_and_a_warning(tmp_path: Path) -> None:
    """Too few to choose by: temperature scaling, and the option that takes another."""
    np.savez(tmp_path / "p.npz", logits=[[1.0, 2, 0], [2, 0, 0], [0, 1, 4]], labels=[0, 0, 1])
    done = call("fit", "p.npz", "--all", "-o", "c.safetensors", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 samples are too few to choose a calibrator by (at least 20): temperature" in done.stdout
    assert "--method takes another" in done.stdout
    assert calibrant.load_calibrator(tmp_path / "c.safetensors").name == "temperature"


@pytest.mark.parametrize(
    ("bad", "remedy"),
    [
        (-np.inf, "give probabilities as `probs`, which may be 0"),
        (np.inf, "float64"),
        (np.nan, "leave that row out"),
    ],
)
def test_logits_that_are_not_finite_get_a_remedy(tmp_path: Path, bad: float, remedy: str) -> None:
    """One sentence with the row and what to do."""
    logits = np.zeros((4, 3))
    logits[2, 1] = bad
    np.savez(tmp_path / "p.npz", logits=logits, labels=[0, 1, 2, 0])
    done = call("evaluate", "p.npz", folder=tmp_path)
    assert done.returncode == 2
    assert f"row 2 holds {bad}" in one_line(done.stderr)
    assert remedy in one_line(done.stderr)


def model(seed: int, *, sharpness: float, accurate: float) -> Predictions:
    """Ten classes; right in a share of cases, with confidences that are too high by the sharpness."""
    rng = np.random.default_rng(seed)
    labels, told = (
        np.arange(600) % 4,
        np.where(rng.random(600) < accurate, np.arange(600) % 4, 3 - np.arange(600) % 4),
    )
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
    """Probabilities that differ by rounding are equal, not better beyond noise."""
    logits = model(0, sharpness=1.5, accurate=0.7)
    probs = Predictions(probs=logits.probs, labels=logits.labels)
    assert "beyond noise" not in calibrant.compare([("logits", logits), ("probs", probs)], **FEW).verdict


def test_few_wrong_decisions_fit_few_numbers() -> None:
    """Vector scaling of ten classes has twenty numbers, and needs as many wrong decisions."""
    assert "vector" in usual_candidates("multiclass", 4000, 10, wrong=20)
    assert "vector" not in usual_candidates("multiclass", 4000, 10, wrong=19)
    assert "isotonic" not in usual_candidates("multiclass", 4000, 10, wrong=19)
    assert usual_candidates("binary", 4000, wrong=0) == ("temperature", "platt", "beta")


def test_nearly_separable_data_are_not_made_worse() -> None:
    """Whatever is recommended has no worse NLL on the test samples, unless an error is clearly better."""
    for seed in range(3):
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
    """Of a long fit each fold is told."""
    (template,) = templates(["temperature"], "multiclass")
    given, told = model(0, sharpness=2.0, accurate=0.7), list[float]()
    cross_fit(template, Labelled.of(given), np.arange(600) % 4, told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    """Which file it is stands first, also of the kind whose size is looked at before."""
    (tmp_path / "p.parquet").write_bytes(b"PAR1")
    done = call("evaluate", "p.parquet", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("calibrant: p.parquet: it cannot be read as a .parquet file, perhaps")


LOGITS = np.log([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6], [0.4, 0.3, 0.3]])
SHARES = np.exp(LOGITS)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"probs": SHARES.astype(complex)}, "`probs` must hold numbers; got dtype complex128."),
        ({"probs": np.where(SHARES == 0.5, np.nan, SHARES)}, "row 1 holds nan; leave that row out"),
        (
            {"probs": np.stack([SHARES, SHARES], 1)},
            "for samples that are not images, `probs` must have shape (N, C).",
        ),
        ({"logits": LOGITS[:, 0], "labels": [-1, 1, 1, -1]}, "do they say -1 for 0? Write 0."),
        ({"logits": LOGITS, "labels": [0, 1, -100, 2]}, "row 2 holds -100; does that say that there is no"),
        (
            {"logits": LOGITS, "weights": np.full(4, 1e200)},
            "divide all of them by the same number.",
        ),
        (
            {"logits": LOGITS, "weights": np.full(4, 1e-200)},
            "divide all of them by the same number.",
        ),
    ],
)
def test_bad_arrays_get_a_remedy(tmp_path: Path, arrays: dict[str, object], words: str) -> None:
    """One sentence that names the file, what is wrong with it and what to do."""
    np.savez(tmp_path / "p.npz", **{"labels": [0, 1, 2, 0]} | arrays)
    done = call("evaluate", "p.npz", folder=tmp_path)
    assert done.returncode == 2
    assert words in one_line(done.stderr)


def test_tensors_without_plain_numbers_are_refused(tmp_path: Path) -> None:
    """Sparse ones, and those that have only a shape."""
    for logits, words in (
        (torch.tensor(LOGITS).to_sparse(), "got a sparse one: call `.to_dense()` first."),
        (torch.empty(4, 3, device="meta"), "got a tensor on the device meta, which has none."),
    ):
        torch.save({"logits": logits, "labels": torch.tensor([0, 1, 2, 0])}, tmp_path / "p.pt")
        done = call("evaluate", "p.pt", folder=tmp_path)
        assert done.returncode == 2
        assert words in one_line(done.stderr)


def test_large_weights_change_nothing() -> None:
    """An error is that of equal weights, up to the largest and down to the least that are allowed."""
    values = [
        calibrant.metrics.expected_calibration_error(SHARES, [0, 1, 1, 0], weights=np.full(4, weight))
        for weight in (1.0, 1e60, 1e-60)
    ]
    assert float(max(values) - min(values)) < 1e-15


def test_labels_that_are_missing_beside_an_array(tmp_path: Path) -> None:
    """The file is named, and where labels are looked for."""
    np.save(tmp_path / "logits.npy", LOGITS)
    done = call("evaluate", "logits.npy", folder=tmp_path)
    assert done.returncode == 2
    assert "logits.npy has none: add them beside it, in labels.npy." in one_line(done.stderr)


def test_the_option_for_labels_of_another_name_is_named(tmp_path: Path) -> None:
    """And the column that may hold them."""
    (tmp_path / "p.csv").write_text("diagnosis,prob\n" + "0,0.25\n1,0.75\n" * 20)
    done = call("check", "p.csv", "--max-ece", "0.1", folder=tmp_path)
    assert done.returncode == 2
    assert "(in a table: `label`, or --label-column says which). Not used: `diagnosis`." in done.stderr


def test_a_baseline_of_other_classes_is_refused(tmp_path: Path) -> None:
    """Models of three and of four classes do not answer the same question."""
    np.savez(tmp_path / "p.npz", logits=LOGITS, labels=[0, 1, 2, 0])
    np.savez(tmp_path / "q.npz", logits=np.eye(4), labels=[0, 1, 2, 0])
    done = call("check", "p.npz", "--baseline", "q.npz", folder=tmp_path)
    assert done.returncode == 2
    assert "must have the same number of classes; got 4 and 3; `calibrant" in one_line(done.stderr)


def test_huge_logits_are_not_called_silent() -> None:
    """They say much about the labels, and the temperature is found in their unit."""
    with pytest.warns(calibrant.CalibrantWarning, match="4 samples tell little") as told:
        fitted = calibrant.calibrators.build("temperature").fit(LOGITS * 1e13, [0, 1, 2, 1])
    said = " ".join(str(each.message) for each in told)
    assert "is a bound" not in said
    assert "say nothing" not in said
    assert float(fitted.temperature) > 1e12


def test_one_odd_time_is_named(tmp_path: Path) -> None:
    """Among numbers it is the odd cell that is wrong, not the first row."""
    (tmp_path / "t.csv").write_text("when,label,prob\n1,1,.5\n2,0,.4\nsoon,1,.4\n")
    done = call("monitor", "t.csv", "--time", "when", folder=tmp_path)
    assert done.returncode == 2
    assert "line 4 holds 'soon'" in one_line(done.stderr)


def test_a_store_is_no_folder_of_other_things(tmp_path: Path) -> None:
    """A sweep does not mix its files with those of another kind; a store that was begun is one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    done = call("sweep", "digits-losses", "--store", "mine", folder=tmp_path)
    assert done.returncode == 2
    assert "mine is no store of runs and holds other things, such as thesis.tex" in one_line(done.stderr)
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


def test_random_weights_predict_nothing(tmp_path: Path) -> None:
    """A network by its name needs a file of weights."""
    done = call("predict", "mlp", "digits", "-o", "p.npz", folder=tmp_path)
    assert done.returncode == 2
    assert "mlp would predict with random weights; give a file of trained ones" in one_line(done.stderr)


def test_an_empty_recipe_is_refused(tmp_path: Path) -> None:
    """It says nothing of what to train on."""
    (tmp_path / "empty.toml").touch()
    done = call("train", "empty.toml", folder=tmp_path)
    assert done.returncode == 2
    assert "empty.toml sets nothing; a recipe must at least say what to train on, such as" in one_line(
        done.stderr
    )


def test_columns_of_a_file_are_not_called_by_options(tmp_path: Path) -> None:
    """Columns may be named as options are; what the library calls its arguments is still translated."""
    (tmp_path / "other.csv").write_text("seed,bins,age\n1,2,3\n")
    done = call("evaluate", "other.csv", folder=tmp_path)
    assert "found no predictions in `seed`, `bins`, `age`; name columns" in one_line(done.stderr)
    assert "--label-column and --prob-columns say which they are" in done.stderr
