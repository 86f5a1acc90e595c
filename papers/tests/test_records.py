"""Records of a study: kept as they come, and not computed again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calibrant._math.errors import InputError
from papers.runs import Records


def test_records_resume(tmp_path: Path) -> None:
    """What is there is not computed again; a cut-off last line is dropped, another bad line is refused."""
    path = tmp_path / "records.jsonl"
    assert Records(path).get("a", lambda: {"value": 1})["value"] == 1
    assert Records(path).get("a", lambda: {"value": 2})["value"] == 1
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "b", "val')
    assert Records(path).get("b", lambda: {"value": 3})["value"] == 3
    assert [json.loads(line)["value"] for line in path.read_text(encoding="utf-8").splitlines()] == [1, 3]
    path.write_text('nonsense\n{"key": "b"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 1, is not a record of a study"):
        Records(path)
