"""Minimising one function of the temperature, or many in step, by Newton's method with a certificate."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor

from calibrant.calibrators._objectives import Slopes
from calibrant.calibrators._search import (
    HIGHEST_TEMPERATURE,
    LONGEST_STEP,
    LOWEST_TEMPERATURE,
    MAX_STEPS,
    TOLERANCE,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int

ManySlopes: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Which of the functions (A,), each at its own inverse temperature (A,): value and two derivatives (A, 3)."""

MARGIN = 1e-6  # in log T
_PATIENCE = 3  # steps of Newton's that may each be more than half as long as the one before
_SMALL_STEP = 1e-7
_SHORT_STEP = 0.1
_SETTLED = 1e-8  # derivative by log T that certificates promise


@dataclass(frozen=True)
class TemperatureRoot:
    """Where the derivative of a function convex in 1 / T vanishes, or the bound it points to."""

    temperature: float
    at_start: float  # the function where the search began
    value: float
    slope: float  # derivative by log T
    steps: int  # how often the function was looked at
    exhausted: bool  # the steps were used up before Newton's became small
    bracketed: bool  # the derivative was seen to change its sign within MARGIN

    @property
    def on_bound(self) -> bool:
        """Whether it is an end of the interval."""
        return self.temperature in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}

    @property
    def settled(self) -> bool:
        """Whether the derivative vanishes, or points out of the interval at its end."""
        outwards = self.slope > 0 if self.temperature == LOWEST_TEMPERATURE else self.slope < 0
        return not self.exhausted and (abs(self.slope) < _SETTLED or (self.on_bound and outwards))


def convex_minimum(
    slopes: Callable[[float], Slopes], start: float = 1.0, *, bracket: bool = False
) -> TemperatureRoot:
    """Newton's method in log T on the derivative by 1 / T, which falls as T grows, between known signs.

    Of separable data the derivative fades as T falls and Newton's steps with it, long before the bound. So
    where they do not shrink, the end of the interval is tried, and what lies between known signs is halved.
    Short steps also use the derivatives where the last one began, which saves one of four.

    With ``bracket`` the sign of the derivative is looked at on the other side of the root, too.
    """
    search = _search(start, bracket)
    beta = next(search)
    while True:
        try:
            beta = search.send(slopes(beta))
        except StopIteration as found:
            return found.value


def convex_minima(
    slopes: ManySlopes, starts: Float[Tensor, " M"], *, bracket: bool = False
) -> list[TemperatureRoot]:
    """The same for each function; those that are done are not looked at again."""
    searches = [_search(start, bracket) for start in starts.tolist()]
    asked = {number: next(search) for number, search in enumerate(searches)}
    roots: dict[int, TemperatureRoot] = {}
    while asked:
        numbers: Int[Tensor, " A"] = torch.tensor(list(asked), device=starts.device)
        found = slopes(numbers, starts.new_tensor(list(asked.values()))).tolist()
        for number, terms in zip(list(asked), found, strict=True):
            try:
                asked[number] = searches[number].send(Slopes(*terms))
            except StopIteration as done:
                roots[number] = done.value
                del asked[number]
    return [roots[number] for number in range(len(searches))]


def _search(start: float, bracket: bool) -> Generator[float, Slopes, TemperatureRoot]:
    """Asks for the function at inverse temperatures, one after another."""
    low, high = math.log(LOWEST_TEMPERATURE), math.log(HIGHEST_TEMPERATURE)
    ends = {low: LOWEST_TEMPERATURE, high: HIGHEST_TEMPERATURE}
    untried = set(ends)
    place, steps, slow, previous = math.log(start), 0, 0, math.inf
    last: _Knot | None = None
    at_start = math.nan
    while True:
        steps += 1
        temperature = ends.get(place, math.exp(place))
        beta = 1 / temperature
        value, first, second = yield beta
        at_start = value if steps == 1 else at_start
        if first > 0:  # T must grow
            low = place
        else:
            high = place
        bend = beta * second
        change = first / bend if bend > 0 else math.copysign(math.inf, first)
        # A small derivative is not enough: of separable data it fades as T falls, but Newton's step does not.
        small = abs(beta * first) <= TOLERANCE and abs(change) <= _SMALL_STEP
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
        # The derivative falls as T grows: it has the other sign close by, or both if it is zero.
        for side in (1, -1):
            if side * first >= 0:
                there = yield beta * math.exp(-side * MARGIN)
                steps += 1
                bracketed = side * there.first < 0
                if not bracketed:
                    break
    return TemperatureRoot(temperature, at_start, value, -beta * first, steps, exhausted, bracketed)


class _Knot(NamedTuple):
    """A function at a place."""

    place: float
    value: float
    slope: float


def _root_between(one: _Knot, other: _Knot) -> float:
    """Where the cubic that gives the place by the value is at zero: exact to third order."""
    rise = other.value - one.value
    if rise == 0:
        return other.place - other.value / other.slope
    u = -one.value / rise
    return (
        (1 + 2 * u) * (1 - u) ** 2 * one.place
        + u * u * (3 - 2 * u) * other.place
        + u * (1 - u) * rise * ((1 - u) / one.slope - u / other.slope)
    )
