"""What the numbers mean, in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation.fitting.recommend import Recommendation
from calibrant.evaluation.judging.parts import MAIN_PART
from calibrant.evaluation.phrases import (
    clearly,
    decimals_apart,
    number,
    p_value,
    part_p_value,
    percent,
    span,
)
from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.brier import BRIER
from calibrant.evaluation.quantities.classwise_ece import CLASSWISE_ECE
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.nll import NLL
from calibrant.evaluation.quantities.slope import SLOPE
from calibrant.evaluation.result import Arm, Estimate, Kind, Part, PartName, Verdict
from calibrant.evaluation.thresholds import TOLERABLE_GAP, beyond_chance
from calibrant.evaluation.verdict.case import Case
from calibrant.evaluation.verdict.finding import MAIN, Finding, count_shifted, find
from calibrant.evaluation.verdict.headline import LOSS, headline_of
from calibrant.evaluation.verdict.naming import (
    PLURALS,
    are,
    class_name,
    error_name,
    error_of,
    furthest_off,
    listed,
    null_of,
    title,
    value_of,
)
from calibrant.evaluation.verdict.short import line_of, short_of

ALMOST_NEVER = 0.1  # share of the samples of a class: below it, the class is almost never predicted
SPOKEN_OF: dict[Kind, tuple[str, ...]] = {
    "binary": (ECE.event_key,),
    "multiclass": (ECE.key, CLASSWISE_ECE.key),
}
"""The errors that sentences are about; of other kinds the ECE alone."""
JUDGEMENTS = {-1: "clearly better", 0: "within noise", 1: "clearly worse"}  # of what is better when lower


def reach_verdict(case: Case) -> Verdict:
    """Direction, first sentence and the sentences after it."""
    finding = _tolerated(case, find(case.uncalibrated, case.first.parts, case.level))
    about = error_of(case, finding)
    return Verdict(
        direction=finding.direction,
        headline=headline_of(case, finding, about),
        short=short_of(case, finding),
        line=line_of(case, finding, about),
        about=about,
        sentences=tuple(_sentences(case, finding, about)),
        recommended=case.chosen.name,
        reason=_reason(case),
        condition=_condition(case, finding),
        caution=_caution(case),
        warnings=case.warnings,
    )


def _tolerated(case: Case, finding: Finding) -> Finding:
    """Calibrated, if all that is beyond chance is smaller than what matters, to the end of its interval."""
    errors: dict[PartName, str] = {"classes": CLASSWISE_ECE.key, "positive class": ECE.event_key}
    failing = finding.failing
    keys = [errors.get(name, ECE.key) for name in failing]
    ends = [case.first.metrics[key].high for key in keys if key in case.first.metrics]
    if not failing or "groups" in failing or len(ends) < len(failing):
        return finding
    limits = [case.tolerated(key) for key in keys]
    if all(end is not None and end < limit for end, limit in zip(ends, limits, strict=True)):
        return replace(finding, direction="calibrated", doubt=None, within=min(limits))
    return finding


def _sentences(case: Case, finding: Finding, about: str) -> Iterator[str]:
    yield from _evidence(case, finding, about)
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
        yield from _highest_error(case, about)
    if not case.repaired:
        yield _unrepaired(case, finding)


def _evidence(case: Case, finding: Finding, about: str) -> Iterator[str]:
    """What was found, beside chance."""
    yield _is_it_real(case, about, gloss=True)
    for other in SPOKEN_OF.get(case.kind, (ECE.key,)):
        if other != about and null_of(case.first, other) is not None:
            yield _is_it_real(case, other, gloss=False)
    if case.kind in {"multiclass", "multilabel"}:
        yield _classes(case)
    if MAIN & set(finding.failing):
        yield from _slope(case)
    yield _parts(finding.parts)
    if finding.doubt == "few samples":
        yield f"With so few samples a gap of {percent(TOLERABLE_GAP)} on average could have been missed."
    elif finding.within is not None:
        yield f"An error is there, but it is less than {percent(finding.within)}{_cost(case)}."
    elif finding.doubt == "mixed signs":
        yield "The average is off beyond noise, yet the calibration error is not: more samples would tell."


def _cost(case: Case) -> str:
    """What an error that is tolerated costs, if repairs were tried: the most that any of them gains."""
    changes = [arm.change[NLL.key].value for arm in case.arms[1:] if NLL.key in arm.change]
    lowest = min((each for each in changes if each is not None), default=None)
    if lowest is None:
        return ""
    return f"; no repair lowers the {LOSS} by more than {max(0.0, -lowest):.1g}"


def _is_it_real(case: Case, metric: str, *, gloss: bool) -> str:
    """The error beside what chance alone gives."""
    null, estimate = null_of(case.first, metric), case.first.metrics[metric]
    if null is None:
        return f"The {error_name(case.kind, metric)} is {number(estimate.value or 0.0)} ({span(estimate)})."
    level = f"{100 * case.level:g} %"
    meaning = " (how far what is stated lies from what happens, on average)" if gloss else ""
    holds = _part(case.first, case.kind, metric).holds
    ending = "this can be chance"
    if beyond_chance(null.p_value, case.level):
        ending = "the error is real"
        if holds:
            ending = "more than chance alone gives, but the test that decides finds no error"
    elif not holds:
        ending = "by itself this can be chance, but the test that decides finds an error"
    return (
        f"The {error_name(case.kind, metric)}{meaning} is {number(estimate.value or 0.0)} "
        f"({level} interval {span(estimate)}{_freed(estimate)}). A perfectly calibrated model judged on as "
        f"many samples shows {number(null.mean)} on average and at most {number(null.upper)} in {level} of "
        f"cases: {ending} ({p_value(null)})."
    )


def _part(arm: Arm, kind: Kind, metric: str) -> Part:
    """The part of the verdict that a calibration error belongs to."""
    name = "classes" if metric == CLASSWISE_ECE.key else MAIN_PART.get(kind, "top label")
    return next(part for part in arm.parts if part.name == name)


def _freed(estimate: Estimate) -> str:
    if estimate.without_chance is None:
        return ""
    return f"; {number(estimate.without_chance)} without what chance adds"


def _slope(case: Case) -> Iterator[str]:
    """The calibration slope, if it differs from one beyond noise."""
    estimate = case.first.metrics[SLOPE.event_key if case.kind == "binary" else SLOPE.key]
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return
    if estimate.low <= 1 <= estimate.high:
        return
    way = "extreme" if estimate.value < 1 else "timid"
    yield (
        f"The calibration slope is {number(estimate.value)} ({100 * case.level:g} % interval "
        f"{span(estimate)}), where 1 is right: the probabilities are too {way}."
    )


def _parts(parts: tuple[Part, ...]) -> str:
    """What holds and what does not, with p-values."""
    verbs = {True: ("hold", "do not hold"), False: ("holds", "does not hold")}
    said = [
        f"the {part.name} {verbs[part.name in PLURALS][not part.holds]} ({part_p_value(part)})"
        for part in parts
    ]
    test = "By a test for errors anywhere on the scale"
    if len(said) == 1:
        return f"{test}, {said[0]}."
    return f"{test}, with Holm's adjustment for {len(parts)} looks, {', '.join(said[:-1])} and {said[-1]}."


def _classes(case: Case) -> str:
    """How many classes or labels are predicted too often or too rarely, and the worst."""
    high, low = count_shifted(case.first.classes, case.level)
    rows, worst = case.first.classes, furthest_off(case)
    noun, nouns = ("label", "labels") if case.kind == "multilabel" else ("class", "classes")
    get = "gets" if high == 1 else "get"
    return (
        f"{high} of {len(rows)} {nouns} {get} probabilities that are too high on average, beyond chance, and "
        f"{low} too low; the furthest off is {class_name(worst, noun)}: {percent(worst.mean_probability)} "
        f"stated, {percent(worst.prevalence)} found."
    )


def _effect(case: Case, about: str) -> str:
    """What the recommended calibrator does to error, scores and accuracy."""
    arm = case.chosen
    named = {
        about: f"the {error_name(case.kind, about)}",
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
    worse = "clearly worse" if case.clearly_worse else "worse, if within noise,"
    return (
        f"{case.picked.title} was chosen on the calibration samples, but is {worse} on the test samples "
        f"(NLL {move}), so it is not recommended{why}."
    )


def _move(before: Arm, after: Arm, metric: str) -> str:
    """``from 0.109 to 0.021 (clearly better)``."""
    old, new = before.metrics[metric], after.metrics[metric]
    if old.value is None or new.value is None:
        return f"from {value_of(old)} to {value_of(new)}"
    sign = clearly(after.change[metric])
    digits = decimals_apart(old.value, new.value) if sign else None
    said = f"from {number(old.value, digits)} to {number(new.value, digits)}"
    return f"{said} ({JUDGEMENTS[-sign if metric == ACCURACY.key else sign]})"


def _limits(case: Case, finding: Finding, about: str) -> Iterator[str]:
    """What the repair leaves."""
    null, left = null_of(case.chosen, about), case.chosen.metrics[about].value or 0.0
    remaining: list[PartName] = [part.name for part in case.chosen.parts if not part.holds]
    if case.repaired and remaining:
        if null is not None and not _part(case.chosen, case.kind, about).holds:
            what = f"What remains, {number(left)}, is still more than chance gives ({p_value(null)})"
        else:
            what = f"After it {listed(remaining, 'the')} still {are(remaining)} off beyond chance"
        yield f"{what}: this calibrator does not repair everything."
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
        for each in recommendation.choice.candidates
    )
    on_bound = (
        [] if case.picked.fit is None else [each for each in case.picked.fit.warnings if "bound" in each]
    )
    unchanged = case.picked is case.first
    choice = "leaving the probabilities as they are" if unchanged else title(case.picked)
    return (
        f"The choice of {choice} was made on calibration samples by cross-validated NLL ({scores}), never by "
        "the calibration error: it is the simplest within one standard error of the best."
        + "".join(f" Note that {each}." for each in on_bound)
    )


def _highest_error(case: Case, about: str) -> Iterator[str]:
    """Why the arm that is recommended may have the highest calibration error of those that were tried."""
    for metric in dict.fromkeys((about, *SPOKEN_OF.get(case.kind, (ECE.key,)))):
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
            f"On the test samples its {error_name(case.kind, metric)} is the highest of those tried, "
            f"{number(mine)} against {number(theirs)} with {title(lowest)}. That does not decide: an "
            "error is low also where all samples are given one probability, and what is chosen on test "
            "samples looks too good there."
        )
        return


def _unrepaired(case: Case, finding: Finding) -> str:
    """What to do where no calibrator is recommended."""
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
    if case.useless:
        return (
            "No calibrator is recommended: one that gives every sample the class frequencies would be "
            "calibrated, and as useless."
        )
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
            f"Watch the accuracy: with {title(case.chosen)} the {name} class is {rarely} (for "
            f"{percent(after.accuracy)} of its samples, {percent(before.accuracy)} before), which moves the "
            f"accuracy towards that of always saying {other}; to decide, choose a threshold of your own on "
            "the calibrated probabilities."
        )
    return None
