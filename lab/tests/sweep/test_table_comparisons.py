"""Paired tests over seeds, and what is left of them when many are made."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from calibrant_lab.tables.build import SIGNIFICANCE, adjusted, against_all, compare

DRAW = random.Random(3)
FIRST, SECOND = ([DRAW.gauss(0.4, 1) for _ in range(7)] for _ in range(2))
SOME = [0.001, 0.2, 0.012, 0.04, 0.013, 0.9]


def test_p_values_are_those_of_scipy() -> None:
    """The t test is SciPy's; so is the exact one by signs, which cannot fall below 2 / 2^n."""
    first, second = dict(enumerate(FIRST)), dict(enumerate(SECOND))
    assert compare(first, second).p == pytest.approx(stats.ttest_rel(FIRST, SECOND).pvalue, rel=1e-12)
    found = stats.permutation_test(
        (FIRST, SECOND), lambda a, b: (a - b).mean(), permutation_type="samples", n_resamples=10_000
    )
    assert compare(first, second, "sign-flip").p == pytest.approx(found.pvalue, rel=1e-12)
    ahead = dict(enumerate([1.0, 1.1, 5.0, 0.2, 0.3]))
    assert compare(ahead, dict.fromkeys(ahead, 0.0), "sign-flip").p == 2 / 2**5


def test_only_common_seeds_count() -> None:
    """Seeds that one arm lacks are left out, whatever their order."""
    one, other = {0: 1.0, 1: 2.0, 5: 3.5, 9: 80.0}, {5: 2.0, 1: 1.0, 0: 0.5, 4: -7.0}
    found = compare(one, other)
    assert (found.difference.value, found.difference.n) == (1.0, 3)
    assert found.p == pytest.approx(stats.ttest_rel([1.0, 2.0, 3.5], [0.5, 1.0, 2.0]).pvalue, rel=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_seeds_decide_nothing(count) -> None:
    """Without three seeds in common there is no p-value, however large the difference."""
    found = compare({seed: 100.0 + seed for seed in range(count)}, dict.fromkeys(range(5), 0.0))
    assert found.p is None
    assert "undecidable" in found.test


def test_differences_that_are_all_alike_are_no_certainty() -> None:
    """On a grid of temperatures all differences can be 0.1; a t test would give p = 0 for three seeds."""
    found = compare({0: 1.6, 1: 1.7, 2: 1.5}, {0: 1.5, 1: 1.6, 2: 1.4})
    assert found.p == 2 / 2**3
    assert compare({0: 1.0, 1: 2.0, 2: 3.0}, {0: 1.0, 1: 2.0, 2: 3.0}).p == 1.0
    assert compare(dict.fromkeys(range(20), 1.0), dict.fromkeys(range(20), 0.0)).p == 2 / 2**20


def test_holm_is_the_closure_of_bonferroni() -> None:
    """Holm's p-value is the largest Bonferroni one over all families that hold the test."""
    from itertools import combinations

    others = range(len(SOME))
    families = [family for size in range(1, len(SOME) + 1) for family in combinations(others, size)]
    closed = [
        max(
            min(1.0, len(family) * min(SOME[each] for each in family))
            for family in families
            if place in family
        )
        for place in others
    ]
    assert [*adjusted(SOME, "holm")] == pytest.approx(closed, rel=1e-12)


def test_undecidable_comparisons_are_no_part_of_the_family() -> None:
    """They neither get a p-value nor make others pay for them."""
    for correction in ("holm", "benjamini-hochberg", "none"):
        assert [*adjusted([math.nan, 0.03, math.nan], correction)] == pytest.approx(
            [math.nan, 0.03, math.nan], nan_ok=True
        )


def test_the_best_must_beat_the_nearest() -> None:
    """The best is compared with the arm from which it is told apart least; one undecidable one suffices."""
    best = {seed: 1.0 + 0.01 * seed**2 for seed in range(5)}
    far = {seed: 9.0 + 0.1 * (seed % 2) for seed in range(5)}
    near = {seed: 1.01 + 0.05 * (seed % 3) for seed in range(5)}
    found = against_all(best, [far, near], "t")
    assert found == compare(best, near)
    assert found.p is not None
    assert found.p > SIGNIFICANCE
    assert against_all(best, [far, {0: 9.0}], "t").p is None
