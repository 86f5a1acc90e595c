"""Build a table from results and a layout: means, paired tests, and published numbers."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
from scipy import stats

from calibrant._math.errors import InputError
from calibrant._math.means import Mean, mean_of, standard_errors
from calibrant._math.text_form import nearest
from calibrant_lab.sweep.matching import matches
from calibrant_lab.sweep.published import Fact, facts, paper_named
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.tables import names
from calibrant_lab.tables.layout import Layout, TableQuantity
from calibrant_lab.tables.names import accepts, settings_of, stage_of

Test: TypeAlias = Literal["t", "sign-flip"]
Correction: TypeAlias = Literal["holm", "benjamini-hochberg", "none"]
TESTS: tuple[Test, ...] = get_args(Test)
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
SIGNIFICANCE = 0.05
FEWEST = 3  # seeds that two arms must share for anything to be decided
_MOST_FLIPPED = 14  # seeds up to which all signs are tried; beyond it the t test takes over


class Comparison(NamedTuple):
    """A paired difference and its two-sided p-value, each None for too few common seeds.

    ``test`` is the test, such as ``"t, df = 4"``, or the reason why there is none.
    """

    difference: Mean | None
    p: float | None
    test: str


def compare(first: Mapping[object, float], second: Mapping[object, float], test: Test = "t") -> Comparison:
    """Compare two arms, paired by their repeats.

    Example:
        >>> found = compare({0: 1.0, 1: 2.0, 2: 3.5}, {0: 0.5, 1: 1.0, 2: 2.0, 3: 9.0})
        >>> found.difference.value, round(found.p, 3), found.test
        (1.0, 0.074, 't, df = 2')
        >>> compare({0: 1.0, 1: 2.0}, {0: 0.5, 1: 1.0}).test
        'undecidable: 2 seeds in common, 3 are needed'
    """
    gaps = [value - second[key] for key, value in first.items() if key in second]
    n = len(gaps)
    if n == 0:
        return Comparison(None, None, "undecidable: no seed in common")
    difference = mean_of(gaps)
    if n < FEWEST:
        said = f"undecidable: {n} seed{'s' * (n > 1)} in common, {FEWEST} are needed"
        return Comparison(difference, None, said)
    # Differences that are all alike, as on a grid of temperatures, have no spread for a t test to go by.
    if max(gaps) - min(gaps) <= 1e-12 * max(map(abs, gaps)):
        return Comparison(difference, 2 / 2**n if any(gaps) else 1.0, f"sign-flip, n = {n}")
    if test == "sign-flip" and n <= _MOST_FLIPPED:
        signs = np.array([*itertools.product((1, -1), repeat=n)])
        near = 1e-12 * np.abs(gaps).sum()  # sums that differ by rounding alone are alike
        p = float(np.mean(np.abs(signs @ gaps) >= abs(sum(gaps)) - near))
        return Comparison(difference, p, f"sign-flip, n = {n}")
    return Comparison(difference, float(stats.ttest_1samp(gaps, 0).pvalue), f"t, df = {n - 1}")


def adjusted(
    p_values: pd.Series | Sequence[float], correction: Correction | Literal["benjamini-yekutieli"]
) -> pd.Series:
    """Adjust p-values within their family; NaN stays out.

    Holm's method bounds the chance of any false finding, Benjamini and Hochberg's the expected share of false
    ones among the findings, and Benjamini and Yekutieli's the same however the tests depend on one another.

    Example:
        >>> adjusted([0.01, 0.04, 0.03], "holm").tolist()
        [0.03, 0.06, 0.06]
        >>> adjusted([0.01, 0.04, 0.03], "benjamini-hochberg").tolist()
        [0.03, 0.04, 0.04]
    """
    given = pd.Series(p_values, dtype=float)
    p = given.dropna().clip(upper=1).sort_values()
    if len(p) and correction == "holm":
        p[:] = np.maximum.accumulate(np.minimum(1, np.arange(len(p), 0, -1) * p))
    elif len(p) and correction != "none":
        p[:] = stats.false_discovery_control(p, method="by" if correction == "benjamini-yekutieli" else "bh")
    return p.reindex(given.index)


def against_all(
    best: Mapping[object, float], others: Sequence[Mapping[object, float]], test: Test
) -> Comparison:
    """Compare the best arm with its closest competitor.

    The best was chosen by looking; two-sided tests against all others make up for that, with no further
    correction (Hung and Fithian, "Rank verification for exponential families", Annals of Statistics, 2019).
    """
    found = [compare(best, each, test) for each in others]
    return max(found, key=lambda each: 2.0 if each.p is None else each.p)


Keys = Mapping[str, Any]  # the value of each level: of a setting, or a paper's name


class Reading(NamedTuple):
    """An unscaled number of a run, or why it is missing; its stage, and a bracketed parameter."""

    value: float | None = None
    why: str = ""
    stage: str | None = None
    bracket: float | None = None


class Placed(NamedTuple):
    """A run in a cell, or a point that a grid ``wanted``; ``keys`` are the value of each level."""

    keys: Keys
    status: str
    run: RunResult | None
    repeat: Any  # the value of what the runs repeat


def placed_in(layout: Layout, settings: Keys, status: str, run: RunResult | None = None) -> list[Placed]:
    """Return a run's places; it can have several of a paper's names, and other networks get their own."""
    keys: list[Keys] = [{level: settings.get(level) for level in layout.levels}]
    keys = _papers_own(layout, layout.levels, settings) if layout.paper else keys
    return [Placed(each, status, run, settings.get(layout.repeat, run and run.run)) for each in keys]


def heads(layout: Layout, levels: Sequence[str], there: Iterable[Keys]) -> dict[str, Keys]:
    def order(keys: Keys) -> list[Any]:
        if not layout.paper:
            return [natural(value) for value in keys.values()]
        method = keys.get("method")
        return [str(keys["dataset"]), str(keys["model"]), [*layout.methods, method].index(method)]

    own = _papers_own(layout, levels) if layout.paper else []
    others = {
        repr(keys): keys for each in there if (keys := {level: each[level] for level in levels}) not in own
    }
    return {repr([*keys.values()]): keys for keys in [*own, *sorted(others.values(), key=order)]}


def _papers_own(layout: Layout, levels: Sequence[str], settings: Keys | None = None) -> list[Keys]:
    """Return a paper's name combinations, datasets with their networks; or those of a run."""

    def named(level: str, name: str) -> bool:
        return settings is None or level == "calibrator" or accepts(level, name, settings)

    parts: dict[str, list[list[tuple[str, Any]]]] = {}
    for level in levels:
        if level in {"dataset", "model"}:
            shown = [each for each in levels if each in {"dataset", "model"}]
            pairs: list[Keys] = [{"dataset": data, "model": model} for data, model in layout.networks]
            pairs = [pair for pair in pairs if all(named(each, pair[each]) for each in shown)]
            if settings and not pairs and {"dataset", "model"} <= {*layout.rows}:
                pairs = [{"dataset": settings.get("data.name"), "model": settings.get("model")}]
            parts["network"] = [[(each, pair[each]) for each in shown] for pair in pairs]
        else:
            parts[level] = [[(level, name)] for name in getattr(layout, f"{level}s") if named(level, name)]
    found = (dict(itertools.chain(*each)) for each in itertools.product(*parts.values()))
    return [{level: keys[level] for level in levels} for keys in found]


