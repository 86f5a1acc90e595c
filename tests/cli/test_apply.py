"""``calibrant apply``: data that changed, scores without a scale, and files that are calibrated already."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import calibrant
from calibrant import load_predictions
from calibrant.calibrators import (
    BiasCorrectedTemperatureScaling,
    TemperatureScaling,
    adjust_to_prior,
    shift_of,
)
from calibrant.predictions import ColumnNames, Predictions
from calibrant.predictions.formats.mark import Mark, mark_in, notes_of_mark
from calibrant.predictions.to_event import marked
from calibrant.repair.applying import notes_on_shift

MEANS = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])


def write(path: Path, prior: list[float], num_samples: int, seed: int) -> np.ndarray:
    """Logits of a model that is too sure, for classes of these frequencies; half calibration, half test."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, p=prior, size=num_samples)
    features = MEANS[labels] + rng.normal(size=(num_samples, 2))
    logits = 2 * (features @ MEANS.T - (MEANS**2).sum(axis=1) / 2)
    np.savez(path, logits=logits, labels=labels, split=np.arange(num_samples) % 2)
    return labels


@pytest.fixture
def fitted(run, tmp_path) -> Path:
    """A calibrator of equally frequent classes, and a file in which they are not."""
    write(tmp_path / "old.npz", [1 / 3] * 3, 4000, 0)
    write(tmp_path / "new.npz", [0.9, 0.05, 0.05], 4000, 1)
    run("fit", "old.npz", "--method", "bias-corrected-temperature", "-o", "c.safetensors", code=0)
    return tmp_path


def loss(path: Path) -> float:
    """Log loss of a file of probabilities."""
    predictions = calibrant.load_predictions(path)
    return float(calibrant.metrics.negative_log_likelihood(predictions.probs, predictions.labels))


def test_shift_is_noted(run, fitted) -> None:
    """Where class frequencies differ much the file is written, with a note; where they do not, without."""
    same = run("apply", "c.safetensors", "old.npz", "-o", "out.npz", code=0)
    assert "note" not in same.stdout
    done = run("apply", "c.safetensors", "new.npz", "-o", "out.npz", "--force", code=0)
    scores = calibrant.load_predictions(fitted / "new.npz").scores
    told = shift_of(calibrant.load_calibrator(fitted / "c.safetensors"), scores).sentences
    assert told
    assert all(f"note: {sentence}" in done.stdout for sentence in told)
    assert (fitted / "out.npz").exists()


def test_label_shift_is_estimated_and_corrected(run, fitted) -> None:
    """``--label-shift em`` tells the frequencies, lowers the log loss, and equals the correction by hand."""
    run("apply", "c.safetensors", "new.npz", "-o", "plain.npz")
    done = run("apply", "c.safetensors", "new.npz", "-o", "em.npz", "--label-shift", "em", code=0)
    found = re.findall(r"estimated share of class (\d): (\S+) ± (\S+), (\S+) in the calibration", done.stdout)
    assert len(found) == 3
    shares = {int(name): float(share) for name, share, *_ in found}
    assert [shares[k] for k in range(3)] == pytest.approx([0.9, 0.05, 0.05], abs=0.03)
    assert loss(fitted / "em.npz") < loss(fitted / "plain.npz") - 0.1
    run("apply", "c.safetensors", "new.npz", "-o", "known.npz", "--prior", "0.9,0.05,0.05", code=0)
    assert loss(fitted / "em.npz") == pytest.approx(loss(fitted / "known.npz"), abs=0.01)
    calibrator = calibrant.load_calibrator(fitted / "c.safetensors")
    assert isinstance(calibrator, BiasCorrectedTemperatureScaling)
    predictions = calibrant.load_predictions(fitted / "new.npz")
    by_hand = adjust_to_prior(
        calibrator.predict_proba(predictions.scores),
        prior=[0.9, 0.05, 0.05],
        source_prior=calibrator.fit_result_.profile.class_prior,
    )
    written = torch.from_numpy(np.load(fitted / "known.npz")["probs"])
    torch.testing.assert_close(written, by_hand, rtol=0, atol=1e-12)


