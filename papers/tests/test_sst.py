"""The SST row: both conventions, the published numbers, and when a claim is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.published import facts
from calibrant_lab.sweep.tasks.training import recipe_of
from calibrant_lab.training import load_recipe
from calibrant_lab.training.neutral import conventions_of
from papers import sst
from papers.claims import OWN, Claim
from papers.losses.settings import FCL, MUKHOTI
from papers.sst import PAGE
from papers.sst.claims import claims
from papers.sst.measure import judged
from papers.sst.numbers import swapped
from papers.sst.settings import (
    CONVENTIONS,
    LOSSES,
    METRICS,
    OTHER_CONVENTION,
    OTHER_EPOCHS,
    RENORMALISED,
    STAGES,
    STRUCK,
    THREE_CLASSES,
)
from papers.sst.words import words

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
            own = temperature * (1 + 0.001 * seed)
            both = {
                name: {
                    **run["conventions"][name],
                    "parameters": {
                        **run["conventions"][name]["parameters"],
                        "temperature": own,
                        "ece_temperature": own,
                    },
                }
                for name in CONVENTIONS
            }
            changed = {"loss": loss, "seed": seed, "conventions": both, "temperatures": [own] * 25}
            runs.append({**run, **changed})
    return {**numbers, "runs": runs}


def planted(
    losses: Mapping[str, float], stages: Mapping[str, Mapping[str, float]], where: str
) -> dict[str, Any]:
    """Three seeds of losses with some numbers of stages under a convention, a little apart.

    Args:
        losses: What is added to the numbers of each.
        stages: The numbers, by stage and metric.
        where: The convention.
    """
    numbers = with_seeds(3, dict.fromkeys(losses, 2.0))
    for run in numbers["runs"]:
        more, old = losses[run["loss"]] + 1e-5 * run["seed"], run["conventions"][where]
        new = {
            stage: {**old["stages"][stage], **{name: value + more for name, value in found.items()}}
            for stage, found in stages.items()
        }
        run["conventions"] = {**run["conventions"], where: {**old, "stages": {**old["stages"], **new}}}
    return numbers


def by_key(numbers: dict[str, Any]) -> dict[str, Claim]:
    """The claims of the page by their keys."""
    return {claim.key: claim for claim in claims(numbers)}


def test_the_binary_theory_is_decided_by_the_ratio() -> None:
    """It holds where focal loss needs cross-entropy's temperature times the map's; three seeds decide."""
    rows = committed()["theory"]
    right = {"cross-entropy": 2.0} | {f"focal-{row['gamma']:g}": 2.0 * row["binary"] for row in rows}
    wrong = dict.fromkeys(right, 2.0)
    for temperatures, verdict in ((right, "holds"), (wrong, "does not hold")):
        found = by_key(with_seeds(3, temperatures))
        asked = [claim for key, claim in found.items() if key.startswith("binary-theory, ")]
        assert [claim.verdict for claim in asked] == [verdict] * 6
    few = by_key(with_seeds(2, right))
    assert not any(key.startswith(("binary-theory", "over-confident", "best-gamma")) for key in few)


def test_the_theory_is_asked_at_equal_epochs() -> None:
    """At focal loss's kept epoch and at the last one, of both, wherever cross-entropy's kept one is."""
    numbers = with_seeds(3, dict.fromkeys(("cross-entropy", "focal-1", "focal-2", "focal-3"), 2.0))
    binary = {f"focal-{row['gamma']:g}": row["binary"] for row in numbers["theory"]}
    for run in numbers["runs"]:
        course = [float(epoch) for epoch in range(1, 26)]
        course[8] *= binary.get(run["loss"], 1.0)
        run |= {"kept_epoch": 9 if run["loss"] in binary else 2, "temperatures": course}
    found = by_key(numbers)
    assert found["binary-theory, same-epoch"].verdict == "holds"
    assert found["binary-theory, last-epoch"].verdict == "does not hold"
    assert found["binary-theory, last-epoch"].departures == (THREE_CLASSES,)
    assert found["binary-theory, renormalised"].departures == (THREE_CLASSES, OTHER_EPOCHS)
    shown = words(numbers)["theory"]
    assert shown["size"] == "the size is right there, and the size is not after the last epoch"
    assert shown["direction"] == "undecided"  # equal temperatures after the last epoch
    assert (shown["beyond"], shown["pairs"]) == (72, 75)


def test_no_gain_is_expected_with_two_classes() -> None:
    """A change of NLL beyond the margin, up or down, refutes that the map of two classes is a temperature."""
    for change, verdict in ((0.0005, "holds"), (0.01, "does not hold"), (-0.01, "does not hold")):
        numbers = planted({"focal-3": 0.0}, {"focal-temperature": {"nll": 0.3 + change}}, RENORMALISED)
        for run in numbers["runs"]:
            run["conventions"][RENORMALISED]["stages"]["temperature"] = {"nll": 0.3, "ece": 0.02}
            run["conventions"][RENORMALISED]["stages"]["temperature"]["adaptive_ece"] = 0.02
        assert by_key(numbers)["two-classes-focal-3"].verdict == verdict


def test_a_gain_of_ece_with_two_classes_is_our_question() -> None:
    """The paper sees a gain where map and temperature differ, so it is asked of the three classes alone."""
    found = by_key(with_seeds(3, {"focal-3": 2.0}))
    gains = {key: claim for key, claim in found.items() if "focal-temperature-" in key and "nll" not in key}
    assert gains
    for key, claim in gains.items():
        assert (claim.source == OWN) == key.endswith(RENORMALISED)
        assert bool(claim.departures) != key.endswith(RENORMALISED)


def test_choosing_by_ece_is_asked_of_the_mean_over_losses() -> None:
    """Seeds are the samples, not losses; exchanged, the two errors turn the verdict."""
    stages = {"by-ece": {"ece": 0.02}, "temperature": {"ece": 0.05}}
    numbers = planted({"brier": 0.0, "focal-3": 0.01}, stages, STRUCK)
    for run in numbers["runs"]:
        run["conventions"][STRUCK]["stages"]["by-ece"]["ece"] += 0.001 * run["seed"]
    found = by_key(numbers)["criterion-ece"]
    assert found.verdict == "holds"
    assert found.evidence.startswith("mean over 2 losses: 2.60 ± ")
    assert found.evidence.endswith("n = 3")
    assert by_key(swapped(numbers, *found.arms))["criterion-ece"].verdict == "does not hold"


def test_focal_loss_is_held_against_cross_entropy_as_trained() -> None:
    """The claim of the paper's introduction, beside its own row, which says the contrary."""
    numbers = planted({"cross-entropy": 0.0, "focal-3": 0.1}, {"before": {"ece": 0.05}}, STRUCK)
    found = by_key(numbers)["focal-3-ece-before"]
    assert found.verdict == "does not hold"
    assert found.evidence.endswith(" has 16.05, 7.37 %, in this order")
    assert words(numbers)["agreed"] == ["γ = 3"]
    turned = swapped(numbers, "cross-entropy", "focal-3")
    assert by_key(turned)["focal-3-ece-before"].verdict == "holds"
    assert words(turned)["agreed"] == []


