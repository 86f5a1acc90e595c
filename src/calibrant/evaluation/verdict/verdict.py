"""What the numbers mean, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.roster import CALIBRATORS
from calibrant.evaluation.fitting.recommend import Recommendation
from calibrant.evaluation.phrases import (
    clearly,
    decimals_apart,
    number,
    p_value,
    percent,
    settings,
    span,
    with_margin,
)
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.brier import BRIER
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY
from calibrant.evaluation.quantities.nll import NLL
from calibrant.evaluation.quantities.prevalence import PREVALENCE
from calibrant.evaluation.result import Arm, Estimate, Kind, NullError, Verdict
from calibrant.evaluation.thresholds import TOLERABLE_GAP
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import Finding, count_shifted, find

ALMOST_NEVER = 0.1  # share of the samples of a class: below it, the class is almost never predicted
JUDGEMENTS = {-1: "clearly better", 0: "within noise", 1: "clearly worse"}  # of what is better when lower
LOSS = "negative log-likelihood"


def reach_verdict(case: Case) -> Verdict:
    """Direction, first sentence and the sentences after it."""
    finding = find(case.uncalibrated, case.first.null, case.level)
    about = ECE.key
    if case.kind == "binary" and finding.subject == "events":
        about = ECE.event_key
    return Verdict(
        direction=finding.direction,
        headline=_headline(case, finding, about),
        sentences=tuple(_sentences(case, finding, about)),
        recommended=case.chosen.name,
        reason=_reason(case),
        condition=_condition(case, finding),
        caution=_caution(case),
    )


def _headline(case: Case, finding: Finding, about: str) -> str:
    first = finding.direction.capitalize()
    if finding.direction == "calibrated":
        first += f", as far as {case.num_test:,} samples can tell"
    elif finding.direction == "undecided":
        first += f" on {case.num_test:,} samples"
    return f"{first}: {_facts(case, finding)}; {_outcome(case, finding, about)}."


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
    decisions = f"is {says} sure of its decisions, which are right {right} of the time"
    if case.kind == "multilabel":
        events = f"gives the labels {stated} on average where {found} occur"
    else:
        events = f"gives the positive class {stated} on average where it occurs in {found} of cases"
    return f"{events}, and {decisions}" if finding.subject == "events" else f"{decisions}, and {events}"


def _outcome(case: Case, finding: Finding, about: str) -> str:
    """What repair does, or how large the error is."""
    before, null = case.first.metrics[about], _null(case.first, about)
    name = f"the {_error_name(case.kind, about)}"
    if not (case.repaired and finding.real):
        said = f"{name} is {with_margin(before)}, where chance alone gives up to {number(null.upper)}"
        if case.refuted:
            return f"{said}, and {_title(case.picked)} makes the probabilities clearly worse"
        if case.repaired:
            return f"{said}, and {_title(case.chosen)} is chosen for its {LOSS} (it {_course(case, NLL.key)})"
        if not finding.real or len(case.arms) == 1:
            return said
        if case.too_few:
            return f"{said}, and with only {case.fitted_on} none is recommended"
        return f"{said}, and no calibrator tried is clearly better"
    arm = case.chosen
    how = " ".join(part for part in ("with", _title(arm), settings(arm.parameters)) if part)
    course = f"{name} {_course(case, about)}"
    if clearly(arm.change[about]) < 0:
        return f"{how} {course}"
    # The choice rests on another measure than the one that everybody looks at.
    joined = "while" if _sign(case, NLL.key) else "and"
    return f"{how} the {LOSS}, by which it was chosen, {_course(case, NLL.key)}, {joined} {course}"


def _sign(case: Case, metric: str) -> int:
    """−1 where the recommended arm's is lower beyond noise, 1 where it is higher, else 0."""
    before, after = case.first.metrics[metric].value, case.chosen.metrics[metric].value
    if before is None or after is None:
        return (before is not None) - (after is not None)
    return clearly(case.chosen.change[metric])


def _course(case: Case, metric: str) -> str:
    """``falls from 0.075 ± 0.008 to 0.021 ± 0.006``, with as many decimals as it takes to see that."""
    before, after = case.first.metrics[metric], case.chosen.metrics[metric]
    sign = _sign(case, metric)
    verb = {-1: "falls", 0: "hardly moves,", 1: "rises"}[sign]
    digits = None
    if sign and before.value is not None and after.value is not None:
        digits = decimals_apart(before.value, after.value)
    old, new = (_value(each) if each.value is None else with_margin(each, digits) for each in (before, after))
    return f"{verb} from {old} to {new}"


