"""Weights of focal calibration loss: verdicts follow planted numbers; lengths of boundaries are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import losses
from calibrant_lab.figures.fcl_boundaries.measure import Boundary, shape_of
from calibrant_lab.sweep.grid import load_grid
from papers import fcl_weights
from papers.fcl_weights import PAGE
from papers.fcl_weights.claims import claims
from papers.fcl_weights.settings import LOSSES, key_of


def test_every_run_has_its_place() -> None:
    """The grid has every arm, and all its losses can be built."""
    points = load_grid(Path(fcl_weights.__file__).with_name("grid.toml")).points
    assert {point.settings["loss"] for point in points} == set(LOSSES.values())
    for loss in LOSSES.values():
        losses.build(loss)


def planted(errors: dict[str, float], lengths: dict[str, float], seeds: int = 3) -> dict[str, Any]:
    """Each arm has an ECE, of which temperature scaling leaves 1 %."""

    def run(seed: int, error: float) -> dict[str, Any]:
        names = ("error", "nll", "ece", "adaptive_ece", "classwise_ece")
        return {
            "seed": seed,
            "before": dict.fromkeys(names, error * (1 + 0.01 * seed)),
            "after": dict.fromkeys(names, 0.01),
            "temperature": 1.0,
            "epochs": 100 * error + 0.1 * seed,
            "early": error + 0.001 * seed,
        }

    def boundary(seed: int, length: float) -> dict[str, float]:
        return {
            "seed": seed,
            "length": length + 0.1 * seed,
            "turning": length,
            "confidence": 0.9,
            "accuracy": 0.9,
        }

    return {
        "wanted": 105,
        "seeds": 5,
        "made_by": "",
        "cpu_seconds": 60.0,
        "arms": [
            {"arm": arm, "runs": [run(s, value) for s in range(seeds)]} for arm, value in errors.items()
        ],
        "boundaries": [
            {"arm": arm, "runs": [boundary(s, value) for s in range(seeds)]} for arm, value in lengths.items()
        ],
    }


def test_verdicts_follow_the_numbers() -> None:
    """A lower error with the distance holds, a higher one does not; two seeds ask nothing."""
    none, papers, most = (key_of(3, weight) for weight in (0.0, 0.5, 2.0))
    lengths = {"focal": 7.0, "focal-calibration": 6.0}
    numbers = planted({none: 0.06, papers: 0.02, most: 0.04}, lengths)
    found = {claim.key: claim.verdict for claim in claims(numbers)}
    for key in ("ece-before-3", "too-much-2-before-3", "gap-ece-3", "epochs-3", "early-3", "boundary"):
        assert found[key] == "holds", key
    turned = {claim.key: claim.verdict for claim in claims(PAGE.exchanged(numbers, papers, none))}  # pyright: ignore[reportOptionalCall]
    assert turned["ece-before-3"] == turned["gap-ece-3"] == "does not hold"
    assert turned["boundary"] == "holds"
    assert "| γ = 3 | 6.0" in PAGE.text(numbers)
    assert claims(planted({none: 0.06, papers: 0.02}, lengths, seeds=2)) == []


def test_the_paper_s_claims_are_of_its_exponent_and_of_speed() -> None:
    """Its weight goes with one exponent, and its speed is that of each loss's own course, not a level."""
    arms = {key_of(gamma, weight): 0.01 + weight / 100 for gamma in (1, 3) for weight in (0.0, 0.5, 2.0)}
    sources = {claim.key: claim.source for claim in claims(planted(arms, {}))}
    assert {sources[f"{key}-1"] for key in ("ece-before", "nll", "too-much-2-before", "gap-ece")} == {
        "this project"
    }
    assert "5.5.2" in sources["ece-before-3"]
    assert "5.5.1" in sources["epochs-3"]
    assert sources["early-3"] == "this project"
    assert "gap-adaptive_ece-3" in sources
    assert "gap-adaptive_ece-1" not in sources


def test_the_best_weight_is_below_every_other() -> None:
    """By each error, before and after, of one exponent; a larger weight that is better refutes it."""
    weights = {0.0: 0.06, 0.5: 0.02, 1.0: 0.01, 2.0: 0.04}
    arms = {key_of(gamma, weight): error for weight, error in weights.items() for gamma in (1, 3)}
    found = {claim.key: claim.verdict for claim in claims(planted(arms, {}))}
    for end in ("", "-adaptive_ece", "-classwise_ece"):
        assert found[f"ece-before-3{end}"] == found[f"too-much-2-before-3{end}"] == "holds"
        assert found[f"too-much-1-before-3{end}"] == "does not hold"
        assert found[f"too-much-2-after-3{end}"] == "undecided"
    assert "too-much-2-before-1" in found
    assert "too-much-2-before-1-adaptive_ece" not in found


