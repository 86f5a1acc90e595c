"""The commands that carry out a repair, and where they are shown."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import evaluate
from calibrant.evaluation import Evaluation
from calibrant.evaluation.result import Repair
from calibrant.predictions import Predictions, Source
from calibrant.reports.commands import repair_commands, with_commands

FILE = Source(name="p.npz", sha256="", format="npz")
NEW = np.eye(4)


def over_confident(**more: Any) -> Evaluation:
    rng = np.random.default_rng(0)
    logits = 1.5 * rng.normal(size=(2000, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    predictions = Predictions(logits=3 * logits, labels=labels, **more)
    return evaluate(predictions, calibrators=["temperature"], bootstrap=20, null_draws=50)


@pytest.fixture
def repair() -> Repair:
    """As of a file of logits with its own split."""
    return Repair(method="temperature", file="p.npz", all_rows=False, format="npz", space="logits")


def test_the_last_sentence_names_the_commands_once() -> None:
    """They stand in the data too; spelling them out twice changes nothing, and no repair has none."""
    found = over_confident(split=np.arange(2000) % 2, source=FILE)
    spelled = with_commands(found)
    verdict = spelled.verdict
    assert found.verdict.commands == ()
    assert verdict.sentences[:-1] == found.verdict.sentences
    assert [command.split()[:2] for command in verdict.commands] == [
        ["calibrant", "fit"],
        ["calibrant", "apply"],
    ]
    assert all(f"`{command}`" in verdict.sentences[-1] for command in verdict.commands)
    assert with_commands(spelled) is spelled
    unrepaired = replace(found, verdict=replace(found.verdict, repair=None))
    assert with_commands(unrepaired) is unrepaired


def test_the_command_fits_the_samples() -> None:
    """``--all`` where the split was ours or other predictions were given, not where the file has one."""
    marked = with_commands(over_confident(split=np.arange(2000) % 2, source=FILE)).verdict.sentences[-1]
    drawn = with_commands(over_confident(source=FILE)).verdict.sentences[-1]
    assert "`calibrant fit p.npz --method temperature --out temperature.safetensors`" in marked
    assert "`calibrant fit p.npz --all --method temperature --out temperature.safetensors`" in drawn


def test_predictions_from_memory_are_repaired_in_python() -> None:
    """The lines run; a repair by groups has no arm, and is fitted by the command."""
    evaluation = over_confident()
    fit, apply = with_commands(evaluation).verdict.commands
    defined = {"calibrant": calibrant, "evaluation": evaluation, "new_predictions": Predictions(logits=NEW)}
    exec(f"{fit}\n{apply}", defined)
    assert isinstance(repaired := defined["repaired"], Predictions)
    assert repaired.num_samples == len(NEW)
    repair = evaluation.verdict.repair
    assert repair is not None
    assert repair_commands(replace(repair, by_group=True))[0].startswith("calibrant fit FILE --all --method")


def test_a_file_that_begins_with_a_hyphen_is_no_option(repair) -> None:
    """The command names it as ``./-x.npz``."""
    fit, _ = repair_commands(replace(repair, file="-x y.npz"))
    assert fit.startswith("calibrant fit './-x y.npz' --method")
    fit, _ = repair_commands(replace(repair, method='temperature(objective="ece")'))
    assert (
        fit == """calibrant fit p.npz --method 'temperature(objective="ece")' --out temperature.safetensors"""
    )


@pytest.mark.parametrize(
    ("form", "new"),
    [
        ("npz", "NEW.npz --out REPAIRED.npz"),
        ("csv", "NEW.csv --out REPAIRED.csv"),
        ("csv.gz", "NEW.csv.gz --out REPAIRED.csv.gz"),
        ("npy", "NEW_logits.npy --out REPAIRED.npz"),
        ("a form of one's own", "NEW.npz --out REPAIRED.npz"),
    ],
)
def test_files_are_named_as_the_user_has_them(repair, form, new) -> None:
    """After a CSV file new predictions are CSV; ``.npy`` files say what they hold, and are not written."""
    apply = repair_commands(replace(repair, format=form))[1]
    assert apply == f"calibrant apply temperature.safetensors {new}"
