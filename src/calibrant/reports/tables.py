"""The tables of a report as data, without layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Literal, TypeAlias

from calibrant.evaluation import phrases, quantities, result
from calibrant.evaluation.monitoring.result import Monitoring, SequentialTest, Window
from calibrant.evaluation.phrases import PHRASES, clearly, p_value
from calibrant.evaluation.resampling.intervals import beyond_chance
from calibrant.predictions.labels import POSITIVE_CLASS
from calibrant.reports.words import (
    MISSING,
    SECTIONS,
    Metric,
    brief,
    goodness,
    mark_of_change,
    metric,
    number,
    percent,
)

Found: TypeAlias = result.Evaluation | result.Comparison
Part: TypeAlias = result.Arm | result.ComparedModel
Mark: TypeAlias = Literal["better", "worse"] | None
NullRow: TypeAlias = tuple[Metric, float, result.NullError]
MAIN_ROWS = 6
NUMBERS = 3  # at the top
POOLED = "all labels"  # the first curve of multilabel predictions


@dataclass(frozen=True)
class Cell:
    """A metric of one column; ``mark`` rates the paired change, ``best`` is True for the best of its row."""

    estimate: result.Estimate
    change: result.Estimate | None
    mark: Mark
    best: bool


@dataclass(frozen=True)
class MetricRow:
    """A metric across the columns."""

    key: str
    words: Metric
    in_short: bool  # whether the terminal shows it, here if not always
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class MetricTable:
    """Rows by group, and the metrics that no column has, by the reason why."""

    columns: tuple[Part, ...]
    groups: Mapping[str, tuple[MetricRow, ...]]
    missing: Mapping[str, tuple[str, ...]]
    in_short: frozenset[str]  # titles that the terminal shows, or would if they were known

    @property
    def rows(self) -> tuple[MetricRow, ...]:
        return tuple(row for rows in self.groups.values() for row in rows)

    def main(self, about: str | None = None, *, most: int | None = MAIN_ROWS) -> tuple[MetricRow, ...]:
        """The most important rows: the verdict's metric, then the terminal's order; all named thresholds."""
        order = sorted(
            (row.key != about, row.words.rank is None, row.words.rank or 0, place)
            for place, row in enumerate(self.rows)
            if row.in_short
        )
        thresholds = sum(row.key.startswith(quantities.NET_BENEFIT) for row in self.rows)
        return tuple(self.rows[place] for *_, place in order[: most and most + thresholds])

    def numbers(self, found: Found) -> list[MetricRow]:
        """The rows of the first screen: the verdict's metric, then the default ones that are known."""
        usual = [quantities.NLL.key, quantities.ACCURACY.key, quantities.BRIER.key]
        first = self.columns[0].metrics
        error = quantities.ECE.event_key if quantities.ECE.event_key in first else quantities.ECE.key
        rows = {row.key: row for row in self.rows}
        if isinstance(found, result.Evaluation):
            error = found.verdict.about if found.verdict.about in first else error
            usual[1:1] = [quantities.AUROC.key] if is_rare(found) else []
            usual += [quantities.GAP.key, quantities.MEAN_CONFIDENCE.key]
            rows = {key: row for key, row in rows.items() if row.cells[0].estimate.value is not None}
        slope = _SLOPES & named(found)
        main = [key for key in (error, *usual) if key in rows][:NUMBERS]
        return [rows[key] for key in (*main, *sorted(slope & rows.keys()))]


@dataclass(frozen=True)
class ClassPair:
    """A class before and after the recommended calibrator, ``None`` if none is recommended."""

    before: result.ClassRow
    after: result.ClassRow | None


def ordered_arms(evaluation: result.Evaluation) -> tuple[result.Arm, ...]:
    """The uncalibrated arm, the recommended one, then the others."""
    name = evaluation.verdict.recommended
    first, *others = evaluation.arms
    return (first, *sorted(others, key=lambda arm: arm.name != name))


def parts(found: Found) -> tuple[Part, ...]:
    """The arms in display order, or the models."""
    return found.models if isinstance(found, result.Comparison) else ordered_arms(found)


def event_of(found: Found) -> str:
    """Name of a binary model's event; by default "positive class"."""
    curves = parts(found)[0].curves
    return curves[0].name if found.kind == "binary" and curves else POSITIVE_CLASS


