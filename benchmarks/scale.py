"""What an evaluation costs that reads a table part by part: rows a second, memory, and 1e12 rows on paper.

Run as ``python benchmarks/scale.py`` (tables of 10 classes with 1e6 and 1e7 rows, of 1000 classes with 1e5
and 1e6: 4 GB on disk and some minutes; or ``--rows 100000000 --classes 10``, which adds one size). Each table
is written to a temporary folder, and judged in a fresh process. Writes ``results/scale.json`` and the numbers
of ``scale.md``, between its markers; ``--page`` writes the page alone. ``--real FILE`` does
the same with tables of 1e6, 1e7 and 1e8 rows drawn with replacement from a file of real predictions (4 GB on
disk and some minutes at ten classes; ``--rows`` for one size), and draws ``docs/images/scale.png``.

Times are those of the processor, so that other work beside does not count. The physical limit is to decode
the columns with Arrow and to go once over scores in memory, each measured alone in the same process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from environment import RESULTS, commit, environment, write
from memory import resident

SIZES = ((10, 10**6), (10, 10**7), (1000, 10**5), (1000, 10**6))
REAL_SIZES = (10**6, 10**7, 10**8)
GROUP = 1 << 22  # scores of a row group
PAGE = Path(__file__).with_name("scale.md")
PICTURE = PAGE.parents[1] / "docs" / "images" / "scale.png"
START, END = "<!-- made by benchmarks/scale.py -->", "<!-- end -->"
SPENT = 2.0
"""CPU seconds to measure a pass over one piece for."""
DISK = 10**9
"""Bytes a second of one fast disk, which the paper estimate assumes."""
CORES = 1000
OVER_CONFIDENCE = 1.4


Block = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]  # logits (C, n), labels (n,)


def invented(rng: np.random.Generator, num_classes: int, count: int) -> Block:
    """Over-confident logits, and labels."""
    logits = rng.standard_normal((num_classes, count), dtype=np.float32) * np.float32(2)
    noise = rng.random((num_classes, count), dtype=np.float32)
    labels = (logits - np.log(-np.log(noise + np.float32(1e-30)) + np.float32(1e-30))).argmax(axis=0)
    return logits * np.float32(OVER_CONFIDENCE), labels


def drawn_from(file: Path) -> tuple[int, Callable[[np.random.Generator, int, int], Block]]:
    """The classes of real predictions, and what draws rows of them."""
    from calibrant import load_predictions

    held = load_predictions(file)
    if held.labels is None:
        raise SystemExit(f"{file} holds no labels.")
    values = held.values if held.space == "logits" else held.values.clamp_min(1e-12).log()
    logits, labels = values.numpy().astype(np.float32), held.labels.numpy()

    def draw(rng: np.random.Generator, _: int, count: int) -> Block:
        rows = rng.integers(len(labels), size=count)
        return np.ascontiguousarray(logits[rows].T), labels[rows]

    return logits.shape[1], draw


def make(
    path: Path,
    rows: int,
    num_classes: int,
    draw: Callable[[np.random.Generator, int, int], Block] = invented,
) -> None:
    """Logits in float32, labels, all marked for testing; written row group by row group."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    names = [f"logit_{k}" for k in range(num_classes)]
    fields = [
        ("label", pyarrow.int64()),
        ("split", pyarrow.int64()),
        *((name, pyarrow.float32()) for name in names),
    ]
    step = max(1, GROUP // num_classes)
    with parquet.ParquetWriter(
        path, pyarrow.schema(fields), compression="snappy", use_dictionary=False
    ) as file:
        for start in range(0, rows, step):
            count = min(step, rows - start)
            logits, labels = draw(rng, num_classes, count)
            columns = [labels, np.ones(count, np.int64), *logits]
            file.write_table(pyarrow.table(columns, schema=pyarrow.schema(fields)), row_group_size=count)


def cpu(work: Any) -> float:
    """CPU seconds of a call, of all threads."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(path: Path) -> dict[str, Any]:
    """In this process: decoding alone, a pass alone, and an evaluation."""
    from pyarrow.parquet import ParquetFile

    from calibrant import evaluate
    from calibrant.evaluation.parts.source import summed
    from calibrant.evaluation.parts.sums import BatchSums, Deal
    from calibrant.predictions import PartitionedPredictions
    from calibrant.predictions.stores import PIECE

    table = PartitionedPredictions(path)
    rows, num_classes = table.num_samples, table.num_classes
    deal = Deal.of(table, 15, fits=False)
    piece = next(iter(table.pieces(table.parts[0])))
    chosen, batches = deal.rows(piece, "test")

    def added(times: int) -> None:
        sums = BatchSums(
            kind=table.kind,
            num_classes=num_classes,
            num_bins=15,
            num_batches=deal.num_batches,
            num_samples=rows,
        )
        for _ in range(times):
            sums.add(piece, chosen, batches, logits=True, calibrator=None)

    def decoded() -> None:
        for batch in ParquetFile(path, buffer_size=1 << 16, pre_buffer=False).iter_batches(
            max(1, PIECE // num_classes)
        ):
            del batch

    added(1)  # compiled
    once = cpu(lambda: added(1))
    times = max(3, math.ceil(SPENT / once))
    one_pass = cpu(lambda: added(times)) / times / len(chosen) * rows
    began = resident("VmHWM")
    decode = min(cpu(decoded) for _ in range(2))
    sums = min(
        cpu(lambda: summed(table, deal, 15, (None,))) for _ in range(2 if rows * num_classes <= 10**8 else 1)
    )
    judged = cpu(lambda: evaluate(table, calibrators=[]))
    peak = resident("VmHWM")
    return {
        "rows": rows,
        "num_classes": num_classes,
        "parts": len(table.parts),
        "bytes": path.stat().st_size,
        "cpu_seconds": {"decode": decode, "one pass": one_pass, "sums": sums, "evaluation": judged},
        "of_the_limit": sums / (decode + one_pass),
        "megabytes_before": began / 1024,
        "megabytes_peak": peak / 1024,
    }


def main() -> None:
    """Write tables, measure each in a process of its own, and write what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--real", type=Path, metavar="FILE", help="predictions to draw rows from")
    parser.add_argument("--folder", type=Path, help="where tables are written to")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--page", action="store_true", help="write the page alone")
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    known = RESULTS / "scale.json"
    content: dict[str, Any] = json.loads(known.read_text()) if known.exists() else {"tables": {}}
    found: dict[str, Any] = content["tables"]
    if given.real and not given.page:
        num_classes, draw = drawn_from(given.real)
        real: dict[str, Any] = content.setdefault("real", {"drawn_from": given.real.name, "tables": {}})
        for rows in [given.rows] if given.rows else REAL_SIZES:
            real["tables"][str(rows)] = measured(rows, num_classes, given.folder, draw)
            write("scale", content)
    elif not given.page:
        for num_classes, rows in [(given.classes, given.rows)] if given.rows else SIZES:
            found[f"{num_classes} x {rows}"] = measured(rows, num_classes, given.folder)
            content["environment"] = environment("calibrant", "torch", "numpy", "numba", "pyarrow")
            write("scale", content)
    if "real" in content:
        draw_growth(list(content["real"]["tables"].values()))
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{START}\n{tables(rows_of(content))}\n{END}{after}", encoding="utf-8")


def rows_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    """What was measured, of tables that were made up and of those drawn from real predictions."""
    real = content.get("real", {}).get("tables", {})
    return [*content["tables"].values(), *(row | {"real": True} for row in real.values())]


def measured(rows: int, num_classes: int, folder: Path | None, draw: Any = invented) -> dict[str, Any]:
    """Write a table, and measure it in a process of its own."""
    state = {"commit": commit(), "date": time.strftime("%Y-%m-%d"), "load_at_start": os.getloadavg()[0]}
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        make(place / "table.parquet", rows, num_classes, draw)
        told = subprocess.run(
            [sys.executable, __file__, "--measure", str(place / "table.parquet")],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        ).stdout
    finally:
        shutil.rmtree(place)
    print(told, flush=True)
    return json.loads(told.splitlines()[-1]) | state


def draw_growth(rows: list[dict[str, Any]]) -> None:
    """CPU seconds and peak memory against rows."""
    from matplotlib.figure import Figure

    rows = sorted(rows, key=lambda row: row["rows"])
    counts = [row["rows"] for row in rows]
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    time_axes, memory_axes = figure.subplots(ncols=2)
    for (key, label), marker in zip(
        (("evaluation", "evaluation"), ("sums", "sums of the table"), ("decode", "decoding alone")),
        "os^",
        strict=True,
    ):
        time_axes.loglog(
            counts, [row["cpu_seconds"][key] for row in rows], marker=marker, label=label, markersize=4
        )
    time_axes.set_ylabel("CPU seconds")
    time_axes.legend(frameon=False)
    memory_axes.semilogx(counts, [row["megabytes_peak"] for row in rows], marker="o", label="peak")
    memory_axes.semilogx(counts, [row["megabytes_before"] for row in rows], marker="s", label="at the start")
    memory_axes.set_ylim(bottom=0)
    memory_axes.set_ylabel("memory, MB")
    memory_axes.legend(frameon=False, loc="lower right")
    for axes in (time_axes, memory_axes):
        axes.set_xlabel("rows")
        axes.grid(which="major", alpha=0.3)
    figure.savefig(PICTURE, dpi=160)


def tables(rows: list[dict[str, Any]]) -> str:
    """Markdown: what was measured, and what larger tables would take at the same cost for each row."""
    rows = sorted(rows, key=lambda row: (row["num_classes"], "real" in row, row["rows"]))
    columns = ["classes", "rows", "file", "decoding", "one pass", "sums of the table", "of the limit"]
    columns += ["rows a second", "evaluation", "peak memory", "code", "load"]
    lines = head(columns)
    for row in rows:
        spent = row["cpu_seconds"]
        load = "?" if row["load_at_start"] is None else f"{row['load_at_start']:.1f}"
        width = f"{row['num_classes']}{', real' if 'real' in row else ''}"
        lines.append(
            f"| {width} | {row['rows']:,} | {size(row['bytes'])} | {spent['decode']:.2f} s | "
            f"{spent['one pass']:.2f} s | {spent['sums']:.2f} s | {row['of_the_limit']:.2f} | "
            f"{row['rows'] / spent['sums']:,.0f} | {spent['evaluation']:.1f} s | "
            f"{row['megabytes_peak']:.0f} MB | {(row['commit'] or '?')[:7]}, {row['date']} | {load} |"
        )
    several = f"{CORES:,} cores"
    lines += ["", *head(["classes", "rows", "bytes", "one core", several, f"disks for {several}"])]
    for num_classes in sorted({row["num_classes"] for row in rows}):
        largest = max((row for row in rows if row["num_classes"] == num_classes), key=lambda row: row["rows"])
        for power, shown in ((9, "10⁹"), (12, "10¹²")):
            times = 10**power / largest["rows"]
            seconds = largest["cpu_seconds"]["sums"] * times
            volume = largest["bytes"] * times
            lines.append(
                f"| {num_classes} | {shown} | {size(volume)} | {span(seconds)} | {span(seconds / CORES)} | "
                f"{math.ceil(volume / (seconds / CORES) / DISK):,} |"
            )
    return "\n".join(lines)


def head(columns: list[str]) -> list[str]:
    """The first two lines of a table."""
    return [f"| {' | '.join(columns)} |", "|---:" * len(columns) + "|"]


def span(seconds: float) -> str:
    """Seconds in a unit that reads well."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.1f} seconds"


def size(count: float) -> str:
    """Bytes in a unit that reads well."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} PB"


if __name__ == "__main__":
    main()