def _error_name(kind: Kind, metric: str) -> str:
    if kind == "multilabel":
        return "calibration error of the labels"
    if kind == "binary":
        return f"calibration error of the {'positive class' if metric == ECE.event_key else 'top label'}"
    return "calibration error"


def _title(arm: Arm) -> str:
    """Within a sentence; people keep their capitals."""
    method = CALIBRATORS.get(arm.name.partition("(")[0])
    if method is not None and method.named_after_person:
        return arm.title
    return arm.title[:1].lower() + arm.title[1:]


def _null(arm: Arm, metric: str) -> NullError:
    return next(null for null in arm.null if null.metric == metric)


def _sentences(case: Case, finding: Finding, about: str) -> Iterator[str]:
    yield _is_it_real(case, finding, about, gloss=True)
    if case.kind == "binary":
        yield _is_it_real(case, finding, ECE.key if about == ECE.event_key else ECE.event_key, gloss=False)
    if case.kind == "multilabel":
        yield _labels(case)
    if finding.doubt == "few samples":
        yield f"With so few samples a gap of {percent(TOLERABLE_GAP)} on average could have been missed."
    elif finding.doubt == "mixed signs":
        yield "The average is off beyond noise, yet the calibration error is not: more samples would tell."
    if case.repaired:
        yield _effect(case, about)
        if caution := _caution(case):
            yield caution
    if case.refuted:
        yield _refutation(case)
    yield from _limits(case, finding, about)
    yield _sizes(case)
    if case.recommendation is not None:
        yield _why(case, case.recommendation)
    if not case.repaired:
        yield _unrepaired(case, finding)


def _is_it_real(case: Case, finding: Finding, metric: str, *, gloss: bool) -> str:
    """The error beside what chance alone gives."""
    null, estimate = _null(case.first, metric), case.first.metrics[metric]
    level = f"{100 * case.level:g} %"
    meaning = " (how far what is stated lies from what happens, on average)" if gloss else ""
    ending = "the error is real" if null.p_value < finding.threshold else "this can be chance"
    return (
        f"The {_error_name(case.kind, metric)}{meaning} is {number(estimate.value or 0.0)} "
        f"({level} interval {span(estimate)}). A perfectly calibrated model judged on as many samples shows "
        f"{number(null.mean)} on average and at most {number(null.upper)} in {level} of cases: "
        f"{ending} ({p_value(null)})."
    )


def _labels(case: Case) -> str:
    """How many labels are predicted too often or too rarely, and the worst."""
    high, low = count_shifted(case.uncalibrated, case.level)
    rows = case.first.classes
    worst = max(rows, key=lambda row: abs(row.mean_probability - row.prevalence))
    get = "gets" if high == 1 else "get"
    return (
        f"{high} of {len(rows)} labels {get} probabilities that are too high on average, beyond chance, and "
        f"{low} too low; the furthest off is {worst.name}: {percent(worst.mean_probability)} stated, "
        f"{percent(worst.prevalence)} found."
    )


def _effect(case: Case, about: str) -> str:
    """What the recommended calibrator does to error, scores and accuracy."""
    arm = case.chosen
    named = {
        about: f"the {_error_name(case.kind, about)}",
        NLL.key: "the negative log-likelihood (NLL)",
        BRIER.key: "the Brier score (squared distance from what happened)",
    }
    moves = ", ".join(f"{name} {_move(case.first, arm, metric)}" for metric, name in named.items())
    kept = "stays the same"
    if arm.change[ACCURACY.key].value:
        kept = f"goes {_move(case.first, arm, ACCURACY.key)}"
    return (
        f"{arm.title}, judged on samples that it was not fitted on, takes {moves}; lower is better. "
        f"Accuracy {kept}."
    )


def _refutation(case: Case) -> str:
    """Why the arm that was chosen is not recommended."""
    why = "" if case.cross_fitted else "; the two splits differ"
    move = _move(case.first, case.picked, NLL.key).partition(" (")[0]
    return (
        f"{case.picked.title} was chosen on the calibration samples, but is clearly worse on the test "
        f"samples (NLL {move}), so it is not recommended{why}."
    )


def _move(before: Arm, after: Arm, metric: str) -> str:
    """``from 0.109 to 0.021 (clearly better)``."""
    old, new = before.metrics[metric], after.metrics[metric]
    if old.value is None or new.value is None:
        return f"from {_value(old)} to {_value(new)}"
    sign = clearly(after.change[metric])
    digits = decimals_apart(old.value, new.value) if sign else None
    said = f"from {number(old.value, digits)} to {number(new.value, digits)}"
    return f"{said} ({JUDGEMENTS[-sign if metric == ACCURACY.key else sign]})"


