"""``calibrant heatmap``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.terminal import Force, refuse_folder_of_others
from calibrant.evaluation.read_options import told


def heatmap(
    run: Annotated[Path, typer.Argument(help="Directory of a run on images.")],
    out: Path | None = told(
        "Folder for the PNG files (default: RUN/heat-maps).", None, "FOLDER", "--out", "-o"
    ),
    samples: int = told("Number of random test images.", 8, min=1),
    label: str | None = told("Class to show (default: the most likely class per image).", None, "NAME"),
    layer: str | None = told("Layer to show (default: the last before pooling).", None, "NAME"),
    seed: int = told("Random seed.", 0, min=0),
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
    from calibrant_lab.training.heat_maps import INDEX, heat_maps, write_heat_maps
    from calibrant_lab.training.run_report import rewrite_report

    if out is not None:
        refuse_folder_of_others(out, INDEX, option="--out", what="heat maps", force=force)
    found = load_run(run)
    dataset = data_of(found)
    name, maps = heat_maps(found, samples=samples, label=label, layer=layer, seed=seed, dataset=dataset)
    paths = write_heat_maps(found.folder.heat_maps if out is None else out, name, maps)
    typer.echo(f"Layer: {name}")
    for each, path in zip(maps, paths, strict=True):
        typer.echo(f"{each.probability:7.1%}  {path}")
    if out is None and found.evaluation is not None:
        rewrite_report(found, dataset)
        typer.echo(f"Report: {found.folder.report}")
