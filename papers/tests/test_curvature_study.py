"""The curvature study, small: what is measured, what is held against what, and that it goes on."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant.curvature import HessianOperator
from calibrant_lab.sweep.grid import Grid, load_grid
from calibrant_lab.sweep.kept_runs import KeptRun, content_of, shortened
from calibrant_lab.sweep.store import Store
from papers.curvature import CURVATURE, GRID, PAGE, measure
from papers.curvature import hessians as measures
from papers.curvature.claims import claims
from papers.curvature.directions import direction_table
from papers.curvature.network import SmallNetwork
from papers.curvature.numbers import (
    BASIC,
    GAMMA,
    Run,
    difference,
    kept_of,
)
from papers.curvature.ranks import correlation, rank_correlation
from papers.curvature.settings import ARMS, SETTINGS, Setting, arm_named, setting_named
from papers.study import Numbers, Session
from papers.study_runs import carry_out, grid_of, kept_results

SMALL = replace(
    SETTINGS[0], train=60, calibration=100, test=300, measured=40, epochs=2, checkpoints=(0, 2), batch_size=20
)
NORMALISED = replace(SMALL, key="digits-norm", title="digits, MLP with BatchNorm", batch_norm=True)
SHOWN = {"focal-0", "focal-3", "trace-0.01", "sam-0.05"}
CHOSEN = tuple(arm for arm in ARMS if arm.key in SHOWN)


CHANGES = {
    "settings": {name: value for name, value in SMALL.numbers.items() if value != SETTINGS[0].numbers[name]},
    "axes": {"setting": [SMALL.key, NORMALISED.key], "arm": [arm.key for arm in CHOSEN]},
    "exclude": [],  # which are of other settings
}


@contextmanager
def fewer_products() -> Iterator[None]:
    """Curvature estimated from fewer products with the Hessian: these tests ask only that it is recorded."""
    with pytest.MonkeyPatch.context() as patch:
        for name, count in (("MAX_PRODUCTS", 4), ("TRACE_PRODUCTS", 6), ("PROBES", 6)):
            assert getattr(measures, name) > count
            patch.setattr(measures, name, count)
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two settings, a few arms, three seeds."""
    folder = tmp_path_factory.mktemp("study")
    session = Session(tell=lambda _: None)
    with fewer_products():
        CURVATURE.run(session, CHANGES, out=folder, setting=None, seeds=3, table=None)
    return folder


@pytest.fixture(scope="module")
def kept(store: Path) -> list[Run]:
    """What the store holds."""
    return in_store(grid_of(GRID, seeds=3, changes=CHANGES), store)


def in_store(grid: Grid, store: Path) -> list[Run]:
    """Settings, arm and findings of the runs that a store holds, seed by seed."""
    found = [
        {**vars(arm_named(each.settings["arm"])), **each.settings, **each.rows[0]}
        for each in kept_results(grid, store)
    ]
    return sorted(found, key=lambda run: run["seed"])


def numbers_from(kept: list[Run]) -> Numbers:
    """What the page is made of."""
    names = ("setting", "arm", "seed", *SMALL.numbers)
    runs = [
        KeptRun(settings={name: run[name] for name in names}, found=shortened(kept_of(run), 4))
        for run in kept
    ]
    return PAGE.numbers_in(content_of(runs, {}))


