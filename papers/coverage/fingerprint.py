"""Which code judged a set."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

JUDGES = ("_math", "evaluation/judging", "evaluation/resampling")
"""Folders of the package on which intervals rest."""


@cache
def fingerprint() -> str:
    """The code of today, in twelve letters."""
    package = Path(__file__).parents[3]
    files = [file for folder in JUDGES for file in sorted((package / folder).rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
