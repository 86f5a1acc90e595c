"""Test images under corruptions, and samples of another kind, as sections of a recipe."""

import json

import numpy as np
import pytest
import torch

from calibrant.predictions import load_predictions
from calibrant_lab.training import Recipe, train
from calibrant_lab.training.data import read_data
from calibrant_lab.training.shift import shift_section, shifted, shifts
from refusals import refused


def test_a_run_is_judged_under_shift(recipe, tmp_path, monkeypatch, short_reports) -> None:
    """It leaves predictions of each shifted set, and numbers that are theirs; the report has the table."""
    told = []
    monkeypatch.setattr("calibrant_lab.training.shift._DRAWS", 40)
    monkeypatch.setattr("calibrant_lab.training.shift._RESAMPLES", 10)
    monkeypatch.setattr(
        "calibrant_lab.training.run_report.write_report", lambda *_, after, **__: told.extend(after)
    )
    settings = ['shift.corruption=["contrast", "gaussian-noise"]', "shift.severities=[5]"]
    few = ["training.epochs=1", "shift.samples=100", "foreign.name=digits"]
    run = train(recipe.with_settings([*settings, *few]), tmp_path / "run")
    found = json.loads(run.folder.shift_numbers.read_text())
    places = [(row["corruption"], row["severity"], row["num_test"]) for row in found["rows"]]
    names = [(name, level, 100) for name in ("contrast", "gaussian-noise") for level in (5,)]
    assert places == [(None, 0, run.predictions.test.num_samples), *names]
    for row in found["rows"][1:]:
        saved = load_predictions(run.folder.shift / f"{row['corruption']}-{row['severity']}.npz")
        right = (saved.test.scores.argmax(1) == saved.test.labels).double().mean()
        assert row["accuracy"]["value"] == pytest.approx(float(right))
        assert torch.equal(saved.calibration.scores, run.predictions.calibration.scores)
        assert list(row["ece"]) == ["as trained", "Temperature scaling"]
        assert all(each["low"] <= each["value"] <= each["high"] for each in row["ece"].values())
    (section,) = [each for each in told if each.title == "Under shift"]
    assert [row[:2] for row in section.table.rows[:2]] == [("none", "0"), ("mean of 2", "5")]
    assert [each.title for each in told if "another kind" in each.title]


def test_shifts_are_those_that_the_recipe_names() -> None:
    one = Recipe.read({"shift": {"corruption": "fog", "severities": [3]}})
    assert shifts(one) == [("fog", 3)]
    assert not Recipe().differences(one), "nothing else is trained"
    assert len(shifts(Recipe.read({"shift": {"corruption": "all"}}))) == 75
    assert shifts(Recipe()) == []
    refused("got 'frog'; did you mean 'fog'", shifts, Recipe.read({"shift": {"corruption": ["frog"]}}))
    refused(r"shift\.severities", Recipe.read, {"shift": {"severities": [6]}})


def test_published_corruptions_are_read(tmp_path, monkeypatch, rng) -> None:
    """With ``name`` the images are those of the file, and they must go with the data."""
    place = tmp_path / "cifar10-c"
    place.mkdir()
    images = rng.integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    np.save(place / "fog.npy", images)
    np.save(place / "labels.npy", np.arange(20) % 10)
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    training = {"x_train": images.repeat(2, axis=0), "y_train": np.arange(40) // 4}
    np.savez(tmp_path / "own.npz", **training)
    asked = {"shift": {"corruption": "fog", "name": "cifar10-c", "severities": [2]}}
    wanted = Recipe.read({**asked, "data": {"name": str(tmp_path / "own.npz")}})
    part = shifted(wanted, read_data(wanted.data), shifts(wanted)[0])
    np.testing.assert_array_equal(part.inputs[:].numpy(), images[4:8].transpose(0, 3, 1, 2))
    digits = Recipe.read(asked)
    words = r"must name images of shape \(1, 8, 8\) and 10 classes"
    refused(words, shifted, digits, read_data(digits.data), shifts(digits)[0])


def test_means_are_over_corruptions() -> None:
    def row(corruption: str | None, severity: int, value: float) -> dict:
        estimate = {"value": value, "low": 0.0, "high": 1.0, "reason": None, "without_chance": None}
        return {"corruption": corruption, "severity": severity, "num_test": 9, "accuracy": estimate,
                "ece": {"as trained": estimate}}  # fmt: skip

    rows = [row(None, 0, 0.9), row("fog", 1, 0.2), row("snow", 1, 0.4)]
    found = {"source": "computed", "seed": 0, "level": 0.95, "calibrators": ["as trained"], "rows": rows}
    table = shift_section(found).table
    assert table.rows[1] == ("mean of 2", "1", "0.3000", "0.3000")
