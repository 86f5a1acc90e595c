"""``calibrant sweep``."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.text_form import plural
from calibrant.cli.reading import check_inputs
from calibrant.cli.streams import errors
from calibrant.cli.verbosity import Quiet
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant_lab.sweep.engines import Engine
    from calibrant_lab.sweep.grid import Grid
    from calibrant_lab.sweep.store import Store
    from calibrant_lab.sweep.tasks.task import Item

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where", metavar="CONDITION", help='Select runs: "loss=focal*" or "seed=0|1" (repeatable).'
    ),
]
Budget = Annotated[
    Literal["full", "small"],
    typer.Option(metavar="BUDGET", help="full, or small: the recipe's settings for a few CPU cores."),
]


def sweep(
    grid: Annotated[
        Path,
        typer.Argument(help="Grid (.toml): a recipe and the settings to vary; or the name of a bundled one."),
    ],
    store: str = told(
        "Folder or address (s3://bucket/store) of the runs.", "store", "STORE", envvar="CALIBRANT_STORE"
    ),
    dry_run: bool = told("Only print the number of runs and the time they need.", False),
    jobs: int | None = told("Parallel runs (default: fill the cores).", None, "N", "--jobs", "-j", min=1),
    only: Where = None,
    known: list[Path] | None = told("Skip runs in this results file of a study (repeatable)."),
    retry: Literal["failed", "diverged", "all"] | None = told(
        "Rerun runs: failed, diverged or all.", None, "WHICH"
    ),
    engine: str = told('Backend: pool, serial, ray or submitit, e.g. "ray(gpus=0.5)".', "pool", "ENGINE"),
    budget: Budget = "full",
    quiet: Quiet = False,
) -> None:
    """Run a grid of trainings. Interrupt and resume at any time.

    Exits with 1 if runs failed; diverged runs don't count as failed.

    Examples:
        calibrant sweep grid.toml --dry-run
        calibrant sweep grid.toml --store store --where "loss=focal*" --jobs 4
    """
    from calibrant_lab.training.recipe_files import file_on_shelf

    check_inputs(file_on_shelf(grid, "grid"), *(known or ()))

    from calibrant_lab.sweep.display import Estimates, SweepDisplay
    from calibrant_lab.sweep.engines import build_engine
    from calibrant_lab.sweep.grid import load_grid
    from calibrant_lab.sweep.kept_runs import read_runs
    from calibrant_lab.sweep.matching import read_wanted
    from calibrant_lab.sweep.store import Store
    from calibrant_lab.sweep.store.places import refuse_strangers
    from calibrant_lab.sweep.sweep import sweep as carry_out

    carrier = build_engine(engine, jobs=jobs)
    found = load_grid(grid, budget=budget)
    if only:
        found = found.only(read_wanted(only, option="--where"))
    for file in known or ():
        wanted = len(found.points)
        found = found.without([run.settings for run in read_runs(file)], str(file))
        if not quiet:
            typer.echo(f"{file} has {wanted - len(found.points)} of {plural(wanted, 'run')}.")
        if not found.points:
            if not quiet:
                typer.echo("nothing to do")
            return
    if dry_run:
        with tempfile.TemporaryDirectory() as empty:  # looking at a grid makes no store
            is_new = "://" not in store and not (Path(store) / "runs").is_dir()
            if is_new:
                refuse_strangers(Path(store))
            _show_plan(found, Store(empty if is_new else store), carrier)
        return
    runs = Store(store)
    items = found.items(runs.fingerprints())
    estimates = Estimates(found.task, runs.results())
    if retry is not None:
        _forget(runs, items, retry)
    if not quiet:
        typer.echo(f"{grid}: {_said_size(found)}")
    report = None
    with suppress(KeyboardInterrupt):
        report = carry_out(items, runs, carrier, watcher=None if quiet else SweepDisplay(estimates))
    if report is None:
        count = len(runs.done() & {item.run for item in items})
        errors().print(
            f"calibrant: stopped with {count} of {len(items)} runs finished; what was begun is saved, and "
            "the same command goes on."
        )
        raise typer.Exit(130)
    if not quiet:
        _show_end(runs, items)
    raise typer.Exit(1 if report.failed else 0)


def _said_size(grid: Grid) -> str:
    """Return the number of runs, and the settings that a small budget replaced, equal for all of them."""
    from calibrant_lab.sweep.tasks.training import recipe_of
    from calibrant_lab.training.recipe import budget_note

    merged = f", of which {grid.num_merged} came twice and count once" if grid.num_merged else ""
    excluded = f"; {grid.num_excluded} more are excluded" if grid.num_excluded else ""
    settings = grid.points[0].settings
    scaled = any(key.startswith("full.") for key in settings)
    note = budget_note(recipe_of(settings)) if scaled else None
    said = f"; {note}" if note else ""
    return f"{plural(len(grid.points) + grid.num_merged, 'run')}{merged}{excluded}{said}"


def _forget(store: Store, items: Sequence[Item], retry: str) -> None:
    wanted = {"failed", "diverged"} if retry == "all" else {retry}
    runs = {item.run for item in items}
    again = [each.run for each in store.results(status=None) if each.status in wanted and each.run in runs]
    for run in again:
        store.remove(run)
    if again:
        typer.echo(f"Running again: {len(again)} that {'failed or diverged' if retry == 'all' else retry}")


def _show_plan(grid: Grid, store: Store, engine: Engine) -> None:
    from collections import Counter

    from calibrant_lab.sweep.display import Estimates, said_time
    from calibrant_lab.sweep.sweep import pending_of

    items = {item.run: item for item in grid.items(store.fingerprints())}
    estimates = Estimates(grid.task, store.results())
    statuses = Counter(each.status for each in store.results(status=None) if each.run in items)
    typer.echo(_said_size(grid))
    for name in ("finished", "diverged", "failed"):
        if statuses[name] or name == "finished":
            typer.echo(f"{name}: {statuses[name]}")
    held = len(store.leases.held().keys() & items.keys())
    if held:
        typer.echo(f"Running in another sweep: {held}")
    todo = pending_of([*items.values()], store)
    engine.prepare(todo)
    left = estimates.left(todo, engine.at_once)
    time = "the time is not known yet" if left is None else f"about {said_time(left)}"
    typer.echo(f"To do: {len(todo)}, {engine.at_once} at once; {time}" if todo else "To do: nothing")


def _show_end(store: Store, items: Sequence[Item]) -> None:
    from rich.console import Console

    from calibrant_lab.sweep.display import summary_table

    found = {each.run: each for each in store.results(status=None)}
    results = [found[item.run] for item in items if item.run in found]
    Console().print(summary_table(results))
    for status in ("diverged", "failed"):
        count = sum(each.status == status for each in results)
        if count:
            typer.echo(f"{status}: {count}; `calibrant runs {store.address} --{status}` shows why")
    typer.echo(f"Store: {store.address}")
