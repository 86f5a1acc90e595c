r"""Fits by sums over all rows, one pass per evaluation, with scores possibly read from a file in pieces.

They find the temperature, and the pair with a focal exponent, of maximum likelihood. Parts that are summed up
by themselves are added.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_label_tensor, first_row, row_slices
from calibrant._math.checks import check_label_range, check_weights, not_finite
from calibrant._math.convex_minimum import MARGIN, Slopes, best_temperature
from calibrant._math.errors import InputError
from calibrant._math.newton import Expansion, Matrix, Vector, minimise_in_box
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting import searches
from calibrant.calibrators.fitting.data import absent_classes, degenerate, trouble_of
from calibrant.calibrators.fitting.objectives import of_six, smooth_objective
from calibrant.calibrators.fitting.results import (
    Profile,
    Solution,
    profile_of_rows,
    rows_looked_at,
    summary_of,
)
from calibrant.calibrators.fitting.samples import (
    Samples,
    floor_zero_probabilities,
    likelihood_slopes,
    some_rows,
)

Point: TypeAlias = tuple[float] | tuple[float, float]
"""An inverse temperature, or a temperature and a focal exponent."""
Look: TypeAlias = Callable[[Point], Vector]
"""Mean likelihood loss of all rows at a point and its derivatives ``(6,)``: two by an inverse temperature."""
Search: TypeAlias = Callable[[Look], Solution]
"""A search that looks; it begins anew after each pass, and what was seen before costs it nothing."""
Found = TypeVar("Found")
_PLACE = 1e-9  # length of the last step in log T
_FLAT = 1e-28  # inverse temperature that keeps an excluded class excluded
_COMPARED = 1e-3  # derivatives in a sample
_COMPARED_STEPS = 8  # of descents, after which the lowest goes on alone
_SAFETY = 4.0  # possible gain of a descent over its next step's prediction
_TRIED = 2**18  # entries for choosing the best starts
PIECE = 1 << 22  # entries read at a time
PROFILED = 1 << 22  # entries at most, of the rows that a profile looks at
# Rows of a subsample: largest number, smallest for wide rows, inverse share, smallest for few samples.
_MOST_ROWS, _FEWEST_WIDE, _SHARE, _FEWEST = 512, 64, 8, 16


class _UnseenError(Exception):
    """Points that need another pass."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points