_SLOPES = frozenset({quantities.SLOPE.key, quantities.SLOPE.event_key})
RARE = 0.1  # share of the rarer class; below it, ranking tells more than accuracy


def named(found: Found) -> frozenset[str]:
    """The keys of the metrics that a verdict names."""
    if isinstance(found, result.Comparison):
        return frozenset()
    of_checks = {key for check in found.verdict.checks for key in check.metrics}
    return frozenset(of_checks | ({found.verdict.about} if found.verdict.about else set()))


def is_rare(found: Found) -> bool:
    rate = _event_rate(found)
    return rate is not None and min(rate, 1 - rate) < RARE


def _event_rate(found: Found) -> float | None:
    rate = parts(found)[0].metrics.get(quantities.PREVALENCE.key)
    return None if found.kind != "binary" or rate is None else rate.value


def trivial_accuracy(found: Found) -> float | None:
    """The accuracy of always answering the commonest class, if that is known."""
    if isinstance(found, result.Comparison):
        rate = _event_rate(found)
        return None if rate is None else max(rate, 1 - rate)
    if found.kind not in {"binary", "multiclass"}:
        return None
    return max((row.prevalence for row in found.arms[0].classes), default=None)


def mark_above_trivial(key: str, mark: Mark, value: float | None, trivial: float | None) -> Mark:
    """The mark of a change; an accuracy below that of always answering one class is never good."""
    if key == quantities.ACCURACY.key and mark == "better" and None not in {value, trivial}:
        return None if (value or 0.0) < (trivial or 0.0) else mark
    return mark


def metric_table(found: Found) -> MetricTable:
    """Every metric of every arm or model."""
    columns = parts(found)
    groups: dict[str, list[MetricRow]] = {group: [] for group in SECTIONS}
    missing: dict[str, list[str]] = {}
    in_short: set[str] = set()
    also = named(found) | ({quantities.AUROC.key, quantities.BRIER_SKILL.key} if is_rare(found) else set())
    trivial = trivial_accuracy(found)
    for key in sorted({key for part in columns for key in part.metrics}, key=quantities.display_order):
        words = metric(key, found.kind, event_of(found))
        shown = words.in_short or key in also
        if shown:
            in_short.add(words.title)
        estimates = [
            part.metrics.get(key, result.Estimate(value=None, reason="not computed")) for part in columns
        ]
        if all(estimate.value is None for estimate in estimates):
            missing.setdefault(estimates[0].reason or "no reason given", []).append(words.title)
            continue
        best, cells = _best(key, found.kind, estimates), list[Cell]()
        for column, (part, estimate) in enumerate(zip(columns, estimates, strict=True)):
            change = part.change.get(key)
            mark = mark_of_change(key, found.kind, estimate, change)
            mark = mark_above_trivial(key, mark, estimate.value, trivial)
            cells.append(Cell(estimate, change, mark, column in best))
        groups[words.section].append(MetricRow(key, words, shown, tuple(cells)))
    return MetricTable(
        columns,
        {group: tuple(rows) for group, rows in groups.items() if rows},
        {reason: tuple(names) for reason, names in missing.items()},
        frozenset(in_short),
    )


OUTSIDE = (
    "Sampling noise inflates a measured error. Intervals correct for that, so the measured value can lie "
    "above its interval."
)


def outside_sentence(parts: Sequence[Part]) -> str:
    """Explanation of values outside their intervals; empty if there are none."""
    return OUTSIDE if any(estimate.outside for part in parts for estimate in part.metrics.values()) else ""


def coverage_sentence(found: Found) -> str:
    """Sentence on the measured coverage of such intervals; empty if it was not measured."""
    if found.coverage is None:
        return ""
    values, changes = (_covered(each, found.kind) for each in (found.coverage.values, found.coverage.changes))
    if not values:
        return ""
    changed = changes and any(column.change for column in parts(found))
    return (
        f"In simulations (study coverage), {percent(found.coverage.level)} intervals contained the true "
        f"value in this share of test sets: {values}{f'; for changes, {changes}' if changed else ''}."
    )


def _covered(measured: Mapping[str, result.Coverage], kind: result.Kind) -> str:
    """``ECE 94–100%, smCE 92–99%``: from the lowest condition to the highest."""
    shares: dict[str, str] = {}
    for key in sorted(measured, key=quantities.display_order):
        title, each = metric(key, kind).title.partition(", ")[0], measured[key]
        if each.lowest is None or each.highest is None:
            shares[title] = f"{100 * each.average:.0f}% on average"
        else:
            shares[title] = f"{100 * each.lowest:.0f}–{100 * each.highest:.0f}%"
    return ", ".join(f"{title} {share}" for title, share in shares.items())


