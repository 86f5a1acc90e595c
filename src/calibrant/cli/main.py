"""The ``calibrant`` command: its subcommands, and how errors and warnings are shown."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import typer

from calibrant._math.errors import EXPECTED, clause, in_lines, sentence_of, users_frame
from calibrant._math.extensions import extensions
from calibrant.cli.apply import apply
from calibrant.cli.check import check
from calibrant.cli.compare import compare
from calibrant.cli.defaults import defaults_from
from calibrant.cli.demo import demo
from calibrant.cli.evaluate import evaluate
from calibrant.cli.fault import report_fault
from calibrant.cli.figure import figure
from calibrant.cli.fit import fit
from calibrant.cli.help import Command, Commands
from calibrant.cli.interrupts import STOPPED
from calibrant.cli.manner import Quiet, Verbose, Version, manner, mannered
from calibrant.cli.methods import methods
from calibrant.cli.monitor import monitor
from calibrant.cli.outlet import outlet
from calibrant.cli.serve import serve
from calibrant.cli.show_help import show_help
from calibrant.cli.terminal import errors

EPILOG = (
    "`calibrant COMMAND --help` explains a command; every command takes --quiet and --verbose.\n\n"
    "Exit codes: 0 success, 1 a check or a run failed, 2 wrong input, 3 a fault of calibrant. "
    "Set defaults in [tool.calibrant] of pyproject.toml."
)

app = typer.Typer(
    name="calibrant",
    cls=Commands,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
)
PANELS = {
    "Evaluate": (demo, evaluate, compare),
    "Fix": (fit, apply, methods),
    "Watch": (check, monitor),
    "Look": (figure, serve),
}
"""The commands by what they are for."""
for panel, commands in PANELS.items():
    for command in commands:
        app.command(cls=Command, rich_help_panel=panel)(mannered(command))
for found in sorted(extensions("calibrant.commands"), key=lambda found: found.name):
    app.command(found.name, cls=Command, rich_help_panel="Lab")(mannered(found.load()))
app.command("help", cls=Command, hidden=True)(mannered(show_help))


@app.callback()
def about(
    context: typer.Context,
    quiet: Quiet = False,
    verbose: Verbose = False,
    _version: Version = False,
) -> None:
    """Test whether a classifier's probabilities are right, and fix them if they aren't.

    Examples:
        calibrant demo
        calibrant evaluate predictions.npz --report report.html
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    context.with_resource(manner(quiet=quiet, verbose=verbose))


def _interrupted(end: BaseException) -> bool:
    """Whether the user pressed Ctrl-C, which typer turns into a silent exit."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return type(cause) is KeyboardInterrupt


def _defaults() -> dict[str, Any]:
    """The defaults of options, from the nearest pyproject.toml; not read while a shell completes words."""
    if "_CALIBRANT_COMPLETE" in os.environ:
        return {}
    return defaults_from(Path.cwd(), lambda: typer.main.get_command(app))


def run(program: typer.Typer = app, name: str = "calibrant") -> None:
    """Run the command line of ``program``.

    An expected failure is one sentence on stderr and exit code 2; any other is our fault, and 3.
    """
    # Read when torch is loaded: threads that wait by spinning starve each other where the cores are shared.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Imports create some hundred thousand objects that live to the end. To look through them for garbage
    # again and again, and once more at the end, took a fifth of a small evaluation.
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
    if os.environ.get("COLUMNS", "80").strip() in {"", "0"}:  # a terminal of no width shows nothing
        del os.environ["COLUMNS"]
    try:
        here = str(Path.cwd())
    except FileNotFoundError:
        errors().print("calibrant: the working folder is no longer there; change into one that is.")
        sys.exit(2)
    # where `module:factory` is looked for; last, so that it hides nothing
    sys.path += [] if here in sys.path else [here]
    sys.stdout, sys.stderr = outlet(sys.stdout), outlet(sys.stderr)
    warnings.showwarning = lambda message, *_, **__: errors().print(f"note: {message}", style="yellow")
    try:
        program(prog_name=name, default_map=_defaults() if program is app else None)
    except EXPECTED as error:
        errors().print(f"calibrant: {in_lines(sentence_of(error))}", style="red")
        sys.exit(2)
    except SystemExit as end:
        if _interrupted(end):
            errors().print(STOPPED)
        raise
    except Exception as error:
        if users_frame(error) is None:
            sys.exit(report_fault(error))
        errors().print(f"calibrant: your code fails: {clause(error)}.", style="red")
        sys.exit(2)