def test_conventions_have_the_seeds_as_samples() -> None:
    """Distances from the published numbers are averaged over losses within a seed; exchanged, they turn."""
    numbers = planted({"cross-entropy": 0.0, "brier": 0.0}, {"before": {"mce": 0.80}}, STRUCK)
    found = by_key(numbers)["convention, MCE"]
    assert (found.verdict, found.source) == ("holds", OWN)
    assert "mean over 2 losses: 10.8 ± " in found.evidence  # published: 71.08 and 92.62 %
    assert found.evidence.endswith("n = 3")
    assert by_key(swapped(numbers, STRUCK, RENORMALISED))["convention, MCE"].verdict == "does not hold"


def test_kinds_of_losses_are_compared_seed_by_seed() -> None:
    """Runs of one seed are one sample: the epochs that were kept are averaged within it."""
    numbers = with_seeds(3, dict.fromkeys(("cross-entropy", "brier", "focal-1", "focal-3"), 2.0))
    for run in numbers["runs"]:
        run["kept_epoch"] = 5 + run["seed"] + 4 * run["loss"].startswith("focal")
    kept = words(numbers)["kept"]
    assert (kept["gap"].value, kept["gap"].half_width, kept["gap"].n) == (-4.0, 0.0, 3)
    assert kept["medians"] == [6, 10]


def test_the_weak_baseline_is_named_where_it_is_one() -> None:
    """Only where the temperature by ECE repairs more than focal temperature scaling by likelihood."""
    for by_ece, named in ((0.03, True), (0.06, False)):
        stages = {"temperature": {"ece": 0.12}, "focal-temperature": {"ece": 0.05}, "by-ece": {"ece": by_ece}}
        numbers = planted({"focal-3": 0.0}, stages, STRUCK)
        assert ("a weak baseline" in PAGE.text(numbers)) == named


def test_nll_stands_in_one_unit() -> None:
    """The published NLL is in nats, as that of the claim is."""
    found = by_key(with_seeds(3, {"cross-entropy": 2.0, "sample-focal": 2.0}))["flsd-nll-before"]
    assert found.evidence.endswith(" has 0.4923, 0.5020, in this order")


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
    recipe = load_recipe(RESULTS.parents[1] / "lab" / "recipes" / "sst-tree-lstm.toml")
    assert not recipe.differences(recipe_of(points[0].settings))


def test_the_other_convention_decides_no_claim_of_the_authors() -> None:
    """They strike the neutral class out, so what is renormalised is left open, and nothing else of theirs."""
    found = [claim for claim in claims(committed()) if claim.source.startswith(MUKHOTI)]
    for claim in found:
        assert (OTHER_CONVENTION in claim.departures) == claim.key.endswith(", renormalised"), claim.key
    assert {OTHER_CONVENTION in claim.departures for claim in found} == {True, False}
