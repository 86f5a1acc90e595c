"""The rows of texts: the printed numbers, which runs are whose, and what is asked of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.published import facts
from calibrant_lab.sweep.tasks.training import recipe_of
from calibrant_lab.training import load_recipe
from papers import texts
from papers.arms import ArmRuns
from papers.claims import OWN
from papers.losses.numbers import PAPERS
from papers.losses.settings import FCL, KULL, MUKHOTI
from papers.printed_rows import falls, fitted_table, growth
from papers.texts.claims import claims
from papers.texts.measure import measured
from papers.texts.numbers import arms_of, numbers_of
from papers.texts.settings import (
    AG_NEWS,
    FEWER_EPOCHS,
    METRICS,
    NEWSGROUPS,
    SETTINGS,
    STAGES,
)
from papers.texts.words import words

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
POINTS = load_grid(Path(texts.__file__).with_name("grid.toml")).points


def runs(temperature: float = 2.0) -> list[dict[str, Any]]:
    """Every run of the grid, with numbers that grow with its place and its seed."""
    found: list[dict[str, Any]] = []
    for place, point in enumerate(POINTS):
        settings = point.settings
        stage = dict.fromkeys(METRICS, 0.01 * place + 0.0001 * settings["seed"])
        found.append(
            {
                **settings,
                "cpu_seconds": 60.0,
                "train_accuracy": 1.0,
                "kept_epoch": 1,
                "accuracies": [0.5] * settings["training.epochs"],
                "temperatures": [1.0] * settings["training.epochs"],
                "stages": dict.fromkeys(("before", *STAGES), stage),
                "parameters": {
                    "temperature": temperature + 0.01 * settings["seed"],
                    "ece_temperature": 1.5,
                    "adaptive_ece_temperature": 1.4,
                    "focal_temperature": 1.0,
                    "gamma": 0.5,
                },
            }
        )
    return found


def test_all_printed_numbers_are_there() -> None:
    """Every number that the two rows have in the tables of the page, once for each loss and quantity."""
    for setting in SETTINGS:
        row = setting.row
        tables = {number for each in row.tables for number in each.tables}
        wanted = {
            (fact.method, fact.metric, fact.stage, fact.value)
            for fact in facts(row.paper)
            if fact.dataset == row.dataset and fact.table in tables
        }
        assert sorted(each["value"] for each in row.facts()) == sorted(value for *_, value in wanted)
    assert len(AG_NEWS.row.facts()) == 7 * 9
    assert len(NEWSGROUPS.row.facts()) == 10 * 9


def test_every_run_of_the_grid_is_a_loss_of_the_page() -> None:
    """Each loss of each row has every seed, and weight decay parts the two kinds of cross-entropy."""
    numbers = numbers_of(runs(), {})
    for setting in SETTINGS:
        arms = arms_of(numbers, setting)
        assert [*arms] == [loss.key for loss in setting.row.losses]
        assert all([*arm.runs] == [0, 1, 2] for arm in arms.values())
    plain, decayed = (arms_of(numbers, AG_NEWS)[key] for key in ("cross-entropy", "cross-entropy-decayed"))
    places = [
        next(k for k, each in enumerate(POINTS) if each.settings["optimiser.weight_decay"] == decay)
        for decay in (0.0, 5e-4)
    ]
    for arm, place in zip((plain, decayed), places, strict=True):
        assert arm.runs[0]["stages"]["before"]["ece"] == pytest.approx(0.01 * place)


def test_claims_of_the_decayed_row_name_it() -> None:
    """FCL is asked against either cross-entropy, weight decay against none, beside the paper's row."""
    found = {claim.key: claim for claim in claims(numbers_of(runs(), {}))}
    assert len(found) == len(claims(numbers_of(runs(), {})))
    decayed = found["fcl-cross-entropy-decayed, ag-news"]
    assert decayed.arms == ("focal-calibration", "cross-entropy-decayed")
    assert decayed.evidence.endswith("; the row of the paper on FCL has 0.99, 4.82 %, in this order")
    assert decayed.source == FCL
    assert "; the row of" not in found["fcl-cross-entropy, ag-news"].evidence
    assert found["fcl-cross-entropy, ag-news"].source == OWN
    assert found["weight-decay, ag-news"].arms == ("cross-entropy-decayed", "cross-entropy")
    assert found["flsd-nll-before, newsgroups"].evidence.endswith(
        "; the row of Mukhoti et al. (2020) has 1.0917, 1.7657, in this order"
    )
    assert not any("newsgroups" in key and "fcl" in key for key in found)


