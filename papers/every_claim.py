"""The claims of all studies together: the page ``claims.md``, and every test as a table for download."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant._math.files import write_text
from calibrant.reports.figures.drawing import BLUE, GREY, drawing_style, save_figure
from calibrant_lab.sweep.published import facts
from papers.analysis import HERE, LEVEL, PAPERS, filled, status
from papers.studies import every_row

PAGE = HERE / "claims.md"
SIGNS = {"holds": "●", "does not hold": "✗", "both": "◐", "undecided": "○"}
MOST_SIGNS = 9
STAGES = ("pre", "post", "")
"""Of the paper's table, by panel of the figure."""
DOWNLOADED = [
    *("paper", "claim", "text", "section", "study", "asked_of", "first", "second", "group", "estimate"),
    *("low", "high", "n", "p", "q", "q_any_dependence", "verdict", "left", "open"),
]
"""Columns of a test that are downloaded."""
RENAMED = {
    "claim": "id",
    "text": "claim",
    "asked_of": "setting",
    "left": "verdict_by_q",
    "first": "compared",
    "second": "with",
}


def every_test() -> pd.DataFrame:
    """Every test, with ``left``: the verdict, or undecided where q is not below 0.05."""
    rows = every_row()
    return rows.assign(left=rows.verdict.mask(rows.q.ge(1 - LEVEL), "undecided"))


def download(rows: pd.DataFrame) -> pd.DataFrame:
    """Every test, one row each; effects have the unit of the claim's column."""
    found = rows[DOWNLOADED].rename(columns=RENAMED)
    words = found[["compared", "with"]].map(str, na_action="ignore")
    return found.assign(**words, paper=rows.paper.map(PAPERS), study=rows.study.str.replace("_", "-"))


def settings(rows: pd.DataFrame, by: Sequence[str] = ("asked_of",)) -> pd.DataFrame:
    """One row for each setting that counts: what its decided tests say, and the median of their effects.

    Example:
        >>> found = pd.DataFrame(
        ...     {
        ...         "asked_of": ["a", "a", "b"],
        ...         "left": ["holds", "undecided", "does not hold"],
        ...         "estimate": [1.0, 2.0, 3.0],
        ...         "scale": 1,
        ...     }
        ... )
        >>> settings(found)["verdict"].tolist()
        ['holds', 'does not hold']
    """
    found = []
    for _, of in rows.groupby(list(by), sort=False):
        decided = set(of.left) - {"undecided"}
        verdict = "both" if len(decided) > 1 else decided.pop() if decided else "undecided"
        found.append({"verdict": verdict, "effect": (of.scale * of.estimate).median()})
    return pd.DataFrame(found, columns=["verdict", "effect"])


def signs(verdicts: Iterable[str], left_open: int = 0) -> str:
    """A sign for each setting, or counts of many.

    Example:
        >>> signs(["holds", "undecided", "holds"]), signs(["holds"] * 12, left_open=1)
        ('●●○', '●12 +1')
    """
    count = pd.Series(list(verdicts), dtype=str).value_counts()
    parts = [(sign, int(count.get(verdict, 0))) for verdict, sign in SIGNS.items()]
    many = count.sum() > MOST_SIGNS
    shown = (" " if many else "").join(f"{sign}{n}" if many else sign * n for sign, n in parts if n)
    return " ".join(filter(None, (shown or "–", f"+{left_open}" if left_open else "")))


def effects(found: pd.Series, unit: str) -> str:
    """Median over settings, and the range of several.

    Example:
        >>> effects(pd.Series([-4.2, -13.0, 1.1]), "points")
        '-4.2 (-13 to 1.1) points'
    """
    known = found.dropna()
    if not len(known):
        return "–"
    ends = f" ({known.min():.2g} to {known.max():.2g})" if len(known) > 1 else ""
    return f"{known.median():.2g}{ends} {unit}".strip()


def told(rows: pd.DataFrame, by: Sequence[str] = ("asked_of",)) -> dict[str, str]:
    """What is found of one claim: settings, effect and verdict."""
    counted = rows[rows.open.eq("")]
    each = settings(counted if len(counted) else rows, by)
    left_open = len(rows.groupby(list(by))) - len(settings(counted, by))
    if not len(counted):
        verdict = f"Not testable here: {rows.open.iloc[0].partition(':')[0]}"
    else:
        spread = each.verdict.map(lambda one: ["holds", "does not hold"] if one == "both" else [one])
        verdict = status(pd.DataFrame({"verdict": spread.explode(), "open": ""})).capitalize()
    return {
        "here": signs(each.verdict if len(counted) else [], left_open),
        "effect": effects(each.effect, rows.unit.iloc[0]),
        "verdict": verdict,
    }


