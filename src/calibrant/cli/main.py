"""The ``calibrant`` command: its subcommands, and the display of errors and warnings."""

from __future__ import annotations

import atexit
import difflib
import gc
import os
import platform
import sys
import tomllib
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

import calibrant
from calibrant._math.errors import EXPECTED, InputError, clause, in_lines, sentence_of, users_frame
from calibrant._math.extensions import extensions
from calibrant.cli.apply import apply
from calibrant.cli.check import check
from calibrant.cli.compare import compare
from calibrant.cli.evaluate import demo, evaluate
from calibrant.cli.figure import figure
from calibrant.cli.fit import fit, methods
from calibrant.cli.help import OLD_NAMES, Command, Commands, show_help
from calibrant.cli.interrupts import STOPPED
from calibrant.cli.monitor import monitor
from calibrant.cli.serve import serve
from calibrant.cli.streams import errors, outlet
from calibrant.cli.terminal import command_line
from calibrant.cli.verbosity import Quiet, Verbose, Version, verbosity, with_common_options

PACKAGE = Path(__file__).parents[1]
FAULT = 3  # the exit code; 1 is that of a failed gate, 2 that of wrong input
_VERSIONS_OF = ("torch", "numpy", "numba", "scipy")
EPILOG = (
    "`calibrant COMMAND --help` explains a command; every command takes --quiet and --verbose.\n\n"
    "Exit codes: 0 success, 1 a check or a run failed or there is an alarm, 2 wrong input, 3 a bug "
    "in calibrant. Set defaults in [tool.calibrant] of pyproject.toml."
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
        app.command(cls=Command, rich_help_panel=panel)(with_common_options(command))
for found in sorted(extensions("calibrant.commands"), key=lambda found: found.name):
    app.command(found.name, cls=Command, rich_help_panel="Lab")(with_common_options(found.load()))
app.command("help", cls=Command, hidden=True)(with_common_options(show_help))


@app.callback()
def about(
    context: typer.Context, quiet: Quiet = False, verbose: Verbose = False, _version: Version = False
) -> None:
    """Test whether a classifier's probabilities are right, and fix them if they aren't.

    Examples:
        calibrant demo
        calibrant evaluate predictions.npz --report report.html
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)
    context.with_resource(verbosity(quiet=quiet, verbose=verbose))


def _interrupted(end: BaseException) -> bool:
    """Return True if the user pressed Ctrl-C, which typer turns into a silent exit."""
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return type(cause) is KeyboardInterrupt


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
        errors().print("calibrant: the working folder no longer exists; change to another.")
        sys.exit(2)
    # where `module:factory` is looked for; last, so that it hides nothing
    sys.path += [] if here in sys.path else [here]
    sys.stdout, sys.stderr = outlet(sys.stdout), outlet(sys.stderr)
    warnings.showwarning = lambda message, *_, **__: errors().print(f"note: {message}", style="yellow")
    try:
        # No defaults are read for another program, or while a shell completes words.
        takes_defaults = program is app and "_CALIBRANT_COMPLETE" not in os.environ
        program(prog_name=name, default_map=_defaults(Path.cwd()) if takes_defaults else None)
    except EXPECTED as error:
        errors().print(f"calibrant: {in_lines(sentence_of(error))}", style="red")
        sys.exit(2)
    except SystemExit as end:
        if _interrupted(end):
            errors().print(STOPPED)
        raise
    except Exception as error:
        if users_frame(error) is None:
            sys.exit(_report_fault(error))
        errors().print(f"calibrant: your code fails: {clause(error)}.", style="red")
        sys.exit(2)


def _defaults(folder: Path) -> dict[str, Any]:
    """Return every command's defaults by parameter name, from the nearest pyproject.toml."""
    file, table = _settings(folder)
    if file is None:
        return {}
    commands: Mapping[str, Any] = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    options = {name: _options(command) for name, command in commands.items()}
    found: dict[str, dict[str, Any]] = {name: {} for name in commands}
    for key, value in sorted(table.items(), key=lambda item: isinstance(item[1], dict)):
        if not isinstance(value, dict):  # for every command that takes it
            takers = [name for name in options if key in options[name]]
            if not takers:
                raise _unknown(
                    file, "tool.calibrant", key, {each for taken in options.values() for each in taken}
                )
            for name in takers:
                found[name] |= _default(options[name][key], value)
            continue
        if key not in commands:
            raise _unknown(file, "tool.calibrant", key, set(commands))
        for option, own in value.items():
            if option not in options[key]:
                raise _unknown(file, f"tool.calibrant.{key}", option, set(options[key]))
            found[key] |= _default(options[key][option], own)
    return {name: values for name, values in found.items() if values}


def _default(option: Any, value: Any) -> dict[str, Any]:
    return {option.name: [value] if option.multiple and isinstance(value, str) else value}


def _settings(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    for file in (place / "pyproject.toml" for place in (folder, *folder.parents)):
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{file} is not TOML: {error}.") from error
        except PermissionError:
            continue
        if isinstance(table := content.get("tool", {}).get("calibrant"), dict):
            return file, table
    return None, {}


def _options(command: Any) -> dict[str, Any]:
    found = {
        option.removeprefix("--"): each
        for each in command.params
        for option in each.opts
        if option.startswith("--") and option not in {"--help", "--version"}
    }
    for old, new in OLD_NAMES.get(command.name, {}).items():
        found.setdefault(old.removeprefix("--"), found[new.removeprefix("--")])
    return found


def _unknown(file: Path, table: str, key: str, known: set[str]) -> InputError:
    near = difflib.get_close_matches(key, known, n=1)
    remedy = f"; did you mean {near[0]}?" if near else "; `calibrant COMMAND --help` lists the options."
    return InputError(f"{file}: [{table}] must hold options of commands; got {key}{remedy}")


def _report_fault(error: Exception) -> int:
    """Show the traceback and ask for a report; return the exit code."""
    said = traceback.format_exception_only(error)[-1].strip()
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if PACKAGE in Path(frame.filename).parents]
    place = ""
    if ours:
        file = Path(ours[-1].filename).relative_to(PACKAGE).as_posix()
        place = f" ({file}, line {ours[-1].lineno})"
    errors().print(
        "".join(traceback.format_exception(error))
        + "\ncalibrant: this is a bug in calibrant, not a mistake in your input.\n"
        "Please report it with the traceback above and these lines:\n"
        f"  {said}{place}\n  {command_line()}\n  {_versions()}",
        style="red",
    )
    return FAULT


def _versions() -> str:
    """Return versions without imports, since an import may be the failure."""
    from importlib.metadata import PackageNotFoundError, version

    found = [f"calibrant {calibrant.__version__}", f"Python {platform.python_version()}"]
    for name in _VERSIONS_OF:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join([*found, platform.platform()])
