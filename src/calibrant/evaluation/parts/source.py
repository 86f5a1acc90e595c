"""Evaluation of tables in parts: random rows for fitting, and sums over batches for testing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.checks import check_logits
from calibrant._math.errors import InputError
from calibrant._math.machine import one_thread
from calibrant._math.newton import Matrix
from calibrant._math.text_form import plural
from calibrant._math.top_k import joined
from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.calibrators.fitting.data import CalibrationData
from calibrant.calibrators.fitting.passes import Point, nothing, solved, sums_of
from calibrant.calibrators.fitting.samples import Samples
from calibrant.evaluation.arguments import GROUPS_NOTE, as_judged, dropped_note, few_note
from calibrant.evaluation.dense.sums import added_up
from calibrant.evaluation.fitting.split import MOST_FITTED, Split, marked_split, split_in_memory
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.judging.reduce import Source
from calibrant.evaluation.parts.ranked import BinnedScores
from calibrant.evaluation.parts.sums import MAX_GROUPS, AnySums, BatchSums, Deal, Half, LabelSums
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import DensePredictions, Predictions
from calibrant.predictions.formats.mark import Source as File
from calibrant.predictions.formats.parquet_files import is_address
from calibrant.predictions.partitioned import Part, PartitionedPredictions, Piece
from calibrant.predictions.to_event import to_repair

SAMPLED_PARTS = 32  # or enough to hold the requested rows, spread evenly over the table
LOOKED_AT = 2000  # test samples, to look for odd scores
MOST_FAMILIAR = 1 << 16  # rows that out-of-distribution samples are compared with
TOO_MANY = f"Groups were not tested: there are more than {MAX_GROUPS}, whose sums would not fit into memory."
Calibrators: TypeAlias = tuple[Calibrator | None, ...]


def _no_sums(
    table: PartitionedPredictions, deal: Deal, num_bins: int, calibrators: Calibrators
) -> tuple[AnySums, ...]:
    size = {
        "num_classes": table.num_classes,
        "num_bins": num_bins,
        "num_batches": deal.num_batches,
        "num_samples": table.num_samples - (table.num_fit if deal.rule == "split" else 0),
    }
    if table.kind == "multilabel":
        return tuple(LabelSums(**size) for _ in calibrators)
    return tuple(
        BatchSums(kind=table.kind, clusters=table.has_clusters, has_labels=table.has_labels, **size)
        for _ in calibrators
    )


def _sums_of_part(
    table: PartitionedPredictions, deal: Deal, num_bins: int, calibrators: Calibrators, part: Part
) -> tuple[tuple[AnySums, ...], list[str]]:
    arms, repairs = _no_sums(table, deal, num_bins, calibrators), list[str]()
    with one_thread():
        for piece in table.pieces(part):
            rows, batches = deal.rows(piece, "test")
            for each, calibrator in zip(arms, calibrators, strict=True):
                given, after = _at_its_temperature(piece, calibrator)
                each.add(given, rows, batches, logits=table.space == "logits", calibrator=after)
            repairs += piece.repairs
    return arms, repairs


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
    calibrators: Calibrators,
    *,
    spread: Spread = here,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[tuple[AnySums, ...], tuple[str, ...]]:
    given = table, deal, num_bins, calibrators
    arms = _no_sums(*given)
    repairs = added_up(arms, partial(_sums_of_part, *given), table.parts, spread=spread, tell=tell)
    if not repairs:
        return arms, ()
    return arms, (f"{repairs[0]} So it is in {plural(len(repairs), 'piece')} of the table.",)


Rows: TypeAlias = dict[str, Any]  # arguments of `PartitionedPredictions.predictions`


def _rows(piece: Piece, chosen: Indices, *, groups: bool) -> Rows:
    arrays = {"scores": piece.scores, "labels": piece.labels, "weights": piece.weights}
    names = {"clusters": piece.clusters, "groups": piece.groups if groups else None}
    found: Rows = {name: each[chosen] for name, each in arrays.items() if each is not None}
    found |= {name: [each[k] for k in chosen.tolist()] for name, each in names.items() if each is not None}
    return found if piece.top_k is None else found | {"top_k": piece.top_k.rows(torch.from_numpy(chosen))}


def _joined(parts: Sequence[Rows]) -> Rows:
    columns = {name: [part[name] for part in parts] for name in parts[0]}
    join: dict[str, Callable[[list[Any]], Any]] = {"top_k": joined}
    join |= dict.fromkeys(("clusters", "groups"), lambda names: [*chain.from_iterable(names)])
    return {name: join.get(name, np.concatenate)(each) for name, each in columns.items()}


def _sample_of_part(
    table: PartitionedPredictions, deal: Deal, half: Half, seed: int, groups: bool, item: tuple[Part, float]
) -> Rows:
    """Random rows of a part; ``item`` is the part and the share to draw."""
    part, share = item
    rng = generator(seed, Stream.SAMPLE, 2 * part.number + (half == "fit"))
    drawn: list[Rows] = []
    for piece in table.pieces(part):
        rows, _ = deal.rows(piece, half)
        number = len(rows) if share == 1 else min(len(rows), int(rng.poisson(share * len(rows))))
        chosen = np.sort(rng.choice(rows, number, replace=False)) if number < len(rows) else rows
        drawn.append(_rows(piece, chosen, groups=groups))
    return _joined(drawn)


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
    found = list(spread(partial(_sample_of_part, table, deal, half, seed, groups), items))
    if not any(len(each["labels"]) for each in found):
        return None
    rows = _joined(found)
    if "weights" in rows and not rows["weights"].any():
        raise weightless(table, deal, half)
    return table.predictions(**rows)


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
    """Share of the rows to draw from each part; every row is equally likely.

    If there are many parts, only those in windows are read, spread evenly over all rows.

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


