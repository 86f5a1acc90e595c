"""Words of the verdict for parts, arms, errors, classes and groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from calibrant.calibrators.roster import CALIBRATORS
from calibrant.evaluation.phrases import number, percent
from calibrant.evaluation.quantities import CLASSWISE_ECE
from calibrant.evaluation.result import Arm, ClassRow, Curve, Estimate, GroupRow, PartName, Range, Verdict
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance

PHRASES: dict[PartName, str] = {
    "top label": "overall confidence",
    "positive class": "the predicted probability",
    "labels": "label probabilities",
    "classes": "class probabilities",
    "groups": "single groups",
}
MOST_NAMED = 3  # in a sentence


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def verb(subjects: Sequence[object], singular: Literal["is", "fails", "passes"]) -> str:
    """``is`` or ``are``, by the number of subjects and of the only one."""
    plural = len(subjects) > 1 or str(subjects[0]).endswith(("ies", "groups", "levels"))
    return {"is": "are", "fails": "fail", "passes": "pass"}[singular] if plural else singular


def title(arm: Arm) -> str:
    """The arm's title within a sentence; people keep their capitals."""
    return title_within(arm.name, arm.title)


def title_within(name: str, title: str) -> str:
    method = CALIBRATORS.get(name.partition("(")[0])
    if method is not None and method.named_after_person:
        return title
    return title[:1].lower() + title[1:]


def error_name(metric: str) -> str:
    return "classwise ECE" if metric == CLASSWISE_ECE.key else "ECE"


def value_of(estimate: Estimate) -> str:
    if estimate.value is not None:
        return number(estimate.value)
    return f"infinity ({(estimate.reason or '').removeprefix('infinite: ')})"


def class_name(row: ClassRow, noun: str = "class") -> str:
    """The name, or ``class 3`` if the name is only a number."""
    return f"{noun} {row.name}" if row.name.isdecimal() else row.name


def way_of(slope: float) -> str:
    return "extreme" if slope < 1 else "timid"


def too_extreme(slope: float) -> str:
    """``too extreme (calibration slope 0.848, below 1: overconfident)``."""
    means = "below 1: overconfident" if slope < 1 else "above 1: underconfident"
    return f"too {way_of(slope)} (calibration slope {number(slope)}, {means})"


def worst_bin(curves: Sequence[Curve], *, extreme: bool) -> Range | None:
    """The bin outside its noise band with the largest part of the error, of those too extreme or timid."""
    found: list[tuple[float, Range]] = []
    for curve in curves:
        columns = (curve.counts, curve.confidence, curve.accuracy, curve.expected_low, curve.expected_high)
        middle = sum(n * (rate or 0.0) for n, rate in zip(curve.counts, curve.accuracy, strict=True))
        middle /= max(1, sum(curve.counts))
        for place, (count, stated, rate, low, high) in enumerate(zip(*columns, strict=True)):
            if stated is None or rate is None or low is None or high is None or low <= rate <= high:
                continue
            if ((stated - rate) * (stated - middle) > 0) == extreme:
                where = Range(
                    low=curve.edges[place], high=curve.edges[place + 1], predicted=stated, actual=rate
                )
                found.append((count * abs(stated - rate), where))
    return max(found, key=lambda pair: pair[0], default=(0.0, None))[1]


def range_of(where: Range) -> str:
    """``between 40% and 70% (52.3% predicted, 41.0% actual)``; of a single level without its place.

    Example:
        >>> range_of(Range(low=0.0, high=0.0, predicted=0.0, actual=0.012))
        'at 0% predicted, 1.2% actual'
    """
    if where.low == where.high:
        return f"at {percent(where.predicted)} predicted, {percent(where.actual)} actual"
    place = f"between {percent(where.low)} and {percent(where.high)}"
    if where.high == 1 or where.low == 0:
        place = f"above {percent(where.low)}" if where.high == 1 else f"below {percent(where.high)}"
    return f"{place} ({percent(where.predicted)} predicted, {percent(where.actual)} actual)"


