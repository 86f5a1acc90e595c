"""The loss study on a tiny setting: resuming, numbers, verdicts and pages."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant._math.means import Mean, mean_of
from calibrant.cli.main import app
from calibrant.predictions import load_predictions
from calibrant_lab.sweep.engines.serial import Serial
from calibrant_lab.sweep.grid import Grid, load_grid
from calibrant_lab.sweep.matching import matches
from calibrant_lab.sweep.published import FOLDER
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.training import recipe_of
from calibrant_lab.training import load_recipe
from papers.arms import ArmRuns, difference, runs_by_arm
from papers.losses import GRID, LOSSES, page_of
from papers.losses.claims import claims, on_grid
from papers.losses.measure import by_class
from papers.losses.numbers import KEPT, PAPERS
from papers.losses.numbers import shown as shown_of
from papers.losses.published import quotes
from papers.losses.settings import (
    FCL,
    MUKHOTI,
    SETTINGS,
    UNBALANCED,
    Setting,
    setting_named,
)
from papers.roster import STUDIES
from papers.study import Session

RECIPES, RESULTS = (Path(__file__).parents[2] / name for name in ("lab/recipes", "docs/results"))
GRID_POINTS = load_grid(GRID).points

TINY = {
    "recipe": {
        "model": "mlp(widths=(8,))",
        "data": {"name": "digits", "calibration": 200, "test": 0.5, "train": 300},
        "optimiser": {"weight_decay": 5e-4},
        "training": {"epochs": 2},
        "hardware": {"threads": 1, "accelerator": "cpu"},
        "evaluation": {"calibrators": ["temperature", "focal-temperature", PAPERS], "bootstrap": 10},
    },
    "axes": {"data.imbalance": [1.0]},
    "zip": [{"loss": ["cross-entropy", "focal(gamma=3)"]}],
    "exclude": [],
}
"""The study's grid on digits."""
QUIET = Session(tell=lambda _: None)


def carried_out(folder: Path, seeds: int, **options: Any) -> list[Any]:
    """The study on digits; names of what it writes."""
    given = {"setting": None, "table": None, "published": None} | options
    return [*LOSSES.run(QUIET, TINY, out=folder, seeds=seeds, **given)]


PAGE = page_of(SETTINGS[0])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms on digits, one seed each."""
    folder = tmp_path_factory.mktemp("study")
    assert carried_out(folder, 1) == [folder / name for name in PAGE.files]
    return folder


def numbers(key: str, values: dict[int, float], **parameters: float) -> ArmRuns:
    """An arm whose runs have one value for every metric."""
    stage = dict.fromkeys(
        ("error", "nll", "ece", "adaptive_ece", "smce", "classwise_ece", "share_above_99"), 0.0
    )
    runs = {
        seed: {
            "seed": seed,
            "stages": {
                name: dict.fromkeys(stage, value)
                for name in ("before", "by-ece", "by-adaptive-ece", "temperature", "focal-temperature")
            },
            "parameters": {"temperature": 1.5, "ece_temperature": 1.5, "gamma": 0.0} | parameters,
            "classes": {"before": {"recall": [value] * 10}},
            "norms": {},
        }
        for seed, value in values.items()
    }
    return ArmRuns(key=key, title=key, runs=runs)


def in_a_file(*arms: ArmRuns) -> dict[str, Any]:
    """Arms as the results file has them."""
    return {"arms": [{"arm": arm.key, "title": arm.title, "runs": [*arm.runs.values()]} for arm in arms]}


def test_finished_runs_are_not_trained_again(store, monkeypatch) -> None:
    """A second call finds every run in the store."""
    monkeypatch.setattr(Store, "begin", lambda *_: pytest.fail("done again"))
    assert carried_out(store, 1) == [store / name for name in PAGE.files]


def test_every_run_belongs_to_one_arm() -> None:
    """The grid holds each arm of each setting once for every seed, and nothing else."""
    of_arm = Counter(
        (setting.key, arm.key)
        for point in GRID_POINTS
        for setting in SETTINGS
        for arm in setting.arms
        if matches(point.settings, {**setting.where, **arm.where})
    )
    assert len(of_arm) == sum(len(setting.arms) for setting in SETTINGS)
    assert set(of_arm.values()) == {5}
    assert of_arm.total() == len(GRID_POINTS)


def test_the_arms_are_the_ones_asked_for() -> None:
    """Twelve or more, cross-entropy with and without weight decay, and class weights where they matter."""
    balanced, tail = SETTINGS
    decays = {arm.key: arm.weight_decay for arm in balanced.arms}
    assert len({arm.loss for arm in balanced.arms}) >= 12
    assert decays.pop("cross-entropy-no-decay") == 0
    assert set(decays.values()) == {5e-4}
    weighted = [arm.key for arm in tail.arms if arm.class_weights == "balanced"]
    assert weighted == ["cross-entropy-alpha", "focal-3-alpha"]
    with pytest.raises(InputError, match=r"no setting 'long_tail' in this study; did you mean 'long-tail'"):
        setting_named("long_tail")


@pytest.mark.parametrize(
    ("name", "setting"), [("losses", SETTINGS[0]), ("long-tail", SETTINGS[1])], ids=lambda each: str(each)[:9]
)
def test_the_recipe_in_the_folder_is_the_study_s(name: str, setting: Setting) -> None:
    """The recipes of both settings are what the grid trains by; they evaluate less."""
    point = next(each for each in GRID_POINTS if matches(each.settings, setting.where))
    ours = load_recipe(RECIPES / f"fashion-mnist-{name}.toml")
    assert not ours.differences(recipe_of(point.settings))


def test_mean_and_interval() -> None:
    """Student's interval; of equal values it is nothing, of one value there is none."""
    found = mean_of([0.0, 1.0])
    assert found.value == 0.5
    assert found.half_width == pytest.approx(12.706204736 * math.sqrt(0.5) / math.sqrt(2))
    assert mean_of([2.0, 2.0, 2.0]).half_width == 0
    assert (mean_of([2.0]).low, mean_of([2.0]).high) == (-math.inf, math.inf)


