"""``calibrant evaluate``, and ``calibrant demo``, which evaluates a network that it trains."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.errors import ConvergenceError, InputError, NotFittedError, in_lines, sentence_of
from calibrant.cli import opening, terminal
from calibrant.cli.file_names import expanded, named, once, stems
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.cli.streams import errors
from calibrant.cli.verbosity import VERBOSE, Quiet
from calibrant.evaluation.quantities import check_added, thresholds_of
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from calibrant.evaluation import Evaluation
    from calibrant.evaluation.group_repairs import ByGroup
    from calibrant.evaluation.judging.reduce import Judgeable
    from calibrant.evaluation.spread import Spread
    from calibrant.predictions import DensePredictions, PartitionedPredictions, Predictions


@reads
def evaluate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Predictions: .npz, .csv, .tsv, .jsonl, .eval, .parquet, .safetensors, .pt or .npy, a "
            "folder of .parquet files, an address (s3://...), or - for a pipe.",
        ),
    ],
    reading: Reading,
    labels: Path | None = told("Labels (.npy) of FILE, if stored separately.", None, None, "--label-file"),
    calibration: Path | None = told("Fit calibrators on this file, not on FILE's calibration split."),
    ood: Path | None = told("Predictions for out-of-distribution samples, to test their detection."),
    ood_score: Literal["entropy", "max_probability", "max_logit", "energy"] | None = told(
        "Score for --ood: entropy (default), max_probability, max_logit or energy.", None, "SCORE"
    ),
    report: Path | None = told("Write an HTML report: a file, or a folder for several FILEs."),
    title: str | None = terminal.TITLE,
    json: Path | None = terminal.JSON,
    markdown: Path | None = terminal.MARKDOWN,
    method: list[str] | None = told(
        "Calibrator to try (repeatable); see `calibrant methods`.", None, "METHOD"
    ),
    metric: list[str] | None = terminal.METRICS,
    thresholds: str | None = terminal.THRESHOLDS,
    positive_class: str | None = terminal.POSITIVE_CLASS,
    bins: int = terminal.BINS,
    bootstrap: int = terminal.BOOTSTRAP,
    level: float = terminal.LEVEL,
    tolerance: float | None = told(
        "Ignore calibration errors below this, e.g. 0.005.", None, "ERROR", min=0, max=1
    ),
    ignore_index: int | None = terminal.IGNORE_INDEX,
    images: Path | None = told("Segmentation: write one row per image to this .csv file."),
    by_group: bool = told("Also try one calibrator per group.", False),
    seed: terminal.Seed = 0,
    engine: str | None = terminal.ENGINE,
    jobs: int | None = terminal.JOBS,
    force: terminal.Force = False,
    quiet: Quiet = False,
) -> None:
    """Test whether FILE is calibrated and recommend a fix.

    Examples:
        calibrant evaluate predictions.npz --report report.html
        calibrant evaluate table.csv --label-column diagnosis --prob-columns healthy,ill
    """
    added = (*check_added(metric or ()), *(thresholds_of(thresholds) if thresholds else ()))
    files = once(expanded(files))
    several = len(files) > 1
    inputs = [each for each in (*files, labels, calibration, ood) if each]
    check_inputs(*inputs)
    in_folder = several or (report is not None and not report.suffix)
    terminal.check_outputs(inputs, force=force, json=json, markdown=markdown)
    _check_report(report, inputs, in_folder=in_folder, force=force)
    _check_images(images, inputs, several=several, force=force)
    pages = [report and (report / f"{stem}.html" if in_folder else report) for stem in stems(files)]
    page_of = dict(zip(files, pages, strict=True))
    shown = not (quiet or terminal.to_stdout(json))

    from rich.console import Console
    from rich.markup import escape

    from calibrant.evaluation import evaluate as evaluate_predictions
    from calibrant.predictions import DensePredictions
    from calibrant.reports import render

    def judged(file: Path) -> Evaluation:
        with (
            terminal.progress(f"reading {file.name}", quiet=quiet) as tell,
            opening.shared_out(engine, jobs) as spread,
        ):
            large = opening.opened_large(
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
                calibration=opening.opened_to_fit(calibration, reading, engine),
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
                command=terminal.command_line(),
                progress=tell,
                spread=spread,
            )
            repaired = None
            if by_group and not isinstance(predictions, DensePredictions):
                tell("repairing each group", 0.95)
                answer, repaired = _repaired_by_group(answer, predictions, level, seed, spread)
            if isinstance(large, DensePredictions) and images is not None:
                tell("writing the table of images", 0.97)
                _write_images(large, images, num_bins=bins)
            answer = _with_commands(answer, reading, ignore_index)
            page = page_of[file]
            if page is not None:
                from calibrant.reports import write_report  # with matplotlib, half a second

                tell("writing the report", 0.99)
                page.parent.mkdir(exist_ok=True)
                terminal.refuse_to_replace_report(page, [file], force=force)
                write_report(answer, page, title=title, files=[file], by_group=repaired)
        if shown:
            if several:
                Console().rule(escape(str(file)), align="left", style="bold")
            render(answer, Console(), by_group=repaired, verbose=VERBOSE.get())
            if page is not None:
                typer.echo(f"Report: {page}")
        return answer

    answers, failed = _one_after_another(files, judged)
    if json is not None and answers:
        _write_json(json, [answer.to_json() for answer in answers.values()], several=several, shown=shown)
    terminal.deliver_markdown(markdown, *answers.values(), report=report, numbers=json)
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


def _repaired_by_group(
    answer: Evaluation, given: Predictions | PartitionedPredictions, level: float, seed: int, spread: Spread
) -> tuple[Evaluation, ByGroup]:
    from calibrant.evaluation.group_repairs import with_repairs_by_group
    from calibrant.evaluation.parts.source import sampled_by_group
    from calibrant.predictions import Predictions

    whole = isinstance(given, Predictions)
    rows, said = (given, ()) if whole else sampled_by_group(given, seed, spread=spread)
    answer, repaired = with_repairs_by_group(answer, rows, level=level, seed=seed)
    return replace(answer, notes=(*answer.notes, *said)), repaired


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


def _check_report(report: Path | None, inputs: list[Path], *, in_folder: bool, force: bool) -> None:
    if str(report) == "-":
        raise InputError("--report must be a file or a folder; got -, which only --json takes.")
    if report is None or not in_folder:
        terminal.check_output(report, endings=(".html",), option="--report", inputs=inputs)
        terminal.refuse_to_replace_report(report, inputs[:1], force=force)
    elif report.suffix or report.is_file():
        raise InputError(f"--report must be a folder for several files, one page per file; got {report}.")
    else:
        terminal.check_output(report / "page.html" if report.is_dir() else report, option="--report")


def _check_images(images: Path | None, inputs: list[Path], *, several: bool, force: bool) -> None:
    terminal.check_outputs(inputs, force=force, images=images)
    if several and images is not None:
        raise InputError("--images is for one FILE; evaluate several one after another.")


def _one_after_another(
    files: list[Path], judge: Callable[[Path], Evaluation]
) -> tuple[dict[str, Evaluation], bool]:
    """Evaluate each file, and return whether any failed; one failure does not stop the others."""
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
    terminal.deliver_json(json, "[\n" + ",\n".join(texts) + "\n]" if several else texts[0])
    if shown:
        typer.echo(f"Numbers: {json}")


def _table_of(answers: dict[str, Evaluation]) -> None:
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


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Write to this folder.")] = Path(
        "demo"
    ),
    seed: terminal.Seed = 0,
    force: terminal.Force = False,
) -> None:
    """Try calibrant on bundled data in one command.

    Trains small networks with ten losses, compares them, and evaluates and fixes one.

    Examples:
        calibrant demo
        calibrant demo --out demo --seed 1
    """
    from rich.console import Console

    from calibrant.demo.run import MARK, run_demo
    from calibrant.reports import render

    terminal.refuse_folder_of_others(out, MARK, option="--out", what="demo", force=force)
    with terminal.progress("training on the digits") as tell:
        result = run_demo(out, seed=seed, command=terminal.command_line(), progress=tell)
    typer.echo(f"{result.repair}\n")
    render(result.evaluation, Console())
    typer.echo(
        f"\n{result.losses}\n\nPredictions: {result.predictions}\n"
        f"Calibrator:  {result.calibrator}\nReport:      {result.report}"
    )
