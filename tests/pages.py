"""Pages of the documentation as programs: their Python and shell blocks, one after the other."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import calibrant
from command_line import call
from undrawn import drawing_no_diagrams

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FEW = {name: ["--bootstrap", "10"] for name in ("evaluate", "compare", "monitor")}
FEW["check"] = ["--bootstrap", "40"]
"""Few resamples spare tests most of the work."""


def tool(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name.rpartition("/")[2], ROOT / f"tools/{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


BLOCKS = tool("output_blocks")


def run_blocks(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run every block of a page with few resamples; what its Python defined."""
    text = (DOCS / page).read_text(encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("MPLBACKEND", "agg")
    evaluate = calibrant.evaluate
    for name, draws in (
        ("calibrant", 20),
        ("calibrant.evaluation", 20),
        ("calibrant_lab.training.run_report", 2),
    ):
        few = {"bootstrap": 10, "null_draws": draws}
        monkeypatch.setattr(f"{name}.evaluate", lambda *given, few=few, **how: evaluate(*given, **how | few))
    known, defined = set(sys.modules), {"__name__": "page"}
    with drawing_no_diagrams():
        for found in BLOCKS.BLOCK.finditer(text):
            if found["language"] == "console":
                for line, _ in BLOCKS.COMMAND.findall(found["code"]):
                    run_command(line, folder)
            else:
                name = "code" if found["code"] else "hidden"
                above = text.count("\n", 0, found.start(name))  # so that a traceback names it
                exec(compile("\n" * above + found[name], str(DOCS / page), "exec"), defined)
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    return defined


def run_command(line: str, folder: Path) -> None:
    """A command of a page, which exits with 0, or with 1 if its comment says so."""
    line = line.replace("--engine pool", "--engine serial")  # processes begin with imports
    program, *arguments = shlex.split(line.replace("\\\n", " "), comments=True)
    if program == "calibrant":
        done = call(*arguments, *FEW.get(arguments[0], []), folder=folder)
        assert done.returncode == int("exits with 1" in line), f"{line}\n{done.stdout}{done.stderr}"


def shown_commands(page: Path) -> list[list[str]]:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(?:bash|yaml)\n(.*?)^ *```$", text, flags=re.DOTALL | re.MULTILINE)
    lines = re.findall(r"calibrant ((?:.*\\\n)*.*)", "\n".join(blocks))
    words = (shlex.split(line.partition(" > ")[0].replace("\\\n", " "), comments=True) for line in lines)
    return [each for each in words if re.match(r"[a-z]+$", each[0]) and each[0] != "in"]
