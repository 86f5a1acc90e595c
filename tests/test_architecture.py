"""Imports go down only, nothing imports in a circle, files stay small, and the top level stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant
from import_graph import (
    SOURCES,
    circles,
    import_graph,
    members_imported,
    package_graph,
    read_package,
    rooms,
)

SOURCE = Path(calibrant.__file__).parent
TEXTS = read_package(SOURCE)
MOST_LINES = 600

# A room may import from the rooms of earlier lines only; rooms that share a line do not know each other.
FLOORS = [
    {"_math"},
    {"losses", "metrics", "calibrators", "theory", "curvature"},
    {"predictions"},
    {"evaluation"},
    {"repair"},
    {"reports"},
    {"demo", "web", "integrations", "plots.py"},
    {"cli"},
    {"__init__.py", "__main__.py"},
]
FLOOR_OF = {room: floor for floor, members in enumerate(FLOORS) for room in members}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """What each file of the package imports."""
    return package_graph("calibrant")


def arrows_up(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Each room that imports from rooms that are not below it, with those rooms."""
    found = {
        room: {other for other in others if FLOOR_OF[other] >= FLOOR_OF[room]}
        for room, others in rooms(graph).items()
    }
    return {room: others for room, others in found.items() if others}


def test_every_room_has_a_floor(graph: dict[str, set[str]]) -> None:
    """A new room is given its place in ``FLOORS``."""
    assert set(rooms(graph)) <= set(FLOOR_OF)


def test_imports_go_down_only(graph: dict[str, set[str]]) -> None:
    assert arrows_up(graph) == {}


@pytest.mark.parametrize("package", SOURCES)
def test_nothing_imports_in_a_circle(package: str) -> None:
    """Files and subfolders of a folder never lead back to where one started, lazy imports counted."""
    assert circles(package_graph(package)) == {}


@pytest.mark.parametrize("package", SOURCES)
def test_members_import_down_only(package: str) -> None:
    """The instrument imports neither laboratory nor papers, and the laboratory no papers."""
    allowed = set(list(SOURCES)[: list(SOURCES).index(package) + 1])
    strangers = {
        path: found
        for path, text in read_package(SOURCES[package]).items()
        if any(name in text for name in SOURCES.keys() - allowed)
        and (found := members_imported(text) - allowed)
    }
    assert strangers == {}
    assert members_imported("def f():\n    from calibrant_lab.data import digits") == {"calibrant_lab"}


def test_files_are_small() -> None:
    texts = {
        f"{name}/{path}": text for name, of in SOURCES.items() for path, text in read_package(of).items()
    }
    assert [path for path, text in texts.items() if len(text.splitlines()) > MOST_LINES] == []


def relative_imports(text: str) -> list[int]:
    if not re.search(r"\bfrom[\s\\]*\.", text):  # reading every file as a program takes a second
        return []
    nodes = ast.walk(ast.parse(text))
    return [node.lineno for node in nodes if isinstance(node, ast.ImportFrom) and node.level > 0]


def test_no_relative_imports() -> None:
    assert {path: lines for path, text in TEXTS.items() if (lines := relative_imports(text))} == {}
    for space in (" ", "", "  ", "\\\n"):
        assert relative_imports(f"def f():\n    from{space}.focal import focal_loss") == [2]


PLAIN = {
    "__init__.py": "__version__ = '1'\n",
    "_math/__init__.py": "",
    "losses/__init__.py": "from calibrant.losses.focal import focal_loss\n",
    "losses/focal.py": "import calibrant\nfrom calibrant.losses.parts import rows\ncalibrant.__version__\n",
    "losses/parts/__init__.py": "",
    "losses/parts/rows.py": "from calibrant._math import errors\n",
    "metrics/__init__.py": "",
    "metrics/accuracy.py": "",
    "reports/__init__.py": "from calibrant.metrics import accuracy\n",
}


def test_a_plain_package_has_no_circle() -> None:
    """What the planted circles below are planted in passes."""
    graph = import_graph(PLAIN)
    assert graph["losses/focal.py"] == {"losses/parts/rows.py"}
    assert circles(graph) == {}
    assert arrows_up(graph) == {}


@pytest.mark.parametrize(
    ("path", "text", "members"),
    [
        ("losses/parts/rows.py", "from calibrant.losses.focal import focal_loss", "focal.py parts"),
        ("losses/parts/rows.py", "def f():\n    from calibrant.losses import focal", "focal.py parts"),
        ("losses/parts/rows.py", "if TYPE_CHECKING:\n    import calibrant.losses.focal", "focal.py parts"),
        ("losses/parts/rows.py", "from calibrant.losses import focal_loss", "__init__.py focal.py parts"),
        ("losses/parts/rows.py", "import calibrant\ncalibrant.losses.focal.focal_loss", "focal.py parts"),
        (
            "losses/parts/__init__.py",
            "import calibrant.losses.parts.rows, calibrant.losses.focal",
            "focal.py parts",
        ),
        ("metrics/accuracy.py", "from calibrant import reports", "metrics reports"),
    ],
)
def test_planted_circles_are_found(path: str, text: str, members: str) -> None:
    """At the top of a file, in a function, for the type checker, through ``__init__``, and between rooms."""
    folder = "losses" if "focal" in members else ""
    assert circles(import_graph({**PLAIN, path: text}))[folder] == [members.split()]


def test_a_circle_of_folders_is_found_where_no_file_is_in_one() -> None:
    planted = {
        **PLAIN,
        "losses/more/one.py": "from calibrant.losses.parts import rows",
        "losses/more/two.py": "",
        "losses/parts/other.py": "from calibrant.losses.more import two",
    }
    assert circles(import_graph(planted)) == {"losses": [["more", "parts"]]}


@pytest.mark.parametrize(
    ("path", "text", "up"),
    [
        ("_math/new.py", "from calibrant.metrics import accuracy", {"_math": {"metrics"}}),
        ("metrics/new.py", "import calibrant.losses.focal", {"metrics": {"losses"}}),
        ("metrics/new.py", "def f():\n    from calibrant import reports", {"metrics": {"reports"}}),
        ("metrics/new.py", "from calibrant import InputError", {"metrics": {"__init__.py"}}),
        ("reports/new.py", "from calibrant.losses import focal", {}),
    ],
)
def test_planted_arrows_are_found(path: str, text: str, up: dict[str, set[str]]) -> None:
    """An import that goes up or sideways is seen; one that goes down is not held against a file."""
    assert arrows_up(import_graph({**PLAIN, path: text})) == up


def test_imports_bring_nothing_heavy() -> None:
    """The package, the declarations of quantities, the metrics and the plots load nothing they can spare.

    Torchmetrics comes when a streaming class is named, matplotlib when something is drawn.
    """
    packages = ("calibrant", "calibrant.evaluation.quantities", "calibrant.metrics", "calibrant.plots")
    code = "import sys\n" + "".join(f"import {name}; print(*sorted(sys.modules))\n" for name in packages)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    plain, declared, measured, plotting = (line.split() for line in done.stdout.splitlines())
    heavy = {"torch", "numpy", "scipy", "sklearn", "numba", "matplotlib", "pydantic", "typer", "rich"}
    assert not (heavy | {"torchmetrics"}) & {name.partition(".")[0] for name in plain + declared}
    own = [name for name in plain if name.startswith("calibrant.")]
    assert own == ["calibrant._math", "calibrant._math.lazy"]
    assert not {"torchmetrics", "matplotlib"} & {*measured, *plotting}
    assert issubclass(calibrant.metrics.CalibrationError, sys.modules["torchmetrics"].Metric)