def test_the_exponent_that_the_paper_keeps_is_not_known() -> None:
    """So all that it says of weights is left open, whatever is found; what other exponents do is ours."""
    better, worse = {0.0: 0.06, 0.5: 0.02, 1.0: 0.04}, {0.0: 0.02, 0.5: 0.06, 1.0: 0.08}
    for other in (worse, better):
        arms = {key_of(3, weight): error for weight, error in better.items()}
        arms |= {key_of(1, weight): error for weight, error in other.items()}
        asked = {claim.key: claim for claim in claims(planted(arms, {}))}
        for key in ("ece-before-3", "ece-before-3-classwise_ece", "nll-3", "too-much-1-before-3"):
            assert (asked[key].said, asked[key].verdict) == ("depends on the exponent", "holds")
        assert not asked["ece-before-1"].departures
        text = PAGE.text(planted(arms, {}))
        assert ("with γ = 3 and higher with γ = 1." in text) == (other is worse)


def test_what_is_left_to_temperature_scaling_is_not_the_paper_s_comparison() -> None:
    """Its tables have tuned weights against FLSD-53, so they are left open; other exponents are ours."""
    arms = {key_of(gamma, weight): 0.06 - weight / 50 for gamma in (1, 3) for weight in (0.0, 0.5)}
    asked = {claim.key: claim for claim in claims(planted(arms, {}))}
    assert asked["gap-ece-3"].said == asked["gap-adaptive_ece-3"].said == "depends on the tuning"
    assert asked["gap-ece-1"].said == "holds"


def test_more_of_the_distance_costs_likelihood_and_accuracy() -> None:
    """Asked of the paper's exponent; a larger weight with the lower numbers refutes it."""
    arms = {key_of(3, weight): error for weight, error in {0.5: 0.02, 1.0: 0.01, 2.0: 0.04}.items()}
    found = {claim.key: claim.verdict for claim in claims(planted(arms, {}))}
    assert found["larger-nll-2-3"] == found["larger-error-2-3"] == "holds"
    assert found["larger-nll-1-3"] == found["larger-error-1-3"] == "does not hold"


def test_gains_where_the_temperature_is_not_one_are_told() -> None:
    """With two seeds at 1.0 nothing is gained; what the third gains is on the page."""
    numbers = planted({key_of(3, 0.5): 0.02}, {})
    run = numbers["arms"][0]["runs"][2]
    run["temperature"] = 1.1
    assert "with 2 of 3 seeds; otherwise it takes 1.04 points" in PAGE.text(numbers)


def test_what_the_schedule_decides_is_left_open() -> None:
    """The paper's figure shows each loss's own value; an epoch after the drop says nothing of speed."""
    lengths = {"focal": 7.0, "focal-calibration": 6.0}
    numbers = planted({key_of(3, 0.0): 0.06, key_of(3, 0.5): 0.02}, lengths)
    asked = {claim.key: claim for claim in claims(numbers)}
    assert asked["epochs-3"].said == "depends on the schedule"
    assert asked["boundary"].source == "this project"
    assert "A.11" in asked["boundary-bends"].source


def test_equal_temperatures_of_the_grid_are_named() -> None:
    """Where every seed has the same one, the page says that its interval is the grid's."""
    assert "(focal calibration, γ = 3, λ = 0.5: 1.0)" in PAGE.text(
        planted({key_of(3, 0.5): 0.02}, {"focal": 7.0})
    )


def test_length_and_turning_of_a_circle() -> None:
    """A circle of radius 1/2: its boundary is π long and turns once around."""
    across = np.linspace(-1, 1, 101)
    radius = np.hypot(*np.meshgrid(across, across))
    none = np.zeros((0, 2))
    found = Boundary(
        points=none, labels=none[:, 0], across=across, up=across, probs=radius, confidence=0.0, accuracy=0.0
    )
    length, turning = shape_of(found)
    assert length == pytest.approx(np.pi, abs=0.01)
    assert 2 * np.pi - 0.4 < turning < 2 * np.pi + 0.01  # less what the first and the last step leave out
