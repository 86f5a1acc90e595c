"""``calibrant monitor``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibrant._math.text_form import plural
from calibrant.cli import terminal
from calibrant.cli.reading import Reading, check_inputs, reads
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from rich.table import Table

    from calibrant.evaluation.monitoring.result import Monitoring

_MOST_SHOWN = 12  # windows


@reads
def monitor(
    stream: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table of predictions with a column of times.")
    ],
    reading: Reading,
    time: Annotated[str, typer.Option(metavar="COLUMN", help="Column of times: dates or numbers.")],
    window: str = told("Length of a window: 30min, 12h, 1d, 1w, or a number.", "1d", "LENGTH"),
    baseline: Path | None = told("Earlier predictions to compare with."),
    against: Literal["stated", "baseline", "drift"] | None = told(
        "Alarm on stated (miscalibration), baseline (change; default with --baseline) or drift (of the "
        "probabilities; default without labels).",
        None,
        "WHAT",
        "--alarm-on",
    ),
    label_delay: str | None = told(
        "Time until all labels of a window are known; later windows wait.", None, "SPAN"
    ),
    false_alarms: float = told(
        "Largest probability of ever raising a false alarm.", 0.05, "SHARE", min=1e-6, max=0.5
    ),
    positive_class: str | None = terminal.POSITIVE_CLASS,
    report: Path | None = terminal.REPORT,
    title: str | None = terminal.TITLE,
    json: Path | None = terminal.JSON,
    prometheus: Path | None = told("Write Prometheus metrics to this .prom file."),
    bins: int = terminal.BINS,
    bootstrap: int = told("Bootstrap resamples per window.", 200, min=2),
    seed: terminal.Seed = 0,
    force: terminal.Force = False,
    quiet: bool = told("Print only alarms.", False, None, "--quiet", "-q"),
) -> None:
    """Alert (exit 1) when a deployed model loses calibration.

    Run it whenever new predictions arrive: the chance of ever raising a false alarm stays below
    --false-alarms. Labels that aren't known yet can be empty; without labels, only drift away from
    --baseline is tested.

    Examples:
        calibrant monitor stream.csv --time date
        calibrant monitor stream.csv --time date --baseline validation.csv --prometheus model.prom
    """
    inputs = [stream] if baseline is None else [stream, baseline]
    check_inputs(*inputs)
    reading.refuse("group_column", remedy="monitor a file for each group.")
    terminal.check_outputs(inputs, force=force, json=json, report=report, prometheus=prometheus)

    from calibrant._math.files import write_text
    from calibrant.evaluation.monitoring.monitor import monitor as watch
    from calibrant.reports.exports import prometheus_text

    with terminal.progress(f"reading {stream.name}", quiet=quiet) as tell:
        told = reading.load_timed(stream, time)
        if not told.labelled.any() and told.predictions.class_names is None:
            positive_class = None if positive_class not in {"0", "1"} else positive_class  # a word names it
        found = watch(
            told.predictions,
            told.times,
            window=_length(window),
            labelled=told.labelled,
            label_delay=None if label_delay is None else _length(label_delay),
            baseline=None if baseline is None else reading.load_other(baseline),
            against=against,
            false_alarms=false_alarms,
            positive_class=positive_class,
            num_bins=bins,
            bootstrap=bootstrap,
            seed=seed,
            command=terminal.command_line(),
            progress=lambda done: tell("testing the windows", done),
        )
        if report is not None:
            from calibrant.reports import write_report  # with matplotlib, half a second

            write_report(found, report, title=title, files=inputs)
        terminal.deliver_json(json, found.to_json())
        if prometheus is not None:
            write_text(prometheus, prometheus_text(found, model=title))
    if not terminal.to_stdout(json):
        _show(found, quiet=quiet, waits=label_delay is not None)
    if not found.passed:
        raise typer.Exit(1)


def _length(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _show(found: Monitoring, *, quiet: bool, waits: bool) -> None:
    from rich.console import Console

    for test in sorted(found.tests, key=lambda test: not test.decides):
        alarmed = test.alarm is not None
        if not quiet or (alarmed and test.decides):
            mark = "note" if not test.decides else "ALARM" if alarmed else "No alarm"
            typer.echo(f"{mark}: {test.sentence}")
    if quiet:
        return
    typer.echo()
    Console(highlight=False).print(_table(found))
    missing = found.num_samples - found.num_labelled
    if missing:
        have = "has" if missing == 1 else "have"
        rest = " or wait (--label-delay)" if waits else ""
        typer.echo(f"{missing:,} of {plural(found.num_samples, 'sample')} {have} no label yet{rest}.")
    for note in found.notes:
        typer.echo(f"note: {note}")


def _table(found: Monitoring) -> Table:
    from calibrant.evaluation.monitoring.questions import said_times
    from calibrant.reports.tables import deciding, window_cells, window_start, window_titles
    from calibrant.reports.terminal_table import plain_table

    table = plain_table(caption_justify="left", padding=(0, 1, 0, 0))  # times in full
    for title in (*window_titles(found), "evidence"):
        first = title == "window"  # which may be long, and gives way
        table.add_column(title, justify="left" if first else "right", no_wrap=not first, overflow="fold")
    test = deciding(found)
    windows = list(zip(found.windows, test.log10_evidence, strict=True))
    table.caption = f"Evidence of {said_times(test.log10_threshold)} or more raises an alarm."
    if len(windows) > _MOST_SHOWN:
        table.caption += (
            f" These are the last {_MOST_SHOWN} of {len(windows)} windows; --json writes all of them."
        )
    for each, evidence in windows[-_MOST_SHOWN:]:
        table.add_row(*window_start(each), *window_cells(each, found), said_times(evidence))
    return table
