"""Batches that are decoded ahead of their use."""

from __future__ import annotations

import threading

import pytest
import torch

from calibrant._math.errors import InputError
from calibrant_lab.data.lazy import AHEAD, Plan, StoredImages, in_turn


class Counted(StoredImages):
    """Counts what was decoded, and by whom; one image may be damaged."""

    damaged = -1

    def one(self, row: int):
        """One image."""
        self.seen = [*getattr(self, "seen", []), (row, threading.current_thread())]
        if row == self.damaged:
            raise InputError(f"image {row} cannot be decoded.")
        return super().one(row)


@pytest.fixture
def pixels(rng) -> torch.Tensor:
    """Twenty images of one pixel."""
    return torch.arange(20, dtype=torch.uint8).reshape(20, 1, 1, 1)


def test_batches_come_in_order_and_few_ahead(pixels) -> None:
    """The same batches as from a tensor, decoded elsewhere, no more than a few before they are used."""
    batches = list(torch.randperm(20, generator=torch.Generator().manual_seed(0)).split(2))
    lazy = Counted(pixels)
    stream = in_turn(lazy, batches)
    first = next(stream)
    rest = list(stream)
    assert torch.equal(torch.cat([first, *rest]), torch.cat(list(in_turn(pixels, batches))))
    assert all(thread is not threading.main_thread() for _, thread in lazy.seen)
    some = Counted(pixels)
    begun = in_turn(some, batches)
    next(begun)
    begun.close()
    assert len(getattr(some, "seen", [])) <= 2 * (AHEAD + 1)


def test_errors_reach_the_one_who_asks(pixels) -> None:
    """A damaged image is told when its batch is due, and the batches before it come."""
    lazy = Counted(pixels)
    lazy.damaged = 5
    stream = in_turn(lazy, list(torch.arange(20).split(4)))
    assert len(next(stream)) == 4
    with pytest.raises(InputError, match="image 5 cannot be decoded"):
        next(stream)


def test_a_plan_is_kept_where_it_fits(pixels) -> None:
    """Planned batches are taken from the stream, others are chosen; both are right."""
    lazy = Counted(pixels)
    batches = list(torch.arange(20).split(5))
    plan = Plan(lazy, batches)
    assert torch.equal(plan.take(batches[0]), pixels[:5])
    assert torch.equal(plan.take(torch.tensor([19, 3])), pixels[[19, 3]])
    assert torch.equal(torch.cat([plan.take(rows) for rows in batches[1:]]), pixels[5:])
    assert torch.equal(plan.take(batches[0]), pixels[:5])
    rows = [row for row, _ in lazy.seen]
    assert sorted(rows) == sorted([*range(20), 19, 3, *range(5)])
