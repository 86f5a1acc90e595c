"""What was claimed of focal loss and curvature, held against the runs; an arrow for each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from calibrant.experiments.claims import Claim
from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.studies.curvature.directions import Runs, Settings, arrows, counted, signs, verdict
from calibrant.experiments.studies.curvature.numbers import (
    BASIC,
    BY_KEY,
    GAMMA,
    NORMALISED,
    Pick,
    Quantity,
    arms_of,
    at_epoch,
    difference,
    runs_from,
    runs_of,
    settings_from,
    values_of,
)
from calibrant.experiments.studies.curvature.settings import Setting
from calibrant.experiments.studies.curvature.tables import TRAIN, arm_name, stability

SOURCE = "Kimura and Naganuma, 2025"
_ECE = BY_KEY["before.ece"].pick


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim, in the order of the page."""
    every, settings = runs_from(numbers), settings_from(numbers)
    return [
        _own_loss(every, settings),
        _cross_entropy(every, settings),
        _company(every, settings),
        _same_gamma(every, settings),
        _after_temperature(every, settings),
        *_penalty(every, settings, "trace", "Penalising the trace lowers ECE"),
        *_penalty(every, settings, "sam", "Sharpness-aware minimisation lowers ECE"),
    ]


def remarks(every: Runs, settings: Settings) -> list[str]:
    """What else was seen, in sentences made from the runs."""
    points = [
        _variant(every, settings, "focal-no-decay", "Without weight decay"),
        _variant(every, settings, "focal-low-rate", "At a fifth of the learning rate"),
        _units(every, settings),
        _made_of(every, settings),
        _stability(every, settings),
    ]
    return [point for point in points if point]


def _claim(
    key: str, statement: str, found: Sequence[int], claimed: int, evidence: str, *, turns: bool = False
) -> Claim:
    """A claim on the direction in every setting, or in every case of several."""
    return Claim(
        key=key,
        source=SOURCE,
        statement=statement,
        verdict=verdict(found, claimed),
        evidence=f"{counted(found, claimed, 'cases')}. {evidence}",
        arms=("focal-0", "focal-5") if turns else (),
    )


def _own_loss(every: Runs, settings: Settings) -> Claim:
    top, trace = (signs(every, settings, each.pick) for each in TRAIN[:2])
    evidence = (
        f"With rising γ: λ_max {arrows(top)}, trace {arrows(trace)}; from cross-entropy to γ = 3 the trace "
        f"is multiplied by {_factors(every, settings, TRAIN[1])}. {_since(every, settings)} "
        "Divided by the value of the loss itself, which focal loss makes smaller still, the trace "
        f"{_relative(every, settings)}. At random weights, before training, the trace "
        f"{arrows(signs(every, settings, at_epoch(0, 'own', 'trace')))}"
    )
    return _claim(
        "own-loss",
        "Focal loss lowers the curvature of the loss that is trained, at the training samples and at the end "
        "of training",
        [*top, *trace],
        -1,
        evidence,
        turns=True,
    )


def _relative(every: Runs, settings: Settings) -> str:
    return arrows(signs(every, settings, BY_KEY["relative.own.trace"].pick))


def _since(every: Runs, settings: Settings) -> str:
    """From which checkpoint on the trace of the own loss falls with γ in every setting."""
    epochs = settings[0].checkpoints
    falls = [
        all(each < 0 for each in signs(every, settings, at_epoch(place, "own", "trace")))
        for place in range(len(epochs))
    ]
    if not falls[-1]:
        return "At no checkpoint does it fall in all settings for good."
    first = len(falls) - falls[::-1].index(False) if False in falls else 0
    return f"The trace falls with γ in every setting from epoch {epochs[first]} on."


def _cross_entropy(every: Runs, settings: Settings) -> Claim:
    top, trace = (signs(every, settings, each.pick) for each in TRAIN[2:])
    own = signs(every, settings, TRAIN[1].pick)
    opposed = ""
    if {*own} == {-1} and {*trace} == {1}:
        opposed = ". Which loss the Hessian is taken of decides the sign"
    evidence = (
        "At the same parameters, the same samples and the same epoch, measured by cross-entropy: "
        f"λ_max {arrows(top)}, trace {arrows(trace)}; to γ = 3 the trace is multiplied by "
        f"{_factors(every, settings, TRAIN[3])}{opposed}"
    )
    return _claim(
        "cross-entropy",
        "Focal loss leads to where cross-entropy is flatter",
        [*top, *trace],
        -1,
        evidence,
        turns=True,
    )