def test_falls_of_the_temperature_are_counted() -> None:
    """After the tenth epoch and by more than a quarter; below 1 is counted at the epoch that is kept."""
    early, late = [1.0, 2.0, 1.0, *[2.0] * 9], [*[2.0] * 10, 1.4, 1.4]
    kept = {"cross-entropy": {0: (early, 1.2), 1: (late, 0.8)}}
    arms = {
        key: ArmRuns(
            key=key,
            title=key,
            runs={
                seed: {"temperatures": of, "parameters": {"temperature": at}}
                for seed, (of, at) in by_seed.items()
            },
        )
        for key, by_seed in kept.items()
    }
    said = falls(arms)
    assert "from one epoch to the next in 1 of 2 runs" in said
    assert said.endswith(
        "in 1 of 2 runs, in some but not all under cross-entropy, whose mean ECE has errors of both "
        "directions"
    )
    apart = {
        key: ArmRuns(key=key, title=key, runs={0: arms["cross-entropy"].runs[seed]})
        for seed, key in enumerate(("over", "under"))
    }
    assert falls(apart).endswith("is below 1, which is under-confidence, in 1 of 2 runs")


def test_fewer_epochs_leave_levels_and_networks_as_trained_open() -> None:
    """On 20 Newsgroups alone, of what a paper claims, and not after temperature scaling."""
    found = {claim.key: claim for claim in claims(numbers_of(runs(), {}))}
    for key in ("no-cost-focal-3", "temperature-focal-3", "best-gamma-ece", "flsd-ece-before"):
        assert found[f"{key}, newsgroups"].departures == (FEWER_EPOCHS,)
        assert found[f"{key}, newsgroups"].said == "depends on the epochs"
    for key in ("over-confident", "flsd-ece-temperature", "best-gamma-nll", "flsd-nll-before"):
        assert found[f"{key}, newsgroups"].departures == ()
    assert not any(FEWER_EPOCHS in found[key].departures for key in found if key.endswith("ag-news"))


def test_texts_that_a_paper_lacks_decide_none_of_its_claims() -> None:
    """AG News is left open for the paper of 2020, every text for the one that has images only."""
    found = claims(numbers_of(runs(), {}))
    for claim in found:
        beyond = "beyond the paper" in {each.verdict for each in claim.departures}
        on_ag_news = claim.key.endswith(f", {AG_NEWS.key}")
        theirs = claim.source.startswith(MUKHOTI) and on_ag_news
        assert beyond == (theirs or claim.source.startswith(KULL)), claim.key
    assert {claim.key.rpartition(", ")[2] for claim in found if claim.source == FCL} == {AG_NEWS.key}


def test_table_2_is_asked_of_texts() -> None:
    """Focal loss against cross-entropy after temperature scaling by adaptive ECE, beside the printed row."""
    found = {claim.key: claim for claim in claims(numbers_of(runs(), {}))}
    asked = found["competitive-adaptive_ece-temperature, newsgroups"]
    assert asked.verdict == "does not hold"  # runs of losses further down the grid have larger numbers
    assert asked.evidence.endswith("; the row of Mukhoti et al. (2020) has 3.78, 2.20 %, in this order")
    assert not any("above-99" in key for key in found)


def test_statements_are_of_the_epoch_that_is_kept() -> None:
    """No claim of texts speaks of the end of training, but those that are asked of the last epoch."""
    found = claims(numbers_of(runs(), {}))
    (said,) = (claim.statement for claim in found if claim.key == "over-confident, newsgroups")
    assert said.startswith("Cross-entropy is over-confident at the epoch that is kept")
    assert not any("ends" in claim.statement for claim in found)
    decayed = [claim.statement for claim in found if claim.key.endswith("-cross-entropy-decayed, ag-news")]
    assert decayed
    assert all(said.endswith("(on AG News, against weight decay)") for said in decayed)