@dataclass(frozen=True, kw_only=True)
class TableSource(Source):
    """A table: random rows for fitting; all rows are tested, part by part."""

    given: PartitionedPredictions
    spread: Spread

    reads: ClassVar[str] = "table"

    @property
    def has_groups(self) -> bool:
        return self.given.has_groups

    @property
    def notes(self) -> tuple[str, ...]:
        table = self.given
        as_independent = table.has_groups and not table.has_clusters
        return (*table.notes, GROUPS_NOTE) if as_independent else table.notes

    @cached_property
    def _deal(self) -> Deal:
        return Deal.of(self.given, self.num_bins, fits=self.fits and self.calibration is None)

    def split(self) -> Split:
        table, fits = self.given, self.fits and self.calibration is None
        split = split_in_memory(self._rows(fits=fits), self.calibration, self.seed, fits=self.fits)
        notes = self.notes
        if self.calibration is not None:
            notes += (dropped_note(table.num_fit),) if table.has_split else ()
            return replace(split, sampled=True, notes=notes).judged(None)
        words, number = "none", split.num_calibration
        if fits and number:
            place = "the calibration split" if table.has_split else "half of the table"
            words = f"{number:,} samples, drawn at random from {place} (seed {self.seed})"
            if table.has_split and number == table.num_fit:
                words = f"all {number:,} samples of {place}"
            notes += (f"Calibrators were fitted on {words}.",)
        split = replace(split, words=words, sampled=True, drawn=not table.has_split, notes=notes)
        return split.judged(None)

    def _rows(self, *, fits: bool) -> Predictions:
        """Rows to fit on, and a few test rows, as predictions with a split."""
        table, few = self.given, self._sample("test", LOOKED_AT)
        enough = few is not None and few.num_samples >= 2
        some = self._sample("fit", MOST_FITTED // table.width) if fits and enough else None
        if table.has_clusters and self._deal.rule == "halves" and (some is None or not enough):
            raise InputError(
                f"{table.address} has so few clusters that one half holds none of them; mark samples by "
                "`split`, or fit nothing."
            )
        if few is None or not enough or (fits and some is None):
            raise InputError(f"`predictions` must hold two samples or more; {table.address} does not.")
        return few if some is None else marked_split(some, few)

    def _sample(self, half: Half, most: int, *, groups: bool = False) -> Predictions | None:
        return sample(self.given, self._deal, half, most, seed=self.seed, spread=self.spread, groups=groups)

    def read(
        self,
        calibrators: Sequence[FittedCalibrator | None],
        split: Split | None = None,  # noqa: ARG002
        tell: Callable[[float], None] = lambda _: None,
    ) -> tuple[Sequence[AnySums], tuple[str, ...]]:
        arms = tuple(None if each is None else each.calibrator for each in calibrators)
        sums, repairs = summed(self.given, self._deal, self.num_bins, arms, spread=self.spread, tell=tell)
        too_many = (TOO_MANY,) if sums[0].groups is None else ()
        return sums, (self._note(sums[0]), *too_many, *repairs)

    def _note(self, sums: AnySums) -> str:
        table, deal, number = self.given, self._deal, sums.num_clusters
        if not number and table.has_weights:
            raise weightless(table, deal, "test")
        if number < 2:
            raise InputError(
                f"{table.address} must hold two samples or more, of two clusters or more if there are "
                "any: one cluster cannot be resampled; leave clusters out if the samples are independent."
            )
        note = (
            f"The table was read part by part. Its samples were split into {deal.num_batches} batches, whose "
            "sums are resampled."
        )
        if isinstance(sums.top, BinnedScores):
            cells = f"{len(sums.top.cells):,}"
            note += f" Adaptive ECE, smCE, slope and intercept use mean confidences of {cells} cells."
        if table.has_clusters:
            note += " A cluster is in one batch, so samples of one need not be independent."
        if number < deal.num_batches:
            note += f" {number} batches hold test samples."
        return note + few_note(number)

    def familiar(self, split: Split) -> tuple[Predictions, Predictions, tuple[str, ...]]:  # noqa: ARG002
        table = self.given
        some = self._some(min(MOST_FAMILIAR, MOST_FITTED // table.width))
        number = f"{some.num_samples:,} random samples of the table"
        notes = (f"Out-of-distribution samples were compared with {number}.",)
        return some, as_judged(some), notes if some.num_samples < self._held else ()

    def with_groups(self) -> tuple[Predictions, tuple[str, ...]]:
        some = self._some(MOST_FITTED // self.given.width, groups=True)
        if some.num_samples == self._held:
            return some, ()
        return some, (f"Groups were checked on {some.num_samples:,} random rows of the table.",)

    def _some(self, most: int, *, groups: bool = False) -> Predictions:
        some = self._sample("test", most, groups=groups)
        if some is None:
            raise InputError(f"{self.given.address} holds no samples to evaluate.")
        return some

    @property
    def _held(self) -> int:
        return self.given.num_samples - (self.given.num_fit if self._deal.rule == "split" else 0)


def sampled_to_fit(
    table: PartitionedPredictions, judged: File | None, seed: int, *, spread: Spread
) -> tuple[Predictions, Callable[[Split], Split]]:
    """Random rows of the calibration split, or of all if there is no split; and their words in a split."""
    if judged is not None and _is_same(table.source, judged):
        raise InputError(
            "`calibration` must be other predictions than those evaluated; without it, the "
            "file's own calibration split is used."
        )
    some = rows_to_fit(table, Deal.of(table, 1, fits=False), seed=seed, spread=spread)
    name, marked = table.source.name, table.has_split
    held = table.num_fit if marked else table.num_samples
    words = f"the {held:,} samples of {name} marked as calibration split"
    if some.num_samples < held:
        among = words if marked else f"the {held:,} of {name}"
        words = f"{some.num_samples:,} samples, drawn at random from {among} (seed {seed})"
    elif not marked:
        words = f"all {held:,} samples of {name}"
    said = (f"Calibrators were fitted on {words}.",) if marked or some.num_samples < held else ()
    return some, lambda split: replace(split, words=words, marked=marked, notes=(*said, *split.notes))


def _is_same(one: File, other: File) -> bool:
    """True if both are one table, however their addresses are spelt."""
    places = [
        each.path if each.path is None or is_address(each.path) else os.path.realpath(each.path)
        for each in (one, other)
    ]
    return one.sha256 == other.sha256 or (places[0] is not None and places[0] == places[1])


def sampled_by_group(
    table: PartitionedPredictions, seed: int, *, spread: Spread
) -> tuple[Predictions, tuple[str, ...]]:
    """Random rows of the fit and test halves, with groups, and a note if rows are left out."""
    deal, most = Deal.of(table, 1, fits=True), MOST_FITTED // table.width
    fit, test = (
        sample(table, deal, half, most, seed=seed, spread=spread, groups=True) for half in ("fit", "test")
    )
    if fit is None or test is None or min(fit.num_samples, test.num_samples) < 2:
        raise InputError(f"{table.address} must hold two samples or more to fit on, and two to test.")
    found = marked_split(fit, test)
    if found.num_samples == table.num_samples:
        return found, ()
    numbers = f"{fit.num_samples:,} random rows and tested on {test.num_samples:,} others"
    return found, (f"Repairs of groups were fitted on {numbers}.",)


class Positions:
    """Images as the parts of a table to fit on."""

    def __init__(self, dense: DensePredictions) -> None:
        self._dense, self.parts = dense, range(dense.num_images)
        self.space, self.class_names = dense.space, dense.class_names
        self.source = dense.source or File(name="images", sha256="", format="dense", path=None)

    def pieces(self, part: int) -> Iterator[Piece]:
        for image in self._dense.images([part]):
            if len(image.labels):
                yield Piece(
                    first_row=0,
                    scores=np.ascontiguousarray(image.scores.T),
                    labels=image.labels,
                    truth=image.labels,
                    class_names=self.class_names,
                )


ToFit: TypeAlias = PartitionedPredictions | Positions  # rows to fit on, part by part


def _sums_to_fit(table: ToFit, deal: Deal, points: Sequence[Point], part: Any) -> Matrix:
    sums = nothing(points)
    with one_thread():
        for piece in table.pieces(part):
            rows, _ = deal.rows(piece, "fit")
            mass = float(len(rows) if piece.weights is None else piece.weights[rows].sum())
            if mass > 0:
                sums += sums_of(_samples(piece, rows, logits=table.space == "logits"), points)
    return sums


def fits_in_passes(calibrator: Calibrator, kind: str, num_classes: int) -> bool:
    """True if a calibrator is fitted to all rows by sums; an exponent only if there are several classes."""
    several = num_classes > 2 or isinstance(calibrator, TemperatureScaling)
    return calibrator.fits_in_pieces and several and kind != "multilabel"


def fit_in_passes(
    calibrator: Calibrator, table: ToFit, sample: Predictions, deal: Deal, *, spread: Spread
) -> Calibrator:
    """Fit to all rows in a few passes: the search begins at the optimum of a ``sample``.

    Parameters and certificate are those of all rows; the profile is that of the sample.
    """
    form = to_repair(sample)
    if form.labels is None:
        raise InputError("`sample` must have labels.")
    checked = check_logits(form.scores, form.labels, form.weights, allow_minus_inf=True)
    data = CalibrationData.of(checked)
    some = data.problems[0]

    def sums(points: Sequence[Point]) -> Matrix:
        total = nothing(points)
        for each in spread(partial(_sums_to_fit, table, deal, points), table.parts):
            total += each
        return total

    solution, num_samples, _ = solved(calibrator.in_passes(some), sums)
    result = replace(
        data.result([solution], calibrator.objective),
        num_samples=num_samples,
        data_sha256=table.source.sha256,
    )
    calibrator.restore(
        {name: torch.tensor(value, dtype=torch.float64) for name, value in solution.parameters.items()},
        result,
        kind=checked.task,
        num_classes=checked.num_classes,
        class_names=table.class_names,
    )
    return calibrator


def _samples(piece: Piece, rows: Indices, *, logits: bool) -> Samples:
    scores = torch.from_numpy(piece.scores[rows])
    if not logits:
        scores = scores.to(torch.float64).log()
    if scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    weights = None if piece.weights is None else torch.from_numpy(piece.weights[rows])
    checked = check_logits(scores, torch.from_numpy(piece.labels[rows]), weights, allow_minus_inf=True)
    return CalibrationData.of(checked).problems[0]
