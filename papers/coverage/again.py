"""Sets that earlier code judged, judged once more: whether what they show is true of the code of today."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from papers.coverage.fingerprint import fingerprint
from papers.coverage.measure import (
    RECORDS,
    Cell,
    Lists,
    add,
    add_batches,
    cells_of,
    judged,
    sets_of,
)
from papers.coverage.numbers import place_of
from papers.coverage.settings import AIMED_AT, DEFAULT, ERRORS, Method, Setting
from papers.records import Records

LEFT_OUT = frozenset(ERRORS) - frozenset(AIMED_AT)


def run_again(
    store: Path,
    *,
    folder: Path | None,
    seeds: Sequence[int],
    setting: Setting = DEFAULT,
    tell: Callable[[str], None] = print,
) -> None:
    """The first batch of every cell once more, unless the code of today judged it."""
    records, method = Records(store / RECORDS), setting.method
    first = {
        place_of(record["cell"]): record.get("code")
        for record in records.all()
        if "errors" in record and record["seed"] in seeds[:1] and record["key"].endswith(f", {method}")
    }
    cells = [cell for cell in cells_of(setting, folder) if first.get(place_of(vars(cell))) != fingerprint()]
    if cells:
        add_batches(
            records,
            "again",
            cells,
            seeds[:1],
            lambda cell, seed: {"again": _batch(cell, folder, method, seed)},
            how=f"{fingerprint()}, {method}",
            tell=tell,
            added=f"{method.sets} sets judged once more",
        )


def _batch(cell: Cell, folder: Path | None, method: Method, seed: int) -> Lists:
    """The same sets, and the errors that are held against the aims."""
    rng = np.random.default_rng((seed, *cell.stream))
    errors: Lists = {}
    for predictions, procedure in sets_of(cell, folder, method, method.sets, rng):
        add(errors, judged(predictions, procedure, LEFT_OUT)[0])
    return errors
