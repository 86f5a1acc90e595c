"""CIFAR-10: a place for every run of the grid, and each paper asked with its own reduction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.shift.numbers import foreign_sets
from papers.shift.settings import STAGES as STAGES_OF_SHIFT

from calibrant_lab.sweep.grid import load_grid
from papers import cifar10
from papers.cifar10 import CIFAR10
from papers.cifar10.claims import claims
from papers.cifar10.numbers import arms_of, numbers_of, swapped
from papers.cifar10.settings import (
    CORRUPTIONS,
    DROPS,
    FOREIGN,
    NO_DECAY,
    NORMS,
    RATES,
    STEPS,
)
from papers.cifar10.words import words
from papers.claims import OWN
from papers.gammas.settings import FITS, ROWS_SIZE
from papers.gammas.settings import LOSSES as OF_TABLE_1
from papers.losses.settings import BY_DESIGN, FCL, MUKHOTI
from papers.sum_or_mean.settings import MEAN, SUM
from papers.texts.settings import METRICS, STAGES

PARAMETERS = ("temperature", "ece_temperature", "adaptive_ece_temperature", "focal_temperature", "gamma")
POINTS = load_grid(Path(cifar10.__file__).with_name("grid.toml")).points
SEEDS = len({point.settings["seed"] for point in POINTS})


def runs(*, seeds: int = SEEDS) -> list[dict[str, Any]]:
    """Every run of the grid; its numbers grow with its place and differ a little from seed to seed."""
    found: list[dict[str, Any]] = []
    for point in POINTS:
        settings = point.settings
        names = [_but_seed(each.axes) for each in POINTS]
        place, seed = names.index(_but_seed(point.axes)), settings["seed"]
        value = 0.01 * (1 + place) + 0.0001 * seed
        side = dict.fromkeys(("accuracy", "ece", "nll", "error", "gap"), value) | {"temperature": 1 + value}
        fit = {"T": 1 + value, "gamma": 0.5, "nll": value, "adaptive_ece": value}
        if seed < seeds:
            found.append(
                {
                    **settings,
                    "cpu_seconds": 360.0,
                    "train_accuracy": 1.0,
                    "error": value,
                    **dict.fromkeys(FITS, fit),
                    "train": side,
                    "new": side,
                    "stages": dict.fromkeys(("before", *STAGES), dict.fromkeys(METRICS, value)),
                    "parameters": dict.fromkeys(PARAMETERS, 1 + value),
                    "norms": {"1": 1.0, "30": 2.0},
                    "people": {
                        stage: {"nll": value + 0.01 * step, "distance": value}
                        for step, stage in enumerate(("before", "temperature", "focal-temperature"))
                    },
                    "shift": {
                        "clean_shown": {key: {"ece": value} for key in STAGES_OF_SHIFT},
                        "severities": {key: [{"ece": value}] * 5 for key in STAGES_OF_SHIFT},
                        "foreign": {
                            name: {key: {"max_probability": value} for key in STAGES_OF_SHIFT}
                            for name in foreign_sets(len(CORRUPTIONS), FOREIGN)
                        },
                    },
                }
            )
    return found


def _but_seed(axes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in axes.items() if name != "seed"}


def numbers() -> dict[str, Any]:
    """The numbers of a finished grid."""
    closest = dict.fromkeys(("1", "2", "3", "5", "7"), 0.5)
    return {"made_by": "", **numbers_of(runs(), {"wanted": len(POINTS), "seeds": SEEDS, "closest": closest})}


def test_every_run_has_its_place() -> None:
    """Each point of the grid is a loss of its way, and those with the sum are rows of table 1."""
    found = numbers()
    assert {point.settings["data.train"] for point in POINTS} == {ROWS_SIZE}
    assert sum(len(arm.runs) for way in STEPS for arm in arms_of(found, way).values()) == len(POINTS)
    rows = {row["arm"]: row["runs"] for row in found["exponents"]["rows"]}
    assert rows.keys() == OF_TABLE_1.keys()
    plain = {run["error"] for run in rows["cross-entropy"]}
    assert len(plain) == SEEDS  # and no run without weight decay among them
    assert plain.isdisjoint(run["error"] for run in runs() if run["optimiser.weight_decay"] == 0.0)


def test_each_paper_is_asked_with_its_reduction() -> None:
    """Claims of 2020 with the sum, those on FCL with the mean; a claim that mixes both does not exchange."""
    found = claims(numbers())
    assert len({claim.key for claim in found}) == len(found)
    assert all("(with the sum)" in each.statement for each in found if each.source == MUKHOTI)
    assert all("(with the mean)" in each.statement for each in found if each.source == FCL)
    by_key = {claim.key: claim for claim in found}
    assert "(with the sum)" in by_key["flsd-nll-before"].statement
    assert by_key["flsd-before-against-brier"].arms == ()
    assert by_key["fcl-brier"].arms == ("focal-calibration", "brier")
    assert by_key["cross-entropy, temperature, mean against sum"].verdict == "does not hold"
    assert by_key["focal-3, ece, sum against mean"].verdict == "holds"
    assert by_key["weight-decay"].verdict == "holds"  # without it comes later, so has more
    assert by_key["foreign-notmnist_ood-brier"].verdict == "does not hold"  # Brier comes later, so has more
    assert by_key["foreign-notmnist_ood-cross-entropy"].verdict == "holds"
    assert by_key["people-focal-temperature-focal-3-sum"].verdict == "does not hold"
    no_decay = [each for each in found if each.key.startswith("foreign-") and each.key.endswith("no-decay")]
    assert {each.source for each in no_decay} == {OWN}  # the table's cross-entropy has it


def test_rates_match_lengths() -> None:
    """Each rate makes a gradient of the mean, times the rate, as long as the one that it is matched to."""
    plain, focal = NORMS["cross-entropy"], NORMS["focal-3"]
    clip = STEPS[SUM].clip
    assert math.isclose(RATES["step"] * plain, RATES[SUM] * clip, rel_tol=0.002)
    assert math.isclose(RATES["long"] * focal, RATES[SUM] * clip, rel_tol=0.002)
    assert math.isclose(RATES["slow"] * plain, RATES[MEAN] * focal, rel_tol=0.002)
    by_key = {claim.key: claim for claim in claims(numbers())}
    for way in (SUM, "long", MEAN):
        for name in ("temperature", "ece"):
            assert f"{name} at equal steps, {way}" in by_key
    assert by_key[f"temperature at equal steps, {SUM}"].arms == ("focal-3", "cross-entropy")
    assert by_key["temperature at equal steps, long"].arms == ()  # arms of two ways do not exchange


def test_lengths_are_shown_of_the_runs_that_recorded_them() -> None:
    """Times the rate, at each of its levels, with the number of runs where not all did."""
    every = [dict(run) for run in runs()]
    step, slow = RATES["step"], RATES["slow"]
    for run in every:
        late = {str(epoch): 8.0 for epoch in range(DROPS[0] + 1, 31)}
        if run["optimiser.learning_rate"] == step and run["seed"] == 0:
            run["gradients"] = {**{str(epoch): 2.0 for epoch in range(1, DROPS[0] + 1)}, **late}
            run["clipped"] = {epoch: float(length > 2) for epoch, length in run["gradients"].items()}
        if run["optimiser.learning_rate"] == slow:
            run["gradients"] = {**{str(epoch): 1.0 for epoch in range(1, DROPS[0] + 1)}, **late}
            run["clipped"] = dict.fromkeys(run["gradients"], 0.25)
    table = words({**numbers(), **numbers_of(every, {})})["steps"].splitlines()
    last = {row.split(" | ")[1]: row.split(" | ")[-1] for row in table if row.startswith("| cross-entropy |")}
    assert last[STEPS["step"].title] == f"{2 * step:.2g}, {0.8 * step:.2g}, {0.08 * step:.2g} (n = 1) |"
    assert last[STEPS["slow"].title] == f"{slow:.2g}, {0.8 * slow:.2g}, {0.08 * slow:.2g} |"
    assert last[STEPS[SUM].title] == "– |"
    of_ways = words({**numbers(), **numbers_of(every, {})})["by_way"]
    (row,) = (each for each in of_ways["clipped"].splitlines() if each.startswith("| cross-entropy |"))
    assert row == "| cross-entropy | – | – | 0.0, 100.0 (n = 1) |  | 25.0, 25.0 |"


def test_what_was_chosen_decides_no_claim() -> None:
    """Over-confidence was chosen, so it is left open; section 4.1 is asked with both reductions."""
    by_key = {claim.key: claim for claim in claims(numbers())}
    assert by_key["over-confident"].departures == (BY_DESIGN,)
    assert by_key[f"above-one-{ROWS_SIZE}"].departures == (BY_DESIGN,)
    assert by_key[f"same-ratio-focal-3-{ROWS_SIZE}-mean"].verdict == "holds"
    assert "(with the sum)" in by_key[f"same-ratio-focal-3-{ROWS_SIZE}"].statement


def test_reductions_exchange() -> None:
    """With the two reductions exchanged, what compares them turns."""
    turned = {claim.key: claim.verdict for claim in claims(swapped(numbers(), SUM, MEAN))}
    assert turned["cross-entropy, temperature, mean against sum"] == "holds"


def test_the_page_says_what_was_not_run() -> None:
    """The page counts finished runs and those that are missing; it renders with one run, too."""
    page = CIFAR10.pages[0]
    assert f"**{len(POINTS)} of {len(POINTS)} runs**" in page.text(numbers())
    assert "**In short.** With the sum, the ECE is" in page.text(numbers())
    few = {**numbers(), **numbers_of(runs()[8:9], {})}
    assert f"**Not run:** {len(POINTS) - 1} runs" in page.text(few)


def test_time_is_that_of_the_runs_on_cpus() -> None:
    """Runs on a GPU are counted beside it: their processor waited for one."""
    every = [{**run, **({"device": "a GPU"} if run["seed"] else {})} for run in runs()]
    text = CIFAR10.pages[0].text({**numbers(), **numbers_of(every, {})})
    on_cpu = len(POINTS) // SEEDS
    hours = f"{on_cpu * 360 / 3600:.1f}"
    assert f"{on_cpu} on CPUs in {hours} hours of one core, 6.0 minutes a run" in text
    assert f"and {len(POINTS) - on_cpu} on a GPU" in text


def test_every_loss_is_counted_against_the_mean_and_against_cross_entropy() -> None:
    """With the mean every loss comes later than with the sum, so that its temperature is the higher one."""
    against = words(numbers())["against"]
    both = (arms_of(numbers(), SUM).keys() & arms_of(numbers(), MEAN).keys()) - {NO_DECAY}
    assert f"With the sum the temperature is higher after 0 of {len(both)} losses (lower after" in against[0]
    assert "not beyond noise" not in against[0]
    turned = words(swapped(numbers(), SUM, MEAN))["against"]
    assert f"With the sum the temperature is higher after {len(both)} of {len(both)} losses than" in turned[0]
