"""What every test may use: reference values, the folder of real data, a seeded generator."""

from __future__ import annotations

import gc
import json
import os
import re
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

# Read when torch is loaded: threads that wait by spinning starve each other on a shared machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ["CALIBRANT_OFFLINE"] = "1"  # a test that wants a data set finds it, or says so
os.environ["SOURCE_DATE_EPOCH"] = "1767225600"  # the day that reports are dated, 1 January 2026

import shapes

shapes.install()
gc.disable()  # while tests are collected

settings.register_profile("calibrant", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("calibrant")

if not (Path(__file__).parent / "src").is_dir():  # against an installed wheel, away from the repository
    collect_ignore = [
        str(path)
        for path in (Path(__file__).parent / "tests").rglob("test_*.py")
        if re.search(r"parents\[\d\]|import_graph|from pages import", path.read_text(encoding="utf-8"))
    ]

GOLDEN = Path(__file__).parent / "tests" / "golden"


def pytest_collection_finish() -> None:
    """Spare the collector what stays to the end: modules, tests, the libraries that they import."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # the usual 700 cost a twentieth of the suite
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Check the annotated shapes while a test of the four lowest rooms runs."""
    with shapes.checking(item.path):
        return (yield)


@pytest.fixture(autouse=True)
def _pyplot_figures_end() -> Generator[None]:
    """Close what a test drew without axes; pyplot keeps its figures, and warns of the twenty-first."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def golden() -> Callable[[str], Any]:
    """Read a file of reference values from ``tests/golden``."""

    def read(name: str) -> Any:
        return json.loads((GOLDEN / name).read_text(encoding="utf-8"))

    return read


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real predictions; the test is skipped where there is none."""
    folder = os.environ.get("CALIBRANT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set CALIBRANT_DATA to the folder of real predictions to run this")
    return Path(folder)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed."""
    return np.random.default_rng(20201115)
