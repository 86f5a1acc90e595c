"""Random rows beside the sums: to fit on, to tell foreign samples from, and to repair group by group."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import as_judged
from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.split import marked_split
from calibrant.evaluation.out_of_distribution import NEED_LOGITS, detect
from calibrant.evaluation.parts.dealing import Deal
from calibrant.evaluation.parts.tasks import MOST_FITTED, rows_to_fit, sample
from calibrant.evaluation.prepare import Prepared
from calibrant.evaluation.result import OutOfDistribution
from calibrant.evaluation.spread import Spread
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions, Source
from calibrant.predictions.formats.parquet_files import is_address
from calibrant.predictions.partitioned import PartitionedPredictions

MOST_FAMILIAR = 1 << 16  # samples of a table that foreign ones are told apart from


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


def _is_same(one: Source, other: Source) -> bool:
    """True if both are one table, however their addresses are spelt."""
    places = [
        each.path if each.path is None or is_address(each.path) else os.path.realpath(each.path)
        for each in (one, other)
    ]
    return one.sha256 == other.sha256 or (places[0] is not None and places[0] == places[1])


def with_drawn(prepared: Prepared, drawn: Drawn | None) -> Prepared:
    """The same, with what the samples to fit on are."""
    if drawn is None or prepared.split.calibration is None:
        return prepared
    said = (f"Calibrators were fitted on {drawn.words}.",) if drawn.announce else ()
    split = replace(prepared.split, words=drawn.words, marked=drawn.marked)
    return replace(prepared, notes=(*prepared.notes, *said), split=split)


def in_that_form(
    given: Predictions | None, positive_class: int | str | None, score: OutOfDistributionScore | None
) -> Predictions | None:
    """Other samples with that class as class 1; as they are where their logits are to be looked at."""
    if given is None or positive_class is None or score in NEED_LOGITS:
        return given
    return as_judged(given, positive_class)


def told_apart(
    fitted: Fitted, table: PartitionedPredictions, deal: Deal, *, spread: Spread
) -> tuple[OutOfDistribution | None, tuple[str, ...]]:
    """Out-of-distribution detection against samples of a table, with a note if only some were used."""
    request, procedure = fitted.prepared.request, fitted.prepared.procedure
    if request.ood is None:
        return None, ()
    fitted.prepared.steps.next("detecting out-of-distribution samples")
    most = min(MOST_FAMILIAR, MOST_FITTED // table.width)
    some = sample(table, deal, "test", most, seed=request.seed, spread=spread)
    if some is None:
        raise InputError(f"{table.address} holds no samples to evaluate.")
    pair = some, request.ood
    if request.ood_score not in NEED_LOGITS or some.kind != request.ood.kind:
        pair = as_judged(some), as_judged(request.ood)
    alone = [each for each in fitted.calibrators if each.in_turn is None]
    found = detect(*pair, request.ood_score, alone, procedure)
    held = table.num_samples - (table.num_fit if deal.rule == "split" else 0)
    if some.num_samples == held:
        return found, ()
    number = f"{some.num_samples:,}"
    return found, (f"Out-of-distribution samples were compared with {number} random samples of the table.",)


def sampled_by_group(
    table: PartitionedPredictions, seed: int, *, spread: Spread
) -> tuple[Predictions, tuple[str, ...]]:
    """Random rows of both halves with their groups, and what to say if these are not all.

    Raises:
        InputError: If there are fewer than two rows to fit on, or to judge.
    """
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
