"""The learning rate: by the epoch, and on a plateau."""

from __future__ import annotations

import math

import pytest
import torch

from calibrant_lab.training import train
from calibrant_lab.training.recipe import ScheduleSection
from calibrant_lab.training.schedule import learning_rate

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"name": "steps", "milestones": (1, 3), "factor": 0.5}, [1, 0.5, 0.5, 0.25]),
        ({"name": "cosine"}, [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]),
        ({"name": "cosine", "floor": 0.5, "warmup": 2}, [1 / 3, 2 / 3, 1, 0.75]),
    ],
)
def test_learning_rates_follow_the_schedule(settings, expected) -> None:
    """The rate of each of four epochs, by hand."""
    schedule = ScheduleSection(**settings)
    rates = [learning_rate(schedule, base=1.0, epoch=epoch, epochs=4) for epoch in range(4)]
    assert rates == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("patience", [0, 2])
def test_the_rate_on_a_plateau_is_torchs(patience) -> None:
    """After every epoch of a loss that falls, stands, wavers and falls by too little."""
    losses = [3.0, 2.0, 2.0, 2.0, 2.5, 1.9, 1.8999, 1.89985, 1.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    theirs = plateau(optimiser, factor=0.1, patience=patience, eps=0)  # eps stops it below 1e-8
    settings = ScheduleSection(name="plateau", patience=patience, factor=0.1)
    for epoch in range(len(losses) + 1):
        mine = learning_rate(settings, base=0.5, epoch=epoch, epochs=20, losses=losses[:epoch])
        assert mine == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-12, abs=0)
        if epoch < len(losses):
            theirs.step(losses[epoch])
    assert mine < 0.5 * 0.1**2 * 1.01


def test_the_rate_falls_in_a_training_that_learns_nothing(recipe, tmp_path) -> None:
    """It sees the calibration NLL of the epochs before; a resumed training sees the same."""
    settings = ["schedule.name=plateau", "schedule.milestones=[]", "schedule.patience=0"]
    slow = recipe.with_settings([*settings, "optimiser.learning_rate=1e-9", "training.epochs=4"])
    run = train(slow, tmp_path / "run", report=False)
    assert [row["learning_rate"] for row in run.rows] == pytest.approx([1e-9, 1e-9, 1e-10, 1e-11])
