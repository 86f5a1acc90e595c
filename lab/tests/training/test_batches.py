"""Which batches an epoch has, whatever the number of processes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibrant._math.errors import InputError
from calibrant.losses import CrossEntropyLoss, MMCELoss
from calibrant_lab.training import Recipe
from calibrant_lab.training.samples import batch_facts, batches_in, check_batches, least_batch

PLAIN, NORMALISED = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def recipe(size: int, **more: object) -> Recipe:
    """A recipe with batches of that size."""
    return Recipe.read({"training": {"batch_size": size, **more}})


@pytest.mark.parametrize(
    ("samples", "model", "processes", "last"),
    [
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
    assert len(batches_in(torch.arange(samples), recipe(50), least=least)[-1]) == last


@pytest.mark.parametrize(("drop", "rest"), [(False, [2]), (True, [])])
def test_the_last_batch_is_left_out_where_it_is_smaller(drop, rest) -> None:
    """Ten samples in batches of four; eight fill theirs either way, and three are kept."""
    for total, sizes in ((10, [4, 4, *rest]), (8, [4, 4]), (3, [3])):
        found = batches_in(torch.arange(total), recipe(4, drop_last=drop), least=1)
        assert [len(rows) for rows in found] == sizes


def test_what_is_left_out_or_shared_is_said() -> None:
    """Samples without a batch, and losses of a batch that see a share of it."""
    said = batch_facts(recipe(50), 201, PLAIN, CrossEntropyLoss(), processes=2)
    assert said == "; the last 1 of 201 samples of every epoch are left out (a batch needs 2)"
    assert batch_facts(recipe(50), 203, PLAIN, CrossEntropyLoss(), processes=2) == ""
    dropping = batch_facts(recipe(50, drop_last=True), 203, PLAIN, CrossEntropyLoss(), processes=1)
    assert dropping == "; the last 3 of 203 samples of every epoch are left out (training.drop_last)"
    of_batch = batch_facts(recipe(50), 200, PLAIN, MMCELoss(), processes=2)
    assert of_batch == "; each of 2 processes computes it on its share of the batch"


def test_batches_that_processes_cannot_share_are_refused() -> None:
    """Two processes with batch normalisation cannot share batches of two."""
    settings = {"training": {"batch_size": 2}, "hardware": {"devices": 2}}
    with pytest.raises(InputError, match=r"must be at least 4, .* needs 2 of every batch; got 2 and 60"):
        check_batches(Recipe.read(settings), 60, NORMALISED)
    check_batches(Recipe.read(settings), 60, PLAIN)
