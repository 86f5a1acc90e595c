"""The first sentence of a verdict."""

from __future__ import annotations

from dataclasses import replace

from calibrant.evaluation.alarms import NO_BETTER
from calibrant.evaluation.phrases import (
    clearly,
    decimals_apart,
    number,
    percent,
    points,
    settings,
    with_interval,
)
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY
from calibrant.evaluation.quantities.nll import NLL
from calibrant.evaluation.quantities.prevalence import PREVALENCE
from calibrant.evaluation.result import Estimate, Range
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import MAIN, Finding, is_shifted
from calibrant.evaluation.verdict.group_sentence import bad_groups, named
from calibrant.evaluation.verdict.naming import (
    are,
    class_name,
    error_name,
    furthest_off,
    listed,
    null_of,
    title,
    value_of,
)

LOSS = "negative log-likelihood"


def headline_of(case: Case, finding: Finding, about: str) -> str:
    """What holds, what does not, and what helps."""
    outcome = outcome_of(case, finding, about)
    if case.useless:
        return f"{NO_BETTER}: {_facts(case, finding)}."
    if finding.failing == ("groups",):
        return f"{groups_off(case)}; overall {_facts(case, finding)}; {outcome}."
    if is_partly(finding):
        return f"{_in_part(case, finding)}: {with_class_off(case, finding, outcome)}."
    first = finding.direction.capitalize()
    if finding.within is not None:
        first += f" within {points(finding.within)}, on {case.num_test:,} samples"
    elif finding.direction == "calibrated":
        first += f", as far as {case.num_test:,} samples can tell"
    elif finding.direction == "undecided":
        first += f" on {case.num_test:,} samples"
    else:
        first += case.on_few
    if finding.direction == "miscalibrated":
        outcome = with_class_off(case, finding, outcome)
    return f"{first}: {_facts(case, finding)}; {outcome}."


def groups_off(case: Case) -> str:
    """``Miscalibrated in 1 of 2 groups: reseller: 44.0 % predicted, 33.0 % actual``."""
    rows = case.first.groups
    bad = bad_groups(rows, case.level)
    return f"Miscalibrated in {len(bad)} of {len(rows)} groups: {named(bad)}"


def is_partly(finding: Finding) -> bool:
    """Whether only the classes do not hold."""
    return bool(finding.failing) and not MAIN & set(finding.failing)


def with_class_off(case: Case, finding: Finding, said: str) -> str:
    """Where the classes do not hold, the one that is furthest off first."""
    which = _class_furthest_off(case) if "classes" in finding.failing else None
    return f"{which}; {said}" if which else said


def _in_part(case: Case, finding: Finding) -> str:
    """``Its top label is calibrated, its classes are not``."""
    holding, failing = finding.holding, finding.failing
    if finding.doubt:
        said = f"Miscalibrated in {listed(failing, 'its')}"
        return f"{said}, while of {listed(holding, 'its')} {case.num_test:,} samples cannot tell"
    said = f"{listed(holding, 'its')} {are(holding)} calibrated, {listed(failing, 'its')} {are(failing)} not"
    return said[:1].upper() + said[1:]


def _class_furthest_off(case: Case) -> str | None:
    """``Industrial is stated 8.0 % and occurs 9.5 %``; ``None`` where no class alone is off beyond chance."""
    row = furthest_off(case)
    if not is_shifted(row, case.level):
        return None
    return f"{class_name(row)} is stated {percent(row.mean_probability)} and occurs {percent(row.prevalence)}"


def _facts(case: Case, finding: Finding) -> str:
    """What the model says against what happens."""
    says, right, stated, found = (
        percent(estimate.value or 0.0)
        for name in (MEAN_CONFIDENCE.key, ACCURACY.key, MEAN_PROBABILITY.key, PREVALENCE.key)
        for estimate in [case.first.metrics.get(name, Estimate(value=None))]
    )
    if case.kind in {"multiclass", "top_label"}:
        facts = f"says {says}, is right {right} of the time"
        in_places = finding.direction == "miscalibrated"
        return f"{facts} on average, but not at every level of confidence" if in_places else facts
    if case.kind == "binary":
        return events_of(case, finding)
    decisions = f"is {says} sure of its decisions, which are right {right} of the time"
    events = f"gives the labels {stated} on average where {found} occur"
    return f"{events}, and {decisions}" if finding.subject == "events" else f"{decisions}, and {events}"


