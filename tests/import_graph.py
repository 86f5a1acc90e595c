"""The imports of a package as a graph, read from the text of its files and not by running them.

Every import counts, including those inside functions and under ``TYPE_CHECKING``: whoever reads a file has to
know what it names.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

PACKAGE = "calibrant"
# A constant of the package's own file, set before anything else: importing it creates no dependence.
WITHOUT_DEPENDENCE = {f"{PACKAGE}.__version__"}
ROOT = Path(__file__).parents[1]
SOURCES = {
    "calibrant": ROOT / "src" / "calibrant",
    "calibrant_lab": ROOT / "lab" / "src" / "calibrant_lab",
    "papers": ROOT / "papers",
}
"""The members of the repository: each may import those before it, never one after it."""

Graph = Mapping[str, set[str]]
"""File to the files it imports, both as paths below the package: ``losses/focal.py``."""


def read_package(source: Path) -> dict[str, str]:
    """The text of every file of the package, by its path below it."""
    return {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(source.rglob("*.py"))
    }


def import_graph(texts: Mapping[str, str], package: str = PACKAGE) -> dict[str, set[str]]:
    files = {_module_of(path, package): path for path in texts}
    graph: dict[str, set[str]] = {}
    for path, text in texts.items():
        names = set(_imported_names(ast.parse(text), package)) - WITHOUT_DEPENDENCE
        graph[path] = {files[module] for name in names if (module := _longest_prefix(name, files))} - {path}
    return graph


@functools.cache
def package_graph(package: str = PACKAGE) -> dict[str, set[str]]:
    """What each file of the package imports from it; to be read only."""
    return import_graph(read_package(SOURCES[package]), package)


def members_imported(text: str) -> set[str]:
    """The members of the repository that a file imports, anywhere in it."""
    tree = ast.parse(text)
    names = {name.partition(".")[0] for package in SOURCES for name in _imported_names(tree, package)}
    return names & SOURCES.keys()


def circles(graph: Graph) -> dict[str, list[list[str]]]:
    """The circles among the files and subfolders of each folder; folders without one are left out.

    Within a folder, whatever lies in a subfolder counts as that subfolder. Thus two rooms whose files import
    each other form a circle even where no two files do.
    """
    folders = {folder for path in graph for folder in _folders_of(path)}
    found = {folder: _strong_components(_children(graph, folder)) for folder in sorted(folders)}
    return {folder: groups for folder, groups in found.items() if groups}


def rooms(graph: Graph) -> dict[str, set[str]]:
    """Room to the rooms it imports from; a room is a folder, or a single file, directly in the package."""
    return _children(graph, "")


def _module_of(path: str, package: str) -> str:
    return ".".join([package, *path.removesuffix(".py").split("/")]).removesuffix(".__init__")


def _imported_names(tree: ast.Module, package: str) -> Iterator[str]:
    """Dotted names imported anywhere in a file, and those reached through a plain import of the package."""
    reached = False
    for node in _statements(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names if alias.name != package)
                reached |= any(alias.name.partition(".")[0] == package for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                pass
    if not reached:  # without such an import nothing is called by the package's name
        return
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    inner = {id(node.value) for node in found}
    yield from (ast.unparse(node) for node in found if id(node) not in inner and _begins_with(node, package))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement of a file, without the expressions in it, which are most of it."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            part = getattr(node, field, None)
            todo += part if isinstance(part, list) else []


def _begins_with(node: ast.expr, name: str) -> bool:
    """Whether a dotted name begins with that name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id == name


def _longest_prefix(name: str, files: Mapping[str, str]) -> str | None:
    """The module that a dotted name stands in."""
    parts = name.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in files), None)


def _folders_of(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    return ("/".join(parts[:length]) for length in range(len(parts) + 1))


def _children(graph: Graph, folder: str) -> dict[str, set[str]]:
    """The graph among the direct children of a folder."""
    start = f"{folder}/" if folder else ""

    def child(path: str) -> str | None:
        return path.removeprefix(start).split("/")[0] if path.startswith(start) else None

    children: dict[str, set[str]] = {}
    for path, others in graph.items():
        if (name := child(path)) is not None:
            arrows = {target for other in others if (target := child(other)) is not None}
            children.setdefault(name, set()).update(arrows - {name})
    return children


def _strong_components(graph: Graph) -> list[list[str]]:
    """Groups of more than one in which each leads to every other."""
    names = sorted(graph)
    place = {name: number for number, name in enumerate(names)}
    arrows = [(place[name], place[other]) for name in names for other in graph[name]]
    rows, columns = zip(*arrows, strict=True) if arrows else ((), ())
    matrix = coo_array((np.ones(len(rows)), (rows, columns)), shape=(len(names), len(names)))
    _, group_of = connected_components(matrix, directed=True, connection="strong")
    return list(_groups(names, group_of))


def _groups(names: list[str], group_of: Iterable[int]) -> Iterator[list[str]]:
    members: dict[int, list[str]] = {}
    for name, group in zip(names, group_of, strict=True):
        members.setdefault(int(group), []).append(name)
    return (group for group in members.values() if len(group) > 1)


def mermaid(graph: Graph) -> str:
    """The rooms as a Mermaid flowchart, importers above; arrows that follow from others are left out."""
    arrows = {room: others for room, others in rooms(graph).items() if not room.endswith(".py")}
    lines = [f"    {room} --> {other}" for room in sorted(arrows) for other in sorted(_direct(room, arrows))]
    return "\n".join(["flowchart TB", *lines])


def _direct(room: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """The rooms that a room imports and that none of the others it imports leads to."""
    return arrows[room] - {far for other in arrows[room] for far in _reached(other, arrows)}


def _reached(room: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """Every room below a room; there must be no circle."""
    return arrows[room] | {far for other in arrows[room] for far in _reached(other, arrows)}


PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
START, END = "<!-- drawn by tests/import_graph.py -->\n```mermaid\n", "\n```\n<!-- end of the picture -->"


def with_picture(page: str, graph: Graph) -> str:
    """The page on architecture with the picture drawn anew."""
    before, _, rest = page.partition(START)
    return before + START + mermaid(graph) + END + rest.partition(END.lstrip("\n"))[2]


if __name__ == "__main__":
    PAGE.write_text(with_picture(PAGE.read_text(encoding="utf-8"), package_graph()), encoding="utf-8")
