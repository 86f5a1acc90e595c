"""Dynamics: verdicts follow the courses that are planted, and no run of the grid is passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant_lab.sweep.grid import load_grid
from papers import dynamics, gammas
from papers.claims import OWN
from papers.dynamics import PAGE
from papers.dynamics.claims import claims
from papers.dynamics.measure import shape_of, train_side
from papers.dynamics.numbers import arms_of, share_of
from papers.dynamics.settings import (
    EPOCHS,
    FIRST,
    HELD_OUT,
    LOSSES,
    SECOND,
    START,
    WAYS,
)
from papers.losses.settings import DROP, MUKHOTI


def courses(slopes: dict[str, float], seeds: int) -> dict[str, Any]:
    """With the sum numbers of wrong images rise by a loss's slope an epoch, those of right ones fall."""

    def run(seed: int, slope: float) -> dict[str, Any]:
        rising = [1 + epoch * slope * (1 + 0.01 * seed) for epoch in range(EPOCHS)]
        falling = [1 - 0.01 * epoch * (1 + 0.01 * seed) for epoch in range(EPOCHS)]
        held_out = {name: falling if name.endswith("_correct") else rising for name in HELD_OUT}
        return {
            "seed": seed,
            "held_out": {**held_out, "error": [0.1] * EPOCHS},
            "norms": rising,
            "train": {
                str(epoch): {"error": 0.0, "nll": 1 / epoch, "nll_correct": 1 / epoch, "nll_incorrect": 1.0}
                for epoch in (FIRST, START, EPOCHS)
            },
            "gradient_norms": {"1": 1.0, "9": 10 * slope, str(SECOND): slope, str(EPOCHS): 1.0},
        }

    arms = [
        {"arm": arm, "runs": [run(seed, slope) for seed in range(seeds)]} for arm, slope in slopes.items()
    ]
    ways = [{"way": "sum", "arms": arms}]
    return {"wanted": 50, "seeds": 5, "made_by": "", "cpu_seconds": 60.0, "ways": ways}


def test_every_run_has_its_place() -> None:
    """Each point of the grid is of one way and one loss."""
    for point in load_grid(Path(dynamics.__file__).with_name("grid.toml")).points:
        assert point.settings["reduction"] in WAYS
        assert point.settings["loss"] in {loss for loss, _ in LOSSES.values()}


def test_verdicts_follow_the_courses() -> None:
    """Steeper under cross-entropy: its account holds; less steep: it does not; two seeds ask nothing."""
    steep = {
        claim.key: claim.verdict for claim in claims(courses({"cross-entropy": 0.1, "focal-3": 0.05}, 3))
    }
    flat = {claim.key: claim.verdict for claim in claims(courses({"cross-entropy": 0.05, "focal-3": 0.1}, 3))}
    assert steep["sum-nll-rises"] == steep["sum-right-falls"] == steep["sum-wrong-rises"] == "holds"
    assert steep["sum-peaks-wrong"] == "does not hold"
    for key in ("sum-rise-focal-3", "sum-norm-last-focal-3", "sum-gradients-shrink", "sum-gradients-last"):
        assert (steep[key], flat[key]) == ("holds", "does not hold"), key
    assert (steep["sum-norm-first-focal-3"], flat["sum-norm-first-focal-3"]) == ("does not hold", "holds")
    assert claims(courses({"cross-entropy": 0.1, "focal-3": 0.05}, 2)) == []


def test_the_norm_at_first_is_that_before_the_drop() -> None:
    """One epoch alone decides nothing: the mean up to the drop does."""
    numbers = courses({"cross-entropy": 0.05, "focal-3": 0.1}, 3)
    for run in numbers["ways"][0]["arms"][0]["runs"]:
        run["norms"][0] = 1.1
    found = {claim.key: claim.verdict for claim in claims(numbers)}
    assert found["sum-norm-first-focal-3"] == "holds"


def test_a_reversal_of_norms_is_both_of_its_halves() -> None:
    """Larger under focal loss at first and smaller in the end holds; either half alone does not."""
    for slopes, at_first, verdict in (
        ({"cross-entropy": 0.1, "focal-3": 0.05}, 3.0, "holds"),
        ({"cross-entropy": 0.1, "focal-3": 0.05}, 0.5, "does not hold"),
        ({"cross-entropy": 0.05, "focal-3": 0.1}, 3.0, "does not hold"),
    ):
        numbers = courses(slopes, 3)
        for run in numbers["ways"][0]["arms"][1]["runs"]:
            run["norms"] = [at_first] * DROP + run["norms"][DROP:]
        claim = {claim.key: claim for claim in claims(numbers)}["sum-norm-reversal-focal-3"]
        assert (claim.verdict, claim.source) == (verdict, MUKHOTI)


def test_what_is_said_of_the_whole_training_is_asked_of_it() -> None:
    """An entropy and a training NLL that fall early, and not after the drop, have fallen."""
    numbers = courses({"cross-entropy": 0.05}, 3)
    for run in numbers["ways"][0]["arms"][0]["runs"]:
        run["held_out"]["entropy_incorrect"] = [1.0] * DROP + [0.5 + 0.01 * run["seed"]] * (EPOCHS - DROP)
        run["train"]["1"]["nll_incorrect"] = 2.0 + 0.01 * run["seed"]
    found = {claim.key: claim.verdict for claim in claims(numbers)}
    assert found["sum-peaks-wrong"] == found["sum-train-wrong"] == "holds"


