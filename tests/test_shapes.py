"""The shapes that annotations state are checked while the tests run."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import calibrant
import shapes

SOURCE = Path(calibrant.__file__).parent
MODULES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for room in shapes.ROOMS
    for path in sorted((SOURCE / room).rglob("*.py"))
    if path.stem != "__init__"
]

PLANTED = """
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numba import njit

from calibrant._math.shapes import Float

if TYPE_CHECKING:
    from torch import Tensor


def halves(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    return values / 2


def transposed(table: Float[Tensor, "N C"]) -> Float[Tensor, "N C"]:
    return table.T


def dot(left: Float[Tensor, " N"], right: Float[Tensor, " N"]) -> Float[Tensor, ""]:
    if left.shape[0] > 9:
        raise ValueError("too long")
    return (left * right).sum()


@dataclass(frozen=True)
class Pair:
    first: Float[Tensor, " N"]
    second: Float[Tensor, " N"]

    @property
    def sums(self) -> Float[Tensor, ""]:
        return self.first + self.second

    @staticmethod
    def of(table: Float[Tensor, "N 2"]) -> Pair:
        return Pair(table[:, 0], table[:, 1])


class Ends(NamedTuple):
    low: Float[Tensor, " N"]
    high: Float[Tensor, " N"] | None = None


@njit
def compiled(values: Float[np.ndarray, " N"]) -> float:
    return values[0]
"""


@pytest.fixture(autouse=True)
def checks() -> Iterator[None]:
    """Check here too, although these are the tests of no room."""
    with shapes.checking(Path("_math")):
        yield


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """A module with true and false annotations, wrapped as those of the package are."""
    path = tmp_path_factory.mktemp("shapes") / "planted_shapes.py"
    path.write_text(PLANTED, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("planted_shapes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_shapes"] = module
    spec.loader.exec_module(module)
    shapes.check_module(module)
    yield module
    del sys.modules["planted_shapes"]


def test_true_annotations_pass(planted: ModuleType) -> None:
    values = torch.ones(3)
    assert torch.equal(planted.halves(values), values / 2)
    assert torch.equal(planted.transposed(torch.eye(2)), torch.eye(2))
    assert planted.Pair.of(torch.ones(3, 2)).first.shape == (3,)
    assert planted.Ends(values).high is None
    assert not hasattr(planted, "Tensor")
    assert planted.compiled(values.numpy()) == 1
    assert not hasattr(planted.compiled, "shapes_are_checked")


def test_wrong_return_shape_is_caught(planted: ModuleType) -> None:
    """A planted annotation that the result breaks is an error, also of a property."""
    with pytest.raises(shapes.ShapeError, match="transposed"):
        planted.transposed(torch.ones(2, 3))
    with pytest.raises(shapes.ShapeError, match="sums"):
        _ = planted.Pair(torch.ones(3), torch.ones(3)).sums


def test_wrong_arguments_are_caught(planted: ModuleType) -> None:
    """Arguments that break the annotations are an error where the function takes them without a word."""
    for name, call in (
        ("values", lambda: planted.halves(torch.ones(2, 3))),
        ("values", lambda: planted.halves(torch.ones(3, dtype=torch.int64))),
        ("right", lambda: planted.dot(torch.ones(3), torch.ones(1))),
        ("second", lambda: planted.Pair(torch.ones(3), torch.ones(4))),
        ("high", lambda: planted.Ends(torch.ones(3), high=torch.ones(4))),
        ("table", lambda: planted.Pair.of(torch.ones(3, 3))),
    ):
        with pytest.raises(shapes.ShapeError, match=name):
            call()
    with pytest.raises(ValueError, match="too long"):  # what the function refuses it refuses itself
        planted.dot(torch.ones(10), torch.ones(1))


def test_compilation_sees_the_bare_function(planted: ModuleType) -> None:
    """``torch.compile`` traces through without a break."""
    compiled = torch.compile(planted.halves, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 0.5))


def test_annotations_have_a_meaning() -> None:
    """Every shape in the checked rooms can be evaluated, also of functions that no test calls."""
    for module in map(importlib.import_module, MODULES):
        for function in shapes.shape_annotated(module):
            assert shapes.evaluated(function, module), function


def test_the_package_is_checked() -> None:
    checked = {name for name in MODULES if any(shapes.shape_annotated(importlib.import_module(name)))}
    wanted = {room for room in shapes.ROOMS if f"calibrant.{room}." not in shapes.EXEMPT}
    assert {name.split(".")[1] for name in checked} == wanted
    scores = importlib.import_module("calibrant._math.scores")
    with pytest.raises(shapes.ShapeError, match="weighted_sum"):
        scores.weighted_mean(torch.ones(3, 2), None)


def test_exemptions_are_still_there() -> None:
    for start, reason in shapes.EXEMPT.items():
        assert any(name.startswith(start.partition(":")[0]) for name in MODULES), start
        assert reason
