"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_exports(
    package: str, public: Sequence[str], homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package that imports its public names on first use.

    Args:
        package: The package's ``__name__``.
        public: Its ``__all__``; a name without a home is a submodule.
        homes: The names that each submodule defines.

    Example:
        >>> fetch, names = lazy_exports("email", ["Message", "utils"], {"message": ["Message"]})
        >>> fetch("Message").__module__, fetch("utils").__name__, names()
        ('email.message', 'email.utils', ['Message', 'utils'])
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def fetch(name: str) -> object:
        if name in home_of:
            return getattr(import_module(f"{package}.{home_of[name]}"), name)
        if name in public:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return fetch, lambda: sorted(public)


def declared_exports(
    package: str, file: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, read from its ``if TYPE_CHECKING:`` block.

    Each line there, ``from calibrant.evaluation.pipeline import evaluate as evaluate``, says a name once, for
    type checkers too.
    """
    with open(file, encoding="utf-8") as source:  # noqa: PTH123, pathlib takes time to import
        (block,) = (node for node in ast.parse(source.read()).body if isinstance(node, ast.If))
    homes: dict[str, list[str]] = {}
    for line in block.body:
        if isinstance(line, ast.ImportFrom):
            homes.setdefault(str(line.module), []).extend(alias.name for alias in line.names)
    public = sorted(name for names in homes.values() for name in names)
    fetch, names = lazy_exports(
        package,
        public,
        {home.removeprefix(f"{package}."): held for home, held in homes.items() if home != package},
    )
    return fetch, names, public
