"""The stages of an evaluation of a table that is read part by part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import groups_note
from calibrant.evaluation.dense.states import within_cells
from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.split import marked_split
from calibrant.evaluation.fitting.templates import anything_to_fit
from calibrant.evaluation.judge import Judged, judged_arms
from calibrant.evaluation.judging.groups import MEANS, Group, large_groups, ratios_of_event, rows_of_groups
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.parts.dealing import Deal
from calibrant.evaluation.parts.kinds import AnySums, reduced_of
from calibrant.evaluation.parts.others import Drawn, told_apart, with_drawn
from calibrant.evaluation.parts.ranked import Celled
from calibrant.evaluation.parts.states import MOST_KEPT
from calibrant.evaluation.parts.tasks import MOST_FITTED, sample, summed, weightless
from calibrant.evaluation.prepare import Prepared, Request, prepare
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.resampling.clusters import few_note
from calibrant.evaluation.resampling.events import Events, Matrix
from calibrant.evaluation.result import GroupRow
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import Predictions
from calibrant.predictions.partitioned import PartitionedPredictions

LOOKED_AT = 2000  # samples to judge, for what is odd about the scores


def sampled_parts(
    table: PartitionedPredictions, request_seed: int, *, num_bins: int, fits: bool, spread: Spread = here
) -> Predictions:
    """Rows to fit on, and a few of those to judge, as predictions with a split.

    Raises:
        InputError: If there are fewer than two rows to judge.
    """
    deal = Deal.of(table, num_bins, fits=fits)
    few = sample(table, deal, "test", LOOKED_AT, seed=request_seed, spread=spread)
    enough = few is not None and few.num_samples >= 2
    most = MOST_FITTED // table.width
    some = sample(table, deal, "fit", most, seed=request_seed, spread=spread) if fits and enough else None
    if table.has_clusters and deal.rule == "halves" and (some is None or not enough):
        raise InputError(
            f"{table.address} has so few clusters that one half holds none of them; mark samples by "
            "`split`, or fit nothing."
        )
    if few is None or not enough or (fits and some is None):
        raise InputError(f"`predictions` must hold two samples or more; {table.address} does not.")
    if some is None:
        return few
    return marked_split(some, few)


def prepare_parts(request: Request, table: PartitionedPredictions, drawn: Drawn | None) -> Prepared:
    """Prepare as for the samples drawn; the notes are about the table instead.

    Samples to fit on may be ``drawn`` from another table.
    """
    prepared = with_drawn(prepare(request), drawn)
    notes = [note for note in prepared.notes if not note.startswith("Samples count as dependent")]
    notes += [*table.notes, *groups_note(table.has_groups, clusters=table.has_clusters)]
    if request.calibration is not None and table.has_split:
        notes.append(
            f"The {table.num_fit:,} samples marked as calibration split are not used: `calibration` takes "
            "their place."
        )
    if request.calibration is not None:
        return replace(prepared, notes=tuple(notes))
    words, number = "none", prepared.split.num_calibration
    if anything_to_fit(request.calibrators) and number:
        whole = table.has_split and number == table.num_fit
        place = "the calibration split" if table.has_split else "half of the table"
        words = f"{'all ' if whole else ''}{number:,} samples" + (
            " of " if whole else ", drawn at random from "
        )
        words += place if whole else f"{place} (seed {request.seed})"
        notes.append(f"Calibrators were fitted on {words}.")
    split = replace(prepared.split, words=words, announce=not table.has_split)
    return replace(prepared, notes=tuple(notes), split=split)


def dealt_note(table: PartitionedPredictions, deal: Deal, sums: AnySums) -> str:
    """A note on batches, which bound memory, and on their effect on the intervals.

    Raises:
        InputError: If all that is judged is in one batch.
    """
    number = len(sums.filled)
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
    if isinstance(sums.top, Celled):
        cells = f"{len(sums.top.cells):,}"
        note += f" Adaptive ECE, smCE, slope and intercept use mean confidences of {cells} cells."
    if table.has_clusters:
        note += " A cluster is in one batch, so samples of one need not be independent."
    if number < deal.num_batches:
        note += f" {number} batches hold test samples."
    return note + few_note(number)


def judge_parts(fitted: Fitted, table: PartitionedPredictions, spread: Spread) -> Judged:
    """Judge every arm in one pass over the table."""
    prepared = fitted.prepared
    request = prepared.request
    fits = anything_to_fit(request.calibrators) and request.calibration is None
    deal = Deal.of(table, prepared.procedure.num_bins, fits=fits)
    calibrators = (None, *(each.calibrator for each in fitted.calibrators))
    prepared.steps.next("reading the table")
    found = summed(
        table,
        deal,
        prepared.procedure.num_bins,
        calibrators,
        spread=spread,
        tell=prepared.steps.within,
    )
    dealt = dealt_note(table, deal, found.arms[0])
    procedure = replace(prepared.procedure, clusters=len(found.arms[0].filled))
    too_many = (TOO_MANY,) if found.arms[0].groups is None else ()
    detected, of_some = told_apart(fitted, table, deal, spread=spread)
    notes = (*prepared.notes, dealt, *too_many, *of_some, *found.repairs)
    prepared = replace(prepared, procedure=procedure, notes=notes)
    names = tuple(table.class_names or map(str, range(table.num_classes)))
    reduced = [reduced_of(each, names, procedure.metrics) for each in found.arms]
    groups = [rows_by_group(each, procedure) for each in found.arms]
    judged = judged_arms(replace(fitted, prepared=prepared), reduced, found.arms[0].num_positions, groups)
    return replace(judged, out_of_distribution=detected)


TOO_MANY = f"Groups were not tested: there are more than {MOST_KEPT}, whose sums would not fit into memory."


def rows_by_group(sums: AnySums, procedure: Procedure) -> tuple[GroupRow, ...]:
    """A row for each group, and one for all that are too small."""
    given = {name: each for name, each in (sums.groups or {}).items() if each[..., 0].any()}
    large, other = large_groups({name: int(each[..., 2].sum()) for name, each in given.items()})
    small = [each for name, each in given.items() if name not in large]
    found = {name: each for name, each in given.items() if name in large}
    if small:
        found[other] = np.sum(small, axis=0)
    return rows_of_groups([_group(name, each) for name, each in sorted(found.items())], procedure)


def _group(name: str, sums: Matrix) -> Group:
    """Sums of a group: a row for each batch, bin and outcome with some weight."""
    batch, place, hit = np.nonzero(sums[..., 0])
    mass, stated, numbers, squares = sums[batch, place, hit].T
    clusters = np.unique(batch, return_inverse=True)[1].astype(np.int64)
    right = hit.astype(np.float64)
    edges = np.arange(sums.shape[1] + 1) / sums.shape[1]
    means = within_cells(stated / mass, place, edges)
    event = Events(means, right, mass, clusters, squares, numbers)
    ratios = ratios_of_event(event)
    reduced = Reduced(
        quantities=MEANS,
        weights=mass,
        ratios=ratios,
        events={"": (event,)},
        values={key: float(above.sum() / below.sum()) for key, (above, below) in ratios.items()},
        reasons={},
        influences={},
        clusters=clusters,
    )
    return Group(name, reduced, int(sums[..., 2].sum()))
