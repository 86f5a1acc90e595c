r"""The likeliest temperature, and pair with a focal exponent, by sums over all rows: one pass for each look.

So the scores may be anywhere: in a file that is read in pieces, or in many that are shared out. Parts that
are summed up by themselves are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeAlias, TypeVar

import numpy as np

from calibrant._math.convex_minimum import MARGIN, Slopes, best_temperature
from calibrant._math.newton import Expansion, Matrix, Vector, minimise_in_box
from calibrant.calibrators.fitting.descent import (
    apart,
    box_of,
    by_logarithms,
    in_logarithms,
    minimum_at,
    promising,
)
from calibrant.calibrators.fitting.doubts import Facts, with_doubts_of_passes
from calibrant.calibrators.fitting.focal_searches import START_GAMMAS, better, of_descent, steepness
from calibrant.calibrators.fitting.likelihood import likelihood_slopes
from calibrant.calibrators.fitting.objectives import of_six, smooth_objective
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA, Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import of_likeliest

Point: TypeAlias = tuple[float] | tuple[float, float]
"""An inverse temperature, or a temperature and a focal exponent."""
Look: TypeAlias = Callable[[Point], Vector]
"""Mean likelihood loss of all rows at a point and its derivatives ``(6,)``: two by an inverse temperature."""
Search: TypeAlias = Callable[[Look], Solution]
"""A search that looks; it begins anew after each pass, and what was seen before costs it nothing."""
Found = TypeVar("Found")

_PLACE = 1e-9  # how short the last step in log T must be
_FLAT = 1e-28  # an inverse temperature at which a class that is ruled out still is
_COMPARED = 1e-3  # derivatives in a sample
_COMPARED_STEPS = 8  # of descents, after which the lowest goes on alone
_SAFETY = 4.0  # how much more a descent may bring than its next step promises
_TRIED = 2**18  # entries that tell which of the starts are best


class _UnseenError(Exception):
    """Points that are to be looked at in the next pass."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points


def solved(
    search: Search, sums: Callable[[Sequence[Point]], Matrix], unit: float = 1.0
) -> tuple[Solution, Facts]:
    """What a search finds in as many passes as it takes, with doubts, and what the rows are like.

    ``sums`` are over all rows, ``unit`` is the inverse temperature of the logits as they came.
    """
    known: dict[Point, Vector] = {}
    facts = np.zeros(6)

    def look(point: Point) -> Vector:
        if point not in known:
            raise _UnseenError([point])
        return known[point]

    always: tuple[Point, Point] = ((unit,), (_FLAT,))
    for passes in count():
        try:
            found = search(look)
        except _UnseenError as unseen:
            points = list(dict.fromkeys((*unseen.points, *(() if known else always))))
        else:
            (before, *_), (_, flat, *_) = (known[point].tolist() for point in always)
            seen = Facts(*facts[1:4].astype(int).tolist(), flat_slope=flat)
            return with_doubts_of_passes(replace(found, before=before, steps=passes), seen), seen
        facts, *totals = sums(points)
        known |= {point: total / facts[0] for point, total in zip(points, totals, strict=True)}
    raise AssertionError  # it counts on for ever


def nothing(points: Sequence[Point]) -> Matrix:
    """The sums of no rows."""
    return np.zeros((1 + len(points), 6))


def sums_of(samples: Samples, points: Sequence[Point]) -> Matrix:
    """Weight, rows, those right, whether any vary; then loss and derivatives at each point, times weight."""
    sums = nothing(points)
    for row, point in zip(sums[1:], points, strict=True):
        if len(point) == 1:
            first, second, value = likelihood_slopes(samples, *point)
            row[:3] = value, first, second
        else:
            value, gradient, hessian = smooth_objective(samples, "nll", *point)
            row[:] = value, *gradient, *hessian[np.triu_indices(2)]
    sums *= samples.total_weight
    varied = not samples.is_constant
    sums[0, :4] = samples.total_weight, samples.num_samples, int(samples.correct.sum()), varied
    return sums