def titles_by_warning(arms: Sequence[result.Arm], *, most: int | None = None) -> dict[str, list[str]]:
    """Warnings of the calibrators' fits (``most`` of each), with the titles of their arms."""
    titles: dict[str, list[str]] = {}
    for arm in arms:
        for warning in dict.fromkeys(() if arm.fit is None else arm.fit.warnings[:most]):
            titles.setdefault(warning, []).append(arm.title)
    return titles


def _best(key: str, kind: result.Kind, estimates: Sequence[result.Estimate]) -> set[int]:
    """Indices of the best values as shown, if any."""
    known = {
        place: mark
        for place, estimate in enumerate(estimates)
        if estimate.value is not None and (mark := goodness(key, kind, round(estimate.value, 4))) is not None
    }
    best = max(known.values(), default=0.0)
    return {place for place, mark in known.items() if mark == best} if len(set(known.values())) > 1 else set()


def choice_rows(evaluation: result.Evaluation) -> list[tuple[result.ChoiceRow, bool]]:
    """The candidates, fewest parameters first, each with True if it was chosen."""
    choice = evaluation.choice
    return [] if choice is None else [(each, each.name == choice.chosen) for each in choice.candidates]


def class_pairs(evaluation: result.Evaluation) -> list[ClassPair]:
    """The classes, by falling calibration error before repair."""
    after = recommended(evaluation)
    rows = evaluation.arms[0].classes
    later = (None,) * len(rows) if after is None else after.classes
    pairs = [ClassPair(row, repaired) for row, repaired in zip(rows, later, strict=True)]
    return sorted(pairs, key=lambda pair: -pair.before.ece)


def shift(row: result.ClassRow) -> float:
    """The distance of the average probability from the actual rate, in noise floors."""
    return abs(row.mean_probability - row.prevalence) / row.noise_floor if row.noise_floor else 0.0


def furthest_pairs(evaluation: result.Evaluation) -> list[ClassPair]:
    """The classes, by falling `shift` of their average probability."""
    return sorted(class_pairs(evaluation), key=lambda pair: -shift(pair.before))


def recommended(evaluation: result.Evaluation) -> result.Arm | None:
    """The recommended arm; ``None`` if that is the uncalibrated one."""
    name = evaluation.verdict.recommended
    return None if name == evaluation.arms[0].name else evaluation.arm(name)


def before_and_after(evaluation: result.Evaluation) -> tuple[result.Arm, ...]:
    """The predictions before any repair, and after the recommended one if there is one."""
    return ordered_arms(evaluation)[: 1 if recommended(evaluation) is None else 2]


def nulls_of(arms: Sequence[result.Arm], key: str) -> list[result.NullError]:
    return [null for arm in arms for null in arm.null if null.metric == key]


@dataclass(frozen=True)
class Brief:
    """A cell with three digits, ✗ beside a failing one; ``mark`` only if the change shows in them."""

    value: str
    interval: str
    mark: Mark
    best: bool


@dataclass(frozen=True)
class BriefRow:
    """A metric or its noise floor before and after the repair, or a model with its noise floor."""

    title: str
    cells: tuple[Brief, ...]
    floors: tuple[str, ...] = ()
    key: str = ""  # of a metric


def brief_rows(evaluation: result.Evaluation, *, every: bool = False) -> list[BriefRow]:
    """The rows of the short table: metrics before and after the recommended repair, each above its floor."""
    found, arms = metric_table(evaluation), before_and_after(evaluation)
    rows = found.rows if every else found.main(evaluation.verdict.about, most=None)
    made: list[BriefRow] = []
    for row in rows:
        title = row.words.title if every else row.words.title.removesuffix(f", {event_of(evaluation)}")
        nulls, cells = nulls_of(arms, row.key), row.cells[: len(arms)]
        values = tuple(map(_brief, cells, repeat(row.key), nulls or repeat(None)))
        made.append(BriefRow(title, values, key=row.key))
        if nulls:
            floors = (Brief(phrases.number(null.upper), "", None, best=False) for null in nulls)
            made.append(BriefRow("  noise floor", tuple(floors)))
    return made


