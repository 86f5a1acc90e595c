"""``calibrant demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli import terminal


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Write to this folder.")] = Path(
        "demo"
    ),
    seed: terminal.Seed = 0,
    force: terminal.Force = False,
) -> None:
    """Try calibrant on bundled data in one command.

    Trains small networks with ten losses, compares them, and evaluates and fixes one.

    Examples:
        calibrant demo
        calibrant demo --out demo --seed 1
    """
    from rich.console import Console

    from calibrant.demo.run import MARK, run_demo
    from calibrant.reports import render

    terminal.refuse_folder_of_others(out, MARK, option="--out", what="demo", force=force)
    with terminal.progress("training on the digits") as tell:
        result = run_demo(out, seed=seed, command=terminal.command_line(), progress=tell)
    typer.echo(f"{result.repair}\n")
    render(result.evaluation, Console())
    typer.echo(
        f"\n{result.losses}\n\nPredictions: {result.predictions}\n"
        f"Calibrator:  {result.calibrator}\nReport:      {result.report}"
    )
