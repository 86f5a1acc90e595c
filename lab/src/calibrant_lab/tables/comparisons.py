"""Paired tests over seeds, and what is left of them when many are made."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from scipy import stats

from calibrant._math.means import Mean, mean_of

Test: TypeAlias = Literal["t", "sign-flip"]
Correction: TypeAlias = Literal["holm", "benjamini-hochberg", "none"]
TESTS: tuple[Test, ...] = get_args(Test)
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
SIGNIFICANCE = 0.05
FEWEST = 3  # seeds that two arms must share for anything to be decided
_MOST_FLIPPED = 14  # seeds up to which all signs are tried; beyond it the t test takes over


class Comparison(NamedTuple):
    """A paired difference and its two-sided p-value, each None where too few seeds are shared.

    ``test`` says how it was found, as in ``"t, df = 4"``, or why it was not.
    """

    difference: Mean | None
    p: float | None
    test: str


def compare(first: Mapping[object, float], second: Mapping[object, float], test: Test = "t") -> Comparison:
    """The difference of two arms by what both were repeated over.

    Example:
        >>> found = compare({0: 1.0, 1: 2.0, 2: 3.5}, {0: 0.5, 1: 1.0, 2: 2.0, 3: 9.0})
        >>> found.difference.value, round(found.p, 3), found.test
        (1.0, 0.074, 't, df = 2')
        >>> compare({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.0}).test
        'undecidable: 2 seeds in common, 3 are needed'
    """
    gaps = [value - second[key] for key, value in first.items() if key in second]
    n = len(gaps)
    if n == 0:
        return Comparison(None, None, "undecidable: no seed in common")
    if n < FEWEST:
        said = f"undecidable: {n} seed{'s' * (n > 1)} in common, {FEWEST} are needed"
        return Comparison(mean_of(gaps), None, said)
    # Differences that are all alike, as on a grid of temperatures, have no spread for a t test to go by.
    if max(gaps) - min(gaps) <= 1e-12 * max(map(abs, gaps)):
        return Comparison(mean_of(gaps), 2 / 2**n if any(gaps) else 1.0, f"sign-flip, n = {n}")
    if test == "sign-flip" and n <= _MOST_FLIPPED:
        signs = np.array([*itertools.product((1, -1), repeat=n)])
        near = 1e-12 * np.abs(gaps).sum()  # sums that differ by rounding alone are alike
        p = float(np.mean(np.abs(signs @ gaps) >= abs(sum(gaps)) - near))
        return Comparison(mean_of(gaps), p, f"sign-flip, n = {n}")
    return Comparison(mean_of(gaps), float(stats.ttest_1samp(gaps, 0).pvalue), f"t, df = {n - 1}")


def adjusted(
    p_values: pd.Series | Sequence[float], correction: Correction | Literal["benjamini-yekutieli"]
) -> pd.Series:
    """p-values with the others of their family accounted for; NaN stays, and is no part of the family.

    Holm's method bounds the chance of any false finding, Benjamini and Hochberg's the expected share of false
    ones among the findings, and Benjamini and Yekutieli's the same however the tests depend on one another.

    Example:
        >>> adjusted([0.01, 0.04, 0.03], "holm").tolist()
        [0.03, 0.06, 0.06]
        >>> adjusted([0.01, 0.04, 0.03], "benjamini-hochberg").tolist()
        [0.03, 0.04, 0.04]
    """
    given = pd.Series(p_values, dtype=float)
    p = given.dropna().clip(upper=1).sort_values()
    if len(p) and correction == "holm":
        p[:] = np.maximum.accumulate(np.minimum(1, np.arange(len(p), 0, -1) * p))
    elif len(p) and correction != "none":
        p[:] = stats.false_discovery_control(p, method="by" if correction == "benjamini-yekutieli" else "bh")
    return p.reindex(given.index)


def against_all(
    best: Mapping[object, float], others: Sequence[Mapping[object, float]], test: Test
) -> Comparison:
    """The comparison of the best arm with the one from which it is told apart least.

    The best was chosen by looking; two-sided tests against all others make up for that, with no further
    correction.

    References:
        Hung and Fithian, "Rank verification for exponential families", Annals of Statistics 47, 2019.
    """
    found = [compare(best, each, test) for each in others]
    return max(found, key=lambda each: 2.0 if each.p is None else each.p)
