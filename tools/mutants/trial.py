"""Try one mutant: a fork imports calibrant with one file replaced and runs tests until one fails.

The process that forks has every library loaded, but nothing of calibrant. Numba would load what it compiled
before the change, so a compiled function that is mutated is interpreted.
"""

from __future__ import annotations

import ast
import os
import time
import warnings
from collections.abc import Iterable
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from forks import PYTEST, in_fork
from sample import ROOT, Mutant, mutated
from tests_of_lines import Tests

LIMIT = 90.0  # seconds, after which a mutant is given up


def outcome(mutant: Mutant, tests: Tests, budget: float) -> dict[str, Any]:
    """Return killed, with the test; survived; or timed out."""
    path = (ROOT / mutant["file"]).resolve()
    with warnings.catch_warnings(action="ignore"):
        code = compile(mutated(mutant) or "", str(path), "exec", dont_inherit=True)
    compiled = is_compiled(mutant)
    left, spent = tests.chosen(mutant, budget, compiled=compiled), 0.0
    while left:
        done = tried(left, code, compiled=compiled)
        if done is None:
            return {"outcome": "timed out", "tests": len(left)}
        spent += done["seconds"]
        result = {"tests": done["run"], "seconds": round(spent, 1)}
        if done["status"] == 0:
            return result | {"outcome": "survived" if done["loaded"] else "not loaded"}
        killer = done["failed"][0] if done["failed"] else ""
        if not killer and not _can_be_read(tuple(sorted({test.partition("::")[0] for test in left}))):
            return result | {"outcome": f"pytest ended with {done['status']}"}
        if not killer or not compiled or not failing([killer], compiled=True):
            return result | {"outcome": "killed", "by": killer or "import"}
        left = [test for test in left if test != killer]
    return {"outcome": "survived", "tests": 0}


def is_compiled(mutant: Mutant) -> bool:
    """Return True if the change is in a function that numba compiles, or in a constant."""
    tree = ast.parse((ROOT / mutant["file"]).read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    compiled = [node for node in functions if any("jit" in ast.unparse(part) for part in node.decorator_list)]
    constants = [node for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))]
    places = compiled + constants if compiled else []
    return any(node.lineno <= mutant["line"] <= (node.end_lineno or 0) for node in places)


def failing(tests: Iterable[str], *, compiled: bool = False) -> set[str]:
    """Return tests that fail in a fork without mutation: they cannot kill."""
    done = tried(sorted(tests), None, compiled=compiled, limit=1200)
    return set(tests) if done is None else set(done["failed"])


@cache
def _can_be_read(files: tuple[str, ...]) -> bool:
    """Return True if test files load without the mutant."""
    done = tried(list(files), None, compiled=False)
    return done is not None and done["status"] == 5  # no test is called like a file


def tried(
    tests: list[str], code: CodeType | None, *, compiled: bool, limit: float = LIMIT
) -> dict[str, Any] | None:
    """Run tests in a fork, with a mutant until one fails; return None on timeout."""

    def task() -> dict[str, Any]:
        if compiled:
            import numba

            numba.config.DISABLE_JIT = 1
        loaded = _replace(code) if code is not None else []
        select = _Select(tests)
        files = sorted({test.partition("::")[0] for test in tests})
        start = time.process_time()
        status = int(pytest.main([*PYTEST, *(["-x"] if code else []), *files], plugins=[select]))
        seconds = time.process_time() - start
        return {
            "status": status,
            "failed": select.failed,
            "run": select.run,
            "seconds": seconds,
            "loaded": loaded,
        }

    return in_fork(task, limit)


def _replace(code: CodeType) -> list[str]:
    """Make Python load ``code`` in place of its file; return the affected modules."""
    plain, loaded = SourceFileLoader.get_code, list[str]()

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if os.path.realpath(self.path) != code.co_filename:
            return plain(self, fullname)
        loaded.append(fullname)
        return code

    SourceFileLoader.get_code = get_code
    return loaded


class _Select:
    """Run selected tests, a file at a time, and keep failures."""

    def __init__(self, tests: list[str]) -> None:
        self.rank = {test: rank for rank, test in enumerate(tests)}
        self.failed, self.run = list[str](), 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = sorted((item for item in items if item.nodeid in self.rank), key=self._rank)
        first: dict[Path, int] = {}
        for item in kept:
            first.setdefault(item.path, self._rank(item))
        items[:] = sorted(kept, key=lambda item: (first[item.path], self._rank(item)))

    def _rank(self, item: pytest.Item) -> int:
        return self.rank[item.nodeid]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.run += report.when == "call"
        if report.failed:
            self.failed.append(report.nodeid)
