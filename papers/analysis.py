"""From results to pages: data frames, means with intervals, tests of claims, and tables in Markdown.

A study's ``results.json`` becomes frames of one row per run and condition. A table is a pivot of a frame. A
claim of ``claims.toml`` is a t test of a column of a frame, over seeds, in each of its groups.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import special

from calibrant._math.errors import InputError
from calibrant._math.means import LEVEL as LEVEL
from calibrant._math.means import mean_of, plus_minus, standard_errors
from calibrant_lab.sweep.kept_runs import runs_in

HERE = Path(__file__).parent
Frames: TypeAlias = Mapping[str, pd.DataFrame]
Tables: TypeAlias = Mapping[str, pd.DataFrame]
PAPERS: Mapping[str, str] = {
    "mukhoti": "Mukhoti et al. 2020",
    "komisarenko": "Komisarenko and Kull 2024",
    "fcl": "Focal Calibration Loss 2025",
    "kimura": "Kimura and Naganuma 2024",
    "berta": "Berta et al. 2025",
    "practice": "common practice",
    "own": "our own question",
}
"""Who makes a claim."""
SHORT: Mapping[str, str] = {"fcl": "FCL", "practice": "practice", "own": ""}
"""The same, shorter, where it is not the key; our own questions have no source."""
VERDICTS = ("confirmed", "contradicted", "only in some settings", "inconclusive", "not testable here")
TAGS = ("reduction", "network", "data", "tuning", "criterion")
"""Reasons why a study may be unable to decide a claim."""
PLACES = (
    *("setting", "data", "images", "way", "convention", "network", "file"),
    *("samples", "features", "group", "kind", "source"),
)
"""Columns that tell apart what a claim is asked of."""
SLOT = re.compile(r"(<!-- (?:table|claims) ?([\w-]*) -->\n).*?(<!-- end -->)", re.DOTALL)
CODE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|<details>.*?</details>", re.DOTALL)
"""Parts of a page other than prose: code, link targets, and folded text."""
NUMBER = re.compile(r"\d+\.\d+|\.\d+")
NUMERIC = re.compile(r"[-+±]?\d|–")


def content(study: str) -> Any:
    """Return a study's ``results.json``."""
    path = HERE / study / "results.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is no whole results file; restore it, or make it anew.") from error


