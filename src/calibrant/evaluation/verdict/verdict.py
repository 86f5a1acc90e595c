"""The verdict: the meaning of the numbers in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation.alarms import NO_BETTER
from calibrant.evaluation.judging.parts import MAIN_PART
from calibrant.evaluation.phrases import (
    clearly,
    decimals_apart,
    number,
    p_value,
    part_p_value,
    percent,
    points,
    settings,
    with_interval,
)
from calibrant.evaluation.quantities import ACCURACY, BRIER, CLASSWISE_ECE, NLL, SLOPE
from calibrant.evaluation.result import Arm, Direction, Kind, Part, Verdict
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance
from calibrant.evaluation.verdict.case import Case, bad_groups, not_for_all
from calibrant.evaluation.verdict.checks import (
    PHRASES,
    averages,
    checks_of,
    ideally_one,
    left_over,
    listed,
    names_of,
    range_of,
    slope_key,
    slope_off,
    untested_groups,
    verb,
    where_of,
)
from calibrant.evaluation.verdict.finding import (
    MAIN,
    Finding,
    class_name,
    count_shifted,
    error_name,
    error_of,
    find,
    furthest_off,
    null_of,
    spoken_of,
    title,
    value_of,
)

PARTLY = "Partly miscalibrated"


def reach_verdict(case: Case) -> Verdict:
    finding = _tolerated(case, find(case.uncalibrated, case.first.parts, case.level))
    about = error_of(case, finding)
    headline = short_of(case, finding)
    return Verdict(
        direction=finding.direction,
        headline=headline,
        short=headline,
        line=line_of(case, finding, about, "" if case.repaired else _unrepaired(case, finding)),
        about=about,
        checks=checks_of(case, finding),
        sentences=tuple(_sentences(case, finding, about)),
        recommended=case.chosen.name,
        reason=_reason(case),
        condition=_condition(case, finding),
        caution=_caution(case),
        warnings=case.warnings,
    )


def _tolerated(case: Case, finding: Finding) -> Finding:
    """Calibrated, if every error above noise is smaller than what matters."""
    within = case.within(case.first)
    return finding if within is None else replace(finding, direction="calibrated", doubt=None, within=within)


def _sentences(case: Case, finding: Finding, about: str) -> Iterator[str]:
    yield from _evidence(case, finding, about)
    if case.repaired:
        yield effect(case, (about, NLL.key, BRIER.key, ACCURACY.key), first="On the test samples")
        yield from (each for each in (_caution(case), left_over(case)) if each)
    if case.refuted:
        yield _refutation(case)
    yield from _limits(case, finding, about)
    yield _sizes(case)
    if case.recommendation is not None:
        yield _why(case)
        yield from _highest_error(case, about)
    if not case.repaired:
        yield _unrepaired(case, finding)


def _evidence(case: Case, finding: Finding, about: str) -> Iterator[str]:
    for metric in dict.fromkeys((about, *spoken_of(case.kind))):
        if metric == about or null_of(case.first, metric) is not None:
            yield _is_it_real(case, metric)
    if case.kind in {"multiclass", "multilabel"}:
        yield _classes(case)
    slope = slope_off(case, case.first)
    if MAIN & set(finding.failing) and slope is not None:
        way = "extreme" if slope < 1 else "timid"
        found = with_interval(case.first.metrics[slope_key(case)])
        yield f"The calibration slope is {found}; 1 is ideal: the probabilities are too {way}."
    if case.kind == "binary" and (where := where_of(finding)):
        yield f"Furthest off {range_of(where)}."
    yield _parts(finding.parts)
    if finding.doubt == "few samples":
        yield f"With so few samples, an average error of {points(TOLERABLE_GAP)} could have been missed."
    elif finding.within is not None:
        yield f"The error is real, but below {percent(finding.within)}{_cost(case)}."
    elif finding.doubt == "mixed signs":
        yield "The average is off by more than noise, but the test finds no error: test on more samples."


def _cost(case: Case) -> str:
    """Cost of a tolerated error, if repairs were tried: the largest gain of any of them."""
    changes = [arm.change[NLL.key].value for arm in case.arms[1:] if NLL.key in arm.change]
    lowest = min((each for each in changes if each is not None), default=None)
    return "" if lowest is None else f"; no repair lowers log loss by more than {max(0.0, -lowest):.1g}"


def _is_it_real(case: Case, metric: str) -> str:
    null, estimate = null_of(case.first, metric), case.first.metrics[metric]
    name = error_name(metric)
    found = f"{name[:1].upper()}{name[1:]} is {with_interval(estimate)}"
    if null is None:
        return f"{found}."
    if estimate.without_chance is not None:
        found += f", bias-corrected {number(estimate.without_chance)}"
    passes = _part(case.first, case.kind, metric).holds
    p = p_value(null)
    ending = f"This could be noise ({p})"
    if beyond_chance(null.p_value, case.level):
        ending = f"This is above noise ({p}), but the test passes" if passes else f"The error is real ({p})"
    elif not passes:
        ending += ", but the calibration test fails"
    return (
        f"{found}. A perfectly calibrated model would score {number(null.mean)} on this many samples, and "
        f"below {number(null.upper)} in {100 * case.level:g}% of cases. {ending}."
    )


def _part(arm: Arm, kind: Kind, metric: str) -> Part:
    name = "classes" if metric == CLASSWISE_ECE.key else MAIN_PART.get(kind, "top label")
    return next(part for part in arm.parts if part.name == name)


def _parts(parts: tuple[Part, ...]) -> str:
    """Passing and failing tests, with p-values."""
    words = [
        f"{PHRASES[part.name]} {verb([PHRASES[part.name]], 'passes' if part.holds else 'fails')} "
        f"({part_p_value(part)})"
        for part in parts
    ]
    corrected = f", corrected for {len(parts)} tests (Holm)" if len(parts) > 1 else ""
    return f"Calibration test over the whole scale{corrected}: {'; '.join(words)}."


def _classes(case: Case) -> str:
    """Number of classes or labels predicted too often or too rarely, and the worst."""
    high, low = count_shifted(case.first.classes, case.level)
    noun, nouns = ("label", "labels") if case.kind == "multilabel" else ("class", "classes")
    rows, worst = case.first.classes, furthest_off(case)
    is_ = "is" if high == 1 else "are"
    return (
        f"{high} of {len(rows)} {nouns} {is_} predicted too often and {low} too rarely, beyond noise. Worst: "
        f"{class_name(worst, noun)} gets {percent(worst.mean_probability)} probability on average, and its "
        f"actual rate is {percent(worst.prevalence)}."
    )


def _refutation(case: Case) -> str:
    why = "" if case.cross_fitted else "; the two splits differ"
    worse = "clearly worse" if case.clearly_worse else "no better"
    return (
        f"{case.picked.title} was chosen on the calibration samples, but is {worse} on the test samples "
        f"({course(case, NLL.key, case.picked)}), so it is not recommended{why}."
    )


def _limits(case: Case, finding: Finding, about: str) -> Iterator[str]:
    """Errors that temperature scaling cannot repair."""
    temperature = next((arm for arm in case.arms if arm.name == TemperatureScaling.name), case.chosen)
    if temperature is case.chosen or case.kind == "multiclass":
        return
    left = case.chosen.metrics[about].value or 0.0
    before, after = case.first.metrics[about].value or 0.0, temperature.metrics[about].value or 0.0
    if finding.real and left < before / 2 < after:
        yield (
            f"Temperature scaling only changes the {error_name(about)} from {number(before)} to "
            f"{number(after)}: it makes probabilities more or less extreme, but cannot shift all of them."
        )


def _sizes(case: Case) -> str:
    if case.num_calibration == 0:
        return f"Evaluated on {case.num_test:,} samples."
    if case.cross_fitted:
        return f"Each of the {case.num_test:,} samples was evaluated with calibrators fitted on others."
    return f"Fitted on {case.num_calibration:,} samples and evaluated on {case.num_test:,} others."


def _why(case: Case) -> str:
    on_bound = (
        [] if case.picked.fit is None else [each for each in case.picked.fit.warnings if "bound" in each]
    )
    chosen = "no repair" if case.picked is case.first else title(case.picked)
    return (
        f"Chosen on {case.fitted_on}: {chosen}, the simplest option within one standard error of the lowest "
        "cross-validated log loss." + "".join(f" Note: {each}." for each in on_bound)
    )


def _highest_error(case: Case, about: str) -> Iterator[str]:
    """Why the arm that is recommended may have the highest calibration error of those that were tried."""
    for metric in dict.fromkeys((about, *spoken_of(case.kind))):
        arms = [
            arm for arm in case.arms[1:] if arm is not case.chosen and arm.metrics[metric].value is not None
        ]
        mine = case.chosen.metrics[metric].value
        if not case.repaired or not arms or mine is None:
            continue
        lowest = min(arms, key=lambda arm: arm.metrics[metric].value or 0.0)
        highest_of_others = max(arm.metrics[metric].value or 0.0 for arm in arms)
        theirs = lowest.metrics[metric].value or 0.0
        if highest_of_others >= mine or number(theirs) == number(mine):
            continue
        yield (
            f"On the test samples its {error_name(metric)} is the highest of those tried, "
            f"{number(mine)} against {number(theirs)} with {title(lowest)}. This does not decide the choice: "
            "giving every sample the same probability also makes the error low, and a method chosen on test "
            "samples looks too good on them."
        )
        return


def _unrepaired(case: Case, finding: Finding) -> str:
    if len(case.arms) == 1:
        return "No calibrator was tried."
    if case.too_few:
        return _too_few(case)
    if case.refuted:
        return "Leave the probabilities as they are, or fit on samples that resemble the test samples."
    if "groups" in finding.failing and len(case.first.groups) > 1 and case.kind != "multilabel":
        return not_for_all(bad_groups(case.first.groups, case.level))
    if finding.direction == "undecided":
        return "Test on more samples to decide."
    if finding.real:
        return (
            "The error is real, but no calibrator tried clearly lowers the log loss. "
            "Keep these probabilities, or fit on more samples."
        )
    untested = untested_groups(case)
    return f"Test more samples of {names_of(untested)}." if untested else "Nothing needs to be done."


def _condition(case: Case, finding: Finding) -> str | None:
    """On what the recommendation depends: without a real error only log loss can improve."""
    return "if the lower log loss matters" if case.repaired and not finding.real else None


def _reason(case: Case) -> str | None:
    if case.refuted:
        return _refutation(case)
    if case.too_few:
        return _too_few(case)
    return None if case.recommendation is None else _why(case)


def _too_few(case: Case) -> str:
    if case.useless:
        return "No calibrator can help: it would give every sample the class frequencies."
    if case.one_class:
        return "No calibrator is recommended: the calibration samples contain only one class."
    return f"No calibrator is recommended: {case.fitted_on} are too few to choose one."


def _caution(case: Case) -> str | None:
    """A warning that a class is predicted far less often than before, which moves the accuracy.

    Correcting the probabilities of a rare class takes them below one half.
    """
    if case.kind != "binary" or not case.repaired:
        return None
    for name, other, threshold, before, after in zip(
        ("positive", "negative"),
        ("negative", "positive"),
        ("lower", "higher"),
        reversed(case.first.classes),
        reversed(case.chosen.classes),
        strict=True,
    ):
        if before.accuracy is None or after.accuracy is None or after.accuracy >= before.accuracy / 2:
            continue
        return (
            f"Always predicting {other} has an accuracy of {percent(1 - before.prevalence)}. At a threshold "
            f"of 0.5, {title(case.chosen)} finds {percent(after.accuracy)} of the {name} samples "
            f"({percent(before.accuracy)} before). To find more, choose a {threshold} threshold."
        )
    return None


OF_CONFIDENCE: dict[Direction, str] = {"over-confident": "Overconfident", "under-confident": "Underconfident"}
OF_EVENTS: dict[Direction, str] = {
    "over-predicting": "Predicts too many positives",
    "under-predicting": "Predicts too few positives",
}
OF_LABELS: dict[Direction, str] = {
    "over-predicting": "Overestimates labels",
    "under-predicting": "Underestimates labels",
}


def short_of(case: Case, finding: Finding) -> str:
    """The headline; "Calibrated" only if every test passes."""
    if case.useless:
        return f"{NO_BETTER}."
    if finding.within is not None:
        return f"Nearly calibrated: the error is real, but below {points(finding.within)}."
    if finding.direction == "calibrated":
        return f"Calibrated: no test finds an error on {case.num_test:,} samples."
    if finding.doubt == "mixed signs" and not finding.failing:
        return f"Unclear: {averages(case, finding)}, but the calibration test passes."
    if finding.doubt and not finding.failing:
        hidden = f"{case.num_test:,} could hide a {points(TOLERABLE_GAP).replace(' points', '-point')} error"
        return f"Too few samples to tell: {hidden}."
    first = (OF_LABELS if case.kind == "multilabel" else OF_EVENTS) | OF_CONFIDENCE
    word = first.get(finding.direction)
    if word is None:
        return f"{PARTLY}{case.on_few}: {_partly(case, finding)}."
    slope = case.first.metrics.get(SLOPE.event_key)
    if case.kind == "binary" and finding.direction in OF_CONFIDENCE and slope is not None and not case.on_few:
        way = "extreme" if finding.direction == "over-confident" else "timid"
        return f"{word}: probabilities are too {way} ({ideally_one(slope.value or 0.0)})."
    found = averages(case, finding)
    return f"{word}{case.on_few}: {found.replace('average ', '') if case.on_few else found}."


def _partly(case: Case, finding: Finding) -> str:
    failing = [PHRASES[name] for name in finding.failing if name not in MAIN]
    if MAIN.isdisjoint(finding.failing):
        off = f"{listed(failing)} {verb(failing, 'is')} off"
        if finding.failing == ("groups",):
            bad = bad_groups(case.first.groups, case.level)
            off = f"{len(bad)} of {len(case.first.groups)} groups {verb(bad, 'is')} off"
        if finding.doubt:
            return f"{off}, {PHRASES[finding.parts[0].name]} is unclear"
        holding = [PHRASES[name] for name in finding.holding]
        if finding.failing == ("groups",):
            return off
        return f"{listed(holding)} {verb(holding, 'is')} fine, {listed(failing)} {verb(failing, 'is')} not"
    where = where_of(finding)
    if case.kind == "binary" and where is not None:
        return range_of(where)
    slope = slope_off(case, case.first)
    shape = "off at some levels" if slope is None else f"too {'extreme' if slope < 1 else 'timid'}"
    subject = "probability" if finding.subject == "events" else "confidence"
    more = f"; {listed(failing)} {verb(failing, 'is')} off" if failing else ""
    return f"{subject} is right on average, but {shape}{more}"


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
        above = null is not None and not finding.real and beyond_chance(null.p_value, case.level)
        passes = ": above the noise floor, but the test passes" if above else ""
        yield f"{name[:1].upper()}{name[1:]} {value_of(case.first.metrics[about])}{floor}{passes}."
    if not case.repaired:
        yield unrepaired
        return
    shown = (NLL.key, about) if _caution(case) else (NLL.key, about, ACCURACY.key)
    yield effect(case, shown, first="Best fix" if finding.real else "Lower log loss")
    if left := left_over(case):
        yield left


def effect(case: Case, metrics: Sequence[str], *, first: str) -> str:
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
