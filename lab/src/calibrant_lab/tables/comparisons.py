"""Paired tests over seeds, and what is left of them when many are made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from calibrant._math.means import Mean, mean_of, paired_difference

Test: TypeAlias = Literal["t", "sign-flip"]
Correction: TypeAlias = Literal["holm", "benjamini-hochberg", "none"]
TESTS: tuple[Test, ...] = ("t", "sign-flip")
CORRECTIONS: tuple[Correction, ...] = ("holm", "benjamini-hochberg", "none")
SIGNIFICANCE = 0.05
FEWEST = 3
"""Seeds that two arms must share for anything to be decided."""
_MOST_FLIPPED = 14
"""Seeds up to which all signs are tried; beyond it the t test takes over."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A paired difference and how far it is beyond noise.

    Attributes:
        difference: First less second, over the seeds that both have; None where they share none.
        p: Two-sided, of one test alone; None where too few seeds are shared.
        adjusted: The same, the other tests of the family accounted for.
        test: How it was found, as in ``"t, df = 4"``; why it was not, where it is None.
    """

    difference: Mean | None
    p: float | None
    adjusted: float | None = None
    test: str = ""

    @property
    def decided(self) -> bool:
        """Whether the difference is beyond noise."""
        return self.adjusted is not None and self.adjusted < SIGNIFICANCE


def compare(first: Mapping[object, float], second: Mapping[object, float], test: Test = "t") -> Comparison:
    """The difference of two arms by what both were repeated over.

    Args:
        first: Values by seed.
        second: Values by seed.
        test: Student's t, or an exact test that flips the signs of the differences.

    Example:
        >>> found = compare({0: 1.0, 1: 2.0, 2: 3.5}, {0: 0.5, 1: 1.0, 2: 2.0, 3: 9.0})
        >>> found.difference.value, round(found.p, 3), found.test
        (1.0, 0.074, 't, df = 2')
        >>> compare({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.0}).test
        'undecidable: 2 seeds in common, 3 are needed'
    """
    shared = [key for key in first if key in second]
    if not shared:
        return Comparison(difference=None, p=None, test="undecidable: no seed in common")
    values = [first[key] for key in shared], [second[key] for key in shared]
    found, gaps = paired_difference(*values), [one - other for one, other in zip(*values, strict=True)]
    if len(shared) < FEWEST:
        said = f"undecidable: {len(shared)} seed{'s' * (len(shared) > 1)} in common, {FEWEST} are needed"
        return Comparison(difference=found, p=None, test=said)
    # Differences that are all alike, as on a grid of temperatures, have no spread for a t test to go by.
    flip = test == "sign-flip" or _all_alike(gaps)
    if flip and len(gaps) <= _MOST_FLIPPED:
        return Comparison(difference=found, p=sign_flip_p(gaps), test=f"sign-flip, n = {len(gaps)}")
    return Comparison(difference=found, p=t_p(gaps), test=f"t, df = {len(gaps) - 1}")


def t_p(gaps: Sequence[float]) -> float:
    """Two-sided p-value of Student's t test that the mean is zero.

    Example:
        >>> round(t_p([1.0, 2.0, 3.0]), 4)
        0.0742
    """
    from scipy.stats import t

    n, centre = len(gaps), mean_of(gaps).value
    if _all_alike(gaps):
        return 0.0 if centre else 1.0
    spread = math.sqrt(math.fsum((gap - centre) ** 2 for gap in gaps) / (n - 1))
    return float(2 * t.sf(abs(centre) / (spread / math.sqrt(n)), n - 1))


def sign_flip_p(gaps: Sequence[float]) -> float:
    """Two-sided p-value that the differences are symmetric about zero: all signs are tried.

    It cannot fall below ``2 / 2**n``.

    Example:
        >>> sign_flip_p([1.0, 2.0, 3.0]), sign_flip_p([1.0, 2.0, -3.0])
        (0.25, 1.0)
    """
    sizes = [abs(gap) for gap in gaps]
    found = abs(math.fsum(gaps)) - 1e-12 * math.fsum(sizes)
    sums = (math.fsum(map(math.prod, zip(signs, sizes, strict=True))) for signs in _signs(len(sizes)))
    return sum(abs(each) >= found for each in sums) / 2 ** len(sizes)


def adjusted(p_values: Sequence[float], correction: Correction) -> list[float]:
    """p-values with the others of their family accounted for.

    Holm's method bounds the chance of any false finding, Benjamini and Hochberg's the expected share of false
    ones among the findings.

    Example:
        >>> adjusted([0.01, 0.04, 0.03], "holm")
        [0.03, 0.06, 0.06]
        >>> adjusted([0.01, 0.04, 0.03], "benjamini-hochberg")
        [0.03, 0.04, 0.04]
    """
    if correction == "none":
        return list(p_values)
    count, order = len(p_values), sorted(range(len(p_values)), key=lambda place: p_values[place])
    found = [0.0] * count
    if correction == "holm":
        largest = 0.0
        for rank, place in enumerate(order):
            largest = max(largest, min(1.0, (count - rank) * p_values[place]))
            found[place] = largest
        return found
    smallest = 1.0
    for rank, place in reversed(list(enumerate(order, 1))):
        smallest = min(smallest, count / rank * p_values[place])
        found[place] = smallest
    return found


def adjust(family: Sequence[Comparison], correction: Correction) -> list[Comparison]:
    """The same comparisons with their adjusted p-values; the undecidable ones are not part of the family."""
    decidable = [each.p for each in family if each.p is not None]
    values = iter(adjusted(decidable, correction))
    return [each if each.p is None else replace(each, adjusted=next(values)) for each in family]


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
    undecidable = [each for each in found if each.p is None]
    return undecidable[0] if undecidable else max(found, key=lambda each: each.p or 0.0)


def _all_alike(gaps: Sequence[float]) -> bool:
    return max(gaps) - min(gaps) <= 1e-12 * max(map(abs, gaps))


def _signs(count: int) -> itertools.product[tuple[int, ...]]:
    return itertools.product((1, -1), repeat=count)
