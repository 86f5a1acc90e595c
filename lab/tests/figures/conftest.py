"""Quicker searches for the tests of the landscape."""

from collections.abc import Iterator

import pytest

from few_points import few_points


@pytest.fixture(name="few_points")
def _few_points() -> Iterator[None]:
    with few_points():
        yield
