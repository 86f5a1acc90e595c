"""Pages generated at build time: the API by packages, and the commands."""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File

from calibrant.cli.main import app

ROOT = Path(__file__).parents[2]
ROOMS = {
    "evaluation": ("Evaluation", ["calibrant.evaluation"]),
    "predictions": ("Predictions", ["calibrant.predictions"]),
    "repair": ("Fit and apply", ["calibrant.repair"]),
    "metrics": ("Metrics", ["calibrant.metrics"]),
    "calibrators": ("Calibrators", ["calibrant.calibrators"]),
    "reports": ("Reports and figures", ["calibrant.reports"]),
    "plots": ("Plots", ["calibrant.plots"]),
    "losses": ("Losses", ["calibrant.losses"]),
    "theory": ("Theory", ["calibrant.theory", "calibrant_lab.theory"]),
    "curvature": ("Curvature", ["calibrant.curvature"]),
    "training": ("Training", ["calibrant_lab.training"]),
    "data": ("Data", ["calibrant_lab.data"]),
    "models": ("Models", ["calibrant_lab.models"]),
    "figures": ("Figures of the laboratory", ["calibrant_lab.figures"]),
    "integrations": (
        "Integrations",
        [
            "calibrant.integrations.sklearn",
            "calibrant.integrations.lightning",
            "calibrant.integrations.hugging_face",
            "calibrant.integrations.onnx",
            "calibrant.integrations.trackers",
        ],
    ),
}


ALIASES = {
    "Kind": '`Literal["binary", "multiclass", "multilabel", "top_label"]`: what predictions are of.',
    "StreamedPredictions": "Another name for `Predictions`; those on file once were a class of their own.",
}
"""Public names that have no docstring of their own."""
SEARCHED = {"start/": 4, "how-to/": 4, "reference/api/": 1, "reference/": 4, "results/": 0.2, "project/": 0.2}
"""Weights in a search by the start of a page's address; 1 for others."""
ERRORS = ("InputError", "NotFittedError", "ConvergenceError", "CalibrantWarning")


def on_config(config: Any) -> Any:
    """Expand ``FOLDER/*`` in the navigation to that folder's unlisted pages."""
    listed = set(re.findall(r"[\w/-]+\.md", str(config.nav)))

    def expanded(items: list[Any]) -> list[Any]:
        found: list[Any] = []
        for item in items:
            if isinstance(item, dict):
                found.append(
                    {name: expanded(each) if isinstance(each, list) else each for name, each in item.items()}
                )
            elif item.endswith("/*"):
                paths = sorted((Path(config.docs_dir) / item[:-2]).glob("*.md"))
                names = [path.relative_to(config.docs_dir).as_posix() for path in paths]
                found += [name for name in names if name not in listed]
            else:
                found.append(item)
        return found

    config.nav = expanded(config.nav)
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page per package, and one for the commands."""
    made = {f"reference/api/{room}.md": api_page(room) for room in ROOMS}
    made["reference/api/errors.md"] = errors_page()
    made["reference/command-line.md"] = commands_page()
    made |= {
        f"project/{name.lower()}.md": of_the_root(f"{name}.md")
        for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Set the page's search weight: guides first, results and the changelog last."""
    weights = (weight for start, weight in SEARCHED.items() if page.file.src_uri.startswith(start))
    page.meta.setdefault("search", {"boost": next(weights, 1)})
    return markdown