def experiments(rows: pd.DataFrame) -> pd.DataFrame:
    """The claims of one paper, in the order of its sections, with the studies that asked them."""
    found = []
    for _, of in rows.groupby("claim", sort=False):
        links = ", ".join(f"[{name.replace('_', '-')}]({name}/page.md)" for name in of.study.unique())
        section = re.sub("^(section|appendix)s? ", "", of.section.iloc[0])
        found.append({"claim": of.text.iloc[0], "section": section, **told(of), "study": links})
    heads = ["claim", "section", "here", "effect", "verdict", "study"]
    return pd.DataFrame(sorted(found, key=_place), columns=heads).set_index("claim")


def _place(row: dict[str, str]) -> tuple[bool, list[int]]:
    """Sections by number, then appendices, tables and figures."""
    return not row["section"][:1].isdigit(), [*map(int, re.findall(r"\d+", row["section"]))]


def that_matter(rows: pd.DataFrame, entries: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """The claims that ``claims.toml`` names, beside their papers' own counts; without those asked nowhere."""
    found = []
    for entry in entries:
        of = rows[rows.paper.eq(entry["paper"]) & rows.claim.isin(entry["ids"])]
        of = of.query(entry["where"]) if "where" in entry and len(of) else of
        if not len(of):
            continue
        row = told(of, entry.get("by", ["asked_of"]))
        reason = f": {entry['why']}" if "why" in entry and ":" not in row["verdict"] else ""
        row = {"claim": entry["text"], "paper": entry["count"], **row}
        found.append(row | {"verdict": f"**{row['verdict'].partition(':')[0]}**{reason}"})
    return pd.DataFrame(found).set_index("claim")


def entries(path: Path = HERE / "claims.toml") -> list[dict[str, Any]]:
    """The claims that matter: ``text``, ``paper``, ``ids``, ``count``, and ``where``, ``by`` or ``why``."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["claim"]


def figure(rows: pd.DataFrame) -> Figure:
    """FLSD-53 less cross-entropy in ECE, in each setting, beside the rows of the paper."""
    whole = Figure(figsize=(8.4, 3.2), layout="constrained")
    panels = {
        "as trained": rows.claim.eq("flsd-before") & rows.metric.str.lower().eq("ece"),
        "with T by ECE": rows.claim.eq("flsd-after") & rows.metric.str.lower().eq("ece"),
        "with T by likelihood": rows.claim.eq("by-likelihood"),
    }
    chosen = {title: rows[found & rows.second.eq("cross-entropy")] for title, found in panels.items()}
    places = list(dict.fromkeys(name for of in chosen.values() for name in map(_shortened, of.asked_of)))
    for ax, (title, of), stage in zip(whole.subplots(1, 3, sharey=True), chosen.items(), STAGES, strict=True):
        at = [places.index(_shortened(name)) + 1 for name in of.asked_of]
        for x, low, high, y, left_open in zip(of.estimate, of.low, of.high, at, of.open.ne(""), strict=True):
            ax.plot([100 * low, 100 * high], [y, y], color=BLUE, linewidth=1)
            ax.plot(100 * x, y, "o", color=BLUE, markerfacecolor="none" if left_open else BLUE, markersize=5)
        printed = _printed(stage) if stage else []
        ax.plot(printed, [0] * len(printed), "D", color=GREY, alpha=0.6, markersize=4)
        ax.axvline(0, color=GREY, linewidth=0.8)
        ax.set(title=title, xlabel="difference of ECE in points")
        ax.set_yticks(range(len(places) + 1), ["the paper's ten rows", *places])
    return whole


def _shortened(place: str) -> str:
    return place.replace(", balanced", "").replace("SST, struck", "SST")


def _printed(stage: str) -> list[float]:
    """FLSD-53 less cross-entropy in the ECE that Mukhoti et al. print."""
    cells = {
        (fact.method, fact.dataset, fact.model): float(fact.value)
        for fact in facts("mukhoti-2020")
        if fact.table == "1" and fact.stage == stage
    }
    return [
        value - cells["cross-entropy", *network]
        for (method, *network), value in cells.items()
        if method == "focal-sample(53)"
    ]


def write(file: Path | None = None) -> Path:
    """Write the page with its figure, or every test into a file (``.csv``, ``.parquet``)."""
    rows = every_test()
    path = file or PAGE
    if file is None:
        write_text(path, page_text(rows))
        with drawing_style():
            save_figure(figure(rows), path.with_suffix(".svg"))
    elif path.suffix == ".parquet":
        download(rows).to_parquet(path, index=False)
    else:
        download(rows).to_csv(path, index=False, float_format="%.6g")
    return path


def page_text(rows: pd.DataFrame) -> str:
    """The page of claims, its tables filled from the tests of all studies."""
    tables = {paper: experiments(rows[rows.paper.eq(paper)]) for paper in PAPERS}
    tables["twelve"] = that_matter(rows, entries())
    return filled(PAGE.read_text(encoding="utf-8"), tables, rows)