def test_other_class_names_are_refused(run, tmp_path) -> None:
    """Columns are never taken for other classes: names in another order end in one sentence."""
    write(tmp_path / "plain.npz", [1 / 3] * 3, 200, 0)
    arrays = dict(np.load(tmp_path / "plain.npz"))
    np.savez(tmp_path / "named.npz", class_names=["cat", "dog", "cow"], **arrays)
    np.savez(tmp_path / "turned.npz", class_names=["dog", "cat", "cow"], **arrays)
    run("fit", "named.npz", "--method", "vector", "-o", "c.safetensors", code=0)
    for same in ("named.npz", "plain.npz"):
        run("apply", "c.safetensors", same, "-o", "out.npz", "--force", code=0)
    refused = run("apply", "c.safetensors", "turned.npz", "-o", "turned_out.npz")
    assert (refused.returncode, "dog, cat, cow" in refused.stderr) == (2, True)


def test_a_shift_that_cannot_be_seen_is_said() -> None:
    """A calibrator that does not tell what it was fitted on is applied, with a note."""
    fitted = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
    assert notes_on_shift(fitted, torch.tensor([4.0] * 10)) == ()
    fitted.fit_result_ = dataclasses.replace(fitted.fit_result_, profile=None)
    (note,) = notes_on_shift(fitted, torch.tensor([4.0]))
    assert note == "The calibrator has no record of the data it was fitted on, so drift can't be tested."


def test_samples_of_the_fit_are_noted(run, over_confident) -> None:
    """After a fit on all rows they are no evidence; after one on the calibration split, half are new."""
    for options, noted in ((["--all"], True), ([], False)):
        run("fit", "over.npz", *options, "--method", "temperature", "-fo", "c.safetensors", code=0)
        done = run("apply", "c.safetensors", over_confident.name, "-o", "out.npz", "--force")
        assert ("was fitted on these very samples" in done.stdout) == noted, done.stdout


def test_scores_are_calibrated(run, tmp_path) -> None:
    """The probabilities are those that were planted, whatever the unit: each step up is more often right."""
    rng = np.random.default_rng(0)
    scores = rng.integers(1, 6, 600)
    correct = (rng.random(600) < scores / 6).astype(int)
    rows = [f"{score},{right}" for score, right in zip(scores, correct, strict=True)]
    (tmp_path / "judge.csv").write_text("\n".join(["score,correct", *rows]) + "\n")
    options = ["--score-columns", "score", "--method", "platt"]
    run("fit", "judge.csv", *options, "--label-column", "correct", "--all", "-o", "c.safetensors", code=0)
    run("apply", "c.safetensors", "judge.csv", *options[:2], "-o", "out.csv", code=0)
    found = load_predictions(tmp_path / "out.csv", columns=ColumnNames(label="correct"))
    np.testing.assert_allclose(found.probs.numpy(), scores / 6, atol=0.08)
    run("check", "out.csv", "--label-column", "correct", "--max-ece", "0.1", code=0)


ENDINGS = ("npz", "csv", "csv.gz", "tsv", "jsonl", "json", "parquet", "feather", "safetensors", "pt")
MARK = Mark(method="platt", file="5e884898da28", seen=True)


