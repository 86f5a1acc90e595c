"""Draw calibrant beside its peers, a chart for each group of benchmarks.

Run as ``python benchmarks/charts.py``: reads ``results/*.json`` and writes ``docs/images/benchmarks-*.svg``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from environment import RESULTS

from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION

mpl.use("svg")
IMAGES = RESULTS.parents[1] / "docs" / "images"
WORSE = 1.01  # times our objective: that fit is not the minimum


def tasks(name: str) -> dict[str, Mapping[str, float]]:
    """Times relative to calibrant, or of losses to cross-entropy, by task and library; one thread."""
    results = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    if name == "losses":
        table: dict[str, Any] = results["tables"]["focal"]
        return {
            f"focal loss, {shape}": {
                library: row["times_cross_entropy"] for library, row in of["threads"]["1"].items()
            }
            for shape, of in table.items()
        }
    found: dict[str, Mapping[str, float]] = {}
    for task, of in results["tasks"].items():
        rows = of["fits"] if "fits" in of else of["threads"]["1"]
        if len(rows) > 1:
            ours = rows["calibrant"].get("objective")
            found[task] = {
                library + (" (not the minimum)" if ours and row["objective"] > WORSE * ours else ""): row[
                    "times_ours"
                ]
                for library, row in rows.items()
            }
    return found


def draw(name: str, groups: Mapping[str, Mapping[str, float]], axis: str) -> None:
    """A bar for each library, on a logarithmic scale."""
    from matplotlib.figure import Figure

    bars = sum(len(rows) + 1 for rows in groups.values())
    figure = Figure(figsize=(7.2, 0.4 + 0.27 * bars), layout="constrained")
    axes = figure.subplots()
    place, places, labels = 0.0, [], []
    for task, rows in groups.items():
        axes.text(0.0, place, task, transform=axes.get_yaxis_transform(), va="center", weight="bold", size=9)
        place += 1
        for library, ratio in sorted(rows.items(), key=lambda row: row[1]):
            colour = BLUE if library.startswith("calibrant") else GREY if ratio >= 1 else VERMILLION
            axes.barh(place, ratio, color=colour, height=0.8, left=0)
            axes.text(ratio, place, f" {ratio:.2g}" if ratio < 100 else f" {ratio:.0f}", va="center", size=8)
            places.append(place)
            labels.append(library.removeprefix("torch ").removesuffix(" focal_loss"))
            place += 1
    axes.set(xscale="log", xlabel=axis, ylim=(place, -0.8))
    axes.set_yticks(places, labels, size=8)
    least = min(ratio for rows in groups.values() for ratio in rows.values())
    axes.set_xlim(min(0.5, least / 2), axes.get_xlim()[1] * 2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(IMAGES / f"benchmarks-{name}.svg", metadata={"Date": None})


def main() -> None:
    """Write the three charts."""
    mpl.rcParams["svg.hashsalt"] = "calibrant"
    draw("metrics", tasks("metrics"), "time, in times that of calibrant (one thread)")
    draw("losses", tasks("losses"), "time, in times that of cross-entropy (one thread)")
    draw("calibrators", tasks("calibrators"), "time, in times that of calibrant (one thread)")


if __name__ == "__main__":
    main()
