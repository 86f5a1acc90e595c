"""The numbers that training gives are those of its declared version.

Stores keep runs by that version. Where a test here fails, a recipe gives other numbers than it did: raise
``NUMBERS`` in ``training/recipe.py``, or, where only the metrics of the same trained network have changed,
``measures`` of ``sweep/tasks/training.py``; then write the numbers anew by running this file.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from calibrant_lab.sweep.tasks.training import LATER, Training
from calibrant_lab.training.recipe import NUMBERS

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "training_numbers.json"
SETTINGS = GOLDEN.with_name("recipe_settings.json")

COMMON: dict[str, Any] = {
    "data.name": "digits",
    "data.train": 120,
    "data.calibration": 80,
    "data.test": 120,
    "training.epochs": 2,
    "training.batch_size": 32,
    "training.precision": "64-true",
    "hardware.accelerator": "cpu",
    "hardware.threads": 1,
    "evaluation.calibrators": ["temperature"],
}
RECIPES: dict[str, dict[str, Any]] = {
    "plain": {"model": "mlp(widths=(8,))", "optimiser.name": "adam"},
    "everything": {
        "model": "mlp(widths=(8,), dropout=0.2)",
        "loss": "focal(gamma=2)",
        "reduction": "sum",
        "data.augment": ["crop(padding=1)"],
        "data.policy": 60,
        "data.imbalance": 3.0,
        "optimiser.learning_rate": 0.01,
        "optimiser.weight_decay": 1e-3,
        "optimiser.clip_norm": 2.0,
        "schedule.name": "steps",
        "schedule.milestones": [1],
        "training.class_weights": "balanced",
        "training.keep": "best",
        "seed": 3,
    },
}


def numbers(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"version": NUMBERS, "measures": Training.measures}
    for name, changes in RECIPES.items():
        settings = Training().complete({**COMMON, **changes})
        outcome = Training().run(settings, folder / name, lambda _share, _words: None)
        found[name] = {"train_loss": [row["train_loss"] for row in outcome.rows], "test": outcome.metrics}
    return found


def test_the_numbers_are_those_of_the_declared_version(tmp_path) -> None:
    """Losses by epoch and every quantity of the test split agree with the committed ones, to rounding."""
    committed = json.loads(GOLDEN.read_text(encoding="utf-8"))
    now = numbers(tmp_path)
    assert (now.pop("version"), now.pop("measures")) == (committed.pop("version"), committed.pop("measures"))
    for recipe, found in now.items():
        assert found["train_loss"] == pytest.approx(committed[recipe]["train_loss"], rel=1e-7)
        for stage, values in found["test"].items():
            for key, value in values.items():
                expected = committed[recipe]["test"][stage][key]
                same = value is expected or value == pytest.approx(expected, rel=1e-5, abs=1e-7)
                assert same, (recipe, stage, key)


def test_settings_that_are_new_name_the_value_that_changes_nothing() -> None:
    """A setting that recipes gain must not make all stored runs unknown: it has a line in ``LATER``."""
    known = json.loads(SETTINGS.read_text(encoding="utf-8"))
    complete = Training().complete({})
    assert sorted(complete.keys() - LATER.keys()) == known
    assert all(complete[name] == neutral for name, neutral in LATER.items())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text(json.dumps(numbers(Path(folder)), indent=1) + "\n", encoding="utf-8")
    names = sorted(Training().complete({}).keys() - LATER.keys())
    SETTINGS.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