def natural(value: Any) -> list[tuple[int, float, str]]:
    """Return a sort key that orders numbers by size, also inside words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [(0, float(value), "")]
    parts = re.split(r"(\d+(?:\.\d+)?)", str(value))
    return [(1, float(part), "") if place % 2 else (2, 0.0, part) for place, part in enumerate(parts)]


def read(quantity: TableQuantity, result: RunResult, stages: Sequence[str] = ()) -> Reading:
    """Return a quantity's number; ``stages`` apply if the quantity has none."""
    name = quantity.name
    match quantity.source:
        case None:
            return Reading(why="only the paper has it")
        case "metric" | "parameter":
            return _of_stage(quantity, result, quantity.stage or tuple(stages))
        case "last":
            rows = result.rows
            found = _inside(rows[-1], name) if rows else None
        case "more":
            found = _inside(result.more, name)
        case "spent":
            found = getattr(result, f"{name}_seconds")
        case "setting":
            found = setting(result.settings, name)
    return _number(found, name)


def setting(settings: Keys, name: str) -> Any:
    """Return a setting, or as ``loss.gamma`` one of the loss's own; None if missing."""
    head, _, inner = name.partition(".")
    if name in settings or head not in settings:
        return settings.get(name)
    return settings_of(str(settings[head]), "method" if head == "loss" else head).get(inner)


