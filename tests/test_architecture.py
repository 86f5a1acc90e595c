"""Imports go down only, and the top level stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant

SOURCE = Path(calibrant.__file__).parent
# A room may import from the rooms of earlier lines only; rooms that share a line do not know each other.
FLOORS = [
    {"_math"},
    {"losses", "metrics", "calibrators", "theory", "curvature", "models", "data"},
    {"predictions"},
    {"evaluation"},
    {"reports"},
    {"training"},
    {"experiments"},
    {"integrations", "web", "cli"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def imported_rooms(tree: ast.AST) -> set[str]:
    """The rooms that a module imports anywhere in its text, also inside functions."""
    rooms: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "calibrant" and len(parts) > 1:
                rooms.add(parts[1])
    return rooms


def arrows_up(room: str, text: str) -> set[str]:
    """Rooms that ``text``, a module of ``room``, imports although they are not below it."""
    others = imported_rooms(ast.parse(text)) - {room, "__version__"}
    return {other for other in others if FLOOR_OF[other] >= FLOOR_OF[room]}


def modules() -> list[Path]:
    """Every file of the package that belongs to a room."""
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.parent != SOURCE or path.stem in FLOOR_OF]


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_go_down_only(path: Path) -> None:
    """No module imports from a room above or beside its own."""
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert arrows_up(room, path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_no_relative_imports(path: Path) -> None:
    """Relative imports would escape the check above."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level > 0]


@pytest.mark.parametrize(
    ("room", "text", "up"),
    [
        ("_math", "from calibrant.metrics import accuracy", {"metrics"}),
        ("metrics", "import calibrant.calibrators.roster", {"calibrators"}),
        ("evaluation", "def f():\n    from calibrant import reports", {"reports"}),
        ("reports", "from calibrant.evaluation import Evaluation", set()),
    ],
)
def test_the_check_bites(room: str, text: str, up: set[str]) -> None:
    """A planted arrow that goes up or sideways is seen; one that goes down is not."""
    assert arrows_up(room, text) == up


def test_importing_calibrant_imports_nothing_heavy() -> None:
    """``import calibrant`` loads none of the heavy dependencies, and of its own files only ``lazy``."""
    code = "import sys, calibrant; print(*sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    roots = {name.partition(".")[0] for name in loaded}
    assert not roots & {
        "scipy",
        "sklearn",
        "numba",
        "matplotlib",
        "torchmetrics",
        "pydantic",
        "typer",
        "rich",
    }
    assert [name for name in loaded if name.startswith("calibrant.")] == [
        "calibrant._math",
        "calibrant._math.lazy",
    ]
