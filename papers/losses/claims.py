"""What the papers claim of the losses, held against the runs of the study."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant._math.means import Mean, standard_errors
from papers.arms import Run, difference, shared
from papers.claims import (
    OWN,
    PRACTICE,
    Claim,
    above,
    all_of,
    below,
    within,
)
from papers.losses.comparisons import (
    Arms,
    Below,
    mean_over,
    metric_of,
    metric_words,
    shown,
)
from papers.losses.focal_temperature import focal_temperature
from papers.losses.left_open import by_design, of_long_tail
from papers.losses.numbers import BY_ADAPTIVE_ECE, BY_ECE, arms_of
from papers.losses.settings import (
    DEPARTURES,
    DROP,
    FCL,
    GROUPS,
    GUO,
    LONG_TAIL,
    MUKHOTI,
    OF_GROUPS,
)

NEAR_ONE = (0.9, 1.1)
MOST_ERROR = 0.005
"""What may be lost for an accuracy to count as kept: half a percentage point."""
_PRINTED = {
    "ece": "ECE",
    "adaptive_ece": "AdaECE",
    "classwise_ece": "classwise-ECE",
    "smce": "smCE",
    "nll": "NLL",
}
"""What the papers' tables call the metrics by which losses are compared."""
_FCL_METRICS = ("ece", "adaptive_ece", "classwise_ece", "smce")
"""The errors of calibration that the paper on focal calibration loss speaks of."""
OF_IMAGES = "above-99-"
"""How keys begin of claims that the papers make of images only."""
GRID_STEP = 0.1
"""Of the temperatures that the papers choose by ECE."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which the arms of a setting are there."""
    found = [
        replace(claim, departures=(*claim.departures, *DEPARTURES.get(claim.source, ())))
        for claim in asked({arm.key: arm for arm in arms_of(numbers)})
    ]
    found = [by_design(claim) for claim in found]
    return [of_long_tail(claim) for claim in found] if numbers.get("setting") == LONG_TAIL.key else found


def at_the_kept_epoch(claim: Claim) -> str:
    """The statement, of runs that are judged at their best epoch, not at their last one."""
    return claim.statement.replace("ends over-confident", "is over-confident at the epoch that is kept")


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
    if claim.key.startswith("temperature-"):
        return "T", "post", (claim.key.removeprefix("temperature-"),)
    metric = next((_PRINTED[each] for each in _PRINTED if f"-{each}-" in claim.key), "ECE")
    # Not flsd-nll-temperature: its T is by likelihood, theirs by ECE.
    if claim.key.startswith(("flsd-", "schedule-", "competitive-")) and claim.key != "flsd-nll-temperature":
        return metric, "post" if "-temperature" in claim.key else "pre", claim.arms
    if claim.key.startswith("no-cost-"):
        return "error", "na", (claim.key.removeprefix("no-cost-"), "cross-entropy")
    if claim.key.startswith("errs-fcl-"):
        return "error", "na", claim.arms
    if claim.key.startswith(("fcl-", "after-fcl-")):
        return metric, "post" if claim.key.startswith("after") else "pre", claim.arms
    return None


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
    """The claim that calibration comes at no cost in error.

    The paper finds errors "almost the same", so that a cost below the margin is none. Whether it is one
    beyond noise is said beside it.
    """
    for key in ("focal-3", "sample-focal"):
        if key not in arms or "cross-entropy" not in arms:
            continue
        pick = metric_of("before", "error")
        first, second = shared(arms[key], arms["cross-entropy"])
        found = difference(first, second, pick)
        if found is not None:
            title = first.title
            higher = sum(pick(run) > pick(second.runs[seed]) for seed, run in first.runs.items())
            noise = "within" if found.low <= 0 <= found.high else "beyond"
            yield Claim(
                key=f"no-cost-{key}",
                source=MUKHOTI,
                statement=f"{title[:1].upper()}{title[1:]} costs no accuracy (less than half a percentage "
                "point)",
                verdict=below(found, MOST_ERROR),
                evidence=f"error less cross-entropy's {shown(found, 'error', signed=True)}, n = {found.n} "
                f"(higher in {higher} of {found.n} seeds, {noise} noise)",
            )


