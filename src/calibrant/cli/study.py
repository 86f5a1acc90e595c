"""``calibrant study``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.terminal import command_line, errors, progress


def study(
    name: Annotated[str | None, typer.Argument(help="Which study; --list says which there are.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say which studies there are.")] = False,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder of the runs; what lies there is not done again.")
    ] = Path("study"),
    setting: Annotated[
        list[str] | None, typer.Option(help="Only this setting of the study; may be repeated.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; 0, 1, 2 and so on.")] = 3,
    table: Annotated[
        Path | None,
        typer.Option(help="Train nothing: write tables and figures of the finished runs into this folder."),
    ] = None,
    published: Annotated[
        Path | None, typer.Option(help="A folder of published tables (.csv), to be quoted beside ours.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="CALIBRANT_DATA",
            help="The folder of the prediction files, for the studies `predictions` and `calibrators`.",
        ),
    ] = None,
) -> None:
    """Carry out a study: train whatever is not trained yet, or tabulate what is."""
    from calibrant.experiments.studies.roster import STUDIES, study_named

    if listed:
        for each in STUDIES:
            typer.echo(f"{each.name}  {each.summary}")
        return
    if name is None:
        raise InputError("which study? `calibrant study --list` lists them.")
    if study_named(name).name == "predictions":
        _predictions(data, out)
        return
    if name == "calibrators":
        _calibrators(data, out, seeds, table)
        return
    if name == "properness":
        _properness(out)
        return
    if name == "curvature":
        _curvature(out=out, setting=setting, seeds=seeds, table=table)
        return
    if name == "theory-on-data":
        _theory_on_data(data, table or out, published)
        return
    if name == "temperature-line":
        _temperature_line(data, out, seeds, table or out)
        return
    if name in {"linear-model", "generalisation-gap"}:
        _small_world(name, out, seeds, table or out)
        return
    _losses(out=out, setting=setting, seeds=seeds, table=table, published=published)


def _predictions(data: Path | None, out: Path) -> None:
    from calibrant.experiments.studies.prediction_files import judge_folder, write_table

    with progress("judging the files") as report:
        table = judge_folder(_folder(data), progress=report)
    _echo(write_table(table, out))


def _calibrators(data: Path | None, out: Path, seeds: int, table: Path | None) -> None:
    from calibrant.experiments.studies.calibrator_study import read_trials, run_calibrator_study
    from calibrant.experiments.studies.calibrator_study_page import write_pages

    if table is None:
        done = run_calibrator_study(_folder(data), out, seeds=range(seeds), tell=_tell)
        typer.echo(f"{done}; --table FOLDER writes what it shows.")
        return
    trials = read_trials(out / "trials.jsonl")
    if not trials:
        raise InputError(f"{out} holds no trials; run `calibrant study calibrators --out {out}` first.")
    _echo(write_pages(trials, table))


def _properness(out: Path) -> None:
    from calibrant.experiments.studies.properness_table import properness_table, write_properness

    with progress("looking for counter-examples") as report:
        rows = properness_table(progress=report)
    _echo(write_properness(rows, out))


def _theory_on_data(data: Path | None, folder: Path, published: Path | None) -> None:
    from calibrant.experiments.studies import theory_on_data as study
    from calibrant.experiments.studies.theory_on_data_page import write_theory_on_data

    with progress("mapping the files") as report:
        files, without = study.theory_on_files(_folder(data), progress=report)
    needed = study.stored_temperatures(folder)
    if published is not None:
        needed += study.published_temperatures(published)
    _echo(write_theory_on_data(files, without, needed, folder))


def _losses(
    *, out: Path, setting: list[str] | None, seeds: int, table: Path | None, published: Path | None
) -> None:
    from calibrant.experiments.studies.loss_study import SETTINGS, run_loss_study, setting_named
    from calibrant.training import TrainingInterrupted

    settings = [setting_named(key) for key in setting] if setting else list(SETTINGS)
    if table is not None:
        from calibrant.experiments.studies.loss_study_report import write_results

        _echo(write_results(out, table, settings=settings, seeds=range(seeds), published=published))
        return

    try:
        done = run_loss_study(out, settings=settings, seeds=range(seeds), command=command_line(), tell=_tell)
    except TrainingInterrupted as stop:
        errors().print(f"calibrant: {stop}", markup=False, highlight=False)
        raise typer.Exit(130) from None
    typer.echo(f"{len(done)} runs are finished; --table FOLDER writes what they show.")


def _curvature(*, out: Path, setting: list[str] | None, seeds: int, table: Path | None) -> None:
    from calibrant.experiments.studies.curvature_page import write_curvature
    from calibrant.experiments.studies.curvature_settings import SETTINGS, setting_named
    from calibrant.experiments.studies.curvature_study import finished_runs, run_curvature_study

    settings = [setting_named(key) for key in setting] if setting else list(SETTINGS)
    if table is None:
        done = run_curvature_study(out, seeds=range(seeds), settings=settings, tell=_tell)
        typer.echo(f"{len(done)} runs are finished; --table FOLDER writes what they show.")
        return
    found = finished_runs(out, seeds=range(seeds), settings=settings)
    if not found:
        raise InputError(f"{out} holds no runs; run `calibrant study curvature --out {out}` first.")
    _echo(write_curvature(found, table, settings=settings))


def _small_world(name: str, out: Path, seeds: int, table: Path) -> None:
    """Studies on generated samples: run what is missing, and write the page at once."""
    from calibrant.experiments.studies import generalisation_gap, linear_model
    from calibrant.experiments.studies.generalisation_gap_page import write_generalisation_gap
    from calibrant.experiments.studies.linear_model_page import write_linear_model

    if name == "linear-model":
        runs = linear_model.run_linear_model(out, seeds=range(seeds), tell=_tell)
        written = write_linear_model(runs, table, linear_model.DEFAULT)
    else:
        records = generalisation_gap.run_generalisation_gap(out, seeds=range(seeds), tell=_tell)
        written = write_generalisation_gap(records, table)
    _echo(written)


def _temperature_line(data: Path | None, out: Path, seeds: int, table: Path) -> None:
    """Run what is missing, and write the page; without a folder of data, of networks on digits alone."""
    from calibrant.experiments.studies.temperature_line import run_temperature_line
    from calibrant.experiments.studies.temperature_line_page import write_temperature_line

    folder = None if data is None else _folder(data)
    records = run_temperature_line(out, folder=folder, seeds=range(seeds), tell=_tell)
    _echo(write_temperature_line(records, table))


def _folder(data: Path | None) -> Path:
    """The folder of the prediction files, if there is one."""
    if data is None or not data.is_dir():
        raise InputError("give the folder of the prediction files by --data, or set CALIBRANT_DATA.")
    return data


def _tell(line: str) -> None:
    errors().print(line, markup=False, highlight=False)


def _echo(paths: Iterable[Path]) -> None:
    for path in paths:
        typer.echo(path)
