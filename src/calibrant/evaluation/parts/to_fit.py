"""Calibrators fitted on another table than the one that is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calibrant._math.errors import InputError
from calibrant.evaluation.parts.dealing import Deal
from calibrant.evaluation.parts.tasks import MOST_FITTED, sample
from calibrant.evaluation.prepare import Prepared
from calibrant.evaluation.spread import Spread
from calibrant.predictions import Predictions, Source
from calibrant.predictions.partitioned import PartitionedPredictions


@dataclass(frozen=True)
class Drawn:
    """Rows of a table to fit on."""

    predictions: Predictions
    words: str
    marked: bool
    """Whether the table marks rows to fit on."""
    announce: bool
    """Whether the reader must be told which were taken."""


def sampled_to_fit(
    table: PartitionedPredictions, judged: Source | None, seed: int, *, spread: Spread
) -> Drawn:
    """Random rows of the calibration split, or of all where there is no split.

    Raises:
        InputError: If there are fewer than two, or the table is the one that is judged.
    """
    if judged is not None and table.source.path == judged.path:
        raise InputError(
            "`calibration` must be other predictions than those that are judged; leave it out, and the "
            "file's own calibration split is used."
        )
    deal = Deal.of(table, 1, fits=False)
    some = sample(table, deal, "fit", MOST_FITTED // table.width, seed=seed, spread=spread)
    if some is None or some.num_samples < 2:
        raise InputError(f"{table.address} has no two samples to fit on.")
    name, marked = table.source.name, table.has_split
    held = table.num_fit if marked else table.num_samples
    marks = f"the {held:,} samples of {name} marked as calibration split"
    words = marks if marked else f"all {held:,} samples of {name}"
    if some.num_samples < held:
        among = marks if marked else f"the {held:,} of {name}"
        words = f"{some.num_samples:,} samples, drawn at random from {among} (seed {seed})"
    return Drawn(some, words, marked=marked, announce=marked or some.num_samples < held)


def with_drawn(prepared: Prepared, drawn: Drawn | None) -> Prepared:
    """The same, with what the samples to fit on are."""
    if drawn is None or prepared.split.calibration is None:
        return prepared
    said = (f"Calibrators were fitted on {drawn.words}.",) if drawn.announce else ()
    split = replace(prepared.split, words=drawn.words, marked=drawn.marked)
    return replace(prepared, notes=(*prepared.notes, *said), split=split)
