"""``calibrant figure``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from calibrant._math.errors import InputError
from calibrant.cli.terminal import OBJECTIVE, errors, progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from calibrant.calibrators.fitting.objectives import Objective
    from calibrant.predictions import Predictions

ENDINGS = (".svg", ".png", ".pdf")
_MOST_NAMED = 6  # labels


def figure(
    name: Annotated[str | None, typer.Argument(help="Name of the figure; --list shows all names.")] = None,
    file: Annotated[
        Path | None, typer.Argument(help="Predictions with labels, for the figure `landscape`.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write: .svg, .png or .pdf.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help=f"For `landscape`: {OBJECTIVE}."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="For `landscape`: the label of a multilabel file, by name or number.")
    ] = None,
    every_row: Annotated[
        bool, typer.Option("--all", help="For `landscape`: use all rows of FILE, not its calibration split.")
    ] = False,
    resamples: Annotated[
        int | None,
        typer.Option(min=2, help="For `landscape`: number of refits; 100, for calibration errors 20."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For `landscape`: seed of the resamples.")] = 0,
) -> None:
    """Compute and draw a figure of the theory, or of a file of predictions."""
    if name is None and not listed:
        raise InputError("which figure? `calibrant figure --list` lists them.")
    path = out or Path(f"{name}.svg")
    _check_ending(path)
    from calibrant.experiments.figure_roster import FIGURES, figure_named  # seconds

    if name is None or listed:
        for each in FIGURES:
            typer.echo(f"{each.name}  {each.summary}")
        return
    from calibrant.reports.figures.drawing import save_figure

    chosen = figure_named(name)
    if chosen.draw is None:
        drawn, note = _landscape(
            file, objective=objective, label=label, every_row=every_row, resamples=resamples, seed=seed
        )
    else:
        given = {"--objective": objective, "--label": label, "--all": every_row, "--resamples": resamples}
        _refuse(name, file, [option for option, value in given.items() if value])
        drawn, note = chosen.draw(), chosen.note
    save_figure(drawn, path)
    typer.echo(path)
    if note:
        typer.echo(note)


def _refuse(name: str, file: Path | None, options: list[str]) -> None:
    """What goes with a file alone."""
    if file is not None:
        raise InputError(f"the figure {name} shows theory and takes no file; got {file}.")
    if options:
        raise InputError(f"{', '.join(options)} goes only with the figure landscape.")


def _landscape(
    file: Path | None,
    *,
    objective: str | None,
    label: str | None,
    every_row: bool,
    resamples: int | None,
    seed: int,
) -> tuple[Figure, str]:
    """The landscape of a file, and a description of it."""
    from calibrant._math.checks import check_choice
    from calibrant.calibrators.fitting.objectives import OBJECTIVES

    wanted = (objective or "nll").replace("-", "_")
    check_choice("--objective", wanted, OBJECTIVES)
    if file is None:
        raise InputError("the figure landscape needs a file: `calibrant figure landscape FILE`.")

    from matplotlib.figure import Figure

    from calibrant.calibrators import objective_landscape
    from calibrant.predictions import load_predictions
    from calibrant.reports.figures.landscape import (
        SIZE,
        landscape_heat_map,
        landscape_key,
        landscape_sentence,
    )

    with progress(f"reading {file.name}") as tell:
        predictions = load_predictions(file)
        rows, words = _rows(predictions, file, every_row)
        column = _column(predictions, file, label)
        landscape = objective_landscape(
            *_one_label(rows, column),
            weights=rows.weights,
            objective=cast("Objective", wanted),
            num_resamples=resamples,
            seed=seed,
            progress=lambda share: tell("fitting on resamples", share),
        )
        drawn = Figure(figsize=SIZE, layout="constrained")
        landscape_heat_map(landscape, ax=drawn.add_subplot())
    for note in (*predictions.notes, *landscape.notes):
        errors().print(f"note: {note}", markup=False, highlight=False)
    return drawn, f"On {words}. {landscape_sentence(landscape)}\n{landscape_key(landscape)}"


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


def _check_ending(path: Path) -> None:
    if path.suffix not in ENDINGS:
        raise InputError(f"`--out` must end in {', '.join(ENDINGS)}; got {path.name!r}.")
