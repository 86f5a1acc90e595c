"""``calibrant evaluate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from calibrant.cli.terminal import METHODS, PositiveClass, alternatives, check_output, command_line, progress
from calibrant.evaluation.quantities.roster import check_added, extras


def evaluate(
    file: Annotated[
        Path,
        typer.Argument(
            help="Predictions: .npz, .csv, .parquet, .safetensors, .pt, or logits.npy (probs.npy) with "
            "labels.npy beside it. Large .npy and .parquet files are read in pieces."
        ),
    ],
    labels: Annotated[
        Path | None, typer.Option(help="Labels (.npy) for FILE, where they do not stand beside it.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="Fit the calibrators on this file instead of FILE's calibration split."),
    ] = None,
    ood: Annotated[
        Path | None,
        typer.Option(help="The model's predictions for out-of-distribution samples, to be detected."),
    ] = None,
    ood_score: Annotated[
        Literal["entropy", "max_probability", "max_logit", "energy"] | None,
        typer.Option(
            metavar="SCORE",
            help="Score that detects them: entropy, max_probability, max_logit or energy. Default: entropy "
            "(confidences only: max_probability).",
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report to this .html file.")] = None,
    title: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the report is headed by, as the model's name.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write everything found to this .json file.")] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="METHOD", help=f"{METHODS}. May be repeated. Default: those that suit FILE."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Also measure {alternatives(extras())}. May be repeated."),
    ] = None,
    positive_class: PositiveClass = None,
    bins: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of bins of the calibration errors.")
    ] = 15,
    bootstrap: Annotated[
        int, typer.Option(min=2, metavar="N", help="Bootstrap resamples behind the intervals.")
    ] = 1000,
    level: Annotated[
        float, typer.Option(min=0.5, max=0.9999, metavar="SHARE", help="Level of the intervals.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Random seed.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Say whether the probabilities in FILE are true, how sure that is, and what mends them."""
    added = check_added(metric or ())
    check_output(report, endings=(".html",), option="--report", inputs=[file])
    check_output(json, endings=(".json",), option="--json", inputs=[file])

    from rich.console import Console

    from calibrant._math.files import write_text
    from calibrant.evaluation import evaluate as evaluate_predictions
    from calibrant.predictions import open_predictions
    from calibrant.reports import render
    from calibrant.reports.commands import with_commands

    with progress(f"reading {file.name}", quiet=quiet) as tell:
        predictions = open_predictions(file, labels=labels)
        answer = evaluate_predictions(
            predictions,
            calibration=None if calibration is None else open_predictions(calibration),
            calibrators=method or None,
            positive_class=positive_class,
            num_bins=bins,
            bootstrap=bootstrap,
            level=level,
            metrics=added,
            ood=None if ood is None else open_predictions(ood),
            ood_score=ood_score,
            seed=seed,
            command=command_line(),
            progress=tell,
        )
        found = with_commands(answer)
        if report is not None:
            tell("writing the report", 0.99)
            from calibrant.reports import write_report  # with matplotlib, half a second

            write_report(found, report, title=title)
        if json is not None:
            write_text(json, found.to_json() + "\n")
    if quiet:
        return
    render(found, Console())
    for what, path in (("report", report), ("numbers", json)):
        if path is not None:
            typer.echo(f"{what}: {path}")
