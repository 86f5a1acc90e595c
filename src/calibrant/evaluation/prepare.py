"""The first stage: check what is asked for, and choose samples and calibrators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator
from calibrant.evaluation.alarms import other_notes
from calibrant.evaluation.arguments import (
    check_predictions,
    clusters_note,
    dropped_note,
    few_resamples_note,
)
from calibrant.evaluation.fitting import pieces
from calibrant.evaluation.fitting.recommend import missing_classes
from calibrant.evaluation.fitting.split import (
    NOTHING_FITTED,
    Split,
    has_both_parts,
    judged_kind,
)
from calibrant.evaluation.fitting.templates import Template, templates
from calibrant.evaluation.parts.source import Drawn
from calibrant.evaluation.procedure import Procedure, Progress, Steps
from calibrant.evaluation.quantities import check_metrics
from calibrant.evaluation.result import Intervals
from calibrant.evaluation.source import Source
from calibrant.evaluation.thresholds import significance
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of :func:`calibrant.evaluate`."""

    calibration: Predictions | None
    drawn: Drawn | None
    """What the samples to fit on are, if they were drawn from a table."""
    calibrators: Sequence[str | Calibrator] | None
    positive_class: int | str | None
    num_bins: int
    bootstrap: int
    null_draws: int
    level: float
    intervals: Intervals
    tolerance: float | None
    metrics: Sequence[str]
    ood: Predictions | None
    ood_score: OutOfDistributionScore | None
    seed: int
    command: str | None
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request that can be carried out."""

    request: Request
    procedure: Procedure
    split: Split
    """In the form that is judged: two classes as one event."""
    templates: tuple[Template, ...]  # the calibrators to try
    notes: tuple[str, ...]  # what a reader must know of the data beside the numbers
    steps: Steps

    @property
    def one_class(self) -> bool:
        """True if the calibration samples hold a single class."""
        return self.split.calibration is not None and one_class_only(self.split.calibration)


def prepare(request: Request, source: Source) -> Prepared:
    """Check the request, and choose the samples to fit and to judge on and the calibrators to try.

    Raises:
        TypeError: If something else than predictions is given.
        InputError: If a value is out of range, or the predictions do not fit together.
    """
    if request.calibration is not None:
        check_predictions(request.calibration, "calibration")
    if request.ood is not None:
        check_predictions(request.ood, "ood")
    elif request.ood_score is not None:
        raise InputError("`ood_score` goes with `ood`, the samples of another kind; there are none.")
    if request.tolerance is not None and not 0 <= request.tolerance < 1:
        raise InputError(
            "`tolerance` must be a fraction from 0 to 1, as in 0.005 for half a point; "
            f"got {request.tolerance:g}."
        )
    procedure = Procedure(
        kind=judged_kind(source.given),
        num_bins=request.num_bins,
        num_resamples=request.bootstrap,
        num_draws=request.null_draws,
        level=request.level,
        seed=request.seed,
        intervals=request.intervals,
        metrics=check_metrics(request.metrics),
    )
    wanted = templates(request.calibrators, procedure.kind)
    split = source.split()
    if request.drawn is not None and split.calibration is not None:
        split = replace(split, words=request.drawn.words, marked=request.drawn.marked)
    procedure = pieces.with_fewer_resamples(procedure, split)
    if split.calibration is None:
        wanted = []
    arms = len(wanted) + (request.calibrators is None)  # one more if another calibrator is chosen
    return Prepared(
        request=request,
        procedure=procedure,
        split=split,
        templates=tuple(wanted),
        notes=_notes(request, split, procedure),
        steps=Steps(request.progress, 2 * arms + 2 + (request.ood is not None)),
    )


def _notes(request: Request, split: Split, procedure: Procedure) -> tuple[str, ...]:
    calibration = request.calibration
    notes = other_notes(split.test)
    if calibration is not None:
        notes += [f"Calibration samples: {note}" for note in calibration.notes]
    if split.calibration is None and split.words.startswith("none: ") and split.words != NOTHING_FITTED:
        notes.append(f"No calibrator was fitted: {split.words.removeprefix('none: ')}.")
    elif split.calibration is not None and (
        split.announce or (calibration is not None and has_both_parts(calibration))
    ):
        notes.append(f"Calibrators were fitted on {split.words}.")
    if split.calibration is not None and one_class_only(split.calibration):
        alike = "are all right or all wrong" if procedure.kind == "top_label" else "hold one class only"
        notes.append(f"The calibration samples {alike}: a calibrator learns nothing of the others.")
    elif split.calibration is not None and (missing := missing_classes(split.calibration)):
        names = split.test.class_names or tuple(range(split.test.num_classes or 0))
        shown = ", ".join(str(names[k]) for k in missing[:5]) + (", …" if len(missing) > 5 else "")
        which, do = ("Class", "does") if len(missing) == 1 else ("Classes", "do")
        notes.append(
            f"{which} {shown} {do} not occur among the calibration samples: calibrators with numbers for "
            "each class are tried only where they are named."
        )
    if split.dropped:
        notes.append(dropped_note(split.dropped))
    if not split.sampled:
        notes += clusters_note(split.test)
    if procedure.num_bins > split.test.num_samples:
        notes.append(
            f"There are more bins, {procedure.num_bins:,}, than test samples: most are empty, and what the "
            "others show is chance; take fewer."
        )
    notes += few_resamples_note(procedure.num_resamples, procedure.level)
    num_parts = 1 + (procedure.kind == "multiclass") + (split.test.groups is not None)
    threshold = significance(procedure.level, num_parts)
    if not 1 / (1 + procedure.num_draws) < threshold:
        notes.append(
            f"With {procedure.num_draws} draws under calibration no error can count as real at this level; "
            f"take {math.floor(1 / threshold)} or more."
        )
    notes += pieces.notes(split, procedure, request.bootstrap)
    if request.drawn is not None and request.drawn.announce and split.calibration is not None:
        notes.append(f"Calibrators were fitted on {request.drawn.words}.")
    return (*notes, *split.notes)


def one_class_only(predictions: Predictions) -> bool:
    """True if all samples are of the same class; with several labels per sample there is no such class."""
    labels = predictions.labels
    return labels is not None and labels.ndim == 1 and len(labels.unique()) == 1