def _value(estimate: Estimate) -> str:
    """The number, or why it is infinite."""
    if estimate.value is not None:
        return number(estimate.value)
    return f"infinity ({(estimate.reason or '').removeprefix('infinite: ')})"


def _limits(case: Case, finding: Finding, about: str) -> Iterator[str]:
    """What the repair leaves."""
    null, left = _null(case.chosen, about), case.chosen.metrics[about].value or 0.0
    if case.repaired and null.p_value < finding.threshold:
        yield (
            f"What remains, {number(left)}, is still more than chance gives ({p_value(null)}): "
            "this calibrator does not repair everything."
        )
    temperature = next((arm for arm in case.arms if arm.name == TemperatureScaling.name), case.chosen)
    if temperature is case.chosen or case.kind == "multiclass":
        return
    before, after = case.first.metrics[about].value or 0.0, temperature.metrics[about].value or 0.0
    if finding.real and left < before / 2 < after:
        yield (
            f"Temperature scaling alone takes it from {number(before)} to {number(after)}: it makes "
            "probabilities more or less extreme, but cannot move all of them one way."
        )


def _sizes(case: Case) -> str:
    if case.num_calibration == 0:
        return f"Judged on {case.num_test:,} samples."
    if case.cross_fitted:
        return f"Each of the {case.num_test:,} samples was judged by calibrators fitted on others."
    return f"Fitted on {case.num_calibration:,} samples and judged on {case.num_test:,} others."


def _why(case: Case, recommendation: Recommendation) -> str:
    """How the recommended arm was chosen."""
    scores = ", ".join(
        f"{each.name} {number(each.nll)}"
        + (f", behind by {each.behind:.2g} ± {each.standard_error:.2g}" if each.behind > 0 else "")
        for each in recommendation.contenders
    )
    on_bound = (
        [] if case.picked.fit is None else [each for each in case.picked.fit.warnings if "bound" in each]
    )
    unchanged = case.picked is case.first
    choice = "leaving the probabilities as they are" if unchanged else _title(case.picked)
    return (
        f"The choice of {choice} was made on calibration samples by cross-validated NLL ({scores}), never by "
        "the calibration error: it is the simplest within one standard error of the best."
        + "".join(f" Note that {each}." for each in on_bound)
    )


def _unrepaired(case: Case, finding: Finding) -> str:
    """What to do where no calibrator is recommended."""
    if case.kind == "top_label":
        return "To repair such predictions, export the logits or probabilities of all classes."
    if len(case.arms) == 1:
        return "No calibrator was tried."
    if case.too_few:
        return _too_few(case)
    if case.refuted:
        return "Leave the probabilities as they are, or fit on samples that resemble the test samples."
    return "Leave the probabilities as they are." if finding.real else "Nothing needs to be done."


def _condition(case: Case, finding: Finding) -> str | None:
    """On what the recommendation depends: without a real error there is only the NLL to gain."""
    return "if the lower NLL matters" if case.repaired and not finding.real else None


def _reason(case: Case) -> str | None:
    """Why that arm is recommended, or why none is."""
    if case.refuted:
        return _refutation(case)
    if case.too_few:
        return _too_few(case)
    return None if case.recommendation is None else _why(case, case.recommendation)


def _too_few(case: Case) -> str:
    if case.one_class:
        return (
            "The calibration samples hold one class only, so no calibrator is recommended: they do not tell "
            "how often it is wrong."
        )
    return f"With only {case.fitted_on} none is recommended: too few to choose a calibrator."


def _caution(case: Case) -> str | None:
    """A warning that a class is predicted far less often than before, which moves the accuracy.

    Shifting the probabilities of a rare class to where they are true takes them below one half.
    """
    if case.kind != "binary" or not case.repaired:
        return None
    for name, other, before, after in zip(
        ("positive", "negative"),
        ("negative", "positive"),
        reversed(case.first.classes),
        reversed(case.chosen.classes),
        strict=True,
    ):
        if before.accuracy is None or after.accuracy is None or after.accuracy >= before.accuracy / 2:
            continue
        rarely = "almost never predicted" if after.accuracy < ALMOST_NEVER else "predicted far less often"
        return (
            f"Watch the accuracy: with {_title(case.chosen)} the {name} class is {rarely} (for "
            f"{percent(after.accuracy)} of its samples, {percent(before.accuracy)} before), which moves the "
            f"accuracy towards that of always saying {other}; to decide, choose a threshold of your own on "
            "the calibrated probabilities."
        )
    return None
