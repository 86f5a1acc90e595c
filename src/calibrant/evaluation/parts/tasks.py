"""Tasks for each part of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant._math.threads import one_thread
from calibrant._math.top_k import TopK, joined
from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.evaluation.fitting.split import MOST_FITTED
from calibrant.evaluation.parts.dealing import Deal, Half
from calibrant.evaluation.parts.several import AnySums, LabelSums, added
from calibrant.evaluation.parts.states import BatchSums
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import Predictions
from calibrant.predictions.partitioned import Part, PartitionedPredictions, Piece

SAMPLED_PARTS = 32  # or as many as hold the rows wanted, spread evenly over the table


@dataclass(frozen=True)
class Summed:
    """The sums of a part, for each arm, and what had to be repaired in it."""

    arms: tuple[AnySums, ...]
    repairs: tuple[str, ...]


@dataclass(frozen=True)
class SumPart:
    """Sums up a part: every arm in one pass."""

    table: PartitionedPredictions
    deal: Deal
    num_bins: int
    calibrators: tuple[Calibrator | None, ...]

    def nothing(self) -> tuple[AnySums, ...]:
        table, deal = self.table, self.deal
        number = table.num_samples - (table.num_fit if deal.rule == "split" else 0)
        size = {
            "num_classes": table.num_classes,
            "num_bins": self.num_bins,
            "num_batches": deal.num_batches,
            "num_samples": number,
        }
        if table.kind == "multilabel":
            return tuple(LabelSums(**size) for _ in self.calibrators)
        return tuple(
            BatchSums(kind=table.kind, clusters=table.has_clusters, has_labels=table.has_labels, **size)
            for _ in self.calibrators
        )

    def __call__(self, part: Part) -> Summed:
        table, arms = self.table, self.nothing()
        repairs: list[str] = []
        with one_thread():
            for piece in table.pieces(part):
                rows, batches = self.deal.rows(piece, "test")
                for each, calibrator in zip(arms, self.calibrators, strict=True):
                    given, after = _at_its_temperature(piece, calibrator)
                    each.add(given, rows, batches, logits=table.space == "logits", calibrator=after)
                repairs += piece.repairs
        return Summed(arms, tuple(repairs))


def _at_its_temperature(piece: Piece, calibrator: Calibrator | None) -> tuple[Piece, Calibrator | None]:
    if (
        piece.top_k is not None
        and isinstance(calibrator, TemperatureScaling)
        and calibrator.kind_ != "binary"
    ):
        return piece.at(float(calibrator.temperature)), None
    return piece, calibrator


def summed(
    table: PartitionedPredictions,
    deal: Deal,
    num_bins: int,
    calibrators: tuple[Calibrator | None, ...],
    *,
    spread: Spread = here,
    tell: Callable[[float], None] = lambda _: None,
) -> Summed:
    """The sums of all parts, added in their order."""
    task = SumPart(table, deal, num_bins, calibrators)
    arms, repairs = task.nothing(), list[str]()
    for done, found in enumerate(spread(task, table.parts), start=1):
        repairs += found.repairs
        for one, other in zip(arms, found.arms, strict=True):
            added(one, other)
        tell(done / len(table.parts))
    several = "s" * (len(repairs) > 1)
    said = () if not repairs else (f"{repairs[0]} So it is in {len(repairs):,} piece{several} of the table.",)
    return Summed(arms, said)


class Rows(NamedTuple):
    """Some rows; weights, clusters and the largest logits if there are any, groups if asked for."""

    scores: NDArray[Any]
    labels: NDArray[np.int64]
    weights: NDArray[np.float64] | None
    clusters: tuple[str, ...]
    groups: tuple[str, ...]
    top_k: tuple[TopK, ...]

    @classmethod
    def of(cls, piece: Piece, chosen: Indices, *, groups: bool) -> Rows:
        clusters, of_groups = (
            () if names is None else tuple(names[k] for k in chosen.tolist())
            for names in (piece.clusters, piece.groups if groups else None)
        )
        return cls(
            piece.scores[chosen],
            piece.labels[chosen],
            None if piece.weights is None else piece.weights[chosen],
            clusters,
            of_groups,
            () if piece.top_k is None else (piece.top_k.rows(torch.from_numpy(chosen)),),
        )

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, of which there must be one."""
        scores, labels, weights, *names = zip(*parts, strict=True)
        known = [each for each in weights if each is not None]
        return cls(
            np.concatenate(scores),
            np.concatenate(labels),
            np.concatenate(known) if known else None,
            *(tuple(chain.from_iterable(each)) for each in names),
        )