def flat_runs(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return settings and results of each run in one dictionary."""
    return [run.flat for run in runs_in(results)]


def mean_ci(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean over seeds, and half its 95% interval (Student's t); NaN for one seed.

    Example:
        >>> mean, half = mean_ci([1.0, 2.0, 3.0])
        >>> mean, round(half, 3)
        (2.0, 2.484)
    """
    found = mean_of(list(values))
    return found.value, math.nan if found.half_width is None else found.half_width


def pm(values: Iterable[float], *, digits: int = 2, scale: float = 100, signed: bool = False) -> str:
    """``mean ± half`` as text; the mean alone for one seed.

    Example:
        >>> pm([0.01, 0.02, 0.03], digits=1)
        '2.0 ± 2.5'
    """
    return plus_minus(mean_of(list(values)), digits, scale, signed=signed)


def pivot(
    frame: pd.DataFrame, rows: Sequence[str], columns: Sequence[str], value: str, **form: Any
) -> pd.DataFrame:
    """A table of ``mean ± half`` over seeds; ``form`` goes to :func:`pm`. Groups keep their order.

    Example:
        >>> frame = pd.DataFrame({"loss": ["a", "a"], "stage": ["T", "T"], "seed": [0, 1], "ece": [0.1, 0.2]})
        >>> pivot(frame, ["loss"], ["stage"], "ece", digits=0).loc["a", "T"]
        '15 ± 64'
    """
    graded = [name for name in (*rows, *columns) if isinstance(frame[name].dtype, pd.CategoricalDtype)]
    frame = frame.sort_values(graded, kind="stable") if graded else frame
    groups = frame.dropna(subset=[value]).groupby([*rows, *columns], observed=True, sort=False)[value]
    cells = groups.agg(lambda values: pm(values, **form))
    table = cells.unstack(list(columns), sort=False) if columns else cells.to_frame()
    return table.fillna("–")


def by_stage(
    key: Mapping[str, Any], found: Mapping[str, Any], stages: Mapping[str, str], metrics: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row for each stage and metric; both are titles with what results call them.

    Example:
        >>> by_stage({"seed": 0}, {"before": {"ece": 0.1}}, {"as trained": "before"}, {"ECE": "ece"})
        [{'seed': 0, 'stage': 'as trained', 'metric': 'ECE', 'value': 0.1}]
    """
    return [
        {**key, "stage": stage, "metric": metric, "value": found[of][name]}
        for stage, of in stages.items()
        for metric, name in metrics.items()
    ]


def ordered(frame: pd.DataFrame, column: str, titles: Mapping[Any, str]) -> pd.DataFrame:
    """Return the frame with a column as titles in order; drop other rows.

    Example:
        >>> ordered(pd.DataFrame({"loss": ["b", "a", "c"]}), "loss", {"a": "A", "b": "B"})["loss"].tolist()
        ['B', 'A']
    """
    found = frame[frame[column].isin(list(titles))].copy()
    known = [title for name, title in titles.items() if name in set(found[column])]
    found[column] = pd.Categorical(found[column].map(dict(titles)), list(dict.fromkeys(known)), ordered=True)
    return found


def beside(frame: pd.DataFrame, others: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Return for each row of a frame the row of ``others`` with equal keys; NaN if missing."""
    found = others.set_index(list(keys)).reindex(pd.MultiIndex.from_frame(frame[list(keys)]))
    return found.set_index(frame.index)


def resampled(size: int, number: int, *, seed: int = 0) -> Iterable[NDArray[np.int64]]:
    """Yield each sample's count in every bootstrap resample.

    Example:
        >>> [int(counts.sum()) for counts in resampled(5, 3)]
        [5, 5, 5]
    """
    rng = np.random.default_rng(seed)
    return (np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(number))


def relative(frame: pd.DataFrame, keys: Sequence[str], column: str = "value") -> pd.DataFrame:
    """Return a column relative to cross-entropy with equal keys.

    Example:
        >>> losses, seeds = ["cross-entropy", "b", "cross-entropy", "b"], [0, 0, 1, 1]
        >>> frame = pd.DataFrame({"loss": losses, "way": "sum", "seed": seeds, "ece": [0.1, 0.11, 0.2, 0.2]})
        >>> round(float(relative(frame, ["way", "seed"], "ece").value.iloc[1]), 3)
        0.1
    """
    theirs = beside(frame, frame[frame.loss == "cross-entropy"], keys)
    return frame.assign(value=frame[column] / theirs[column] - 1)


def reaching(
    frame: pd.DataFrame, by: str | Sequence[str], value: str, span: tuple[float, float]
) -> dict[Any, bool]:
    """Return for each group whether the interval of its mean reaches into a span."""
    means = frame.groupby(by, observed=True)[value].apply(mean_ci)
    return {key: mean + half >= span[0] and mean - half <= span[1] for key, (mean, half) in means.items()}


def draw_means(
    ax: Axes, values: pd.Series, by: pd.Series, names: Sequence[str], label: str, colour: str, mark: str
) -> None:
    """Draw means over seeds with intervals, one row per name, from above."""
    for name, of in values.groupby(by, observed=True):
        mean, half = mean_ci(of)
        place = len(names) - names.index(str(name))
        ax.errorbar(mean, place, xerr=half, fmt=mark, color=colour, markersize=4, linewidth=1)
    ax.plot([], [], mark, color=colour, label=label)
    ax.set_yticks(range(len(names), 0, -1), names)
    ax.grid(axis="x", alpha=0.3)


def judge(
    values: Iterable[float], *, low: float = -math.inf, high: float = math.inf, error: float | None = None
) -> dict[str, Any]:
    """Test whether the mean is between two bounds, by its 95% interval; p is two-sided (Student's t).

    One value may have a standard ``error``, as of resamples; its interval is that of the normal distribution.

    Example:
        >>> judge([-1.0, -1.1, -0.9], high=0)["verdict"], judge([0.1, -0.1], high=0)["verdict"]
        ('holds', 'undecided')
        >>> judge([1.0], high=0)["verdict"]  # one seed has no interval
        'undecided'
        >>> judge([-1.0], high=0, error=0.5)["verdict"]
        'holds'
    """
    found = list(values)
    below = special.ndtr if error is not None else partial(special.stdtr, len(found) - 1)
    quantile = special.ndtri((1 + LEVEL) / 2) if error is not None else standard_errors(len(found))
    mean, half = mean_ci(found) if error is None else (*found, error * quantile)
    result = {"estimate": mean, "low": mean - half, "high": mean + half, "n": len(found), "p": math.nan}
    if math.isnan(half):
        return {**result, "verdict": "undecided"}

    def beyond(bound: float, side: int) -> float:
        distance = side * (bound - mean)
        if math.isinf(distance) or half == 0:
            return 0.0 if distance > 0 else 1.0
        return min(1.0, 2 * float(below(-distance / (half / quantile))))

    inside = max(beyond(low, -1), beyond(high, 1))
    outside = min(beyond(low, 1), beyond(high, -1))
    if low < mean - half and mean + half < high:
        return {**result, "p": inside, "verdict": "holds"}
    if mean + half < low or mean - half > high:
        return {**result, "p": outside, "verdict": "does not hold"}
    return {**result, "p": min(inside, outside), "verdict": "undecided"}


def all_of(parts: pd.DataFrame) -> dict[str, Any]:
    """Combine a claim's parts: the weakest confirms, the strongest failure refutes (Bonferroni)."""
    failed = parts[parts.verdict == "does not hold"]
    largest = parts.loc[parts.estimate.abs().idxmax()]
    found = {name: largest[name] for name in ("estimate", "low", "high", "n")}
    if len(failed):
        p = min(1.0, len(parts) * failed.p.min())
        return {**found, "p": p, "verdict": "does not hold" if p < 1 - LEVEL else "undecided"}
    holds = bool((parts.verdict == "holds").all())
    return {**found, "p": parts.p.max(skipna=False), "verdict": "holds" if holds else "undecided"}


def read_claims(study: str) -> list[dict[str, Any]]:
    """Read a study's ``claims.toml``, and check the required entries.

    ``id``, ``text``, ``paper`` (a key of ``PAPERS``), ``frame`` and ``expect`` (``"less"``, ``"greater"`` or
    ``"within"``) are required. ``value`` names the column (default ``value``), ``where`` is a query that
    selects rows, ``by`` names the columns with a test for each group, ``all_of`` those of ``by`` whose
    groups must hold together. ``compare`` is a column of which ``pairs`` names two values, whose
    difference is tested. A frame with a column ``standard_error`` has one row in each group. ``than`` is the
    bound (default 0; for ``within`` two). ``open`` says why the study cannot decide the claim, as
    ``"tag: reason"``, where the tag is one of ``TAGS``. ``setting`` says what it is asked of; at the top of
    the file it is said for all claims. ``scale`` and ``unit`` are for display. What means the same in several
    studies has the same ``id``.
    """
    path = HERE / study / "claims.toml"
    if not path.is_file():
        return []
    file = tomllib.loads(path.read_text(encoding="utf-8"))
    default = {"setting": file.get("setting", study.replace("_", " "))}
    claims = [default | claim for claim in file.get("claim", [])]
    known = {
        *("id", "text", "paper", "section", "frame", "value", "where", "by", "all_of", "compare", "pairs"),
        *("expect", "than", "open", "setting", "scale", "unit"),
    }
    for claim in claims:
        missing = {"id", "text", "paper", "frame", "expect"} - claim.keys()
        if missing or claim.keys() - known or claim["paper"] not in PAPERS:
            raise InputError(f"{path}: {claim.get('id')}: missing {missing}, unknown {claim.keys() - known}.")
    return claims


def verdicts(study: str, frames: Frames, claims: Sequence[Mapping[str, Any]] | None = None) -> pd.DataFrame:
    """Return one row for each test of each claim: groups, estimate, interval, n, p and verdict."""
    return pd.DataFrame(
        {**row, "study": study}
        for claim in (read_claims(study) if claims is None else claims)
        for row in _tests_of(claim, frames[claim["frame"]])
    )


def _tests_of(claim: Mapping[str, Any], frame: pd.DataFrame) -> Iterable[dict[str, Any]]:
    value, by, together = claim.get("value", "value"), claim.get("by", []), claim.get("all_of", [])
    chosen = frame.query(claim["where"]) if "where" in claim else frame
    if not len(chosen):
        raise InputError(f"the claim {claim['id']} selects no rows of {claim['frame']}.")
    told = {key: claim.get(key, "") for key in ("text", "paper", "section", "open", "unit")}
    label = {"claim": claim["id"], **told, "scale": claim.get("scale", 1)}
    for pair in claim.get("pairs", [()]):
        rows = difference(chosen, value, claim["compare"], *pair, by=by) if pair else chosen
        tests = [
            {**dict(zip(by, key, strict=True)), **_judged(claim, group, value)}
            for key, group in _groups(rows, by)
        ]
        pairing = {"first": pair[0], "second": pair[1]} if pair else {}
        if together:
            rest = [name for name in by if name not in together]
            tests = [
                {**dict(zip(rest, key, strict=True)), **all_of(group)}
                for key, group in _groups(pd.DataFrame(tests), rest)
            ]
        for test in tests:
            group = ", ".join(str(test[name]) for name in by if name in test)
            places = [test[name] for name in PLACES if name in test]
            words = [f"{each:,}" if isinstance(each, int) else str(each) for each in places]
            asked_of = ", ".join(filter(None, (claim["setting"], *words)))
            yield {**label, **pairing, "group": group, "asked_of": asked_of, **test}


def _groups(frame: pd.DataFrame, by: Sequence[str]) -> Iterable[tuple[tuple[Any, ...], pd.DataFrame]]:
    return frame.groupby(list(by), observed=True, sort=False) if by else [((), frame)]


def _judged(claim: Mapping[str, Any], group: pd.DataFrame, value: str) -> dict[str, Any]:
    than, error = claim.get("than", 0.0), group.get("standard_error")
    bounds = {"less": ("high",), "greater": ("low",), "within": ("low", "high")}[claim["expect"]]
    given = dict(zip(bounds, than if len(bounds) > 1 else [than], strict=True))
    return judge(group[value], **given, error=None if error is None else error.iloc[0])


def difference(
    frame: pd.DataFrame, value: str, column: str, first: Any, second: Any, *, by: Sequence[str] = ()
) -> pd.DataFrame:
    """Return first minus second of a column's values, paired by seed within each group."""
    keys = [*by, "seed"]
    sides = [frame[frame[column] == name].set_index(keys)[value] for name in (first, second)]
    if any(side.index.has_duplicates for side in sides) or not all(map(len, sides)):
        raise InputError(f"{first} and {second} of {column} must have one row for each of {keys}.")
    return (sides[0] - sides[1]).dropna().rename(value).reset_index()


def status(rows: pd.DataFrame) -> str:
    """Return the verdict on a claim, from its tests' ``left``.

    Example:
        >>> status(pd.DataFrame({"left": ["holds", "undecided"], "open": ["", ""]}))
        'confirmed'
        >>> status(pd.DataFrame({"left": ["holds", "does not hold"], "open": ["", ""]}))
        'only in some settings'
    """
    if rows.open.ne("").all():
        return "not testable here"
    found = set(rows.left[rows.open.eq("")])
    if {"holds", "does not hold"} <= found:
        return "only in some settings"
    return "confirmed" if "holds" in found else "contradicted" if "does not hold" in found else "inconclusive"


def claims_list(rows: pd.DataFrame) -> str:
    """List claims under their verdicts, with decided tests if not all are, effects and source."""
    found = []
    for _, of in rows.groupby("claim", sort=False):
        one, verdict = of.iloc[0], status(of)
        effects = sorted(one.scale * of.estimate.dropna())
        ends = dict.fromkeys(f"{effect:.3g}" for effect in effects[:1] + effects[-1:])
        if of.open.ne("").all():  # without the tag by which all claims are listed
            verdict += f": {one.open.partition(': ')[2] or one.open}"
        effect = with_unit(" to ".join(ends) or "–", one.unit)
        source = f"{SHORT.get(one.paper, one.paper.capitalize())} {section_of(one.section)}".strip()
        sure = of.left.ne("undecided").sum()
        count = f"{sure}/{len(of)}" if 0 < sure < len(of) else ""
        found.append((verdict, f"{one.text} ({'; '.join(filter(None, (count, effect, source)))})"))
    return by_verdict(found)


def by_verdict(claims: Iterable[tuple[str, str]]) -> str:
    """List texts under their verdicts, which may have a reason after a colon.

    Example:
        >>> print(by_verdict([("contradicted", "A"), ("confirmed", "B"), ("confirmed", "C")]))
        **Confirmed**
        <BLANKLINE>
        - B
        - C
        <BLANKLINE>
        **Contradicted**
        <BLANKLINE>
        - A
    """
    groups: dict[str, list[str]] = {}
    for verdict, text in claims:
        groups.setdefault(verdict, []).append(f"- {text}")
    ranked = sorted(groups, key=lambda verdict: VERDICTS.index(verdict.partition(":")[0]))
    return "\n\n".join(
        f"**{verdict[0].upper()}{verdict[1:]}**\n\n" + "\n".join(groups[verdict]) for verdict in ranked
    )


def with_unit(number: str, unit: str) -> str:
    """Return a number with its unit; signs follow without a space."""
    return f"{number}{unit}" if unit[:1] in {"%", "°"} else f"{number} {unit}".strip()


def section_of(section: str) -> str:
    """Return a section without the word, as a claim's source."""
    return re.sub("^(section|appendix)s? ", "", section)


def means_only(table: pd.DataFrame, *but: Any) -> pd.DataFrame:
    """Drop the half-widths of a table's columns other than ``but``.

    Example:
        >>> means_only(pd.DataFrame({"ece": ["1.5 ± 0.2"], "nll": ["0.4 ± 0.1"]}), "ece").loc[0].tolist()
        ['1.5 ± 0.2', '0.4']
    """
    return table.apply(lambda of: of if of.name in but else of.str.replace(" ±.*", "", regex=True))


def markdown(table: pd.DataFrame) -> str:
    """Format a table in Markdown, index first; numbers are right-aligned."""
    named = table.index.names if any(table.index.names) else [""]
    flat = table.reset_index() if any(table.index.names) else table.reset_index(names="")
    parts = [name if isinstance(name, tuple) else (name,) for name in flat.columns]
    heads = [" ".join(filter(None, map(str, name))) for name in parts]
    rows = [[str(cell) for cell in row] for row in flat.itertuples(index=False)]
    columns = list(zip(*rows, strict=True))[len(named) :]
    ruler = ["---:" if all(map(NUMERIC.match, column)) else "---" for column in columns]
    lines = [heads, ["---"] * len(named) + (ruler or ["---"] * (len(heads) - len(named))), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(page: str, tables: Mapping[str, pd.DataFrame | str], rows: pd.DataFrame) -> str:
    r"""Fill a page's slots: ``<!-- table NAME -->`` and ``<!-- claims -->``, to ``<!-- end -->``.

    Example:
        >>> page = "<!-- table t -->\n<!-- end -->"
        >>> print(filled(page, {"t": pd.DataFrame({"a": ["1"]}, index=["x"])}, pd.DataFrame()))
        <!-- table t -->
        |  | a |
        | --- | ---: |
        | x | 1 |
        <!-- end -->
    """

    def slot(match: re.Match[str]) -> str:
        found = tables[match[2]] if match[2] else f"\n{claims_list(rows)}\n"
        return f"{match[1]}{found if isinstance(found, str) else markdown(found)}\n{match[3]}"

    return SLOT.sub(slot, page)


def strange_numbers(page: str, tables: Tables, rows: pd.DataFrame) -> list[str]:
    """Return decimal numbers in a page's prose that are in none of its tables or claims.

    Example:
        >>> strange_numbers("It is 1.5, not 2.5.", {"t": pd.DataFrame({"a": ["1.5 ± 0.2"]})}, pd.DataFrame())
        ['2.5']
    """
    prose = CODE.sub("", SLOT.sub("", page))
    known = set()
    for text in [*map(markdown, tables.values()), *([claims_list(rows)] if len(rows) else [])]:
        known |= set(NUMBER.findall(text))
    return [number for number in NUMBER.findall(prose) if number not in known]
