"""``calibrant figure``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._math.errors import InputError
from calibrant._math.files import write_unless_other
from calibrant.cli import terminal
from calibrant.cli.file_names import called, expanded
from calibrant.cli.help import alternatives
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.streams import errors
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from calibrant.reports.file_figures import DrawnFigure, FileFigure

ENDINGS = (".svg", ".png", ".pdf")
OPTIONS = {
    each: f"--{each.replace('_', '-')}" for each in ("positive_class", "label", "bins", "level", "objective")
} | {"every_row": "--all", "resamples": "--bootstrap", "seed": "--seed"}


@reads
def figure(
    reading: Reading,
    name: Annotated[str | None, typer.Argument(help="Name of the figure; --list shows them.")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Predictions with labels; several share one figure."),
    ] = None,
    listed: bool = told("List the figures.", False, None, "--list"),
    out: Path | None = told(
        "Write to this .svg, .png or .pdf file (default: NAME.svg).", None, None, "--out", "-o"
    ),
    positive_class: str | None = terminal.POSITIVE_CLASS,
    label: str | None = told("Label of a multilabel file.", None, "NAME"),
    bins: int | None = told("Number of bins (default: 15).", min=1, max=terminal.MOST_BINS),
    level: float | None = told(
        "Level of the intervals (default: 0.95).", None, "SHARE", parser=terminal.share
    ),
    objective: str | None = told("landscape: what is minimised (default: nll).", None, "NAME"),
    every_row: bool = told("landscape: use every row, not only the calibration split.", False, None, "--all"),
    resamples: int | None = told(
        "landscape: refits (default: 100; calibration errors: 20).", None, None, "--bootstrap", min=2
    ),
    seed: int | None = told("Random seed.", min=0),
    names: str | None = terminal.NAMES,
    width: float | None = told("Width, 2 to 20; a journal column is 3.3.", None, "INCHES", min=2, max=20),
    force: terminal.Force = False,
) -> None:
    """Draw a figure of predictions, or of the theory.

    Examples:
        calibrant figure reliability predictions.npz -o reliability.pdf
        calibrant figure reliability before.npz after.npz --names before,after
    """
    if name is None and not listed:
        raise InputError("NAME is missing; `calibrant figure --list` lists the figures.")
    path = out or Path(f"{name}.svg")
    if path.suffix not in ENDINGS:
        raise InputError(f"--out must end in {alternatives(ENDINGS)}; got {path.name!r}.")
    from calibrant.reports.file_figures import FileFigure, all_figures, figure_named  # seconds

    if name is None or listed:
        for each in all_figures():
            typer.echo(f"{each.name}  {each.summary}")
        return
    chosen, paths = figure_named(name), expanded(files or [])
    check_inputs(*paths)
    terminal.check_output(path, option="--out", inputs=paths)
    values = (positive_class, label, bins, level, objective, every_row or None, resamples, seed)
    given: dict[str, Any] = {
        key: value for key, value in zip(OPTIONS, values, strict=True) if value is not None
    }
    if isinstance(chosen, FileFigure):
        _check_files(chosen, paths)
        _check_options(name, given, chosen.options)
        file_of = dict(zip(called(paths, names), paths, strict=True))
        drawn = _drawn(chosen, file_of, reading, given | {"width": width})
        figure, said, notes = drawn.figure, drawn.said, drawn.notes
    else:
        _refuse_files(name, paths, reading, names)
        _check_options(name, given, frozenset())
        figure, said, notes = chosen.draw(), chosen.note, ()
    from calibrant.reports.figures.drawing import save_figure

    write_unless_other(
        path, lambda place: save_figure(figure, place, width=width), option="--out", force=force
    )
    for note in notes:
        errors().print(f"note: {note}")
    typer.echo(path)
    if said:
        typer.echo(said)


def _drawn(
    chosen: FileFigure, files: dict[str, Path], reading: Reading, given: dict[str, Any]
) -> DrawnFigure:
    from calibrant.reports.figures.drawing import drawing_style
    from calibrant.reports.file_figures import FigureRequest

    with terminal.progress(f"reading {next(iter(files.values())).name}") as tell, drawing_style():
        reading.refuse("group_column", "bands", remedy="a figure is of all samples.")
        return chosen.draw_files(FigureRequest(files=files, load=reading.load, tell=tell, **given))


def _check_files(chosen: FileFigure, paths: list[Path]) -> None:
    if not paths:
        raise InputError(f"the figure {chosen.name} needs a file: `calibrant figure {chosen.name} FILE`.")
    if len(paths) > 1 and not chosen.several:
        raise InputError(f"the figure {chosen.name} takes one file; got {len(paths)}.")
    if len(set(paths)) < len(paths):
        raise InputError("`FILE` must be given once each; got one of them twice.")


def _refuse_files(name: str, paths: list[Path], reading: Reading, names: str | None) -> None:
    theory = f"the figure {name} shows theory and"
    if paths:
        raise InputError(f"{theory} takes no file; got {paths[0]}.")
    if reading != Reading():
        raise InputError(f"{theory} reads no file; leave out {reading.words()}.")
    if names is not None:
        raise InputError(f"{theory} takes no --names.")


def _check_options(name: str, given: dict[str, Any], options: frozenset[str]) -> None:
    superfluous = ", ".join(OPTIONS[key] for key in given if key not in options)
    heeded = ", ".join(OPTIONS[key] for key in OPTIONS if key in options) or "none of these"
    if superfluous:
        raise InputError(f"the figure {name} does not take {superfluous}; of such options it takes {heeded}.")
