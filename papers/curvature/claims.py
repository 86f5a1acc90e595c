"""What was claimed of focal loss and curvature, held against the runs; an arrow for each setting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from calibrant._math.means import Mean, mean_of
from papers.claims import NOT_CLAIMED, Claim
from papers.curvature.directions import (
    ECE,
    Runs,
    Settings,
    arrows,
    counted,
    signs,
    verdict,
)
from papers.curvature.numbers import (
    BY_KEY,
    Quantity,
    arms_of,
    at_epoch,
    difference,
    runs_of,
    settings_from,
    values_of,
)
from papers.curvature.settings import Setting
from papers.curvature.tables import TRAIN, arm_name

SOURCE = "Kimura and Naganuma (2024)"


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim, in the order of the page."""
    every, settings = numbers["runs"], settings_from(numbers)
    return [
        _own_loss(every, settings),
        _cross_entropy(every, settings),
        *_company(every, settings),
        _same_gamma(every, settings),
        _after_temperature(every, settings),
        *_penalty(every, settings, "trace", "Penalising the trace lowers ECE", SOURCE),
        *_penalty(every, settings, "sam", "Sharpness-aware minimisation lowers ECE", NOT_CLAIMED),
    ]


def _claim(
    key: str,
    statement: str,
    found: Sequence[int],
    claimed: int,
    evidence: str,
    *,
    source: str = SOURCE,
    turns: bool = False,
) -> Claim:
    """A claim on the direction in every setting, or in every case of several."""
    return Claim(
        key=key,
        source=source,
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
        source=NOT_CLAIMED,
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


def _company(every: Runs, settings: Settings) -> Iterator[Claim]:
    """By the curvature of either loss: the abstract does not say of which it speaks."""
    ece = {each.key: signs(every, settings, each.pick, ECE) for each in TRAIN}
    sure = signs(every, settings, TRAIN[1].pick, BY_KEY["before.overconfidence"].pick)
    lowest = "; ".join(f"{setting.title} {_best(every, setting)}" for setting in settings)
    evidence = (
        f"ECE with rising trace of the own loss {arrows(ece[TRAIN[1].key])}, with its λ_max "
        f"{arrows(ece[TRAIN[0].key])}, with the trace of cross-entropy {arrows(ece[TRAIN[3].key])}, "
        f"with its λ_max {arrows(ece[TRAIN[2].key])}. "
        f"What the own loss's trace goes with is over-confidence, sign included: {arrows(sure)}."
        f"{_less_sure(every, settings)} Mean over-confidence of cross-entropy and of γ = 5, in percentage "
        f"points, and the γ with the lowest mean test ECE: {lowest}"
    )
    statement = "Lower curvature of {loss} goes with lower ECE"
    of_plain = f"λ_max {arrows(ece[TRAIN[2].key])}, trace {arrows(ece[TRAIN[3].key])}"
    for key, loss, (top, trace), said in (
        ("company", "the loss that is trained", TRAIN[:2], evidence),
        ("company-cross-entropy", "cross-entropy", TRAIN[2:], of_plain),
    ):
        yield _claim(key, statement.format(loss=loss), [*ece[top.key], *ece[trace.key]], 1, said)


def _less_sure(every: Runs, settings: Settings) -> str:
    sure = BY_KEY["before.overconfidence"].pick
    falls = signs(every, settings, sure)
    if {*falls} != {-1}:
        return f" With rising γ it goes {arrows(falls)}."
    distance = signs(every, settings, lambda run: abs(sure(run) or 0.0), ECE)
    return (
        " Focal loss makes networks less sure in every setting. With rising distance of mean confidence from "
        f"accuracy, on either side of it, ECE goes {arrows(distance)}."
    )


def _best(every: Runs, setting: Setting) -> str:
    runs = runs_of(every, setting.key, "focal")
    sure, means = BY_KEY["before.overconfidence"].pick, dict[float, float]()
    for gamma in sorted({run["gamma"] for run in runs}):
        means[gamma] = mean_of(values_of([run for run in runs if run["gamma"] == gamma], ECE)).value
    ends = [
        f"{100 * mean_of(found).value:+.1f}".replace("-", "−")
        for gamma in (0.0, 5.0)
        if (found := values_of([run for run in runs if run["gamma"] == gamma], sure))
    ]
    return f"{' and '.join(ends)}, γ = {min(means, key=lambda gamma: means[gamma]):g}"


def _same_gamma(every: Runs, settings: Settings) -> Claim:
    found = {each.key: signs(every, settings, each.pick, ECE, within=True) for each in TRAIN}
    every_sign = [sign for each in found.values() for sign in each]
    marks = "; ".join(f"{each.title} {arrows(found[each.key])}" for each in TRAIN)
    statement = "Among networks trained with the same γ the flatter one is better calibrated"
    return _claim("same-gamma", statement, every_sign, 1, f"ECE with rising {marks}", source=NOT_CLAIMED)


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
    found = signs(every, settings, own, ece)
    return _claim("after-temperature", statement, found, 1, evidence, source=NOT_CLAIMED)


def _penalty(every: Runs, settings: Settings, family: str, statement: str, source: str) -> list[Claim]:
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
        f"in percentage points: {'; '.join(told) or 'nowhere'}"
    )
    return [_claim(f"penalty-{family}", statement, ece, -1, evidence, source=source)]


def _against_plain(every: Runs, setting: Setting, runs: Runs) -> dict[str, Mean]:
    """Paired differences, of the trace as a logarithm."""
    baseline = [run for run in runs_of(every, setting.key, "focal") if run["gamma"] == 0]
    found = {
        "trace": difference(runs, baseline, TRAIN[3].pick, ratio=True),
        "ece": difference(runs, baseline, ECE),
        "after": difference(runs, baseline, BY_KEY["after.ece"].pick),
        "error": difference(runs, baseline, BY_KEY["before.error"].pick),
    }
    return {name: each for name, each in found.items() if each is not None}


def _sign(found: Mean | None) -> int:
    return 0 if found is None else (found.low > 0) - (found.high < 0)


def _points(found: Mean) -> str:
    half = "" if found.half_width is None else f" ± {100 * found.half_width:.1f}"
    return f"{100 * found.value:+.1f}{half}".replace("-", "−")
