"""``calibrant demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant.cli.terminal import Force, Seed, command_line, progress, refuse_folder_of_others


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Write to this folder.")] = Path(
        "demo"
    ),
    seed: Seed = 0,
    force: Force = False,
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

    refuse_folder_of_others(out, MARK, option="--out", what="demo", force=force)
    with progress("training on the digits") as tell:
        result = run_demo(out, seed=seed, command=command_line(), progress=tell)
    typer.echo(f"{result.repair}\n")
    render(result.evaluation, Console())
    typer.echo(f"\n{result.losses}\n")
    typer.echo(f"predictions: {result.predictions}")
    typer.echo(f"calibrator:  {result.calibrator}")
    typer.echo(f"report:      {result.report}")
