"""The headline of a verdict, which starts with what is wrong, and the lines below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from calibrant.evaluation.alarms import NO_BETTER
from calibrant.evaluation.phrases import clearly, decimals_apart, number, percent, points, settings
from calibrant.evaluation.quantities import ACCURACY, BRIER, NLL, SLOPE
from calibrant.evaluation.result import Arm, Direction
from calibrant.evaluation.thresholds import TOLERABLE_GAP
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.checks import (
    PHRASES,
    averages,
    left_over,
    listed,
    range_of,
    slope_off,
    verb,
    where_of,
)
from calibrant.evaluation.verdict.finding import MAIN, Finding
from calibrant.evaluation.verdict.group_sentence import bad_groups
from calibrant.evaluation.verdict.naming import error_name, null_of, title, value_of

OF_CONFIDENCE: dict[Direction, str] = {"over-confident": "Overconfident", "under-confident": "Underconfident"}
OF_EVENTS: dict[Direction, str] = {
    "over-predicting": "Predicts too many positives",
    "under-predicting": "Predicts too few positives",
}
OF_LABELS: dict[Direction, str] = {
    "over-predicting": "Overestimates labels",
    "under-predicting": "Underestimates labels",
}
PARTLY = "Partly miscalibrated"


def short_of(case: Case, finding: Finding) -> str:
    """The headline; "Calibrated" only if every test passes."""
    if case.useless:
        return f"{NO_BETTER}."
    if finding.within is not None:
        return f"Nearly calibrated: the error is real, but below {points(finding.within)}."
    if finding.direction == "calibrated":
        return f"Calibrated: no error above noise on {case.num_test:,} samples."
    if finding.doubt and not finding.failing:
        hidden = f"{case.num_test:,} could hide a {points(TOLERABLE_GAP).replace(' points', '-point')} error"
        reason = hidden if finding.doubt == "few samples" else "average off, but the test passes"
        return f"Too few samples to tell: {reason}."
    first = (OF_LABELS if case.kind == "multilabel" else OF_EVENTS) | OF_CONFIDENCE
    word = first.get(finding.direction)
    if word is None:
        return f"{PARTLY}{case.on_few}: {_partly(case, finding)}."
    slope = case.first.metrics.get(SLOPE.event_key)
    if case.kind == "binary" and finding.direction in OF_CONFIDENCE and slope is not None and not case.on_few:
        way = "extreme" if finding.direction == "over-confident" else "timid"
        return f"{word}: probabilities are too {way} (slope {number(slope.value or 0.0)}; 1 is ideal)."
    found = averages(case, finding)
    return f"{word}{case.on_few}: {found.replace('average ', '') if case.on_few else found}."


def _partly(case: Case, finding: Finding) -> str:
    """The headline of a model that passes some tests and fails others."""
    failing = [PHRASES[name] for name in finding.failing if name not in MAIN]
    if MAIN.isdisjoint(finding.failing):
        if finding.doubt:
            return f"{listed(failing)} {verb(failing, 'is')} off; too few samples for the rest"
        if finding.failing == ("groups",):
            bad = bad_groups(case.first.groups, case.level)
            return f"{len(bad)} of {len(case.first.groups)} groups {verb(bad, 'is')} off"
        return f"{_both([PHRASES[name] for name in finding.holding], failing)}"
    where = where_of(finding)
    if case.kind == "binary" and where is not None:
        return range_of(where)
    shape = "its spread" if slope_off(case, case.first) else "some levels"
    average = "average probability" if finding.subject == "events" else "average confidence"
    return _both([average], [shape, *failing])


def _both(fine: Sequence[str], off: Sequence[str]) -> str:
    """``average confidence is fine, class probabilities are not``."""
    return f"{listed(fine)} {verb(fine, 'is')} fine, {listed(off)} {verb(off, 'is')} not"


def line_of(case: Case, finding: Finding, about: str, unrepaired: str) -> str:
    """The size of the error, or the effect of the best repair and the remaining errors: a line each."""
    return "\n".join(_lines(case, finding, about, unrepaired))


def _lines(case: Case, finding: Finding, about: str, unrepaired: str) -> Iterator[str]:
    found = case.first.metrics[ACCURACY.key]
    if case.on_few and finding.direction != "undecided" and found.low is not None and found.high is not None:
        yield f"Few samples: the true accuracy is between {percent(found.low)} and {percent(found.high)}."
    if not (case.repaired and finding.real):
        null, name = null_of(case.first, about), error_name(about)
        floor = "" if null is None else f", noise floor {number(null.upper)}"
        yield f"{name[:1].upper()}{name[1:]} {value_of(case.first.metrics[about])}{floor}."
    if not case.repaired:
        yield unrepaired
        return
    yield effect(case, (NLL.key, about, ACCURACY.key), first="Best fix" if finding.real else "Lower log loss")
    if left := left_over(case):
        yield left


def effect(case: Case, metrics: Sequence[str], *, first: str) -> str:
    """Effect of the recommended calibrator on each metric."""
    arm = case.chosen
    changes = ", ".join(course(case, metric, arm) for metric in metrics)
    said = f"{first}: {' '.join(filter(None, (title(arm), settings(arm.parameters))))}."
    return f"{said} {changes[:1].upper()}{changes[1:]}."


def course(case: Case, metric: str, arm: Arm) -> str:
    """``log loss falls from 0.180 to 0.135``."""
    before, after = case.first.metrics[metric], arm.metrics[metric]
    names = {
        NLL.key: NLL.title.lower(),
        ACCURACY.key: ACCURACY.title.lower(),
        BRIER.key: f"the {BRIER.title}",
    }
    name = names.get(metric, error_name(metric))
    if before.value is None or after.value is None:
        way = "falls" if before.value is None else "rises"
        return f"{name} {way} from {value_of(before)} to {value_of(after)}"
    change = arm.change[metric]
    if change.value == 0:
        return f"{name} does not change"
    sign = clearly(change)
    digits = decimals_apart(before.value, after.value) if sign else None
    old, new = (
        percent(each) if metric == ACCURACY.key else number(each, digits)
        for each in (before.value, after.value)
    )
    way = {-1: "falls", 0: "changes within noise,", 1: "rises"}[sign]
    return f"{name} {way} from {old} to {new}"