def test_differences_are_paired_by_seed() -> None:
    """Only seeds that both arms have count, and what they have in common cancels."""
    first = numbers("cross-entropy", {0: 0.3, 1: 0.7, 2: 9.0})
    second = numbers("focal-3", {1: 0.6, 0: 0.2})
    found = difference(first, second, lambda run: run["stages"]["before"]["ece"])
    assert found is not None
    assert (found.value, found.n) == (pytest.approx(0.1), 2)
    assert found.half_width == pytest.approx(0, abs=1e-12)
    assert difference(first, numbers("focal-3", {7: 1.0}), lambda run: run["stages"]["before"]["ece"]) is None


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        ({0: 0.10, 1: 0.11, 2: 0.10}, "holds"),
        ({0: 0.40, 1: 0.41, 2: 0.40}, "does not hold"),
        ({0: 0.10, 1: 0.40, 2: 0.15}, "undecided"),
        ({0: 0.10}, "undecided"),
    ],
)
def test_verdicts_follow_the_interval(ours, verdict) -> None:
    """A difference clear of zero decides either way; one that is not, or a single seed, does not."""
    arms = [numbers("cross-entropy", {0: 0.2, 1: 0.2, 2: 0.2}), numbers("sample-focal", ours)]
    found = [
        claim
        for claim in claims(in_a_file(*arms))
        if "lower ECE than cross-entropy, before" in claim.statement
    ]
    assert [claim.verdict for claim in found] == [verdict]
    assert f"n = {len(ours)}" in found[0].evidence


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ({0: 0.10, 1: 0.11, 2: 0.10}, "higher in 0 of 3 seeds, beyond noise"),
        ({0: 0.40, 1: 0.41, 2: 0.40}, "higher in 3 of 3 seeds, beyond noise"),
        ({0: 0.10, 1: 0.40, 2: 0.15}, "higher in 1 of 3 seeds, within noise"),
    ],
)
def test_a_cost_or_a_gain_in_error_is_said_to_be_beyond_noise(ours, said) -> None:
    """Whichever side of zero the interval lies on."""
    arms = [numbers("cross-entropy", {0: 0.2, 1: 0.2, 2: 0.2}), numbers("focal-3", ours)]
    (found,) = (claim for claim in claims(in_a_file(*arms)) if claim.key == "no-cost-focal-3")
    assert found.evidence.endswith(f"({said})")


