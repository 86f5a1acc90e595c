"""Write the table of README.md from ``results/*.json``, between its markers, and its rows in the site's page.

Run as ``python benchmarks/page_table.py``; ``--check`` writes nothing and fails if a page is not current.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from check import Held, held
from environment import RESULTS

PAGE = Path(__file__).with_name("README.md")
SITE = PAGE.parents[1] / "docs" / "benchmarks.md"
"""Has some of the rows."""
GPU = "on_gpu"
"""The results that were measured on another machine, with a table of their own."""
START, END = "<!-- benchmarks: made by benchmarks/page_table.py -->", "<!-- end of benchmarks -->"


def table(rows: list[Held], folder: Path) -> str:
    """Markdown: what was measured beside its bar, and on what machine."""
    lines = ["| work | measured | bar |", "|---|---|---|"]
    lines += map(line_of, rows)
    machines: dict[str, list[str]] = {}
    versions: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        if path.stem == GPU:
            continue  # its table says where
        where = json.loads(path.read_text(encoding="utf-8")).get("environment")
        if where:
            said = f"{where['processor']}, {where['cores']} cores, Python {where['python']}"
            machines.setdefault(said, []).append(path.stem)
            versions |= where.get("packages", {})
    lines.append("")
    others = ", ".join(f"{name} {versions[name]}" for name in sorted(versions.keys() - {"calibrant"}))
    lines += [f"Versions: {others}.", ""] if others else []
    lines += [f"Measured on {machine} ({', '.join(names)})." for machine, names in machines.items()]
    settings = hardware_table(folder / "hardware_settings.json")
    on_gpu = gpu_tables(folder / f"{GPU}.json")
    return "\n".join([*losses_table(folder / "losses.json"), *lines, *settings, *on_gpu])


def line_of(row: Held) -> str:
    """A row of Markdown."""
    return f"| {row.work} | {row.measured} | {row.bar}{'' if row.met else ' **missed**'}{row.why} |"


def with_rows(text: str, rows: list[Held]) -> str:
    """The page with each row that it has as it was measured last."""
    known = {row.work: line_of(row) for row in rows}
    lines = [known.get(line.split(" | ")[0].removeprefix("| "), line) for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def losses_table(path: Path) -> list[str]:
    """Forward and backward of every loss, in multiples of torch's cross-entropy."""
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    sizes = content["tables"]["all"]
    lines = [
        f"Forward and backward in multiples of `{content['relative_to']}`, one thread and two:",
        "",
        f"| loss | {' | '.join(f'{size}, {threads}' for size in sizes for threads in ('1', '2'))} |",
        "|---|" + "---:|" * 2 * len(sizes),
    ]
    for name in next(iter(sizes.values()))["threads"]["1"]:
        cells = [
            f"{found['threads'][threads][name]['times_cross_entropy']:.2f}"
            for found in sizes.values()
            for threads in ("1", "2")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def hardware_table(path: Path) -> list[str]:
    """What settings of the hardware change in calibration, and how often trainings collapsed."""
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    about = (
        f"What settings of the hardware change in the results ({content['recipe']}, {content['epochs']} "
        f"epochs, n = {content['test_samples']:,} test samples): means of the differences between runs of "
        "the same seed, with 95 % intervals by Student's t over seeds. Runs that collapsed, so that all "
        "images get the same answer, are counted beside the means and are not in them."
    )
    lines = [
        "",
        about,
        "",
        "| setting | against | seeds | error, points | ECE, points | NLL | collapsed, without it |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    count = content["collapsed"]
    for name, found in content["differences"].items():
        cells = [_plus_minus(found[key], scale) for key, scale in (("error", 100), ("ece", 100), ("nll", 1))]
        lost = ", ".join(
            f"{count[each]['collapsed']} of {count[each]['of']}" for each in (name, found["against"])
        )
        lines.append(f"| {name} | {found['against']} | {found['seeds']} | {' | '.join(cells)} | {lost} |")
    nudged = [
        f"{one['collapsed']} of {one['of']} {name}"
        for name, one in ((name, count[f"nudged, {name}"]) for name in ("plain", "channels-last"))
    ]
    (seed,) = content["runs"]["nudged 0, plain"]
    told = (
        f"With seed {seed} and initial weights that are changed by a millionth, {' and '.join(nudged)} runs "
        "collapse: near such a start rounding decides."
    )
    return [*lines, "", told]


def gpu_tables(path: Path) -> list[str]:
    """Losses, a last layer and metrics on a GPU: time, in multiples of torch's where that has the same."""
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    where, sizes, layer = content["environment"], content["losses"], content["last layer"]
    packages = where["packages"]
    base = next(iter(next(iter(sizes.values()))))
    about = (
        f"On one {content['device']} (PyTorch {packages['torch']}, Python {where['python']}, "
        f"{where['processor']}; `benchmarks/on_gpu.py`, medians of {content['repeats']} calls, each waited "
        f"for; one series, with no other work on the GPU), forward and backward of every loss, and in "
        f"multiples of `{base}`. Small sizes take as long as large ones or longer, so a call's time is not "
        "that of its arithmetic, and differences of tens of per cent say little:"
    )
    heads = [f"| loss | {' | '.join(f'{size}, µs | times' for size in sizes)} |"]
    lines = ["", about, "", *heads, "|---|" + "---:|---:|" * len(sizes)]
    for name in next(iter(sizes.values())):
        rows = [found[name] for found in sizes.values()]
        cells = [f"{row['microseconds']:,.0f} | {row['times_cross_entropy']:.2f}" for row in rows]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    known = content["sizes"]
    plain, fused = (layer[kernel]["microseconds"] / 1000 for kernel in ("torch", "triton"))
    count, width, classes = known["last layer"]
    of_layer = (
        f"The focal loss of a last layer in bfloat16 there ({count:,} rows of {width:,} numbers, {classes:,} "
        f'classes), forward and backward: {plain:.1f} ms by `kernel="torch"`, {fused:.1f} ms by '
        f'`kernel="triton"`, {plain / fused:.2f} times as fast; their values are '
        f"{layer['torch']['value']:g} and {layer['triton']['value']:g}."
    )
    of_metrics = f"Metrics of {known['samples']:,} samples and {known['classes']} classes there:"
    lines += ["", of_layer, "", of_metrics, ""]
    lines += ["| metric | ms | difference from the CPU's value |", "|---|---:|---:|"]
    for name, found in content["metrics"].items():
        lines.append(f"| {name} | {found['microseconds'] / 1000:.2f} | {found['from_cpu']:.1g} |")
    return lines


def _plus_minus(found: dict[str, Any], scale: float) -> str:
    low, high = found["interval"]
    return f"{scale * found['mean_difference']:+.2f} ± {scale * (high - low) / 2:.2f}"


def replaced(text: str, body: str) -> str:
    """The text with what stands between the markers exchanged."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        sys.exit(f"the page must hold the markers {START} and {END}, in this order.")
    return f"{before}{START}\n{body}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows, missing = held(arguments.results)
    if missing:
        print("not run:", ", ".join(missing))
    old = {page: page.read_text(encoding="utf-8") for page in (arguments.page, SITE)}
    new = {arguments.page: replaced(old[arguments.page], table(rows, arguments.results))}
    if arguments.page == PAGE:
        new[SITE] = with_rows(old[SITE], rows)
    for page, text in new.items():
        if not arguments.check:
            page.write_text(text, encoding="utf-8")
        elif text != old[page]:
            sys.exit(f"{page} is not up to date: run this without --check.")


if __name__ == "__main__":
    main()
