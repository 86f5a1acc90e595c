"""Nothing escapes its roster: it imports each file that stands beside it, and what it names is public."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
import torch

from import_graph import Graph, package_graph

# Each roster, and what stands beside it without being one of those that it lists.
ROSTERS = {
    "losses/__init__.py": set[str](),
    "metrics/__init__.py": set[str](),
    "calibrators/methods/__init__.py": set[str](),
    "models/roster.py": {"checkpoints.py"},
    "evaluation/quantities/roster.py": {"samples.py", "shared.py"},
    "experiments/studies/roster.py": {"demo", "fcl_boundaries"},
    "experiments/tasks/roster.py": {"fingerprints.py", "simulation.py"},
    "experiments/engines/roster.py": {
        "cores.py",
        "in_order.py",
        "perform.py",
        "pool_worker.py",
        "ray_worker.py",
        "spread.py",
    },
}


def unlisted(roster: str, graph: Graph) -> list[str]:
    """What to do about files and folders beside a roster that it does not import."""
    folder = f"{Path(roster).parent.as_posix()}/"
    below = {path: path.removeprefix(folder).split("/")[0] for path in graph if path.startswith(folder)}
    listed = {below.get(path) for path in graph[roster]} | {below[roster]} | ROSTERS[roster]
    missing = sorted({each for each in below.values() if not each.startswith("_")} - listed)
    return [f"add a line to src/calibrant/{roster} that imports what {each} declares" for each in missing]


@pytest.mark.parametrize("roster", ROSTERS)
def test_every_file_is_listed(roster: str) -> None:
    """A new file of a room is imported by the room's roster."""
    assert unlisted(roster, package_graph()) == []


@pytest.mark.parametrize("roster", ROSTERS)
def test_a_file_that_is_not_listed_is_named(roster: str) -> None:
    """A planted file fails the test above, with the line to add."""
    planted = (Path(roster).parent / "planted.py").as_posix()
    (told,) = unlisted(roster, {**package_graph(), planted: set()})
    assert told == f"add a line to src/calibrant/{roster} that imports what planted.py declares"


@pytest.mark.parametrize("room", ["losses", "metrics", "calibrators", "models"])
def test_what_is_listed_is_public(room: str) -> None:
    """``__all__`` holds names that are there, and no other room's."""
    package = import_module(f"calibrant.{room}")
    assert len(set(package.__all__)) == len(package.__all__) > 5
    for name in package.__all__:
        assert getattr(package, name).__module__.startswith(f"calibrant.{room}"), name


@pytest.mark.parametrize("room", ["losses", "calibrators", "models"])
def test_what_can_be_built_is_public(room: str) -> None:
    """The classes that ``build`` makes by name can be imported from the room."""
    package = import_module(f"calibrant.{room}")
    found: set[str] = set()
    for name in package.available():
        given = _needed(room, name)
        with torch.device("cpu" if "vectors" in given else "meta"):  # without memory where that is possible
            found.add(type(package.build(name, **given)).__name__)
    assert found <= {*package.__all__}


def _needed(room: str, name: str) -> dict[str, object]:
    """Arguments of ``build`` beside the name: networks want samples of their kind."""
    shapes: dict[str, tuple[int, ...]] = {"gp-cnn": (30,), "tree-lstm": (9, 5)}
    if room != "models":
        return {}
    vectors = {"vectors": torch.ones(2, 4)} if name in shapes else {}
    return {"input_shape": shapes.get(name, (1, 32, 32)), "num_classes": 2, **vectors}