@pytest.fixture
def risks(tmp_path):
    """Overconfident risks of 400 patients, ``a.csv``, and a calibrator for them, ``c.safetensors``."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-logits))).astype(int)
    rows = [f"{y},{p},n" for y, p in zip(labels, 1 / (1 + np.exp(-3 * logits)), strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["label,prob,site", *rows]) + "\n")
    return tmp_path


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_carries_the_mark(tmp_path, ending) -> None:
    for name, given in {
        "event": Predictions(probs=[0.25, 0.5], labels=[0, 1], notes=[MARK.note]),
        "classes": Predictions(probs=[[0.25, 0.5, 0.25]] * 2, labels=[0, 1], notes=[MARK.note]),
        "confidence": Predictions(confidence=[0.25, 0.5], correct=[0, 1], notes=[MARK.note]),
    }.items():
        given.save(tmp_path / f"{name}.{ending}")
        found = load_predictions(tmp_path / f"{name}.{ending}")
        assert found.notes == (MARK.note,)
        assert mark_in(found.notes) == MARK


def test_the_largest_logits_carry_the_mark(tmp_path) -> None:
    names = {"top_k_logits": [[2.0, 1.0]] * 2, "top_k_indices": [[0, 1]] * 2, "log_rest": [0.0] * 2}
    np.savez(tmp_path / "raw.npz", **names, labels=[0, 1], num_classes=9)
    given = load_predictions(tmp_path / "raw.npz")
    marked(given, "temperature").save(tmp_path / "t.npz")
    sha256 = given.source.sha256 if given.source else ""
    assert mark_in(load_predictions(tmp_path / "t.npz").notes) == Mark.of("temperature", sha256)


def test_other_columns_of_that_name_are_no_marks() -> None:
    assert notes_of_mark(["Smith", "Jones"]) == notes_of_mark(np.array([1, 2])) == notes_of_mark(None) == ()


def test_calibrating_again_needs_force(run, risks) -> None:
    """By apply and by fit; with --force the mark names both calibrators and the first file."""
    run("fit", "a.csv", "--all", "--method", "platt", "-o", "c.safetensors", code=0)
    run("apply", "c.safetensors", "a.csv", "-o", "b.csv", code=0)
    for command in (
        ("apply", "c.safetensors", "b.csv", "-o", "d.csv"),
        ("fit", "b.csv", "--all", "--method", "platt", "-o", "d.safetensors"),
    ):
        done = run(*command)
        assert (done.returncode, "b.csv is calibrated already (by platt)" in done.stderr) == (2, True)
        run(*command, "--force", code=0)
    once, twice = (mark_in(load_predictions(risks / name).notes) for name in ("b.csv", "d.csv"))
    assert (once.method, twice.method, once.file, once.seen) == ("platt", "platt + platt", twice.file, True)
    assert (risks / "d.csv").read_text().splitlines()[0] == "label,prob,site,calibrated_by"


def test_compare_knows_a_model_and_its_repair(run, risks) -> None:
    """It names the pair, and warns about samples that the calibrator was fitted on; evaluate does, too."""
    run("fit", "a.csv", "--all", "--method", "platt", "-o", "c.safetensors")
    run("apply", "c.safetensors", "a.csv", "-o", "b.csv")
    run("compare", "a.csv", "b.csv", "--bootstrap", "20", "--json", "c.json", code=0)
    found = json.loads((risks / "c.json").read_text())
    same = "The same model, before or after calibration: a (uncalibrated), b (platt)."
    assert same in found["notes"]
    assert found["warnings"][0].startswith("b: The calibrator was fitted on these very samples")
    run("evaluate", "b.csv", "--bootstrap", "20", "--json", "e.json")
    warnings = json.loads((risks / "e.json").read_text())["verdict"]["warnings"]
    assert warnings[0].startswith("The calibrator was fitted on these very samples")


def test_images_carry_the_mark(run, tmp_path) -> None:
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(12, 3, 5, 4))
    (tmp_path / "streets").mkdir()
    np.save(tmp_path / "streets" / "logits.npy", 4 * logits)
    np.save(tmp_path / "streets" / "labels.npy", (logits + rng.gumbel(size=logits.shape)).argmax(axis=1))
    done = run("fit", "streets", "--method", "temperature", "-o", "c.safetensors", code=0)
    run("apply", "c.safetensors", "streets", "-o", "repaired", code=0)
    done = run("apply", "c.safetensors", "repaired", "-o", "again")
    assert (done.returncode, "repaired is calibrated already (by temperature)" in done.stderr) == (2, True)