def test_norms_are_compared_before_the_drop_and_in_the_end() -> None:
    """Larger under focal loss over nine epochs and smaller after the last: both hold."""
    plain, focal = (numbers(key, {0: 0.1, 1: 0.2}) for key in ("cross-entropy", "focal-3"))
    for arm, first, early, last in ((plain, 3.0, 1.0, 9.0), (focal, 1.0, 2.0, 8.0)):
        for run in arm.runs.values():
            run["norms"] |= {"1": first, **{str(epoch): early for epoch in range(2, 10)}, "10": last}
    found = {claim.key: claim for claim in claims(in_a_file(plain, focal))}
    assert found["norms-first"].verdict == found["norms-last"].verdict == "holds"
    assert "cross-entropy: 1.222 ± 0.000" in found["norms-first"].evidence


def test_evidence_is_of_the_seeds_that_arms_share() -> None:
    """Means and difference speak of the same runs, so that one is the others' difference."""
    plain, focal = (
        numbers("cross-entropy", {0: 0.1, 1: 0.2, 2: 0.6}),
        numbers("sample-focal", {0: 0.2, 1: 0.3}),
    )
    (found,) = (claim for claim in claims(in_a_file(plain, focal)) if claim.key == "flsd-ece-before")
    assert found.evidence == (
        "sample-focal: 25.00 ± 63.53 %; cross-entropy: 15.00 ± 63.53 %; difference +10.00 ± 0.00 %, n = 2"
    )


def test_temperatures_of_a_grid_are_known_to_its_steps() -> None:
    """Three times 0.8 has the interval of a standard deviation of 0.1/√12, and decides no less than that."""
    assert on_grid(mean_of([0.8] * 3)).half_width == pytest.approx(4.302653 * 0.1 / math.sqrt(36), rel=1e-6)
    wide = Mean(value=1.0, half_width=0.5, n=3)
    assert on_grid(wide) == wide
    arm = numbers("focal-3", dict.fromkeys(range(3), 0.1), ece_temperature=0.85)
    (found,) = (claim for claim in claims(in_a_file(arm)) if claim.key == "temperature-focal-3")
    assert found.verdict == "undecided"


def test_focal_temperature_scaling_is_credited_with_what_the_paper_says() -> None:
    """Its ECE, fitted otherwise than in the paper; a lower NLL is claimed by no paper."""
    found = {each.key: each for each in claims(in_a_file(numbers("focal-3", {0: 0.1, 1: 0.2})))}
    ece, nll = (found[f"focal-temperature-focal-3-{name}"] for name in ("ece", "nll"))
    assert (ece.source, ece.said) == ("Komisarenko and Kull (2024)", "depends on the criterion")
    assert (nll.source, nll.departures) == ("claimed by no paper", ())


def test_focal_temperature_scaling_is_held_against_the_other_criterion() -> None:
    """By adaptive ECE, as in the paper; beside it stands the gain over a temperature chosen by that."""
    arm = numbers("focal-3", {0: 0.1, 1: 0.2, 2: 0.1})
    for run in arm.runs.values():
        for stage, error in (("focal-temperature", 0.1), ("temperature", 0.3), ("by-adaptive-ece", 0.05)):
            run["stages"][stage]["adaptive_ece"] = error
    found = {each.key: each for each in claims(in_a_file(arm))}["focal-temperature-focal-3-ece"]
    assert found.verdict == "holds"
    assert "difference -20.00 ± 0.00 %" in found.evidence
    assert found.evidence.endswith("difference from T by adaptive ECE +5.00 ± 0.00 %")


def test_what_the_text_does_not_say_is_marked() -> None:
    """FCL against cross-entropy and dual focal loss after T; its paper holds no smCE against focal loss."""
    keys = ("focal-calibration", "cross-entropy", "dual-focal", "brier", "focal-3")
    found = {each.key: each for each in claims(in_a_file(*(numbers(key, {0: 0.1, 1: 0.2}) for key in keys)))}
    marked = {key for key, each in found.items() if each.statement.startswith("(tables only)")}
    assert {"after-fcl-cross-entropy", "after-fcl-smce-dual-focal"} <= marked
    assert not {"fcl-cross-entropy", "after-fcl-brier", "after-fcl-focal-3"} & marked
    assert found["fcl-smce-focal-3"].source == found["after-fcl-smce-focal-3"].source == "this project"
    assert found["fcl-smce-brier"].source == found["fcl-focal-3"].source == FCL


