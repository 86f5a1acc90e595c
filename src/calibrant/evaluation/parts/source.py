"""Tables in parts to evaluate: random rows to fit on, and sums over batches of rows to test by."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import as_judged, dropped_note, groups_note
from calibrant.evaluation.fitting.split import Split, marked_split, split_in_memory
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.parts.dealing import Deal, Half
from calibrant.evaluation.parts.ranked import BinnedScores
from calibrant.evaluation.parts.several import AnySums
from calibrant.evaluation.parts.states import MAX_GROUPS
from calibrant.evaluation.parts.tasks import MOST_FITTED, rows_to_fit, sample, summed, weightless
from calibrant.evaluation.resampling.clusters import few_note
from calibrant.evaluation.samples import Drawn, Source
from calibrant.evaluation.spread import Spread
from calibrant.predictions import Predictions
from calibrant.predictions.formats.parquet_files import is_address
from calibrant.predictions.partitioned import PartitionedPredictions
from calibrant.predictions.table import Source as File

LOOKED_AT = 2000  # test samples, to find what is odd about the scores
MOST_FAMILIAR = 1 << 16  # rows that out-of-distribution samples are compared with
TOO_MANY = f"Groups were not tested: there are more than {MAX_GROUPS}, whose sums would not fit into memory."


@dataclass(frozen=True, kw_only=True)
class TableSource(Source):
    """A table of which random rows are fitted on, and all rows are tested part by part."""

    given: PartitionedPredictions
    spread: Spread

    reads: ClassVar[str] = "table"

    @property
    def has_groups(self) -> bool:
        return self.given.has_groups

    @property
    def notes(self) -> tuple[str, ...]:
        table = self.given
        return (*table.notes, *groups_note(table.has_groups, clusters=table.has_clusters))

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
        found = summed(self.given, self._deal, self.num_bins, arms, spread=self.spread, tell=tell)
        too_many = (TOO_MANY,) if found.arms[0].groups is None else ()
        return found.arms, (self._note(found.arms[0]), *too_many, *found.repairs)

    def _note(self, sums: AnySums) -> str:
        """A note on batches, which bound memory, and on their effect on the intervals."""
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
        some = self._sample("test", min(MOST_FAMILIAR, MOST_FITTED // table.width))
        if some is None:
            raise InputError(f"{table.address} holds no samples to evaluate.")
        number = f"{some.num_samples:,} random samples of the table"
        notes = (f"Out-of-distribution samples were compared with {number}.",)
        return some, as_judged(some), notes if some.num_samples < self._held else ()

    def with_groups(self) -> tuple[Predictions, tuple[str, ...]]:
        table = self.given
        some = self._sample("test", MOST_FITTED // table.width, groups=True)
        if some is None:
            raise InputError(f"{table.address} holds no samples to evaluate.")
        if some.num_samples == self._held:
            return some, ()
        return some, (f"Groups were checked on {some.num_samples:,} random rows of the table.",)

    @property
    def _held(self) -> int:
        return self.given.num_samples - (self.given.num_fit if self._deal.rule == "split" else 0)


def sampled_to_fit(table: PartitionedPredictions, judged: File | None, seed: int, *, spread: Spread) -> Drawn:
    """Random rows of the calibration split, or of all if there is no split."""
    if judged is not None and _is_same(table.source, judged):
        raise InputError(
            "`calibration` must be other predictions than those evaluated; without it, the "
            "file's own calibration split is used."
        )
    deal = Deal.of(table, 1, fits=False)
    some = rows_to_fit(table, deal, seed=seed, spread=spread)
    name, marked = table.source.name, table.has_split
    held = table.num_fit if marked else table.num_samples
    marks = f"the {held:,} samples of {name} marked as calibration split"
    words = marks if marked else f"all {held:,} samples of {name}"
    if some.num_samples < held:
        among = marks if marked else f"the {held:,} of {name}"
        words = f"{some.num_samples:,} samples, drawn at random from {among} (seed {seed})"
    return Drawn(some, words, marked=marked, announce=marked or some.num_samples < held)


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
    """Random rows of both halves with their groups, with a note if these are not all."""
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
