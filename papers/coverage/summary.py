"""The study in short, as reports quote it: one small file inside the package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from calibrant._math.files import write_text
from calibrant.evaluation.measured_coverage import FILE
from papers.coverage.claims import Share, covered, over_cells
from papers.coverage.settings import ERRORS

ENOUGH = 40  # sets of a cell, for its share to stand for itself


def summary_of(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Lowest, highest and mean coverage of each error, and of its change."""
    return {
        "level": numbers["setting"]["level"],
        "values": _summary(numbers["cells"]),
        "changes": _summary(numbers["changes"]),
    }


def _summary(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ERRORS:
        those = [cell for cell in cells if key in cell["errors"]]
        each = [cell["errors"][key] for cell in those]
        shares = [Share(value=error["covered"], sets=error["sets"]) for error in each]
        if not shares:
            continue
        enough = min(share.sets for share in shares) >= ENOUGH
        values = [round(covered(cell, key).value, 4) for cell in those]
        found[key] = {
            "average": round(over_cells(shares).value, 4),
            "lowest": min(values) if enough else None,
            "highest": max(values) if enough else None,
            "cells": len(shares),
            "sets": sum(share.sets for share in shares),
        }
    return found


def write_summary(numbers: Mapping[str, Any], folder: Path) -> list[Path]:
    """Renew the package's own file where the pages are written that belong to it."""
    if folder.resolve() != FILE.parents[3] / "docs" / "results":
        return []
    write_text(FILE, json.dumps(summary_of(numbers), indent=1) + "\n")
    return [FILE]
