"""Hands the roster of metrics to the tests that ask for a ``metric``."""

from __future__ import annotations

from types import ModuleType

import pytest

import rosters as roster_module


@pytest.fixture(scope="session")
def rosters() -> ModuleType:
    """What there is, with what is claimed of it."""
    return roster_module


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of the test for every metric, or for every streaming class."""
    if "metric" in metafunc.fixturenames:
        entries = roster_module.METRICS
        metafunc.parametrize("metric", entries, ids=[entry.name for entry in entries])
    if "streaming" in metafunc.fixturenames:
        entries = roster_module.STREAMING
        metafunc.parametrize("streaming", entries, ids=[entry.name for entry in entries])
