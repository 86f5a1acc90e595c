"""Which calibrator repairs other people's networks?

Outputs of 34 networks that others trained, each judged as it came. On those with all scores every calibrator
is fitted on one half of the samples and judged on the other, in three divisions. Nothing is trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from papers.analysis import LEVEL, Frames, Tables, ordered
from papers.calibrators.measure import AS_THEY_CAME, COMPARED, CRITERIA, FOCAL, PLAIN, RIVALS, pair_name
from papers.calibrators.measure import measure as measure

Z = float(stats.norm.ppf((1 + LEVEL) / 2))
NAMES = {
    AS_THEY_CAME: "as they came",
    PLAIN: "temperature",
    FOCAL: "focal temperature",
    "bias-corrected-temperature": "bias-corrected temperature",
    "ensemble-temperature": "ensemble temperature",
    "vector": "vector",
    "matrix": "matrix",
    "structured-matrix": "structured matrix",
    "dirichlet": "Dirichlet",
    "isotonic": "isotonic",
    "histogram": "histogram",
    "bayesian-binning": "Bayesian binning",
}
"""Calibrators on the page."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` as they came, ``means`` and ``gains`` by calibrator, and ``criteria``."""
    means = pd.DataFrame(_means(results["files"]))
    return {
        "judged": pd.DataFrame(_judged(row) for row in results["judged"]),
        "means": means,
        "gains": pd.DataFrame(_gains(results, means.set_index(["file", "calibrator"]))),
        "criteria": pd.DataFrame(_criteria(means.set_index(["file", "calibrator"]))),
    }


def _judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """A file as it came; ``value`` is the slope of recalibration less 1, below 0 if over-confident."""
    ece, slope = row["metrics"]["ece"], row["metrics"]["slope"]
    return {
        "file": row["name"],
        "ece": ece["value"],
        "low": ece["low"],
        "high": ece["high"],
        "at most by chance": row["null_upper"],
        "value": slope["value"] - 1,
        "standard_error": (slope["high"] - slope["low"]) / (2 * Z),
    }


def _means(files: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Measures of each calibrator on each file, as means over the divisions; NaN where one is infinite."""
    for name, found in files.items():
        for calibrator, each in found["calibrators"].items():
            values = {
                by: math.nan if None in of or not of else math.fsum(of) / len(of)
                for by, of in each["measures"].items()
            }
            yield {"file": name, "calibrator": calibrator, **values, "changed": each["changed"]}


def _gains(results: Mapping[str, Any], means: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """How much lower measures are after a calibrator than after another, with the error over samples.

    For both temperature scalings it is the larger of two errors, with the fits as they are and fitted again.
    ``counts`` is what decides about focal temperature scaling: without samples whose true class had a
    probability of zero, if there are any.
    """
    for name, found in results["files"].items():
        exponent = results["exponent"][name]
        pairs = [(each, PLAIN) for each in found["calibrators"] if each != PLAIN]
        pairs += [(FOCAL, rival) for rival in RIVALS if rival in found["calibrators"]]
        for calibrator, against in pairs:
            errors = found["errors"][pair_name(calibrator, against)]
            last = exponent["without_zeros"] if calibrator == FOCAL else None
            for by in COMPARED:
                both = calibrator == FOCAL and against == PLAIN
                key = {"file": name, "measure": by, "calibrator": calibrator, "against": against}
                error = math.nan if errors[by] is None else errors[by]
                yield {
                    **key,
                    "before": means.loc[(name, against), by],
                    "value": means.loc[(name, against), by] - means.loc[(name, calibrator), by],
                    "standard_error": max(error, exponent["refit_errors"][by]) if both else error,
                    "counts": last is None,
                }
                if last is not None:
                    kept = last["over"][against][by]
                    error = max(kept["error"], last["refit_errors"][by]) if both else kept["error"]
                    alone = {"before": kept["before"], "value": kept["gain"], "standard_error": error}
                    yield {**key, **alone, "counts": True}


def _criteria(means: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """By how much a measure changes if a temperature is fitted by it instead of by NLL; files are samples."""
    pairs = [*((by, by) for by in CRITERIA[1:]), ("ece", "nll")]
    for file in means.index.unique("file"):
        for calibrator in (PLAIN, FOCAL):
            for by, judged in pairs:
                text = f'{calibrator}(objective="{by}")'
                if (file, text) not in means.index:
                    continue
                ratio = means.loc[(file, text), judged] / means.loc[(file, calibrator), judged]
                key = {"file": file, "seed": file, "calibrator": calibrator, "by": by, "measure": judged}
                if ratio > 0:
                    yield {**key, "value": math.log(ratio)}


def tables(found: Frames) -> Tables:
    against = found["gains"].query(f"against == '{PLAIN}' and counts").copy()
    sure = against.value.abs() > Z * against.standard_error
    against["side"] = (against.value > 0).map({True: "lower", False: "higher"}).where(sure, "undecided")
    against["change"] = -100 * against.value / against.before
    rows = dict[str, dict[str, str]]()
    for name, of in ordered(against, "calibrator", NAMES).groupby("calibrator", observed=True):
        nll, ece = (of[of.measure.eq(by) & of.value.notna()] for by in ("nll", "ece"))
        counts = nll.side.value_counts()
        inside = found["means"][found["means"].calibrator.map(NAMES).eq(name)]
        rows[str(name)] = {
            "files": str(len(ece)),
            "NLL lower/higher/undecided": "/".join(
                str(counts.get(side, 0)) for side in ("lower", "higher", "undecided")
            ),
            "NLL, %": f"{nll.change.median():+z.1f}",
            "ECE, %": f"{ece.change.median():+z.1f}",
            "decisions changed, %": f"{100 * inside.changed.median():.1f}",
        }
    return {"short": pd.DataFrame(rows).T.rename_axis("calibrator")}


def figure(found: Frames) -> Figure:
    """ECE of every file as it came, with its interval, beside what chance alone gives."""
    judged = found["judged"].sort_values("ece").reset_index(drop=True)
    whole = Figure(figsize=(8.4, 6.4), layout="constrained")
    ax = whole.subplots()
    colours = judged.value.lt(0).map({True: VERMILLION, False: BLUE})
    for colour, name in (
        (VERMILLION, "over-confident (slope below 1)"),
        (BLUE, "under-confident (slope above 1)"),
    ):
        part = judged[colours.eq(colour)]
        ax.hlines(part.index, 100 * part.low, 100 * part.high, color=colour, linewidth=1)
        ax.plot(100 * part.ece, part.index, "o", color=colour, markersize=4, label=name)
    ax.plot(100 * judged["at most by chance"], judged.index, "|", color=GREY, label="95 % quantile by chance")
    ax.set_yticks(judged.index, [PurePath(each).stem.rpartition("__")[2] for each in judged.file], fontsize=7)
    ax.set(xlabel="ECE in % as it came", xlim=(0, None))
    ax.legend(loc="lower right")
    return whole
