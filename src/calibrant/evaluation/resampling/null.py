"""Null distribution of errors: a perfectly calibrated model of the same size.

Outcomes are drawn from the stated probabilities, again and again. The calibration error of a finite sample is
never zero, and these draws show its size from noise alone. The classes of a row exclude each other, so their
errors are dependent: for all classes together, labels are drawn from whole rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.evaluation.resampling.event_cells import (
    BIN_KINDS,
    BinKind,
    BinnedEvents,
    Kernel,
    ResidualSums,
    joined,
)
from calibrant.evaluation.resampling.events import (
    Clustered,
    Events,
    Indices,
    Matrix,
    SignedSums,
    Vector,
    indicator,
    signs,
)
from calibrant.evaluation.resampling.intervals import draws_for
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, block_bounds
from calibrant.evaluation.result import NullError


class EventSigns:
    """`SignedSums` of the bins and cells of events; keeps the first draws for an interval."""

    def __init__(self, cells: BinnedEvents, codes: Indices, seed: tuple[int, ...], num_kept: int) -> None:
        events = cells.events
        self._cells = cells
        of_clusters = indicator(codes, events.outcomes - events.confidences)
        variance = cells.squares(cells.matrix) @ (events.confidences * (1 - events.confidences))
        self._signed = SignedSums((cells.matrix @ of_clusters).tocsr(), variance, seed)
        self._residuals = {place: (each @ of_clusters).tocsr() for place, each in cells.entries.items()}
        self._masses = {place: (each @ indicator(codes)).tocsr() for place, each in cells.entries.items()}
        self._drawn = {place: np.empty((num_kept, each.shape[0])) for place, each in self._masses.items()}
        self._kept, self._num_kept = 0, num_kept

    def draw(self, independent: Matrix) -> Matrix:
        """Residual sums ``(2B + K, r)``, given those of independent draws."""
        sums, drawn = self._signed.draw(independent)
        stop = min(self._kept + drawn.shape[1], self._num_kept)
        for place, masses in self._masses.items():
            part = drawn[:, : stop - self._kept]
            self._drawn[place][self._kept : stop] = (masses @ part).T / self._cells.total
        self._kept = stop
        return sums

    def clustered(self) -> Mapping[BinKind, Clustered]:
        total = self._cells.total
        bins: dict[BinKind, BinKind] = {"width": "width", "mass": "mass", "score": "width"}  # of the gaps
        return {
            place: Clustered.of(self._residuals[of] / total, self._masses[of] / total, self._drawn[place])
            for place, of in bins.items()
        }


MOST_TOGETHER = 256  # events of one table; more are several groups, whose numbers add up


def group_starts(first_of_group: NDArray[np.bool_]) -> NDArray[np.int64]:
    """First places of groups of at most 256 ``(G + 1,)``, the end included."""
    num_events = len(first_of_group)
    starts = np.append(np.flatnonzero(first_of_group), num_events)
    pieces = -(-np.diff(starts) // MOST_TOGETHER)  # of each group
    place = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # within its group
    return np.append(np.repeat(starts[:-1], pieces) + MOST_TOGETHER * place, num_events)


class DrawnCounts:
    """Draws event counts of groups of ``probs`` ``(N,)``; ``starts`` ``(G + 1,)`` includes the end."""

    def __init__(self, probs: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
        from calibrant.evaluation.resampling.kernels import fill_tables  # compiled

        self._starts, self.tables = starts, np.empty(len(probs) + len(starts) - 1)
        fill_tables(probs, starts, self.tables)

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Numbers ``(G, num_draws)``."""
        from calibrant.evaluation.resampling.kernels import GUIDE, draw_counts  # compiled

        # Single precision halves the time of drawing; it resolves probabilities to 6e-8.
        uniform = rng.random((len(self._starts) - 1, num_draws), dtype=np.float32)
        counts = np.empty(uniform.shape)
        draw_counts(uniform, self.tables, self._starts, np.empty(GUIDE, np.int64), counts)
        return counts