def test_papers_are_asked_of_the_temperature_that_they_choose() -> None:
    """By ECE, for adaptive ECE by that; without such a stage they are not asked, this project's way is."""
    arms = (numbers("sample-focal", {0: 0.1, 1: 0.2}), numbers("cross-entropy", {0: 0.3, 1: 0.4}))
    for arm, by_ece, by_adaptive_ece in zip(arms, (0.5, 0.1), (0.2, 0.3), strict=True):
        for run in arm.runs.values():
            run["stages"]["by-ece"] = run["stages"]["by-ece"] | {"ece": by_ece}
            run["stages"]["by-adaptive-ece"] = {"adaptive_ece": by_adaptive_ece}
    found = {each.key: each for each in claims(in_a_file(*arms))}
    assert found["flsd-ece-temperature"].verdict == "does not hold"
    assert found["flsd-adaptive_ece-temperature"].verdict == "holds"
    assert found["likelihood-sample-focal"].verdict == "holds"
    assert found["likelihood-sample-focal"].source == found["flsd-nll-temperature"].source == "this project"
    del arms[0].runs[1]["stages"]["by-ece"]
    found = {each.key: each for each in claims(in_a_file(*arms))}
    assert not {"flsd-ece-temperature", "above-99-after-cross-entropy"} & found.keys()
    assert {"flsd-ece-before", "flsd-adaptive_ece-temperature", "likelihood-sample-focal"} <= found.keys()


@pytest.mark.parametrize(
    ("errors", "verdict", "beyond"),
    [
        ({0: 0.102, 1: 0.103, 2: 0.102}, "holds", "higher in 3 of 3 seeds, beyond noise"),
        ({0: 0.100, 1: 0.101, 2: 0.099}, "holds", "higher in 1 of 3 seeds, within noise"),
        ({0: 0.120, 1: 0.121, 2: 0.120}, "does not hold", "higher in 3 of 3 seeds, beyond noise"),
        ({0: 0.105, 1: 0.107, 2: 0.104}, "undecided", "higher in 3 of 3 seeds, beyond noise"),
        ({0: 0.090, 1: 0.140, 2: 0.100}, "undecided", "higher in 1 of 3 seeds, within noise"),
    ],
)
def test_no_cost_is_one_below_the_margin(errors, verdict, beyond) -> None:
    """Half a point decides; whether there is a cost at all is said beside it."""
    arms = (numbers("focal-3", errors), numbers("cross-entropy", dict.fromkeys(errors, 0.1)))
    (found,) = (each for each in claims(in_a_file(*arms)) if each.key == "no-cost-focal-3")
    assert found.verdict == verdict
    assert found.evidence.endswith(f"({beyond})")


def test_more_samples_are_claimed_in_the_order_of_the_statement() -> None:
    """The difference that is shown is of the first that the sentence names less the second."""
    arms = (numbers("sample-focal", {0: 0.3, 1: 0.4}), numbers("cross-entropy", {0: 0.1, 1: 0.2}))
    found = {each.key: each for each in claims(in_a_file(*arms))}
    assert (found["above-99-after-cross-entropy"].verdict, found["above-99-after-cross-entropy"].arms) == (
        "holds",
        ("sample-focal", "cross-entropy"),
    )
    assert "difference +20.00 ± 0.00 %" in found["above-99-after-cross-entropy"].evidence
    assert found["above-99-before-cross-entropy"].verdict == "does not hold"


def test_label_smoothing_is_compared_with_cross_entropy() -> None:
    """In error as trained, and in NLL after temperature scaling; a lower number holds."""
    arms = (numbers("label-smoothing", {0: 0.1, 1: 0.2}), numbers("cross-entropy", {0: 0.3, 1: 0.4}))
    found = {each.key: each.verdict for each in claims(in_a_file(*arms))}
    assert found["smoothing-error"] == found["smoothing-nll-temperature"] == "holds"


def test_numbers_by_hand() -> None:
    """Numbers of each class of four samples, worked out by hand."""
    probs = torch.tensor([[0.999, 0.001], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0])
    classes = by_class(probs, labels)
    assert classes["recall"] == [0.5, 0.5]
    assert classes["mean_excess"] == pytest.approx([2.099 / 4 - 0.5, 1.901 / 4 - 0.5])
    assert classes["overconfidence"] == pytest.approx([(0.999 + 0.8) / 2 - 0.5, (0.6 + 0.7) / 2 - 0.5])


