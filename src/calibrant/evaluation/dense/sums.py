"""Sums of images or batches, and the statistics made of them; a row pools many positions."""

from __future__ import annotations

import math
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math import dense_sums
from calibrant._math.binning import BinSums, PairSums, width_edges
from calibrant._math.errors import InputError
from calibrant._math.machine import one_thread
from calibrant.calibrators import Calibrator
from calibrant.evaluation.judging import reduce
from calibrant.evaluation.judging.class_table import ClassBins, ClassClusters, class_rows
from calibrant.evaluation.judging.reduce import ArmSamples
from calibrant.evaluation.quantities import ECE, quantities
from calibrant.evaluation.quantity import EVENT, HIGH_CONFIDENCE, ClassErrors, ClassRanks, EventError, Samples
from calibrant.evaluation.resampling.event_cells import BinnedEvents, Kernel
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector, width_bins
from calibrant.evaluation.resampling.null import ClassNull
from calibrant.evaluation.resampling.resamples import Counts, divide
from calibrant.evaluation.result import ClassRow, Kind
from calibrant.evaluation.spread import Item, Spread, here
from calibrant.predictions import DensePredictions
from calibrant.predictions.dense import Image
from calibrant.predictions.partitioned import columns_of_odds

LEAST_CELLS, MOST_CELLS = 256, 1200


def num_even(num_bins: int) -> int:
    """Number of equal confidence cells: a multiple of the bins and, if not too many, of 100."""
    shared = math.lcm(num_bins, 100)
    return (
        shared
        if LEAST_CELLS <= shared <= MOST_CELLS
        else num_bins * 2 * math.ceil(LEAST_CELLS / num_bins / 2)
    )


@cache
def edges_of_cells(num_bins: int) -> Vector:
    """Edges of the confidence cells; they include bin edges and the threshold of high confidence."""
    bins = width_edges(num_bins).numpy()[1:-1]
    sure = round(1 - HIGH_CONFIDENCE, 9), HIGH_CONFIDENCE  # of an event, cells mirror each other
    return dense_sums.cell_edges(num_even(num_bins), np.append(bins, sure))


def num_cells(num_bins: int) -> int:
    return len(edges_of_cells(num_bins)) - 1


def within_cells(means: Vector, places: Indices, edges: Vector) -> Vector:
    """Clip means to their cells ``(lower, upper]``, which rounding can make them leave.

    Example:
        >>> within_cells(np.array([0.7999999999999999, 0.8]), np.array([1, 0]), np.array([0, 0.8, 1.0]))
        array([0.8, 0.8])
    """
    lower = np.where(places > 0, np.nextafter(edges[places], 1.0), edges[0])
    return means.clip(lower, edges[places + 1])


SEVERAL = 4  # samples per row on average, from which a cell's mean replaces those of its rows


class SumsOfParts(ArmSamples):
    """Sums of one arm over images, or over the parts of a table."""

    @abstractmethod
    def merge(self, other: Any) -> None:
        """Add the sums of another part."""


AnySums = TypeVar("AnySums", bound=SumsOfParts)


def added_up(
    arms: tuple[AnySums, ...],
    task: Callable[[Item], tuple[tuple[AnySums, ...], Sequence[str]]],
    items: Sequence[Item],
    *,
    spread: Spread,
    tell: Callable[[float], None],
) -> list[str]:
    """Add the sums of all items to ``arms``, in order; return notes on repairs."""
    repairs: list[str] = []
    for done, (found, repaired) in enumerate(spread(task, items), start=1):
        for one, other in zip(arms, found, strict=True):
            one.merge(other)
        repairs += repaired
        tell(done / len(items))
    return repairs


