"""``calibrant compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant._math.errors import InputError
from calibrant._math.extensions import extension
from calibrant._math.text_form import common_start
from calibrant.cli.file_names import expanded, once
from calibrant.cli.manner import VERBOSE
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
    """The finished runs among them."""
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
    """What can be said of runs, where there are two or more."""
    if len(runs) < 2:
        return ()
    return extension("comparison_sections", what="a comparison of runs")(runs)


def called(paths: list[Path], names: str | None) -> list[str]:
    """What each file is called: as was asked for, or after itself.

    Raises:
        InputError: If there are not as many names as files, or two are alike.
    """
    if names is None:
        if len(once(paths)) < len(paths):
            raise InputError("a file is given twice; name each model once.")
        return short_names(paths)
    found = [name.strip() for name in names.split(",")]
    if len(found) != len(paths) or len(set(found)) < len(found) or not all(found):
        raise InputError(
            f"--names must hold a name for each of the {len(paths)} files, no two alike, with commas "
            f"between; got {names!r}."
        )
    return found


def short_names(files: list[Path]) -> list[str]:
    """File stems (of runs the folders' names) where they differ, whole paths where they do not.

    What all names begin with, up to a ``_`` or another separator before a letter, is left out.

    Example:
        >>> short_names([Path("runs/a.npz"), Path("runs/b.npz")])
        ['a', 'b']
        >>> short_names([Path("x/p.npz"), Path("y/p.npz")])
        ['x/p.npz', 'y/p.npz']
        >>> short_names([Path("cifar_resnet-50.npz"), Path("cifar_vgg.npz")])
        ['resnet-50', 'vgg']
        >>> short_names([Path("resnet-18.npz"), Path("resnet-50.npz")])
        ['resnet-18', 'resnet-50']
    """
    stems = [path.resolve().name if path.is_dir() else path.stem for path in files]
    names = stems if len(set(stems)) == len(stems) else [path.as_posix() for path in files]
    if len(names) == 1:
        return names
    shared = len(common_start(names))
    cuts = [at for at in range(shared, 0, -1) if names[0][at - 1] in "_-/. "]
    cut = next((at for at in cuts if all(name[at : at + 1].isalpha() for name in names)), 0)
    return [name[cut:] for name in names]