def test_a_study_goes_on_where_it_was_stopped(
    store: Path, kept: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call trains only what is gone, to the same numbers."""
    grid = grid_of(GRID, seeds=3, changes=CHANGES)
    gone = grid.items()[7]
    Store(store).remove(gone.run)
    begun: list[str] = []
    begin = Store.begin
    monkeypatch.setattr(Store, "begin", lambda self, run: begun.append(run) or begin(self, run))
    with fewer_products():
        carry_out(grid, Session(tell=lambda _: None), store)
    assert begun == [gone.run]
    assert in_store(grid, store) == kept
    assert len(kept) == 2 * 3 * len(CHOSEN)


def test_other_settings_are_other_runs(store: Path) -> None:
    """Runs of a setting that has changed since are not shown."""
    longer = {**CHANGES, "settings": {**CHANGES["settings"], "epochs": 3}}
    assert kept_results(grid_of(GRID, seeds=3, changes=longer), store) == []


def test_the_grid_holds_every_arm_of_every_setting() -> None:
    """The file names what the settings say, no more and no less."""
    points = {(point.settings["setting"], point.settings["arm"]) for point in load_grid(GRID).points}
    wanted = {(each.key, arm.key) for each in SETTINGS for arm in ARMS if arm.family in each.families}
    assert points == wanted


def test_arms_of_a_seed_start_alike(kept: list[Run]) -> None:
    """Every arm begins with the same network on the same samples, and every seed with another."""
    runs = [run for run in kept if run["setting"] == SMALL.key]
    starts = {seed: {run["path"][0]["ece"] for run in runs if run["seed"] == seed} for seed in range(3)}
    assert all(len(each) == 1 for each in starts.values())
    assert len({next(iter(each)) for each in starts.values()}) == 3
    ends = {run["path"][-1]["nll"] for run in runs}
    assert len(ends) == len(runs)


def test_own_loss_and_cross_entropy(kept: list[Run]) -> None:
    """For cross-entropy both are the same; at fixed parameters focal loss is what `focal_loss` says."""
    for run in kept:
        for point in run["path"]:
            same = point["train"]["own"] == point["train"]["cross_entropy"]
            assert same == (run["gamma"] == 0)
        assert (run["end"]["batch_statistics"] is None) == (run["setting"] == SMALL.key)


def test_strong_penalties_lower_the_trace() -> None:
    """A heavy weight on the trace of cross-entropy ends with a smaller trace than none."""
    heavy = replace(CHOSEN[0], key="trace-heavy", family="trace", beta=0.05)
    longer = replace(SMALL, epochs=20, checkpoints=(0, 20))
    plain, penalised = (measure.simulate(longer, arm, 0)["path"][-1] for arm in (CHOSEN[0], heavy))
    assert penalised["train"]["own"]["trace"] < 0.7 * plain["train"]["own"]["trace"]


def small_model() -> tuple[nn.Module, measures.Batch]:
    """A smooth little network in float64 with some samples."""
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn((12, 4), generator=generator, dtype=torch.float64)
    labels = torch.randint(0, 3, (12,), generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    return model, (inputs, labels)


def test_bends_against_finite_differences() -> None:
    """The trace of second derivatives by the logits is that of second differences."""
    _, (_, labels) = small_model()
    logits = torch.randn((12, 3), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    step = 1e-4
    for gamma in (0.0, 2.0):
        loss = measures.focal(gamma)

        def each(at: torch.Tensor, loss: measures.RowLoss = loss) -> torch.Tensor:
            return loss(at, labels, reduction="none")

        wanted = torch.zeros(12, dtype=torch.float64)
        for column in range(3):
            shift = torch.zeros(3, dtype=torch.float64)
            shift[column] = step
            wanted += (each(logits + shift) - 2 * each(logits) + each(logits - shift)) / step**2
        torch.testing.assert_close(measures.bends(loss, logits, labels), wanted, rtol=1e-5, atol=1e-6)


def test_jacobian_and_noise_against_sample_by_sample() -> None:
    """The estimates lie within their errors of sums over the samples' own derivatives."""
    model, batch = small_model()
    inputs, labels = batch
    parameters = list(model.parameters())
    squares, slopes = [], []
    for place in range(len(labels)):
        logits = model(inputs[place : place + 1])
        rows = [torch.autograd.grad(logit, parameters, retain_graph=True) for logit in logits[0]]
        squares.append(sum(float(piece.square().sum()) for row in rows for piece in row))
        own = torch.autograd.grad(measures.focal(2.0)(logits, labels[place : place + 1]), parameters)
        slopes.append(torch.cat([piece.flatten() for piece in own]))
    found = measures.squared_jacobian(model, batch)
    assert abs(found["value"] - np.mean(squares)) < 4 * found["error"] + 1e-9
    gradients = torch.stack(slopes)
    noise = measures.gradient_noise(model, measures.focal(2.0), batch)
    assert abs(noise["per_sample"] - float(gradients.square().sum(1).mean())) < 4 * noise["error"]
    assert noise["mean_gradient"] == pytest.approx(float(gradients.mean(0).square().sum()), rel=1e-10)


def test_the_scaled_trace_against_the_dense_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the sum over the layers of squared norm times trace, which a factor moved on leaves alone."""
    monkeypatch.setattr(measures, "PROBES", 300)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False)).double()
    batch, loss = small_model()[1], measures.focal(0.0)
    wanted: list[float] = []
    for factor in (1.0, 3.0):
        with torch.no_grad():
            model[0].weight.mul_(factor)
            model[2].weight.div_(factor)
        blocks = HessianOperator(model, loss, [batch]).dense().diagonal().split([24, 18])
        squares = [float(model[place].weight.detach().square().sum()) for place in (0, 2)]
        wanted.append(sum(square * float(block.sum()) for square, block in zip(squares, blocks, strict=True)))
        found = measures.scaled_trace(model, loss, batch)
        assert abs(found["value"] - wanted[-1]) < 4 * found["error"]
    assert wanted[0] == pytest.approx(wanted[1], rel=1e-9)


def test_parts_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traces over confident samples and over the others, by their numbers, give the trace over all."""
    model, batch = small_model()
    confidence = measures._logits(model, batch).softmax(1).amax(1)
    monkeypatch.setattr(measures, "CONFIDENT", float(confidence.median()))
    found = measures.parts(model, measures.focal(1.0), batch)
    counts = [found[name]["count"] for name in ("confident", "others")]
    assert min(counts) > 0
    assert sum(counts) == 12
    together = sum(found[name]["count"] * found[name]["trace"] for name in ("confident", "others")) / 12
    spread = sum(
        (found[name]["count"] * found[name]["trace_error"] / 12) ** 2 for name in ("confident", "others")
    )
    whole = measures.curvature(model, measures.focal(1.0), batch)
    assert abs(together - whole["trace"]) < 4 * math.sqrt(spread + whole["trace_error"] ** 2) + 1e-9


def test_rank_correlation_against_scipy() -> None:
    """Spearman's, ties included; within groups, what the groups differ in is gone."""
    from scipy.stats import spearmanr

    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(5), 6)
    first = groups + rng.normal(size=30).round(1)
    second = groups + rng.normal(size=30).round(1)
    found = rank_correlation(first, second, groups)
    assert found is not None
    assert found.value == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)
    assert found.low < found.value < found.high
    assert found.sign == 1
    within = rank_correlation(first + 100 * groups, second - 100 * groups, groups, within=True)
    again = rank_correlation(first, second, groups, within=True)
    assert within == again
    assert rank_correlation(np.ones(5), np.arange(5.0), np.zeros(5, dtype=int)) is None