@dataclass(kw_only=True)
class Sums(SumsOfParts):
    """Sums of images or of batches of samples, from which an evaluation is made."""

    kind: Kind
    num_classes: int
    num_bins: int
    agreement: Matrix = field(init=False)

    unit: ClassVar[str]
    no_ranks: ClassVar[str]  # reason for the missing AUROC

    def __post_init__(self) -> None:
        self.agreement = np.zeros((self.num_classes + 3, dense_sums.AGREEMENT))

    @property
    def event(self) -> bool:
        """True for two classes, or for confidences: right and wrong."""
        return self.num_classes == 2

    @property
    def num_tested(self) -> int:
        return int(self.agreement[: self.num_classes, 4].sum())

    @abstractmethod
    def rows(self) -> tuple[Indices, Indices, Matrix]:
        """Image or batch, place (twice the cell, plus one if right), and sums ``(n, 8)`` of each row."""

    @abstractmethod
    def of_classes(self) -> Matrix:
        """Mass, probabilities and outcomes ``(G, C, B, 3)`` in each image or batch, class and bin."""

    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> reduce.ArmStatistics:
        kind, wanted = self.kind, quantities(self.kind, metrics)
        images, places, cells = self.rows()
        weights = cells[:, dense_sums.COUNT]
        events = _events_of(self, images, places, cells)
        (top,), (event,) = events[""], events.get(EVENT, events[""])
        nothing = np.empty(0)
        samples = Samples(
            confidence=top.confidences[:, None],
            correct=top.outcomes[:, None],
            entropy=(cells[:, dense_sums.ENTROPY] / weights)[:, None],
            nll=np.where(cells[:, dense_sums.INFINITE] > 0, np.inf, cells[:, dense_sums.NLL]) / weights,
            brier=cells[:, dense_sums.BRIER] / weights,
            stated=event.confidences if kind == "binary" else nothing,
            happened=event.outcomes if kind == "binary" else nothing,
        )
        classes = _Classes(self.of_classes(), self.agreement, images, cells)
        found = reduce.statistics_of(
            kind,
            wanted,
            samples,
            events,
            weights,
            self.num_bins,
            infinite=(self.unit, cells[:, dense_sums.INFINITE]),
            classwise=None if self.event else classes.resampled,
            class_null=None if self.event else classes.null,
            agreement=None if self.event else classes.agreed,
            classes=() if kind == "top_label" else classes.rows(class_names),
            clusters=images,
        )
        values = found.values
        for key, computed, (event,) in ((each.key, each.computed, events[each.prefix]) for each in wanted):
            if found.reasons.get(key) == reduce.WHY_MISSING:
                continue
            if isinstance(computed, ClassErrors) and self.event:
                values[key] = values[ECE.event_key]
            elif isinstance(computed, ClassErrors):
                values[key] = float(classes.bins.calibration_error("l1").mean())
            elif isinstance(computed, ClassRanks):
                found.reasons[key] = self.no_ranks
            elif isinstance(computed, EventError) and computed.estimates is not None:
                values[key] = _without_chance(event, computed.estimates, self.num_bins)
            elif computed.kernel == "mass l1":
                values[key] = BinnedEvents(event, self.num_bins).cells("mass l1").observed
        return found


def _events_of(sums: Sums, images: Indices, places: Indices, cells: Matrix) -> dict[str, tuple[Events, ...]]:
    """Confidences and correctness of each row and, for two classes, the event."""
    weights, many = (
        cells[:, dense_sums.COUNT],
        (images, cells[:, dense_sums.SQUARES], cells[:, dense_sums.NUMBER]),
    )
    happened, places, edges = (places % 2).astype(np.float64), places // 2, edges_of_cells(sums.num_bins)

    def event(stated: Vector, happened: Vector, places: Indices) -> tuple[Events]:
        totals, masses, samples, rows = (
            np.bincount(places, each)[places]
            for each in (weights * stated, weights, many[2], np.ones(len(places)))
        )
        means = np.where(samples >= SEVERAL * rows, totals / masses, stated)
        return (Events(stated, happened, weights, *many, means),)

    stated = within_cells(cells[:, dense_sums.STATED] / weights, places, edges)
    if sums.kind != "binary":
        return {"": event(stated, happened, places)}
    right = ((stated > 0.5) == (happened > 0)).astype(np.float64)
    top = event(np.maximum(stated, 1 - stated), right, np.maximum(places, len(edges) - 2 - places))
    return {"": top, EVENT: event(stated, happened, places)}


def _without_chance(event: Events, estimated: Kernel, num_bins: int) -> float:
    """The debiased error; noise depends on the squared weights of positions, not of rows."""
    bins, gaps = width_bins(event.confidences, num_bins), event.confidences - event.outcomes
    sums = (event.mass, event.mass * gaps, event.squared_mass, event.squared_mass * gaps**2)
    pairs = PairSums(*(torch.from_numpy(np.bincount(bins, each, num_bins)) for each in sums))
    error = pairs.absolute_error() if estimated == "width l1" else pairs.squared_error()
    positive = max(0.0, float(error))
    return positive if estimated == "width l1" else math.sqrt(positive)


