"""The documented JSON schema."""

from __future__ import annotations

import json
from pathlib import Path

from calibrant.evaluation import Evaluation

DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "evaluation.schema.json"


def test_the_documented_schema_is_current() -> None:
    """It is ``json.dumps(Evaluation.json_schema(), indent=2)`` and a newline: write that to renew it."""
    assert json.loads(DOCUMENTED.read_text(encoding="utf-8")) == Evaluation.json_schema()
