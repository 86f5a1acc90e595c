"""The loss study on a tiny setting: resuming, numbers, verdicts and pages."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant.experiments.means import mean_of
from calibrant.experiments.published import FOLDER
from calibrant.experiments.studies.losses import measure, page_of, settings, write_results
from calibrant.experiments.studies.losses.claims import claims, crossing
from calibrant.experiments.studies.losses.measure import (
    WeightNorms,
    base_recipe,
    by_class,
    collect,
    judged,
    places,
    run_loss_study,
)
from calibrant.experiments.studies.losses.numbers import ArmRuns, difference
from calibrant.experiments.studies.losses.published import quotes
from calibrant.experiments.studies.losses.settings import SETTINGS, Arm, Setting, setting_named
from calibrant.experiments.studies.roster import STUDIES
from calibrant.training import load_recipe, load_run

RECIPES, RESULTS = (Path(__file__).parents[2] / name for name in ("recipes", "docs/results"))

TINY = Setting(
    key="tiny",
    title="Digits",
    base={
        "model": "mlp(widths=(8,))",
        "data": {"name": "digits", "calibration": 200, "test": 0.5, "train": 300},
        "training": {"epochs": 1},
        "hardware": {"threads": 1, "accelerator": "cpu"},
        "evaluation": {"calibrators": ["temperature"], "bootstrap": 10},
    },
    arms=(
        Arm(
            key="cross-entropy",
            title="cross-entropy",
            changes=('loss="cross-entropy"',),
            published="cross-entropy",
        ),
        Arm(
            key="focal-3",
            title="focal, γ = 3",
            changes=('loss="focal(gamma=3)"',),
            published="focal(gamma=3)",
        ),
    ),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms of the tiny setting, one seed each."""
    folder = tmp_path_factory.mktemp("study")
    assert len(run_loss_study(folder, settings=[TINY], seeds=[0])) == 2
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
                name: dict.fromkeys(stage, value) for name in ("before", "temperature", "focal-temperature")
            },
            "parameters": {"temperature": 1.5, "ece_temperature": 1.5, "gamma": 0.0} | parameters,
            "classes": {"before": {"recall": [value] * 10}},
            "norms": {},
        }
        for seed, value in values.items()
    }
    return ArmRuns(key=key, title=key, runs=runs)


def test_finished_runs_are_not_trained_again(store, monkeypatch) -> None:
    """A second call trains nothing, and a third seed is trained without touching what is there."""
    before = {path: path.stat().st_mtime_ns for path in store.rglob("checkpoint.pt")}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("this was finished")

    with monkeypatch.context() as patch:
        patch.setattr(measure, "train", refuse)
        assert len(run_loss_study(store, settings=[TINY], seeds=[0])) == 2
    assert len(run_loss_study(store, settings=[TINY], seeds=[0, 1])) == 4
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())


def test_an_unfinished_run_goes_on(tmp_path, monkeypatch) -> None:
    """What stopped before it was judged is no finished run; the next call finishes it and begins no other."""
    run_loss_study(tmp_path, settings=[dataclasses.replace(TINY, arms=TINY.arms[:1])], seeds=[0])
    folder = tmp_path / "tiny" / "cross-entropy" / "seed-0"
    (folder / "evaluation.json").unlink()
    assert collect(tmp_path, TINY, [0]) == {}
    lines: list[str] = []
    run_loss_study(
        tmp_path, settings=[dataclasses.replace(TINY, arms=TINY.arms[:1])], seeds=[0], tell=lines.append
    )
    assert lines == ["1/1 tiny/cross-entropy/seed-0"]
    assert (folder / "evaluation.json").is_file()
    assert len((folder / "metrics.jsonl").read_text().splitlines()) == 1


def test_order_makes_a_study_cut_short_useful() -> None:
    """First every setting with the first seed, then the first setting's other seeds; late arms at the end."""
    order = [str(place) for place in places(Path("store"))]
    assert len(order) == len(set(order)) == 3 * sum(len(setting.arms) for setting in SETTINGS)
    last = {arm.key for setting in SETTINGS for arm in setting.arms if arm.last}
    first = [name for name in order if name.split("/")[1] not in last]
    early = sum(not arm.last for setting in SETTINGS for arm in setting.arms)
    assert {name.split("/")[2] for name in first[:early]} == {"seed-0"}
    assert order[len(first) :] == [name for name in order if name.split("/")[1] in last]
    assert first[early].startswith("fashion-mnist/")


