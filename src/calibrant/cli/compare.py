"""``calibrant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.terminal import check_output, command_line, progress


def compare(
    files: Annotated[list[Path], typer.Argument(help="Two or more files of predictions.")],
    report: Annotated[Path | None, typer.Option(help="Write a report to this .html file.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything found to this .json file.")] = None,
    bins: Annotated[int, typer.Option(min=1, help="Number of bins of the calibration errors.")] = 15,
    bootstrap: Annotated[int, typer.Option(min=2, help="Bootstrap resamples behind the intervals.")] = 1000,
    level: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
) -> None:
    """Put several models side by side; differences are paired where the samples are the same."""
    check_output(report, endings=(".html",), option="--report", inputs=files)
    check_output(json, endings=(".json",), option="--json", inputs=files)
    if len(files) < 2:
        msg = "compare needs two files or more; for one, use `calibrant evaluate`."
        raise InputError(msg)

    from rich.console import Console

    from calibrant._math.files import atomic_write
    from calibrant.evaluation import compare as compare_predictions
    from calibrant.predictions import load_predictions
    from calibrant.reports import render_comparison, write_report

    with progress("reading") as tell:
        found = compare_predictions(
            [(name, load_predictions(path)) for name, path in zip(short_names(files), files, strict=True)],
            num_bins=bins,
            bootstrap=bootstrap,
            level=level,
            seed=seed,
            command=command_line(),
            progress=tell,
        )
        if report is not None:
            write_report(found, report)
        if json is not None:
            with atomic_write(json) as temporary:
                temporary.write_text(found.to_json() + "\n", encoding="utf-8")
    render_comparison(found, Console())
    for what, path in (("report", report), ("numbers", json)):
        if path is not None:
            typer.echo(f"{what}: {path}")


def short_names(files: list[Path]) -> list[str]:
    """File stems where they differ, whole paths where they do not.

    Example:
        >>> short_names([Path("runs/a.npz"), Path("runs/b.npz")])
        ['a', 'b']
        >>> short_names([Path("x/p.npz"), Path("y/p.npz")])
        ['x/p.npz', 'y/p.npz']
    """
    stems = [path.stem for path in files]
    return stems if len(set(stems)) == len(stems) else [path.as_posix() for path in files]
