"""Minimum of a convex function of a positive number, by safeguarded Newton steps.

The number is an inverse temperature 1 / T, and the search is in log T: of one function, or of many in step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from calibrant._math.newton import LONGEST_STEP, MAX_STEPS, TOLERANCE
from calibrant._math.shapes import Float, Int

ManySlopes: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Indices of functions (A,) and inverse temperatures (A,) to values and two derivatives (A, 3)."""

# Wide enough for cosines (T near 0.01), and for scores in the thousands.
LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 1e-4, 1e4
MARGIN = 1e-6  # in log T
_PATIENCE = 3  # consecutive Newton steps that may be more than half the length of the step before
_SMALL_STEP, _TWELVE_DIGITS = 1e-7, 1e-13  # in log T
_SHORT_STEP = 0.1
_SETTLED = 1e-8  # derivative by log T guaranteed by certificates


class Slopes(NamedTuple):
    first: float
    second: float
    value: float = math.nan


@dataclass(frozen=True)
class TemperatureRoot:
    """Zero of the derivative of a function convex in 1 / T, or the bound it points to."""

    temperature: float
    at_start: float  # function at the start
    value: float
    slope: float  # derivative by log T
    steps: int  # function evaluations
    exhausted: bool  # the steps ran out before Newton's became small
    bracketed: bool  # the derivative was seen to change its sign within MARGIN
    interval: tuple[float, float]

    @property
    def on_bound(self) -> bool:
        return self.temperature in self.interval

    @property
    def settled(self) -> bool:
        outwards = self.slope > 0 if self.temperature == self.interval[0] else self.slope < 0
        return not self.exhausted and (abs(self.slope) < _SETTLED or (self.on_bound and outwards))


def best_temperature(
    slopes: Callable[[float], Slopes],
    start: float = 1.0,
    *,
    interval: tuple[float, float] = (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE),
    precision: float = _SMALL_STEP,
    bracket: bool = False,
) -> TemperatureRoot:
    """Newton's method in log T on the derivative by 1 / T, which falls as T grows, inside a bracket.

    On separable data, the derivative and Newton's steps fade as T falls, long before the bound. If steps do
    not shrink, the end of the interval is tried, then the bracket is halved.
    Short steps also use the derivatives at the previous point, which saves one evaluation in four.

    ``slopes`` gives derivatives by 1 / T, the first rising with 1 / T; Newton's step in log T stops at
    ``precision``. ``bracket`` also checks the sign of the derivative on the other side of the root.
    """
    search = temperature_search(start, interval, precision=precision, bracket=bracket)
    beta = next(search)
    while True:
        try:
            beta = search.send(slopes(beta))
        except StopIteration as found:
            return found.value


def convex_minimum(
    slopes: Callable[[float], tuple[float, float]], low: float, high: float, *, start: float = 1.0
) -> float:
    """Zero of the derivative on ``[low, high]``, or the end it points to, to twelve digits.

    ``slopes`` gives the first and second derivative at a point; the first rises. ``low`` is positive.
    """
    for end, outwards in ((low, 1), (high, -1)):
        if slopes(end)[0] * outwards >= 0:
            return end
    root = best_temperature(
        lambda point: Slopes(*slopes(point)),
        1 / start,
        interval=(1 / high, 1 / low),
        precision=_TWELVE_DIGITS,
    )
    return 1 / root.temperature


def best_temperatures(
    slopes: ManySlopes, starts: Float[Tensor, " M"], *, bracket: bool = False
) -> list[TemperatureRoot]:
    """:func:`best_temperature` of each function; finished ones are not evaluated again."""
    searches = [temperature_search(start, bracket=bracket) for start in starts.tolist()]
    asked = {number: next(search) for number, search in enumerate(searches)}
    roots: dict[int, TemperatureRoot] = {}
    while asked:
        numbers: Int[Tensor, " A"] = torch.tensor(list(asked), device=starts.device)
        found = slopes(numbers, starts.new_tensor(list(asked.values()))).tolist()
        for number, (value, first, second) in zip(list(asked), found, strict=True):
            try:
                asked[number] = searches[number].send(Slopes(first, second, value))
            except StopIteration as done:
                roots[number] = done.value
                del asked[number]
    return [roots[number] for number in range(len(searches))]


def temperature_search(
    start: float,
    interval: tuple[float, float] = (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE),
    *,
    precision: float = _SMALL_STEP,
    bracket: bool = False,
) -> Generator[float, Slopes, TemperatureRoot]:
    """Generator form of :func:`best_temperature`: yields inverse temperatures, receives slopes."""
    low, high = (math.log(end) for end in interval)
    ends = dict(zip((low, high), interval, strict=True))
    untried = set(ends)
    place, steps, slow, previous = math.log(start), 0, 0, math.inf
    last: _Knot | None = None
    at_start = math.nan
    while True:
        steps += 1
        temperature = ends.get(place, math.exp(place))
        beta = 1 / temperature
        first, second, value = yield beta
        at_start = value if steps == 1 else at_start
        if first > 0:  # T must grow
            low = place
        else:
            high = place
        bend = beta * second
        change = first / bend if bend > 0 else math.copysign(math.inf, first)
        # A small derivative is not enough: on separable data it fades as T falls, but Newton's step does not.
        small = abs(beta * first) <= TOLERANCE and abs(change) <= precision
        if first == 0 or low >= high or small or steps == MAX_STEPS:
            break
        following = place + max(-LONGEST_STEP, min(LONGEST_STEP, change))
        here = _Knot(place, first, -bend)
        if last is not None and last.slope < 0 and abs(change) < _SHORT_STEP:
            better = _root_between(last, here)
            following = better if low < better < high else following
        last = here
        slow, previous = (slow + 1 if abs(change) > abs(previous) / 2 else 0), change
        if slow >= _PATIENCE or not low < following < high:
            # Try the end of the interval itself, once; after that both signs are known.
            end = low if change < 0 else high
            following = end if end in untried else (low + high) / 2
            untried.discard(end)
        if following == place:
            break
        place = following
    exhausted = steps == MAX_STEPS and not (first == 0 or low >= high or small)
    bracketed = False
    if bracket and place not in ends:
        # The derivative falls as T grows: its sign changes close by, on both sides if it is zero.
        for side in (1, -1):
            if side * first >= 0:
                there = yield beta * math.exp(-side * MARGIN)
                steps += 1
                bracketed = side * there.first < 0
                if not bracketed:
                    break
    return TemperatureRoot(temperature, at_start, value, -beta * first, steps, exhausted, bracketed, interval)


class _Knot(NamedTuple):
    place: float
    value: float
    slope: float


def _root_between(one: _Knot, other: _Knot) -> float:
    """Zero of the cubic for place as a function of value: exact to third order."""
    rise = other.value - one.value
    if rise == 0:
        return other.place - other.value / other.slope
    u = -one.value / rise
    return (
        (1 + 2 * u) * (1 - u) ** 2 * one.place
        + u * u * (3 - 2 * u) * other.place
        + u * (1 - u) * rise * ((1 - u) / one.slope - u / other.slope)
    )
