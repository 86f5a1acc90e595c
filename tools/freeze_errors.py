"""A pytest plugin that writes the sentence of every expected error: see ``freeze.py``."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from _pytest.raises import RaisesExc

SENTENCES: set[str] = set()
_exit = RaisesExc.__exit__


def _noted(self: Any, exc_type: Any, exc_val: Any, exc_tb: Any) -> Any:
    if exc_val is not None:
        text = re.sub(r"/\S*/(pytest|tmp)\S*/", "", str(exc_val))
        SENTENCES.add(f"{type(exc_val).__name__}: " + " ".join(re.sub(r"0x[0-9a-f]+", "…", text).split()))
    return _exit(self, exc_type, exc_val, exc_tb)


RaisesExc.__exit__ = _noted  # type: ignore[method-assign]


def pytest_sessionfinish() -> None:
    """Write one file for each process; ``sort -u`` joins them."""
    folder = os.environ.get("FROZEN_ERRORS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        Path(folder, f"{worker}.txt").write_text("\n".join(sorted(SENTENCES)) + "\n", encoding="utf-8")
