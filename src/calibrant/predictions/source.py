"""Origin of predictions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Source:
    """File that was read."""

    name: str
    sha256: str
    format: str
    path: str | None = None
    """Path as given, for commands that can be run again."""
