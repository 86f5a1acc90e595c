"""JSON of older schema versions, as the present one says the same."""

from __future__ import annotations

import json
from typing import Any


def upgraded(text: str) -> str:
    """An evaluation of schema version 2 in the words of version 3; any other text as it is.

    In version 2 the rows of groups called the rate ``accuracy`` and the mean prediction ``mean_confidence``,
    and their p-value was that of the calibration error.
    """
    try:
        data = json.loads(text)
    except ValueError:  # which the reader reports
        return text
    if not isinstance(data, dict) or data.get("schema_version") != 2:
        return text
    for arm in data.get("arms", ()):
        for row in arm.get("groups", ()):
            _rename(row)
    return json.dumps(data | {"schema_version": 3})


def _rename(row: dict[str, Any]) -> None:
    for old, new in (("accuracy", "actual"), ("mean_confidence", "predicted")):
        if old in row:
            row[new] = row.pop(old)
    row.setdefault("p_value", row.get("null", {}).get("p_value"))
