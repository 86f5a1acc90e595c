"""Hands the rosters of metrics and streaming classes to the tests that ask for one."""

import pytest

from rosters import METRICS
from rosters_streaming import STREAMING


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for fixture, entries in (("metric", METRICS), ("streaming", STREAMING)):
        if fixture in metafunc.fixturenames:
            metafunc.parametrize(fixture, entries, ids=[entry.name for entry in entries])