def test_differences_are_paired() -> None:
    """Each run is held against the baseline's run of its own seed; others are left out."""
    runs = [{"seed": seed, "x": 2.0**seed} for seed in range(1, 4)]
    baseline = [{"seed": seed, "x": 2.0 ** (seed - 1)} for seed in range(3)]
    found = difference(runs, baseline, lambda run: run["x"], ratio=True)
    assert found is not None
    assert found.n == 2
    assert math.exp(found.value) == pytest.approx(2.0)


def test_the_page_says_what_the_records_show(store: Path, kept: list[Run], tmp_path: Path) -> None:
    """Tables, numbers and pictures are written, and a correlation on the page is that of the records."""
    text, data, path, scatter = CURVATURE.run(
        Session(), CHANGES, out=store, setting=None, seeds=3, table=tmp_path
    )
    said = Path(text).read_text(encoding="utf-8")
    assert "nan" not in said
    assert "γ = 3" in said
    assert "SAM, ρ = 0.05" in said
    pictures = [Path(each).read_text(encoding="utf-8") for each in (path, scatter)]
    assert [picture.count("<svg") for picture in pictures] == [1, 1]
    numbers = PAGE.read(Path(data).parent)
    runs = [run for run in numbers["runs"] if run["setting"] == SMALL.key and run["family"] == "focal"]
    found = correlation(runs, BASIC[3].pick, GAMMA.pick)
    assert found is not None
    assert (
        f"**{found.value:.2f}**".replace("-", "−") in said or f"{found.value:.2f}".replace("-", "−") in said
    )
    first = numbers["runs"][0]
    (same,) = (run for run in kept if all(run[name] == first[name] for name in ("setting", "arm", "seed")))
    assert first["end"]["before.ece"] == pytest.approx(same["end"]["calibration"]["before"]["ece"], rel=1e-3)
    for name, link in (("curvature.svg", path), ("curvature-ece.svg", scatter)):
        assert f"]({name})" in said
        assert Path(link).name == name


