"""What the loop does with samples: their order, their batches and their augmentation."""

from __future__ import annotations

import pytest
import torch

from calibrant.training import train
from calibrant.training.learner import Learner
from calibrant.training.samples import Samples

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.fixture
def learned(monkeypatch) -> list[tuple[int, list[int], torch.Tensor]]:
    """Of each batch that is learned: its epoch, its samples, and what the network was fed."""
    seen: list[tuple[int, list[int], torch.Tensor]] = []
    learn, prepare = Learner.learn, Samples.prepare
    fed: list[torch.Tensor] = []

    def noting(self: Samples, unit: torch.Tensor) -> torch.Tensor:
        fed.append(prepare(self, unit))
        return fed[-1]

    def spying(self: Learner, rows: torch.Tensor, *, epoch: int, batch: int) -> torch.Tensor:
        sums = learn(self, rows, epoch=epoch, batch=batch)
        seen.append((epoch, rows.tolist(), fed[-1].clone()))
        return sums

    monkeypatch.setattr(Samples, "prepare", noting)
    monkeypatch.setattr(Learner, "learn", spying)
    return seen


def test_every_epoch_takes_all_samples_in_an_order_of_its_own(recipe, tmp_path, learned) -> None:
    """Each sample once an epoch, and no two epochs alike."""
    train(recipe.with_settings(["training.epochs=3"]), tmp_path / "run")
    orders = [[row for when, rows, _ in learned if when == epoch for row in rows] for epoch in range(3)]
    assert [sorted(order) for order in orders] == [list(range(200))] * 3
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert orders[0] != sorted(orders[0])


def test_augmentation_is_drawn_anew_for_every_batch(recipe, tmp_path, learned) -> None:
    """Of one sample the network sees other crops in other epochs; without augmentation, always the same."""
    for settings, expected in ((["data.augment=[]"], 1), ([], 2)):
        learned.clear()
        train(recipe.with_settings(["training.epochs=4", *settings]), tmp_path / str(expected))
        crops: dict[int, set[bytes]] = {}
        for _, rows, inputs in learned:
            for row, pixels in zip(rows, inputs, strict=True):
                crops.setdefault(row, set()).add(pixels.numpy().tobytes())
        counts = [len(each) for each in crops.values()]
        assert len(counts) == 200
        # Of nine places four draws are rarely all the same.
        assert max(counts) == 1 if expected == 1 else sum(counts) > 2 * len(counts)


def test_a_last_batch_of_one_sample_is_left_out(recipe, tmp_path, learned) -> None:
    """Batch normalisation needs two samples; where there is but one batch it is kept all the same."""
    sizes = {}
    for train_samples in (49, 50, 48):
        learned.clear()
        mine = recipe.with_settings(["training.epochs=1", f"data.train={train_samples}"])
        train(mine, tmp_path / str(train_samples))
        sizes[train_samples] = [len(rows) for _, rows, _ in learned]
    assert sizes == {49: [48], 50: [48, 2], 48: [48]}