class DrawnSums:
    """Draws weighted sums of independent outcomes ``(N,)`` over groups that begin at ``starts`` ``(G,)``."""

    def __init__(self, probs: Vector, mass: Vector, starts: Indices) -> None:
        alike = np.append(True, np.diff(mass) != 0)  # within a group only equal weights are counted together
        alike[starts] = True
        pieces = group_starts(alike)
        self._counts, self._mass = DrawnCounts(probs, pieces), mass[pieces[:-1], None]
        self._places = np.searchsorted(pieces, starts)
        self.size = len(self._mass)

    def draw(self, rng: np.random.Generator, num_draws: int) -> Matrix:
        """Sums ``(G, num_draws)``."""
        sums = self._counts.draw(rng, num_draws)
        sums *= self._mass
        return sums if len(self._places) == self.size else np.add.reduceat(sums, self._places, axis=0)


ROUNDING = 1e-12  # an error that is equal but for rounding counts as at least as large
_FEWEST_DRAWS, MOST_SUMS = 400, 1 << 14  # draws are left out above this number of noisy sums


@dataclass(frozen=True)
class NullDraws:
    """Errors ``(R,)`` and outcomes of every bin ``(B, R)`` under calibration."""

    errors: dict[Kernel, Vector]  # over bins of equal width and of equal mass, and the smooth one
    outcomes: Matrix  # weighted sums, not yet divided by the weight of the bin
    outcomes_by_mass: Matrix  # the same in the bins of equal mass
    sums: Matrix  # residual sums ``(R', 2B + K)`` of the first draws, over the cells of `BinnedEvents`
    clustered: Mapping[BinKind, Clustered] | None = None  # cluster noise; None: independent samples


def fewest_draws(level: float) -> int:
    """Number of noise draws that the search for an interval needs: at least two beyond each end."""
    return max(_FEWEST_DRAWS, draws_for(level))


