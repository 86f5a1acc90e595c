"""What the papers claim of the losses, held against the runs of the study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from calibrant.experiments.arms import ArmRuns, Pick, Run, difference, shared
from calibrant.experiments.claims import (
    NOT_CLAIMED,
    OWN,
    PRACTICE,
    Claim,
    above,
    all_of,
    at_no_cost,
    below,
    within,
)
from calibrant.experiments.means import Mean, plus_minus, standard_errors
from calibrant.experiments.studies.losses.numbers import TITLES, arms_of
from calibrant.experiments.studies.losses.settings import (
    BY_LIKELIHOOD,
    DEPARTURES,
    DROP,
    FCL,
    KULL,
    MUKHOTI,
)

Arms: TypeAlias = Mapping[str, ArmRuns]

NEAR_ONE = (0.9, 1.1)
MOST_ERROR = 0.005
"""What may be lost for an accuracy to count as kept, if the loss is within noise: half a percentage point."""
WITHOUT_UNIT = {"nll", "temperature", "norm"}
_PRINTED = {"ece": "ECE", "adaptive_ece": "AdaECE", "nll": "NLL"}
"""What the papers' tables call the metrics by which exponents are compared."""
GRID_STEP = 0.1
"""Of the temperatures that the papers choose by ECE."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which the arms of a setting are there."""
    found = asked({arm.key: arm for arm in arms_of(numbers)})
    return [
        replace(claim, departures=(*claim.departures, *DEPARTURES.get(claim.source, ()))) for claim in found
    ]


def asked(arms: Arms) -> list[Claim]:
    """What the papers claim of these arms, whatever they were trained on."""
    return [claim for test in _TESTS for claim in test(arms)]


def row_question(claim: Claim) -> tuple[str, str, Sequence[str]] | None:
    """What of a paper's own row answers a claim: metric and stage of its tables, and losses; None if nothing.

    Example:
        >>> claim = Claim(key="best-gamma-nll", source="", statement="", verdict="holds", evidence="")
        >>> row_question(claim)
        ('NLL', 'pre', ('focal-1', 'focal-2', 'focal-3'))
    """
    start, _, name = claim.key.rpartition("-")
    if start == "best-gamma" and name in _PRINTED:
        return _PRINTED[name], "pre", ("focal-1", "focal-2", "focal-3")
    if claim.key.startswith("flsd-"):
        metric = "NLL" if "-nll-" in claim.key else "ECE"
        return metric, "post" if "-temperature" in claim.key else "pre", claim.arms
    if claim.key.startswith("errs-fcl-"):
        return "error", "na", claim.arms
    if claim.key.startswith(("fcl-", "after-fcl-")):
        return "ECE", "post" if claim.key.startswith("after") else "pre", claim.arms
    return None


def shown(found: Mean, name: str, *, signed: bool = False) -> str:
    """The mean of a metric with its unit, if it has one.

    Example:
        >>> shown(Mean(value=0.031, half_width=0.002, n=3), "ece")
        '3.10 ± 0.20 %'
        >>> shown(Mean(value=0.5, half_width=None, n=1), "nll")
        '0.500'
    """
    if name in WITHOUT_UNIT:
        return plus_minus(found, 3, signed=signed)
    return f"{plus_minus(found, 2, 100, signed=signed)} %"


@dataclass(frozen=True)
class _Below:
    """The claim that a metric of one arm lies below another's, by the interval of their paired difference."""

    key: str
    source: str
    statement: str
    """May name the two arms and the metric in braces."""
    first: str
    second: str
    stage: str
    name: str
    pick: Pick | None = None
    """Picks what is no metric of a stage from a run."""

    def __call__(self, arms: Arms) -> Iterator[Claim]:
        if self.first not in arms or self.second not in arms:
            return
        first, second = arms[self.first], arms[self.second]
        pick = self.pick or _metric(self.stage, self.name)
        found = difference(first, second, pick)
        if found is None:
            return
        values = "; ".join(
            f"{arm.title}: {shown(arm.mean(pick), self.name)}" for arm in shared(first, second)
        )
        yield Claim(
            key=self.key,
            source=self.source,
            statement=self.statement.format(first=first.title, second=second.title, metric=_said(self.name)),
            verdict=below(found),
            evidence=f"{values}; difference {shown(found, self.name, signed=True)}, n = {found.n}",
            arms=(self.first, self.second),
        )


def _metric(stage: str, name: str) -> Pick:
    return lambda run: run["stages"][stage][name]


def _said(name: str) -> str:
    """A metric's name within a sentence."""
    title = TITLES.get(name, name)
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def _overconfident(arms: Arms) -> Iterator[Claim]:
    if "cross-entropy" in arms:
        found = arms["cross-entropy"].parameter("temperature")
        yield Claim(
            key="over-confident",
            source=MUKHOTI,
            statement="Cross-entropy ends over-confident: its temperature is above 1",
            verdict=above(found, 1.0),
            evidence=f"T = {shown(found, 'temperature')}, n = {found.n}",
        )