@dataclass(frozen=True)
class _Classes:
    """All classes, from the sums ``(G, C, B, 3)`` of each image or batch."""

    sums: Matrix
    agreement: Matrix
    images: Indices
    cells: Matrix

    @property
    def num_classes(self) -> int:
        return self.sums.shape[1]

    @property
    def total(self) -> float:
        return float(self.agreement[: self.num_classes, 1].sum())

    @cached_property
    def bins(self) -> BinSums:
        parts = (torch.from_numpy(each.copy()) for each in np.moveaxis(self.sums.sum(axis=0), -1, 0))
        return BinSums(width_edges(self.sums.shape[2]), *parts, total=self.total)

    @property
    def residuals(self) -> Matrix:
        return self.sums[..., 2] - self.sums[..., 1]

    @property
    def agreed(self) -> reduce.Agreement:
        found, count = reduce.Agreement(self.num_classes), self.num_classes
        found.predicted, found.occurred, found.variance = (
            torch.from_numpy(each[:count].copy()) for each in self.agreement.T[:3]
        )
        found.total = float(found.occurred.sum())
        found.hits = {offset: float(self.agreement[count + 1 + offset, 0]) for offset in reduce.OFFSETS}
        return found

    def rows(self, names: tuple[str, ...]) -> tuple[ClassRow, ...]:
        right, numbers = self.agreement[:, 3], self.agreement[:, 4]
        return class_rows(names, self.bins, numbers, right, [None] * self.num_classes)

    def resampled(self, counts: Counts) -> Vector:
        """The class-wise error of each resample, for counts ``(r, n)`` of rows."""
        drawn = counts[:, np.append(True, np.diff(self.images) != 0)].astype(np.float64)
        gaps = np.abs(drawn @ self.residuals.reshape(len(self.sums), -1)).sum(axis=1)
        masses = np.ascontiguousarray(self.sums[..., 0])
        per_class = drawn @ masses.sum(axis=(1, 2)) / self.num_classes
        return divide(gaps, self.num_classes * per_class)

    def null(self, num_draws: int, seed: tuple[int, ...], level: float) -> ClassNull:
        """Null distribution of the classes, by random signs of whole images."""
        from scipy.sparse import csr_array

        share = float(self.cells[:, dense_sums.SQUARES].sum() / self.cells[:, dense_sums.COUNT].sum())
        bins = ClassBins(self.bins, share)
        sums = (each[:, bins.filled].T for each in (self.residuals, self.sums[..., 0]))  # (M, G)
        clusters = ClassClusters(*map(csr_array, sums))
        spread = np.maximum(self.agreement[: self.num_classes, 2], clusters.class_variance(bins.starts))
        variance = bins.cells().variance * self.total**2
        of_clusters = np.asarray(clusters.residuals.power(2).sum(axis=1)).ravel()
        rng = np.random.default_rng((*seed, 11))
        drawn = np.sqrt(variance)[:, None] * rng.standard_normal((len(variance), num_draws))
        draws = [(drawn, drawn)]
        return bins.null(draws, spread, num_draws, seed, level, clusters, np.maximum(variance, of_clusters))


POSITIONS = 1 << 15  # of a block
GROUP_SUMS = 4
NOT_READ: tuple[Matrix, Matrix] = np.empty((0, 0)), np.empty((0, 2))
NO_GROUPS: tuple[Indices, Matrix] = np.empty(0, np.int64), np.empty((0, 0, 0, 2, GROUP_SUMS))


class _Summed(NamedTuple):
    """An image: its name, a checksum of its labels, and its sums."""

    name: str
    labels: int
    places: Indices
    cells: Matrix  # (n, 8) at these places, which are filled
    classes: Matrix  # (C, B, 3)