def test_gradients_are_compared_between_the_drops() -> None:
    """As in the paper's figure; epoch for epoch the schedules differ, which leaves it open."""
    asked = {claim.key: claim for claim in claims(courses({"cross-entropy": 0.1, "focal-3": 0.05}, 3))}
    for key in ("sum-gradients-last", "sum-gradients-shrink"):
        assert asked[key].verdict == "holds"  # after the last epoch they are equally long
        assert asked[key].said == "depends on the schedule"


def test_other_starts_are_counted() -> None:
    """Where wrong images rise less under focal loss from every start, the page says how often."""
    numbers = courses({"cross-entropy": 0.1, "focal-3": 0.05}, 3)
    assert "beyond noise, in 1 of 1 comparisons" in PAGE.text(numbers)
    (run, *_) = numbers["ways"][0]["arms"][1]["runs"]
    run["held_out"]["nll_incorrect"] = [9.0 * epoch for epoch in range(EPOCHS)]
    assert "beyond noise, in 0 of 1 comparisons" in PAGE.text(numbers)


def test_errors_above_zero_are_named() -> None:
    """An error that is higher, by more than noise and less than half a point, is told."""
    numbers = courses({"cross-entropy": 0.1, "focal-3": 0.05}, 3)
    assert "errs more than cross-entropy" not in PAGE.text(numbers)
    for run in numbers["ways"][0]["arms"][1]["runs"]:
        run["held_out"]["error"] = [0.103 + 0.0001 * run["seed"]] * EPOCHS
    assert "with γ = 3, sum, clipped at 2 (+0.31 ± 0.02 points)" in PAGE.text(numbers)


def test_shared_runs_are_those_of_the_grid_of_exponents() -> None:
    """What the page says of runs that two grids share is so."""
    ours, theirs = (
        {json.dumps(dict(point.settings), sort_keys=True): point for point in load_grid(path).points}
        for path in (Path(file).with_name("grid.toml") for file in (dynamics.__file__, gammas.__file__))
    )
    shared = [ours[each].settings for each in ours.keys() & theirs.keys()]
    assert {each["reduction"] for each in shared} == {"sum"}
    assert {each["loss"] for each in shared} == {
        "cross-entropy",
        "sample-focal",
        "focal(gamma=1)",
        "focal(gamma=2)",
        "focal(gamma=3)",
    }


def test_a_higher_entropy_all_along_is_so_in_both_parts() -> None:
    """Higher after the drop alone is not enough, and it is counted in how many epochs it is higher."""
    numbers = courses({"cross-entropy": 0.05, "focal-3": 0.1}, 3)
    found = {claim.key: claim for claim in claims(numbers)}["sum-entropy-course-focal-3"]
    assert found.verdict == "holds"
    assert "before the drop -0.202 ± 0.005 (lower in 89 % of its epochs)" in found.evidence  # but the first
    assert "(lower in 100 % of its epochs), n = 3" in found.evidence
    for run in numbers["ways"][0]["arms"][1]["runs"]:
        entropy = run["held_out"]["entropy_incorrect"]
        run["held_out"]["entropy_incorrect"] = [0.5] * DROP + entropy[DROP:]
    found = {claim.key: claim for claim in claims(numbers)}["sum-entropy-course-focal-3"]
    assert found.verdict == "does not hold"


def test_levels_and_likenesses() -> None:
    """Equal errors and lengths are alike; lengths twice as long are not; a level of theirs is left open."""
    found = {claim.key: claim for claim in claims(courses({"cross-entropy": 0.05, "focal-3": 0.1}, 3))}
    assert found["sum-error-focal-3"].verdict == "holds"
    assert found["sum-gradients-similar-1"].verdict == "holds"
    assert found["sum-gradients-similar-9"].verdict == "does not hold"
    assert found["sum-gradients-similar-1"].source == MUKHOTI
    assert found["sum-gradients-similar-9"].source == OWN  # the paper has epoch 10 of 350
    assert found["sum-sure-cross-entropy"].said == "depends on the network"


def test_the_two_groups_add_up() -> None:
    """What right and wrong images add to the change of the mean is the change of the mean."""
    arm = arms_of(courses({"cross-entropy": 0.1}, 1), "sum")["cross-entropy"]
    (run,) = arm.runs.values()
    parts = sum(share_of(group, START)(run) for group in ("correct", "incorrect"))

    def mean(epoch: int) -> float:
        right, wrong = (run["held_out"][f"nll_{group}"][epoch - 1] for group in ("correct", "incorrect"))
        return 0.9 * right + 0.1 * wrong

    assert parts == pytest.approx(mean(EPOCHS) - mean(START))


def test_the_page_says_what_is_missing() -> None:
    """Without the mean's runs nothing is said of both."""
    assert "Too few seeds are finished" in PAGE.text(courses({"cross-entropy": 0.1, "focal-3": 0.05}, 3))


def test_training_samples_that_are_all_right_have_no_temperature() -> None:
    """The likeliest temperature is then the lowest; of others it is that of the odds."""
    right = train_side(torch.tensor([[2.0, 0.0]] * 5), torch.zeros(5, dtype=torch.long))
    assert right["accuracy"] == 1
    assert right["temperature"] < 0.01
    assert right["gap"] < 0
    assert shape_of(np.array([1.0, 3.0]))["50 %"] == 2