def _same_error(arms: Arms) -> Iterator[Claim]:
    """The claim that calibration comes at no cost in error."""
    for key in ("focal-3", "sample-focal"):
        if key not in arms or "cross-entropy" not in arms:
            continue
        found = difference(arms[key], arms["cross-entropy"], _metric("before", "error"))
        if found is not None:
            title = arms[key].title
            yield Claim(
                key=f"no-cost-{key}",
                source=MUKHOTI,
                statement=f"{title[:1].upper()}{title[1:]} costs no accuracy (not beyond noise, and less "
                "than half a percentage point)",
                verdict=at_no_cost(found, MOST_ERROR),
                evidence=f"error less cross-entropy's {shown(found, 'error', signed=True)}, n = {found.n}",
            )


def _best_gamma(arms: Arms) -> Iterator[Claim]:
    """Whether an exponent of 3 is the best of 1, 2 and 3, by several metrics."""
    keys = ("focal-1", "focal-2", "focal-3")
    if not all(key in arms for key in keys):
        return
    tried = shared(*(arms[key] for key in keys))
    for name in ("ece", "adaptive_ece", "smce", "nll"):
        pick = _metric("before", name)
        found = [difference(tried[-1], arm, pick) for arm in tried[:-1]]
        if any(each is None for each in found):
            return
        values = "; ".join(f"γ = {arm.key[-1]}: {shown(arm.mean(pick), name)}" for arm in tried)
        yield Claim(
            key=f"best-gamma-{name}",
            source=MUKHOTI,
            statement=f"γ = 3 has the lowest {_said(name)} of γ = 1, 2, 3, before temperature scaling",
            verdict=all_of(below(each) for each in found if each is not None),
            evidence=f"{values}; n = {min(each.n for each in found if each is not None)}",
        )


def on_grid(found: Mean) -> Mean:
    """A mean of temperatures of a grid: equal ones are known no better than rounding allows.

    The standard deviation is taken to be at least that of a number rounded to the grid's steps of 0.1.

    Example:
        >>> on_grid(Mean(value=0.8, half_width=0.0, n=3)).half_width > 0.07
        True
    """
    if found.half_width is None:
        return found
    least = standard_errors(found.n) * GRID_STEP / math.sqrt(12 * found.n)
    return replace(found, half_width=max(found.half_width, least))


def _temperatures(arms: Arms) -> Iterator[Claim]:
    """Whether the temperature after the focal losses is near 1, as the papers choose it: by ECE on a grid."""
    for key, source in (("focal-3", MUKHOTI), ("sample-focal", MUKHOTI), ("focal-calibration", FCL)):
        if key not in arms:
            continue
        papers = on_grid(arms[key].parameter("ece_temperature"))
        likely = arms[key].parameter("temperature")
        low, high = NEAR_ONE
        by_ece, by_likelihood = (shown(each, "temperature") for each in (papers, likely))
        yield Claim(
            key=f"temperature-{key}",
            source=source,
            statement=f"After {arms[key].title} the temperature that minimises ECE is near 1 "
            f"({low:g} to {high:g})",
            verdict=within(papers, low=low - 1e-9, high=high + 1e-9),
            evidence=f"T by ECE {by_ece}; T by likelihood {by_likelihood}; n = {papers.n}",
        )


def early_norm(run: Run) -> float:
    """Mean norm of the last layer's weights after the epochs before the first drop of the rate.

    Example:
        >>> early_norm({"norms": {"1": 1.0, "9": 3.0, "10": 8.0}})
        2.0
    """
    found = [norm for epoch, norm in run["norms"].items() if int(epoch) <= DROP]
    return sum(found) / len(found)


def last_norm(run: Run) -> float:
    """The norm after the last epoch."""
    return run["norms"][max(run["norms"], key=int)]


def _norms(arms: Arms) -> Iterator[Claim]:
    """Whether focal loss's weight norm is the larger one before the rate drops, the smaller in the end."""
    if all(run["norms"] for key in (_CE, "focal-3") if key in arms for run in arms[key].runs.values()):
        for test in _NORMS:
            yield from test(arms)


def _focal_temperature(arms: Arms) -> Iterator[Claim]:
    """Whether focal temperature scaling beats temperature scaling, both fitted by likelihood."""
    for key in ("cross-entropy", "focal-3"):
        if key not in arms:
            continue
        arm = arms[key]
        for name in ("nll", "ece"):
            focal, plain = (_metric(stage, name) for stage in ("focal-temperature", "temperature"))
            gain = arm.mean(lambda run, focal=focal, plain=plain: focal(run) - plain(run))
            relative = gain.value / arm.mean(plain).value
            yield Claim(
                key=f"focal-temperature-{key}-{name}",
                source=KULL if name == "ece" else NOT_CLAIMED,
                statement=f"After {arm.title}, focal temperature scaling has a lower {_said(name)} than "
                "temperature scaling",
                verdict=below(gain),
                evidence=f"difference {shown(gain, name, signed=True)} ({100 * relative:+.1f} % of it), "
                f"n = {gain.n}",
                departures=(BY_LIKELIHOOD,) if name == "ece" else (),
            )


