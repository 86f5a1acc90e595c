"""Consoles, a progress bar and checks of output paths for all commands."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from calibrant._math.errors import InputError
from calibrant._math.files import remove_left_over
from calibrant.cli.help import alternatives
from calibrant.cli.streams import errors
from calibrant.cli.verbosity import QUIET, VERBOSE
from calibrant.evaluation.quantities import optional_keys
from calibrant.evaluation.read_options import told

if TYPE_CHECKING:
    from calibrant.evaluation import Comparison, Evaluation
    from calibrant.evaluation.gate.result import GateError, GateResult

Report = Callable[[str, float], None]


def share(text: str | float) -> float:
    """Parse a level in any common form: 0.95, 95 or 95%.

    Example:
        >>> share("0.95"), share("95"), share("95 %")
        (0.95, 0.95, 0.95)
    """
    given = str(text).strip()
    try:
        value = float(given.removesuffix("%").replace(",", "."))
    except ValueError:
        value = 0.0
    if given.endswith("%") or value > 1:
        value = round(value / 100, 12)
    if not 0.5 <= value <= 0.9999:
        raise typer.BadParameter(f"must be between 0.5 and 0.9999, such as 0.95 or 95; got {given!r}.")
    return value


MOST_BINS = 1000
"""The most bins of a diagram; memory and time grow with their number."""
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")]
LEVEL = told("Level of the intervals: 0.95 or 95.", 0.95, "SHARE", parser=share)
NAMES = told("Comma-separated labels for the files, e.g. before,after.", None, "NAMES")
POSITIVE_CLASS = told("The positive one of two classes, by number or name (default: 1).", None, "CLASS")
POSITIVE_WORD = told("The class whose score is given, if labels are two words with one score.", None, "CLASS")
BINS = told("Number of bins.", 15, min=1, max=MOST_BINS)
BOOTSTRAP = told("Bootstrap resamples.", 1000, min=2, max=1_000_000)
TITLE = told("Report title.")
JSON = told("Write all results to this .json file; - prints them.")
MARKDOWN = told("Write a short summary to this .md file.")
REPORT = told("Write an HTML report to this file.")
METRICS = told(f"Add a metric (repeatable): {alternatives(optional_keys())}.", None, "NAME")
THRESHOLDS = told("Net benefit at these probabilities, e.g. .05,.1,.2.", None, "SHARES")
ENGINE = told('Backend for parallel reading: serial, pool, ray or ray(address="auto").', None, "ENGINE")
JOBS = told("Parallel jobs, with --engine.", min=1)
IGNORE_INDEX = told("Segmentation: ignore pixels with this label.", None, "LABEL")


def command_line() -> str:
    return shlex.join(["calibrant", *sys.argv[1:]])


def check_output(
    path: Path | None, *, option: str, endings: tuple[str, ...] | None = None, inputs: Iterable[Path] = ()
) -> None:
    """Refuse an output path that cannot be written or would overwrite an input, before any work is done."""
    if path is None:
        return
    for each in inputs:
        if path.exists() and each.exists() and path.samefile(each):
            raise InputError(
                f"{option} {path} is an input of this command and would be overwritten; give another name."
            )
    if endings is not None and path.suffix.lower() not in endings:
        raise InputError(f"{option} {path} must end in {' or '.join(endings)}.")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: the folder {path.parent} does not exist; create it first.")
    remove_left_over(path.parent)


def to_stdout(path: Path | None) -> bool:
    return path is not None and str(path) == "-"


def check_outputs(inputs: Sequence[Path], *, force: bool, **outputs: Path | None) -> None:
    """Refuse outputs, named by option, that are not writable or would replace other files."""
    for name, path in outputs.items():
        if name == "json" and to_stdout(path):
            continue
        ending, may = _OUTPUTS[name]
        check_output(path, endings=(ending,), option=f"--{name}", inputs=inputs)
        if name == "report":
            refuse_to_replace_report(path, inputs, force=force)
        else:
            what = "from before" if name == "images" else "by another command"
            refuse_to_replace(path, option=f"--{name}", force=force, may=may, what=what)


def deliver_json(path: Path | None, text: str) -> None:
    from calibrant._math.files import write_text

    if to_stdout(path):
        typer.echo(text)
    elif path is not None:
        write_text(path, text + "\n")


def deliver_markdown(
    path: Path | None, *found: Evaluation | Comparison | GateResult | GateError, **files: Path | None
) -> None:
    """Write short summaries that name the other output files, if requested."""
    if path is None or not found:
        return
    from calibrant._math.files import write_text
    from calibrant.reports.exports import markdown_text

    files = {what: file for what, file in files.items() if not to_stdout(file)}
    write_text(path, "\n".join(markdown_text(each, files=files) for each in found))


def refuse_to_replace(
    path: Path | None,
    *,
    option: str,
    force: bool,
    may: Callable[[Path], bool],
    what: str = "by another command",
) -> None:
    """Refuse to replace a file, unless forced or ``may`` finds it safe."""
    if path is None or force or not path.is_file() or may(path):
        return
    raise InputError(f"{option} {path} already exists {what}; use --force to overwrite it.")


def refuse_to_replace_report(path: Path | None, files: Sequence[Path], *, force: bool) -> None:
    def made_from_them(page: Path) -> bool:
        from calibrant.reports.commands import mark_of_files  # a second, of no use where nothing is replaced

        mark = f'content="calibrant {mark_of_files(files)}"'.encode()
        return starts_with(mark)(page)

    what = f"and isn't a report of {files[0]}{' and the others' if len(files) > 1 else ''}"
    refuse_to_replace(path, option="--report", force=force, may=made_from_them, what=what)


def is_our_json(path: Path) -> bool:
    """Return True if the file holds calibrant's numbers, which a new measurement may replace."""
    text = path.read_bytes()
    if not text.strip():
        return True
    try:
        content = json.loads(text)
    except ValueError:
        return False
    several: list[Any] = content if isinstance(content, list) else [content]
    return bool(several) and all(isinstance(each, dict) and _is_answer(each) for each in several)


