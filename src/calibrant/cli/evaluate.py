"""``calibrant evaluate``."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.errors import ConvergenceError, InputError, NotFittedError, in_lines, sentence_of
from calibrant.cli.file_names import expanded, named, once, stems
from calibrant.cli.opening import (
    EngineOption,
    IgnoreIndex,
    JobsOption,
    opened_large,
    opened_to_fit,
    shared_out,
)
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.streams import errors
from calibrant.cli.terminal import (
    Bins,
    Bootstrap,
    Force,
    Json,
    Level,
    Metrics,
    PositiveClass,
    Seed,
    Title,
    check_json,
    check_output,
    command_line,
    deliver_json,
    progress,
    refuse_to_replace,
    refuse_to_replace_report,
    to_stdout,
)
from calibrant.cli.verbosity import VERBOSE, Quiet
from calibrant.evaluation.quantities import check_added

if TYPE_CHECKING:
    from calibrant.evaluation import Evaluation
    from calibrant.evaluation.group_repairs import ByGroup
    from calibrant.evaluation.samples import Judgeable
    from calibrant.predictions import DensePredictions


@reads
def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Predictions: .npz, .csv, .tsv, .jsonl, .parquet, .safetensors, .pt or .npy, a folder of "
            ".parquet files, an address (s3://...), or - for a pipe.",
        ),
    ],
    reading: Reading,
    labels: Annotated[
        Path | None, typer.Option("--label-file", help="Labels (.npy) of FILE, if stored separately.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Fit calibrators on this file, not on FILE's calibration split."),
    ] = None,
    ood: Annotated[
        Path | None,
        typer.Option(help="Predictions for out-of-distribution samples, to test their detection."),
    ] = None,
    ood_score: Annotated[
        Literal["entropy", "max_probability", "max_logit", "energy"] | None,
        typer.Option(
            metavar="SCORE",
            help="Score for --ood: entropy (default), max_probability, max_logit or energy.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write an HTML report: a file, or a folder for several FILEs."),
    ] = None,
    title: Title = None,
    json: Json = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help="Calibrator to try (repeatable); see `calibrant methods`."),
    ] = None,
    metric: Metrics = None,
    positive_class: PositiveClass = None,
    bins: Bins = 15,
    bootstrap: Bootstrap = 1000,
    level: Level = 0.95,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="ERROR", help="Ignore calibration errors below this, e.g. 0.005."),
    ] = None,
    ignore_index: IgnoreIndex = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Segmentation: write one row per image to this .csv file."),
    ] = None,
    by_group: Annotated[
        bool,
        typer.Option(
            "--by-group",
            help="Also try one calibrator per group.",
        ),
    ] = False,
    seed: Seed = 0,
    engine: EngineOption = None,
    jobs: JobsOption = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Test whether FILE is calibrated and recommend a fix.

    Examples:
        calibrant evaluate predictions.npz --report report.html
        calibrant evaluate table.csv --label-column diagnosis --prob-columns healthy,ill
    """
    added = check_added(metric or ())
    files = once(expanded(files))
    several = len(files) > 1
    inputs = [each for each in (*files, labels, calibration, ood) if each]
    check_inputs(*inputs)
    pages = several or (report is not None and not report.suffix)  # a folder of them
    _check_outputs(report, json, inputs, pages=pages, force=force)
    page_of = _pages(report, files, pages=pages)
    _check_images(images, inputs, several=several, force=force)
    shown = not (quiet or to_stdout(json))

    from rich.console import Console
    from rich.markup import escape

    from calibrant.evaluation import evaluate as evaluate_predictions
    from calibrant.evaluation.group_repairs import with_repairs_by_group
    from calibrant.evaluation.parts.source import sampled_by_group
    from calibrant.predictions import DensePredictions, Predictions
    from calibrant.reports import render

    def judged(file: Path) -> Evaluation:
        with progress(f"reading {file.name}", quiet=quiet) as tell, shared_out(engine, jobs) as spread:
            large = opened_large(
                file,
                reading,
                engine=engine,
                labels=labels,
                ignore_index=ignore_index,
                images=images,
                whole="--label-file" if labels else "",
            )
            predictions = large or reading.open(file, labels=labels)
            if by_group:
                _refuse_no_groups(predictions, file)
            answer = evaluate_predictions(
                predictions,
                calibration=opened_to_fit(calibration, reading, engine),
                calibrators=method or None,
                positive_class=positive_class,
                num_bins=bins,
                bootstrap=bootstrap,
                level=level,
                tolerance=tolerance,
                metrics=added,
                ood=None if ood is None else reading.open(ood),
                ood_score=ood_score,
                seed=seed,
                command=command_line(),
                progress=tell,
                spread=spread,
            )
            repaired = None
            if by_group and not isinstance(predictions, DensePredictions):
                tell("repairing each group", 0.95)
                whole = isinstance(predictions, Predictions)
                rows, said = (
                    (predictions, ()) if whole else sampled_by_group(predictions, seed, spread=spread)
                )
                answer, repaired = with_repairs_by_group(answer, rows, level=level, seed=seed)
                answer = replace(answer, notes=(*answer.notes, *said))
            if isinstance(large, DensePredictions) and images is not None:
                tell("writing the table of images", 0.97)
                _write_images(large, images, num_bins=bins)
            found = _with_commands(answer, reading, ignore_index)
            page = page_of.get(file)
            if page is not None:
                tell("writing the report", 0.99)
                _write_page(found, file, page, title=title, force=force, by_group=repaired)
        if shown:
            if several:
                Console().rule(escape(str(file)), align="left", style="bold")
            render(found, Console(), by_group=repaired, verbose=VERBOSE.get())
            if page is not None:
                typer.echo(f"Report: {page}")
        return found

    answers, failed = _one_after_another(files, judged)
    if json is not None and answers:
        _write_json(json, [answer.to_json() for answer in answers.values()], several=several, shown=shown)
    if several and shown:
        _table_of(answers)
    if failed:
        raise typer.Exit(2)


