"""The objective of focal temperature scaling over exponent and temperature, of one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from calibrant._math.errors import InputError
from calibrant.reports.file_figures.request import DrawnFigure, FigureRequest

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant.calibrators.fitting.objectives import Objective
    from calibrant.predictions import Predictions

_MOST_NAMED = 6  # labels


def draw_landscape(request: FigureRequest) -> DrawnFigure:
    """The landscape, and a description of it.

    Raises:
        InputError: If the objective or the label is unknown, or the file has no labels.
    """
    from calibrant._math.checks import check_choice
    from calibrant.calibrators.fitting.objectives import OBJECTIVES

    wanted = (request.objective or "nll").replace("-", "_")
    check_choice("--objective", wanted, OBJECTIVES)
    (file,) = request.files.values()

    from matplotlib.figure import Figure

    from calibrant.calibrators import objective_landscape
    from calibrant.reports.figures.landscape import (
        SIZE,
        landscape_heat_map,
        landscape_key,
        landscape_sentence,
    )

    predictions = request.load(file)
    rows, words = _rows(predictions, file, request.every_row)
    column = _column(predictions, file, request.label)
    landscape = objective_landscape(
        *_one_label(rows, column),
        weights=rows.weights,
        objective=cast("Objective", wanted),
        num_resamples=request.resamples,
        seed=request.seed,
        progress=lambda share: request.tell("fitting on resamples", share),
    )
    drawn = Figure(figsize=SIZE, layout="constrained")
    landscape_heat_map(landscape, ax=drawn.add_subplot())
    said = f"On {words}. {landscape_sentence(landscape)}\n{landscape_key(landscape)}"
    return DrawnFigure(drawn, said, (*predictions.notes, *landscape.notes))


def _rows(predictions: Predictions, file: Path, every_row: bool) -> tuple[Predictions, str]:
    """The calibration split, or else all rows; and which of the two, in words."""
    from calibrant.predictions.repair_form import to_repair

    if predictions.kind == "top_label":  # log-odds, and whether they were right
        predictions = to_repair(predictions)
    if predictions.labels is None:
        raise InputError(f"{file} has no labels; the objective needs them.")
    if every_row or not predictions.has_calibration:
        why = "" if every_row else "; the file has no calibration split"
        return predictions, f"all {predictions.num_samples:,} samples{why}"
    rows = predictions.calibration
    return rows, f"the {rows.num_samples:,} samples of the calibration split"


def _column(predictions: Predictions, file: Path, label: str | None) -> int | None:
    """The number of the label of a multilabel file, given by name or number."""
    if predictions.kind != "multilabel":
        if label is not None:
            raise InputError(f"--label is for multilabel files; {file} is {predictions.kind}.")
        return None
    count = predictions.num_classes or 0
    names = list(predictions.class_names or ())
    if label is None:
        known = f"{', '.join(names)}, or " if names else ""
        raise InputError(
            f"{file} has {count} labels per sample; choose one by --label: {known}0 to {count - 1}."
        )
    if label in names:
        return names.index(label)
    if label.isdecimal() and int(label) < count:
        return int(label)

    if names and not label.isdecimal():
        from calibrant._math.text_form import nearest

        raise InputError(f"{file} has no label {label!r}{nearest(label, names)}")
    shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
    named = f" ({shown})" if names else ""
    raise InputError(f"{file} has no label {label!r}; there are {count}, from 0 to {count - 1}{named}.")


def _one_label(rows: Predictions, column: int | None) -> tuple[Tensor, Tensor]:
    """Scores and labels; for a multilabel file those of one label."""
    if rows.labels is None:
        raise InputError("there must be labels")
    return (rows.scores, rows.labels) if column is None else (rows.scores[:, column], rows.labels[:, column])