def _weights(key: str) -> Iterator[_Below]:
    """What class weights do where classes are imbalanced."""
    weighted = f"{key}-alpha"
    yield _Below(
        f"weights-recall-{key}",
        PRACTICE,
        "Class weights raise the recall of the three rarest classes ({first})",
        key,
        weighted,
        "before",
        "recall",
        lambda run: sum(run["classes"]["before"]["recall"][-3:]) / 3,
    )
    lower = "Class weights lower the {metric} on the balanced test set ({second})"
    for name in ("error", "ece"):
        yield _Below(f"weights-{name}-{key}", PRACTICE, lower, weighted, key, "before", name)


_CE, _FLSD = "cross-entropy", "sample-focal"
_OTHERS = (_CE, "focal-3", _FLSD, "dual-focal", "brier", "label-smoothing", "mmce-published")
_BEFORE, _AFTER = (
    f"FLSD-53 has a lower {{metric}} than cross-entropy {when} temperature scaling"
    for when in ("before", "also after")
)
_FCL_LOWER = "Focal calibration loss has a lower ECE than {second}, before temperature scaling"
_FCL_AFTER = "Focal calibration loss has a lower ECE than {second}, also after temperature scaling"
_FCL_ERRS = "Focal calibration loss errs less than {second}"
_LOWER = "FLSD-53 has a lower ECE than {second},"
_DECAY = "Weight decay lowers cross-entropy's ECE"
_NORM = "the norm of the last layer's weights is lower under"
_NORMS = (
    _Below(
        "norms-first",
        MUKHOTI,
        f"Over the epochs before the rate drops {_NORM} cross-entropy than focal loss (γ = 3)",
        _CE,
        "focal-3",
        "before",
        "norm",
        early_norm,
    ),
    _Below(
        "norms-last",
        MUKHOTI,
        f"After the last epoch {_NORM} focal loss (γ = 3) than cross-entropy",
        "focal-3",
        _CE,
        "before",
        "norm",
        last_norm,
    ),
)
_SMOOTHING = "label-smoothing"
_SMOOTHER_ERRS = "Label smoothing errs less than cross-entropy"
_SMOOTHER_NLL = "Label smoothing has a lower NLL than cross-entropy, after temperature scaling"
_SURER = "After temperature scaling FLSD-53 leaves more samples above 0.99 than cross-entropy"

_TESTS: tuple[Callable[[Arms], Iterator[Claim]], ...] = (
    _overconfident,
    _Below("weight-decay", MUKHOTI, _DECAY, _CE, "cross-entropy-no-decay", "before", "ece"),
    _Below("flsd-ece-before", MUKHOTI, _BEFORE, _FLSD, _CE, "before", "ece"),
    _Below("flsd-ece-temperature", MUKHOTI, _AFTER, _FLSD, _CE, "temperature", "ece"),
    _Below("flsd-nll-before", MUKHOTI, _BEFORE, _FLSD, _CE, "before", "nll"),
    _Below("flsd-nll-temperature", MUKHOTI, _AFTER, _FLSD, _CE, "temperature", "nll"),
    *(
        _Below(f"flsd-{stage}-against-{key}", MUKHOTI, f"{_LOWER} {when} scaling", _FLSD, key, stage, "ece")
        for key in ("brier", "mmce-published")
        for stage, when in (("before", "before temperature"), ("temperature", "also after temperature"))
    ),
    _same_error,
    _best_gamma,
    _temperatures,
    # Claimed larger, so cross-entropy's is claimed to lie below.
    _Below("confident-share", MUKHOTI, _SURER, _CE, _FLSD, "temperature", "share_above_99"),
    _norms,
    *(_Below(f"fcl-{key}", FCL, _FCL_LOWER, "focal-calibration", key, "before", "ece") for key in _OTHERS),
    *(
        _Below(f"after-fcl-{key}", FCL, _FCL_AFTER, "focal-calibration", key, "temperature", "ece")
        for key in _OTHERS
    ),
    *(
        _Below(f"errs-fcl-{key}", FCL, _FCL_ERRS, "focal-calibration", key, "before", "error")
        for key in _OTHERS
    ),
    _focal_temperature,
    _Below("smoothing-error", OWN, _SMOOTHER_ERRS, _SMOOTHING, _CE, "before", "error"),
    _Below("smoothing-nll-temperature", OWN, _SMOOTHER_NLL, _SMOOTHING, _CE, "temperature", "nll"),
    *_weights("cross-entropy"),
    *_weights("focal-3"),
)
