"""Names of errors, calibrators and classes in a verdict."""

from __future__ import annotations

from calibrant.calibrators.roster import CALIBRATORS
from calibrant.evaluation.phrases import number
from calibrant.evaluation.quantities import CLASSWISE_ECE, ECE
from calibrant.evaluation.result import Arm, ClassRow, Estimate, Kind, NullError
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import Finding, is_shifted


def spoken_of(kind: Kind) -> tuple[str, ...]:
    """The errors that sentences are about."""
    if kind == "multiclass":
        return (ECE.key, CLASSWISE_ECE.key)
    return (ECE.event_key,) if kind == "binary" else (ECE.key,)


def error_name(metric: str) -> str:
    """As in the table."""
    return "classwise ECE" if metric == CLASSWISE_ECE.key else "ECE"


def title(arm: Arm) -> str:
    """Within a sentence; people keep their capitals."""
    method = CALIBRATORS.get(arm.name.partition("(")[0])
    if method is not None and method.named_after_person:
        return arm.title
    return arm.title[:1].lower() + arm.title[1:]


def null_of(arm: Arm, metric: str) -> NullError | None:
    """The noise floor, if it is known."""
    return next((null for null in arm.null if null.metric == metric), None)


def value_of(estimate: Estimate) -> str:
    """The number, or why it is infinite."""
    if estimate.value is not None:
        return number(estimate.value)
    return f"infinity ({(estimate.reason or '').removeprefix('infinite: ')})"


def class_name(row: ClassRow, noun: str = "class") -> str:
    """The name, or ``class 3`` where there is none but the number."""
    return f"{noun} {row.name}" if row.name.isdecimal() else row.name


def furthest_off(case: Case) -> ClassRow:
    """The class whose mean probability is furthest from its prevalence, beyond chance if there is one."""
    return max(
        case.first.classes,
        key=lambda row: (is_shifted(row, case.level), abs(row.mean_probability - row.prevalence)),
    )


def error_of(case: Case, finding: Finding) -> str:
    """The key of the error that the headline is about: of the event or top label, or of the classes."""
    if case.kind == "binary":
        return ECE.event_key
    partly = finding.direction in {"calibrated in part", "miscalibrated"}
    if partly and "classes" in finding.failing and null_of(case.first, CLASSWISE_ECE.key) is not None:
        return CLASSWISE_ECE.key
    return ECE.key
