"""The verdict in at most twelve words, and one line that says what helps."""

from __future__ import annotations

from calibrant.evaluation.alarms import NO_BETTER
from calibrant.evaluation.phrases import number, percent, points
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY
from calibrant.evaluation.quantities.prevalence import PREVALENCE
from calibrant.evaluation.quantities.slope import SLOPE
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import Finding
from calibrant.evaluation.verdict.headline import (
    groups_off,
    is_partly,
    outcome_of,
    range_of,
    where_of,
    with_class_off,
)
from calibrant.evaluation.verdict.naming import listed


def short_of(case: Case, finding: Finding) -> str:
    """What a reader should remember."""
    few = case.on_few
    if case.useless:
        return f"{NO_BETTER}."
    if finding.failing == ("groups",):
        return f"{groups_off(case)}."
    if is_partly(finding):
        off = listed(finding.failing, "its")
        return f"{'Miscalibrated' if finding.doubt else 'Calibrated, except'} in {off}{few}."
    if finding.within is not None:
        return f"Calibrated within {points(finding.within)}, on {case.num_test:,} samples."
    if finding.direction == "calibrated":
        return f"Calibrated, as far as {case.num_test:,} samples can tell."
    if finding.direction == "undecided":
        if finding.doubt == "few samples":
            return f"Undecided: {case.num_test:,} samples are too few to tell."
        return "Undecided: more samples would tell."
    if finding.subject == "events":
        return f"{_first_word(finding)}{few}: {_of_events(case, finding)}."
    says, right = (_shown(case, key) for key in (MEAN_CONFIDENCE.key, ACCURACY.key))
    first = f"{_first_word(finding)}{few}"
    throughout = ", but not throughout" if finding.direction == "miscalibrated" and not few else ""
    if case.kind == "multilabel":  # not of the labels, which the table names first
        return f"{first}: {says} sure of its decisions, right in {right}{throughout}."
    time = "" if throughout or few else " of the time"
    return f"{first}: says {says}, is right {right}{time}{throughout}."


def _first_word(finding: Finding) -> str:
    """The direction, as a sentence begins with it."""
    verbs = {"over-predicting": "Over-predicts", "under-predicting": "Under-predicts"}
    return verbs.get(finding.direction, finding.direction.capitalize())


def _of_events(case: Case, finding: Finding) -> str:
    """What is said of the positive class, or of the labels, and what occurs."""
    given, found = (_shown(case, key) for key in (MEAN_PROBABILITY.key, PREVALENCE.key))
    if case.on_few:
        return f"gives {given} where {found} occur"
    if case.kind == "multilabel":
        return f"labels are given {given} where {found} occur"
    if finding.direction == "miscalibrated":
        where = where_of(finding)
        return (
            f"{given} on average, {found} positive"
            if where is None
            else range_of(where).replace(" %", "\u00a0%")
        )
    if finding.direction in {"over-confident", "under-confident"}:
        way = "extreme" if finding.direction == "over-confident" else "timid"
        slope = number(case.first.metrics[SLOPE.event_key].value or 0.0)
        return f"probabilities are too {way} (slope {slope}; 1 is ideal)"
    return f"the positive class is given {given}, occurs in {found}"


def line_of(case: Case, finding: Finding, about: str) -> str:
    """Which class is off, and what repair does or how large the error is; the intervals stand beside it."""
    said = outcome_of(case, finding, about, intervals=False)
    if is_partly(finding) or finding.direction == "miscalibrated":
        said = with_class_off(case, finding, said)
    line = f"{said[:1].upper()}{said[1:]}."
    if "groups" in finding.failing and finding.failing != ("groups",):
        line = f"{groups_off(case)}. {line}"
    return f"{_how_few(case)}{line}" if case.on_few and finding.direction != "undecided" else line


def _how_few(case: Case) -> str:
    """What so few samples leave open, whatever the error."""
    found = case.first.metrics[ACCURACY.key]
    if found.low is None or found.high is None:
        return ""
    return f"Few samples: the true accuracy may lie from {percent(found.low)} to {percent(found.high)}. "


def _shown(case: Case, key: str) -> str:
    return percent(case.first.metrics[key].value or 0.0).replace(" ", "\u00a0")
