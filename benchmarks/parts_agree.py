"""Whether a table that is read part by part has the values of its rows in memory.

Run as ``CALIBRANT_DATA=FOLDER python benchmarks/parts_agree.py`` (the test splits of four files of real
predictions, as they came, and made-up calibrated tables of 1e6 and 2e6 rows and 10 classes: minutes). Writes
``results/parts_agree.json`` and the table of ``scale.md``, between its markers; ``--page``
writes the page alone.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from environment import RESULTS, environment, write
from scale import OVER_CONFIDENCE, PAGE, invented

FILES = (
    "logits_eurosat_rgb/eurosat_rgb.npz",
    "logits_netcal_cifar/lenet-5-cifar-10.npz",
    "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz",
    "probs_pycalib_small/kitti_1layer_NN.npz",
)
MADE_UP = (1_000_000, 2_000_000)
START, END = "<!-- made by benchmarks/parts_agree.py -->", "<!-- end of the differences -->"


def differences(given: Any) -> dict[str, float]:
    """How far each quantity is off, and its AUROC's standard error as a share, under ``error of auroc``."""
    from calibrant import load_predictions
    from calibrant.evaluation.arguments import as_judged
    from calibrant.evaluation.judging.reduce import reduce_predictions
    from calibrant.evaluation.quantities import optional_keys
    from calibrant.evaluation.resampling.events import standard_error
    from calibrant.evaluation.source import samples_of
    from calibrant.predictions import PartitionedPredictions

    with tempfile.TemporaryDirectory() as folder:
        given.save(Path(folder) / "rows.parquet")
        table = PartitionedPredictions(folder)
        parts = samples_of(table, 15).reduced(optional_keys())
        rows = as_judged(load_predictions(Path(folder) / "rows.parquet"))
        memory = reduce_predictions(rows, 15, metrics=optional_keys())
    found: dict[str, float] = {}
    for key, value in memory.values.items():
        name = key.removeprefix("event_")
        found[name] = max(found.get(name, 0.0), abs(parts.values[key] - value))
    errors = (
        standard_error(each.influences["auroc"], each.weights, each.clusters) for each in (parts, memory)
    )
    return found | {"error of auroc": next(errors) / next(errors)}


def measure() -> dict[str, Any]:
    """Files, then made-up tables, of which the last has more rows than are kept."""
    from calibrant import Predictions, load_predictions

    folder = Path(os.environ["CALIBRANT_DATA"])
    found = {name: differences(load_predictions(folder / name).test) for name in FILES}
    rng = np.random.default_rng(0)
    for rows in MADE_UP:
        logits, labels = invented(rng, 10, rows)
        scores = np.ascontiguousarray(logits.T) / np.float32(OVER_CONFIDENCE)
        found[f"{rows:,} rows"] = differences(Predictions(logits=scores, labels=labels))
    return {"differences": found, "environment": environment("calibrant", "torch", "numpy", "numba")}


def table(found: dict[str, dict[str, float]]) -> str:
    """Markdown: the largest difference of the files, and that of each made-up table."""
    from calibrant.evaluation.quantities import QUANTITIES

    made_up = [name for name in found if name not in FILES]
    lines = [f"| quantity | four files | {' | '.join(made_up)} |", "|---|" + "---:|" * (1 + len(made_up))]
    columns = [{}, *(found[name] for name in made_up)]
    for name in FILES:
        for key, value in found[name].items():
            columns[0][key] = max(columns[0].get(key, 0.0), value)
    exact: list[str] = []
    for quantity in QUANTITIES:
        values = [each.get(quantity.key) for each in columns]
        if all(value is None or value <= 1e-12 for value in values):
            exact.append(quantity.title)
        else:
            lines.append(f"| {quantity.title} | {' | '.join(map(shown, values))} |")
    most = [
        max((each.get(q.key, 0.0) for q in QUANTITIES if q.title in exact), default=0.0) for each in columns
    ]
    lines.insert(2, f"| all others | {' | '.join(map(shown, most))} |")
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """A difference with two digits."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits} × 10{str(int(power)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="write the page alone")
    if not parser.parse_args().page:
        write("parts_agree", measure())
    found = json.loads((RESULTS / "parts_agree.json").read_text(encoding="utf-8"))["differences"]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{START}\n{table(found)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