def _best_gamma(arms: Arms) -> Iterator[Claim]:
    """Whether an exponent of 3 is the best of 1, 2 and 3, by several metrics."""
    keys = ("focal-1", "focal-2", "focal-3")
    if not all(key in arms for key in keys):
        return
    tried = shared(*(arms[key] for key in keys))
    for name in ("ece", "adaptive_ece", "smce", "nll"):
        pick = metric_of("before", name)
        found = [difference(tried[-1], arm, pick) for arm in tried[:-1]]
        if any(each is None for each in found):
            return
        values = "; ".join(f"γ = {arm.key[-1]}: {shown(arm.mean(pick), name)}" for arm in tried)
        yield Claim(
            key=f"best-gamma-{name}",
            source=MUKHOTI if name in {"ece", "adaptive_ece"} else OWN,
            statement=f"γ = 3 has the lowest {metric_words(name)} of γ = 1, 2, 3, before temperature scaling",
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
    mostly = ", as it mostly is in the paper"
    for key, source, more in (
        ("focal-3", MUKHOTI, mostly),
        ("sample-focal", MUKHOTI, mostly),
        ("focal-calibration", FCL, ""),
    ):
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
            f"({low:g} to {high:g}{more})",
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


def _weights(key: str) -> Iterator[Below]:
    """What class weights do where classes are imbalanced."""
    weighted = f"{key}-alpha"
    for group, part in GROUPS.items():
        raised = group != "frequent"
        yield Below(
            f"weights-recall-{group}-{key}",
            PRACTICE if raised else OWN,
            f"Class weights {'raise' if raised else 'lower'} the recall of {OF_GROUPS[group]} ({{second}})",
            weighted,
            key,
            "before",
            "recall",
            mean_over("before", "recall", part),
            above=raised,
        )
    lower = "Class weights lower the {metric} on the balanced test set ({second})"
    for name in ("error", "ece"):
        yield Below(f"weights-{name}-{key}", PRACTICE, lower, weighted, key, "before", name)
    after = "Class weights lower the {metric}, {when} ({second})"
    yield Below(f"weights-classwise-{key}", OWN, after, weighted, key, "temperature", "classwise_ece")


_CE, _FLSD, _FCL, _MMCE = "cross-entropy", "sample-focal", "focal-calibration", "mmce-published"
_OTHERS = (_CE, "focal-3", _FLSD, "dual-focal", "brier", "label-smoothing", _MMCE)


def _flsd() -> Iterator[Below]:
    """The baselines of Mukhoti et al., by both errors, each after the temperature that it chooses."""
    for name, repaired in (("ece", BY_ECE), ("adaptive_ece", BY_ADAPTIVE_ECE)):
        for other in (_CE, "brier", _MMCE):
            for stage, when in (("before", "before"), (repaired, "temperature")):
                start = "flsd-" if name == "ece" and other != _CE else f"flsd-{name}-"
                end = "" if other == _CE else f"-against-{other}"
                yield Below(f"{start}{when}{end}", MUKHOTI, _FLSD_LOWER, _FLSD, other, stage, name)


def _policies() -> Iterator[Below]:
    """Which exponents of either kind Mukhoti et al. found the better ones, by both errors."""
    for kind, first, second in (
        ("flsd-532", _FLSD, "sample-focal-532"),
        ("schedule", "scheduled-532", "scheduled-531"),
    ):
        lower = _FLSD_LOWER if first == _FLSD else _SCHEDULE_LOWER
        for name, repaired in (("ece", BY_ECE), ("adaptive_ece", BY_ADAPTIVE_ECE)):
            for stage, when in (("before", "before"), (repaired, "temperature")):
                yield Below(f"{kind}-{name}-{when}", MUKHOTI, lower, first, second, stage, name)


def _fcl() -> Iterator[Below]:
    """The baselines of the paper on focal calibration loss, by its four errors and by error.

    After temperature scaling its text names Brier score, MMCE, label smoothing and focal loss, of the others
    only its tables speak. It holds focal loss with one exponent against FCL by all errors but smCE.
    """
    for start, stage in (("fcl", "before"), ("after-fcl", BY_ECE)):
        for name in _FCL_METRICS:
            for other in _OTHERS:
                key = f"{start}-{other}" if name == "ece" else f"{start}-{name}-{other}"
                source = OWN if (other, name) == ("focal-3", "smce") else FCL
                said = f"(tables only) {_FCL_LOWER}" if (other, stage) in _TABLES_ONLY else _FCL_LOWER
                yield Below(key, source, said, _FCL, other, stage, name)
    for other in _OTHERS:
        source = OWN if other == "focal-3" else FCL  # its table of test errors has no single exponent
        yield Below(f"errs-fcl-{other}", source, _FCL_ERRS, _FCL, other, "before", "error")


_FOCAL_LOWER = "Focal loss (γ = 3) has a lower {metric} than {second}, {when}"
_TABLES_ONLY = {(_CE, BY_ECE), ("dual-focal", BY_ECE)}
"""What the paper on focal calibration loss says in its tables, but not in its text."""
_FLSD_LOWER = "FLSD-53 has a lower {metric} than {second}, {when}"
_SCHEDULE_LOWER = "Scheduled focal loss has a lower {metric} with γ = 5, 3, 2 than with 5, 3, 1, {when}"
_FCL_LOWER = "Focal calibration loss has a lower {metric} than {second}, {when}"
_FCL_ERRS = "Focal calibration loss errs less than {second}"
_DECAY = "Weight decay lowers cross-entropy's ECE"
_NORM = "the norm of the last layer's weights is lower under"
_NORMS = (
    Below(
        "norms-first",
        MUKHOTI,
        f"Over the epochs before the rate drops {_NORM} cross-entropy than focal loss (γ = 3)",
        _CE,
        "focal-3",
        "before",
        "norm",
        early_norm,
    ),
    Below(
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
_SMOOTHER_NLL = "Label smoothing has a lower NLL than cross-entropy, {when}"
_SURE = "FLSD-53 has {more} samples above 0.99 than {{second}}, {{when}}"
_SURER, _LESS_SURE = (_SURE.format(more=more) for more in ("more", "fewer"))

_TESTS: tuple[Callable[[Arms], Iterator[Claim]], ...] = (
    _overconfident,
    Below("weight-decay", GUO, _DECAY, _CE, "cross-entropy-no-decay", "before", "ece"),
    *_flsd(),
    *_policies(),
    Below(
        "competitive-adaptive_ece-temperature",
        MUKHOTI,
        _FOCAL_LOWER,
        "focal-3",
        _CE,
        BY_ADAPTIVE_ECE,
        "adaptive_ece",
    ),
    Below("flsd-nll-before", OWN, _FLSD_LOWER, _FLSD, _CE, "before", "nll"),
    Below("flsd-nll-temperature", OWN, _FLSD_LOWER, _FLSD, _CE, "temperature", "nll"),
    _same_error,
    _best_gamma,
    _temperatures,
    *(
        Below(f"above-99-before-{key}", MUKHOTI, _LESS_SURE, _FLSD, key, "before", "share_above_99")
        for key in (_CE, _MMCE)
    ),
    Below("above-99-after-cross-entropy", MUKHOTI, _SURER, _FLSD, _CE, BY_ECE, "share_above_99", above=True),
    Below(f"above-99-after-{_MMCE}", MUKHOTI, _SURER, _FLSD, _MMCE, BY_ECE, "share_above_99", above=True),
    _norms,
    *_fcl(),
    *(
        Below(f"likelihood-{key}", OWN, lower, key, _CE, "temperature", "ece")
        for key, lower in ((_FLSD, _FLSD_LOWER), (_FCL, _FCL_LOWER))
    ),
    focal_temperature,
    Below("smoothing-error", OWN, _SMOOTHER_ERRS, _SMOOTHING, _CE, "before", "error"),
    Below("smoothing-nll-temperature", OWN, _SMOOTHER_NLL, _SMOOTHING, _CE, "temperature", "nll"),
    *_weights("cross-entropy"),
    *_weights("focal-3"),
)
