"""What the commands share: consoles, a progress bar, checks on where output goes."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from typer.core import TyperCommand

from calibrant._math.errors import InputError

Report = Callable[[str, float], None]

METHODS = 'CALIBRATORS, with settings in brackets, as temperature(search="grid")'
OBJECTIVE = "OBJECTIVES. Default: nll"
"""For help texts, which must not wait for imports: the names are filled in where the help is read."""

PositiveClass = Annotated[
    str | None,
    typer.Option(
        metavar="CLASS", help="Of two classes the one that is judged, by number or name. Default: 1."
    ),
]


class Command(TyperCommand):
    """A command whose help names the calibrators, or the objectives, of their roster."""

    def get_help(self, ctx: Any) -> str:
        """The help with the names filled in."""
        for each in self.params:
            text = getattr(each, "help", None) or ""
            if METHODS in text:
                from calibrant.calibrators import available

                vars(each)["help"] = text.replace("CALIBRATORS", alternatives(available()))
            if OBJECTIVE in text:
                from calibrant.calibrators.fitting.objectives import OBJECTIVES

                vars(each)["help"] = text.replace("OBJECTIVES", alternatives(OBJECTIVES))
        return super().get_help(ctx)


def alternatives(names: Iterable[str]) -> str:
    """Names for a help text.

    Example:
        >>> alternatives(["ece", "nll", "brier"])
        'ece, nll or brier'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def errors() -> Console:
    """The console for errors, notes and progress; results go to stdout."""
    return Console(stderr=True, soft_wrap=True)


def command_line() -> str:
    """The command as it was typed, for reports."""
    return shlex.join(["calibrant", *sys.argv[1:]])


def check_output(
    path: Path | None, *, option: str, endings: tuple[str, ...] | None = None, inputs: Iterable[Path] = ()
) -> None:
    """Refuse an output path that cannot be written or would overwrite an input, before any work is done.

    Raises:
        InputError: If the ending is not one of ``endings``, the folder does not exist, or the file is one of
            ``inputs``.
    """
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


@contextmanager
def progress(title: str, *, quiet: bool = False) -> Generator[Report]:
    """A progress bar on stderr, removed when done; none if stderr is not a terminal."""
    console = errors()
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    )
    with bar:
        task = bar.add_task(title, total=1.0)

        def report(stage: str, fraction: float) -> None:
            bar.update(task, description=stage, completed=fraction)

        yield report
