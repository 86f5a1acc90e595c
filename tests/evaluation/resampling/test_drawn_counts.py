"""Numbers of events that occur, drawn by their distribution."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from calibrant.evaluation.resampling.null import MOST_TOGETHER, DrawnCounts, group_starts


def test_tables_against_every_outcome(rng: np.random.Generator) -> None:
    """The table of eight events is the sum over all 256 outcomes."""
    probs = rng.random(8)
    expected = np.zeros(9)
    for outcome in itertools.product((0, 1), repeat=8):
        expected[sum(outcome)] += math.prod(p if y else 1 - p for p, y in zip(probs, outcome, strict=True))
    table = DrawnCounts(probs, np.array([0, 8])).tables
    assert table[:8] == pytest.approx(np.cumsum(expected)[:8], abs=1e-15)
    assert table[8] > 1


def test_every_uniform_number_finds_its_place(rng: np.random.Generator) -> None:
    """The number drawn is the count of table entries that the uniform number has passed, of each group."""
    probs = rng.beta(0.3, 0.3, size=100)
    starts = np.array([0, 1, 3, 40, 100])
    drawn = DrawnCounts(probs, starts).draw(np.random.default_rng(5), 500)
    uniform = np.random.default_rng(5).random((4, 500), dtype=np.float32)
    tables = DrawnCounts(probs, starts).tables
    for group, (start, stop) in enumerate(itertools.pairwise(starts)):
        table = tables[start + group : stop + group + 1]
        assert drawn[group].tolist() == np.searchsorted(table, uniform[group], side="right").tolist()


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_events(probability: float) -> None:
    """What never happens is never drawn, and what always happens always is."""
    drawn = DrawnCounts(np.full(7, probability), np.array([0, 1, 7])).draw(np.random.default_rng(0), 1000)
    assert (drawn == probability * np.array([[1], [6]])).all()


def test_mean_and_spread(rng: np.random.Generator) -> None:
    """Sum p and sum p (1 - p), for the largest group there is; |z| < 4."""
    probs = rng.beta(3, 1, size=MOST_TOGETHER)
    drawn = DrawnCounts(probs, np.array([0, MOST_TOGETHER])).draw(rng, 20_000)[0]
    variance = (probs * (1 - probs)).sum()
    assert abs(drawn.mean() - probs.sum()) < 4 * math.sqrt(variance / 20_000)
    assert drawn.var() == pytest.approx(variance, rel=4 * math.sqrt(2 / 20_000))


def test_large_groups_are_divided() -> None:
    """No group is larger than 256, all begin where they must, and the end is told."""
    first = np.zeros(1000, dtype=bool)
    first[[0, 10, 300]] = True
    assert group_starts(first).tolist() == [0, 10, 266, 300, 556, 812, 1000]
    assert group_starts(np.ones(1, dtype=bool)).tolist() == [0, 1]
