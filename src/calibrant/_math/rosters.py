"""Registries: a registry is a file of imports in display order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Kind = TypeVar("Kind")


def public_names(namespace: Mapping[str, Any]) -> list[str]:
    """``__all__`` of a package: the functions and classes that one of its files holds.

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
    """Classes in a registry, in its order, keyed by file name with dashes.

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
