"""``calibrant check``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from calibrant._math.errors import EXPECTED, InputError, sentence_of
from calibrant.cli import opening, terminal
from calibrant.cli.reading import Reading, check_inputs, option, reads
from calibrant.cli.verbosity import in_options, option_names
from calibrant.evaluation.quantities import with_gate
from calibrant.evaluation.read_options import told


def _with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each quantity that can have a limit, after the first argument."""
    signature = inspect.signature(command, eval_str=True)
    first, *others, _ = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    limits = [
        option(key, str | None, told(quantity.gate.help, None, "NUMBER", quantity.option))
        for key, quantity in with_gate().items()
        if quantity.gate is not None and quantity.gate.help is not None
    ]
    parameters = [first, *limits, *(each.replace(kind=keyword) for each in others)]
    vars(command)["__signature__"] = signature.replace(parameters=parameters)
    return command


@_with_limits
@reads
def check(
    file: Annotated[Path, typer.Argument(help="Predictions with labels, or `confidence` and `correct`.")],
    reading: Reading,
    baseline: Path | None = told("Fail if FILE is significantly worse than this file."),
    baseline_metric: list[str] | None = told(
        "Metric that must not be worse (repeatable; default: ece and nll).", None, "METRIC"
    ),
    confidence: float = told(
        "Level of the tests: 0.95 or 95.", 0.95, "SHARE", "--level", parser=terminal.share
    ),
    strict: bool = told("Also fail if noise or too few samples could explain the result.", False),
    positive_class: str | None = terminal.POSITIVE_CLASS,
    groups: str | None = told("Groups to check: a,b or none (default: all).", None, "NAMES"),
    json: Path | None = terminal.JSON,
    junit: Path | None = told("Write JUnit XML to this file."),
    markdown: Path | None = terminal.MARKDOWN,
    bins: int = terminal.BINS,
    bootstrap: int = told("Bootstrap resamples.", 1000, min=2),
    ignore_index: int | None = terminal.IGNORE_INDEX,
    seed: terminal.Seed = 0,
    engine: str | None = terminal.ENGINE,
    jobs: int | None = terminal.JOBS,
    force: terminal.Force = False,
    quiet: bool = told("Print only what fails.", False, None, "--quiet", "-q"),
    **limits: str | None,
) -> None:
    """Fail (exit 1) if FILE is significantly worse than a limit or baseline.

    Warns if there are too few samples to tell; --strict fails then too.

    Examples:
        calibrant check predictions.npz --max-ece 0.03
        calibrant check candidate.npz --baseline production.npz --junit checks.xml
    """
    inputs = [file] if baseline is None else [file, baseline]
    terminal.check_outputs(inputs, force=force, json=json, junit=junit, markdown=markdown)

    from calibrant._math.files import write_text
    from calibrant.evaluation.gate.check import check as check_predictions
    from calibrant.reports.exports import check_lines, junit_text

    with (
        _errors_told(file, json, junit, markdown),
        terminal.progress(f"checking {file.name}", quiet=quiet),
        opening.shared_out(engine, jobs) as spread,
    ):
        check_inputs(*inputs)
        given = {metric: text for metric, text in limits.items() if text is not None}
        wanted = {metric: _number(with_gate()[metric].option, text) for metric, text in given.items()}
        large = opening.opened_alike(inputs, reading, engine=engine, ignore_index=ignore_index)
        found = check_predictions(
            large[0] or reading.load(file),
            wanted,
            baseline=None if baseline is None else large[1] or reading.load_other(baseline),
            baseline_metrics=baseline_metric or None,
            confidence=confidence,
            strict=strict,
            positive_class=positive_class,
            groups=_groups(groups),
            num_bins=bins,
            bootstrap=bootstrap,
            seed=seed,
            command=terminal.command_line(),
            spread=spread,
        )
        terminal.deliver_json(json, found.to_json())
        if junit is not None:
            write_text(junit, junit_text(found))
        terminal.deliver_markdown(markdown, found, JUnit=junit, numbers=json)
    if not terminal.to_stdout(json):
        for mark, sentence in check_lines(found, quiet=quiet):
            typer.echo(f"{mark}: {sentence}")
    if not found.passed:
        raise typer.Exit(1)


@contextmanager
def _errors_told(file: Path, json: Path | None, junit: Path | None, markdown: Path | None) -> Generator[None]:
    """Write an error to the requested files, so that a pipeline reads it in its own format."""
    try:
        yield
    except EXPECTED as error:
        from calibrant._math.files import write_text
        from calibrant._math.machine import environment
        from calibrant.evaluation.gate.result import CHECK_SCHEMA_VERSION, GateError
        from calibrant.reports.exports import junit_error

        sentence = in_options(sentence_of(error), option_names(inspect.signature(check, eval_str=True)))
        found = GateError(
            schema_version=CHECK_SCHEMA_VERSION,
            error=sentence,
            versions=environment(),
            command=terminal.command_line(),
        )
        with suppress(OSError):  # which may be the error itself
            terminal.deliver_json(json, found.to_json())
            if junit is not None:
                write_text(junit, junit_error(file.name, sentence))
            terminal.deliver_markdown(markdown, found)
        raise


def _groups(text: str | None) -> list[str] | Literal["none"] | None:
    if text is None or text == "none":
        return text
    if names := [name.strip() for name in text.split(",") if name.strip()]:
        return names
    raise InputError("--groups must name groups, as in a,b, or be none; got nothing.")


def _number(option: str, text: str) -> float:
    """Parse a limit; refuse a percentage, with the remedy."""
    with suppress(ValueError):
        return float(text)
    remedy = ""
    with suppress(ValueError):
        value = float(text.strip().removesuffix("%").strip().replace(",", "."))
        remedy = f"; write {value / (100 if '%' in text else 1):g}"
    raise InputError(f"{option} must be a number such as 0.03; got {text!r}{remedy}.")
