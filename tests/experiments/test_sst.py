"""The SST row: both conventions, the published numbers, and when a claim is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant.experiments.claims import OWN
from calibrant.experiments.grid import load_grid
from calibrant.experiments.published import facts
from calibrant.experiments.studies import sst
from calibrant.experiments.studies.losses.settings import FCL
from calibrant.experiments.studies.sst import PAGE
from calibrant.experiments.studies.sst.claims import claims
from calibrant.experiments.studies.sst.measure import judged
from calibrant.experiments.studies.sst.settings import (
    CONVENTIONS,
    LOSSES,
    METRICS,
    RENORMALISED,
    STAGES,
    STRUCK,
)
from calibrant.experiments.tasks.training import recipe_of
from calibrant.training import load_recipe
from calibrant.training.neutral import conventions_of

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def committed() -> Any:
    """The numbers of the page."""
    return PAGE.read(RESULTS)


def test_errors_are_those_of_the_runs_report() -> None:
    """ECE and temperatures under both conventions are what a run says of itself."""
    generator = torch.Generator().manual_seed(0)
    wide = (2 * torch.randn(120, 3, generator=generator)).log_softmax(1)[:, ::2]
    labels = (torch.rand(120, generator=generator) < wide.softmax(1)[:, 1]).long()
    logits = {"calibration": wide[:60], "test": wide[60:]}
    split = {"calibration": labels[:60], "test": labels[60:]}
    own = conventions_of(logits, split, num_bins=15)
    for convention in (STRUCK, RENORMALISED):
        found = judged(logits, split["calibration"], split["test"], convention)
        assert set(found["stages"]) == set(STAGES)
        assert all(set(stage) == set(METRICS) for stage in found["stages"].values())
        for stage, name in (("before", "before"), ("temperature", "by_nll"), ("by-ece", "by_ece")):
            assert found["stages"][stage]["ece"] == pytest.approx(own[convention][name]["ece"], abs=1e-9)
        assert found["parameters"]["ece_temperature"] == own[convention]["by_ece"]["temperature"]
        assert found["stages"]["before"]["error"] == pytest.approx(own["error"], abs=1e-12)


def test_all_printed_numbers_are_there() -> None:
    """Every number of the row in tables 1 to 3 and 7 to 13, once for each loss and quantity."""
    tables = {"1", "2", "3", "7", "8", "9", "10", "11", "12", "13"}
    wanted = {
        (fact.method, fact.metric, fact.stage, fact.value)
        for fact in facts("mukhoti-2020")
        if fact.dataset == "SST-Binary" and fact.table in tables
    }
    found = committed()["published"]
    assert len(found) == len(wanted)
    assert sorted(each["value"] for each in found) == sorted(value for *_, value in wanted)


def with_seeds(count: int, temperatures: dict[str, float]) -> dict[str, Any]:
    """Numbers of some losses, the first committed run's but for their temperatures, with several seeds."""
    numbers = committed()
    run = numbers["runs"][0]
    runs: list[dict[str, Any]] = []
    for loss, temperature in temperatures.items():
        for seed in range(count):
            both = {
                name: {
                    **run["conventions"][name],
                    "parameters": {
                        **run["conventions"][name]["parameters"],
                        "temperature": temperature * (1 + 0.001 * seed),
                    },
                }
                for name in CONVENTIONS
            }
            runs.append({**run, "loss": loss, "seed": seed, "conventions": both})
    return {**numbers, "runs": runs}


def test_the_binary_theory_is_decided_by_the_ratio() -> None:
    """It holds where focal loss needs cross-entropy's temperature times the map's; three seeds decide."""
    rows = committed()["theory"]
    right = {"cross-entropy": 2.0} | {f"focal-{row['gamma']:g}": 2.0 * row["binary"] for row in rows}
    wrong = dict.fromkeys(right, 2.0)
    for temperatures, verdict in ((right, "holds"), (wrong, "does not hold")):
        found = {claim.key: claim.verdict for claim in claims(with_seeds(3, temperatures))}
        assert found["binary-theory, renormalised"] == verdict
    asked = {claim.key for claim in claims(with_seeds(2, right))}
    assert not any(key.startswith(("binary-theory", "over-confident", "best-gamma")) for key in asked)


def test_claims_stand_beside_the_papers_own_row() -> None:
    """Where the text and the row of SST disagree, the row is beside the verdict, in the order of the arms."""
    names = ("cross-entropy", "brier", "sample-focal", "focal-1", "focal-2", "focal-3")
    losses: dict[str, float] = dict.fromkeys(names, 2.0)
    found = {claim.key: claim.evidence for claim in claims(with_seeds(3, losses))}
    assert "; the row of Mukhoti et al. (2020) has 9.19, 7.37 %," in found["flsd-ece-before"]
    assert "; the row of Mukhoti et al. (2020) has 1.83, 2.79 %," in found["flsd-temperature-against-brier"]
    assert "; the row of Mukhoti et al. (2020) has 6.78, 3.05, 16.05 %," in found["best-gamma-ece"]
    assert "; the row of" not in found["over-confident"]


def test_statements_are_of_the_epoch_that_is_kept() -> None:
    """No claim speaks of how training ends, for the runs are judged at another epoch."""
    found = {claim.key: claim.statement for claim in claims(with_seeds(3, {"cross-entropy": 2.0}))}
    assert found["over-confident"].startswith("Cross-entropy is over-confident at the epoch that is kept")
    assert not any(" ends " in said for said in found.values())


def test_table_2_is_asked_of_sst() -> None:
    """Focal loss against cross-entropy after temperature scaling by adaptive ECE, as published."""
    found = {
        claim.key: claim.evidence for claim in claims(with_seeds(3, {"cross-entropy": 2.0, "focal-3": 2.0}))
    }
    assert "; the row of Mukhoti et al. (2020) has " in found["competitive-adaptive_ece-temperature"]
    assert not any("above-99" in key for key in found)


def test_claims_of_a_paper_without_sst_are_ours() -> None:
    """The paper on FCL prints no SST, and no paper compares focal loss under the two conventions."""
    found = claims(committed())
    assert not any(claim.source == FCL for claim in found)
    of_fcl = [claim for claim in found if claim.key.startswith(("fcl-", "after-fcl-", "errs-fcl-"))]
    assert {claim.source for claim in of_fcl} == {OWN}
    assert next(claim for claim in found if claim.key == "convention-focal-3").source == OWN


def test_tables_begin_after_a_blank_line() -> None:
    """Markdown readers take a table for prose that stands right below a line of prose."""
    lines = PAGE.text(committed()).splitlines()
    heads = [place for place, line in enumerate(lines) if line.startswith("| --- ")]
    assert len(heads) > 5
    assert all(not lines[place - 2] for place in heads)


def test_the_page_says_what_was_not_run() -> None:
    """The page counts finished runs and those that are missing."""
    numbers = committed()
    shown = PAGE.text(numbers)
    assert f"**{len(numbers['runs'])} of {numbers['wanted']} runs**" in shown
    fewer = {**numbers, "runs": numbers["runs"][:1]}
    assert f"**Not run:** {numbers['wanted'] - 1} runs" in PAGE.text(fewer)


def test_the_grid_is_the_recipe_s() -> None:
    """The grid has every loss of the page, and the network and training that the recipe has."""
    points = load_grid(Path(sst.__file__).with_name("grid.toml")).points
    assert {point.settings["loss"] for point in points} == {loss.text for loss in LOSSES}
    recipe = load_recipe(RESULTS.parents[1] / "recipes" / "sst-tree-lstm.toml")
    assert not recipe.differences(recipe_of(points[0].settings))