def num_noise(num_cells: int, num_draws: int, level: float) -> int:
    return min(num_draws, max(fewest_draws(level), MOST_SUMS // max(1, num_cells)))


def draw_null(cells: BinnedEvents, num_draws: int, seed: tuple[int, ...], *, num_kept: int = 0) -> NullDraws:
    """Draw every outcome from its stated probability, independently, ``num_draws`` times.

    Clustered samples have cluster noise. The residual sums of the first ``num_kept`` draws are kept.
    """
    num_bins = cells.num_bins
    rng = np.random.Generator(np.random.SFC64(seed))  # the fastest that numpy has
    expected, size, draw = _independent(cells)
    kernels: tuple[Kernel, ...] = ("width l1", "mass l1", "smooth")
    errors: dict[Kernel, Vector] = {kernel: np.empty(num_draws) for kernel in kernels}
    outcomes = np.empty((2 * num_bins, num_draws))
    kept = np.empty((min(num_kept, num_draws), len(expected)))
    codes = cells.events.clusters
    clustered = None if codes is None else EventSigns(cells, codes, seed, len(kept))
    for start, stop in block_bounds(num_draws, SMALL_BLOCK // size):
        residuals = draw(rng, stop - start)
        if clustered is not None:
            residuals = clustered.draw(residuals)
        outcomes[:, start:stop] = residuals[: 2 * num_bins]
        sums = np.ascontiguousarray(residuals.T) / cells.total
        for kernel, found in errors.items():
            found[start:stop] = cells.error(kernel)(sums[:, cells.rows(BIN_KINDS[kernel])])
        kept[start:stop] = sums[: max(0, len(kept) - start)]
    return NullDraws(
        errors=errors,
        outcomes=outcomes[:num_bins] + expected[:num_bins],
        outcomes_by_mass=outcomes[num_bins:] + expected[num_bins : 2 * num_bins],
        sums=kept,
        clustered=None if clustered is None else clustered.clustered(),
    )


def _independent(cells: BinnedEvents) -> tuple[Matrix, int, Callable[[np.random.Generator, int], Matrix]]:
    """Expected sums ``(M, 1)``, size of a draw, and a function that draws residual sums ``(M, r)``.

    Outcomes are drawn one by one; for rows that stand for many samples, normal sums of their variance.
    """
    stated, codes = cells.events.confidences, cells.events.clusters
    if cells.events.counted:
        spread = np.sqrt(cells.squares(cells.matrix) @ (stated * (1 - stated)))[:, None]
        size = max(len(spread), 0 if codes is None else int(codes.max()))
        expected: Matrix = (cells.matrix @ stated)[:, None]
        return expected, size, lambda rng, number: spread * rng.standard_normal((len(spread), number))
    expected, size, draw = grouped_draws(cells.events, cells.matrix, stated, 3)
    return expected, size, lambda rng, number: draw(rng, number) - expected


def grouped_draws(
    events: Events, matrix: Any, probs: Vector, places: int
) -> tuple[Matrix, int, Callable[[np.random.Generator, int], Matrix]]:
    """Expected sums ``(M, 1)``, size of a draw, and a function that draws sums ``(M, r)`` of outcomes.

    Outcomes occur with ``probs`` ``(N,)``. Most samples have entries at ``places`` rows of the sparse matrix
    ``(M, N)``; the number that occur is drawn for samples with equal entries.
    """
    order, starts = _alike(events, matrix, places)
    counts = DrawnCounts(probs[order], starts)
    grouped = matrix[:, order[starts[:-1]]].tocsr()
    expected = grouped @ np.add.reduceat(probs[order], starts[:-1])[:, None]
    return expected, len(starts) - 1, lambda rng, number: grouped @ counts.draw(rng, number)


def draw_values(
    events: Events,
    value: Callable[[Vector, Vector, Vector | None, int], float],
    num_bins: int,
    num_draws: int,
    seed: tuple[int, ...],
) -> Vector:
    """Any error ``(R,)`` of confidences, outcomes and weights, with outcomes drawn from the confidences.

    With clusters, outcomes are the confidences plus residuals with the drawn sign of their cluster.
    """
    rng = np.random.default_rng(seed)
    draws = (rng.random(len(events.confidences)) < events.confidences for _ in range(num_draws))
    if events.clusters is not None:
        codes, residuals = events.clusters, events.outcomes - events.confidences
        flips = (signs(rng, int(codes.max()) + 1, 1)[codes, 0] for _ in range(num_draws))
        draws = (events.confidences + flip * residuals for flip in flips)
    return np.array(
        [value(events.confidences, drawn.astype(np.float64), events.weights, num_bins) for drawn in draws]
    )


def _alike(events: Events, matrix: Any, places: int) -> tuple[Indices, Indices]:
    """Order of the samples, and starts of equal ones."""
    order = np.argsort(events.confidences, kind="stable")
    lengths = np.diff(matrix.indptr)[order]
    # A bin of each kind and a cell; ties that bins share have more, those without weight have fewer.
    simple = lengths == places
    same = simple[1:] & simple[:-1]
    for place in range(places):
        entries = np.minimum(matrix.indptr[:-1][order] + place, matrix.nnz - 1)
        for part in (matrix.indices, matrix.data):
            values = part[entries]
            same &= values[1:] == values[:-1]
    if events.weights is None:
        same |= np.diff(events.confidences[order]) == 0
    return order, group_starts(np.append(True, ~same))


def noise_of(
    places: Sequence[BinnedEvents], drawn: Sequence[NullDraws], kernel: Kernel
) -> tuple[ResidualSums, Matrix]:
    """Residual sums of an error of these events, and the draws ``(R', M)`` that were kept."""
    parts = [draws.sums[:, each.rows(BIN_KINDS[kernel])] for each, draws in zip(places, drawn, strict=True)]
    cells = joined([cells_of(each, draws, kernel) for each, draws in zip(places, drawn, strict=True)])
    return cells, np.ascontiguousarray(np.concatenate(parts, axis=1))


def cells_of(place: BinnedEvents, draws: NullDraws, kernel: Kernel) -> ResidualSums:
    cells = place.cells(kernel)
    return cells if draws.clustered is None else replace(cells, clustered=draws.clustered[BIN_KINDS[kernel]])


def null_error(metric: str, observed: float, draws: Vector, level: float) -> NullError:
    at_least = int((draws >= observed - ROUNDING).sum())
    return NullError(
        metric=metric,
        mean=float(draws.mean()),
        upper=float(np.quantile(draws, level)),
        p_value=(1 + at_least) / (1 + len(draws)),
        num_draws=len(draws),
    )


LEAST_EXPECTED = 10  # occurrences of a class whose slope is looked at
LIKELY_EXCEPTION = 0.5  # from which on every label is drawn
SPARE = 4.0  # standard deviations of their number
MOST_DRAWN = 1 << 22  # of drawn classes and bins held at once: 32 MiB


class ClassRowsBlock(NamedTuple):
    """Some rows ``(n, C)``: probabilities to draw from, those stated with their bins, and masses."""

    probs: Matrix
    stated: Matrix
    bins: Indices
    mass: Vector

    def part(self, rows: slice | NDArray[np.bool_]) -> ClassRowsBlock:
        return ClassRowsBlock(self.probs[rows], self.stated[rows], self.bins[rows], self.mass[rows])


@dataclass(frozen=True, kw_only=True)
class ClassNull:
    """Distances of the classes' average probabilities from their rates, with their null distribution."""

    scores: Vector  # distance ``(C,)``, positive if a class is too frequent; see `class_scores`
    deviations: Vector  # standard deviation ``(C,)`` of the rates
    farthest: Vector | None = None  # largest distance over the classes per draw ``(R,)``; None: not drawn
    steepest: tuple[float, Vector] | None = None  # largest slope in standard errors, and per draw ``(R,)``
    errors: Vector | None = None  # class-wise error per draw ``(R,)``; None: not drawn
    cells: ResidualSums | None = None  # the filled bins of all classes
    noise: Matrix | None = None  # residual sums ``(R', M)`` of the first draws over these bins

    def adjusted_p_values(self) -> Vector:
        """Share of draws with any class as far off; without draws, Bonferroni's normal p-values."""
        if self.farthest is None:
            tails = [2 * NormalDist().cdf(-abs(score)) for score in self.scores.tolist()]
            return np.minimum(np.array(tails) * len(tails), 1.0)
        ranked = np.sort(self.farthest)
        reached = len(ranked) - np.searchsorted(ranked, np.abs(self.scores) - ROUNDING)
        return (1 + reached) / (1 + len(ranked))

    def noise_floors(self, level: float) -> Vector:
        """Distance of each class's probability from its rate that no class exceeds at this level."""
        if self.farthest is None:
            furthest = NormalDist().inv_cdf(1 - (1 - level) / (2 * len(self.scores)))
        else:
            furthest = float(np.quantile(self.farthest, level))
        return furthest * self.deviations


def draw_labels(
    blocks: Callable[[], Iterator[ClassRowsBlock]],
    filled: NDArray[np.bool_],
    classes: Indices,
    *,
    num_draws: int,
    seed: tuple[int, ...],
) -> Iterator[Matrix]:
    """Drawn counts ``(M, r)`` in each filled bin of each class, some draws at a time.

    M counts the ``filled`` bins of classes ``(C, B)``. The order in which the ``classes`` ``(C,)`` are drawn
    must not depend on their numbers. The rows are read once per 32 MiB of results.
    """
    rng = np.random.Generator(np.random.SFC64(seed))
    places = np.cumsum(filled).reshape(filled.shape) - 1  # a bin without weight adds nothing to any other
    num_filled = int(filled.sum())
    for first, last in block_bounds(num_draws, MOST_DRAWN // num_filled):
        sums = np.zeros((num_filled, last - first))
        usual = np.zeros(num_filled)
        for rows in blocks():
            for start, stop in block_bounds(len(rows.mass), SMALL_BLOCK // (last - first)):
                _add(rows.part(slice(start, stop)), places, classes, rng, usual, sums)
        sums += usual[:, None]
        yield sums


def _add(
    rows: ClassRowsBlock,
    places: Indices,
    classes: Indices,
    rng: np.random.Generator,
    usual: Vector,
    sums: Matrix,
) -> None:
    from calibrant.evaluation.resampling import kernels  # compiled

    ends = np.empty(len(classes))
    largest = rows.probs.max(axis=1)
    exceptions = np.maximum(1 - largest / rows.probs.sum(axis=1), 0.0)
    sure = exceptions < LIKELY_EXCEPTION
    if not sure.all():
        these = rows.part(~sure)
        uniform = rng.random((len(these.mass), sums.shape[1]), dtype=np.float32)
        given = these.probs, these.bins, places, these.mass, classes
        cells, stack = np.empty((len(classes), 2), np.int64), np.empty(len(classes), np.int64)
        kernels.add_drawn_labels(uniform, *given, ends, cells, stack, sums)
    if not sure.any():
        return
    these, place = rows.part(sure), np.zeros(2, np.int64)
    given = these.probs, these.bins, places, these.mass, classes
    expected = sums.shape[1] * exceptions[sure] + 1
    while place[0] < len(these.mass):
        wanted = expected[place[0] :].sum()
        size = max(1, int(wanted + SPARE * np.sqrt(wanted)))
        steps = rng.standard_exponential(size, dtype=np.float32)
        uniform = rng.random(size, dtype=np.float32)
        kernels.add_exceptions(place, steps, uniform, *given, ends, usual, sums)


def class_scores(occurs: Matrix, expected: Vector, variance: Vector) -> Matrix:
    r"""Distances of counts ``(C, ...)`` from their expectations ``(C,)``, in standard errors.

    The signed root of :math:`2 (o \log(o/e) - o + e) \, e / v`, with the variance v. For frequent classes
    this is nearly :math:`(o - e) / \sqrt v`. For rare ones that ratio is far too large, and the root still
    nearly normal: one occurrence where .01 are expected is 2.7 standard errors off, not 10. So the largest
    distance over many classes is not that of the rarest.

    Example:
        >>> class_scores(np.array([1.0]), np.array([0.01]), np.array([0.01])).round(1)
        array([2.7])
    """
    shape = (len(expected),) + (1,) * (occurs.ndim - 1)
    e, v = expected.reshape(shape), variance.reshape(shape)
    ratio = np.divide(occurs, e, out=np.ones_like(occurs), where=(occurs > 0) & (e > 0))
    deviance = np.maximum(2 * (occurs * np.log(ratio) - occurs + e), 0.0)
    certain = np.where(np.abs(occurs - e) > ROUNDING * np.maximum(e, occurs), np.inf, 0.0)
    scale = np.divide(e, v, out=np.zeros_like(v), where=v > 0)
    return np.sign(occurs - e) * np.where(v > 0, np.sqrt(deviance * scale), certain)


def farthest_scores(occurs: Matrix, expected: Vector, variance: Vector) -> Vector:
    """The largest distance ``(R,)`` of any class in each draw ``(C, R)``, by `class_scores`.

    Most of many classes do not occur in a draw, and their distance is then always the same.
    """
    found = occurs != 0
    classes, draws = np.nonzero(found)
    none = np.abs(class_scores(np.zeros_like(expected), expected, variance))
    farthest = np.where(found, 0.0, none[:, None]).max(axis=0)
    scores = class_scores(occurs[classes, draws], expected[classes], variance[classes])
    np.maximum.at(farthest, draws, np.abs(scores))
    return farthest


def class_tilts(variance: Vector, stated: Vector, starts: Indices, expected: Vector) -> Vector:
    """Weight of each bin's residual ``(M,)`` in the slope of its class, in standard errors.

    Rare classes get 0, as their slopes are far from normal. ``starts`` are the first bins of the classes, and
    ``expected`` are the expected counts ``(C,)`` in effective samples.
    """
    owner = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(stated))))
    total = np.add.reduceat(variance, starts)
    middle = np.add.reduceat(variance * stated, starts) / np.where(total > 0, total, 1.0)
    apart = stated - middle[owner]
    spread = np.sqrt(np.add.reduceat(variance * apart**2, starts))
    known = (spread > 0) & (expected >= LEAST_EXPECTED)
    return apart * np.divide(1.0, spread, out=np.zeros_like(spread), where=known)[owner]


def joint_p_value(tests: list[tuple[float, Vector]]) -> float:
    """One p-value for several statistics of the same draws ``(R,)``; large ones count against the model.

    The smallest share of draws that reach an observed value is ranked among those of the draws themselves, so
    correlated statistics cost nothing extra.

    References:
        Westfall and Young, "Resampling-Based Multiple Testing", 1993.

    Example:
        >>> draws = np.arange(99.0)
        >>> joint_p_value([(98.0, draws)]), joint_p_value([(98.0, draws), (98.0, draws)])
        (0.02, 0.02)
    """
    least = np.full(1 + len(tests[0][1]), np.inf)  # the data count as one of the draws
    for found, draws in tests:
        pooled = np.append(found, draws)
        least = np.minimum(least, len(pooled) - np.searchsorted(np.sort(pooled), pooled - ROUNDING))
    return float((least <= least[0]).mean())