def solved(
    search: Search, sums: Callable[[Sequence[Point]], Matrix], unit: float = 1.0
) -> tuple[Solution, int, int]:
    """Solution of a search, with warnings, in as many passes as needed; numbers of rows and of correct ones.

    ``sums`` run over all rows; ``unit`` is the inverse temperature of the original logits.
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
            rows, right, varied = facts[1:4].astype(int).tolist()
            trouble = trouble_of(
                found, constant=not varied, all_right=right == rows, flat_slope=partial(float, flat)
            )
            warnings = (*trouble, *found.warnings)
            return replace(found, before=before, steps=passes, warnings=warnings), rows, right
        facts, *totals = sums(points)
        known |= {point: total / facts[0] for point, total in zip(points, totals, strict=True)}
    raise AssertionError  # the loop never ends by itself


def nothing(points: Sequence[Point]) -> Matrix:
    return np.zeros((1 + len(points), 6))


def sums_of(samples: Samples, points: Sequence[Point]) -> Matrix:
    """Weight, rows, correct rows, whether any vary; then loss and derivatives at each point, times weight."""
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
    known = best_temperature(lambda beta: likelihood_slopes(some, beta), precision=_PLACE)
    start = 1.0 if known.on_bound else known.temperature

    def search(look: Look) -> Solution:
        def slopes(beta: float) -> Slopes:
            value, first, second = look((beta,))[:3].tolist()
            return Slopes(first, second, value)

        root = best_temperature(slopes, start, precision=_PLACE)
        beta = 1 / root.temperature
        bend = beta**2 * slopes(beta).second  # shows a nearby change of sign without another pass
        sure = not root.on_bound and abs(root.slope) < bend * MARGIN / 2
        return searches.solution_of(replace(root, bracketed=sure), math.nan, start)

    return search


def focal_temperature_in_passes(some: Samples) -> Search:
    """Maximum-likelihood temperature and exponent of all rows, or an equally good temperature."""
    temperature, starts = temperature_in_passes(some), _starts(some)
    low, high = searches.BOX

    def search(look: Look) -> Solution:
        def function(point: Vector) -> Expansion:
            gamma = math.expm1(point[1])
            return searches.by_logarithms(of_six(look((math.exp(point[0]), gamma))), gamma)

        def pair() -> Solution:
            followed, place = starts, starts[0]
            for steps in range(2, _COMPARED_STEPS + 1):
                descent = partial(minimise_in_box, function, low=low, high=high, max_steps=steps)
                ends = _together([partial(descent, start) for start in followed])
                least = min(ends, key=lambda end: end.value)
                place, ends_at = least.point, zip(followed, ends, strict=True)
                followed = [at for at, end in ends_at if end.value - _SAFETY * end.promised <= least.value]
            return searches.of_descent(minimise_in_box(function, place, low, high), math.nan)

        simpler, found = _together([partial(temperature, look), pair])
        return searches.better(found, simpler)

    return search


def _starts(some: Samples) -> list[Vector]:
    """Optima of a subsample, and the best point at the least exponent.

    A few samples tell little about exponents, so the first optimum includes a prior.
    The least exponent is best for some data, which a few rows may not show.
    """
    few = some.thinned(max(1, _TRIED // some.scores.shape[1]))
    centre = best_temperature(lambda beta: likelihood_slopes(few, beta)).temperature
    starts = [searches.place_of(*start) for start in searches.starts_along_ridge(centre)]
    low, high = searches.BOX
    likelihood = searches.in_logarithms(some, "nll")

    def expected(point: Vector) -> Expansion:
        """Likelihood with a standard normal prior of log(1 + gamma)."""
        value, gradient, hessian = likelihood(point)
        bend = np.array([0.0, 1 / some.num_samples])
        return Expansion(value + float(bend @ point**2) / 2, gradient + bend * point, hessian + np.diag(bend))

    tried = searches.promising(searches.in_logarithms(few, "nll"), starts, low, high)
    ends = [minimise_in_box(expected, start, low, high, tolerance=_COMPARED) for start in tried]
    usual = min(ends, key=lambda end: end.value)
    least = minimise_in_box(likelihood, usual.point, low, np.array([high[0], low[1]]), tolerance=_COMPARED)
    return searches.apart([usual.point, *tried, least.point])


def _together(searches: Sequence[Callable[[], Found]]) -> list[Found]:
    found, points = list[Found](), list[Point]()
    for search in searches:
        try:
            found.append(search())
        except _UnseenError as unseen:
            points += unseen.points
    if points:
        raise _UnseenError(points)
    return found


class ScoreRows(Protocol):
    """Source of the scores of some rows, such as :class:`calibrant.Predictions`."""

    @property
    def num_samples(self) -> int: ...

    @property
    def num_classes(self) -> int | None: ...

    def scores_of(self, rows: slice) -> Float[Tensor, "n C"]: ...


class StoredSamples:
    """One multiclass problem with scores in a file; some rows are in memory at a time.

    Samples of weight zero are dropped; labels or weights that do not match the scores are refused.
    """

    def __init__(self, source: ScoreRows, labels: ArrayLike, weights: ArrayLike | None) -> None:
        count, width = source.num_samples, source.num_classes or 0
        if not count or width < 2 or source.scores_of(slice(0, 1)).ndim != 2:
            raise InputError(
                "`source` must hold scores (N, C) of at least one sample; use `fit` for those of an event."
            )
        self.labels = as_label_tensor(labels, name="labels").cpu()
        if self.labels.shape != (count,):
            got = tuple(self.labels.shape)
            raise InputError(f"`labels` must have shape ({count},), one class per sample; got {got}.")
        check_label_range(self.labels, width)
        self.weights = None if weights is None else check_weights(weights, count).cpu()
        index = torch.arange(count)
        if self.weights is not None and not bool(self.weights.all()):
            index = self.weights.nonzero()[:, 0]
            self.labels, self.weights = self.labels[index], self.weights[index]
        self.source, self.index = source, index
        self.shape = len(index), width
        self.num_sampled = 0
        """Rows read beside the passes over all: where to begin, and what the data look like."""
        self.num_passes = 0
        self._exponent = 0
        self.num_zeros = 0
        self.sha256 = ""

    def read(self, rows: slice | Tensor) -> tuple[Float[Tensor, "n C"], int]:
        """Finite scores with zero probabilities replaced, and their number; neighbours are read together."""
        ranked, order = self.index[rows].sort()
        parts, zeros = list[Tensor](), 0
        for run in ranked.tensor_split((ranked.diff() > 1).nonzero()[:, 0] + 1):
            start = int(run[0])
            part = self.source.scores_of(slice(start, int(run[-1]) + 1))
            part, count = floor_zero_probabilities(part[run - start], "multiclass")
            if not torch.stack(part.aminmax()).isfinite().all():  # NaN is both
                row = first_row(bad := ~part.isfinite())
                raise not_finite(int(run[row]), float(part[row][bad[row]][0]))
            parts.append(part)
            zeros += count
        return torch.cat(parts)[order.argsort()], zeros

    @property
    def shares(self) -> Float[Tensor, " N"]:
        weights = torch.ones(len(self.labels), dtype=torch.float64) if self.weights is None else self.weights
        return weights / weights.sum()

    def held(self) -> Samples | None:
        """All samples, if they are few."""
        if math.prod(self.shape) > PIECE:
            return None
        return Samples(torch.cat([scores for _, scores in self._read()]), self.labels, self.weights)

    def some(self) -> Samples:
        num_samples, width = self.shape
        most = min(_MOST_ROWS, max(_FEWEST_WIDE, PIECE // width), max(_FEWEST, num_samples // _SHARE))
        rows = some_rows(self.shares, min(most, num_samples))
        return Samples(self._sampled(rows), self.labels[rows], None)

    def solved(self, search: Callable[[Samples], Search]) -> Solution:
        some = self.some()
        self._exponent = exponent = searches.exponent_of(some)
        some = replace(some, scores=searches.divided(some.scores, exponent))
        solution, num_samples, num_right = solved(search(some), self.sums, unit=math.ldexp(1, exponent))
        solution = searches.rescaled(solution, {"temperature": 1}, exponent)
        said = solution.warnings or degenerate(num_samples, num_right)
        absent = absent_classes(self.labels, self.shape[1])
        return replace(solution, warnings=(*absent, *said))

    @property
    def told(self) -> str:
        said = f"{self.num_passes} pass{'es' * (self.num_passes > 1)} over the scores"
        rows = self.num_sampled
        return f"{said}, and {rows / len(self.labels):.2%} of them again" if rows else said

    def sums(self, points: Sequence[Point]) -> Matrix:
        sums = nothing(points)
        for rows, scores in self._read():
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # half precision is slow
            scores = searches.divided(scores, self._exponent)
            labels, weights = self.labels[rows], None if self.weights is None else self.weights[rows]
            for at in row_slices(scores, times=4):
                part = Samples(scores[at], labels[at], None if weights is None else weights[at])
                sums += sums_of(part, points)
        return sums

    def profile(self, held: Samples | None) -> Profile | None:
        """Profile of the data; None if its rows are too large, as for very many classes."""
        num_samples, width = self.shape
        chosen = rows_looked_at(num_samples, width)
        if (num_samples if isinstance(chosen, slice) else len(chosen)) * width > PROFILED:
            return None
        masses = None if self.weights is None else self.weights[chosen]
        scores = self._sampled(chosen) if held is None else held.scores[chosen]
        seen = summary_of(scores, masses, "multiclass")
        return profile_of_rows(seen, self.labels, self.weights, "multiclass")

    def _sampled(self, rows: slice | Tensor) -> Float[Tensor, "n C"]:
        scores, _ = self.read(rows)
        self.num_sampled += len(scores)
        return scores

    def _read(self) -> Iterator[tuple[slice, Float[Tensor, "n C"]]]:
        """Rows in pieces; the first pass also counts and hashes them."""
        first, zeros, digest = not self.sha256, 0, hashlib.sha256()
        self.num_passes += 1
        num_samples, width = self.shape
        step = max(1, PIECE // width)
        for start in range(0, num_samples, step):
            rows = slice(start, min(start + step, num_samples))
            scores, count = self.read(rows)
            if first:
                zeros += count
                digest.update(scores.contiguous().view(torch.uint8).numpy().data)
            yield rows, scores
        if first:
            for values in (self.labels, self.weights):
                if values is not None:
                    digest.update(values.contiguous().view(torch.uint8).numpy().data)
            self.num_zeros, self.sha256 = zeros, digest.hexdigest()