def _factors(every: Runs, settings: Settings, quantity: Quantity) -> str:
    """From cross-entropy to γ = 3, seed by seed, in every setting."""
    found: list[str] = []
    for setting in settings:
        runs = runs_of(every, setting.key, "focal")
        focal, plain = ([run for run in runs if run["gamma"] == gamma] for gamma in (3.0, 0.0))
        mean = difference(focal, plain, quantity.pick, ratio=True)
        if mean is not None:
            found.append(_factor(mean))
    return ", ".join(found)


def _factor(mean: Mean) -> str:
    text = f"{math.exp(mean.value):.2g}"
    if mean.half_width is None:
        return text
    return f"{text} ({math.exp(mean.low):.2g} to {math.exp(mean.high):.2g})"


def _company(every: Runs, settings: Settings) -> Claim:
    ece = {each.key: signs(every, settings, each.pick, _ECE) for each in TRAIN}
    sure = signs(every, settings, TRAIN[1].pick, BY_KEY["before.overconfidence"].pick)
    lowest = "; ".join(f"{setting.title} {_best(every, setting)}" for setting in settings)
    evidence = (
        f"ECE with rising trace of the own loss {arrows(ece[TRAIN[1].key])}, with its λ_max "
        f"{arrows(ece[TRAIN[0].key])}, with the trace of cross-entropy {arrows(ece[TRAIN[3].key])}, "
        f"with its λ_max {arrows(ece[TRAIN[2].key])}. "
        f"What the own loss's trace goes with is over-confidence, sign included: {arrows(sure)}."
        f"{_less_sure(every, settings)} Mean over-confidence of cross-entropy and of γ = 5, in per cent "
        f"points, and the γ with the lowest mean test ECE: {lowest}"
    )
    return _claim("company", "Lower curvature goes with lower ECE", ece[TRAIN[1].key], 1, evidence)


def _less_sure(every: Runs, settings: Settings) -> str:
    falls = signs(every, settings, BY_KEY["before.overconfidence"].pick)
    if {*falls} != {-1}:
        return f" With rising γ it goes {arrows(falls)}."
    return (
        " Focal loss makes networks less sure in every setting; ECE falls while there is over-confidence to "
        "take away, and rises when there is none left."
    )


def _best(every: Runs, setting: Setting) -> str:
    runs = runs_of(every, setting.key, "focal")
    sure, means = BY_KEY["before.overconfidence"].pick, dict[float, float]()
    for gamma in sorted({run["gamma"] for run in runs}):
        means[gamma] = mean_of(values_of([run for run in runs if run["gamma"] == gamma], _ECE)).value
    ends = [
        f"{100 * mean_of(found).value:+.1f}".replace("-", "−")
        for gamma in (0.0, 5.0)
        if (found := values_of([run for run in runs if run["gamma"] == gamma], sure))
    ]
    return f"{' and '.join(ends)}, γ = {min(means, key=lambda gamma: means[gamma]):g}"


def _same_gamma(every: Runs, settings: Settings) -> Claim:
    found = {each.key: signs(every, settings, each.pick, _ECE, within=True) for each in TRAIN}
    every_sign = [sign for each in found.values() for sign in each]
    marks = "; ".join(f"{each.title} {arrows(found[each.key])}" for each in TRAIN)
    statement = "Among networks trained with the same γ the flatter one is better calibrated"
    return _claim("same-gamma", statement, every_sign, 1, f"ECE with rising {marks}")


def _after_temperature(every: Runs, settings: Settings) -> Claim:
    own, plain = TRAIN[1].pick, TRAIN[3].pick
    ece, nll = BY_KEY["after.ece"].pick, BY_KEY["after.nll"].pick
    evidence = (
        "With rising trace of the own loss ECE after a fitted temperature "
        f"{arrows(signs(every, settings, own, ece))}, NLL {arrows(signs(every, settings, own, nll))}; "
        f"with rising trace of cross-entropy ECE {arrows(signs(every, settings, plain, ece))}, NLL "
        f"{arrows(signs(every, settings, plain, nll))}"
    )
    statement = "After temperature scaling flatter means lower ECE"
    return _claim("after-temperature", statement, signs(every, settings, own, ece), 1, evidence)


