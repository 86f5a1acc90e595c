"""The schedule of exponents."""

from typing import Any

import torch

from calibrant import losses


def test_531_and_532() -> None:
    """The schedules of the reference change at epochs 100 and 250."""
    for last in (1, 2):
        schedule = losses.ScheduledFocalLoss(gammas=(5, 3, last), milestones=(100, 250))
        seen = []
        for epoch in (0, 99, 100, 249, 250, 349):
            schedule.step(epoch)
            seen.append(schedule.gamma)
        assert seen == [5, 5, 3, 3, last, last]


def test_the_loss_follows() -> None:
    logits, labels = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    schedule = losses.ScheduledFocalLoss(milestones=(1, 2))
    for epoch, gamma in enumerate((5, 3, 2)):
        schedule.step(epoch)
        assert torch.equal(schedule(logits, labels), losses.focal_loss(logits, labels, gamma=gamma))
        targets = torch.softmax(logits, 1)
        expected = losses.focal_loss(logits, targets=targets, gamma=gamma)
        assert torch.equal(schedule(logits, targets=targets), expected)


def test_the_epoch_survives_saving(tmp_path: Any) -> None:
    schedule = losses.ScheduledFocalLoss()
    schedule.step(120)
    torch.save(schedule.state_dict(), tmp_path / "loss.pt")
    again = losses.ScheduledFocalLoss()
    again.load_state_dict(torch.load(tmp_path / "loss.pt", weights_only=True))
    assert (again.epoch, again.gamma) == (120, 3)
    assert "epoch=120" in repr(again)
