"""More sets whose truth is stated, judged without intervals: how often chance alone raises an alarm.

There an interval covers exactly where its error does not count as real, so these sets speak for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.evaluation.judging.noise import draw_noise
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.thresholds import beyond_chance
from papers.coverage.measure import (
    RECORDS,
    Cell,
    add_batches,
    cells_of,
    forms_of,
    sets_of,
)
from papers.coverage.settings import AIMED_AT, DEFAULT, Method, Setting
from papers.coverage.verdicts import judged_parts
from papers.records import Records


def calibrated_cells(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Those whose predictions state the truth."""
    return (cell for cell in cells if cell.scale == 1 or cell.stated == "the truth")


def alarm_batch(cell: Cell, folder: Path | None, method: Method, seed: int, sets: int) -> dict[str, Any]:
    """On how many of so many sets the gate calls each error real, and any part of the verdict fails."""
    rng = np.random.default_rng((seed, 1, *cell.stream))
    real: dict[str, int] = {}
    blamed = 0
    for predictions, procedure in sets_of(cell, folder, method, sets, rng):
        reduced = reduce_predictions(predictions, procedure.num_bins)
        noise = draw_noise(reduced, procedure)
        for key, form in forms_of(reduced, procedure.kind).items():
            null = noise.null(form) if key in AIMED_AT else None
            if null is not None:
                real[key] = real.get(key, 0) + beyond_chance(null.p_value, method.level)
        blamed += any(beyond_chance(part.adjusted_p, method.level) for part in judged_parts(noise))
    return {"sets": sets, "real": real, "verdict": blamed}


def run_alarms(
    store: Path,
    *,
    folder: Path | None,
    seeds: Sequence[int],
    setting: Setting = DEFAULT,
    tell: Callable[[str], None] = print,
) -> None:
    """A batch of each seed in every cell whose truth is stated, unless the store has it."""
    method, sets = setting.method, setting.alarm_sets
    add_batches(
        Records(store / RECORDS),
        "alarms",
        list(calibrated_cells(cells_of(setting, folder))),
        seeds,
        lambda cell, seed: {"alarms": alarm_batch(cell, folder, method, seed, sets)},
        how=f"{sets} sets, {method}",
        tell=tell,
        added=f"alarms of {sets} more sets",
    )
