"""What the studies measure, on the smallest settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant_lab.figures.fcl_boundaries.measure import Boundary
from calibrant_lab.figures.fcl_boundaries.measure import shape_of as shape_of_boundary
from papers import studies
from papers.dynamics.measure import shape_of, train_side
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


def test_length_and_turning_of_a_circle() -> None:
    """A circle of radius 1/2: its boundary is π long and turns once around."""
    across = np.linspace(-1, 1, 101)
    radius = np.hypot(*np.meshgrid(across, across))
    none = np.zeros((0, 2))
    found = Boundary(
        points=none, labels=none[:, 0], across=across, up=across, probs=radius, confidence=0.0, accuracy=0.0
    )
    length, turning = shape_of_boundary(found)
    assert length == pytest.approx(np.pi, abs=0.01)
    assert 2 * np.pi - 0.4 < turning < 2 * np.pi + 0.01  # less what the first and the last step leave out


def test_training_samples_that_are_all_right_have_no_temperature() -> None:
    """The likeliest temperature is then the lowest; lengths of gradients have quantiles."""
    right = train_side(torch.tensor([[2.0, 0.0]] * 5), torch.zeros(5, dtype=torch.long))
    assert right["accuracy"] == 1
    assert right["temperature"] < 0.01
    assert right["gap"] < 0
    assert shape_of(np.array([1.0, 3.0]))["50 %"] == 2
