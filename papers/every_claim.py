"""All studies' claims: the page ``claims.md``, and every test as a table for download."""

import math
import re
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from calibrant._math.files import write_text
from calibrant.reports.figures.drawing import BLUE, GREY, drawing_style, save_figure
from calibrant_lab.sweep.published import facts
from papers.analysis import HERE, PAPERS, by_verdict, filled, section_of, status, with_unit
from papers.studies import every_row

PAGE = HERE / "claims.md"
SIGNS = {"holds": "●", "does not hold": "✗", "both": "◐", "undecided": "○"}
MOST_SIGNS = 9
FIGURES = HERE / "forests"
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


def download(rows: pd.DataFrame) -> pd.DataFrame:
    """Return every test, one row each; effects have the unit of the claim's column."""
    found = rows[DOWNLOADED].rename(columns=RENAMED)
    words = found[["compared", "with"]].map(str, na_action="ignore")
    return found.assign(**words, paper=rows.paper.map(PAPERS), study=rows.study.str.replace("_", "-"))


def settings(rows: pd.DataFrame, by: Sequence[str] = ("asked_of",)) -> pd.DataFrame:
    """Return one row per counted setting: verdict of its decided tests, and median effect.

    Example:
        >>> found = pd.DataFrame({"asked_of": ["a", "a", "b"], "estimate": [1.0, 2.0, 3.0], "scale": 1})
        >>> found["left"] = ["holds", "undecided", "does not hold"]
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
    """Return a sign for each setting, or counts of many.

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
    """Return the median over settings, and the range of several.

    Example:
        >>> effects(pd.Series([-4.2, -13.0, 1.1]), "points")
        '-4.2 (-13 to 1.1) points'
    """
    known = found.dropna()
    if not len(known):
        return "–"
    ends = f" ({known.min():.2g} to {known.max():.2g})" if len(known) > 1 else ""
    return with_unit(f"{known.median():.2g}{ends}", unit)


def told(rows: pd.DataFrame, by: Sequence[str] = ("asked_of",)) -> dict[str, str]:
    """Return a claim's settings, effect and verdict as text."""
    counted = rows[rows.open.eq("")]
    each = settings(counted if len(counted) else rows, by)
    left_open = len(rows.groupby(list(by))) - len(settings(counted, by))
    if not len(counted):
        verdict = f"Not testable here: {rows.open.iloc[0].partition(':')[0]}"
    else:
        spread = each.verdict.map(lambda one: ["holds", "does not hold"] if one == "both" else [one])
        verdict = status(pd.DataFrame({"left": spread.explode(), "open": ""})).capitalize()
        verdict += _by_one_metric(counted)
    here = signs(each.verdict if len(counted) else [], left_open)
    return {"here": here, "effect": effects(each.effect, rows.unit.iloc[0]), "verdict": verdict}


def _by_one_metric(counted: pd.DataFrame) -> str:
    decided = counted[counted.left.ne("undecided")].get("metric", pd.Series()).dropna().unique()
    alone = len(decided) == 1 and counted.metric.nunique() > 1
    return f": by {decided[0].replace('_', ' ').replace('ece', 'ECE')} only" if alone else ""


def experiments(rows: pd.DataFrame) -> str:
    """List one paper's claims that a setting tests, by verdict, then in the order of its sections."""
    found = []
    tested = rows.claim.isin(rows.claim[rows.open.eq("")])
    for _, of in rows[tested].groupby("claim", sort=False):
        links = ", ".join(f"[{name.replace('_', '-')}]({name}/page.md)" for name in of.study.unique())
        row, section = told(of), section_of(of.section.iloc[0])
        verdict, _, only = row["verdict"].partition(": ")
        median = re.sub(r" \(.*\)", "", row["effect"])
        effect = "; ".join(filter(None, (median, only, section)))
        several = f"{row['here']} " if len(row["here"]) > 1 else ""
        found.append((section, verdict.lower(), f"{several}{of.text.iloc[0]} ({effect}): {links}"))
    return f"\n{by_verdict(each[1:] for each in sorted(found, key=_order))}\n"


def _order(claim: tuple[str, str, str]) -> tuple[bool, list[int]]:
    """Return a sort key: numbered sections, then appendices, tables and figures."""
    return not claim[0][:1].isdigit(), [*map(int, re.findall(r"\d+", claim[0]))]