def test_temperatures_that_raise_the_ece_are_named() -> None:
    """The loss after which the likeliest temperature has the higher mean ECE; equal is not higher."""
    found = runs()
    row = words({"seeds": 3, **numbers_of(found, {})})["rows"]["newsgroups"]
    assert row["harmed"] == []
    for run in found:
        if run["loss"] == "brier":
            run["stages"] = {**run["stages"], "temperature": {**run["stages"]["temperature"], "ece": 0.99}}
    row = words({"seeds": 3, **numbers_of(found, {})})["rows"]["newsgroups"]
    assert row["harmed"] == ["Brier"]


def test_the_page_does_without_20_newsgroups() -> None:
    """What is said of its training is left out while none of it has run."""
    (page,) = texts.TEXTS.pages
    also = {key: page.read(RESULTS)[key] for key in ("seeds", "made_by")}
    assert "with dropout on" in page.text({**numbers_of(runs(), {}), **also})
    only = [run for run in runs() if run["data.name"].startswith(AG_NEWS.data)]
    assert "with dropout on" not in page.text({**numbers_of(only, {}), **also})


def test_what_ends_on_a_bound_is_marked() -> None:
    """The exponent of one run at the lowest that is tried marks the mean, and the mark is explained."""
    found = runs()
    arms = arms_of(numbers_of(found, {}), AG_NEWS)
    assert "†" not in fitted_table(arms)
    run = next(each for each in found if each["loss"] == "sample-focal" and each["seed"] == 1)
    run["parameters"] = {**run["parameters"], "gamma": -0.999}
    marked = fitted_table(arms_of(numbers_of(found, {}), AG_NEWS))
    assert marked.count("†") == 2
    (row,) = (line for line in marked.splitlines() if line.startswith("| FLSD-53 |"))
    assert row.split(" | ")[-2].endswith("†")
    assert marked.splitlines()[-1].startswith("† marks")


def test_the_page_says_where_the_temperature_stops_growing() -> None:
    """Losses whose temperature is no higher at the end than half-way are named, with how many runs."""

    def arm(title: str, *courses: list[float]) -> ArmRuns:
        each = {seed: {"temperatures": course} for seed, course in enumerate(courses)}
        return ArmRuns(key=title, title=title, runs=each)

    grows, falls = [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.5, 2.0]
    all_grow = growth({"one": arm("one", grows, grows)})
    assert all_grow == ("T grows from epoch 1 to epoch 4 in 2 of 2 runs, and in all of them from epoch 2 on")
    some = growth({"one": arm("one", grows), "two": arm("two", grows, falls)})
    assert some.startswith("T grows from epoch 1 to epoch 4 in 3 of 3 runs;")
    assert some.endswith("does not grow under two (in 1 of 2)")


def test_metrics_are_of_the_top_class() -> None:
    """Error, NLL and share by hand; all that the page names is there."""
    probs = torch.tensor([[0.995, 0.005, 0.0], [0.2, 0.5, 0.3], [0.25, 0.5, 0.25]]).double()
    found = measured(probs, torch.tensor([0, 1, 0]))
    assert set(found) == set(METRICS)
    assert found["error"] == pytest.approx(1 / 3)
    assert found["nll"] == pytest.approx(-(torch.tensor([0.995, 0.5, 0.25]).double().log().mean().item()))
    assert found["share_above_99"] == pytest.approx(1 / 3)


def test_the_grid_has_the_recipes_settings() -> None:
    """Network, data and training are those of the two recipes, but for what the page calls departures."""
    for file, setting in (("ag-news", AG_NEWS), ("20ng-gpcnn", NEWSGROUPS)):
        recipe = load_recipe(ROOT / "recipes" / f"{file}.toml")
        point = next(each for each in POINTS if each.settings["data.name"].startswith(setting.data))
        own = recipe_of(point.settings)
        differ = {each.partition(":")[0] for each in recipe.differences(own)}
        allowed = {"training.epochs", "training.precision"} if setting is NEWSGROUPS else set()
        assert differ == allowed
    assert STAGES["by-ece"] == PAPERS
