"""The verdict: the meaning of the numbers in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from calibrant._math.text_form import of_kind
from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.evaluation.fitting.split import Split, has_both_parts
from calibrant.evaluation.fitting.templates import Recommendation, one_class_only
from calibrant.evaluation.judging.measure import MAIN_PART, Measured
from calibrant.evaluation.phrases import (
    NO_BETTER,
    PHRASES,
    bad_groups,
    class_name,
    clearly,
    decimals_apart,
    error_name,
    listed,
    named,
    names_of,
    not_for_all,
    number,
    p_value,
    part_p_value,
    percent,
    points,
    range_of,
    settings,
    title,
    too_extreme,
    untested_groups,
    value_of,
    verb,
    way_of,
    with_group_sentence,
    with_interval,
    worst_bin,
)
from calibrant.evaluation.quantities import (
    ACCURACY,
    BRIER,
    CLASSWISE_ECE,
    ECE,
    GAP,
    MEAN_CONFIDENCE,
    MEAN_PROBABILITY,
    NLL,
    PREVALENCE,
    SLOPE,
)
from calibrant.evaluation.quantity import Quantity
from calibrant.evaluation.resampling.intervals import TOLERABLE_GAP, beyond_chance
from calibrant.evaluation.result import Arm, Check, Direction, Estimate, Part, Repair, Verdict
from calibrant.evaluation.verdict.case import ERRORS, MAIN, Case, Doubt, is_shifted, null_of
from calibrant.predictions import Predictions


def reach_verdict(case: Case) -> Verdict:
    headline = _headline(case)
    return Verdict(
        direction=case.direction,
        headline=headline,
        short=headline,
        line="\n".join(_lines(case)),
        about=case.about,
        checks=tuple(_check(case, part) for part in case.parts),
        sentences=tuple(_sentences(case)),
        recommended=case.chosen.name,
        reason=_reason(case),
        # Without a real error only log loss can improve.
        condition="if the lower log loss matters" if case.repaired and not case.real else None,
        caution=_caution(case),
        warnings=case.warnings,
    )


WITHIN_NOISE = "differences are within noise"
OF_DOUBT: dict[Doubt | None, str] = {
    None: "the difference is within noise",
    "few samples": f"too few samples to exclude an error of {points(TOLERABLE_GAP)}",
    "mixed signs": "unclear, although the test passes",
}


def _check(case: Case, part: Part) -> Check:
    metrics: tuple[str, ...] = ()
    if part.name in MAIN:
        text, metrics = _of_average(case, part), tuple(each.key for each in _pair(case))
        slope = None if part.holds or not _right_on_average(case) else case.slope_off(case.first)
        left = case.repaired and any(not each.holds and each.name in MAIN for each in case.chosen.parts)
        if slope is not None or (left and case.slope_off(case.chosen) is not None):
            metrics += (case.slope_key,)
    elif part.name == "classes":
        text, metrics = WITHIN_NOISE if part.holds else _off_classes(case), (CLASSWISE_ECE.key,)
    else:
        text = _of_groups(case)
    return Check(
        name="Overall" if part.name in {"top label", "positive class"} else part.name.capitalize(),
        passed=part.name not in case.failing,
        text=text,
        metrics=metrics,
    )


def _of_average(case: Case, part: Part) -> str:
    found = _averages(case)
    if part.holds:
        return f"{found}: {OF_DOUBT[case.doubt]}"
    if not _right_on_average(case):
        return found
    shape = "not at every level" if part.where is None else f"off {range_of(part.where)}"
    if slope := case.slope_off(case.first):
        worst = worst_bin(case.first.curves[:1], extreme=slope < 1)
        shape = too_extreme(slope) + (f"; {range_of(worst)}" if worst else "")
    return f"{found}: right on average, but {shape}"


def _right_on_average(case: Case) -> bool:
    """True if the error is one of shape: events that are off on average are over- or under-predicted."""
    return case.direction == "miscalibrated" or (case.of_events and case.direction in OF_CONFIDENCE)


def _pair(case: Case) -> tuple[Quantity, Quantity]:
    return (MEAN_PROBABILITY, PREVALENCE) if case.of_events else (MEAN_CONFIDENCE, ACCURACY)


def _averages(case: Case) -> str:
    """``average confidence 79.7%, accuracy 75.3%``."""
    metrics = case.first.metrics
    values = ((each, metrics.get(each.key, Estimate(value=None)).value) for each in _pair(case))
    return ", ".join(f"{each.title.lower()} {percent(value or 0.0)}" for each, value in values)


def _off_classes(case: Case) -> str:
    worst = case.furthest_off
    if not is_shifted(worst, case.level):
        return "off together; no single class stands out"
    off = sum(case.num_shifted)
    return (
        f"{off} of {len(case.first.classes)} {'is off:' if off == 1 else 'are off, most of all'} "
        f"{class_name(worst)}{',' if off == 1 else ':'} {percent(worst.mean_probability)} predicted, "
        f"{percent(worst.prevalence)} actual"
    )


def _of_groups(case: Case) -> str:
    rows = case.first.groups
    bad, untested = bad_groups(rows, case.level), untested_groups(rows, case.level)
    if bad:
        said = f"{len(bad)} of {len(rows)} are off ({named(bad)})"
        return f"{said}; too few samples to test {names_of(untested)}" if untested else said
    if untested:
        return f"none of {len(rows)} are off; too few samples to test {named(untested)}"
    return WITHIN_NOISE


def _left_over(case: Case) -> str | None:
    """Remaining errors after the recommended calibrator; ``None`` if every test passes."""
    arm = case.chosen
    failing = [part for part in arm.parts if not part.holds]
    if not case.repaired or not failing:
        return None
    if within := case.within(arm):
        return f"Nearly calibrated after it: the remaining error is real, but below {points(within)}."
    bad = bad_groups(arm.groups, case.level) if case.kind != "multilabel" and len(arm.groups) > 1 else []
    samples = "samples" if case.cross_fitted else "calibration samples"
    better = f"For less error, collect more {samples} or try another method."
    better += " To accept the rest, set a tolerance."
    before, after = (each.metrics[case.about].value for each in (case.first, arm))
    gain = "the log loss falls"
    if before and after is not None and clearly(arm.change[case.about]) < 0:
        gain = f"it removes {100 * (1 - after / before):.0f}% of the {error_name(case.about)}"
    remaining = "; ".join(_remaining(case, part) for part in failing)
    remedy = not_for_all(bad) if bad else better
    return f"Not fully repaired: {remaining}. Apply the fix: {gain}. {remedy}"


def _remaining(case: Case, part: Part) -> str:
    """``overall confidence is still too extreme (calibration slope 0.848, below 1: overconfident)``."""
    arm, subject = case.chosen, PHRASES[part.name]
    still = "still" if part.name in case.failing else "now"
    if part.name == "groups":
        bad = bad_groups(arm.groups, case.level)
        return f"{len(bad)} of {len(arm.groups)} groups {verb(bad, 'is')} {still} off"
    if part.name == "classes":
        rows = zip(case.first.classes, arm.classes, strict=True)
        off = [(before, after) for before, after in rows if is_shifted(after, case.level)]
        if not off:
            return f"{subject} are {still} off{_above_floor(arm, CLASSWISE_ECE.key)}"
        new = [after for before, after in off if not is_shifted(before, case.level)]
        still = "now" if len(new) == len(off) else "still"
        names = names_of(new or [after for _, after in off])
        names = f" ({'newly ' if new and still == 'still' else ''}{names})"
        nouns = "labels" if case.kind == "multilabel" else "classes"
        return f"{len(off)} of {len(arm.classes)} {nouns} {verb(off, 'is')} {still} off{names}"
    stated, found = (arm.metrics[each.key] for each in _pair(case))
    gap = clearly(arm.metrics[GAP.key])
    if case.of_events and stated.value and found.low is not None and found.high is not None:
        gap = (stated.value > found.high) - (stated.value < found.low)
    said = []
    if gap:
        way, values = "high" if gap > 0 else "low", [percent(each.value or 0.0) for each in (stated, found)]
        said.append(f"too {way} on average ({values[0]}, actual {values[1]})")
    if slope := case.slope_off(arm):
        said.append(too_extreme(slope))
    key = ERRORS.get(part.name, ECE.key)
    what = listed(said) or (f"off {range_of(part.where)}" if part.where else f"off{_above_floor(arm, key)}")
    changes = [arm.change[each] for each in (key, case.slope_key) if each in arm.change]
    no_better = still == "still" and not any(clearly(change) for change in changes)
    return f"{subject} {verb([subject], 'is')} {still} {what}{', no better than before' if no_better else ''}"


def _above_floor(arm: Arm, metric: str) -> str:
    null, value = null_of(arm, metric), arm.metrics[metric].value
    if null is None or value is None:
        return ""
    return f" ({error_name(metric)} {number(value)}, noise floor {number(null.upper)})"


def _sentences(case: Case) -> Iterator[str]:
    yield from _evidence(case)
    if case.repaired:
        yield _effect(case, (case.about, NLL.key, BRIER.key, ACCURACY.key), first="On the test samples")
        yield from filter(None, (_caution(case), _left_over(case)))
    if case.refuted:
        yield _refutation(case)
    yield from _limits(case)
    yield _fitted_where(case)
    if case.recommendation is not None:
        yield _why(case)
        yield from _highest_error(case)
    if not case.repaired:
        yield _unrepaired(case)


def _fitted_where(case: Case) -> str:
    if case.num_calibration == 0:
        return f"Evaluated on {case.num_test:,} samples."
    if case.cross_fitted:
        return f"Fitted and measured by cross-validation on all {case.num_test:,} samples."
    return f"Fitted on {case.num_calibration:,} calibration samples, measured on {case.num_test:,} others."


def _evidence(case: Case) -> Iterator[str]:
    for metric in dict.fromkeys((case.about, *case.spoken_of)):
        if metric == case.about or null_of(case.first, metric) is not None:
            yield _is_it_real(case, metric)
    if case.kind in {"multiclass", "multilabel"}:
        yield _classes(case)
    slope = case.slope_off(case.first)
    if not MAIN.isdisjoint(case.failing) and slope is not None:
        found = with_interval(case.first.metrics[case.slope_key])
        yield f"The calibration slope is {found}; 1 is ideal: the probabilities are too {way_of(slope)}."
    if case.kind == "binary" and (where := case.where):
        yield f"Furthest off {range_of(where)}."
    words = [
        f"{PHRASES[part.name]} {verb([PHRASES[part.name]], 'passes' if part.holds else 'fails')} "
        f"({part_p_value(part)})"
        for part in case.parts
    ]
    corrected = f", corrected for {len(words)} tests (Holm)" if len(words) > 1 else ""
    yield f"Calibration test over the whole scale{corrected}: {'; '.join(words)}."
    if case.doubt == "few samples":
        yield f"With so few samples, an average error of {points(TOLERABLE_GAP)} could have been missed."
    elif case.doubt == "mixed signs":
        yield "The average is off by more than noise, but the test finds no error: test on more samples."
    elif case.tolerable is not None:
        changes = [arm.change[NLL.key].value for arm in case.arms[1:] if NLL.key in arm.change]
        lowest = min((each for each in changes if each is not None), default=None)
        gain = "" if lowest is None else f"; no repair lowers log loss by more than {max(0.0, -lowest):.1g}"
        yield f"The error is real, but below {percent(case.tolerable)}{gain}."


def _is_it_real(case: Case, metric: str) -> str:
    null, estimate = null_of(case.first, metric), case.first.metrics[metric]
    found = f"{_capital(error_name(metric))} is {with_interval(estimate)}"
    if null is None:
        return f"{found}."
    if estimate.without_chance is not None:
        found += f", bias-corrected {number(estimate.without_chance)}"
    name = "classes" if metric == CLASSWISE_ECE.key else MAIN_PART.get(case.kind, "top label")
    passes = next(part.holds for part in case.parts if part.name == name)
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


def _capital(said: str) -> str:
    return f"{said[:1].upper()}{said[1:]}"


def _classes(case: Case) -> str:
    """Number of classes or labels predicted too often or too rarely, and the worst."""
    (high, low), worst = case.num_shifted, case.furthest_off
    noun, nouns = ("label", "labels") if case.kind == "multilabel" else ("class", "classes")
    return (
        f"{high} of {len(case.first.classes)} {nouns} {'is' if high == 1 else 'are'} predicted too often and "
        f"{low} too rarely, beyond noise. Worst: {class_name(worst, noun)} gets "
        f"{percent(worst.mean_probability)} probability on average, and its actual rate is "
        f"{percent(worst.prevalence)}."
    )


def _refutation(case: Case) -> str:
    why = "" if case.cross_fitted else "; the two splits differ"
    worse = "clearly worse" if case.clearly_worse else "no better"
    return (
        f"{case.picked.title} was chosen on the calibration samples, but is {worse} on the test samples "
        f"({_course(case, NLL.key, case.picked)}), so it is not recommended{why}."
    )


def _limits(case: Case) -> Iterator[str]:
    """Errors that temperature scaling cannot repair."""
    temperature = next((arm for arm in case.arms if arm.name == TemperatureScaling.name), case.chosen)
    if temperature is case.chosen or case.kind == "multiclass":
        return
    arms = (case.first, temperature, case.chosen)
    before, after, left = (arm.metrics[case.about].value or 0.0 for arm in arms)
    if case.real and left < before / 2 < after:
        yield (
            f"Temperature scaling only changes the {error_name(case.about)} from {number(before)} to "
            f"{number(after)}: it makes probabilities more or less extreme, but cannot shift all of them."
        )


def _why(case: Case) -> str:
    warnings = () if case.picked.fit is None else case.picked.fit.warnings
    chosen = "no repair" if case.picked is case.first else title(case.picked)
    return (
        f"Chosen on {case.fitted_on}: {chosen}, the simplest option within one standard error of the lowest "
        "cross-validated log loss." + "".join(f" Note: {each}." for each in of_kind(warnings, "bound"))
    )


def _highest_error(case: Case) -> Iterator[str]:
    """Note if the recommended arm has the highest calibration error of those tried."""
    for metric in dict.fromkeys((case.about, *case.spoken_of)):
        mine = case.chosen.metrics[metric].value
        others = [(arm.metrics[metric].value, arm) for arm in case.arms[1:] if arm is not case.chosen]
        known = [(value, arm) for value, arm in others if value is not None]
        if not case.repaired or not known or mine is None:
            continue
        lowest, best = min(known, key=lambda pair: pair[0])
        if max(value for value, _ in known) >= mine or number(lowest) == number(mine):
            continue
        yield (
            f"On the test samples its {error_name(metric)} is the highest of those tried, "
            f"{number(mine)} against {number(lowest)} with {title(best)}. This does not decide the choice: "
            "giving every sample the same probability also makes the error low, and a method chosen on test "
            "samples looks too good on them."
        )
        return


def _unrepaired(case: Case) -> str:
    if len(case.arms) == 1:
        return "No calibrator was tried."
    if case.too_few:
        return _too_few(case)
    if case.refuted:
        return "Leave the probabilities as they are, or fit on samples that resemble the test samples."
    rows = case.first.groups
    if "groups" in case.failing and len(rows) > 1 and case.kind != "multilabel":
        return not_for_all(bad_groups(rows, case.level))
    if case.direction == "undecided":
        return "Test on more samples to decide."
    if case.real:
        return (
            "The error is real, but no calibrator tried clearly lowers the log loss. "
            "Keep these probabilities, or fit on more samples."
        )
    untested = untested_groups(rows, case.level)
    return f"Test more samples of {names_of(untested)}." if untested else "Nothing needs to be done."


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
    """A warning that a rare class is predicted far less often, as its probabilities fall below one half."""
    if case.kind != "binary" or not case.repaired:
        return None
    event, other = (case.event, case.first.classes[0].name) if case.event else ("positive", "negative")
    names = ((event, other, "lower"), (other, event, "higher"))
    same = _same_as_half(case.chosen.fitted)
    rows = zip(reversed(case.first.classes), reversed(case.chosen.classes), strict=True)
    for (name, other, threshold), (before, after) in zip(names, rows, strict=True):
        if before.accuracy is None or after.accuracy is None or after.accuracy >= before.accuracy / 2:
            continue
        found = f"finds only {percent(after.accuracy)} of the {name} samples"
        return (
            f"Choose a {threshold} threshold: at 0.5, {title(case.chosen)} {found} "
            f"({percent(before.accuracy)} before). "
            f"{f'A threshold of {number(same)} decides as 0.5 did before. ' if same else ''}"
            f"Always predicting {other} has an accuracy of {percent(1 - before.prevalence)}."
        )
    return None


def _same_as_half(calibrator: Calibrator | None) -> float | None:
    """The threshold after a calibrator of two classes that decides as 0.5 did before, if there is one."""
    if calibrator is None:
        return None
    half = 200
    mapped = calibrator.predict_proba(torch.linspace(-20, 20, 2 * half + 1, dtype=torch.float64))
    same = mapped[half]
    keeps = bool((mapped[:half] < same).all() and (mapped[half + 1 :] > same).all())
    return float(same) if keeps else None


OF_CONFIDENCE: dict[Direction, str] = {"over-confident": "Overconfident", "under-confident": "Underconfident"}
OF_EVENTS: dict[Direction, str] = {"over-predicting": "too high", "under-predicting": "too low"}


def _headline(case: Case) -> str:
    """The headline; "Calibrated" only if every test passes."""
    if case.useless:
        return f"{NO_BETTER}."
    if case.tolerable is not None:
        return f"Nearly calibrated: the error is real, but below {points(case.tolerable)}."
    if case.direction == "calibrated":
        return f"Calibrated: no test finds an error on {case.num_test:,} samples."
    if case.doubt == "mixed signs" and not case.real:
        return f"Unclear: {_averages(case)}, but the calibration test passes."
    if case.doubt and not case.real:
        hidden = f"{case.num_test:,} could hide a {points(TOLERABLE_GAP).replace(' points', '-point')} error"
        return f"Too few samples to tell: {hidden}."
    if way := OF_EVENTS.get(case.direction):
        subject = "Label probabilities" if case.kind == "multilabel" else "Probabilities"
        event = f" of {case.event}" if case.event else ""
        stated, rate = (percent(case.first.metrics[each.key].value or 0.0) for each in _pair(case))
        return f"{subject}{event} are {way}{case.on_few}: {stated} on average, actual rate {rate}."
    word = OF_CONFIDENCE.get(case.direction)
    if word is None:
        return f"Partly miscalibrated{case.on_few}: {_partly(case)}."
    slope = case.first.metrics.get(SLOPE.event_key)
    if case.kind == "binary" and slope is not None and not case.on_few:
        way = "extreme" if case.direction == "over-confident" else "timid"
        return (
            f"{word}: probabilities are too {way} (calibration slope {number(slope.value or 0.0)}, ideal 1)."
        )
    found = _averages(case)
    return f"{word}{case.on_few}: {found.replace('average ', '') if case.on_few else found}."


def _partly(case: Case) -> str:
    failing = [PHRASES[name] for name in case.failing if name not in MAIN]
    if MAIN.isdisjoint(case.failing):
        off = f"{listed(failing)} {verb(failing, 'is')} off"
        if only_groups := case.failing == ("groups",):
            bad = bad_groups(case.first.groups, case.level)
            off = f"{len(bad)} of {len(case.first.groups)} groups {verb(bad, 'is')} off"
        if case.doubt:
            return f"{off}, {PHRASES[case.parts[0].name]} is unclear"
        if only_groups:
            return off
        holding = [PHRASES[part.name] for part in case.parts if part.holds]
        return f"{listed(holding)} {verb(holding, 'is')} fine, {listed(failing)} {verb(failing, 'is')} not"
    if case.kind == "binary" and case.where is not None:
        return range_of(case.where)
    slope = case.slope_off(case.first)
    shape = "off at some levels" if slope is None else f"too {way_of(slope)}"
    subject = "probability" if case.of_events else "confidence"
    more = f"; {listed(failing)} {verb(failing, 'is')} off" if failing else ""
    return f"{subject} is right on average, but {shape}{more}"


def _lines(case: Case) -> Iterator[str]:
    """The size of the error, or the effect of the best repair and the remaining errors."""
    found = case.first.metrics[ACCURACY.key]
    if case.on_few and case.direction != "undecided" and found.low is not None and found.high is not None:
        yield f"Few samples: the true accuracy is between {percent(found.low)} and {percent(found.high)}."
    if not (case.repaired and case.real):
        null, name = null_of(case.first, case.about), _capital(error_name(case.about))
        floor = "" if null is None else f", noise floor {number(null.upper)}"
        above = null is not None and not case.real and beyond_chance(null.p_value, case.level)
        passes = ": above the noise floor, but the test passes" if above else ""
        yield f"{name} {value_of(case.first.metrics[case.about])}{floor}{passes}."
    if not case.repaired:
        yield _unrepaired(case)
        return
    shown = (NLL.key, case.about) if _caution(case) else (NLL.key, case.about, ACCURACY.key)
    yield f"{_effect(case, shown, first='Best fix' if case.real else 'Lower log loss')} {_fitted_where(case)}"
    if left := _left_over(case):
        yield left


def _effect(case: Case, metrics: Sequence[str], *, first: str) -> str:
    arm = case.chosen
    changes = listed([_course(case, metric, arm) for metric in metrics])
    said = " ".join(filter(None, (title(arm), settings(arm.parameters))))
    return f"{first}: {said}. {_capital(changes)}."


def _course(case: Case, metric: str, arm: Arm) -> str:
    """``log loss falls from 0.180 to 0.135``."""
    before, after = case.first.metrics[metric], arm.metrics[metric]
    titles = {each.key: each.title.lower() for each in (NLL, ACCURACY)} | {BRIER.key: f"the {BRIER.title}"}
    name = titles.get(metric, error_name(metric))
    if before.value is None or after.value is None:
        way = "falls" if before.value is None else "rises"
        return f"{name} {way} from {value_of(before)} to {value_of(after)}"
    change = arm.change[metric]
    if change.value == 0:
        return f"{name} doesn't change"
    sign = clearly(change)
    digits = decimals_apart(before.value, after.value) if sign else None
    old, new = (
        percent(each) if metric == ACCURACY.key else number(each, digits)
        for each in (before.value, after.value)
    )
    way = {-1: "falls", 0: "changes", 1: "rises"}[sign]
    return f"{name} {way} from {old} to {new}{'' if sign else ' (within noise)'}"


def verdict_of(
    arms: tuple[Arm, ...],
    uncalibrated: Measured,
    recommendation: Recommendation | None,
    split: Split,
    calibration: Predictions | None,
    *,
    num_test: int,
    tolerance: float | None,
    warnings: tuple[str, ...],
) -> Verdict:
    """The verdict; ``calibration`` are the predictions given to fit on."""
    procedure = uncalibrated.noise.procedure
    case = Case(
        kind=procedure.kind,
        arms=arms,
        uncalibrated=uncalibrated,
        recommendation=None if of_kind(warnings, "useless") else recommendation,
        level=procedure.level,
        num_calibration=split.num_calibration,
        effective_calibration=split.effective_calibration,
        num_test=num_test,
        cross_fitted=split.folds is not None,
        one_class=one_class_only(split.calibration),
        tolerance=tolerance,
        warnings=warnings,
    )
    verdict = reach_verdict(case)
    if case.repaired:
        verdict = replace(verdict, repair=_repair(case.chosen.name, split, calibration))
    return with_group_sentence(verdict, arms[0].groups, split.test.groups, procedure.level)


def _repair(method: str, split: Split, calibration: Predictions | None) -> Repair:
    given = split.test_as_given
    source = (given if calibration is None else calibration).source
    marked = not (split.announce or split.drawn)
    if calibration is not None:
        marked = split.marked or has_both_parts(calibration)
    return Repair(
        method=method,
        file=None if source is None else source.path or source.name,
        all_rows=not marked,
        format="npz" if given.source is None else given.source.format,
        space=given.space,
    )