def test_the_arms_are_the_ones_asked_for() -> None:
    """Twelve or more, cross-entropy with and without weight decay, and class weights where they matter."""
    balanced, tail = SETTINGS
    recipes = {f"{each.setting.key}/{each.arm.key}": each.recipe for each in places(Path("store"), seeds=[0])}
    decays = {arm.key: recipes[f"fashion-mnist/{arm.key}"].optimiser.weight_decay for arm in balanced.arms}
    assert len({recipes[f"fashion-mnist/{arm.key}"].loss for arm in balanced.arms}) >= 12
    assert decays.pop("cross-entropy-no-decay") == 0
    assert set(decays.values()) == {5e-4}
    weighted = [
        arm.key for arm in tail.arms if recipes[f"long-tail/{arm.key}"].training.class_weights == "balanced"
    ]
    assert weighted == ["cross-entropy-alpha", "focal-3-alpha"]
    assert base_recipe(tail).data.imbalance == 100
    assert base_recipe(balanced).data.imbalance == 1
    with pytest.raises(InputError, match=r"no setting 'long_tail' in this study; did you mean 'long-tail'"):
        setting_named("long_tail")


def test_the_recipe_in_the_folder_is_the_study_s() -> None:
    """The recipes of both settings are what the study trains by."""
    assert load_recipe(RECIPES / "fashion-mnist-losses.toml").settings() == base_recipe(settings.BALANCED).settings()
    assert load_recipe(RECIPES / "fashion-mnist-long-tail.toml").settings() == base_recipe(settings.LONG_TAIL).settings()


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
    results = {"arms": [{"arm": arm.key, "title": arm.title, "runs": [*arm.runs.values()]} for arm in arms]}
    found = [claim for claim in claims(results) if "lower ECE than cross-entropy before" in claim.statement]
    assert [claim.verdict for claim in found] == [verdict]
    assert f"n = {len(ours)}" in found[0].evidence


def test_crossing_of_norms() -> None:
    """The epoch from which the sign is the last one's; none if it never changes."""
    rising = {"norms": {"1": 1.0, "2": 3.0, "10": 4.0}}
    flat = {"norms": {"1": 2.0, "2": 2.0, "10": 2.0}}
    assert crossing(rising, flat) == (-1.0, 2.0, 2)
    assert crossing(flat, rising) == (1.0, -2.0, 2)
    assert crossing(rising, {"norms": dict.fromkeys(flat["norms"], 0.0)}) == (1.0, 4.0, None)


def test_numbers_by_hand() -> None:
    """Metrics and class-wise numbers of four samples, worked out by hand."""
    probs = torch.tensor([[0.999, 0.001], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 0])
    found = judged(probs, labels)
    assert found["error"] == 0.5
    assert found["share_above_99"] == 0.25
    assert found["nll"] == pytest.approx(-sum(map(math.log, (0.999, 0.4, 0.7, 0.2))) / 4)
    classes = by_class(probs, labels)
    assert classes["recall"] == [0.5, 0.5]
    assert classes["mean_excess"] == pytest.approx([2.099 / 4 - 0.5, 1.901 / 4 - 0.5])
    assert classes["overconfidence"] == pytest.approx([(0.999 + 0.8) / 2 - 0.5, (0.6 + 0.7) / 2 - 0.5])


