"""The likeliest temperature, and the likeliest pair with a focal exponent, in two passes over all rows.

A sample says where to begin. A pass tells enough of the function around there that its minimum is nearly
known, and a second one, around that, tells the rest. Where it was further away, there are more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, count
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from calibrant._math.convex_minimum import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    MARGIN,
    Slopes,
    TemperatureRoot,
    best_temperature,
    temperature_search,
)
from calibrant._math.newton import MAX_STEPS, Expansion, Matrix, Minimum, Vector, minimise_in_box
from calibrant._math.patches import Model, Patch
from calibrant.calibrators.fitting.bounds import HIGHEST_GAMMA, LOWEST_GAMMA
from calibrant.calibrators.fitting.descent import (
    SmoothMinimum,
    box_of,
    by_logarithms,
    in_logarithms,
    pair_at,
    promising,
)
from calibrant.calibrators.fitting.focal_searches import START_GAMMAS, better, of_descent, steepness
from calibrant.calibrators.fitting.likelihood import likelihood_slopes
from calibrant.calibrators.fitting.passes import Search, Wanted, side_by_side
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import of_likeliest

_INTERVAL = (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)
_SLOPE, _PLACE = 1e-10, 1e-9  # how far off a derivative by log T, and log T, may be in the end
_NEAR, _FAR = 0.01, 0.3  # in log T: of a start that is nearer one expansion is enough
_FARTHEST = 0.5  # a step from where a polynomial was made, as a share of 1 / T
_CURVED = 1e-9
_PRIOR = 1.0  # standard deviation of log(1 + gamma) before a sample was seen
_TRIED = 2**18  # entries that tell which of the starts is best
_ERRORS = 3.0  # standard errors of a sample, from the centre of the first patch to its sides
_SHORTEST, _LONGEST = np.array([0.001, 0.005]), np.array([0.4, 1.5])  # in log T and log(1 + gamma)
_NODES = ((0.01, (2, 2)), (0.5, (3, 3)), (math.inf, (3, 4)))  # by the side along log(1 + gamma)
_BEYOND, _EDGE, _SAFETY = 1.2, 1.19, 3.0  # sides of a patch, and of what its polynomial is thought to miss
_STEEPEST, _ROUGH, _EXACT, _ROUNDING = 1.0, 1e-3, 1e-14, 1e-13
_MOST_PASSES = 20
_CLOSE = 1e-3  # minima whose values differ by less are both followed
_ALONG_END = 0.5  # side of a patch at the least exponent, in log(1 + gamma)
_NOTHING = 1e-12  # to be gained: no log-loss is negative


def temperature_in_passes(some: Samples) -> Search[Solution]:
    """The likeliest temperature of all rows; ``some`` of them say where to begin."""
    centres = _centres(some)
    for passes in (1, 2):
        betas = tuple(1 / centre for centre in centres)
        found = yield Wanted(betas=betas)
        reached = min(map(_reached, betas, found.jets), key=lambda each: abs(each.step))
        if reached.settled:
            return _likeliest(reached.root, found.facts.before, passes)
        centres = [reached.root.temperature]
    search = temperature_search(centres[0], bracket=True)
    beta = next(search)
    for more in count(3):
        found = yield Wanted(betas=(beta,))
        value, first, second = found.jets[0][:3].tolist()
        try:
            beta = search.send(Slopes(first / beta, 2 * second / beta**2, value))
        except StopIteration as done:
            return _likeliest(done.value, found.facts.before, more)
    raise AssertionError  # it counts on for ever


def focal_temperature_in_passes(some: Samples) -> Search[Solution]:
    """The likeliest temperature and exponent of all rows, or the temperature alone, if that is as good."""
    simpler, found = yield from side_by_side(temperature_in_passes(some), _pair_in_passes(some))
    return better(found, simpler)


def _centres(some: Samples) -> list[float]:
    """Where to begin: at the temperature of a sample, and two standard errors to its sides."""
    known = best_temperature(lambda beta: likelihood_slopes(some, beta))
    if known.on_bound:
        return [known.temperature, _with_half_an_error(some) if known.temperature < 1 else 1.0]
    bend = likelihood_slopes(some, 1 / known.temperature).second / known.temperature**2
    off = 2 / math.sqrt(some.num_samples * max(bend, _CURVED))
    shifts = (0.0,) if off < _NEAR else (0.0, -min(off, _FAR), min(off, _FAR))
    return [min(max(known.temperature * math.exp(shift), _INTERVAL[0]), _INTERVAL[1]) for shift in shifts]


def _with_half_an_error(some: Samples) -> float:
    """The likeliest temperature of a sample without errors, if half a row more had any label."""
    gap = (
        float((some.scores.double().mean(1) - some.scores.amax(1)) @ some.shares)
        if not some.is_event
        else -float(some.scores.double().abs() @ some.shares) / 2
    )
    more = -gap / (2 * some.num_samples)

    def slopes(beta: float) -> Slopes:
        first, second, value = likelihood_slopes(some, beta)
        return Slopes(first + more, second, value)

    return best_temperature(slopes).temperature


class _Reached(NamedTuple):
    """Where a polynomial is least."""

    step: float  # as a share of 1 / T
    root: TemperatureRoot
    settled: bool  # whether the polynomial is as good as the function there


def _reached(beta: float, jet: Vector) -> _Reached:
    """Where the likelihood is least by its polynomial around an inverse temperature."""
    likelihood = Polynomial(jet)
    slope = likelihood.deriv()
    bend, step = slope.deriv(), 0.0
    for _ in range(MAX_STEPS):
        curve = float(bend(step))
        change = -float(slope(step)) / curve if curve > 0 else -math.copysign(1.0, float(slope(step)))
        last, step = step, min(max(step + change, -_FARTHEST), _FARTHEST) if slope(step) else step
        if step == last or abs(change) < 1e-15:
            break
    temperature = min(max(1 / (beta * (1 + step)), _INTERVAL[0]), _INTERVAL[1])
    if 1 / beta in _INTERVAL and temperature == 1 / beta:
        step = 0.0  # it points outwards
    step = 1 / (temperature * beta) - 1
    left = abs(len(slope) * jet[-1] * step ** (len(slope) - 1)) * (1 + step)  # the last term, by log T
    curve = float(bend(step)) * (1 + step) ** 2
    root = TemperatureRoot(
        temperature,
        math.nan,
        float(likelihood(step)),
        -float(slope(step)) * (1 + step),
        1,
        exhausted=False,
        bracketed=temperature not in _INTERVAL and curve * MARGIN > left,
        interval=_INTERVAL,
    )
    return _Reached(step, root, root.settled and left <= _SLOPE and left <= _PLACE * max(curve, _CURVED))


def _likeliest(root: TemperatureRoot, before: float, passes: int) -> Solution:
    return replace(of_likeliest(root, before, 1.0), steps=passes)


def _pair_in_passes(some: Samples) -> Search[Solution]:
    """The likeliest pair: by polynomials on patches, and on smaller ones around what they say."""
    patches = _first_patches(some)
    for passes in count(1):
        points = [[(math.exp(at), math.expm1(exponent)) for at, exponent in patch.nodes] for patch in patches]
        found = yield Wanted(points=tuple(chain(*points)))
        each = iter(found.expansions)
        surveys = [
            _surveyed(patch, some, [next(each) for _ in some])
            for patch, some in zip(patches, points, strict=True)
        ]
        best, *others = sorted(surveys, key=lambda survey: survey.least.value)
        sure = next((survey for survey in (best, *others) if survey.settled), None)
        if sure is not None and all(survey.may_be_at(sure.least) for survey in (best, *others)):
            pair = pair_at(sure.least.point, LOWEST_GAMMA, HIGHEST_GAMMA)
            slope = sure.least.slope + float(sure.model.misses.max())
            return of_descent(SmoothMinimum(*pair, sure.least.value, slope, passes), found.facts.before)
        pair, seen = best.lowest
        if passes == _MOST_PASSES or seen.value <= _NOTHING:
            slope = float(np.abs(seen.gradient).max())
            return of_descent(SmoothMinimum(*pair, seen.value, slope, passes), found.facts.before)
        patches = [best.next]
        for other in others:
            near = other.least.value - best.least.value < _CLOSE
            if near and patches[0].outside(other.least.point) > 1:
                patches.append(other.next)
    raise AssertionError  # it counts on for ever


class _Survey(NamedTuple):
    """What a pass told of a patch."""

    model: Model
    least: Minimum  # of the model
    out: float  # how many sides from the centre
    off: Vector  # how far the minimum of the function may be from that of the model
    lowest: tuple[tuple[float, float], Expansion]  # of the nodes

    @property
    def settled(self) -> bool:
        """Whether the model is as good as the function."""
        missed = self.model.misses.max()
        sure = missed <= _ROUNDING or (missed <= _SLOPE and self.off.max() <= _PLACE)
        return bool(sure and self.out <= 1)

    def may_be_at(self, other: Minimum) -> bool:
        """Whether another minimum is lower, or the same."""
        apart = np.abs(self.least.point - other.point)
        return self.least.value >= other.value or bool((apart <= _SAFETY * self.off + _PLACE).all())

    @property
    def next(self) -> Patch:
        """A smaller one around the minimum, or a larger one further on."""
        sides = np.diag(self.model.patch.axes)
        known = _SAFETY * max(1.0, self.out) ** 10 * self.off
        sides = np.minimum(known, sides / 3) if self.out < _EDGE else np.minimum(2 * sides, _LONGEST)
        return _patch_around(self.least.point, sides, self.model(self.least.point).hessian)


def _surveyed(patch: Patch, points: list[tuple[float, float]], found: list[Expansion]) -> _Survey:
    low, high = box_of(LOWEST_GAMMA, HIGHEST_GAMMA)
    expansions = [by_logarithms(each, gamma) for each, (_, gamma) in zip(found, points, strict=True)]
    model = patch.model(expansions)
    reach = _BEYOND * np.abs(patch.axes).sum(axis=1)
    within = np.maximum(low, patch.centre - reach), np.minimum(high, patch.centre + reach)
    least = minimise_in_box(model, patch.centre, *within, tolerance=_EXACT)
    off = _uncertain(model, least.point, (low < least.point) & (least.point < high))
    lowest = min(zip(points, expansions, strict=True), key=lambda each: each[1].value)
    return _Survey(model, least, patch.outside(least.point), off, lowest)


def _uncertain(model: Model, point: Vector, free: NDArray[np.bool_]) -> Vector:
    """How far the minimum of the function may be from that of its model."""
    off = np.zeros(2)
    off[free] = np.abs(np.linalg.pinv(model(point).hessian[np.ix_(free, free)])) @ model.misses[free]
    return off


def _first_patches(some: Samples) -> list[Patch]:
    """Around the optimum of a sample, some standard errors to each side, and around others it may have.

    A few samples tell little of exponents, so what is known of them before counts in the first.
    """
    few = some.thinned(max(1, _TRIED // some.scores.shape[1]))
    centre = best_temperature(lambda beta: likelihood_slopes(few, beta)).temperature
    starts = [np.array([math.log(centre * steepness(gamma)), math.log1p(gamma)]) for gamma in START_GAMMAS]
    box = box_of(LOWEST_GAMMA, HIGHEST_GAMMA)
    patches: list[Patch] = []
    for prior in (_PRIOR, math.inf):
        function = _expected(some, prior)
        tried = promising(_expected(few, prior), starts, *box)
        for start in tried[:1] if patches == [] else tried:
            point = minimise_in_box(function, start, *box, tolerance=_ROUGH).point
            if all(patch.outside(point) > 1 for patch in patches):
                hessian = function(point).hessian * some.num_samples
                own, mixed, other = hessian[0, 0], hessian[0, 1], hessian[1, 1]
                errors = 1 / np.sqrt(np.maximum([own, other - mixed**2 / max(own, _CURVED)], _CURVED))
                patches.append(_patch_around(point, np.minimum(_ERRORS * errors, _LONGEST), hessian))
    # Of some data the least exponent is best, which a few rows may not show.
    low, high = box[0], np.array([box[1][0], box[0][1]])
    point = minimise_in_box(_expected(some, math.inf), patches[0].centre, low, high, tolerance=_ROUGH).point
    if all(patch.outside(point) > 1 for patch in patches):
        patches.append(Patch(point, np.diag([patches[0].axes[0, 0], _ALONG_END]), (2, 1)))
    return patches


def _expected(samples: Samples, prior: float) -> Callable[[Vector], Expansion]:
    """The likelihood loss, with a normal distribution of log(1 + gamma) before."""
    function, bend = in_logarithms(samples, "nll"), 1 / (prior**2 * samples.num_samples)

    def at(point: Vector) -> Expansion:
        value, gradient, hessian = function(point)
        exponent = np.array([0.0, point[1]])
        value += bend * point[1] ** 2 / 2
        return Expansion(value, gradient + bend * exponent, hessian + np.diag([0.0, bend]))

    return at


def _patch_around(point: Vector, sides: Vector, hessian: Matrix) -> Patch:
    """Along log T, and along the temperatures that are best for each exponent."""
    down, across = np.maximum(sides, _SHORTEST)
    slope = -hessian[0, 1] / hessian[0, 0] if hessian[0, 0] > _CURVED else 0.0
    slope = min(max(slope, -_STEEPEST), _STEEPEST)
    counts = next(counts for side, counts in _NODES if across <= side)
    return Patch(point, np.array([[down, slope * across], [0.0, across]]), counts)
