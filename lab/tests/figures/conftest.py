"""Quicker searches and smaller pictures for the tests of the landscape."""

from collections.abc import Iterator

import pytest

from calibrant_lab.figures import landscape
from few_points import few_points


@pytest.fixture(name="few_points")
def _few_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(landscape, "_PIXELS", {**landscape._PIXELS, "nll": (56, 61), "classwise": (21, 26)})
    monkeypatch.setattr(landscape, "_FEWER_PIXELS", (31, 41))
    with few_points():
        yield