@dataclass(frozen=True)
class SamplePart:
    """Draws rows of a part."""

    table: PartitionedPredictions
    deal: Deal
    half: Half
    seed: int
    groups: bool = False

    def __call__(self, item: tuple[Part, float]) -> Rows:
        part, share = item
        rng = generator(self.seed, Stream.SAMPLE, 2 * part.number + (self.half == "fit"))
        drawn: list[Rows] = []
        for piece in self.table.pieces(part):
            rows, _ = self.deal.rows(piece, self.half)
            number = len(rows) if share == 1 else min(len(rows), int(rng.poisson(share * len(rows))))
            chosen = np.sort(rng.choice(rows, number, replace=False)) if number < len(rows) else rows
            drawn.append(Rows.of(piece, chosen, groups=self.groups))
        return Rows.joined(drawn)


def sample(
    table: PartitionedPredictions,
    deal: Deal,
    half: Half,
    number: int,
    *,
    seed: int,
    spread: Spread = here,
    groups: bool = False,
) -> Predictions | None:
    """About ``number`` random rows of a half, from parts spread over it; all if it has no more."""
    shares = shares_to_draw(np.array([deal.expected(part, half) for part in table.parts]), number)
    items = [(table.parts[k], float(shares[k])) for k in np.flatnonzero(shares)]
    found = list(spread(SamplePart(table, deal, half, seed, groups), items))
    if not any(len(each.labels) for each in found):
        return None
    rows = Rows.joined(found)
    if rows.weights is not None and not rows.weights.any():
        raise weightless(table, deal, half)
    return table.predictions(
        rows.scores,
        rows.labels,
        clusters=rows.clusters if table.has_clusters else None,
        groups=rows.groups if groups and table.has_groups else None,
        weights=rows.weights,
        top_k=joined(rows.top_k) if rows.top_k else None,
    )


def rows_to_fit(
    table: PartitionedPredictions, deal: Deal, *, seed: int, spread: Spread = here
) -> Predictions:
    some = sample(table, deal, "fit", MOST_FITTED // table.width, seed=seed, spread=spread)
    if some is None or some.num_samples < 2:
        raise InputError(f"{table.address} has no two samples to fit on.")
    return some


def weightless(table: PartitionedPredictions, deal: Deal, half: Half) -> InputError:
    said = "`weights` must not all be zero; give at least one sample a positive weight."
    if deal.rule == "split":
        called = "calibration" if half == "fit" else "test"
        said = f"the {called} split must not have weight zero throughout."
    return InputError(f"{table.address}: {said}")


def shares_to_draw(held: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """The share of the rows of each part to draw; in expectation every row is as likely.

    Of many parts those are read that lie under windows, which are spread evenly over all rows.

    Example:
        >>> shares_to_draw(np.array([0.0, 30.0, 10.0]), 20)
        array([0. , 0.5, 0.5])
    """
    total = float(held.sum())
    share = min(1.0, number / total) if total else 0.0
    if share == 1 or (held > 0).sum() <= SAMPLED_PARTS:
        return np.where(held > 0, share, 0.0)
    step = total / SAMPLED_PARTS
    width = share * step
    ends = np.append(0.0, np.cumsum(held)) - (step - width) / 2
    below = np.floor(ends / step) * width + np.minimum(ends % step, width)  # of the windows, at the ends
    drawn = np.where(held > 0, np.diff(below), 0.0)
    return np.where(drawn > 1e-6, drawn / np.maximum(held, 1e-6), 0.0).clip(max=1.0)