def of_the_root(name: str) -> str:
    """Return a page from the root of the repository."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.sub(r"\]\((?!https?://|#)", "](../../", text)


def public_names(module: Any) -> list[str]:
    listed = getattr(module, "__all__", None)
    return (
        list(listed)
        if listed is not None
        else [
            name
            for name, value in vars(module).items()
            if name[0] != "_" and getattr(value, "__module__", "") == module.__name__ and callable(value)
        ]
    )


def api_page(room: str) -> str:
    """Return a page on which mkdocstrings describes every public name at its definition."""
    title, paths = ROOMS[room]
    parts = [f"# {title}\n"]
    for path in paths:
        module = import_module(path)
        names = sorted(public_names(module), key=lambda name: (name[0].isupper(), name.lower()))
        first = inspect.getdoc(module) or ""
        parts.append(f"{first.partition(chr(10) * 2)[0]}\n\n```python\nimport {path}\n```\n")
        for name in names:
            value = getattr(module, name)
            home = getattr(value, "__module__", None) or module.__name__
            if name in ALIASES:
                parts.append(f"## {name}\n\n{ALIASES[name]}\n")
            elif not inspect.ismodule(value) and home.startswith("calibrant"):
                parts.append(f"::: {home}.{getattr(value, '__qualname__', name)}\n{_options(value)}")
    return "\n".join(parts)


def errors_page() -> str:
    parts = [
        "# Errors and warnings\n",
        "Names of `calibrant` itself. The command line turns the errors into one sentence and exit code 2.\n",
        f"```python\nfrom calibrant import {', '.join(ERRORS)}\n```\n",
        *(f"::: calibrant._math.errors.{name}\n" for name in ERRORS),
    ]
    return "\n".join(parts)


@cache
def _public(room: str) -> set[Any]:
    module = import_module(room)
    found = (getattr(module, name) for name in public_names(module))
    return {value for value in found if isinstance(value, type)}


def _is_public(value: type) -> bool:
    return value in _public(".".join(value.__module__.split(".")[:2]))


def _options(value: Any) -> str:
    """Return options for a class: its public base, and members of undocumented bases."""
    if not isinstance(value, type):
        return ""
    bases = [each for each in value.__mro__[1:] if each.__module__.startswith("calibrant")]
    names: list[str] = []
    for base in bases:
        if _is_public(base):
            break
        names += [name for name, member in vars(base).items() if _is_described(name, member)]
    listed = [name for name in dict.fromkeys(names) if name not in vars(value)]
    shown = str(any(map(_is_public, bases))).lower()
    return f"    options:\n      show_bases: {shown}\n      inherited_members: {json.dumps(listed)}\n"


_OF_MODULES = {"forward", "extra_repr", "get_extra_state", "set_extra_state"}  # torch calls them


def _is_described(name: str, member: Any) -> bool:
    if name[0] == "_" or name in _OF_MODULES:
        return False
    kinds = (property, classmethod, staticmethod)
    return (callable(member) or isinstance(member, kinds)) and bool(inspect.getdoc(member))


_EXITS = """Every command answers `--help`. Exit codes: 0 all is well, 1 a gate failed, 2 the input is wrong
(one sentence says what), 3 a fault of calibrant's own; 130 after Ctrl-C.
"""


def commands_page() -> str:
    """Return all commands with arguments and options, from their declarations."""
    root = typer.main.get_command(app)
    parts = [
        "# Command line\n",
        _EXITS,
    ]
    for name, command in root.commands.items():
        parts += _command(f"calibrant {name}", command)
        for part, each in getattr(command, "commands", {}).items():
            parts += _command(f"calibrant {name} {part}", each, level=3)
    return "\n".join(parts)


def _command(title: str, command: Any, level: int = 2) -> list[str]:
    context = command.make_context(title, [], resilient_parsing=True)
    with contextlib.redirect_stdout(io.StringIO()):
        command.get_help(context)  # fills in the names of calibrators
    usage = re.sub(r"{([^{}|]+?)(?:\.\.\.)?}", r"\1", " ".join(command.collect_usage_pieces(context)))
    rows = [
        (
            _spelled(each),
            (getattr(each, "help", None) or "").replace("\\[", "[").replace("|", "\\|").replace("\n", " "),
            _default(each),
        )
        for each in command.params
        if "--help" not in each.opts
    ]
    table = ["| argument or option | what it does | default |", "|---|---|---|"]
    table += [f"| {name} | {text} | {default} |" for name, text, default in rows]
    help_text = inspect.cleandoc(command.help or "").replace("\b", "").replace("\f", "")
    lines = [f"{'#' * level} {title}\n", f"{help_text}\n", f"```console\n$ {title} {usage}\n```\n"]
    return lines + (["\n".join(table) + "\n"] if rows else [])


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{(parameter.metavar or parameter.name).upper()}`"
    return ", ".join(f"`{name}`" for name in parameter.opts)


def _default(parameter: Any) -> str:
    value = parameter.default
    if value is None or value is False or callable(value) or value in ((), []) or parameter.required:
        return ""
    return f"`{value}`" if not str(value).startswith("Sentinel") else ""
