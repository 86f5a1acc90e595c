"""Sets that earlier code judged, judged once more: whether what they show is true of the code of today."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from calibrant.experiments.records import Record, Records
from calibrant.experiments.studies.coverage.fingerprint import fingerprint
from calibrant.experiments.studies.coverage.measure import (
    RECORDS,
    Cell,
    Lists,
    add,
    add_batches,
    cells_of,
    judged,
    place_of,
    predictions_of,
    procedure_of,
)
from calibrant.experiments.studies.coverage.settings import AIMED_AT, DEFAULT, ERRORS, Method, Setting

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
            lambda cell, seed: {"again": _batch(cell, folder, method, seed), "code": fingerprint()},
            how=f"{fingerprint()}, {method}",
            tell=tell,
            added=f"{method.sets} sets judged once more",
        )


def _batch(cell: Cell, folder: Path | None, method: Method, seed: int) -> Lists:
    """The same sets, and the errors that are held against the aims."""
    rng = np.random.default_rng((seed, *cell.stream))
    errors: Lists = {}
    for _ in range(method.sets):
        predictions = predictions_of(cell, folder, method, rng)
        procedure = procedure_of(predictions.kind, method, int(rng.integers(1 << 30)))
        add(errors, judged(predictions, procedure, LEFT_OUT)[0])
    return errors


def compared(cells: Sequence[Sequence[Record]]) -> dict[str, Mapping[str, float]]:
    """Of each error the sets that were judged twice, and what became of their intervals.

    ``moved`` counts those that hold the true error where they did not, or the other way round; ``width`` is
    their mean width over the one before.
    """
    found: dict[str, list[tuple[bool, bool, float]]] = {}
    for batches in cells:
        last = {batch["seed"]: batch for batch in batches if "again" in batch}
        before = {batch["seed"]: batch for batch in batches if "errors" in batch}
        for seed, batch in last.items():
            truth = before[seed]["truth"]
            for key, now in batch["again"].items():
                then = before[seed]["errors"][key]
                ends = zip(then["low"], then["high"], now["low"], now["high"], strict=True)
                found.setdefault(key, []).extend(
                    (
                        low - 1e-9 <= truth[key] <= high + 1e-9,
                        new_low - 1e-9 <= truth[key] <= new_high + 1e-9,
                        (new_high - new_low) / (high - low),
                    )
                    for low, high, new_low, new_high in ends
                )
    return {
        key: {
            "sets": len(each),
            "before": round(sum(one for one, _, _ in each) / len(each), 8),
            "covered": round(sum(other for _, other, _ in each) / len(each), 8),
            "moved": sum(one != other for one, other, _ in each),
            "width": round(sum(ratio for _, _, ratio in each) / len(each), 6),
        }
        for key, each in sorted(found.items(), key=lambda pair: ERRORS.index(pair[0]))
    }