def that_matter(rows: pd.DataFrame, entries: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the claims in ``claims.toml`` next to their papers' own counts, without untested ones."""
    found = []
    for entry in entries:
        of = _asked(entry, rows)
        if not len(of):
            continue
        row = told(of, entry.get("by", ["asked_of"]))
        reason = f": {entry['why']}" if "why" in entry and ":" not in row["verdict"] else ""
        count = agreeing(entry)[1] if "printed" in entry else entry["count"]
        row = {"claim": entry["text"], "paper": count, **row}
        found.append(row | {"verdict": f"**{row['verdict'].partition(':')[0]}**{reason}"})
    return pd.DataFrame(found).set_index("claim")


def _asked(entry: Mapping[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    of = rows[rows.paper.eq(entry["paper"]) & rows.claim.isin(entry["ids"])]
    return of.query(entry["where"]) if "where" in entry and len(of) else of


def entries(path: Path = HERE / "claims.toml") -> list[dict[str, Any]]:
    """Read ``claims.toml``; its head explains the entries."""
    return tomllib.loads(path.read_text(encoding="utf-8"))["claim"]


def printed(asked: Mapping[str, Any]) -> pd.Series:
    """Return a paper's own values of ``first``, less the lowest of ``second``, or in % of it."""
    by, rows = asked.get("by", "method"), pd.DataFrame(facts(asked["source"]))
    metric, stage = asked.get("metric", "ECE"), asked.get("stage", "na")
    rows = rows[rows.table.isin(asked["tables"]) & rows.stage.eq(stage) & rows.metric.eq(metric)]
    numbers = pd.to_numeric(rows[asked.get("value", "value")], errors="coerce")
    rows = rows.assign(number=numbers).dropna(subset="number")
    if by == "calibrator":
        rows["calibrator"] = rows.calibrator.str.partition("(")[0]
    places = ["dataset", "model", *{"method"} - {by}]
    cells = rows.pivot_table(index=places, columns=by, values="number", aggfunc="first")
    found = pd.concat([cells[name] for name in asked["first"]])
    if "second" not in asked:
        return found.dropna()
    than = cells[asked["second"]].min(axis=1).reindex(found.index)
    return (100 * (found / than - 1) if asked.get("relative") else found - than).dropna()


def agreeing(entry: Mapping[str, Any]) -> tuple[pd.Series, str]:
    """Return the rows of the paper's own tables, and the number that agree."""
    found = printed(entry["printed"])
    low, high = _holds_between(entry)
    agree = (found.between(low, high) & found.ne(0)).sum()
    percent = "%" if entry["printed"].get("relative") else ""
    return found, f"{agree} of {len(found)}, median {found.median():.2g}{percent}"


def _holds_between(entry: Mapping[str, Any]) -> tuple[float, float]:
    return entry.get("above", -math.inf), entry.get("below", math.inf if "above" in entry else 0.0)


def forest(entry: Mapping[str, Any], rows: pd.DataFrame) -> Figure:
    """Draw a claim's effects by setting with intervals; hollow for other setups, grey for the paper."""
    of = _asked(entry, rows)
    places = list(dict.fromkeys(of.asked_of))
    own, (low, high) = agreeing(entry)[0] if "printed" in entry else pd.Series(), _holds_between(entry)
    whole = Figure(figsize=(4.6, 1.4 + 0.3 * (len(places) + (len(own) > 0))), layout="constrained")
    whole.suptitle(textwrap.fill(entry["text"], 52, break_on_hyphens=False), fontsize=9)
    ax = whole.subplots()
    for place, tests in of.groupby("asked_of", sort=False):
        for number, test in enumerate(tests.itertuples()):
            y = places.index(place) + 1 + 0.6 * (number + 1) / (len(tests) + 1) - 0.3
            ends = [test.scale * test.low, test.scale * test.high]
            ax.plot(ends, [y, y], color=BLUE, linewidth=1)
            fill = "none" if test.open else BLUE
            ax.plot(test.scale * test.estimate, y, "o", color=BLUE, markerfacecolor=fill, markersize=4)
    ax.plot(own, [0] * len(own), "D", color=GREY, alpha=0.6, markersize=4)
    ticks = [*([0] if len(own) else []), *range(1, len(places) + 1)]
    ends = [end for end in (low, high) if math.isfinite(end)]
    for end in ends:
        ax.axvline(end, color=GREY, linewidth=0.8)
    left, right = ax.get_xlim()
    ax.axvspan(max(left, low), min(right, high), color=GREY, alpha=0.12, linewidth=0)
    ax.set(xlim=(left, right), ylim=(min(ticks) - 0.5, len(places) + 0.5))
    ax.set_xlabel(entry.get("axis", "difference in percentage points"))
    ax.set_yticks(ticks, [*(["the paper's rows"] if len(own) else []), *places])
    return whole


def write(file: Path | None = None) -> Path:
    """Write the page with its figure, or every test into a file (``.csv``, ``.parquet``)."""
    rows = every_row()
    path = file or PAGE
    if file is None:
        write_text(path, page_text(rows))
        with drawing_style():
            for entry in entries():
                save_figure(forest(entry, rows), FIGURES / f"{entry['name']}.svg")
    elif path.suffix == ".parquet":
        download(rows).to_parquet(path, index=False)
    else:
        download(rows).to_csv(path, index=False, float_format="%.6g")
    return path


def page_text(rows: pd.DataFrame) -> str:
    """Return the claims page with tables from all studies' tests."""
    lists = {paper: experiments(rows[rows.paper.eq(paper)]) for paper in PAPERS}
    tables = {**lists, "twelve": that_matter(rows, entries())}
    return filled(PAGE.read_text(encoding="utf-8"), tables, rows)
