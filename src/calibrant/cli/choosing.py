"""The calibrator of ``calibrant fit``: the one asked for, or the best by cross-validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator
    from calibrant.predictions import Predictions


def reads_pieces(calibrator: Calibrator | None, rows: Predictions) -> bool:
    """Whether the calibrator is fitted on scores that are read in pieces; such are many, or on file."""
    from calibrant.evaluation.fitting.split import is_wide

    several = rows.kind == "multiclass" and (rows.num_classes or 0) > 2
    large = rows.streamed or is_wide(rows)
    return calibrator is not None and calibrator.fits_in_pieces and several and large


def fit_to_all(calibrator: Calibrator, rows: Predictions) -> Calibrator:
    """Fitted on all rows; warnings stand in the fit's own summary."""
    from calibrant.calibrators import fit_top_k_temperature
    from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
    from calibrant.predictions.top_k import has_row_temperature

    if rows.top_k is not None and has_row_temperature(calibrator.text, rows):
        return fit_top_k_temperature(rows.top_k, weights=rows.weights)
    if rows.labels is not None and reads_pieces(calibrator, rows):
        return calibrator.fit_in_pieces(rows, rows.labels, weights=rows.weights)
    return fit_quietly(calibrator, Labelled.of(rows))


def chosen(rows: Predictions) -> Calibrator:
    """The best by cross-validation, which is printed; temperature scaling where none is clearly better."""
    from calibrant.calibrators import build, select
    from calibrant.evaluation.fitting.recommend import LEAST_TO_CHOOSE
    from calibrant.evaluation.fitting.templates import Labelled
    from calibrant.evaluation.fitting.top_k import held_out
    from calibrant.predictions.top_k import has_row_temperature

    data = Labelled.of(rows)
    if len(data.labels) < LEAST_TO_CHOOSE:
        typer.echo(
            f"note: {len(data.labels)} samples are too few to choose a calibrator by (at least "
            f"{LEAST_TO_CHOOSE}): temperature scaling was fitted; --method takes another."
        )
        return fit_to_all(build("temperature"), rows)
    others = {"temperature": held_out(rows, 0)} if has_row_temperature("temperature", rows) else None
    selection = select(data.scores, data.labels, weights=data.weights, clusters=rows.clusters, others=others)
    typer.echo(f"{selection}\n")
    if selection.calibrator is not None:
        return selection.calibrator
    typer.echo("note: to have a calibrator all the same, temperature scaling was fitted.")
    return fit_to_all(build("temperature"), rows)