def _of_stage(quantity: TableQuantity, result: RunResult, wanted: Sequence[str]) -> Reading:
    stage = stage_of(result.metrics, wanted)
    if stage is None:
        return Reading(why=f"the run has no stage {wanted[-1] if wanted else ''}".rstrip())
    parameters = result.parameters.get(stage, {})
    held = result.metrics[stage] if quantity.source == "metric" else parameters
    if quantity.name not in held:
        return Reading(why=f"the run has no {quantity.name}", stage=stage)
    found = _number(held[quantity.name], quantity.name)
    why = found.why and result.undefined.get(stage, {}).get(quantity.name, found.why)
    bracket = _number(parameters.get(quantity.bracket), "").value if quantity.bracket else None
    return Reading(found.value, why, stage, bracket)


def _number(value: Any, name: str) -> Reading:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return Reading(float(value))
    return Reading(why=f"{name}: {'the run has none' if value is None else f'it is {value!r}, not a number'}")


def _inside(content: Keys, path: str) -> Any:
    """Look up a dotted path, whose names can contain dots."""
    if path in content:
        return content[path]
    head, dot, rest = path.partition(".")
    inner = content.get(head)
    return _inside(inner, rest) if dot and isinstance(inner, Mapping) else None


_COSMETIC = ("hardware", "record")  # sections of settings that do not decide a run's numbers


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a table's computation."""

    against: str | None = None  # the arm with which all others are compared, by its name in the table
    test: Test = "t"  # Student's t, or an exact test by the signs of the differences
    correction: Correction = "holm"  # how many tests are accounted for
    whole: bool = False  # whether rows without runs stay
    wanted: Sequence[Mapping[str, Any]] | None = None
    """The settings of the runs that a grid wants, where it is known."""


class Cell(NamedTuple):
    """Cell of a table; numbers are scaled for display."""

    keys: Keys  # meaning of row and column, by level
    at: str  # the same in words
    quantity: TableQuantity  # what it shows
    values: Mapping[Any, float]  # by what the runs repeat
    mean: Mean | None  # over what they repeat; None where no run has a value
    bracket: float | None  # mean of the parameter in brackets
    stages: tuple[str, ...]  # the stages that the values are of
    runs: Counter[str]  # how many runs stand here, by status, and how many a grid ``wanted``
    undefined: Counter[str]  # how many finished runs have no value, by reason
    fact: Fact | None  # the paper's number, as it is printed
    theirs: float | None  # half the width of its interval, where the paper gives a standard deviation
    beyond: float | None  # ours less theirs
    stand_ins: list[str]  # data sets and networks used in place of the paper's own


@dataclass(frozen=True, kw_only=True)
class Table:
    """Table as data, independent of format."""

    layout: Layout  # origin
    options: Options  # how it was computed
    rows: Sequence[tuple[str, ...]]  # the words beside each row
    columns: Sequence[tuple[str, ...]]  # the words above each column
    cells: pd.DataFrame
    """A :class:`Cell` in each row of the frame, row by row of the table. ``best_p`` is the adjusted p-value
    of being the best of those compared. ``difference`` is from the arm that all are compared with, with its
    ``p`` and ``adjusted`` p-value and the ``test``. NaN if there is none.
    """
    left_out: int  # rows of the layout without runs that were left out
    unplaced: int  # how many runs match no row and column of it
    strays: tuple[str, ...]  # settings that vary within a cell besides what is repeated

    @property
    def flat(self) -> list[Cell]:
        return [Cell(*cell) for cell in self.cells[[*Cell._fields]].itertuples(index=False)]


