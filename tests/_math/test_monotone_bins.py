"""The most bins with ascending outcomes, against every bin in fractions."""

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant._math.monotone_bins import monotone_mass_bins, monotone_width_bins

Rows = list[tuple[Fraction, int, int]]  # score, outcome, weight


def mass_means(rows: Rows, num_bins: int, *, weighted: bool) -> list[Fraction]:
    """Mean outcome of every bin of equal mass, ties sharing theirs."""
    rows = sorted(rows, key=lambda row: (row[0], row[2]))
    total = sum(w for _, _, w in rows)
    ends = [0]
    for j in range(1, num_bins):
        if weighted:
            reached, end = 0, 0
            while reached * num_bins < j * total:
                reached += rows[end][2]
                end += 1
            ends.append(end)
        else:
            ends.append(-(-j * len(rows) // num_bins))
    ends.append(len(rows))
    tied = {
        score: Fraction(
            sum(w * y for s, y, w in rows if s == score), sum(w for s, _, w in rows if s == score)
        )
        for score in {score for score, _, _ in rows}
    }
    means = []
    for low, high in pairwise(ends):
        if high > low:
            inside = rows[low:high]
            means.append(sum(w * tied[s] for s, _, w in inside) / sum(w for _, _, w in inside))
    return means


def width_means(rows: Rows, num_bins: int) -> list[Fraction]:
    """Mean outcome of every bin of equal width that is not empty."""
    means = []
    for i in range(num_bins):
        low, high = i / num_bins, (i + 1) / num_bins
        inside = [(y, w) for s, y, w in rows if (i == 0 or float(s) > low) and float(s) <= high]
        if inside:
            means.append(Fraction(sum(w * y for y, w in inside), sum(w for _, w in inside)))
    return means


def sweep(means: Any, most: int) -> int:
    """The number before the first with a fall."""
    for num_bins in range(2, most + 1):
        found = means(num_bins)
        if any(a > b for a, b in pairwise(found)):
            return num_bins - 1
    return most


table = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=24)


@settings(max_examples=30)
@given(table=table, weighted=st.booleans(), sort=st.booleans())
def test_is_the_sweep(table: list[tuple[int, int, int]], weighted: bool, sort: bool) -> None:
    if sort:  # outcomes that follow the scores but for one or two: many bins
        outcomes = sorted(y for _, y, _ in table)
        table = sorted(table)
        table = [(s, y, w) for (s, _, w), y in zip(table, outcomes, strict=True)]
        table[0] = (table[0][0], 1, table[0][2])
    rows: Rows = [(Fraction(s, 24), y, w if weighted else 1) for s, y, w in table]
    scores, outcomes, weights = (np.array([float(x) for x in column]) for column in zip(*rows, strict=True))
    mass = weights if weighted else None
    expected = sweep(lambda b: mass_means(rows, b, weighted=weighted), len(rows))
    assert monotone_mass_bins(scores, outcomes, mass) == expected
    assert monotone_width_bins(scores, outcomes, mass) == sweep(lambda b: width_means(rows, b), len(rows))


def test_separated_samples_take_no_quadratic_time() -> None:
    """A million samples, sorted but for the middle two, bear bins of two: many trials, each short."""
    outcomes = np.repeat([0.0, 1.0], 500_000)
    outcomes[499_999], outcomes[500_000] = 1.0, 0.0
    assert monotone_mass_bins(np.linspace(0, 1, 1_000_000), outcomes) == 500_000
    assert monotone_mass_bins(np.linspace(0, 1, 1000), np.repeat([0.0, 1.0], 500)) == 1000


@pytest.mark.parametrize("search", [monotone_mass_bins, monotone_width_bins])
def test_a_small_fall_is_no_rounding(search: Any) -> None:
    """Two equal means are no fall; two that differ by 5e-13 are one."""
    scores, outcomes = np.array([0.1, 0.2, 0.8, 0.9]), np.array([1.0, 0.0, 1.0, 0.0])
    assert search(scores, outcomes, np.full(4, 0.5)) >= 2
    assert search(scores, outcomes, np.array([0.5 + 1e-12, 0.5, 0.5, 0.5])) == 1