def _penalty(every: Runs, settings: Settings, family: str, statement: str) -> list[Claim]:
    cases = [
        (setting, arm_name(runs[0]).removeprefix("cross-entropy + "), _against_plain(every, setting, runs))
        for setting in settings
        for runs in arms_of(runs_of(every, setting.key, family)).values()
    ]
    if not cases:
        return []
    ece, after, error, trace = (
        [_sign(found.get(name)) for _, _, found in cases] for name in ("ece", "after", "error", "trace")
    )
    told = [
        f"{setting.title}, {name}: trace × {math.exp(found['trace'].value):.2g}, ECE "
        f"{_points(found['ece'])}, error {_points(found['error'])}, ECE after temperature scaling "
        f"{_points(found['after'])}"
        for (setting, name, found), sign in zip(cases, ece, strict=True)
        if sign
    ]
    evidence = (
        f"Against plain cross-entropy of the same seed, among {len(cases)} cases: the trace of "
        f"cross-entropy on training samples falls in {trace.count(-1)} and rises in {trace.count(1)}; "
        f"ECE falls in {ece.count(-1)} and rises in "
        f"{ece.count(1)}; error falls in {error.count(-1)} and rises in {error.count(1)}; ECE after "
        f"temperature scaling falls in {after.count(-1)} and rises in {after.count(1)}. Where ECE changes, "
        f"in per cent points: {'; '.join(told) or 'nowhere'}"
    )
    return [_claim(f"penalty-{family}", statement, ece, -1, evidence)]


def _against_plain(every: Runs, setting: Setting, runs: Runs) -> dict[str, Mean]:
    """Paired differences, of the trace as a logarithm."""
    baseline = [run for run in runs_of(every, setting.key, "focal") if run["gamma"] == 0]
    found = {
        "trace": difference(runs, baseline, TRAIN[3].pick, ratio=True),
        "ece": difference(runs, baseline, _ECE),
        "after": difference(runs, baseline, BY_KEY["after.ece"].pick),
        "error": difference(runs, baseline, BY_KEY["before.error"].pick),
    }
    return {name: each for name, each in found.items() if each is not None}


def _sign(found: Mean | None) -> int:
    return 0 if found is None else (found.low > 0) - (found.high < 0)


def _points(found: Mean) -> str:
    half = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    return f"{100 * found.value:+.1f}{half}".replace("-", "−")


def _variant(every: Runs, settings: Settings, family: str, title: str) -> str:
    having = [setting for setting in settings if runs_of(every, setting.key, family)]
    if not having:
        return ""
    falls = ", ".join(
        f"{each.title.removesuffix(', train')} {arrows(signs(every, having, each.pick, family=family))}"
        for each in TRAIN
    )
    goes = arrows(signs(every, having, TRAIN[1].pick, _ECE, family=family))
    return (
        f"**{title}** ({'; '.join(setting.title for setting in having)}), with rising γ: {falls}; ECE with "
        f"rising trace of the own loss {goes}."
    )


def _units(every: Runs, settings: Settings) -> str:
    """Units in which curvature falls with γ, and those in which it also goes with ECE, everywhere."""
    units = (*BASIC, *NORMALISED)

    def everywhere(each: Quantity, other: Pick, sign: int) -> bool:
        found = signs(every, settings, each.pick, other)
        return bool(found) and all(one == sign for one in found)

    falling = [each for each in units if everywhere(each, GAMMA.pick, -1)]
    rising = [each for each in units if everywhere(each, GAMMA.pick, 1)]
    going = [each for each in units if everywhere(each, _ECE, 1)]
    return (
        "**In which unit?** "
        f"Among {len(units)} forms of curvature, on training samples unless said otherwise, "
        f"these fall with γ in every setting: {_named(falling)}. These rise in every setting: "
        f"{_named(rising)}. Those that rise with ECE in every setting: {_named(going)}."
    )


def _named(quantities: Sequence[Quantity]) -> str:
    return "; ".join(each.title for each in quantities) or "none"


def _made_of(every: Runs, settings: Settings) -> str:
    bend_own, bend, jacobian = (BY_KEY[key].pick for key in ("bend.own", "bend.cross_entropy", "jacobian"))
    norm = BY_KEY["norm"].pick
    return (
        "**What it is made of.** Curvature by the parameters is that by the logits seen through the "
        "Jacobian of the logits. With rising γ: the own loss's curvature by the logits "
        f"{arrows(signs(every, settings, bend_own))}, cross-entropy's "
        f"{arrows(signs(every, settings, bend))}, the squared Jacobian "
        f"{arrows(signs(every, settings, jacobian))}, the norm of the parameters "
        f"{arrows(signs(every, settings, norm))}."
    )


def _stability(every: Runs, settings: Settings) -> str:
    shares = [
        f"{setting.title} {mean_of([stability(run, setting) for run in runs]).value:.2f}"
        for setting in settings
        if (runs := [run for run in runs_of(every, setting.key, "focal") if run["gamma"] == 0])
    ]
    return (
        "**Does the learning rate set λ_max?** As a share of what gradient descent with this rate and "
        "momentum bears, cross-entropy's own λ_max at the last checkpoint at the full rate is "
        f"{'; '.join(shares)}."
    )
