"""A roster is a file of imports, in the order in which people see what it names; the rest is read from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def public_names(namespace: Mapping[str, Any]) -> list[str]:
    """The functions and classes of a package that a file of it holds: its ``__all__``.

    Example:
        >>> from concurrent.futures import thread
        >>> public_names(vars(thread))
        ['BrokenThreadPool', 'ThreadPoolExecutor']
    """
    package = namespace["__package__"]
    return sorted(
        name
        for name, value in namespace.items()
        if name[0] != "_" and str(getattr(value, "__module__", "")).startswith(package)
    )


def subclasses(namespace: Mapping[str, Any], kind: type[Kind]) -> dict[str, type[Kind]]:
    """The classes that a roster holds, in its order, by the names of their files with dashes.

    Example:
        >>> import json
        >>> subclasses(vars(json), Exception)
        {'decoder': <class 'json.decoder.JSONDecodeError'>}
    """
    return {
        value.__module__.rpartition(".")[2].replace("_", "-"): value
        for value in namespace.values()
        if isinstance(value, type) and issubclass(value, kind) and value is not kind
    }
