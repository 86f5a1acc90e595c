"""``calibrant heatmap``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.terminal import Force, refuse_folder_of_others


def heatmap(
    run: Annotated[Path, typer.Argument(help="Directory of a run on images.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", help="Folder for the PNG files (default: RUN/heat-maps)."
        ),
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Number of random test images.")] = 8,
    label: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Class to show (default: the most likely class per image)."),
    ] = None,
    layer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Layer to show (default: the last before pooling).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    force: Force = False,
) -> None:
    """Show where a network sees a class (Grad-CAM).

    Examples:
        calibrant heatmap runs/xray
        calibrant heatmap runs/xray --label Pneumonia --samples 20
    """
    if not run.exists():
        raise InputError(f"there is no run {run}; name the directory of a run.")

    from calibrant_lab.training import load_run
    from calibrant_lab.training.data import data_of
    from calibrant_lab.training.heat_maps import FOLDER, INDEX, heat_maps, write_heat_maps
    from calibrant_lab.training.run_report import rewrite_report

    if out is not None:
        refuse_folder_of_others(out, INDEX, option="--out", what="heat maps", force=force)
    found = load_run(run)
    dataset = data_of(found)
    name, maps = heat_maps(found, samples=samples, label=label, layer=layer, seed=seed, dataset=dataset)
    paths = write_heat_maps(found.folder.path / FOLDER if out is None else out, name, maps)
    typer.echo(f"Layer: {name}")
    for each, path in zip(maps, paths, strict=True):
        typer.echo(f"{each.probability:7.1%}  {path}")
    if out is None and found.evaluation is not None:
        rewrite_report(found, dataset)
        typer.echo(f"Report: {found.folder.report}")