def test_pages_say_what_was_found(store, tmp_path) -> None:
    """Markdown, JSON and figures show the numbers of the runs, say n, and are the same when made again."""
    written = carried_out(store, 2, table=tmp_path / "results")
    assert [path.name for path in written] == list(PAGE.files)
    content = PAGE.read(tmp_path / "results")
    assert [[run["seed"] for run in arm["runs"]] for arm in content["arms"]] == [[0], [0]]
    error = content["arms"][0]["runs"][0]["stages"]["before"]["error"]
    assert sum(content["training_counts"]) == 300
    assert len(content["absent"]) == len(SETTINGS[0].arms) - 2
    text = written[0].read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| cross-entropy | 1 |"))
    assert f"{100 * error:.2f}" in row
    assert "## Which claims hold" in text
    assert "## Published values of the same methods" in text
    again = carried_out(store, 2, table=tmp_path / "again")
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_a_run_shows_what_its_predictions_say(store) -> None:
    """Metrics, classes and the norm of the last layer are those of the run's own files."""
    results = list(Store(store).results())
    runs = [{**each.settings, **(shown_of(each) or {})} for each in results]
    arms = runs_by_arm(runs, SETTINGS[0].wanted, KEPT)
    ((shown,),) = (arm["runs"] for arm in arms if arm["arm"] == "focal-3")
    result = next(each for each in results if each.settings["loss"] == "focal(gamma=3)")
    test = load_predictions(result.file("predictions.npz")).test
    probs = test.scores.double().softmax(dim=1)
    found = shown["stages"]["before"]
    assert found["error"] == pytest.approx(float(metrics.error_rate(probs, test.labels)), abs=1e-12)
    assert found["smce"] == float(metrics.smooth_calibration_error(probs, test.labels))
    assert found["share_above_99"] == float(metrics.high_confidence(probs, test.labels, threshold=0.99).share)
    assert shown["classes"]["before"] == by_class(probs, test.labels)
    assert shown["classes"]["temperature"] != shown["classes"]["before"]
    assert shown["norms"] == {str(row["epoch"]): row["last_layer_norm"] for row in result.rows}
    assert shown["parameters"]["ece_temperature"] == result.parameters[PAPERS]["temperature"]
    for stage, name in (("by-ece", "ece_temperature"), ("by-adaptive-ece", "adaptive_ece_temperature")):
        repaired = (test.scores.double() / shown["parameters"][name]).softmax(dim=1)
        after = shown["stages"][stage]
        assert after["ece"] == pytest.approx(
            float(metrics.expected_calibration_error(repaired, test.labels)), abs=1e-12
        )
        assert after.keys() == found.keys()


def test_a_plain_sweep_s_runs_are_the_study_s(tmp_path) -> None:
    """A run that an ordinary grid did is not trained again; what is missing is measured from its logits."""
    few = {**TINY, "zip": [{"loss": ["brier"]}]}
    plain = Grid.read({**few, "axes": {"seed": [0], "data.imbalance": [1.0]}})
    sweep(plain.items(), Store(tmp_path), Serial())
    (before,) = Store(tmp_path).results()
    LOSSES.run(QUIET, few, out=tmp_path, seeds=1, setting=None, table=None, published=None)
    (after,) = Store(tmp_path).results()
    assert (after.ended, after.metrics) == (before.ended, before.metrics)
    assert "classes" not in before.more
    assert len(after.more["classes"]["temperature"]["recall"]) == 10


def test_published_rows_have_the_settings_of_the_paper() -> None:
    """Focal calibration loss was printed with its own exponent and weight, not with ours."""
    text = PAGE.text(PAGE.read(RESULTS))
    assert "| focal calibration, γ = 4, λ = 1.5 | focal calibration loss (2025) | 4.56 |" in text
    assert "| focal calibration, γ = 3, λ = 0.5 | focal calibration loss (2025) |" not in text


def test_runs_without_the_stage_are_counted() -> None:
    """The page says how many were made before the stage with T by ECE was kept; with none it says nothing."""
    found = PAGE.read(RESULTS)
    runs = [run for arm in found["arms"] for run in arm["runs"]]
    for run in runs:
        run["stages"]["by-ece"] = run["stages"]["temperature"]
    assert "**Missing:**" not in PAGE.text(found)
    assert "## After temperature scaling, T by ECE" in PAGE.text(found)
    del runs[0]["stages"]["by-ece"]
    assert f"**Missing:** 1 of {len(runs)} runs were made before" in PAGE.text(found)


