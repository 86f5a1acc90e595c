"""From sums of images or batches to what an evaluation keeps of an arm; a row stands for many positions."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import numpy as np
import torch

from calibrant._math.binning import BinSums, PairSums, width_edges
from calibrant._math.dense_sums import (
    AGREEMENT,
    BRIER,
    COUNT,
    ENTROPY,
    INFINITE,
    NLL,
    NUMBER,
    SQUARES,
    STATED,
    cell_edges,
)
from calibrant.evaluation.judging.reduce import (
    OFFSETS,
    WHY_MISSING,
    Agreement,
    ArmStatistics,
    Mask,
    ratios_of,
    values_of,
)
from calibrant.evaluation.quantities import ECE, quantities
from calibrant.evaluation.quantity import EVENT, HIGH_CONFIDENCE, ClassErrors, ClassRanks, EventError, Samples
from calibrant.evaluation.resampling.clustered_noise import SignedSums
from calibrant.evaluation.resampling.clusters import Clustered
from calibrant.evaluation.resampling.drawn_labels import ClassNull, class_scores, class_tilts
from calibrant.evaluation.resampling.event_cells import BinnedEvents, Kernel, ResidualSums
from calibrant.evaluation.resampling.events import Events, Indices, Matrix, Vector, width_bins
from calibrant.evaluation.resampling.null import num_noise
from calibrant.evaluation.resampling.resamples import Counts
from calibrant.evaluation.resampling.statistics import divide
from calibrant.evaluation.result import ClassRow, Kind
from calibrant.evaluation.samples import ArmSamples

LEAST_CELLS, MOST_CELLS = 256, 1200


def num_even(num_bins: int) -> int:
    """Even cells of confidence that divide both the bins and hundredths, where these are not too many."""
    shared = math.lcm(num_bins, 100)
    return (
        shared
        if LEAST_CELLS <= shared <= MOST_CELLS
        else num_bins * 2 * math.ceil(LEAST_CELLS / num_bins / 2)
    )


@cache
def edges_of_cells(num_bins: int) -> Vector:
    """Edges of confidence cells; bin edges and the least high confidence have cells of their own."""
    bins = np.arange(1, num_bins) / num_bins
    sure = round(1 - HIGH_CONFIDENCE, 9), HIGH_CONFIDENCE  # of an event, cells mirror each other
    return cell_edges(num_even(num_bins), np.append(bins, sure))


def num_cells(num_bins: int) -> int:
    return len(edges_of_cells(num_bins)) - 1


def within_cells(means: Vector, places: Indices, edges: Vector) -> Vector:
    """Means as they are without rounding: above the lower edges of their cells (but for the first's).

    Example:
        >>> within_cells(np.array([0.7999999999999999, 0.8]), np.array([1, 0]), np.array([0, 0.8, 1.0]))
        array([0.8, 0.8])
    """
    lower = np.where(places > 0, np.nextafter(edges[places], 1.0), edges[0])
    return means.clip(lower, edges[places + 1])


SEVERAL = 4
"""Samples per row, on average, from which the mean of a cell places its rows better than their own."""


@dataclass(kw_only=True)
class Sums(ArmSamples):
    """Sums of images or of batches of samples, from which an evaluation is made."""

    kind: Kind
    num_classes: int
    num_bins: int
    agreement: Matrix = field(init=False)

    unit: ClassVar[str]
    no_ranks: ClassVar[str]
    """Why there is no AUROC."""

    def __post_init__(self) -> None:
        self.agreement = np.zeros((self.num_classes + 3, AGREEMENT))

    @property
    def event(self) -> bool:
        """True if two classes are evaluated as one event, or confidences: right and wrong."""
        return self.num_classes == 2

    @property
    def num_tested(self) -> int:
        return int(self.agreement[: self.num_classes, 4].sum())

    @property
    @abstractmethod
    def confidences(self) -> Matrix:
        """Sums of the probabilities ``(C, B)``."""

    @property
    @abstractmethod
    def outcomes(self) -> Matrix:
        """Sums of the outcomes ``(C, B)``."""

    @abstractmethod
    def rows(self) -> tuple[Indices, Indices, Matrix]:
        """The image or batch of each row, whether it is right (or occurs), and its sums ``(n, 8)``."""

    @abstractmethod
    def cells(self) -> Indices:
        """The cell of each row."""

    @abstractmethod
    def of_classes(self) -> tuple[Matrix, Matrix]:
        """Residuals and counts of each image or batch in the bins of all classes ``(G, C, B)``."""

    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:
        return reduced_sums(self, class_names, metrics)


def reduced_sums(sums: Sums, class_names: tuple[str, ...], metrics: Iterable[str] = ()) -> ArmStatistics:
    kind = sums.kind
    wanted = quantities(kind, metrics)
    known = [each for each in wanted if kind != "top_label" or not each.needs_all_classes]
    images, hits, cells = sums.rows()
    weights = cells[:, COUNT]
    events = _events_of(sums, images, hits, cells)
    (top,), (event,) = events[""], events.get(EVENT, events[""])
    nothing = np.empty(0)
    samples = Samples(
        confidence=top.confidences[:, None],
        correct=top.outcomes[:, None],
        entropy=(cells[:, ENTROPY] / weights)[:, None],
        nll=np.where(cells[:, INFINITE] > 0, np.inf, cells[:, NLL]) / weights,
        brier=cells[:, BRIER] / weights,
        stated=event.confidences if kind == "binary" else nothing,
        happened=event.outcomes if kind == "binary" else nothing,
    )
    ratios = ratios_of(known, samples, weights)

    def denied(infinite: Mask) -> str:
        positions = int(cells[infinite, INFINITE].sum())
        if kind == "top_label":
            return f"{positions:,} {sums.unit} are wrong with a confidence of 1, or right with one of 0"
        return f"{positions:,} {sums.unit} give their true class probability 0"

    values, reasons, influences = values_of(known, ratios, events, sums.num_bins, denied)
    reasons |= {each.key: WHY_MISSING for each in wanted if each not in known}
    classes = _Classes(sums)
    for each in known:
        if isinstance(each.computed, ClassErrors):
            values[each.key] = values[ECE.event_key] if sums.event else float(classes.errors.mean())
        elif isinstance(each.computed, ClassRanks):
            reasons[each.key] = sums.no_ranks
        elif isinstance(each.computed, EventError) and each.computed.estimates is not None:
            (event,) = events[each.prefix]
            values[each.key] = _without_chance(event, each.computed.estimates, sums.num_bins)
        elif each.computed.kernel == "mass l1":
            (event,) = events[each.prefix]
            values[each.key] = BinnedEvents(event, sums.num_bins).cells("mass l1").observed
    return ArmStatistics(
        quantities=wanted,
        weights=weights,
        ratios=ratios,
        events=events,
        values=values,
        reasons=reasons,
        influences=influences,
        classwise=None if sums.event else classes.resampled,
        class_null=None if sums.event else classes.null,
        agreement=None if sums.event else _agreement(sums),
        classes=() if kind == "top_label" else classes.rows(class_names),
        clusters=images,
    )


def _events_of(sums: Sums, images: Indices, hits: Indices, cells: Matrix) -> dict[str, tuple[Events, ...]]:
    """Confidences and correctness of each row and, of two classes, the event."""
    weights, many = cells[:, COUNT], (images, cells[:, SQUARES], cells[:, NUMBER])
    places, edges = sums.cells(), edges_of_cells(sums.num_bins)
    stated, happened = within_cells(cells[:, STATED] / weights, places, edges), hits.astype(np.float64)
    event = Events(stated, happened, weights, *many, _cell_means(places, stated, weights, many[2]))
    if sums.kind != "binary":
        return {"": (event,)}
    sure, right = np.maximum(stated, 1 - stated), ((stated > 0.5) == (happened > 0)).astype(np.float64)
    folded = np.maximum(places, len(edges) - 2 - places)
    top = Events(sure, right, weights, *many, _cell_means(folded, sure, weights, many[2]))
    return {"": (top,), EVENT: (event,)}


def _cell_means(places: Indices, stated: Vector, weights: Vector, numbers: Vector) -> Vector:
    """The mean probability of the cell of each row if its rows are of several samples, else of the row."""
    totals, masses, samples, rows = (
        np.bincount(places, each)[places]
        for each in (weights * stated, weights, numbers, np.ones(len(places)))
    )
    return np.where(samples >= SEVERAL * rows, totals / masses, stated)


def _without_chance(event: Events, estimated: Kernel, num_bins: int) -> float:
    """The debiased error; noise depends on the squared weights of positions, not of rows."""
    bins, gaps = width_bins(event.confidences, num_bins), event.confidences - event.outcomes
    sums = (event.mass, event.mass * gaps, event.squared_mass, event.squared_mass * gaps**2)
    pairs = PairSums(*(torch.from_numpy(np.bincount(bins, each, num_bins)) for each in sums))
    error = pairs.absolute_error() if estimated == "width l1" else pairs.squared_error()
    positive = max(0.0, float(error))
    return positive if estimated == "width l1" else math.sqrt(positive)


def _agreement(sums: Sums) -> Agreement:
    found = Agreement(sums.num_classes)
    count = sums.num_classes
    predicted, occurred, variance = (torch.from_numpy(each[:count].copy()) for each in sums.agreement.T[:3])
    found.predicted, found.occurred, found.variance = predicted, occurred, variance
    found.total = float(occurred.sum())
    found.hits = {offset: float(sums.agreement[count + 1 + offset, 0]) for offset in OFFSETS}
    return found


@dataclass(frozen=True)
class _Classes:
    """All classes, from the sums of each image."""

    sums: Sums

    @property
    def total(self) -> float:
        return float(self.sums.agreement[: self.sums.num_classes, 1].sum())

    @property
    def _bins(self) -> BinSums:
        masses = self.sums.of_classes()[1].sum(axis=0)
        parts = (torch.from_numpy(each) for each in (masses, self.sums.confidences, self.sums.outcomes))
        return BinSums(width_edges(self.sums.num_bins), *parts, total=self.total)

    @property
    def errors(self) -> Vector:
        return self._bins.calibration_error("l1").numpy()

    def rows(self, names: tuple[str, ...]) -> tuple[ClassRow, ...]:
        sums, total, errors = self.sums, self.total, self.errors.tolist()
        right, numbers = sums.agreement[:, 3], sums.agreement[:, 4]
        occurs = sums.outcomes.sum(axis=1)
        return tuple(
            ClassRow(
                name=name,
                count=int(numbers[k]),
                mean_probability=float(sums.confidences[k].sum()) / total,
                prevalence=float(occurs[k]) / total,
                ece=errors[k],
                auroc=None,
                accuracy=None if occurs[k] == 0 else float(right[k] / occurs[k]),
            )
            for k, name in enumerate(names)
        )

    def resampled(self, counts: Counts) -> Vector:
        """The class-wise error of each resample, for counts ``(r, n)`` of rows."""
        images, _, _ = self.sums.rows()
        first = np.flatnonzero(np.append(True, np.diff(images) != 0))
        drawn = counts[:, first].astype(np.float64)
        residuals, masses = self.sums.of_classes()
        gaps = np.abs(drawn @ residuals.reshape(len(residuals), -1)).sum(axis=1)
        per_class = drawn @ masses.sum(axis=(1, 2)) / self.sums.num_classes
        return divide(gaps, self.sums.num_classes * per_class)

    def null(self, num_draws: int, seed: tuple[int, ...], level: float) -> ClassNull:
        """The classes under calibration, by random signs of whole images."""
        from scipy.sparse import csr_array

        bins, total = self._bins, self.total
        filled = bins.counts.numpy() > 0
        residuals, masses = (each[:, filled].T for each in self.sums.of_classes())  # (M, G)
        counts, stated = bins.counts.numpy()[filled], bins.confidences.numpy()[filled]
        mean = stated / counts
        cells = self.sums.rows()[2]
        share = float(cells[:, SQUARES].sum() / cells[:, COUNT].sum())  # per unit of weight
        squares = share * counts
        variance = squares * mean * (1 - mean)
        starts: Indices = np.append(0, np.cumsum(filled.sum(axis=1))[:-1])
        expected, occurs = bins.confidences.numpy().sum(axis=1), bins.outcomes.numpy().sum(axis=1)
        totals = np.add.reduceat(residuals, starts, axis=0)
        spread = np.maximum(self.sums.agreement[: self.sums.num_classes, 2], (totals**2).sum(axis=1))
        rng = np.random.default_rng((*seed, 11))
        noise = np.sqrt(variance)[:, None] * rng.standard_normal((len(variance), num_draws))
        drawn, signs = SignedSums(csr_array(residuals), variance, seed).draw(noise)
        tilts = class_tilts(np.maximum(variance, (residuals**2).sum(axis=1)), mean, starts, expected)[:, None]
        steep = np.abs(np.add.reduceat(tilts * drawn, starts)).max(axis=0)
        steepest = float(np.abs(np.add.reduceat(tilts * residuals, starts).sum(axis=1)).max())
        far = class_scores(np.add.reduceat(drawn + stated[:, None], starts), expected, spread)
        kept = num_noise(len(counts), num_draws, level)
        place = np.arange(len(counts))
        num_classes = self.sums.num_classes
        places = ResidualSums(
            cell=place,
            bin=place,
            mass=counts / total,
            residual=residuals.sum(axis=1) / total,
            variance=variance / total**2,
            tilt=squares * (1 - 2 * mean) / total**2,
            squares=squares / total**2,
            num_cells=len(counts),
            num_bins=len(counts),
            total_squares=share / total,
            error=lambda each: np.abs(each).sum(axis=1) / num_classes,
            clustered=Clustered.of(
                csr_array(residuals / total), csr_array(masses / total), (masses @ signs[:, :kept]).T / total
            ),
        )
        return ClassNull(
            scores=class_scores(occurs, expected, spread),
            deviations=np.sqrt(spread) / total,
            farthest=np.abs(far).max(axis=0),
            steepest=(steepest, steep),
            errors=np.abs(drawn).sum(axis=0) / (num_classes * total),
            cells=places,
            noise=drawn[:, :kept].T / total,
        )
