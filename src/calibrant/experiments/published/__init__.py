"""Numbers from the papers' result tables, which pages quote beside ours; README.md says what they are."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