def bad_groups(rows: Sequence[GroupRow], level: float) -> list[GroupRow]:
    """The groups that are miscalibrated beyond noise, the largest gap first."""
    return _by_gap(row for row in rows if beyond_chance(row.adjusted_p, level))


def untested_groups(rows: Sequence[GroupRow], level: float) -> list[GroupRow]:
    """The groups with too few samples to show an error, the largest gap first."""
    return _by_gap(row for row in rows if row.vague and not beyond_chance(row.adjusted_p, level))


def _by_gap(rows: Iterable[GroupRow]) -> list[GroupRow]:
    return sorted(rows, key=lambda row: -abs(row.gap.value or 0.0))


def named(bad: Sequence[GroupRow]) -> str:
    """``reseller: 44.0% predicted, 33.0% actual``; only the first of many groups."""
    told = [f"{row.name}: {_off_by(row)}" for row in bad]
    more = len(bad) - MOST_NAMED
    return "; ".join([*told[:MOST_NAMED], *([f"and {more} more"] if more > 0 else [])])


def _off_by(row: GroupRow) -> str:
    predicted, actual = (percent(each.value or 0.0) for each in (row.predicted, row.actual))
    low, high = row.gap.low, row.gap.high
    if not row.vague and low is not None and high is not None and low <= 0 <= high:
        return f"right on average, ECE {number(row.ece.value or 0.0)}"
    return f"{predicted} predicted, {actual} actual"


def names_of(rows: Sequence[GroupRow | ClassRow]) -> str:
    """``direct, web, app and 2 more``."""
    more = len(rows) - MOST_NAMED
    names = [class_name(row) if isinstance(row, ClassRow) else row.name for row in rows[:MOST_NAMED]]
    return listed(names + [f"{more} more"] * (more > 0))


def _groups(bad: Sequence[GroupRow]) -> str:
    return f"group{'s' * (len(bad) > 1)} {names_of(bad)}"


def not_for_all(bad: Sequence[GroupRow]) -> str:
    """Sentence on miscalibrated groups that no calibrator for all samples fixes."""
    how = "test one per group with --by-group (Python: `fit(..., by_group=True)`)"
    return f"One calibrator for all samples doesn't fix {_groups(bad)}: {how}."


def no_fix(bad: Sequence[GroupRow]) -> str:
    """Sentence on miscalibrated groups that one calibrator per group did not help."""
    are, them = ("is", "it") if len(bad) == 1 else ("are", "them")
    said = f"{_groups(bad).replace('g', 'G', 1)} {are} off, but no repair tested clearly fixes {them}"
    return f"{said}: none lowers the log loss beyond noise."


def group_sentence(rows: Sequence[GroupRow], num_groups: int, level: float) -> str:
    bad, vague = bad_groups(rows, level), sum(row.vague for row in rows)
    are = "is" if len(bad) == 1 else "are"
    said = f"{len(bad) or 'None'} of {len(rows)} groups {are} miscalibrated beyond noise"
    if num_groups == 1:
        said = f"The only group is {'' if bad else 'not '}miscalibrated beyond noise"
    if bad:
        said += f" ({named(bad)})"
    if len(rows) > 1:
        said += f", corrected for {len(rows)} tests (Holm)"
    if vague:
        are = "is" if vague == 1 else "are"
        said += f"; {vague} {are} too small to show an error of {percent(TOLERABLE_GAP)}"
    if num_groups > len(rows):
        said += f"; {num_groups - len(rows) + 1} small groups are pooled"
    return f"{said}."


def with_group_sentence(
    verdict: Verdict, rows: tuple[GroupRow, ...], groups: Sequence[str] | None, level: float
) -> Verdict:
    """Add the sentence on groups, before the one on the next step."""
    if groups is None or not rows:
        return verdict
    said = group_sentence(rows, len(set(groups)), level)
    place = len(verdict.sentences) - (verdict.repair is None)
    return replace(verdict, sentences=(*verdict.sentences[:place], said, *verdict.sentences[place:]))
