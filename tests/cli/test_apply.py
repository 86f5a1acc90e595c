"""``calibrant apply``, also of what ``fit --by-group`` saved: data that are new, or calibrated already."""

import dataclasses
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import calibrant
from calibrant import fit, load_predictions
from calibrant._math.errors import InputError
from calibrant.calibrators import (
    BiasCorrectedTemperatureScaling,
    PlattScaling,
    TemperatureScaling,
    adjust_to_prior,
    load_group_calibrator,
    load_multicalibrator,
    shift_of,
)
from calibrant.predictions import ColumnNames, Predictions
from calibrant.predictions.formats.mark import Mark, mark_in, notes_of_mark
from calibrant.predictions.to_event import marked
from calibrant.repair.applying import notes_on_shift
from command_line import call

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


def test_a_pipe_keeps_its_columns(tmp_path, monkeypatch) -> None:
    """What comes through a pipe is a table like a file, with its other columns; also names with decimals."""
    rows = [f"{k},{k % 2},0.{1 + k % 8},{('1.0', '2.0', '')[k % 3]},{k % 2}.0" for k in range(90)]
    text = "\n".join(["id,label,prob,group,split", *rows]) + "\n"
    (tmp_path / "t.csv").write_text(text)
    call("fit t.csv --method temperature -o t.safetensors", folder=tmp_path, code=0)
    call("apply t.safetensors t.csv -o file.csv", folder=tmp_path, code=0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    call("apply t.safetensors - -o pipe.csv", folder=tmp_path, code=0)
    assert (tmp_path / "pipe.csv").read_text() == (tmp_path / "file.csv").read_text()
    given = load_predictions(tmp_path / "t.csv")
    assert (set(given.groups), given.split.sum()) == ({"1", "2", "unknown"}, 45)


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


@pytest.fixture
def platt(tmp_path) -> PlattScaling:
    """A calibrator of events, saved as ``c.safetensors``."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=300)
    fitted = PlattScaling().fit(logits, (rng.random(300) < 1 / (1 + np.exp(-logits / 2))).astype(int))
    fitted.save(tmp_path / "c.safetensors")
    return fitted


@pytest.mark.parametrize("text", ["prob\n0.9\n", "prob,label,site\n0.9,1,B\n"])
def test_one_new_sample_is_repaired(run, tmp_path, platt, text) -> None:
    """With a label or without; the option that names its column need not be dropped."""
    (tmp_path / "new.csv").write_text(text)
    run("apply", "c.safetensors", "new.csv", "--out", "out.csv", "--label-column", "label", code=0)
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == text.splitlines()[0] + ",calibrated_by"
    expected = float(platt.predict_proba(np.log([9.0]))[0])
    assert float(lines[1].split(",")[0]) == pytest.approx(expected, rel=1e-12)


def test_printed_commands_carry_what_each_needs(run, tmp_path) -> None:
    """The fit has the column of labels, the application has not; neither has what only matters to judge."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=600)
    labels = (rng.random(600) < 1 / (1 + np.exp(-logits))).astype(int)
    p = 1 / (1 + np.exp(-4 * logits))
    rows = [f"{q},{y},{k % 3},p{k}" for k, (q, y) in enumerate(zip(p, labels, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["risk,died,site,patient", *rows]) + "\n")
    options = "--prob-columns risk --label-column died --group-column site --cluster patient"
    run(f"evaluate t.csv {options} --method platt --bootstrap 20 --json t.json", code=0)
    fit, apply = json.loads((tmp_path / "t.json").read_text())["verdict"]["commands"]
    assert fit.endswith("--out platt.safetensors --label-column died --prob-columns risk")
    assert apply == "calibrant apply platt.safetensors NEW.csv --out REPAIRED.csv --prob-columns risk"


def images(tmp_path) -> tuple[np.ndarray, np.ndarray]:
    """Logits and labels of 24 images in the folder ``streets``."""
    rng = np.random.default_rng(2)
    logits = rng.normal(size=(24, 3, 5, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:, 0] = 255
    (tmp_path / "streets").mkdir()
    np.save(tmp_path / "streets" / "logits.npy", 4 * logits)
    np.save(tmp_path / "streets" / "labels.npy", labels)
    return 4 * logits, labels


def test_printed_commands_of_segmentation_work(run, tmp_path) -> None:
    """They carry ``--ignore-index`` and name folders; what they make is the calibrator's own answer."""
    logits, _ = images(tmp_path)
    run("evaluate streets --ignore-index 255 --method temperature --bootstrap 20 --json t.json", code=0)
    fit, apply = json.loads((tmp_path / "t.json").read_text())["verdict"]["commands"]
    assert "--ignore-index 255" in fit
    run(*fit.split()[1:], code=0)
    run(*apply.replace("NEW_FOLDER", "streets").split()[1:], code=0)
    made = np.load(tmp_path / "REPAIRED_FOLDER" / "probs.npy")
    fitted = calibrant.load_calibrator(tmp_path / "temperature.safetensors")
    assert isinstance(fitted, TemperatureScaling)
    wanted = fitted.predict_proba(logits[1].reshape(3, -1).T).numpy().T.reshape(3, 5, 4)
    np.testing.assert_allclose(made[1], wanted, rtol=0, atol=1e-12)
    run(*apply.replace("NEW_FOLDER", "streets").split()[1:], code=2)


def test_a_file_for_each_image(run, tmp_path) -> None:
    """Images of other sizes, without labels, each in its file; a bad one is named and nothing is left."""
    logits, labels = images(tmp_path)
    kept = labels != 255
    rows = np.moveaxis(logits, 1, -1)[kept]
    TemperatureScaling().fit(rows, labels[kept]).save(tmp_path / "t.safetensors")
    (tmp_path / "new" / "logits").mkdir(parents=True)
    np.save(tmp_path / "new" / "logits" / "a.npy", logits[0].astype(np.float32))
    np.save(tmp_path / "new" / "logits" / "b.npy", logits[0][:, :2])
    run("apply", "t.safetensors", "new", "--out", "out", code=0)
    made = np.load(tmp_path / "out" / "probs" / "b.npy")
    assert made.shape == (3, 2, 4)
    np.testing.assert_allclose(made.sum(axis=0), 1, atol=1e-12)
    np.save(tmp_path / "new" / "logits" / "c.npy", logits[0][:2])
    wrong = run("apply", "t.safetensors", "new", "--out", "other", code=2)
    assert "c.npy must have shape" in wrong.stderr
    assert sorted(each.name for each in tmp_path.iterdir() if "other" in each.name) == []


def test_images_of_two_classes(run, tmp_path) -> None:
    """A calibrator of log-odds takes the difference of their logits, and both classes come back."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(3, 2, 4, 5))
    odds = rng.normal(size=60)
    fitted = TemperatureScaling().fit(3 * odds, (odds + rng.logistic(size=60) > 0).astype(int))
    fitted.save(tmp_path / "t.safetensors")
    (tmp_path / "streets").mkdir()
    np.save(tmp_path / "streets" / "logits.npy", logits)
    run("apply", "t.safetensors", "streets", "--out", "out", code=0)
    wanted = fitted.predict_proba((logits[:, 1] - logits[:, 0]).ravel()).numpy().reshape(3, 4, 5)
    made = np.load(tmp_path / "out" / "probs.npy")
    np.testing.assert_allclose(made, np.stack([1 - wanted, wanted], axis=1), rtol=0, atol=1e-12)


def test_calibrators_by_group(run, tmp_path) -> None:
    """Fitted and applied by the names in the file, with the pooled one for a name that is not known."""
    rng = np.random.default_rng(5)
    odds = 2 * rng.normal(size=600)
    labels = (rng.uniform(size=600) < 1 / (1 + np.exp(-odds))).astype(int)
    groups = np.array(["north", "south"])[np.arange(600) % 2]
    stated = odds * np.where(groups == "north", 3.0, 1.0)
    np.savez(tmp_path / "p.npz", logits=stated, labels=labels, groups=groups, split=np.arange(600) // 2 % 2)
    np.savez(tmp_path / "other.npz", logits=stated[:2], groups=["north", "east"])
    fitted = run("fit", "p.npz", "--method", "temperature", "--by-group", "-o", "c.safetensors", code=0)
    assert "temperature, fitted on 300 samples of 2 groups" in fitted.stdout
    assert "  north, 150 samples: temperature = " in fitted.stdout
    run("apply", "c.safetensors", "p.npz", "-o", "q.npz", code=0)
    probs = np.load(tmp_path / "q.npz")["probs"]
    by_hand = load_group_calibrator(tmp_path / "c.safetensors").predict_proba(stated, groups=groups)
    np.testing.assert_array_equal(probs, by_hand.numpy())
    run("apply", "c.safetensors", "other.npz", "--unknown-groups", "pooled", "-o", "r.npz", code=0)
    by_all = load_group_calibrator(tmp_path / "c.safetensors").pooled.predict_proba(stated[1:2])
    np.testing.assert_array_equal(np.load(tmp_path / "r.npz")["probs"][1:], by_all.numpy())
    usual = run("fit", "p.npz", "--by-group", "-o", "d.safetensors", code=0)
    assert usual.stdout.startswith("note: Platt scaling is the default for groups of two classes")
    assert "platt, fitted on 300 samples of 2 groups" in usual.stdout


def test_multicalibration_over_groups_that_overlap(run, tmp_path) -> None:
    rng = np.random.default_rng(5)
    sex, site = rng.choice(["f", "m"], 900), rng.choice(["north", "south"], 900)
    odds = rng.normal(size=900)
    true = odds + 1.5 * (sex == "f") - 1.5 * (site == "north")
    ill = (rng.random(900) < 1 / (1 + np.exp(-true))).astype(int)
    risk = 1 / (1 + np.exp(-odds))
    rows = zip(sex, ill, risk, site, strict=True)
    text = "".join(f"{a},{b},{c!r},{d}\n" for a, b, c, d in rows).replace("np.float64(", "").replace(")", "")
    (tmp_path / "p.csv").write_text(f"sex,ill,risk,site\n{text}")
    named = ("--label-column", "ill", "--prob-columns", "risk", "--group-columns", "sex,site")
    fit = ("fit", "p.csv", "--all", "--method", "multicalibration", "-o", "m.safetensors")
    fitted = run(*fit, *named, code=0)
    assert "multicalibration after platt, fitted on 900 samples of 4 groups" in fitted.stdout
    run("apply", "m.safetensors", "p.csv", "-o", "q.csv", *named, code=0)
    groups = [f"sex={a}; site={b}" for a, b in zip(sex, site, strict=True)]
    logits = np.log(risk) - np.log1p(-risk)
    by_hand = load_multicalibrator(tmp_path / "m.safetensors").predict_proba(logits, groups=groups).numpy()
    found = np.genfromtxt(tmp_path / "q.csv", delimiter=",", names=True)["risk"]
    np.testing.assert_allclose(found, by_hand, atol=1e-12)
    assert max(abs((by_hand - ill)[sex == name].mean()) for name in ("f", "m")) < 0.05


def test_ids_are_no_groups() -> None:
    def by(groups: list[str]) -> Predictions:
        return Predictions(logits=[2.0, -2.0] * len(groups), labels=[1, 0] * len(groups), groups=groups * 2)

    ids = by([str(number) for number in range(40)])
    with pytest.raises(
        InputError, match=r"`predictions` has 40 groups in 79 samples, which looks like an id"
    ):
        fit(ids.rows(range(79)), method="platt", every_row=True, by_group=True)
    few = fit(by(["a", "b", "c"]), method="temperature", every_row=True, by_group=True)
    assert [*few.by_group] == ["a", "b", "c"]


def test_of_many_groups_the_first_are_listed(run, tmp_path) -> None:
    groups = [str(k % 25) for k in range(100)]
    np.savez(tmp_path / "p.npz", logits=[2.0, -2.0, 1.0, -1.0] * 25, labels=[1, 0, 0, 1] * 25, groups=groups)
    done = run("fit", "p.npz", "--all", "--by-group", "--method", "temperature", "-o", "c.safetensors")
    said = done.stdout.splitlines()
    assert said[1].startswith("  all groups, 100 samples: temperature = ")
    assert [line for line in said if line.startswith("  ")][-1] == "  and 5 more"
    assert sum(", 4 samples: " in line for line in said) == 20


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
