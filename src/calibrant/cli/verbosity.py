"""Options of every command: ``--quiet``, ``--verbose``, ``--version``; and errors with option names."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
import traceback
from collections.abc import Callable, Generator
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

import calibrant
from calibrant._math.errors import InputError
from calibrant.cli.help import metavar
from calibrant.cli.reading import with_options

VERBOSE: ContextVar[bool] = ContextVar("VERBOSE", default=False)
"""Print stages with their times, and tracebacks of errors."""
QUIET: ContextVar[bool] = ContextVar("QUIET", default=False)

DATA = frozenset(
    {"labels", "label", "weights", "groups", "split", "logits", "probs", "confidence", "correct"}
    | {"images", "annotations"}
)
"""Names of what files hold, which options are called as well."""
OTHER_NAMES = {
    "num_bins": "bins",
    "calibrators": "method",
    "metrics": "metric",
    "baseline_metrics": "baseline_metric",
}
"""The library's names of values that differ from those of options."""


def print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"calibrant {calibrant.__version__}")
        raise typer.Exit


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print all metrics and candidates, and time each stage.")
]
Version = Annotated[
    bool, typer.Option("--version", "-V", callback=print_version, is_eager=True, help="Print the version.")
]


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--quiet``, ``--verbose`` and ``--version``, and put option names in errors."""
    signature = with_options(command)
    own_quiet = "quiet" in signature.parameters
    for name, each in _declared(signature):
        if each.metavar is None:
            each.metavar = metavar(get_args(signature.parameters[name].annotation)[0]) or None
    added = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=annotation)
        for name, annotation in (("quiet", Quiet), ("verbose", Verbose), ("version_wanted", Version))
    }
    parameters = sorted(
        (added | dict(signature.parameters)).values(), key=lambda each: (each.kind, each.name in added)
    )
    options = option_names(signature)

    @functools.wraps(command)
    def run(*args: Any, verbose: bool = False, version_wanted: bool = False, **values: Any) -> None:
        del version_wanted
        for name, value in values.items():
            if name in options and isinstance(value, Path | str) and str(value).startswith("--"):
                raise InputError(f"{options[name]} must have a value; got {value}, which is an option.")
        verbose = verbose or VERBOSE.get()  # as typed before the command
        quiet: bool = values.pop("quiet") or QUIET.get()
        if own_quiet:
            values["quiet"] = quiet
        silent = quiet and not own_quiet
        unseen = contextlib.redirect_stdout(io.StringIO()) if silent else contextlib.nullcontext()
        with verbosity(quiet=quiet, verbose=verbose), unseen:
            try:
                command(*args, **values)
            except Exception as error:
                if verbose and not isinstance(error, typer.Exit):
                    traceback.print_exc()
                if isinstance(error, InputError):
                    raise type(error)(in_options(str(error), options)) from error
                raise

    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    return run


def _declared(signature: inspect.Signature) -> list[tuple[str, typer.models.OptionInfo]]:
    return [
        (name, each)
        for name, parameter in signature.parameters.items()
        for each in get_args(parameter.annotation)[1:]
        if isinstance(each, typer.models.OptionInfo)
    ]


def option_names(signature: inspect.Signature) -> dict[str, str]:
    """Return the option of each parameter by its Python name."""
    found: dict[str, str] = {}
    for name, each in _declared(signature):
        # Within Annotated, typer takes the first declaration for a default at first.
        declared = [str(text) for text in (each.default, *(each.param_decls or ()))]
        typed = next((text for text in declared if text.startswith("--")), f"--{name.replace('_', '-')}")
        found[name] = typed.partition("/")[0]
    return found


def in_options(message: str, options: dict[str, str]) -> str:
    """Replace the library's argument names in a message by options.

    Names listed beside others that are no options are names in a file.

    Example:
        >>> in_options("`num_bins` must be at least 1; got 0.", {"bins": "--bins"})
        '--bins must be at least 1; got 0.'
        >>> in_options("take all by `every_row=True`.", {"every_row": "--all"})
        'take all by --all.'
        >>> in_options("it holds `bins`, `age`.", {"bins": "--bins"})
        'it holds `bins`, `age`.'
    """

    def typed(match: re.Match[str]) -> str:
        names: list[str] = re.findall("`(.*?)`", match[0])
        bare = {name: name.removesuffix("=True") for name in names}
        found = {
            name: None if word in DATA else options.get(OTHER_NAMES.get(word, word))
            for name, word in bare.items()
        }
        if None in found.values():
            return match[0]
        return re.sub("`(.*?)`", lambda name: found[name[1]] or "", match[0])

    said = re.sub(r"`\w+=[^`\n]+` \((--[^)]+)\)", r"\1", message)
    said = re.sub("`[^`\n]+`(?:(?:, | and )`[^`\n]+`)*", typed, said)
    said = re.sub(r"the limit of ([a-z0-9_]+)", lambda match: options.get(match[1], match[0]), said)
    said = re.sub(r"`[a-z_]+` \((--[a-z-]+), (--[a-z-]+)\)", r"\1 and \2", said)
    said = re.sub(r"`\{[^`]*\}`, or (?=--)", "", said)  # a dictionary in place of options
    return re.sub(r"(--[a-z-]+) \(\1(?:[^)]*)\)", r"\1", said)  # an option that the message named as well


@contextlib.contextmanager
def verbosity(*, quiet: bool, verbose: bool) -> Generator[None]:
    first, second = QUIET.set(quiet), VERBOSE.set(verbose)
    try:
        yield
    finally:
        QUIET.reset(first)
        VERBOSE.reset(second)