@dataclass(kw_only=True)
class ImageSums(Sums):
    """Sums of the images of one arm; cells are by confidence and correctness (or the event)."""

    kind: Kind = field(init=False)
    images: list[_Summed] = field(default_factory=list["_Summed"])

    unit: ClassVar[str] = "positions"
    no_ranks: ClassVar[str] = "not computed for images read one by one: it needs all positions in order"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kind = "binary" if self.event else "multiclass"

    @property
    def fingerprint(self) -> tuple[object, object]:
        return tuple((each.name, each.labels) for each in self.images), None

    @property
    def num_clusters(self) -> int:
        return len(self.images)

    def add(self, image: Image, *, logits: bool, calibrator: Calibrator | None) -> None:
        cells = np.zeros((1, num_cells(self.num_bins), 2, dense_sums.CELL_SUMS))
        classes = np.zeros((1, self.num_classes, self.num_bins, 3))
        sums = cells, classes, self.agreement
        one = np.zeros(POSITIONS, np.int64)  # the image is a batch
        for start in range(0, len(image.labels), POSITIONS):
            part = slice(start, start + POSITIONS)
            scores, labels = image.scores[:, part].T, image.labels[part]
            wrong = add_scores(scores, labels, one, sums, logits=logits, calibrator=calibrator)
            if wrong is not None:
                kind = "finite numbers" if logits else "probabilities"
                raise InputError(
                    f"scores must be {kind}; image {image.name!r} holds {wrong.values} at a position."
                )
        filled = np.flatnonzero(cells[:, :, :, 0].ravel())
        checksum, cells = (
            zlib.crc32(np.ascontiguousarray(image.labels).data),
            cells.reshape(-1, dense_sums.CELL_SUMS),
        )
        self.images.append(_Summed(image.name, checksum, filled, cells[filled], classes[0]))

    def merge(self, other: Self) -> None:
        self.agreement += other.agreement
        self.images += other.images

    def rows(self) -> tuple[Indices, Indices, Matrix]:
        images = np.repeat(np.arange(len(self.images)), [len(each.places) for each in self.images])
        places, cells = ([getattr(each, name) for each in self.images] for name in ("places", "cells"))
        return images, np.concatenate(places), np.concatenate(cells)

    def of_classes(self) -> Matrix:
        return np.stack([each.classes for each in self.images])


class Wrong(NamedTuple):
    """Position of invalid scores, and these scores."""

    position: int
    values: str


def add_scores(
    scores: NDArray[Any],
    labels: Indices,
    batches: Indices,
    sums: tuple[Matrix, Matrix, Matrix],
    *,
    logits: bool,
    calibrator: Calibrator | None,
    weights: Vector | None = None,
    groups: tuple[Indices, Matrix] = NO_GROUPS,
    read: tuple[Matrix, Matrix] = NOT_READ,
) -> Wrong | None:
    """Add scores ``(P, C)``, uncalibrated or after a calibrator, to the sums of `add_positions`.

    ``read`` is filled with probabilities and events if it has room.
    """
    cells, classes, agreement = sums
    _, num_classes, num_bins, _ = classes.shape
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if calibrator is not None:
        scores = _calibrated(scores, calibrator, logits=logits)
    wrong = dense_sums.add_positions(
        scores,
        labels,
        logits or calibrator is not None,
        dense_sums.EVENT if num_classes == 2 else dense_sums.CLASSES,
        edges_of_cells(num_bins),
        batches,
        np.ones(len(labels)) if weights is None else weights,
        groups[0],
        cells,
        classes,
        agreement,
        groups[1],
        read[0] if len(read[0]) else np.empty((1, num_classes)),
        read[1],
    )
    return None if wrong < 0 else Wrong(wrong, ", ".join(f"{value:g}" for value in scores[wrong][:5]))


def _calibrated(scores: Matrix, calibrator: Calibrator, *, logits: bool) -> Matrix:
    """Log-probabilities ``(P, C)``, or logits of two classes."""
    given = torch.from_numpy(scores)
    if not logits:
        given = given.log()
    with torch.no_grad():
        if calibrator.kind_ == "binary":
            return columns_of_odds(calibrator(given[:, 1] - given[:, 0])).numpy()
        return calibrator(given).numpy()


def _no_sums(
    dense: DensePredictions, num_bins: int, calibrators: tuple[Calibrator | None, ...]
) -> tuple[ImageSums, ...]:
    return tuple(ImageSums(num_classes=dense.num_classes, num_bins=num_bins) for _ in calibrators)


def _sums_of_image(
    dense: DensePredictions, num_bins: int, calibrators: tuple[Calibrator | None, ...], place: int
) -> tuple[tuple[ImageSums, ...], tuple[str, ...]]:
    arms = _no_sums(dense, num_bins, calibrators)
    with one_thread():
        for image in dense.images([place]):
            if len(image.labels):
                for each, calibrator in zip(arms, calibrators, strict=True):
                    each.add(image, logits=dense.space == "logits", calibrator=calibrator)
    return arms, ()


def summed_images(
    dense: DensePredictions,
    places: Sequence[int],
    num_bins: int,
    calibrators: tuple[Calibrator | None, ...],
    *,
    spread: Spread = here,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[ImageSums, ...]:
    arms = _no_sums(dense, num_bins, calibrators)
    task = partial(_sums_of_image, dense, num_bins, calibrators)
    added_up(arms, task, places, spread=spread, tell=tell)
    return arms
