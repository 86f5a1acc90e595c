"""Hands the roster of metrics to the tests that ask for a ``metric``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load_rosters() -> ModuleType:
    """The module ``tests/rosters.py``, executed once."""
    name = "calibrant_test_rosters"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "rosters.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def rosters() -> ModuleType:
    """What there is, with what is claimed of it."""
    return load_rosters()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of the test for every metric, or for every streaming class."""
    if "metric" in metafunc.fixturenames:
        entries = load_rosters().METRICS
        metafunc.parametrize("metric", entries, ids=[entry.name for entry in entries])
    if "streaming" in metafunc.fixturenames:
        entries = load_rosters().STREAMING
        metafunc.parametrize("streaming", entries, ids=[entry.name for entry in entries])
