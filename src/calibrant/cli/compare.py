"""``calibrant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from calibrant._math.errors import InputError
from calibrant._math.extensions import extension
from calibrant.cli import opening, terminal
from calibrant.cli.file_names import called, expanded
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.verbosity import VERBOSE
from calibrant.evaluation.quantities import check_added, thresholds_of


@reads
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Two or more files of predictions, or directories of runs."),
    ],
    reading: Reading,
    report: Path | None = terminal.REPORT,
    title: str | None = terminal.TITLE,
    names: str | None = terminal.NAMES,
    json: Path | None = terminal.JSON,
    markdown: Path | None = terminal.MARKDOWN,
    metric: list[str] | None = terminal.METRICS,
    thresholds: str | None = terminal.THRESHOLDS,
    positive_class: str | None = terminal.POSITIVE_CLASS,
    bins: int = terminal.BINS,
    bootstrap: int = terminal.BOOTSTRAP,
    level: float = terminal.LEVEL,
    ignore_index: int | None = terminal.IGNORE_INDEX,
    seed: terminal.Seed = 0,
    engine: str | None = terminal.ENGINE,
    jobs: int | None = terminal.JOBS,
    force: terminal.Force = False,
) -> None:
    """Compare models; differences are paired if the samples are the same.

    Examples:
        calibrant compare before.npz after.npz
        calibrant compare resnet.npz vit.npz --names ResNet,ViT --report report.html
    """
    added = (*check_added(metric or ()), *(thresholds_of(thresholds) if thresholds else ()))
    files = expanded(files)
    check_inputs(*files)
    terminal.check_outputs(files, force=force, report=report, json=json, markdown=markdown)
    if len(files) < 2:
        raise InputError("compare needs two files or more; use `calibrant evaluate` for one.")
    called_so = called(files, names)
    remedy = "models are compared on all samples; evaluate each file to see its groups."
    reading.refuse("group_column", "bands", remedy=remedy)

    from rich.console import Console

    from calibrant.evaluation import compare as compare_predictions
    from calibrant.reports import render_comparison, write_report

    with terminal.progress("reading") as tell, opening.shared_out(engine, jobs) as spread:
        runs = _runs(called_so, files)
        others = [path for name, path in zip(called_so, files, strict=True) if name not in runs]
        large = iter(opening.opened_alike(others, reading, engine=engine, ignore_index=ignore_index))
        found = compare_predictions(
            [
                (name, runs[name].predictions if name in runs else next(large) or reading.load(path))
                for name, path in zip(called_so, files, strict=True)
            ],
            positive_class=positive_class,
            num_bins=bins,
            bootstrap=bootstrap,
            level=level,
            metrics=added,
            seed=seed,
            command=terminal.command_line(),
            progress=tell,
            spread=spread,
        )
        if report is not None:
            several, what = len(runs) > 1, "a comparison of runs"
            sections = extension("comparison_sections", what=what)(runs) if several else ()
            write_report(found, report, title=title, before=sections, files=files)
        terminal.deliver_json(json, found.to_json())
        terminal.deliver_markdown(markdown, found, report=report, numbers=json)
    if terminal.to_stdout(json):
        return
    render_comparison(found, Console(), verbose=VERBOSE.get())
    for what, path in (("Report", report), ("Numbers", json), ("Summary", markdown)):
        if path is not None:
            typer.echo(f"{what}: {path}")


def _runs(names: list[str], files: list[Path]) -> dict[str, Any]:
    from calibrant.predictions.dense import is_dense
    from calibrant.predictions.formats.parquet_files import is_partitioned

    folders = {
        name: path
        for name, path in zip(names, files, strict=True)
        if path.is_dir() and not is_dense(path) and not is_partitioned(path)
    }
    if not folders:
        return {}
    load_run = extension("load_run", what=f"{next(iter(folders.values()))} is a folder of a run, which")
    runs = {name: load_run(path) for name, path in folders.items()}
    for name, run in runs.items():
        if run.evaluation is None:
            raise InputError(
                f"{folders[name]} is not finished; `calibrant train {folders[name]}` goes on with it."
            )
    return runs
