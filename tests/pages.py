"""Pages of the documentation as programs: their Python and shell blocks, one after the other."""

from __future__ import annotations

import functools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import calibrant
from command_line import call

DOCS = Path(__file__).parents[1] / "docs"
_BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
RESAMPLING = {"evaluate", "compare"}
surroundings = pytest.MonkeyPatch.context


def run_blocks(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, few: bool = True
) -> dict[str, Any]:
    """Run every block of a page; what its Python defined. Few resamples spare tests most of the work."""
    text = (DOCS / page).read_text(encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if few:
        quick = functools.partial(calibrant.evaluate, bootstrap=40, null_draws=40)
        monkeypatch.setattr(calibrant, "evaluate", quick)
    defined: dict[str, Any] = {"__name__": "page"}
    for found in _BLOCK.finditer(text):
        if found[1] == "python":
            above = text.count("\n", 0, found.start(2))  # so that a traceback names the line of the page
            exec(compile("\n" * above + found[2], str(DOCS / page), "exec"), defined)
            continue
        for line in re.findall(r"^\$ calibrant (.*)$", found[2], flags=re.MULTILINE):
            command, *arguments = shlex.split(line, comments=True)
            more = ["--bootstrap", "40"] if few and command in RESAMPLING else []
            done = call(command, *arguments, *more, folder=folder)
            assert done.returncode == 0, f"calibrant {line}\n{done.stderr}"
    return defined