def build_table(layout: Layout, results: Sequence[RunResult], options: Options | None = None) -> Table:
    """Build a table of results.

    Args:
        layout: Rows, columns and cells.
        results: The results of all runs, the failed and diverged ones too, which are counted.
        options: How it is computed.

    Raises:
        InputError: If the layout names settings that the runs do not have, several runs would count as one,
            or there is no arm of that name.
    """
    options = options or Options()
    chosen = [each for each in results if matches(each.settings, layout.where)]
    known = dict.fromkeys(name for each in chosen for name in each.settings)
    for level in (*layout.levels, layout.repeat) if chosen and not layout.paper else ():
        if level not in known and level != "seed":
            raise InputError(f"the runs have no setting {level}{nearest(level, known)}")
    runs = [placed_in(layout, each.settings, each.status, each) for each in chosen]
    wanted = [placed_in(layout, each, "wanted") for each in options.wanted or ()]
    placed, sides = [*itertools.chain(*runs, *wanted)], (layout.rows, layout.columns)
    groups: dict[tuple[str, str], list[Placed]] = defaultdict(list)
    for each in placed:
        row, column = (repr([each.keys[name] for name in side]) for side in sides)
        groups[row, column].append(each)
    rows, columns = (heads(layout, side, [each.keys for each in placed]) for side in sides)
    there = {row for (row, _), group in groups.items() if any(each.run for each in group)}
    kept = {name: keys for name, keys in rows.items() if options.whole or not there or name in there}
    above: Sequence[TableQuantity | None] = [None]
    beside: Sequence[TableQuantity | None] = layout.cells
    if layout.quantities == "rows":
        above, beside = beside, above
    down, across = [*itertools.product(kept, above)], [*itertools.product(columns, beside)]
    cells = [
        _cell(layout, {**rows[row], **columns[column]}, one or other, groups[row, column])
        for (row, one), (column, other) in itertools.product(down, across)
    ]
    strays = (name for place in itertools.product(kept, columns) for name in _strays(layout, groups[place]))
    return Table(
        layout=layout,
        options=options,
        rows=[(*_words(rows[row]), *([one.head] if one else [])) for row, one in down],
        columns=[(*_words(columns[column]), *([one.head] if one else [])) or ("",) for column, one in across],
        cells=_compared(layout, pd.DataFrame(cells, columns=Cell._fields, dtype=object), options),
        left_out=(len(rows) - len(kept)) * len(above),
        unplaced=runs.count([]),
        strays=tuple(dict.fromkeys(strays)),
    )


def _words(keys: Keys) -> list[str]:
    return [names.label(level, value) for level, value in keys.items()]


def _cell(layout: Layout, keys: Keys, quantity: TableQuantity | None, group: Sequence[Placed]) -> Cell:
    if quantity is None:
        raise InputError("a cell must show a quantity.")
    at = ", ".join(_words(keys)) or "the table"
    _check_alone(layout, group, at)
    finished = [(each.repeat, each.run) for each in group if each.run and each.status == "finished"]
    stages = [keys["calibrator"]] if "calibrator" in keys else []
    found = [(repeat, read(quantity, run, stages)) for repeat, run in finished]
    values = {repeat: quantity.scale * each.value for repeat, each in found if each.value is not None}
    readings = [each for _, each in found]
    brackets = [each.bracket for each in readings if each.bracket is not None]
    mean, fact = mean_of([*values.values()]) if values else None, _fact(layout, quantity, keys)
    trainings = paper_named(layout.paper).runs if layout.paper and fact and fact.value and fact.sd else None
    return Cell(
        keys=keys,
        at=at,
        quantity=quantity,
        values=values,
        mean=mean,
        bracket=mean_of(brackets).value if brackets else None,
        stages=tuple(dict.fromkeys(each.stage for each in readings if each.stage)),
        runs=Counter(each.status for each in group),
        undefined=Counter(each.why for each in readings if each.value is None),
        fact=fact,
        theirs=standard_errors(trainings) * float(fact.sd) / trainings**0.5 if fact and trainings else None,
        beyond=mean.value - float(fact.value) if mean and fact and fact.value else None,
        stand_ins=[other for _, run in finished for other in names.stand_ins(keys, run.settings)],
    )


