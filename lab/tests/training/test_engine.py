"""What the loop does with samples: their order, their batches and their augmentation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from lightning_fabric import Fabric

from calibrant_lab.data import Crop
from calibrant_lab.training import train
from calibrant_lab.training.learner import Learner

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.fixture
def learned(monkeypatch) -> list[tuple[int, list[int]]]:
    """The epoch and the samples of each batch that is learned."""
    seen: list[tuple[int, list[int]]] = []
    learn = Learner.learn

    def noting(self: Learner, rows: torch.Tensor, *, epoch: int, batch: int) -> torch.Tensor:
        seen.append((epoch, rows.tolist()))
        return learn(self, rows, epoch=epoch, batch=batch)

    monkeypatch.setattr(Learner, "learn", noting)
    return seen


def test_every_epoch_takes_all_samples_in_an_order_of_its_own(recipe, tmp_path, learned) -> None:
    """Each sample once an epoch, and no two epochs alike."""
    train(recipe.with_settings(["training.epochs=3"]), tmp_path / "run")
    orders = [[row for when, rows in learned if when == epoch for row in rows] for epoch in range(3)]
    assert [sorted(order) for order in orders] == [list(range(200))] * 3
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert orders[0] != sorted(orders[0])


def test_augmentation_is_drawn_anew_for_every_batch(recipe, tmp_path, monkeypatch) -> None:
    """No two batches get the same crops: not in one epoch, and not at the same place of two epochs."""
    drawn: list[bytes] = []
    draw = Crop.draw

    def noting(self: Crop, count: int, generator: torch.Generator) -> torch.Tensor:
        found = draw(self, count, generator)
        drawn.append(found[:40].numpy().tobytes())
        return found

    monkeypatch.setattr(Crop, "draw", noting)
    train(recipe.with_settings(["training.epochs=3", "training.batch_size=50"]), tmp_path / "run")
    assert len(set(drawn)) == len(drawn) == 3 * 4


def test_a_last_batch_of_one_sample_is_left_out(recipe, tmp_path, learned) -> None:
    """Batch normalisation needs two samples; where there is but one batch it is kept all the same."""
    sizes = {}
    for train_samples in (49, 50, 48):
        learned.clear()
        mine = recipe.with_settings(["training.epochs=1", f"data.train={train_samples}"])
        train(mine, tmp_path / str(train_samples))
        sizes[train_samples] = [len(rows) for _, rows in learned]
    assert sizes == {49: [48], 50: [48, 2], 48: [48]}


def test_lengths_of_gradients_are_recorded_where_they_are_clipped(recipe, tmp_path, monkeypatch) -> None:
    """Their mean before clipping, each batch by its samples, and the share that was longer; else neither."""
    lengths: list[float] = []
    clip = Fabric.clip_gradients

    def noting(self: Fabric, module: Any, optimizer: Any, **settings: Any) -> Any:
        length = clip(self, module, optimizer, **settings)
        lengths.append(float(length))
        return length

    monkeypatch.setattr(Fabric, "clip_gradients", noting)
    short = ["training.epochs=2", "optimiser.clip_norm=0.5"]
    rows = train(recipe.with_settings(short), tmp_path / "clipped").rows
    sizes = [48, 48, 48, 48, 8]
    for row, found in zip(rows, (lengths[:5], lengths[5:]), strict=True):
        both = list(zip(sizes, found, strict=True))
        assert row["gradient_norm"] == pytest.approx(sum(size * length for size, length in both) / 200)
        assert row["clipped"] == pytest.approx(sum(size for size, length in both if length > 0.5) / 200)
    assert {row["clipped"] for row in rows} != {0.0}
    plain = train(recipe.with_settings(["training.epochs=1", "optimiser.clip_norm=0"]), tmp_path / "plain")
    assert plain.rows[0].keys().isdisjoint({"gradient_norm", "clipped"})


def test_lengths_that_are_not_told_are_unknown(recipe, tmp_path, monkeypatch) -> None:
    """A strategy that does not say how long gradients were: neither length nor share, not a share of 0."""
    monkeypatch.setattr(Fabric, "clip_gradients", lambda *_, **__: None)
    (row,) = train(recipe.with_settings(["training.epochs=1"]), tmp_path / "run").rows
    assert (row["gradient_norm"], row["clipped"]) == (None, None)