def test_exponents_on_a_bound_are_marked() -> None:
    """Fits that end on a bound, or lie beyond the paper's grid, are counted and marked."""
    found = PAGE.read(RESULTS)
    for arm in found["arms"]:
        for run in arm["runs"]:
            run["parameters"]["gamma"] = 0.5
    assert "0 of 75 fits end on a bound, and 0 lie outside" in PAGE.text(found)
    found["arms"][0]["runs"][0]["parameters"]["gamma"] = -0.999
    text = PAGE.text(found)
    assert (
        "1 of 75 fits ends on a bound (†), which is no estimate, and 1 lies outside the paper's grid" in text
    )
    assert "-0.999† … 0.500" in text


def test_an_empty_store_is_said(tmp_path) -> None:
    """Without finished runs there is no table."""
    with pytest.raises(InputError, match="holds a finished run of this study; leave out --table"):
        carried_out(tmp_path, 1, table=tmp_path / "results")


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_quoted_values_are_those_of_the_package(setting: Setting) -> None:
    """What a committed page quotes is what the committed tables say."""
    committed = page_of(setting).read(RESULTS)
    assert committed["published"] == quotes(FOLDER, setting.arms)
    assert len(committed["published"]) > 20


def test_claims_of_2020_are_left_open() -> None:
    """The study averages the loss where their code sums it, and no other paper's claims hang on that."""
    for setting in SETTINGS:
        page = page_of(setting)
        numbers = page.read(RESULTS)
        found = page.claims(numbers)
        open_ones = {claim.source for claim in found if "depends on the reduction" in claim.said}
        assert open_ones == {MUKHOTI}
        assert all(claim.departures for claim in found if claim.source in open_ones)
        by_likelihood = [claim.key for claim in found if "depends on the criterion" in claim.said]
        assert by_likelihood == [f"focal-temperature-{key}-ece" for key in ("cross-entropy", "focal-3")]
        text = page.text(numbers)
        assert all(one.what in text for claim in found for one in claim.departures)


def test_the_long_tail_decides_no_paper_s_claim() -> None:
    """None of the papers has one; what no paper claims is decided there as anywhere."""
    of = {setting.key: page_of(setting).claims(page_of(setting).read(RESULTS)) for setting in SETTINGS}
    beyond = {
        key: {each.source for each in found if UNBALANCED in each.departures} for key, found in of.items()
    }
    assert beyond["fashion-mnist"] == set()
    assert {MUKHOTI, FCL} <= beyond["long-tail"]
    decided = {each.source for each in of["long-tail"] if not each.departures}
    assert decided == {"this project", "common practice", "claimed by no paper"}


def test_published_values_are_quoted_as_printed(tmp_path) -> None:
    """Only the network and data named, only methods that were tried, the first of repeated cells."""
    head = "paper,table,dataset,model,method,metric,unit,stage,temperature,value,sd,note\n"
    rows = (
        "p,1,CIFAR-10,ResNet-50,cross-entropy,ECE,percent,pre,,4.35,,\n"
        "p,4,CIFAR-10,ResNet-50,cross-entropy,ECE,percent,pre,,9.99,,\n"
        "p,1,CIFAR-100,ResNet-50,cross-entropy,ECE,percent,post,2.1,1.00,,\n"
        "p,1,CIFAR-10,ResNet-50,brier,ECE,percent,pre,,1.82,,\n"
    )
    (tmp_path / "mukhoti-2020-focal-loss-calibration.csv").write_text(head + rows)
    other = "q,1,CIFAR-10,ResNet-50,weight-decay,ECE,percent,post,2.5,1.37,,\n"
    (tmp_path / "focal-calibration-loss-2025.csv").write_text(head + other)
    found = quotes(tmp_path, SETTINGS[0].arms[1:2])
    assert [(quote["arm"], quote["value"], quote["temperature"]) for quote in found] == [
        ("cross-entropy", "4.35", ""),
        ("cross-entropy", "1.37", "2.5"),
    ]
    with pytest.raises(InputError, match="there is no mukhoti"):
        quotes(tmp_path / "elsewhere", SETTINGS[0].arms)


def test_command_lists_studies_and_refuses_others() -> None:
    """``python -m papers --list`` names each; a name that is none gets one sentence with the nearest."""
    listed = CliRunner().invoke(app, ["study", "--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [study.name for study in STUDIES]
    with pytest.raises(InputError, match="no study 'loss'; did you mean 'losses'"):
        CliRunner().invoke(app, ["study", "loss"], catch_exceptions=False)
    with pytest.raises(InputError, match="NAME is missing"):
        CliRunner().invoke(app, ["study"], catch_exceptions=False)