def test_arrows_and_verdicts_follow_the_records(kept: list[Run]) -> None:
    """A trace made to fall with γ is said to fall and the claim to hold; made to rise, not."""
    for slope, arrow, verdict, counts in (
        (-1, "↓↓", "holds", "so in 4 of 4 cases, the opposite in none"),
        (1, "↑↑", "does not hold", "so in 0 of 4 cases, the opposite in 4"),
    ):
        changed = copy.deepcopy(kept)
        for run in changed:
            for name in ("trace", "lambda_max"):
                run["path"][-1]["train"]["own"][name] = 10 + slope * run["gamma"] + 0.01 * run["seed"]
        numbers = numbers_from(changed)
        row = next(
            line
            for line in direction_table(numbers["runs"], (SMALL, NORMALISED)).splitlines()
            if line.startswith("| trace, own loss")
        )
        assert row.split(" | ")[2] == arrow
        own = next(claim for claim in claims(numbers) if claim.key == "own-loss")
        assert own.verdict == verdict
        assert own.evidence.startswith(counts)


def test_networks_with_and_without_normalisation() -> None:
    """Both kinds give one logit per class; normalised layers have no bias of their own."""
    for kind, shape in (("mlp", (1, 8, 8)), ("cnn", (1, 14, 14))):
        for batch_norm in (False, True):
            model = SmallNetwork(kind, shape, 10, batch_norm=batch_norm)  # type: ignore[arg-type]
            assert model(torch.zeros(3, *shape)).shape == (3, 10)
            kinds = {type(module).__name__ for module in model.modules()}
            assert ("BatchNorm1d" in kinds) == batch_norm
            biased = [name for name, _ in model.named_parameters() if name.endswith("bias")]
            linear = [module for module in model.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
            assert (
                len(biased) == 1 + sum("BatchNorm" in type(each).__name__ for each in model.modules())
                if (batch_norm)
                else len(biased) == len(linear)
            )


def test_mistakes_are_one_sentence(tmp_path: Path) -> None:
    """An unknown setting and an empty folder are said so."""
    with pytest.raises(InputError, match="did you mean 'digits-norm'"):
        setting_named("digits-nrom")
    result = CliRunner().invoke(app, ["study", "curvature", "--out", str(tmp_path), "--table", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert "holds a finished run" in str(result.exception)


def test_every_setting_measures_where_it_trains() -> None:
    """Checkpoints begin before training and end with it, so that the last one is the end."""
    for setting in SETTINGS:
        assert isinstance(setting, Setting)
        assert setting.checkpoints[0] == 0
        assert setting.checkpoints[-1] == setting.epochs
        assert setting.measured <= setting.train
