"""Recipes that penalise curvature or minimise sharpness."""

import json

import pytest
import torch
from torch import nn

from calibrant.curvature import CurvatureRegularizer
from calibrant_lab.data.table import to_unit
from calibrant_lab.models import build
from calibrant_lab.training import seeds, train
from calibrant_lab.training.data import preparation, read_data
from calibrant_lab.training.loss import build_regularizer

ADDITIONS = [
    ["curvature.weight=0.01"],
    ["curvature.weight=0.01", "curvature.estimator=last-layer", "curvature.every=3"],
    ["sam.rho=0.05"],
]


@pytest.mark.usefixtures("short_reports")
def test_nothing_added_is_nothing_changed(recipe, tmp_path, same_numbers) -> None:
    """A weight and a radius of 0, whatever else these tables say, train as without them, and cost nothing."""
    plain = train(recipe, tmp_path / "plain")
    settings = ["curvature.estimator=last-layer", "curvature.every=2", "curvature.weight=0", "sam.rho=0"]
    same = train(recipe.with_settings(settings), tmp_path / "same")
    same_numbers(plain.folder.path, same.folder.path)
    assert same.cost is None
    assert "train_trace" not in same.rows[0]


@pytest.mark.usefixtures("short_trainings")
@pytest.mark.parametrize("settings", ADDITIONS, ids=lambda settings: settings[-1])
def test_what_is_recorded(recipe, tmp_path, settings) -> None:
    """The trace of every epoch, what a step cost against plain cross-entropy, and both in the report."""
    run = train(recipe.with_settings(["training.epochs=2", *settings]), tmp_path / "run")
    traces = [row.get("train_trace") for row in run.rows]
    assert all(isinstance(trace, float) for trace in traces) == settings[0].startswith("curvature")
    cost = run.cost
    assert cost == json.loads((tmp_path / "run" / "cost.json").read_text())
    assert cost["times_cross_entropy"] == pytest.approx(
        cost["milliseconds"] / cost["cross_entropy_milliseconds"]
    )
    assert (cost["batch_size"], cost["rounds"]) == (48, 15)
    report = (tmp_path / "run" / "report.html").read_text()
    assert "one of plain cross-entropy" in report
    assert ("SAM, ρ = 0.05" if settings == ADDITIONS[-1] else "0.01 × trace by") in report


@pytest.mark.usefixtures("short_reports")
def test_the_loop_is_that_of_ones_own(recipe, tmp_path) -> None:
    """One epoch of a recipe without noise is the loop that its documentation shows, vector for vector."""
    quiet = ["model=mlp(widths=(16,))", "data.augment=[]", "training.epochs=1", "curvature.weight=0.02"]
    plain = ["optimiser.clip_norm=0", "optimiser.momentum=0", "optimiser.learning_rate=0.002"]
    mine = recipe.with_settings([*quiet, *plain, "reduction=sum"])
    run = train(mine, tmp_path / "run")
    seen = read_data(mine.data)
    prepare = preparation(mine.data, seen)
    torch.manual_seed(seeds.derived(mine.seed, seeds.WEIGHTS))
    model = build(mine.model, input_shape=seen.input_shape, num_classes=seen.num_classes)
    probes = seeds.derived(mine.seed, seeds.PROBES, 0)
    criterion = CurvatureRegularizer(model, nn.CrossEntropyLoss(), weight=0.02, seed=probes)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.002)
    order = torch.randperm(200, generator=seeds.generator(mine.seed, seeds.ORDER, 0))
    for rows in order.split(48):
        optimiser.zero_grad()
        inputs = prepare(to_unit(seen.train.inputs[rows]))
        (len(rows) * criterion(model(inputs), seen.train.labels[rows])).backward()
        optimiser.step()
    for own, theirs in zip(model.parameters(), run.model().parameters(), strict=True):
        torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-6)


def test_settings_reach_the_penalty(recipe) -> None:
    """Every setting of the table arrives; only the vectors of "gauss-newton" depend on the process."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    one = ["curvature.weight=0.5", "curvature.estimator=last-layer", "curvature.every=3"]
    more = ["curvature.num_probes=2", "curvature.negative=clip", 'curvature.parameters=["1"]']
    mine = recipe.with_settings([*one, *more])
    found = build_regularizer(mine, model, nn.CrossEntropyLoss())
    assert (found.weight, found.estimator, found.every) == (0.5, "last-layer", 3)
    assert (found.num_probes, found.negative) == (2, "clip")
    other = build_regularizer(mine, model, nn.CrossEntropyLoss(), rank=1)
    assert other.seed == found.seed
    gauss_newton = mine.with_settings(["curvature.estimator=gauss-newton"])
    ranks = [build_regularizer(gauss_newton, model, nn.CrossEntropyLoss(), rank=rank) for rank in (0, 1)]
    assert len({each.seed for each in ranks if each is not None}) == 2
