"""A pytest plugin: run the tests that provoke errors, and write every sentence down; see ``freeze.py``.

    FROZEN_ERRORS=../before/errors PYTHONPATH=tools pytest -p freeze_errors tests/predictions tests/cli

A test provokes errors if its function says ``raises`` or expects exit code 2. Other tests are left out. The
folders ``predictions``, ``_math``, ``metrics``, ``losses``, ``repair`` and ``cli`` give 2,300 sentences in a
minute.
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

import pytest
from _pytest.raises import RaisesExc

PROVOKES = re.compile(r"raises|refuse|message\(|SAID|exit_code == 2|code == 2")
SENTENCES: set[str] = set()
_exit = RaisesExc.__exit__


def _note(error: BaseException) -> None:
    text = re.sub(r"/\S*/(pytest|tmp)[^\s:]*/", "", str(error))
    SENTENCES.add(f"{type(error).__name__}: " + " ".join(re.sub(r"0x[0-9a-f]+", "…", text).split()))


def _expected(self: Any, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
    if exc_val is not None:
        _note(exc_val)
    return _exit(self, exc_type, exc_val, exc_tb)


def _made(self: Any, *arguments: Any) -> None:
    ValueError.__init__(self, *arguments)
    _note(self)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that provoke errors; from here on, note what ``raises`` and commands meet."""
    from calibrant._math.errors import InputError

    RaisesExc.__exit__, InputError.__init__ = _expected, _made  # type: ignore[method-assign]
    functions = {item: getattr(item, "function", None) for item in items}
    kept = [each for each, of in functions.items() if of and PROVOKES.search(inspect.getsource(of))]
    config.hook.pytest_deselected(items=[*{*items} - {*kept}])
    items[:] = kept


def pytest_sessionfinish() -> None:
    """Write one file for each process; ``sort -u`` joins them."""
    folder = os.environ.get("FROZEN_ERRORS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        Path(folder, f"{worker}.txt").write_text("\n".join(sorted(SENTENCES)) + "\n", encoding="utf-8")