def _check_alone(layout: Layout, group: Sequence[Placed], at: str) -> None:
    """Refuse two runs that differ in more than the repeated setting."""
    seen: dict[Any, RunResult] = {}
    for each in group:
        if each.run and (other := seen.setdefault(each.repeat, each.run)) is not each.run:
            one, those = each.run.settings, other.settings
            differing = [name for name in {**one, **those} if one.get(name) != those.get(name)]
            deciding = [name for name in differing if name.partition(".")[0] not in _COSMETIC] or differing
            what = ", ".join(deciding) or "their data or the version of their numbers"
            raise InputError(
                f"{at}: several runs have {layout.repeat} = {one.get(layout.repeat)}; they differ in {what}. "
                "Name it in `rows` or `columns` of a layout, or choose by --where."
            )


def _strays(layout: Layout, group: Sequence[Placed]) -> list[str]:
    settings = [each.run.settings for each in group if each.run]
    found = dict.fromkeys(name for each in settings for name in each if not name.endswith("seed"))
    found = [each for each in found if each != layout.repeat and each.partition(".")[0] not in _COSMETIC]
    return [name for name in found if len({repr(each.get(name)) for each in settings}) > 1]


def _fact(layout: Layout, quantity: TableQuantity, keys: Keys) -> Fact | None:
    paper = str(layout.paper)
    asked = (layout.table, *(quantity.published or ()))
    lost = names.roster()["lost"].get(paper, {})  # probable methods for names lost from a table's text
    for fact in facts(paper) if layout.paper and quantity.published else ():
        if (
            (fact.table, fact.metric, fact.stage) == asked
            and fact.dataset == keys.get("dataset", fact.dataset)
            and fact.model in {keys.get("model", fact.model), ""}
            and keys.get("method") in {lost.get(fact.dataset, {}).get(fact.method, fact.method), None}
            and fact.calibrator.partition("(")[0] == keys.get("calibrator", fact.calibrator)
        ):
            return fact
    return None


def _compared(layout: Layout, cells: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Mark the best of each group, and compare with the arm; each question is a test family."""
    levels, test = layout.compared, options.test
    arms = [", ".join(_words({k: v for k, v in keys.items() if k in levels})) for keys in cells["keys"]]
    rest = [repr([v for k, v in keys.items() if k not in levels]) for keys in cells["keys"]]
    arm = None if options.against is None else _arm(options.against, arms, levels, cells)
    told: Any = cells.assign(arm=arms, rest=rest)
    best: dict[Any, Comparison] = {}
    found: dict[Any, Comparison] = {}
    for (_, quantity), group in told[told["mean"].notna()].groupby(["rest", "quantity"], sort=False):
        values, means = group["values"], group["mean"].map(lambda mean: mean.value).astype(float)
        if quantity.better and len(group) > 1:
            first = means.idxmin() if quantity.better == "lower" else means.idxmax()
            best[first] = against_all(values[first], [*values.drop(first)], test)
        for base in group.index[group["arm"] == arm][:1]:
            others = values.drop(base)
            found |= {each: compare(of, values[base], test) for each, of in others.items()}
    judged: Any = pd.DataFrame.from_dict(found, orient="index", columns=Comparison._fields)
    judged["adjusted"] = adjusted(judged["p"], options.correction)
    best_p = adjusted(
        pd.Series({each: told.p for each, told in best.items()}, dtype=float), options.correction
    )
    return cells.join(judged).join(best_p.rename("best_p"))


def _arm(wanted: str, arms: Sequence[str], levels: Sequence[str], cells: pd.DataFrame) -> str:
    own = [", ".join(str(v) for k, v in keys.items() if k in levels) for keys in cells["keys"]]
    found = {**dict(zip(own, arms, strict=True)), **dict(zip(arms, arms, strict=True))}
    if wanted not in found:
        known = nearest(wanted, dict.fromkeys(arms))
        raise InputError(f"--against: there is no {wanted!r} among {', '.join(levels)}{known}")
    return found[wanted]
