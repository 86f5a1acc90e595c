"""Numbers of events that occur, drawn by their distribution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from calibrant.evaluation.resampling.null import DrawnCounts, group_starts


def test_tables_against_every_outcome(rng) -> None:
    """The table of eight events is the sum over all 256 outcomes."""
    probs = rng.random(8)
    expected = np.zeros(9)
    for outcome in itertools.product((0, 1), repeat=8):
        expected[sum(outcome)] += math.prod(p if y else 1 - p for p, y in zip(probs, outcome, strict=True))
    table = DrawnCounts(probs, np.array([0, 8])).tables
    assert table[:8] == pytest.approx(np.cumsum(expected)[:8], abs=1e-15)
    assert table[8] > 1


def test_every_uniform_number_finds_its_place(rng) -> None:
    """The number drawn is the count of table entries that the uniform number has passed, of each group."""
    probs = rng.beta(0.3, 0.3, size=100)
    starts = np.array([0, 1, 3, 40, 100])
    drawn = DrawnCounts(probs, starts).draw(np.random.default_rng(5), 500)
    uniform = np.random.default_rng(5).random((4, 500), dtype=np.float32)
    tables = DrawnCounts(probs, starts).tables
    for group, (start, stop) in enumerate(itertools.pairwise(starts)):
        table = tables[start + group : stop + group + 1]
        assert drawn[group].tolist() == np.searchsorted(table, uniform[group], side="right").tolist()


def test_large_groups_are_divided() -> None:
    """No group is larger than 256, all begin where they must, and the end is told."""
    first = np.zeros(1000, dtype=bool)
    first[[0, 10, 300]] = True
    assert group_starts(first).tolist() == [0, 10, 266, 300, 556, 812, 1000]
    assert group_starts(np.ones(1, dtype=bool)).tolist() == [0, 1]