def is_off(estimate: result.Estimate, key: str, null: result.NullError | None) -> bool:
    """Whether an error is above its noise floor, or the interval of a calibration slope leaves out 1."""
    if null is not None:
        return (estimate.value or 0.0) > null.upper
    return key in _SLOPES and bool(clearly(estimate, 1))


def brief_models(comparison: result.Comparison) -> tuple[list[str], list[BriefRow]]:
    """Titles of metrics, and for each model their values and the noise floor of the first metric."""
    found = metric_table(comparison)
    ranked = sorted((row.words.rank, k) for k, row in enumerate(found.rows) if row.words.rank is not None)
    rows = [found.rows[k] for _, k in ranked]
    return [row.words.title for row in rows], [
        BriefRow(
            column.title,
            tuple(_brief(row.cells[place], row.key) for row in rows),
            tuple(phrases.number(null.upper) for null in column.null if null.metric == rows[0].key),
        )
        for place, column in enumerate(found.columns)
    ]


def _brief(cell: Cell, key: str, null: result.NullError | None = None) -> Brief:
    value, interval = brief(cell.estimate, key)
    before = (cell.estimate.value or 0.0) - ((cell.change and cell.change.value) or 0.0)
    unchanged = brief(result.Estimate(value=before), key)[0] == value
    value += " ✗" if is_off(cell.estimate, key, null) else ""
    return Brief(value, interval, None if unchanged else cell.mark, cell.best)


def floor_sentence(found: Found) -> str:
    """Explanation of the noise floors and intervals in the short table."""
    level = percent(found.settings.level)
    if isinstance(found, result.Comparison):
        return (
            f"Noise floor ({brief_models(found)[0][0]}): a perfectly calibrated model stays below it in "
            f"{level} of test sets this size."
        )
    off = {row.key in _SLOPES for row in brief_rows(found) if any("✗" in cell.value for cell in row.cells)}
    said = f"Noise floor: a perfectly calibrated model stays below it in {level} of test sets this size."
    marks = [means for slope, means in ((False, "above it"), (True, "a slope beyond noise")) if slope in off]
    said += f" ✗: {' or '.join(marks)}." if marks else ""
    said += f" [ ]: {level} intervals."
    shown = {row.key for row in metric_table(found).main(found.verdict.about, most=None)}
    outside = (
        each.outside for arm in before_and_after(found) for key, each in arm.metrics.items() if key in shown
    )
    return f"{said} {OUTSIDE}" if any(outside) else said


def pairing_sentence(comparison: result.Comparison) -> str:
    differences = f"differences from {comparison.models[0].name} are"
    if comparison.paired:
        return f"All models use the same samples: {differences} paired."
    return f"The samples might differ: {differences} unpaired."


def tests_sentence(comparison: result.Comparison) -> str:
    """The tests that each model fails, corrected for their number; empty if none is known."""
    if not all(model.parts for model in comparison.models):
        return ""
    failing = {
        model.name: [PHRASES[part.name] for part in model.parts if not part.holds]
        for model in comparison.models
    }
    off = [f"{name} ({', '.join(parts)})" for name, parts in failing.items() if parts]
    rest = [name for name, parts in failing.items() if not parts]
    if not off:
        return "Every model passes the calibration test on all samples together."
    count = f"{len(off)} of {len(failing)}" if rest else {1: "The model", 2: "Both"}.get(len(off), "All")
    said = f"{count} {'fails' if len(off) == 1 else 'fail'} the calibration test: {', '.join(off)}."
    return f"{said} Passes: {', '.join(rest)}." if rest else said


def null_rows(part: Part, found: Found) -> list[NullRow]:
    """The errors of an arm or model with a null distribution: words, measured value, and noise."""
    return [
        (metric(null.metric, found.kind, event_of(found)), observed, null)
        for null in sorted(part.null, key=lambda null: quantities.display_order(null.metric))
        if (observed := part.metrics[null.metric].value) is not None
    ]


def null_groups(found: Found) -> list[tuple[str, list[NullRow]]]:
    groups = [(part.title, null_rows(part, found)) for part in parts(found)]
    return [(title, rows) for title, rows in groups if rows]


