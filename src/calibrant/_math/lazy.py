"""Names of a package: imported when used, or read from a registry, a file of imports in display order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def declared_exports(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from its ``if TYPE_CHECKING:`` block.

    Each line there, ``from calibrant.evaluation.pipeline import evaluate as evaluate``, declares a name once,
    also for type checkers. An import from the package itself is a submodule.
    """
    with open(file, encoding="utf-8") as source:  # noqa: PTH123, pathlib takes time to import
        (block,) = (node for node in ast.parse(source.read()).body if isinstance(node, ast.If))
    home_of = {
        alias.name: str(line.module)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }

    def fetch(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home_of[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(home_of[name]), name)

    return fetch, lambda: sorted(home_of), sorted(home_of)


def public_names(namespace: Mapping[str, Any]) -> list[str]:
    """``__all__`` of a package: the functions and classes that one of its files holds."""
    package = namespace["__package__"]
    return sorted(
        name
        for name, value in namespace.items()
        if name[0] != "_" and str(getattr(value, "__module__", "")).startswith(package)
    )


def subclasses(namespace: Mapping[str, Any], kind: type[Kind]) -> dict[str, type[Kind]]:
    """Classes in a registry, in its order, keyed by file name with dashes."""
    return {
        value.__module__.rpartition(".")[2].replace("_", "-"): value
        for value in namespace.values()
        if isinstance(value, type) and issubclass(value, kind) and value is not kind
    }
