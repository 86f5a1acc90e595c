"""Numbers, arms, errors, classes and groups in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from calibrant._math.text_form import decimals
from calibrant.calibrators.roster import CALIBRATORS
from calibrant.evaluation.quantities import CLASSWISE_ECE
from calibrant.evaluation.resampling.intervals import TOLERABLE_GAP, beyond_chance
from calibrant.evaluation.result import (
    Arm,
    ClassRow,
    Curve,
    Estimate,
    GroupRow,
    NullError,
    Part,
    PartName,
    Range,
    Verdict,
)

SYMBOLS = {"temperature": "T", "gamma": "γ"}
SMALLEST_P = 0.0001  # of a normal distribution, whose tails are not to be trusted further
_MOST_DECIMALS = 6
NO_BETTER = "No better than the class frequencies"


def percent(share: float) -> str:
    """``82.9%``, with more digits if it would round to 0 or 100.

    Example:
        >>> percent(0.829), percent(1.0), percent(0.99991), percent(0.0002), percent(1e-16)
        ('82.9%', '100%', '99.99%', '0.02%', '0%')
    """
    value = 100 * share
    digits = 1
    while digits < 6 and round(value, digits) in {0.0, 100.0}:
        digits += 1
    if round(value, digits) in {0.0, 100.0}:
        return f"{value:.0f}%"
    return f"{value:.{digits}f}%"


def points(share: float) -> str:
    """``0.5 points``: a difference of shares, in percentage points.

    Example:
        >>> points(0.005), points(0.01), points(0.00038)
        ('0.5 points', '1 point', '0.038 points')
    """
    value = f"{100 * share:.2g}"
    return f"{value} point{'' if value == '1' else 's'}"


def number(value: float, digits: int | None = None, *, table: bool = False, signed: bool = False) -> str:
    """Three significant digits, two below 0.01, or the requested decimals; in a table four decimals.

    A zero has no decimals in a sentence, and no sign in a table. From ten million on, numbers have an
    exponent.

    Example:
        >>> number(0.07512), number(0.00123), number(-0.0751), number(0.0), number(12.345)
        ('0.0751', '0.0012', '−0.0751', '0', '12.3')
        >>> number(0.0751, table=True), number(0.02, table=True, signed=True), number(-0.00001, table=True)
        ('0.0751', '+0.0200', '0.0000')
        >>> number(-3.5e299), number(3.5e299, table=True)
        ('−3.500e+299', '3.500e+299')
    """
    if table:
        digits = 4
    elif value == 0:
        return "0"
    text = decimals(abs(value), _digits(value) if digits is None else digits)
    if float(text) == 0:
        return text if table else "0"
    return ("−" if value < 0 else "+" if signed else "") + text


def _digits(value: float) -> int:
    if value == 0:
        return 3
    size = math.floor(math.log10(abs(value)))
    return max(0, min(2 - size, max(4, 1 - size), _MOST_DECIMALS))


def decimals_apart(first: float, second: float) -> int | None:
    """Decimals needed to tell two numbers apart; ``None`` if the usual ones do, or if they are equal.

    Example:
        >>> decimals_apart(0.0521, 0.0534), decimals_apart(0.05211, 0.05214), decimals_apart(0.1, 0.1)
        (None, 5, None)
    """
    if round(first, _digits(first)) != round(second, _digits(second)):
        return None
    enough = (n for n in range(4, _MOST_DECIMALS + 1) if round(first, n) != round(second, n))
    return next(enough, None)


def with_interval(estimate: Estimate) -> str:
    """``0.0751 [0.0672, 0.0813]``: the value and the interval of the true one, which may leave it out.

    Example:
        >>> with_interval(Estimate(value=0.027, low=0.0, high=0.02))
        '0.0270 [0, 0.0200]'
    """
    if estimate.value is None:
        return "undefined"
    found = span(estimate)
    return f"{number(estimate.value)} {found}" if found else number(estimate.value)


def span(estimate: Estimate) -> str:
    """``[0.0672, 0.0834]``, with the decimals of the value; nothing without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    digits = None if estimate.value is None else _digits(estimate.value)
    return f"[{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def p_value(null: NullError) -> str:
    """``p = 0.031``, or ``p ≤ 0.001``."""
    return f"p {'' if is_bound(null) else '= '}{p_number(null)}"


def p_number(null: NullError) -> str:
    """``0.031``; ``≤ 0.001`` if no draw reached the error, so that more draws could lower it."""
    return f"{'≤ ' if is_bound(null) else ''}{null.p_value:.2g}"


def is_bound(found: NullError | Part) -> bool:
    """True if no draw was as far off."""
    return found.num_draws is not None and found.p_value <= 1 / (1 + found.num_draws)


def part_p_value(part: Part) -> str:
    """``p = 0.031``, adjusted; ``p ≤ 0.003`` if no draw was as far off."""
    value = f"{part.adjusted_p:.2g}" if part.adjusted_p >= SMALLEST_P else f"{SMALLEST_P:g}"
    return f"p {'≤' if is_bound(part) else '<' if part.adjusted_p < SMALLEST_P else '='} {value}"


def settings(parameters: Mapping[str, float | tuple[float, ...]]) -> str:
    """``(T = 1.31, γ = 0.25)``, or a note on one set per label.

    Example:
        >>> settings({"temperature": 1.3071, "gamma": 0.25})
        '(T = 1.31, γ = 0.25)'
        >>> settings({"temperature": (1.2, 0.8)})
        '(one T per label)'
        >>> settings({"slope": 0.899, "intercept": -4.06})
        '(logit × 0.899 − 4.06)'
        >>> settings({"original": 0.02})
        '(2.0% of the original probabilities mixed in)'
        >>> settings({"original": 4e-5})
        ''
    """
    numbers = {SYMBOLS.get(name, name): value for name, value in parameters.items() if name != "original"}
    if any(isinstance(value, tuple) for value in numbers.values()):
        return f"(one {', '.join(numbers)} per label)"
    said = [f"{name} = {value:.3g}".replace("-", "−") for name, value in numbers.items()]
    if list(numbers) == ["slope", "intercept"]:
        slope, intercept = (float(value) for value in numbers.values() if not isinstance(value, tuple))
        sign = "−" if intercept < 0 else "+"
        said = [f"logit × {slope:.3g} {sign} {abs(intercept):.3g}".replace("-", "−")]
    share = parameters.get("original")
    if isinstance(share, float | int) and share >= 0.01:
        said.append(
            "which changes nothing"
            if share == 1
            else f"{percent(share)} of the original probabilities mixed in"
        )
    return f"({', '.join(said)})" if said else ""


def clearly(found: Estimate, than: float = 0.0) -> int:
    """−1 or 1 if the interval, such as that of a change, lies below or above a value, else 0."""
    if found.low is None or found.high is None:
        return 0
    return -1 if found.high < than else 1 if found.low > than else 0


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