def _is_answer(content: dict[str, Any]) -> bool:
    """Return True for the keys of calibrant's results, or of curvature measurements."""
    versions, found = content.get("versions"), content.get("measurements")
    if isinstance(versions, dict) and "schema_version" in content:
        return "calibrant" in versions
    return (
        content.keys() == {"format", "of", "measurements"}
        and isinstance(found, list)
        and all(isinstance(each, dict) and "trace_standard_error" in each for each in found)
    )


def starts_with(*words: bytes) -> Callable[[Path], bool]:
    def found(path: Path) -> bool:
        with path.open("rb") as file:
            start = file.read(4096)
        return any(each in start for each in words)

    return found


_OUTPUTS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    "json": (".json", is_our_json),
    "report": (".html", lambda _: False),
    "junit": (".xml", starts_with(b'<testsuites name="calibrant')),
    "markdown": (".md", starts_with(b"<!-- calibrant summary -->")),
    "prometheus": (".prom", starts_with(b"calibrant_monitor_")),
    "images": (".csv", lambda _: False),
}
"""Endings by option, with a test for calibrant's own files, which need no --force to be replaced."""


def refuse_folder_of_others(folder: Path, mark: str, *, option: str, what: str, force: bool) -> None:
    """Refuse to write into a folder with files, unless it has the given mark.

    ``force`` lets the folder pass, but no file of its name.
    """
    if folder.is_file():
        raise InputError(f"{option} {folder} is a file; name a folder.")
    if force or not folder.is_dir() or (folder / mark).is_file():
        return
    if any(folder.iterdir()):
        raise InputError(
            f"{option} {folder} is not empty and holds no {what}; choose another folder, or replace files "
            "in it by --force."
        )


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Generator[Report]:
    """A progress bar on stderr, removed when done; none if stderr is not a terminal."""
    if VERBOSE.get():
        yield _told(title)
        return
    console = errors()
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or QUIET.get() or not console.is_terminal,
    )
    with bar:
        task = bar.add_task(title, total=1.0)

        def report(stage: str, fraction: float) -> None:
            bar.update(task, description=stage, completed=fraction)

        yield report


def _told(title: str) -> Report:
    """Return a reporter that prints each stage with the seconds since the start."""
    began, last = perf_counter(), [""]

    def report(stage: str, fraction: float) -> None:
        del fraction
        if stage != last[0]:
            last[0] = stage
            errors().print(f"{perf_counter() - began:6.1f} s  {stage}")

    report(title, 0.0)
    return report
