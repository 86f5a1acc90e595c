"""Sum or mean: every run of the grid has its place, and claims wait for three seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.matching import matches
from papers import losses, sum_or_mean
from papers.sum_or_mean import PAGE
from papers.sum_or_mean.claims import claims
from papers.sum_or_mean.settings import HELD, LONG, MEAN, SLOW, STEP, SUM, WAYS

RESULTS = Path(__file__).parents[2] / "docs/results"


def test_every_run_is_of_one_way_and_one_loss() -> None:
    """The page passes no run of the grid over, and takes none for two."""
    points = load_grid(Path(sum_or_mean.__file__).with_name("grid.toml")).points
    for point in points:
        places = [
            (way.key, arm.key)
            for way in WAYS
            if matches(point.settings, way.where)
            for arm in way.losses(point.settings["data.imbalance"]).arms
            if matches(point.settings, arm.where)
        ]
        assert len(places) == 1, (point, places)
    slow = {point.settings["loss"] for point in points if point.settings["optimiser.learning_rate"] == 0.0606}
    assert slow == {"cross-entropy"}


def ways(temperatures: dict[str, dict[str, float]], seeds: int) -> dict[str, Any]:
    """Each way and loss needs a temperature, and its ECE grows with the distance from 1."""

    def run(seed: int, temperature: float) -> dict[str, Any]:
        names = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
        stage = dict.fromkeys(names, abs(temperature - 1) / 10 + 0.0001 * seed)
        return {
            "seed": seed,
            "train_accuracy": 0.9,
            "stages": dict.fromkeys(
                ("before", "by-ece", "by-adaptive-ece", "temperature", "focal-temperature"), stage
            ),
            "parameters": dict.fromkeys(
                ("temperature", "ece_temperature", "focal_temperature", "gamma"), temperature
            ),
            "norms": {"1": 1.0, "2": temperature},
        }

    return {
        "wanted": 430,
        "seeds": 5,
        "made_by": "",
        "cpu_seconds": 100.0,
        "ways": [
            {
                "way": way,
                "arms": [
                    {"arm": arm, "runs": [run(seed, value + 0.001 * seed) for seed in range(seeds)]}
                    for arm, value in losses.items()
                ],
            }
            for way, losses in temperatures.items()
        ],
    }


def test_ways_are_compared_within_a_loss_and_losses_within_a_way() -> None:
    """Verdicts follow the planted temperatures; with two seeds nothing is asked."""
    planted = {
        SUM: {"cross-entropy": 2.3, "focal-3": 1.01},
        MEAN: {"cross-entropy": 1.9, "focal-3": 0.7},
        STEP: {"cross-entropy": 2.1, "focal-3": 0.9},
        LONG: {"focal-3": 0.9},
        SLOW: {"cross-entropy": 1.5},
    }
    found = {claim.key: claim.verdict for claim in claims(ways(planted, 3))}
    assert found["focal-3, temperature, mean against sum"] == "holds"
    assert found["focal-3, ece, sum against mean"] == "holds"
    assert found["ece at equal steps, sum"] == found["focal-3 within step"] == "holds"
    assert found["cross-entropy, temperature, step against sum"] == "holds"
    assert found["cross-entropy, ece, step against sum"] == "holds"
    assert found["cross-entropy, ece, slow against mean"] == "holds"
    assert found["over-confident"] == "holds"
    answer = "**The temperature: not by length alone. The ECE: {}.**"
    text = PAGE.text(ways(planted, 3))
    assert answer.format("not by length alone") in text
    assert "33 ± 0 % of the difference in T goes" in text  # (1.9 - 1.5) of (1.9 - 0.7)
    assert "the length does not explain either" in text
    assert "the difference from the sum's, +0.88 ± 0.05 %, is beyond noise" in text
    planted[HELD] = {"cross-entropy": 0.9, "focal-3": 0.8}
    text = PAGE.text(ways(planted, 3))
    assert "is then higher than with the mean" in text
    assert "lower than with the sum clipped at 2" in text
    assert "With gradients of about one length, times the learning rate, the temperature" in text
    assert answer.format("it depends") in text
    assert "is lower than after cross-entropy in 4 of 4 ways" in text
    planted[HELD] = {"cross-entropy": 0.8, "focal-3": 0.9}
    assert "**The temperature: it depends." in PAGE.text(ways(planted, 3))
    for way in (SUM, MEAN, STEP, LONG, SLOW):
        planted[way] = {"cross-entropy": 0.6, "focal-3": 2.0}
    assert "**The temperature: length explains all of it. The ECE:" in PAGE.text(ways(planted, 3))
    assert claims(ways(planted, 2)) == []


def test_the_brier_score_is_averaged_as_the_authors_do() -> None:
    """FLSD-53 with the sum is held against its mean, not its sum, and FCL not at all; MMCE is summed."""
    planted = {
        SUM: {"sample-focal": 1.5, "focal-calibration": 1.5, "brier": 1.9, "mmce-published": 1.9},
        MEAN: {"brier": 1.1, "mmce-published": 1.1},
    }
    found = {claim.key: claim for claim in claims(ways(planted, 3))}
    for stage in ("before", "temperature"):
        brier, mmce = (found[f"flsd-{stage}-against-{loss}"] for loss in ("brier", "mmce-published"))
        assert (brier.verdict, mmce.verdict) == ("does not hold", "holds")
        assert ", averaged" in brier.statement
        assert ", averaged" not in mmce.statement
    of_fcl = [key for key in found if key.startswith(("fcl", "after-fcl", "errs-fcl"))]
    assert not any("brier" in key for key in of_fcl)
    assert "fcl-mmce-published" in of_fcl


def test_a_temperature_on_its_bound_is_marked() -> None:
    """A search that ended on its bound gave no temperature; the page says which means have one."""
    numbers = ways({SUM: {"cross-entropy": 2.0, "focal-3": 1.0}}, 1)
    assert "†" not in PAGE.text(numbers)
    numbers["ways"][0]["arms"][0]["runs"][0]["parameters"]["temperature"] = 10000.0
    text = PAGE.text(numbers)
    assert text.count("† marks a parameter") == 1
    assert "| 10000.000† |" in text
    assert "which is no estimate" in text
    tail = ways({SUM: {"cross-entropy": 2.0}}, 2)
    tail["ways"][0]["arms"][0]["runs"][1]["parameters"]["temperature"] = 1e4
    assert "5001.000 ± " in (text := PAGE.text({**numbers, "tail": tail["ways"]}))
    assert "† |" in text[text.index("## On the long tail") :]


def test_a_pair_of_ways_is_named_by_both() -> None:
    """Where cross-entropy is at another rate than focal loss, the page says so, on the long tail, too."""
    numbers = ways({SUM: {"cross-entropy": 2.0, "focal-3": 1.0}}, 3)
    tail = ways({MEAN: {"focal-3": 0.9}, SLOW: {"cross-entropy": 1.8}}, 3)
    text = PAGE.text({**numbers, "tail": tail["ways"]})
    assert "than after cross-entropy (mean, and mean ×0.606), on the long tail: holds" in text
    assert "On the long tail the temperature is lower in 1 of 1 ways" in text


def test_names_of_ways_come_from_their_settings() -> None:
    """So that the same way at another rate, as on CIFAR-10, has another name."""
    titles = {way.key: way.title for way in WAYS}
    assert len(set(titles.values())) == len(WAYS)
    assert (titles[SUM], titles[LONG], titles[HELD]) == ("sum", "mean ×3.58", "sum, clip 0.56")


def test_policies_of_the_exponent_are_compared() -> None:
    """FLSD-53 against FLSD-532, and the schedules, by either error; the lower one decides."""
    planted = {"sample-focal": 1.1, "sample-focal-532": 1.3, "scheduled-531": 1.1, "scheduled-532": 1.3}
    found = {claim.key: claim for claim in claims(ways({SUM: planted}, 3))}
    for name in ("ece", "adaptive_ece"):
        for when in ("before", "temperature"):
            sample, schedule = (found[f"{kind}-{name}-{when}"] for kind in ("flsd-532", "schedule"))
            assert (sample.verdict, schedule.verdict) == ("holds", "does not hold")
            assert schedule.arms == ("scheduled-532", "scheduled-531")


def test_runs_that_hardly_learned_are_named() -> None:
    """By their test error, since one class is 40 % of long-tailed training images; means say so, too."""
    numbers = ways({SUM: {"cross-entropy": 2.0, "focal-3": 1.0}}, 2)
    assert "‡" not in PAGE.text(numbers)
    numbers["ways"][0]["arms"][0]["runs"][1]["stages"]["before"] = {
        **numbers["ways"][0]["arms"][0]["runs"][1]["stages"]["before"],
        "error": 0.59,
    }
    text = PAGE.text(numbers)
    assert "cross-entropy with *sum* (seed 1: 59 %)" in text
    assert "| cross-entropy ‡ | 2 |" in text
    assert "| sum | 2.000 ± 0.006 ‡ |" in text


def test_runs_with_the_mean_are_those_of_the_study_of_losses() -> None:
    """As the pages say: where both have a loss, its runs are the same, number by number, as trained."""
    ours = PAGE.read(RESULTS)
    shared = 0
    for page, part in zip(losses.LOSSES.pages, ("ways", "tail"), strict=True):
        theirs = {arm["arm"]: arm["runs"] for arm in page.read(RESULTS)["arms"]}
        (means,) = (way["arms"] for way in ours[part] if way["way"] == MEAN)
        for arm in means:
            for run, other in zip(arm["runs"], theirs.get(arm["arm"], ()), strict=False):
                assert (run["seed"], run["stages"]["before"]) == (other["seed"], other["stages"]["before"])
                shared += 1
    assert shared == 90