def events_of(case: Case, finding: Finding) -> str:
    """Mean probability and rate of the positive class, and where on the scale they differ most."""
    given, found = (
        percent(case.first.metrics[key].value or 0.0) for key in (MEAN_PROBABILITY.key, PREVALENCE.key)
    )
    average = f"the mean probability of the positive class is {given}, and {found} are positive"
    where = where_of(finding)
    return average if where is None else f"{average}; {range_of(where)}"


def where_of(finding: Finding) -> Range | None:
    """Where on the scale the event is furthest off, if it is off at all."""
    return next((part.where for part in finding.parts if not part.holds), None)


def range_of(where: Range) -> str:
    """``between 40 % and 70 %: 52.3 % predicted, 41.0 % actual``."""
    if where.low == where.high:
        place = f"at {percent(where.low)}"
    else:
        place = f"between {percent(where.low)} and {percent(where.high)}"
    return f"{place}: {percent(where.predicted)} predicted, {percent(where.actual)} actual"


def outcome_of(case: Case, finding: Finding, about: str, *, intervals: bool = True) -> str:
    """What repair does, or how large the error is, with or without intervals."""
    name = f"the {error_name(case.kind, about)}"
    if not (case.repaired and finding.real):
        found = case.first.metrics[about]
        said = f"{name} is {with_interval(found) if intervals else value_of(found)}, {_beside(case, about)}"
        if case.refuted:
            how = "clearly worse" if case.clearly_worse else "no better"
            return f"{said}, and {title(case.picked)} makes the probabilities {how}"
        if case.repaired:
            course = _course(case, NLL.key, intervals=intervals)
            return f"{said}, and {title(case.chosen)} is chosen for its {LOSS} (it {course})"
        if not finding.real or len(case.arms) == 1:
            return said
        if case.useless:
            return f"{said}, and no calibrator is recommended"
        if case.too_few:
            return f"{said}, and with only {case.fitted_on} none is recommended"
        return f"{said}, and no calibrator tried is clearly better"
    arm = case.chosen
    how = " ".join(part for part in ("with", title(arm), settings(arm.parameters)) if part)
    course = f"{name} {_course(case, about, intervals=intervals)}"
    if _improves(case, about):
        return f"{how} {course}"
    # The choice rests on another measure than the one that everybody looks at.
    joined = "while" if _sign(case, NLL.key) else "and"
    loss = f"the {LOSS}, by which it was chosen, {_course(case, NLL.key, intervals=intervals)}"
    return f"{how} {loss}, {joined} {course}"


def _beside(case: Case, about: str) -> str:
    """What the error is to be compared with."""
    null = null_of(case.first, about)
    return "" if null is None else f"where chance alone gives up to {number(null.upper)}"


def _improves(case: Case, about: str) -> bool:
    """Whether the recommended arm's error is lower beyond noise."""
    return clearly(case.chosen.change[about]) < 0


def _sign(case: Case, metric: str) -> int:
    """−1 where the recommended arm's is lower beyond noise, 1 where it is higher, else 0."""
    before, after = case.first.metrics[metric].value, case.chosen.metrics[metric].value
    if before is None or after is None:
        return (before is not None) - (after is not None)
    return clearly(case.chosen.change[metric])


def _course(case: Case, metric: str, *, intervals: bool) -> str:
    """``falls from 0.075 (0.067 to 0.083) to 0.021 (0.015 to 0.027)``, with the decimals that it takes."""
    before, after = case.first.metrics[metric], case.chosen.metrics[metric]
    sign = _sign(case, metric)
    verb = {-1: "falls", 0: "moves within noise,", 1: "rises"}[sign]
    digits = None
    if sign and before.value is not None and after.value is not None:
        digits = decimals_apart(before.value, after.value)
    if not intervals:
        before, after = (replace(each, low=None, high=None) for each in (before, after))
    old, new = (
        value_of(each) if each.value is None else with_interval(each, digits) for each in (before, after)
    )
    return f"{verb} from {old} to {new}"
