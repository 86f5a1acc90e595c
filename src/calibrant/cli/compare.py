"""``calibrant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._math.errors import InputError
from calibrant._math.extensions import extension
from calibrant.cli.file_names import called, expanded
from calibrant.cli.opening import EngineOption, IgnoreIndex, JobsOption, opened_alike, shared_out
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.terminal import (
    Bins,
    Bootstrap,
    Force,
    Json,
    Level,
    Metrics,
    Names,
    PositiveClass,
    Seed,
    Title,
    check_json,
    check_output,
    command_line,
    deliver_json,
    progress,
    refuse_to_replace_report,
    to_stdout,
)
from calibrant.cli.verbosity import VERBOSE
from calibrant.evaluation.quantities import check_added

if TYPE_CHECKING:
    from calibrant.reports.sections import Section


@reads
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Two or more files of predictions, or directories of runs."),
    ],
    reading: Reading,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    title: Title = None,
    names: Names = None,
    json: Json = None,
    metric: Metrics = None,
    positive_class: PositiveClass = None,
    bins: Bins = 15,
    bootstrap: Bootstrap = 1000,
    level: Level = 0.95,
    ignore_index: IgnoreIndex = None,
    seed: Seed = 0,
    engine: EngineOption = None,
    jobs: JobsOption = None,
    force: Force = False,
) -> None:
    """Compare models; differences are paired if the samples are the same.

    Examples:
        calibrant compare before.npz after.npz
        calibrant compare resnet.npz vit.npz --names ResNet,ViT --report report.html
    """
    added = check_added(metric or ())
    files = expanded(files)
    check_inputs(*files)
    check_output(report, endings=(".html",), option="--report", inputs=files)
    refuse_to_replace_report(report, files, force=force)
    check_json(json, files, force=force)
    if len(files) < 2:
        msg = "compare needs two files or more; use `calibrant evaluate` for one."
        raise InputError(msg)
    called_so = called(files, names)
    of_groups = "models are compared on all samples; evaluate each file to see its groups."
    reading.refuse("group_column", "bands", remedy=of_groups)

    from rich.console import Console

    from calibrant.evaluation import compare as compare_predictions
    from calibrant.reports import render_comparison, write_report

    with progress("reading") as tell, shared_out(engine, jobs) as spread:
        runs = _runs(called_so, files)
        others = [path for name, path in zip(called_so, files, strict=True) if name not in runs]
        large = iter(opened_alike(others, reading, engine=engine, ignore_index=ignore_index))
        found = compare_predictions(
            [
                (
                    name,
                    runs[name].predictions if name in runs else next(large) or reading.load(path),
                )
                for name, path in zip(called_so, files, strict=True)
            ],
            positive_class=positive_class,
            num_bins=bins,
            bootstrap=bootstrap,
            level=level,
            metrics=added,
            seed=seed,
            command=command_line(),
            progress=tell,
            spread=spread,
        )
        if report is not None:
            write_report(found, report, title=title, before=_sections(runs), files=files)
        deliver_json(json, found.to_json())
    if to_stdout(json):
        return
    render_comparison(found, Console(), verbose=VERBOSE.get())
    for what, path in (("report", report), ("numbers", json)):
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


def _sections(runs: dict[str, Any]) -> tuple[Section, ...]:
    """Sections on two or more training runs; none for fewer."""
    if len(runs) < 2:
        return ()
    return extension("comparison_sections", what="a comparison of runs")(runs)
