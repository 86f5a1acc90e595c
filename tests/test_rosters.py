"""Nothing escapes its roster: it imports each file that stands beside it, and what it names is public."""

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch

from import_graph import Graph, package_graph

# Each roster, and what stands beside it without being one of those that it lists.
ROSTERS = {
    "losses/__init__.py": set[str](),
    "metrics/__init__.py": set[str](),
    "calibrators/methods/__init__.py": {"events.py"},  # what isotonic and binning share
    "calibrant_lab:models/roster.py": {"checkpoints.py"},
}


def member_of(roster: str) -> tuple[str, str]:
    """The package of a roster, and its path in it."""
    package, _, path = roster.rpartition(":")
    return package or "calibrant", path


def unlisted(roster: str, graph: Graph) -> list[str]:
    """What to do about files and folders beside a roster that it does not import."""
    package, path = member_of(roster)
    folder = f"{Path(path).parent.as_posix()}/"
    below = {each: each.removeprefix(folder).split("/")[0] for each in graph if each.startswith(folder)}
    listed = {below.get(each) for each in graph[path]} | {below[path]} | ROSTERS[roster]
    missing = sorted({each for each in below.values() if not each.startswith("_")} - listed)
    return [f"add a line to {path} of {package} that imports what {each} declares" for each in missing]


@pytest.mark.parametrize("roster", ROSTERS)
def test_every_file_is_listed(roster: str) -> None:
    assert unlisted(roster, package_graph(member_of(roster)[0])) == []


@pytest.mark.parametrize("roster", ROSTERS)
def test_a_file_that_is_not_listed_is_named(roster: str) -> None:
    """A planted file fails the test above, with the line to add."""
    package, path = member_of(roster)
    planted = (Path(path).parent / "planted.py").as_posix()
    (told,) = unlisted(roster, {**package_graph(package), planted: set()})
    assert told == f"add a line to {path} of {package} that imports what planted.py declares"


def room_named(room: str) -> ModuleType:
    return import_module(f"calibrant_lab.{room}" if room == "models" else f"calibrant.{room}")


@pytest.mark.parametrize("room", ["losses", "metrics", "calibrators", "models"])
def test_what_is_listed_is_public(room: str) -> None:
    """``__all__`` holds names that are there, and no other room's."""
    package = room_named(room)
    assert len(set(package.__all__)) == len(package.__all__) > 5
    for name in package.__all__:
        assert getattr(package, name).__module__.startswith(package.__name__), name


@pytest.mark.parametrize("room", ["losses", "calibrators", "models"])
def test_what_can_be_built_is_public(room: str) -> None:
    """The classes that ``build`` makes by name can be imported from the room."""
    package = room_named(room)
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


@pytest.mark.parametrize(
    "name",
    [
        "calibrant",
        *(f"calibrant.{room}" for room in ("evaluation", "metrics", "reports")),
        "calibrant_lab.training",
    ],
)
def test_names_imported_on_first_use_are_there(name: str) -> None:
    """Each name of ``__all__``, which is read from what type checkers see, can be had; others cannot."""
    package = import_module(name)
    assert len(set(package.__all__)) == len(package.__all__) > 10
    assert all(hasattr(package, each) for each in package.__all__)
    assert {*dir(package), "__version__"} >= {*package.__all__}
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nonsense'"):
        _ = package.nonsense
