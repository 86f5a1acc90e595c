"""Samples whose scores are read in pieces at every pass, for tables larger than the memory set aside."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_label_tensor, first_row, row_slices
from calibrant._math.checks import check_label_range, check_weights, not_finite
from calibrant._math.errors import InputError
from calibrant._math.newton import Matrix
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.fitting.doubts import absent_classes, degenerate_labels
from calibrant.calibrators.fitting.passes import Point, Search, nothing, solved, sums_of
from calibrant.calibrators.fitting.profile import Profile, profile_of_some, rows_looked_at
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples, floor_zero_probabilities, some_rows
from calibrant.calibrators.fitting.units import divided, exponent_of, rescaled

PIECE = 1 << 22  # entries read at a time
PROFILED = 1 << 22  # entries at most, of the rows that a profile looks at
# Rows of a sample: so many, as many as a piece holds but not so few, and at most such a share of all.
_MOST_ROWS, _FEWEST_WIDE, _SHARE, _FEWEST = 512, 64, 8, 16


class ScoreRows(Protocol):
    """What gives the scores of some rows, as :class:`calibrant.Predictions` do."""

    @property
    def num_samples(self) -> int:
        """N."""
        ...

    @property
    def num_classes(self) -> int | None:
        """C."""
        ...

    def scores_of(self, rows: slice) -> Float[Tensor, "n C"]:
        """Logits or log-probabilities of some rows."""
        ...


@dataclass(frozen=True, eq=False)
class StoredScores:
    """Scores ``(N, C)``, of which some rows are read at a time."""

    source: ScoreRows
    index: Int[Tensor, " N"]

    @property
    def shape(self) -> tuple[int, int]:
        """N and C."""
        return len(self.index), self.source.num_classes or 0

    def pieces(self) -> Iterator[slice]:
        """All rows, in slices that are read at a time."""
        step = max(1, PIECE // self.shape[1])
        return (slice(at, min(at + step, len(self.index))) for at in range(0, len(self.index), step))

    def read(self, rows: slice | Tensor) -> tuple[Float[Tensor, "n C"], int]:
        """Finite scores with zero probabilities replaced, and how many; neighbours are read together."""
        ranked, order = self.index[rows].sort()
        found: Tensor | None = None
        zeros, done = 0, 0
        for run in ranked.tensor_split((ranked.diff() > 1).nonzero()[:, 0] + 1):
            start = int(run[0])
            part = self.source.scores_of(slice(start, int(run[-1]) + 1))
            part, count = floor_zero_probabilities(part[run - start], "multiclass")
            zeros += count
            if not torch.stack(part.aminmax()).isfinite().all():  # NaN is both
                row = first_row(bad := ~part.isfinite())
                raise not_finite(int(run[row]), float(part[row][bad[row]][0]))
            if found is None:
                found = torch.empty((len(ranked), self.shape[1]), dtype=part.dtype)
            found[order[done : done + len(run)]] = part.to(found.dtype)
            done += len(run)
        return torch.empty((0, self.shape[1])) if found is None else found, zeros


class StoredSamples:
    """One multiclass problem whose scores stay where they are; some rows are held at a time.

    Samples of weight zero are left out; labels or weights that do not go with the scores are refused.
    """

    def __init__(self, source: ScoreRows, labels: ArrayLike, weights: ArrayLike | None) -> None:
        self.labels, self.weights = _checked(source, labels, weights)
        index = torch.arange(source.num_samples)
        if self.weights is not None and not bool(self.weights.all()):
            index = self.weights.nonzero()[:, 0]
            self.labels, self.weights = self.labels[index], self.weights[index]
        self.stored = StoredScores(source, index)
        self.num_sampled = 0
        """Rows read beside the passes over all: where to begin, and what the data look like."""
        self.num_passes = 0
        self._exponent = 0
        self.num_zeros = 0
        self.sha256 = ""

    @property
    def shares(self) -> Float[Tensor, " N"]:
        """Each sample's share of the total weight."""
        weights = torch.ones(len(self.labels), dtype=torch.float64) if self.weights is None else self.weights
        return weights / weights.sum()

    @property
    def is_small(self) -> bool:
        """Whether all of it may be held."""
        return math.prod(self.stored.shape) <= PIECE

    def held(self) -> Samples:
        """All rows in memory, after a pass."""
        return Samples(torch.cat([scores for _, scores in self._read()]), self.labels, self.weights)

    def some(self) -> Samples:
        """Some rows, in memory."""
        num_samples, width = self.stored.shape
        most = min(_MOST_ROWS, max(_FEWEST_WIDE, PIECE // width), max(_FEWEST, num_samples // _SHARE))
        rows = some_rows(self.shares, min(most, num_samples))
        return Samples(self._sampled(rows), self.labels[rows], None)

    def solved(self, search: Callable[[Samples], Search]) -> Solution:
        """The solution that a search finds in passes over all rows."""
        some = self.some()
        self._exponent = exponent = exponent_of(some)
        some = replace(some, scores=divided(some.scores, exponent))
        solution, facts = solved(search(some), self.sums, unit=math.ldexp(1, exponent))
        solution = rescaled(solution, {"temperature": 1}, exponent)
        said = solution.warnings or degenerate_labels(self.labels, facts.num_right)
        absent = absent_classes(self.labels, self.stored.shape[1])
        return replace(solution, warnings=(*absent, *said))

    @property
    def told(self) -> str:
        """How much was read."""
        said = f"{self.num_passes} pass{'es' * (self.num_passes > 1)} over the scores"
        rows = self.num_sampled
        return f"{said}, and {rows / len(self.labels):.2%} of them beside that" if rows else said

    def sums(self, points: Sequence[Point]) -> Matrix:
        """Sums over all rows, in one pass over the scores."""
        sums = nothing(points)
        for rows, scores in self._read():
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # half precision is slow
            scores = divided(scores, self._exponent)
            labels, weights = self.labels[rows], None if self.weights is None else self.weights[rows]
            for at in row_slices(scores, times=4):
                part = Samples(scores[at], labels[at], None if weights is None else weights[at])
                sums += sums_of(part, points)
        return sums

    def profile(self, held: Samples | None) -> Profile | None:
        """What the data look like; None where the rows to look at are too large, as of very many classes."""
        num_samples, width = self.stored.shape
        chosen = rows_looked_at(num_samples, width)
        if (num_samples if isinstance(chosen, slice) else len(chosen)) * width > PROFILED:
            return None
        masses = None if self.weights is None else self.weights[chosen]
        scores = self._sampled(chosen) if held is None else held.scores[chosen]
        return profile_of_some(scores, masses, self.labels, self.weights)

    def _sampled(self, rows: slice | Tensor) -> Float[Tensor, "n C"]:
        scores, _ = self.stored.read(rows)
        self.num_sampled += len(scores)
        return scores

    def _read(self) -> Iterator[tuple[slice, Float[Tensor, "n C"]]]:
        """Some rows after the other; the first time they are also counted and hashed."""
        first, zeros, digest = not self.sha256, 0, hashlib.sha256()
        self.num_passes += 1
        for rows in self.stored.pieces():
            scores, count = self.stored.read(rows)
            if first:
                zeros += count
                digest.update(scores.contiguous().view(torch.uint8).numpy().data)
            yield rows, scores
        if first:
            for values in (self.labels, self.weights):
                if values is not None:
                    digest.update(values.contiguous().view(torch.uint8).numpy().data)
            self.num_zeros, self.sha256 = zeros, digest.hexdigest()


def _checked(
    source: ScoreRows, labels: ArrayLike, weights: ArrayLike | None
) -> tuple[Int[Tensor, " N"], Float[Tensor, " N"] | None]:
    """Labels and weights that go with scores ``(N, C)``."""
    count, width = source.num_samples, source.num_classes or 0
    if not count or width < 2 or source.scores_of(slice(0, 1)).ndim != 2:
        raise InputError(
            "`source` must hold scores (N, C) of at least one sample; use `fit` for those of an event."
        )
    target = as_label_tensor(labels, name="labels").cpu()
    if target.shape != (count,):
        raise InputError(
            f"`labels` must have shape ({count},), one class per sample; got {tuple(target.shape)}."
        )
    check_label_range(target, width)
    return target, None if weights is None else check_weights(weights, count).cpu()