def test_pages_say_what_was_found(store, tmp_path) -> None:
    """Markdown, JSON and figures show the numbers of the runs, say n, and are the same when made again."""
    written = write_results(store, tmp_path / "results", wanted=[TINY], seeds=[0, 2], published=None)
    names = {path.name for path in written}
    assert names == {"tiny.md", "tiny.json", "tiny-ece.svg", "tiny-weight-norms.svg"}
    content = json.loads((tmp_path / "results" / "tiny.json").read_text(encoding="utf-8"))
    assert [arm["n"] for arm in content["arms"]] == [1, 1]
    arm = content["arms"][0]
    assert arm["test"]["before"]["ece"]["mean"] == arm["runs"][0]["stages"]["before"]["ece"]
    assert arm["runs"][0]["seed"] == 0
    assert sum(content["training_counts"]) == 300
    text = (tmp_path / "results" / "tiny.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| cross-entropy | 1 |"))
    assert f"{100 * arm['test']['before']['error']['mean']:.2f}" in row
    assert "2 seeds are wanted; fewer have: cross-entropy; focal, γ = 3." in text
    assert "## Which claims hold" in text
    assert "## Published values of the same methods" in text
    again = write_results(store, tmp_path / "again", wanted=[TINY], seeds=[0, 2], published=None)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_an_empty_store_is_said(tmp_path) -> None:
    """Without finished runs there is no table."""
    with pytest.raises(InputError, match="holds no finished run of this study"):
        write_results(tmp_path, tmp_path / "results", wanted=[TINY], seeds=[0], published=None)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.key)
def test_quoted_values_are_those_of_the_package(setting: Setting) -> None:
    """What a committed page quotes is what the committed tables say."""
    committed = json.loads((RESULTS / f"{setting.key}.json").read_text(encoding="utf-8"))
    assert committed["published"] == quotes(FOLDER, setting.arms)
    assert len(committed["published"]) > 20


def test_claims_of_2020_are_left_open() -> None:
    """The study averages the loss where their code sums it, and no other paper's claims hang on that."""
    for setting in SETTINGS:
        numbers = json.loads((RESULTS / f"{setting.key}.json").read_text(encoding="utf-8"))
        page = page_of(setting)
        found = page.claims(numbers)
        open_ones = {claim.source for claim in found if claim.said == "depends on the reduction"}
        assert open_ones == {"Mukhoti et al. (2020)"}
        assert all(claim.departures for claim in found if claim.source in open_ones)
        assert all(claim.said == claim.verdict for claim in found if claim.source not in open_ones)
        text = page.text(numbers)
        assert all(claim.departures[0].what in text for claim in found if claim.departures)


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
    found = quotes(tmp_path, TINY.arms[:1])
    assert [(quote["arm"], quote["value"], quote["temperature"]) for quote in found] == [
        ("cross-entropy", "4.35", ""),
        ("cross-entropy", "1.37", "2.5"),
    ]
    with pytest.raises(InputError, match="there is no mukhoti"):
        quotes(tmp_path / "elsewhere", TINY.arms)


def test_weight_norms_are_those_of_the_checkpoint(store) -> None:
    """The last epoch's norm is that of the trained network's last layer; a line cut off is passed over."""
    folder = store / "tiny" / "focal-3" / "seed-0"
    norms = WeightNorms.read(folder)
    weight = list(load_run(folder).model().parameters())[-2].detach().double()
    assert weight.ndim == 2
    assert norms == {"1": pytest.approx(float(weight.norm()), rel=1e-12)}
    path = folder / WeightNorms.FILE
    whole = path.read_text()
    path.write_text(whole + '{"epoch": 2, "no')
    assert WeightNorms.read(folder) == norms
    path.write_text(whole)


def test_command_lists_studies_and_refuses_others() -> None:
    """``calibrant study --list`` names each; a name that is none gets one sentence with the nearest."""
    listed = CliRunner().invoke(app, ["study", "--list"])
    assert listed.exit_code == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [study.name for study in STUDIES]
    with pytest.raises(InputError, match="no study 'loss'; did you mean 'losses'"):
        CliRunner().invoke(app, ["study", "loss"], catch_exceptions=False)
    with pytest.raises(InputError, match="which study"):
        CliRunner().invoke(app, ["study"], catch_exceptions=False)


def test_command_writes_tables_of_a_store(store, tmp_path, monkeypatch) -> None:
    """``--table`` trains nothing and prints the files it wrote."""
    monkeypatch.setattr(settings, "SETTINGS", (TINY,))
    done = CliRunner().invoke(
        app,
        ["study", "losses", "--out", str(store), "--seeds", "1", "--table", str(tmp_path / "results")],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    assert [Path(line).name for line in done.stdout.splitlines()][:2] == ["tiny.md", "tiny.json"]
