"""The links of the README; what it shows is run by ``test_output_blocks.py``."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_linked_file_exists() -> None:
    """Relative links and pictures of the README lead somewhere."""
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
