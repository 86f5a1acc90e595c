"""``calibrant table``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._math.errors import InputError
from calibrant._math.files import write_unless_other
from calibrant.cli.terminal import Force, check_output
from calibrant.evaluation.read_options import told
from calibrant_lab.cli.sweep import Where

if TYPE_CHECKING:
    from calibrant_lab.sweep.matching import Wanted
    from calibrant_lab.sweep.store import RunResult
    from calibrant_lab.tables import Table

_PICTURES = (".svg", ".png", ".pdf")


def table(
    store: Annotated[
        str | None, typer.Argument(help="Folder or address of the runs.", show_default=False)
    ] = None,
    layout: str | None = told("Layout: a name from --list, or a .toml file.", None, "LAYOUT"),
    listed: bool = told("List the layouts.", False, None, "--list"),
    form: str | None = told(
        "terminal, markdown, latex, csv or html (default: by extension of --out).",
        None,
        "FORMAT",
        "--out-format",
    ),
    output: Path | None = told("Write to this file.", None, None, "--out", "-o"),
    against: str | None = told("Compare all others with this one, e.g. cross-entropy.", None, "ARM"),
    where: Where = None,
    grid: Path | None = told("Grid (.toml) of the runs, to list missing ones."),
    test: str = told("Paired test: t, or sign-flip (exact; needs 6 seeds).", "t", "TEST"),
    correction: str = told("Correction for many tests: holm, benjamini-hochberg or none.", "holm", "METHOD"),
    whole: bool = told("Keep rows without runs.", False),
    figure: list[str] | None = told(
        "Draw dynamics, curvature, images or heat-maps; or with --x ece, nll@temperature or "
        "parameter:temperature (repeatable).",
        None,
        "QUANTITY",
    ),
    x: str | None = told("With --figure: setting on the x-axis.", None, "SETTING"),
    by: str | None = told("With --figure: one curve per value of this setting.", None, "SETTING"),
    published: str | None = told(
        'With --x: draw the papers\' numbers for this network: "CIFAR-10, ResNet-50".', None, "NETWORK"
    ),
    boxes: Path | None = told(
        "With heat-maps: COCO annotations (.json) of the images, for the pointing game."
    ),
    width: float | None = told("With --figure: width, 2 to 20.", None, "INCHES", min=2, max=20),
    force: Force = False,
) -> None:
    """Tabulate or draw the runs of a sweep, with intervals and tests.

    Examples:
        calibrant table store --against cross-entropy
        calibrant table store --figure ece --x loss.gamma --out ece.pdf
    """
    from calibrant_lab.tables.layout import layout_named, layouts, usual_layout

    if listed:
        for name in layouts():
            typer.echo(f"{name}  {layout_named(name).title}")
        return
    if store is None:
        raise InputError("STORE is missing; give the folder of the runs, or --list for the layouts.")
    from calibrant_lab.sweep.matching import read_wanted

    wanted = read_wanted(where or [], option="--where")
    results = _results(store, wanted)
    if figure or x:
        drawn = {"across": x, "by": by, "like": published or "", "boxes": boxes, "width": width}
        _draw(results, figure or [], drawn, output, force=force)
        return
    check_output(output, option="--out")
    from calibrant._math.checks import check_choice
    from calibrant_lab.tables import Options, build_table
    from calibrant_lab.tables.build import CORRECTIONS, TESTS

    check_choice("--test", test, TESTS)
    check_choice("--correction", correction, CORRECTIONS)
    tested: dict[str, Any] = {"against": against, "test": test, "correction": correction}
    options = Options(**tested, whole=whole, wanted=None if grid is None else _points(grid, wanted))
    chosen = layout_named(layout) if layout else usual_layout(results)
    _write(build_table(chosen, results, options), form, output, force=force)


def _results(store: str, wanted: Wanted) -> list[RunResult]:
    """Return all selected runs, with failed and diverged ones."""
    from calibrant_lab.sweep.matching import check_names, matches
    from calibrant_lab.sweep.store import Store

    everything = list(Store(store, create=False).results(status=None))
    if not everything:
        raise InputError(f"{store} holds no finished run; `calibrant sweep` adds some.")
    check_names(wanted, dict.fromkeys(name for each in everything for name in each.settings), "--where")
    found = [each for each in everything if matches(each.settings, wanted)]
    if not found:
        raise InputError(f"--where leaves none of the {len(everything)} runs.")
    return found


def _points(grid: Path, wanted: Wanted) -> list[dict[str, object]]:
    from calibrant_lab.sweep.grid import load_grid
    from calibrant_lab.sweep.matching import matches

    settings = [dict(point.settings) for point in load_grid(grid).points]
    return [each for each in settings if matches(each, wanted)]


def _write(made: Table, form: str | None, output: Path | None, *, force: bool) -> None:
    from rich.console import Console

    from calibrant._math.files import write_text
    from calibrant._math.text_form import named
    from calibrant_lab.tables.formats import FORMATS, rendered

    endings = {ending: name for name, (ending, _) in FORMATS.items()}
    check_output(output, option="--out", endings=None if form else tuple(endings))
    form = form or (endings.get(output.suffix.lower(), "terminal") if output else "terminal")
    _, write = named(form, FORMATS, "format")
    if output is not None:
        text = write(made)
        write_unless_other(output, lambda path: write_text(path, text), option="--out", force=force)
        typer.echo(output)
        return
    console = Console()
    if form == "terminal" and console.is_terminal:
        console.print(rendered(made, width=console.width))
    else:
        typer.echo(write(made), nl=False)


def _draw(
    results: list[RunResult], wanted: list[str], options: dict[str, Any], output: Path | None, *, force: bool
) -> None:
    from calibrant.reports.figures.drawing import save_figure
    from calibrant_lab.tables.pictures import PICTURES, draw_figure

    path = output or Path(f"{wanted[0] if wanted[:1] and wanted[0] in PICTURES else 'table'}.svg")
    check_output(path, option="--out", endings=_PICTURES)
    finished = [each for each in results if each.status == "finished"]
    drawn, said = draw_figure(wanted, finished, **options)
    write_unless_other(
        path, lambda place: save_figure(drawn, place, width=options["width"]), option="--out", force=force
    )
    left_out = len(results) - len(finished)
    missing = [f"{left_out} runs diverged or failed and are not drawn."] if left_out else []
    typer.echo("\n".join([str(path), *said, *missing]))
