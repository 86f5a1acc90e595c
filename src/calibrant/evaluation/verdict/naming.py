"""How a verdict calls errors, calibrators, classes and parts."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.calibrators.roster import CALIBRATORS
from calibrant.evaluation.phrases import number
from calibrant.evaluation.quantities.classwise_ece import CLASSWISE_ECE
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.result import Arm, ClassRow, Estimate, Kind, NullError, PartName
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import Finding, is_shifted

PLURALS: frozenset[PartName] = frozenset({"labels", "classes", "groups"})


def error_name(kind: Kind, metric: str) -> str:
    """``calibration error of the positive class``."""
    if metric == CLASSWISE_ECE.key:
        return "class-wise calibration error"
    if kind == "multilabel":
        return "calibration error of the labels"
    if kind == "binary":
        return f"calibration error of the {'positive class' if metric == ECE.event_key else 'top label'}"
    return "calibration error"


def title(arm: Arm) -> str:
    """Within a sentence; people keep their capitals."""
    method = CALIBRATORS.get(arm.name.partition("(")[0])
    if method is not None and method.named_after_person:
        return arm.title
    return arm.title[:1].lower() + arm.title[1:]


def null_of(arm: Arm, metric: str) -> NullError | None:
    """What chance gives, where that is known."""
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


def listed(parts: Sequence[PartName], article: str) -> str:
    """``its top label and its classes``."""
    *most, last = (f"{article} {part}" for part in parts)
    return f"{', '.join(most)} and {last}" if most else last


def are(parts: Sequence[PartName]) -> str:
    """``is`` or ``are``."""
    return "are" if len(parts) > 1 or parts[0] in PLURALS else "is"


def error_of(case: Case, finding: Finding) -> str:
    """The key of the error that the headline is about: of the event or top label, or of the classes."""
    if case.kind == "binary":
        return ECE.event_key
    partly = finding.direction in {"calibrated in part", "miscalibrated"}
    if partly and "classes" in finding.failing and null_of(case.first, CLASSWISE_ECE.key) is not None:
        return CLASSWISE_ECE.key
    return ECE.key