def _refuse_no_groups(predictions: Judgeable, file: Path) -> None:
    from calibrant.predictions import PartitionedPredictions, Predictions
    from calibrant.repair.fitting import no_groups

    in_parts = isinstance(predictions, PartitionedPredictions) and predictions.has_groups
    if not (in_parts or (isinstance(predictions, Predictions) and predictions.groups is not None)):
        raise no_groups("--by-group", file)


def _write_images(dense: DensePredictions, path: Path, *, num_bins: int) -> None:
    from calibrant._math.files import atomic_write
    from calibrant.evaluation import ImageRow, image_rows

    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        names = [each.name for each in fields(ImageRow)]
        writer = csv.DictWriter(file, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows([asdict(row) for row in image_rows(dense, num_bins=num_bins)])


def _with_commands(answer: Evaluation, reading: Reading, ignore_index: int | None) -> Evaluation:
    from calibrant.reports.commands import with_commands

    repair = answer.verdict.repair
    groups = repair is not None and repair.by_group
    fitting = reading.of_fit(groups=groups).words()
    if ignore_index is not None:
        fitting = f"{fitting} --ignore-index {ignore_index}".lstrip()
    return with_commands(answer, reading=fitting, applying=reading.of_new(groups=groups).words())


def _write_page(
    found: Evaluation, file: Path, page: Path, *, title: str | None, force: bool, by_group: ByGroup | None
) -> None:
    from calibrant.reports import write_report  # with matplotlib, half a second

    page.parent.mkdir(exist_ok=True)
    refuse_to_replace_report(page, [file], force=force)
    write_report(found, page, title=title, files=[file], by_group=by_group)


def _pages(report: Path | None, files: list[Path], *, pages: bool) -> dict[Path, Path]:
    if report is None:
        return {}
    named_pages = [report / f"{stem}.html" if pages else report for stem in stems(files)]
    return dict(zip(files, named_pages, strict=True))


def _check_outputs(
    report: Path | None, json: Path | None, inputs: list[Path], *, pages: bool, force: bool
) -> None:
    check_json(json, inputs, force=force)
    if str(report) == "-":
        raise InputError("--report must be a file or a folder; got -, which only --json takes.")
    if report is None or not pages:
        check_output(report, endings=(".html",), option="--report", inputs=inputs)
        refuse_to_replace_report(report, inputs[:1], force=force)
    elif report.suffix or report.is_file():
        raise InputError(
            f"--report must be a folder for several files, each of which gets a page; got {report}."
        )
    else:
        check_output(report / "page.html" if report.is_dir() else report, option="--report")


def _check_images(images: Path | None, inputs: list[Path], *, several: bool, force: bool) -> None:
    check_output(images, endings=(".csv",), option="--images", inputs=inputs)
    refuse_to_replace(images, option="--images", force=force, may=lambda _: False, what="from before")
    if several and images is not None:
        raise InputError("--images is for one FILE; evaluate several one after another.")


def _one_after_another(
    files: list[Path], judge: Callable[[Path], Evaluation]
) -> tuple[dict[str, Evaluation], bool]:
    """Evaluation of each file, and whether any failed; of several, one failure does not stop the others."""
    if len(files) == 1:
        return {str(files[0]): judge(files[0])}, False
    found: dict[str, Evaluation] = {}
    for file, name in zip(files, named(files), strict=True):
        try:
            found[name] = judge(file)
        except (InputError, NotFittedError, ConvergenceError, OSError) as error:
            errors().print(f"calibrant: {in_lines(sentence_of(error))}", style="red")
    return found, len(found) < len(files)


def _write_json(json: Path, texts: list[str], *, several: bool, shown: bool) -> None:
    text = "[\n" + ",\n".join(texts) + "\n]" if several else texts[0]
    deliver_json(json, text)
    if shown:
        typer.echo(f"numbers: {json}")


def _table_of(answers: dict[str, Evaluation]) -> None:
    """Print a row for each file: the finding and the repair."""
    from rich.console import Console

    from calibrant.evaluation.quantities import ECE
    from calibrant.reports.terminal_table import Name, plain_table
    from calibrant.reports.words import brief

    table = plain_table(padding=(0, 1, 0, 0))
    table.add_column("file")
    for title in ("n", "ECE", "repaired"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("found", "repair"):
        table.add_column(title, no_wrap=True)
    for name, answer in answers.items():
        before, after = answer.arms[0], answer.arm(answer.verdict.recommended)
        error = before.metrics[ECE.key]
        repaired = "" if after is before else brief(after.metrics[ECE.key])[0]
        table.add_row(
            Name(name),
            f"{answer.num_test:,}",
            "\n".join(brief(error)),
            repaired,
            answer.verdict.direction,
            "none" if after is before else after.name,
        )
    Console().print(table)
