"""Can you trust the intervals and alarms?"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from calibrant.evaluation.arguments import FILE
from calibrant.evaluation.resampling.intervals import wilson_interval
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from papers.analysis import Frames, Tables
from papers.coverage.measure import TITLES
from papers.coverage.measure import measure as measure

AIMED_AT = ("ECE", "class-wise ECE", "smCE")
"""Whose intervals and false alarms are held against the aims."""
MOST_MISSED, MEAN_MISSED = 0.09, 0.06
MOST_ALARMS, MEAN_ALARMS = 0.08, 0.055
"""The aims, as in ``claims.toml``: in every cell and on average."""
FEWEST = 100
"""Sets of a cell that is shown by itself on the page."""
ENOUGH = 40
"""Sets of a cell that is told by itself in reports."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``cells`` and ``changes`` by error, ``alarms`` where the truth is stated, means, and the monitor's.

    A ``value`` is the share of sets that miss the truth or raise an alarm. Its ``standard_error`` is that
    under the aim, so that a test by it is Wilson's.
    """
    cells = _by_error(results["cells"])
    cells["value"] = 1 - cells.covered
    centred = pd.json_normalize([of or {} for of in cells.centred]).reindex(columns=["covered", "sets"])
    cells = cells.assign(centred=centred.covered, centred_sets=centred.sets.fillna(0))
    changes = _by_error(results["changes"])
    alarms = pd.DataFrame(_alarms(results["cells"]))
    monitored = results["monitoring"]
    streams = pd.DataFrame(
        {"alarm": name, "value": of["alarms"] / of["streams"], "sets": of["streams"]}
        for name, of in monitored["quiet"].items()
    )
    return {
        "cells": with_error(cells, MOST_MISSED),
        "means": with_error(_means(cells), MEAN_MISSED),
        "alarms": with_error(alarms, MOST_ALARMS),
        "mean_alarms": with_error(_pooled(alarms, "who", "value", "sets"), MEAN_ALARMS),
        "changes": changes,
        "mean_changes": with_error(_means(changes), MEAN_MISSED),
        "streams": with_error(streams, monitored["false_alarms"]),
    }


def with_error(shares: pd.DataFrame, aim: float) -> pd.DataFrame:
    """Shares of so many sets, with their standard error if the aim were the truth."""
    return shares.assign(standard_error=np.sqrt(aim * (1 - aim) / shares.sets))


def _by_error(cells: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(
        {"cell": number, "scale": cell.get("scale"), **of, "error": TITLES[key]}
        for number, cell in enumerate(cells)
        for key, of in cell["errors"].items()
    )


def _alarms(cells: list[Any]) -> Iterator[dict[str, Any]]:
    """Where the truth is stated: the share of sets whose error counts as real, or whose verdict fails."""
    for number, cell in enumerate(cells):
        if cell["scale"] == 1 or cell["stated"] == "the truth":
            for name, of in cell["errors"].items():
                yield {"cell": number, "who": TITLES[name], "value": of["real"], "sets": of["sets"]}
            yield {"cell": number, "who": "verdict", "value": cell["verdict"]["alarms"], "sets": cell["sets"]}


def _means(shares: pd.DataFrame) -> pd.DataFrame:
    """Means over cells, each counting alike; as exact as with ``sets`` dealt out evenly."""

    def mean(of: pd.DataFrame) -> pd.Series:
        alike = of.sets.nunique() == 1
        covered = (of.covered * of.sets).sum() / of.sets.sum() if alike else of.covered.mean()
        sets = round(len(of) ** 2 / (1 / of.sets).sum())
        return pd.Series({"covered": covered, "value": 1 - covered, "sets": sets})

    means = shares.groupby("error")[["covered", "sets"]].apply(mean)
    return means.reindex([title for title in TITLES.values() if title in means.index]).reset_index()


def _pooled(shares: pd.DataFrame, by: str, value: str, sets: str) -> pd.DataFrame:
    sums = shares.assign(value=shares[value] * shares[sets], sets=shares[sets])
    sums = sums.groupby(by, sort=False)[["value", "sets"]].sum().query("sets > 0")
    return sums.assign(value=sums.value / sums.sets).reset_index()


def shown(frame: pd.DataFrame, column: str = "value") -> list[str]:
    """Shares with Wilson's 95 % intervals.

    Example:
        >>> shown(pd.DataFrame({"value": [0.95], "sets": [500]}))
        ['0.950 (0.927–0.966)']
    """
    both = list(zip(frame[column], frame.sets, strict=True))
    ends = [wilson_interval(value, int(sets), 0.95) for value, sets in both]
    return [f"{value:.3f} ({low:.3f}–{high:.3f})" for (value, _), (low, high) in zip(both, ends, strict=True)]


def tables(found: Frames) -> Tables:
    cells = found["cells"].groupby("error")
    centred = _pooled(found["cells"], "error", "centred", "centred_sets")
    columns = {
        "lowest cell": cells.covered.min().where(cells.sets.min() >= FEWEST),
        "false alarms": found["mean_alarms"].set_index("who").value,
        "of differences": found["mean_changes"].set_index("error").covered,
        "of the bootstrap": centred.set_index("error").value,
    }
    table = pd.DataFrame(columns).reindex(found["means"].error).map("{:.3f}".format).replace("nan", "–")
    table.insert(0, "coverage", shown(found["means"], "covered"))
    return {"short": table, "monitor": found["streams"][["alarm", "value"]].round(3).set_index("alarm")}


def packaged(results: Mapping[str, Any]) -> dict[Path, Any]:
    """What reports quote, by file: lowest, highest and mean coverage of errors, and of differences."""
    found = frames(results)
    quoted = {"values": _quoted(found["cells"], found["means"])}
    quoted["changes"] = _quoted(found["changes"], found["mean_changes"])
    return {FILE: {"level": results["setting"]["level"], **quoted}}


def _quoted(cells: pd.DataFrame, means: pd.DataFrame) -> dict[str, Any]:
    quoted, keys = dict[str, Any](), {title: key for key, title in TITLES.items()}
    for error, average in zip(means.error, means.covered, strict=True):
        of = cells[cells.error.eq(error)]
        enough = of.sets.min() >= ENOUGH
        quoted[keys[error]] = {
            "average": round(float(average), 4),
            "lowest": round(float(of.covered.min()), 4) if enough else None,
            "highest": round(float(of.covered.max()), 4) if enough else None,
            "cells": len(of),
            "sets": int(of.sets.sum()),
        }
    return quoted


def figure(found: Frames) -> Figure:
    whole = Figure(figsize=(8.4, 3.2), layout="constrained")
    cells = found["cells"].assign(place=found["cells"].scale.map("{:g}".format).replace("nan", "real"))
    places = list(dict.fromkeys(cells.place))
    for ax, error in zip(whole.subplots(1, len(AIMED_AT), sharey=True), AIMED_AT, strict=True):
        of = cells[cells.error.eq(error)]
        at = of.place.map(places.index) + 0.05 * (of.groupby("place").cumcount() % 7 - 3)
        ax.axhline(0.95, color=GREY, linewidth=0.8)
        ax.plot(at, of.covered, "o", color=BLUE, markersize=3, label="calibrant's interval")
        means = of.groupby("place").centred.mean().reindex(places)
        ax.plot(range(len(places)), means, "D", color=VERMILLION, markersize=4, label="bootstrap (mean)")
        ax.set_xticks(range(len(places)), places)
        ax.set(title=error, xlabel="logits times", ylim=(0, 1.02))
    whole.axes[0].set(ylabel="share of intervals that cover")
    whole.axes[0].legend(loc="lower right")
    return whole
