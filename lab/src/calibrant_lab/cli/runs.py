"""``calibrant runs``."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.errors import InputError
from calibrant._math.text_form import plural
from calibrant.evaluation.read_options import told
from calibrant_lab.cli.sweep import Where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calibrant_lab.sweep.store import RunResult, Store

_MOST = 40  # rows of the table


def runs(
    store: Annotated[str, typer.Argument(help="Folder or address of the runs.")],
    where: Where = None,
    failed: bool = told("List failed runs and the reasons.", False),
    diverged: bool = told("List diverged runs and the reasons.", False),
    prune: Literal["failed", "diverged", "unfinished", "predictions", "old", "chosen"] | None = told(
        "Delete runs: failed, diverged, unfinished, predictions, old or chosen.", None, "WHICH"
    ),
    yes: bool = told("Delete without asking.", False, None, "--yes", "-y"),
    export: str | None = told(
        "Export to tensorboard:DIR, mlflow:URI or wandb:DIR (offline).", None, "TRACKER"
    ),
    as_json: bool = told("Print one JSON line per run.", False, None, "--json"),
) -> None:
    """List, delete or export the runs of a sweep.

    Examples:
        calibrant runs store --failed
        calibrant runs store --where "loss=focal*" --json
    """
    from calibrant_lab.sweep.matching import check_names, read_wanted
    from calibrant_lab.sweep.store import Store

    found = Store(store, create=False)
    wanted = read_wanted(where or [], option="--where")
    known = {name for each in found.results(status=None) for name in each.settings}
    if known:
        check_names(wanted, known, "--where")
    statuses = [name for name, asked in (("failed", failed), ("diverged", diverged)) if asked]
    chosen = [each for each in found.results(wanted, status=None) if not statuses or each.status in statuses]
    if prune is not None:
        if prune == "chosen" and not (wanted or statuses):
            raise InputError("--prune chosen removes what --where, --failed or --diverged choose; give one.")
        _prune(found, chosen, prune, yes=yes)
    elif export is not None:
        from calibrant_lab.sweep.sinks import export as send

        written = send(export, chosen)
        typer.echo(f"{plural(written, 'run')} written to {export}, {len(chosen) - written} already there")
    elif as_json:
        for each in chosen:
            content = {one.name: getattr(each, one.name) for one in fields(each) if one.name[0] != "_"}
            typer.echo(json.dumps(content, allow_nan=False))
    else:
        _show(found, chosen, reasons=bool(statuses))


def _show(store: Store, chosen: Sequence[RunResult], *, reasons: bool) -> None:
    from rich import box
    from rich.console import Console
    from rich.filesize import decimal
    from rich.markup import escape
    from rich.table import Column, Table

    from calibrant.reports.terminal_table import Name
    from calibrant_lab.sweep.display import said_time

    axes = list(dict.fromkeys(name for each in chosen for name in each.axes))
    shown = [name for name in ("error", "ece", "nll") if any(each.value(name) is not None for each in chosen)]
    table = Table(Column("run", no_wrap=True), box=box.SIMPLE_HEAD)
    table.add_column("settings", min_width=16)
    for name in ("status", *([] if reasons else [*shown, "seconds"])):
        table.add_column(name, no_wrap=True)
    if reasons:
        table.add_column("reason")
    for each in chosen[: None if reasons else _MOST]:
        settings = " ".join(f"{name}={each.settings[name]}" for name in axes if name in each.settings)
        values = ["–" if (value := each.value(name)) is None else f"{value:.4f}" for name in shown]
        cells = [each.reason or ""] if reasons else [*values, f"{each.wall_seconds:.1f}"]
        table.add_row(each.run, Name(settings), *map(escape, (each.status, *cells)))
    if chosen:
        Console().print(table)
    if not reasons and len(chosen) > _MOST:
        typer.echo(f"and {len(chosen) - _MOST} more; filter with --where, or list all with --json")
    for each in () if reasons else chosen:
        if each.status != "finished":
            typer.echo(f"{each.run} {each.status}: {each.reason}")
    counts = Counter(each.status for each in chosen)
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items(), reverse=True))
    cpu = said_time(sum(each.cpu_seconds for each in chosen))
    count = plural(len(chosen), "run") + (f": {said}" if said else "")
    typer.echo(f"{count}; {cpu} of processor time")
    if unfinished := store.unfinished():
        busy = sum(holder is not None for holder in unfinished.values())
        typer.echo(f"{len(unfinished)} unfinished, {busy} of them running")
    sizes = store.sizes()
    runs = [size for run, size in sizes.items() if run]
    largest = f", the largest {decimal(max(runs))}" if runs else ""
    typer.echo(f"on disk: {decimal(sum(sizes.values()))}; runs {decimal(sum(runs))}{largest}")


def _prune(store: Store, chosen: Sequence[RunResult], what: str, *, yes: bool) -> None:
    from calibrant_lab.sweep.tasks.training import TASKS

    if what == "unfinished":
        names = [run for run, holder in store.unfinished().items() if holder is None]
    elif what == "old":
        known = [each for each in chosen if each.task in TASKS]
        names = [each.run for each in known if each.version < TASKS[each.task]().version]
    else:
        every = what not in {"failed", "diverged"}
        names = [each.run for each in chosen if every or each.status == what]
    said = plural(len(names), "run")
    if what == "predictions":
        said = f"the predictions of {said}"
    if not names:
        typer.echo("there is nothing to remove")
        return
    if not yes:
        typer.confirm(f"remove {said} from {store.address}?", abort=True)
    for run in names:
        if what == "predictions":
            store.remove_file(run, "predictions.npz")
        elif what == "unfinished":
            store.abandon(run)
        else:
            store.remove(run)
    typer.echo(f"removed {said}")
