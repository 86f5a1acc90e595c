"""Samples whose scores are read in pieces at every pass, for tables larger than the memory set aside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_label_tensor, first_row, row_slices
from calibrant._math.checks import check_label_range, check_weights, not_finite
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant._math.simplex import top_class
from calibrant.calibrators.fitting.profile import Profile, profile_of_some, rows_looked_at
from calibrant.calibrators.fitting.samples import Block, Samples, block_of
from calibrant.calibrators.fitting.zeros import floor_zero_probabilities

PIECE = 1 << 22  # entries read at a time
PROFILED = 1 << 22  # entries at most, of the rows that a profile looks at


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

    def placeholder(self) -> Float[Tensor, "N C"]:
        """A tensor of this shape that takes no memory, and says what is wrong where it is read: NaN."""
        return torch.full((), torch.nan).expand(self.shape)

    def pieces(self) -> Iterator[slice]:
        """All rows, in slices that are read at a time."""
        step = max(1, PIECE // self.shape[1])
        return (slice(at, min(at + step, len(self.index))) for at in range(0, len(self.index), step))

    def chosen(self, rows: Tensor | slice) -> StoredScores:
        """Some of the rows, none of which is read."""
        return replace(self, index=self.index[rows])

    def read(self, rows: slice | Tensor) -> Float[Tensor, "n C"]:
        """Some rows, with probabilities of exactly zero replaced; neighbouring rows are read together."""
        return self.read_counting_zeros(rows)[0]

    def read_counting_zeros(self, rows: slice | Tensor) -> tuple[Float[Tensor, "n C"], int]:
        """The same, and how many such probabilities there were."""
        wanted = self.index[rows]
        ranked, order = wanted.sort()
        found: Tensor | None = None
        zeros, done, step = 0, 0, max(1, PIECE // self.shape[1])
        while done < len(ranked):
            start = int(ranked[done])
            upto = int(torch.searchsorted(ranked, start + step))
            part = self.source.scores_of(slice(start, int(ranked[upto - 1]) + 1))
            part, count = floor_zero_probabilities(part[ranked[done:upto] - start], "multiclass")
            zeros += count
            if found is None:
                found = torch.empty((len(wanted), self.shape[1]), dtype=part.dtype)
            found[order[done:upto]] = part.to(found.dtype)
            done = upto
        return torch.empty((0, self.shape[1])) if found is None else found, zeros


@dataclass(frozen=True, eq=False)
class StoredSamples(Samples):
    """One multiclass problem whose scores are ``stored``; what all passes need is held."""

    stored: StoredScores
    known_top: Int[Tensor, " N"]
    gaps: Float[Tensor, " N"]  # logit of the label minus that of the top class
    constant: bool
    num_zeros: int
    sha256: str

    @classmethod
    def of(cls, source: ScoreRows, labels: ArrayLike, weights: ArrayLike | None) -> Self:
        """In one pass over the scores of the samples whose weight is not zero.

        Raises:
            InputError: If these are no scores of classes, labels or weights do not go with them, or a score
                is NaN or infinite.
        """
        labels, weights = _checked(source, labels, weights)
        index = torch.arange(source.num_samples)
        if weights is not None and not bool(weights.all()):
            index = weights.nonzero()[:, 0]
            labels, weights = labels[index], weights[index]
        scores = StoredScores(source, index)
        top, gaps = torch.empty_like(labels), torch.empty(len(labels), dtype=torch.float64)
        digest, constant, zeros = hashlib.sha256(), True, 0
        for rows in scores.pieces():
            part, count = scores.read_counting_zeros(rows)
            zeros += count
            if bool((bad := ~part.isfinite()).any()):
                row = first_row(bad)
                raise not_finite(int(index[rows.start + row]), float(part[row][bad[row]][0]))
            digest.update(part.contiguous().view(torch.uint8).numpy().data)
            top[rows] = top_class(part)
            own, best = (part.gather(1, place[rows, None])[:, 0].double() for place in (labels, top))
            gaps[rows] = own - best
            constant &= bool((part.amin(dim=1) == part.amax(dim=1)).all())
        for values in (labels, weights):
            if values is not None:
                digest.update(values.contiguous().view(torch.uint8).numpy().data)
        return cls(
            scores.placeholder(), labels, weights, scores, top, gaps, constant, zeros, digest.hexdigest()
        )

    @property
    def top(self) -> Int[Tensor, " N"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The class of the largest logit."""
        return self.known_top

    @property
    def mean_gap(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Logit of the label minus that of the top class, on average."""
        return float(self.gaps @ self.shares)

    @property
    def is_constant(self) -> bool:
        """Whether every sample's logits are all equal."""
        return self.constant

    def part(self, chosen: Tensor | slice) -> Self:
        """Some of the samples, none of which is read."""
        stored = self.stored.chosen(chosen)
        weights = None if self.weights is None else self.weights[chosen]
        return replace(
            self,
            scores=stored.placeholder(),
            labels=self.labels[chosen],
            weights=weights,
            stored=stored,
            known_top=self.known_top[chosen],
            gaps=self.gaps[chosen],
        )

    def thinned(self, most: int) -> Samples:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Some rows, held."""
        rows = self._some(most) if self.num_samples > most else torch.arange(self.num_samples)
        return Samples(self.stored.read(rows), self.labels[rows], None)

    def profile(self) -> Profile | None:
        """What the data look like; None where the rows to look at are too large, as of very many classes."""
        chosen = rows_looked_at(self.num_samples, self.stored.shape[1])
        count = self.num_samples if isinstance(chosen, slice) else len(chosen)
        if count * self.stored.shape[1] > PROFILED:
            return None
        masses = None if self.weights is None else self.weights[chosen]
        return profile_of_some(self.stored.read(chosen), masses, self.labels, self.weights)

    def blocks(self) -> Iterator[Block]:
        """The rows in float64, block by block, in one pass over the scores."""
        for piece in self.stored.pieces():
            logits = self.stored.read(piece)
            top, labels, shares = self.known_top[piece], self.labels[piece], self.shares[piece]
            for rows in row_slices(logits):
                yield block_of(logits[rows], top[rows], labels[rows], shares[rows])


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