def null_sentences(evaluation: result.Evaluation) -> list[str]:
    """The answer to "is this more than chance?" for the uncalibrated predictions."""
    level = percent(evaluation.settings.level)
    return [
        f"{words.title}: a perfectly calibrated model would score {number(null.mean)} on this many samples, "
        f"and below {number(null.upper)} in {level} of cases; this one scores {number(observed)} "
        f"({p_value(null)})."
        for words, observed, null in null_rows(evaluation.arms[0], evaluation)
        if words.drawn
    ]


def moves(table: MetricTable, numbers: Sequence[MetricRow]) -> list[tuple[str, str, str]]:
    """Every model but the first, with the metrics clearly better and clearly worse than the first's."""

    def titles(place: int, mark: str) -> str:
        return ", ".join(row.words.title for row in numbers if row.cells[place].mark == mark)

    return [
        (column.title, titles(place, "better"), titles(place, "worse"))
        for place, column in enumerate(table.columns)
    ][1:]


def shared_warnings(arms: Sequence[result.Arm]) -> dict[str, list[str]]:
    return {warning: titles for warning, titles in titles_by_warning(arms).items() if len(titles) > 1}


def whole_curves(part: Part, kind: result.Kind) -> tuple[result.Curve, ...]:
    """The curves of all samples: top label, positive class, or all labels together."""
    if kind != "multilabel":
        return part.curves
    return part.curves[:1] if part.curves and part.curves[0].name == POOLED else ()


def label_curves(part: Part, kind: result.Kind) -> tuple[result.Curve, ...]:
    """The curves of single labels; only multilabel predictions have them."""
    return part.curves[len(whole_curves(part, kind)) :]


@dataclass(frozen=True)
class GroupPair:
    """A group before and after the recommended calibrator, ``None`` if none is recommended."""

    before: result.GroupRow
    after: result.GroupRow | None
    real: bool  # whether its error is above noise, after adjustment

    @property
    def p_value(self) -> str:
        return f"{'≤ ' if self._is_bound else ''}{self.before.p_value:.2g}"

    @property
    def adjusted_p(self) -> str:
        """The p-value adjusted for the number of groups; a bound if the p-value is a bound."""
        bound = "≤ " if self._is_bound and self.before.adjusted_p < 1 else ""
        return f"{bound}{self.before.adjusted_p:.2g}"

    @property
    def _is_bound(self) -> bool:
        return self.before.p_value <= 1 / (1 + self.before.null.num_draws)


def group_pairs(evaluation: result.Evaluation) -> list[GroupPair]:
    """Every group before calibration; real errors first, then by size of the gap."""
    chosen = recommended(evaluation)
    after = {} if chosen is None else {row.name: row for row in chosen.groups}
    level = evaluation.settings.level
    pairs = [
        GroupPair(row, after.get(row.name), beyond_chance(row.adjusted_p, level))
        for row in evaluation.arms[0].groups
    ]
    return sorted(
        pairs, key=lambda pair: (not pair.real, pair.before.vague, -abs(pair.before.gap.value or 0))
    )


def means_of(found: Monitoring) -> tuple[tuple[str, str], tuple[str, str]]:
    """Keys and titles of the predicted and the actual rate."""
    if found.kind in {"binary", "multilabel"}:
        return (quantities.MEAN_PROBABILITY.key, "predicted"), (quantities.PREVALENCE.key, "actual")
    return (quantities.MEAN_CONFIDENCE.key, "confidence"), (quantities.ACCURACY.key, "accuracy")


def error_of(found: Monitoring) -> str:
    """Key of the calibration error of what is tested."""
    return quantities.ECE.event_key if found.kind == "binary" else quantities.ECE.key


def deciding(found: Monitoring) -> SequentialTest:
    return next(test for test in found.tests if test.decides)


def window_titles(found: Monitoring) -> Sequence[str]:
    (_, predicted), (_, actual) = means_of(found)
    return ("window", "labelled", predicted, actual, "ECE", "95%")


def window_start(window: Window) -> tuple[str, str]:
    """Start of a window, and its numbers of labelled and of all samples."""
    return window.start, f"{window.num_labelled:,}/{window.num_samples:,}"


def window_cells(window: Window, found: Monitoring) -> tuple[str, ...]:
    """Means, ECE and its interval of a window; empty if too few labels are known."""
    metrics = window.metrics
    means = [brief(metrics[key], key)[0] if key in metrics else MISSING for key, _ in means_of(found)]
    error = metrics.get(error_of(found))
    return (*means, *((MISSING, "") if error is None else brief(error)))
