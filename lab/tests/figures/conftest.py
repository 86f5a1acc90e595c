"""Quicker searches for the tests of the landscape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from few_points import few_points


@pytest.fixture(name="few_points")
def _few_points() -> Iterator[None]:
    with few_points():
        yield
