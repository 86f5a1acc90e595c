"""What the loop does with samples: order, batches whatever the number of processes, augmentation."""

from typing import Any

import pytest
import torch
from torch import nn

from calibrant.losses import CrossEntropyLoss, MMCELoss
from calibrant_lab.data import Crop
from calibrant_lab.training import Recipe, train
from calibrant_lab.training.learner import Learner
from calibrant_lab.training.samples import batch_facts, batches_in, check_batches, least_batch
from refusals import refused

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.fixture
def learned(monkeypatch) -> list[tuple[int, list[int]]]:
    seen: list[tuple[int, list[int]]] = []
    learn = Learner.learn

    def noting(self: Learner, rows: torch.Tensor, *, epoch: int, batch: int) -> torch.Tensor:
        seen.append((epoch, rows.tolist()))
        return learn(self, rows, epoch=epoch, batch=batch)

    monkeypatch.setattr(Learner, "learn", noting)
    return seen


def test_every_epoch_takes_all_samples_in_an_order_of_its_own(recipe, tmp_path, learned) -> None:
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


def test_lengths_of_gradients_are_recorded_where_they_are_clipped(recipe, tmp_path, monkeypatch) -> None:
    """Their mean before clipping, each batch by its samples, and the share that was longer; else neither."""
    lengths: list[float] = []
    from lightning_fabric import Fabric  # not where tests are collected: it takes seconds to load

    clip = Fabric.clip_gradients

    def noting(self: Any, module: Any, optimizer: Any, **settings: Any) -> Any:
        length = clip(self, module, optimizer, **settings)
        assert settings["max_norm"] == 0.5
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
    monkeypatch.setattr("lightning_fabric.Fabric.clip_gradients", lambda *_, **__: None)
    (row,) = train(recipe.with_settings(["training.epochs=1"]), tmp_path / "run").rows
    assert (row["gradient_norm"], row["clipped"]) == (None, None)


PLAIN, NORMALISED = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def with_batches(size: int, **more: object) -> Recipe:
    return Recipe.read({"training": {"batch_size": size, **more}})


@pytest.mark.parametrize(
    ("samples", "model", "processes", "last"),
    [
        (49, PLAIN, 1, 49),
        (51, PLAIN, 1, 50),  # normalisation would need two samples
        (52, PLAIN, 1, 2),
        (203, PLAIN, 1, 3),
        (203, PLAIN, 2, 3),
        (203, NORMALISED, 1, 3),
        (203, NORMALISED, 2, 50),  # a process would have one sample to normalise
        (201, PLAIN, 1, 50),
        (201, PLAIN, 2, 50),
        (202, PLAIN, 4, 50),  # two processes would have none
    ],
)
def test_processes_change_the_batches_only_where_they_must(samples, model, processes, last) -> None:
    """The last batch is the same for one process and for two unless one of them could not learn from it."""
    least = least_batch(model, processes)
    assert len(batches_in(torch.arange(samples), with_batches(50), least=least)[-1]) == last


@pytest.mark.parametrize(("drop", "rest"), [(False, [2]), (True, [])])
def test_the_last_batch_is_left_out_where_it_is_smaller(drop, rest) -> None:
    """Ten samples in batches of four; eight fill theirs either way, and three are kept."""
    for total, sizes in ((10, [4, 4, *rest]), (8, [4, 4]), (3, [3])):
        found = batches_in(torch.arange(total), with_batches(4, drop_last=drop), least=1)
        assert [len(rows) for rows in found] == sizes


def test_what_is_left_out_or_shared_is_said() -> None:
    """Samples without a batch, and losses of a batch that see a share of it."""
    said = batch_facts(with_batches(50), 201, PLAIN, CrossEntropyLoss(), processes=2)
    assert said == "; the last 1 of 201 samples of every epoch are left out (a batch needs 2)"
    assert batch_facts(with_batches(50), 203, PLAIN, CrossEntropyLoss(), processes=2) == ""
    dropping = batch_facts(with_batches(50, drop_last=True), 203, PLAIN, CrossEntropyLoss(), processes=1)
    assert dropping == "; the last 3 of 203 samples of every epoch are left out (training.drop_last)"
    of_batch = batch_facts(with_batches(50), 200, PLAIN, MMCELoss(), processes=2)
    assert of_batch == "; each of 2 processes computes it on its share of the batch"


def test_batches_that_processes_cannot_share_are_refused() -> None:
    settings = {"training": {"batch_size": 2}, "hardware": {"devices": 2}}
    words = r"must be at least 4, .* needs 2 of every batch; got 2 and 60"
    refused(words, check_batches, Recipe.read(settings), 60, NORMALISED)
    check_batches(Recipe.read(settings), 60, PLAIN)
