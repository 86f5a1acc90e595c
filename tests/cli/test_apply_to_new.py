"""``calibrant apply`` on what is new: one sample, no labels, no patients; and the printed commands."""

import json

import numpy as np
import pytest

import calibrant
from calibrant.calibrators import PlattScaling, TemperatureScaling


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
