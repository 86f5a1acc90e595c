"""The verdict in at most twelve words, and one line that says what helps."""

from __future__ import annotations

from calibrant.evaluation.phrases import percent
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY
from calibrant.evaluation.quantities.prevalence import PREVALENCE
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import Finding
from calibrant.evaluation.verdict.headline import is_partly, outcome_of, with_class_off
from calibrant.evaluation.verdict.naming import listed


def short_of(case: Case, finding: Finding) -> str:
    """What a reader should remember."""
    if is_partly(finding):
        off = listed(finding.failing, "its")
        return f"{'Miscalibrated' if finding.doubt else 'Calibrated, except'} in {off}{case.on_few}."
    if finding.direction == "calibrated":
        return f"Calibrated, as far as {case.num_test:,} samples can tell."
    if finding.direction == "undecided":
        few = finding.doubt == "few samples"
        return (
            f"Undecided: {case.num_test:,} samples are too few to tell."
            if few
            else ("Undecided: more samples would tell.")
        )
    first = finding.direction.capitalize()
    if finding.subject == "events":
        given, found = (_shown(case, key) for key in (MEAN_PROBABILITY.key, PREVALENCE.key))
        first = "Over-predicts" if _excess(case) > 0 else "Under-predicts"
        if case.on_few:
            return f"{first}{case.on_few}: gives {given} where {found} occur."
        if case.kind == "multilabel":
            return f"{first}: labels are given {given} where {found} occur."
        return f"{first}: the positive class is given {given}, occurs in {found}."
    says, right = (_shown(case, key) for key in (MEAN_CONFIDENCE.key, ACCURACY.key))
    if case.kind in {"binary", "multilabel"}:  # not of the positive class, which the table names first
        throughout = (
            ", but not throughout" if finding.direction == "miscalibrated" and not case.on_few else ""
        )
        return f"{first}{case.on_few}: {says} sure of its decisions, right in {right}{throughout}."
    if case.on_few:
        return f"{first}{case.on_few}: says {says}, is right {right}."
    if finding.direction == "miscalibrated":
        return f"{first}: says {says}, is right {right}, but not throughout."
    return f"{first}: says {says}, is right {right} of the time."


def line_of(case: Case, finding: Finding, about: str) -> str:
    """Which class is off, and what repair does or how large the error is; the intervals stand beside it."""
    said = outcome_of(case, finding, about, intervals=False)
    if is_partly(finding):
        said = with_class_off(case, finding, said)
    line = f"{said[:1].upper()}{said[1:]}."
    return f"{_how_few(case)}{line}" if case.on_few and finding.direction != "undecided" else line


def _how_few(case: Case) -> str:
    """What so few samples leave open, whatever the error."""
    found = case.first.metrics[ACCURACY.key]
    if found.low is None or found.high is None:
        return ""
    return f"Few samples: the true accuracy may lie from {percent(found.low)} to {percent(found.high)}. "


def _excess(case: Case) -> float:
    """Mean probability of the event less its prevalence."""
    given, found = (case.first.metrics[key].value or 0.0 for key in (MEAN_PROBABILITY.key, PREVALENCE.key))
    return given - found


def _shown(case: Case, key: str) -> str:
    return percent(case.first.metrics[key].value or 0.0).replace(" ", "\u00a0")
