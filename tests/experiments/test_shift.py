"""The shift study: what a run measures, and what the page makes of several."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from calibrant.data import Preparation
from calibrant.data.images.corruptions import CORRUPTIONS
from calibrant.experiments.studies.shift import PAGE, measure
from calibrant.experiments.studies.shift.claims import claims, led_in_table
from calibrant.experiments.studies.shift.measure import ShiftedNetwork, logits_of, recipe_of
from calibrant.experiments.studies.shift.numbers import effect, kept_of, largest, numbers_of
from calibrant.experiments.studies.shift.settings import (
    CORRUPTED_CIFAR,
    DEFAULTS,
    FOREIGN,
    PAPER_FCL,
    SEVERITIES,
    STAGES,
    SVHN,
    TABLE_4,
    TITLES,
)
from calibrant.experiments.studies.shift.words import words

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def found(ece: float, auroc: float) -> dict[str, Any]:
    """What a run might have found; temperature scaling halves the error, shift adds to it."""
    both = {"entropy": auroc, "max_probability": auroc}

    def judged(severity: int) -> dict[str, Any]:
        return {
            stage: {
                "error": 0.1,
                "ece": (ece + 0.01 * severity) / (1 if stage == "as-trained" else 2),
                "nll": 1.0,
                "gap": 0.1,
            }
            for stage in STAGES
        }

    return {
        "train_accuracy": 0.9,
        "temperature": 1.5,
        "clean": judged(0),
        "clean_shown": judged(0),
        "foreign": {name: dict.fromkeys(STAGES, both) for name in (*FOREIGN, "corrupted")},
        "shifts": [
            {"corruption": corruption, "severity": severity, **judged(severity)}
            for corruption in CORRUPTIONS
            for severity in SEVERITIES
        ],
    }


def numbers_with() -> dict[str, Any]:
    """Three seeds of every loss, four of the first; later losses tell foreign images better."""
    runs = [
        {
            **DEFAULTS,
            "loss": loss,
            "seed": seed,
            "cpu_seconds": 60.0,
            **kept_of(found(0.05 + 0.001 * seed, 0.8 + 0.01 * place)),
        }
        for place, loss in enumerate(TITLES)
        for seed in range(4)
        if seed < 3 or loss == "cross-entropy"
    ]
    return numbers_of(runs, {})


def test_claims_follow_from_runs_of_several_seeds() -> None:
    """Each severity is a mean over corruptions, each seed counts once, and what is missing is said."""
    numbers = numbers_with()
    first = numbers["arms"][0]["runs"][1]["severities"]
    assert first["as-trained"][4]["ece"] == pytest.approx(0.051 + 0.05)
    said = {claim.key: claim for claim in claims(numbers)}
    assert said["temperature against as-trained, severity 5"].verdict == "holds"
    assert "n = 4 seeds" in said["temperature against as-trained, severity 5"].evidence
    assert said["vector against temperature, severity 5"].verdict == "undecided"
    assert said["temperature against as-trained, severity 2, after brier"].verdict == "holds"
    assert said["above-clean, cross-entropy"].verdict == "holds"
    assert said["above-clean, cross-entropy, fog"].verdict == "holds"
    assert said["under-confident, brier"].verdict == "does not hold"
    assert said["foreign, fcl against cross-entropy, mnist"].verdict == "holds"
    assert f"**Not run:** {len(TITLES) - 1} runs, about 0.1 CPU hours" in PAGE.text(
        {"made_by": "", **numbers}
    )


def test_one_corruption_can_make_the_mean() -> None:
    """Without the corruption under which two calibrators differ most, the mean is that of the others."""
    one = found(0.05, 0.8)
    for each in one["shifts"]:
        if each["corruption"] == "contrast" and each["severity"] == 5:
            each["temperature"]["ece"] = 0.9
    runs = {seed: kept_of(one) for seed in range(2)}
    assert largest(runs, 4, "temperature", "as-trained") == "contrast"
    assert effect(runs, 4, "temperature", "as-trained").value == pytest.approx((-0.05 * 14 + 0.8) / 15)
    assert effect(runs, 4, "temperature", "as-trained", without="contrast").value == pytest.approx(-0.05)


def test_the_table_is_read_by_its_rows() -> None:
    """Foreign sets are held against the rows of SVHN, corrupted images against those of CIFAR-10-C."""
    assert led_in_table(["brier"], SVHN) == (2, 4)
    assert led_in_table(["brier"], CORRUPTED_CIFAR) == (3, 4)
    assert [led_in_table(TABLE_4.values(), rows) for rows in (SVHN, CORRUPTED_CIFAR)] == [(2, 4), (3, 4)]
    said = {claim.key: claim for claim in claims(numbers_with())}
    sources = {
        (other, foreign): said[f"foreign, fcl against {other}, {foreign}"].source
        for other in ("brier", "dual-focal(gamma=5)", "mmce")
        for foreign in ("mnist", "corrupted")
    }
    assert {pair for pair, source in sources.items() if source != PAPER_FCL} == {
        ("brier", "mnist"),
        ("dual-focal(gamma=5)", "mnist"),
    }


def test_a_few_corruptions_can_make_the_rise_above_clean() -> None:
    """The claim says what is left of it without the corruptions that differ most."""
    numbers = numbers_with()
    for arm in numbers["arms"]:
        for run in arm["runs"]:
            for place, (name, found) in enumerate(run["corruptions"].items()):
                many = name in {"frost", "fog", "brightness", "contrast"}
                clean = run["clean_shown"]["temperature"]["ece"]
                found["temperature"][-1] = clean + (0.1 + 0.01 * place if many else -0.001)
    evidence = {claim.key: claim.evidence for claim in claims(numbers)}["above-clean, brier"]
    assert "-0.10 ± 0.00 without contrast, brightness, fog and frost, which differ most" in evidence
    assert f"*does not hold* for all {len(TITLES)} losses" in words(numbers)["left_without"]


def test_what_a_temperature_does_is_told_by_its_sides() -> None:
    """Softening turns over-confidence round or adds to under-confidence, sharpening takes from it."""
    numbers = numbers_with()
    for loss, temperature, trained, scaled in (
        ("cross-entropy", 1.5, 0.05, -0.02),
        ("brier", 1.5, -0.02, -0.05),
        ("mmce", 0.8, -0.05, -0.02),
    ):
        arm = next(each for each in numbers["arms"] if each["loss"] == loss)
        for run in arm["runs"]:
            run["temperature"] = temperature
            for stage, gap in (("as-trained", trained), ("temperature", scaled)):
                for each in run["severities"][stage][:2]:
                    each["gap"] = gap
    turns, adds, takes = words(numbers)["sides"]
    at = "at severities 1 and 2"
    assert (turns, adds, takes) == (f"cross-entropy {at}", f"Brier {at}", f"MMCE {at}")


def test_verdicts_that_one_corruption_turns_are_counted() -> None:
    """One that decides a mean by itself changes the word of that comparison, and of no other."""
    numbers = numbers_with()
    assert words(numbers)["turned"].startswith(f"0 of {len(TITLES) * 15} verdicts")
    run = next(each for each in numbers["arms"] if each["loss"] == "brier")["runs"]
    for each in run:
        each["corruptions"]["fog"]["vector"][4] -= 0.1
    assert words(numbers)["turned"].startswith(f"1 of {len(TITLES) * 15} verdicts")
    assert "1 on vector scaling against temperature scaling" in words(numbers)["turned"]


def test_readings_of_the_auroc_are_compared() -> None:
    """A verdict that another score turns is counted under that score alone."""
    numbers = numbers_with()
    assert words(numbers)["readings"]["changed"].startswith("0 by the top probability after T")
    for run in next(each for each in numbers["arms"] if each["loss"] == "cross-entropy")["runs"]:
        run["foreign"]["mnist"]["as-trained"] = {"entropy": 0.99, "max_probability": 0.8}
    changed = words(numbers)["readings"]["changed"]
    assert changed.endswith("1 by the entropy as trained and 0 by the entropy after T")


def test_foreign_is_told_by_low_confidence() -> None:
    """Above one half where foreign images are the unsure ones."""
    sure, unsure = torch.tensor([[0.9, 0.1]]), torch.tensor([[0.6, 0.4]])
    both = torch.cat([sure, sure]).double()
    assert measure._told(both, unsure.double()) == {"entropy": 1.0, "max_probability": 1.0}  # pyright: ignore[reportPrivateUsage]
    assert measure._told(both[:1] * 0 + unsure, both)["entropy"] == 0.0  # pyright: ignore[reportPrivateUsage]


def test_images_are_prepared_as_in_training() -> None:
    """Bytes become fractions less the mean, and batches make no difference."""
    images = torch.arange(5 * 4, dtype=torch.uint8).reshape(5, 1, 2, 2)
    prepared = Preparation.given([0.5], [0.25], 1)
    wanted = ((images.double() / 255 - 0.5) / 0.25).flatten(1)
    assert torch.allclose(logits_of(nn.Flatten(), prepared, images).double(), wanted, atol=1e-6)


def test_logits_come_back_to_the_cpu() -> None:
    """Images and what prepares them go to where the network lies."""
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)).to("meta")
    images = torch.zeros(3, 1, 2, 2, dtype=torch.uint8)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):  # they have arrived
        logits_of(network, Preparation.given([0.5], [0.25], 1), images)


def test_the_recipe_is_that_of_the_study_of_losses() -> None:
    """But for what the grid says."""
    recipe = recipe_of({**DEFAULTS, "loss": "brier", "seed": 2})
    assert (recipe.loss, recipe.seed, recipe.data.name) == ("brier", 2, "fashion_mnist")
    assert "StridedCNN" in recipe.model


@pytest.mark.slow
@pytest.mark.real_data
def test_a_run_trains_and_judges(data_folder: Path) -> None:
    """A small run has all that the page asks for, and the same seed gives the same numbers."""
    assert data_folder.is_dir()
    task = ShiftedNetwork()
    settings = task.complete({"train": 300, "epochs": 1, "images": 20})
    one = task.simulate(settings)
    assert json.dumps(one) == json.dumps(task.simulate(settings))
    numbers = numbers_of([{**settings, **kept_of(one), "cpu_seconds": 1.0}], {})
    assert "Telling foreign images" in PAGE.text({"made_by": "", **numbers})
