"""What the studies measure, on the smallest settings."""

from __future__ import annotations

import pytest
import torch

from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.tasks.training import recipe_of as trained_by
from calibrant_lab.training import load_recipe
from calibrant_lab.training.neutral import conventions_of
from papers import studies
from papers.shift.measure import recipe_of
from papers.sst.measure import RENORMALISED, STRUCK, judged


def test_every_grid_is_read() -> None:
    """Each study's grid names a task that exists, with settings it takes."""
    from papers.grids import read_grid

    for name in studies.names():
        module = studies.study(name)
        if hasattr(module, "GRID"):
            assert read_grid(module.GRID, seeds=1).points


def test_shift_recipe() -> None:
    """The recipe of the study of losses, with another loss and size."""
    recipe = recipe_of({"loss": "brier", "seed": 1, "train": 500, "epochs": 2, "images": 10})
    assert (recipe.training.epochs, recipe.data.train, recipe.seed) == (2, 500, 1)


def test_sst_errors_are_those_of_the_runs_report() -> None:
    """ECE and temperatures under both conventions are what a run says of itself."""
    generator = torch.Generator().manual_seed(0)
    wide = (2 * torch.randn(120, 3, generator=generator)).log_softmax(1)[:, ::2]
    labels = (torch.rand(120, generator=generator) < wide.softmax(1)[:, 1]).long()
    logits = {"calibration": wide[:60], "test": wide[60:]}
    own = conventions_of(logits, {"calibration": labels[:60], "test": labels[60:]}, num_bins=15)
    for convention in (STRUCK, RENORMALISED):
        found = judged(logits, labels[:60], labels[60:], convention)
        for stage, name in (("before", "before"), ("temperature", "by_nll"), ("by-ece", "by_ece")):
            assert found["stages"][stage]["ece"] == pytest.approx(own[convention][name]["ece"], abs=1e-9)
        assert found["parameters"]["ece_temperature"] == own[convention]["by_ece"]["temperature"]
        assert found["stages"]["before"]["error"] == pytest.approx(own["error"], abs=1e-12)


@pytest.mark.parametrize(
    ("study", "data", "recipe", "but"),
    [
        ("sst", "sst_trees", "sst-tree-lstm", set[str]()),
        ("texts", "ag_news", "ag-news", set[str]()),
        ("texts", "newsgroups20", "20ng-gpcnn", {"training.epochs", "training.precision"}),
    ],
)
def test_grids_have_the_settings_of_their_recipes(study: str, data: str, recipe: str, but: set[str]) -> None:
    """Network, data and training, but for what the page calls a difference."""
    points = load_grid(studies.HERE / study / "grid.toml").points
    settings = next(each.settings for each in points if str(each.settings["data.name"]).startswith(data))
    wanted = load_recipe(studies.HERE.parent / "lab" / "recipes" / f"{recipe}.toml")
    assert {each.partition(":")[0] for each in wanted.differences(trained_by(settings))} == but
