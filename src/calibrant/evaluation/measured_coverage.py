"""Measured coverage of the intervals of calibration errors, from the study `coverage`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities import QUANTITIES, find
from calibrant.evaluation.quantity import EVENT, Kind
from calibrant.evaluation.result import Coverage, Coverages

FILE = Path(__file__).with_name("measured_coverage.json")  # written by `python -m papers coverage`


def coverage_of(procedure: Procedure, keys: Iterable[str]) -> Coverages | None:
    """Measured coverage of these quantities; ``None`` for intervals that were not measured."""
    found = _measured()
    measured = procedure.intervals == "inverted" and procedure.level == found["level"]
    if procedure.clusters is not None or not measured:
        return None
    wanted = {key: _measured_as(key, procedure.kind, found["values"]) for key in keys}

    def of(known: Mapping[str, Any]) -> dict[str, Coverage]:
        return {key: Coverage(**known[name]) for key, name in wanted.items() if name and name in known}

    return Coverages(level=found["level"], values=of(found["values"]), changes=of(found["changes"]))


def _measured_as(key: str, kind: Kind, measured: Mapping[str, Any]) -> str | None:
    """Key of the measured interval; a debiased error has that of the plain error."""
    plain = key.removeprefix(EVENT)
    quantity = find(key, kind)
    if plain in measured:
        return plain
    target = None if quantity is None else quantity.computed.target
    same = (each.key for each in QUANTITIES if each.computed.target == target and each.key in measured)
    return None if target is None else next(same, None)


@cache
def _measured() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))
