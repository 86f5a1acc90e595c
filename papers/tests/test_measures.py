"""What the studies measure, on the smallest settings."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant_lab.figures.fcl_boundaries.measure import Boundary
from calibrant_lab.figures.fcl_boundaries.measure import shape_of as shape_of_boundary
from calibrant_lab.sweep.kept_runs import KeptRun
from papers import studies
from papers.dynamics.measure import shape_of, train_side
from papers.repeats.run import compared, sample_of
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


def test_runs_done_again_are_compared_by_every_number() -> None:
    """One in fifty; a number that changed or is gone is unequal, and a failed repetition is not equal."""
    assert [len(sample_of(runs)) for runs in (1, 50, 51, 300)] == [1, 1, 2, 6]
    run = KeptRun(settings={"seed": 0}, found={"stages": {"error": 0.1, "ece": 0.2}, "norms": [1.0, 2.0]})
    other = KeptRun(settings={"seed": 1, "hardware.threads": 1}, found={"stages": {"error": 0.3}})
    found = compared(run, {"stages": {"error": 0.2, "ece": 0.2}, "norms": [1.0]}, [run, other])
    assert (found["numbers"], found["unequal"]) == (4, 2)
    assert found["error"] == {"found": 0.1, "again": 0.2, "deviation": pytest.approx(0.141), "seeds": 2}
    assert compared(run, None, [run])["unequal"] is None
