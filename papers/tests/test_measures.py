"""What the studies measure, on the smallest settings."""

from __future__ import annotations

from papers import studies
from papers.shift.measure import recipe_of


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
