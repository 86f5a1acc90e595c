"""Tests of the verdict with their measured values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from calibrant.evaluation.phrases import clearly, number, percent, points
from calibrant.evaluation.quantities import (
    ACCURACY,
    CLASSWISE_ECE,
    GAP,
    MEAN_CONFIDENCE,
    MEAN_PROBABILITY,
    PREVALENCE,
    SLOPE,
)
from calibrant.evaluation.result import Arm, Check, Estimate, GroupRow, Part, PartName, Range
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance
from calibrant.evaluation.verdict.case import MOST_NAMED, Case, bad_groups, named
from calibrant.evaluation.verdict.finding import (
    MAIN,
    Doubt,
    Finding,
    class_name,
    count_shifted,
    error_name,
    furthest_off,
    is_shifted,
    null_of,
    spoken_of,
)

TITLES: dict[PartName, str] = {
    "top label": "Overall",
    "positive class": "Overall",
    "labels": "Labels",
    "classes": "Classes",
    "groups": "Groups",
}
PHRASES: dict[PartName, str] = {
    "top label": "overall confidence",
    "positive class": "the predicted probability",
    "labels": "label probabilities",
    "classes": "class probabilities",
    "groups": "single groups",
}
WITHIN_NOISE = "differences are within noise"
OF_DOUBT: dict[Doubt | None, str] = {
    None: "the difference is within noise",
    "few samples": f"too few samples to exclude an error of {points(TOLERABLE_GAP)}",
    "mixed signs": "unclear, although the test passes",
}


def checks_of(case: Case, finding: Finding) -> tuple[Check, ...]:
    """One for each part that was tested, of the predictions before any repair."""
    passing = {part.name for part in finding.parts} - set(finding.failing)
    return tuple(
        Check(
            name=TITLES[part.name],
            passed=part.name in passing,
            text=_text(case, finding, part),
            metrics=tuple(_metrics(case, finding, part)),
        )
        for part in finding.parts
    )


def _text(case: Case, finding: Finding, part: Part) -> str:
    if part.name in MAIN:
        return _of_average(case, finding, part)
    if part.name == "classes":
        return WITHIN_NOISE if part.holds else off_classes(case)
    return _of_groups(case)


def _of_groups(case: Case) -> str:
    rows = case.first.groups
    bad, untested = bad_groups(rows, case.level), untested_groups(case)
    if not bad and not untested:
        return WITHIN_NOISE
    if not bad:
        return f"none of {len(rows)} are off; too few samples to test {named(untested)}"
    said = f"{len(bad)} of {len(rows)} are off: {named(bad)}"
    return f"{said}; too few samples to test {names_of(untested)}" if untested else said


def names_of(rows: Sequence[GroupRow]) -> str:
    """``direct, web, app and 2 more``."""
    more = len(rows) - MOST_NAMED
    return listed([row.name for row in rows[:MOST_NAMED]] + [f"{more} more"] * (more > 0))


def untested_groups(case: Case) -> list[GroupRow]:
    """The groups with too few samples to show an error, the largest gap first."""
    rows = [row for row in case.first.groups if row.vague and not beyond_chance(row.adjusted_p, case.level)]
    return sorted(rows, key=lambda row: -abs(row.gap.value or 0.0))


def _of_average(case: Case, finding: Finding, part: Part) -> str:
    found = averages(case, finding)
    if part.holds:
        return f"{found}: {OF_DOUBT[finding.doubt]}"
    if not _right_on_average(finding):
        return found
    return f"{found}: right on average, but {shape_of(case, part.where) or 'not at every level'}"


def _right_on_average(finding: Finding) -> bool:
    """True if the error is one of shape: events that are off on average are over- or under-predicted."""
    of_shape = {"over-confident", "under-confident"} if finding.subject == "events" else set[str]()
    return finding.direction in of_shape | {"miscalibrated"}


def averages(case: Case, finding: Finding) -> str:
    """``average confidence 79.7%, accuracy 75.3%``."""
    pair = (MEAN_PROBABILITY, PREVALENCE) if finding.subject == "events" else (MEAN_CONFIDENCE, ACCURACY)
    values = ((each, case.first.metrics.get(each.key, Estimate(value=None)).value) for each in pair)
    return ", ".join(f"{each.title.lower()} {percent(value or 0.0)}" for each, value in values)


def shape_of(case: Case, where: Range | None) -> str:
    """Shape of the error of probabilities that are right on average."""
    if slope := slope_off(case, case.first):
        high, low = ("high", "low") if slope < 1 else ("low", "high")
        return f"high values are too {high} and low ones too {low} ({ideally_one(slope)})"
    return "" if where is None else f"off {range_of(where)}"


def ideally_one(slope: float) -> str:
    """``calibration slope 0.845, ideal 1``."""
    return f"calibration slope {number(slope)}, ideal 1"


def slope_off(case: Case, arm: Arm) -> float | None:
    """The calibration slope, if it differs from 1 beyond noise."""
    slope = arm.metrics.get(slope_key(case))
    if slope is None or slope.low is None or slope.high is None or slope.low <= 1 <= slope.high:
        return None
    return slope.value


def slope_key(case: Case) -> str:
    return SLOPE.event_key if case.kind == "binary" else SLOPE.key


def where_of(finding: Finding) -> Range | None:
    """Range of the scale in which the event is furthest off, if it is."""
    return next((part.where for part in finding.parts if not part.holds), None)


def range_of(where: Range) -> str:
    """``between 40% and 70%: 52.3% predicted, 41.0% actual``."""
    place = f"at {percent(where.low)}"
    if where.low != where.high:
        place = f"between {percent(where.low)} and {percent(where.high)}"
    return f"{place}: {percent(where.predicted)} predicted, {percent(where.actual)} actual"


def off_classes(case: Case) -> str:
    """Number of classes or labels predicted too often or too rarely, and the worst."""
    rows, worst = case.first.classes, furthest_off(case)
    if not is_shifted(worst, case.level):
        return "off together, no single class stands out"
    off = sum(count_shifted(rows, case.level))
    return (
        f"{off} of {len(rows)} are off, most of all {class_name(worst, 'class')}: "
        f"{percent(worst.mean_probability)} predicted, {percent(worst.prevalence)} actual"
    )


def _metrics(case: Case, finding: Finding, part: Part) -> Iterator[str]:
    if part.name == "classes":
        yield CLASSWISE_ECE.key
    elif part.name in MAIN:
        events = finding.subject == "events"
        yield from (MEAN_PROBABILITY.key, PREVALENCE.key) if events else (MEAN_CONFIDENCE.key, ACCURACY.key)
        named = not part.holds and _right_on_average(finding) and slope_off(case, case.first) is not None
        if named or _slope_left(case) is not None:
            yield slope_key(case)


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def verb(subjects: Sequence[object], singular: Literal["is", "fails", "passes"]) -> str:
    """``is`` or ``are``, by the number of subjects and of the only one."""
    plural = len(subjects) > 1 or str(subjects[0]).endswith(("ies", "groups", "levels"))
    return {"is": "are", "fails": "fail", "passes": "pass"}[singular] if plural else singular


def _slope_left(case: Case) -> float | None:
    """The slope that is off after the repair, if the average part fails then."""
    failing = {part.name for part in case.chosen.parts if not part.holds}
    return slope_off(case, case.chosen) if case.repaired and MAIN & failing else None


def left_over(case: Case) -> str | None:
    """Remaining errors after the recommended calibrator; ``None`` if every test passes."""
    arm = case.chosen
    remaining = [PHRASES[part.name] for part in arm.parts if not part.holds]
    if not case.repaired or not remaining:
        return None
    if within := case.within(arm):
        return f"Nearly calibrated after it: the remaining error is real, but below {points(within)}."
    found = [
        f"{error_name(metric)} {number(value)}, noise floor {number(null.upper)}"
        for metric in spoken_of(case.kind)
        if (null := null_of(arm, metric)) and (value := arm.metrics[metric].value or 0.0) > null.upper
    ]
    slope = _slope_left(case)
    if slope is not None:
        found.append(ideally_one(slope))
    gap = arm.metrics.get(GAP.key)
    if case.kind in {"multiclass", "top_label"} and gap is not None and clearly(gap):
        found.append(
            f"average confidence {percent(arm.metrics[MEAN_CONFIDENCE.key].value or 0.0)}, "
            f"accuracy {percent(arm.metrics[ACCURACY.key].value or 0.0)}"
        )
    if not found:
        found += [range_of(part.where) for part in arm.parts if part.where and not part.holds]
    said = f" ({'; '.join(found)})" if found else ""
    return (
        f"Not fully repaired: {listed(remaining)} still {verb(remaining, 'fails')} the test{said}. "
        "If errors of this size don't matter to you, apply the fix."
    )
