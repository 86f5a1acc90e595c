"""Record the tests that run each line, and their durations."""

from __future__ import annotations

import ast
import json
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import coverage
import pytest
from forks import PYTEST, in_fork
from sample import ROOMS, ROOT, WORK, Mutant


class _Watch:
    """Inform coverage about the running test, and record durations."""

    def __init__(self, tracer: coverage.Coverage) -> None:
        self.tracer, self.seconds, self.passed = tracer, dict[str, float](), set[str]()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.tracer.switch_context(item.nodeid)
        start = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - start
            self.tracer.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def record() -> None:
    """Run each package's tests in a fork and record the lines, unless done."""
    for room in ROOMS:
        if (WORK / f"cover-{room}.json").exists():
            continue

        def watch_room(room: str = room) -> None:
            include = [f"{ROOT}/src/calibrant/{other}/*" for other in ROOMS]
            tracer = coverage.Coverage(data_file=None, include=include, config_file=False)
            watch = _Watch(tracer)
            tracer.start()
            pytest.main([*PYTEST, f"tests/{room}", f"src/calibrant/{room}"], plugins=[watch])
            tracer.stop()
            data = tracer.get_data()
            files = {Path(file).relative_to(ROOT).as_posix(): file for file in data.measured_files()}
            kept = {
                "seconds": {test: watch.seconds[test] for test in watch.passed},
                "lines": {name: data.contexts_by_lineno(file) for name, file in files.items()},
                "libraries": sorted(filter(_is_library, sys.modules)),
            }
            (WORK / f"cover-{room}.json").write_text(json.dumps(kept), encoding="utf-8")

        in_fork(watch_room, limit=3600)


def _is_library(name: str) -> bool:
    origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
    return bool(origin) and (".venv" in origin or not Path(origin).is_relative_to(ROOT))


@dataclass(frozen=True)
class Tests:
    """Recorded seconds by test, tests by file and line, and their libraries."""

    seconds: Mapping[str, float]
    lines: Mapping[str, Mapping[int, list[str]]]
    libraries: list[str]

    @classmethod
    def read(cls) -> Self:
        """Merge the packages' records."""
        seconds: dict[str, float] = {}
        lines: defaultdict[str, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        libraries: set[str] = set()
        for file in sorted(WORK.glob("cover-*.json")):
            kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            seconds |= kept["seconds"]
            libraries.update(kept["libraries"])
            for name, by_line in kept["lines"].items():
                for line, tests in by_line.items():
                    lines[name][int(line)] += [test for test in tests if test in kept["seconds"]]
        return cls(seconds, lines, sorted(libraries))

    def without(self, tests: set[str]) -> Self:
        """Return the records without some tests."""
        return replace(self, seconds={test: self.seconds[test] for test in self.seconds.keys() - tests})

    def chosen(self, mutant: Mutant, budget: float, *, compiled: bool) -> list[str]:
        """Return tests that run the mutant: the fastest for half of the time, then similar names."""
        usable = self._that_run(mutant, compiled=compiled) & self.seconds.keys()
        tests = sorted(usable, key=lambda test: (self.seconds[test], test))
        quick = self._until(tests, budget / 2)
        rest = tests[len(quick) :]
        random.Random(mutant["line"]).shuffle(rest)
        name = Path(mutant["file"]).stem.lstrip("_")
        rest.sort(key=lambda test: name not in Path(test.partition("::")[0]).stem)
        return quick + self._until(rest, budget / 2)

    def _that_run(self, mutant: Mutant, *, compiled: bool) -> set[str]:
        """Return the tests of the statement, or for compiled or import code of the file and its users."""
        file, number = mutant["file"], mutant["line"]
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        around = [node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.ExceptHandler))]
        around = [node for node in around if node.lineno <= number <= (node.end_lineno or 0)]
        nearest = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
        last = number if hasattr(nearest, "body") else nearest.end_lineno or 0
        first = number if hasattr(nearest, "body") else nearest.lineno
        tests = {test for line in range(first, last + 1) for test in self.lines.get(file, {}).get(line, [])}
        in_function = any(isinstance(node, ast.FunctionDef) and node is not nearest for node in around)
        if in_function and not compiled:
            return tests
        module = ".".join(Path(file).with_suffix("").parts[1:])
        users = [name for name in self.lines if module in (ROOT / name).read_text(encoding="utf-8")]
        return self._of_files([file, *users])

    def _of_files(self, files: list[str]) -> set[str]:
        return {test for file in files for tests in self.lines.get(file, {}).values() for test in tests}

    def _until(self, tests: Iterable[str], budget: float) -> list[str]:
        taken: list[str] = []
        for test in tests:
            budget -= self.seconds[test]
            if budget < 0 and taken:
                break
            taken.append(test)
        return taken
