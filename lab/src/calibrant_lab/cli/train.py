"""``calibrant train``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from calibrant._math.errors import InputError
from calibrant.cli.streams import errors
from calibrant.cli.terminal import command_line
from calibrant.cli.verbosity import Quiet
from calibrant.evaluation.read_options import told
from calibrant_lab.cli.sweep import Budget

if TYPE_CHECKING:
    from calibrant_lab.training import Run, Selection


def train(
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="Recipe (.toml file or a name from --list), or the directory of a run to resume."
        ),
    ] = None,
    out: Path | None = told(
        "Directory of the run (default: runs/RECIPE-LOSS-seedN).", None, "FOLDER", "--out", "-o"
    ),
    loss: str | None = told('Loss, e.g. "focal(gamma=3)".', None, "LOSS"),
    model: str | None = told('Network, e.g. "resnet(width=16)", or module:factory.', None, "MODEL"),
    data: str | None = told("Named dataset, .npz file, folder, or module:factory.", None, "DATA"),
    seed: int | None = told("Random seed.", min=0),
    epochs: int | None = told("Number of epochs.", min=1),
    budget: Budget = "full",
    setting: list[str] | None = told(
        "Change a setting of the recipe: section.key=value (repeatable).", None, "SETTING", "--set"
    ),
    candidates: str | None = told(
        'Train several losses and pick the best: "focal(gamma=1|2|3|5)".', None, "LOSSES", "--select"
    ),
    select_by: Literal["after", "before"] = told(
        "Pick by validation log loss after or before temperature scaling.", "after", "WHEN"
    ),
    listed: bool = told("List the named recipes.", False, None, "--list"),
    no_network: bool = told("Don't download data.", False, None, "--offline"),
    quiet: Quiet = False,
) -> None:
    """Train a network from a recipe and evaluate it, or resume a run.

    Examples:
        calibrant train digits --loss "focal(gamma=3)"
        calibrant train runs/digits-focal-seed0
    """
    from calibrant_lab.training import at_budget, load_recipe

    if listed:
        from calibrant_lab.training.recipe_files import names_on_shelf

        typer.echo("\n".join(names_on_shelf()))
        return
    if recipe is None:
        raise InputError("RECIPE is missing; `calibrant train --list` lists the bundled ones.")
    if recipe.is_dir():
        if out is not None and out.resolve() != recipe.resolve():
            raise InputError(f"{recipe} is already a run; resume it without --out, or name a recipe.")
        from calibrant_lab.training import load_run

        file, out = load_run(recipe).folder.recipe, recipe
    else:
        file = recipe
    given = {"loss": loss, "model": model, "data.name": data, "seed": seed, "training.epochs": epochs}
    changes = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    wanted = at_budget(load_recipe(file), budget).with_settings([*changes, *(setting or [])])
    if candidates is not None and loss is not None:
        raise InputError("--loss and --select exclude each other; name all losses in --select.")
    # Slow imports wait until the recipe is known to be sound.
    from calibrant_lab.data import offline
    from calibrant_lab.training import Run, TrainingInterrupted
    from calibrant_lab.training import select as select_loss
    from calibrant_lab.training import train as carry_out
    from calibrant_lab.training.listener import Display
    from calibrant_lab.training.loss_selection import file_name

    what = file_name(wanted.loss) if candidates is None else "select"
    folder = out or Path("runs") / f"{file.stem}-{what}-seed{wanted.seed}"
    told: dict[str, Any] = {"listener": Display(quiet=quiet), "command": command_line()}
    try:
        with offline(no_network):
            if candidates is None:
                done = carry_out(wanted, folder, **told)
            else:
                begin = None if quiet else lambda name: errors().print(f"\n{name}", style="bold")
                done = select_loss(wanted, candidates, folder, by=select_by, begin=begin, **told)
    except TrainingInterrupted as stop:
        errors().print(f"calibrant: {stop}")
        raise typer.Exit(130) from None
    if not quiet:
        _show(done) if isinstance(done, Run) else _show_selection(done, folder)


def _show(run: Run) -> None:
    from rich.console import Console

    from calibrant.reports import render
    from calibrant_lab.training.learner import cost_facts
    from calibrant_lab.training.recipe import budget_note

    if run.evaluation is not None:
        render(run.evaluation, Console())
    if note := budget_note(run.recipe):
        typer.echo(f"Budget:      {note}")
    row = run.kept_row
    value = row["calibration_temperature"]
    best = "" if value is None else f"; its best temperature on the calibration split is {value:.3g}"
    typer.echo(f"Evaluated:   the network after epoch {row['epoch']}{best}")
    for name, said in cost_facts(run.cost).items():
        typer.echo(f"{name.capitalize()}:        {said}")
    if run.folder.foreign_predictions.is_file():
        typer.echo(f"Out of distribution: {run.folder.foreign_predictions}")
    typer.echo(f"Predictions: {run.folder.predictions}")
    typer.echo(f"Report:      {run.folder.report}")


def _show_selection(selection: Selection, folder: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from calibrant.reports.terminal_table import Name

    table = Table("loss", "validation NLL", "after temperature scaling", "")
    for each in selection.candidates:
        values = (each.nll_before, each.nll_after)
        shown = ("not finite" if value is None else f"{value:.4f}" for value in values)
        table.add_row(Name(each.loss), *shown, "chosen" if each is selection.chosen else "")
    Console().print(table)
    typer.echo(f"Chosen by validation NLL {selection.by} temperature scaling: {selection.chosen.loss}")
    typer.echo(f"Run:       {selection.chosen.run.folder.path}")
    typer.echo(f"Selection: {folder / 'selection.json'}")
    typer.echo(f"Report:    {folder / 'report.html'}")
