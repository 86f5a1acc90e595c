"""Files to which a calibrator was applied say so, and are not calibrated again by mistake."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calibrant import load_predictions
from calibrant.predictions import Predictions
from calibrant.predictions.formats.mark import Mark, mark_in, notes_of_mark
from calibrant.predictions.to_event import marked

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
    """Written and read again; the same for events, several classes and confidences."""
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
    """Files with the top k of each sample."""
    names = {"top_k_logits": [[2.0, 1.0]] * 2, "top_k_indices": [[0, 1]] * 2, "log_rest": [0.0] * 2}
    np.savez(tmp_path / "raw.npz", **names, labels=[0, 1], num_classes=9)
    given = load_predictions(tmp_path / "raw.npz")
    marked(given, "temperature").save(tmp_path / "t.npz")
    sha256 = given.source.sha256 if given.source else ""
    assert mark_in(load_predictions(tmp_path / "t.npz").notes) == Mark.of("temperature", sha256)


def test_other_columns_of_that_name_are_no_marks() -> None:
    """Who calibrated the instrument, by name or number, or nobody."""
    assert notes_of_mark(["Smith", "Jones"]) == notes_of_mark(np.array([1, 2])) == notes_of_mark(None) == ()


def test_calibrating_again_needs_force(run, risks) -> None:
    """By apply and by fit; with --force the mark names both calibrators and the first file."""
    assert run("fit", "a.csv", "--all", "--method", "platt", "-o", "c.safetensors").returncode == 0
    assert run("apply", "c.safetensors", "a.csv", "-o", "b.csv").returncode == 0
    for command in (
        ("apply", "c.safetensors", "b.csv", "-o", "d.csv"),
        ("fit", "b.csv", "--all", "--method", "platt", "-o", "d.safetensors"),
    ):
        done = run(*command)
        assert (done.returncode, "b.csv is calibrated already (by platt)" in done.stderr) == (2, True)
        assert run(*command, "--force").returncode == 0
    once, twice = (mark_in(load_predictions(risks / name).notes) for name in ("b.csv", "d.csv"))
    assert once is not None
    assert twice is not None
    assert (once.method, twice.method, once.file, once.seen) == ("platt", "platt + platt", twice.file, True)
    assert (risks / "d.csv").read_text().splitlines()[0] == "label,prob,site,calibrated_by"


def test_compare_knows_a_model_and_its_repair(run, risks) -> None:
    """It names the pair, and warns about samples that the calibrator was fitted on; evaluate does, too."""
    run("fit", "a.csv", "--all", "--method", "platt", "-o", "c.safetensors")
    run("apply", "c.safetensors", "a.csv", "-o", "b.csv")
    done = run("compare", "a.csv", "b.csv", "--bootstrap", "20", "--json", "c.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((risks / "c.json").read_text())
    same = "The same model, before or after calibration: a (as it was), b (platt)."
    assert same in found["notes"]
    assert found["warnings"][0].startswith("b: The calibrator was fitted on these very samples")
    run("evaluate", "b.csv", "--bootstrap", "20", "--json", "e.json")
    warnings = json.loads((risks / "e.json").read_text())["verdict"]["warnings"]
    assert warnings[0].startswith("The calibrator was fitted on these very samples")


def test_images_carry_the_mark(run, tmp_path) -> None:
    """A folder of repaired images is not repaired again."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(12, 3, 5, 4))
    (tmp_path / "streets").mkdir()
    np.save(tmp_path / "streets" / "logits.npy", 4 * logits)
    np.save(tmp_path / "streets" / "labels.npy", (logits + rng.gumbel(size=logits.shape)).argmax(axis=1))
    done = run("fit", "streets", "--method", "temperature", "-o", "c.safetensors")
    assert done.returncode == 0, done.stderr
    assert run("apply", "c.safetensors", "streets", "-o", "repaired").returncode == 0
    done = run("apply", "c.safetensors", "repaired", "-o", "again")
    assert (done.returncode, "repaired is calibrated already (by temperature)" in done.stderr) == (2, True)