def temperature_in_passes(some: Samples) -> Search:
    """The likeliest temperature of all rows; ``some`` of them say where to begin."""
    known = best_temperature(lambda beta: likelihood_slopes(some, beta), precision=_PLACE)
    start = 1.0 if known.on_bound else known.temperature

    def search(look: Look) -> Solution:
        def slopes(beta: float) -> Slopes:
            value, first, second = look((beta,))[:3].tolist()
            return Slopes(first, second, value)

        root = best_temperature(slopes, start, precision=_PLACE)
        beta = 1 / root.temperature
        bend = beta**2 * slopes(beta).second  # it tells, without another pass, that the sign changes nearby
        sure = not root.on_bound and abs(root.slope) < bend * MARGIN / 2
        return of_likeliest(replace(root, bracketed=sure), math.nan, start)

    return search


def focal_temperature_in_passes(some: Samples) -> Search:
    """The likeliest temperature and exponent of all rows, or the temperature alone, if that is as good."""
    temperature, starts = temperature_in_passes(some), _starts(some)
    low, high = box_of(LOWEST_GAMMA, HIGHEST_GAMMA)

    def search(look: Look) -> Solution:
        def function(point: Vector) -> Expansion:
            gamma = math.expm1(point[1])
            return by_logarithms(of_six(look((math.exp(point[0]), gamma))), gamma)

        def pair() -> Solution:
            followed, place = starts, starts[0]
            for steps in range(2, _COMPARED_STEPS + 1):
                descent = partial(minimise_in_box, function, low=low, high=high, max_steps=steps)
                ends = _together([partial(descent, start) for start in followed])
                least = min(ends, key=lambda end: end.value)
                place, ends_at = least.point, zip(followed, ends, strict=True)
                followed = [at for at, end in ends_at if end.value - _SAFETY * end.promised <= least.value]
            least = minimise_in_box(function, place, low, high)
            return of_descent(minimum_at(least, LOWEST_GAMMA, HIGHEST_GAMMA), math.nan)

        simpler, found = _together([partial(temperature, look), pair])
        return better(found, simpler)

    return search


def _starts(some: Samples) -> list[Vector]:
    """Optima of a sample, and the best of the least exponents.

    A few samples tell little of exponents, so the first optimum is that with what is known of them before.
    Of some data the least exponent is best, which a few rows may not show.
    """
    few = some.thinned(max(1, _TRIED // some.scores.shape[1]))
    centre = best_temperature(lambda beta: likelihood_slopes(few, beta)).temperature
    starts = [np.array([math.log(centre * steepness(gamma)), math.log1p(gamma)]) for gamma in START_GAMMAS]
    low, high = box_of(LOWEST_GAMMA, HIGHEST_GAMMA)
    likelihood = in_logarithms(some, "nll")

    def expected(point: Vector) -> Expansion:
        """With a standard normal distribution of log(1 + gamma) before."""
        value, gradient, hessian = likelihood(point)
        bend = np.array([0.0, 1 / some.num_samples])
        return Expansion(value + float(bend @ point**2) / 2, gradient + bend * point, hessian + np.diag(bend))

    tried = promising(in_logarithms(few, "nll"), starts, low, high)
    ends = [minimise_in_box(expected, start, low, high, tolerance=_COMPARED) for start in tried]
    usual = min(ends, key=lambda end: end.value)
    least = minimise_in_box(likelihood, usual.point, low, np.array([high[0], low[1]]), tolerance=_COMPARED)
    return apart([usual.point, *tried, least.point])


def _together(searches: Sequence[Callable[[], Found]]) -> list[Found]:
    """Several searches in the same passes."""
    found, points = list[Found](), list[Point]()
    for search in searches:
        try:
            found.append(search())
        except _UnseenError as unseen:
            points += unseen.points
    if points:
        raise _UnseenError(points)
    return found
