"""What the papers claim of the losses, held against the runs of the study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from calibrant.experiments.claims import Claim, Verdict, above, all_of, below
from calibrant.experiments.means import Mean, plus_minus
from calibrant.experiments.studies.losses.numbers import ArmRuns, Pick, Run, arms_of, difference

Arms: TypeAlias = Mapping[str, ArmRuns]

MUKHOTI = "Mukhoti et al. (2020)"
FCL = "focal calibration loss (2025)"
KULL = "Komisarenko and Kull (2024)"
PRACTICE = "common practice"
NEAR_ONE = (0.9, 1.1)
MOST_ERROR = 0.005
"""What may be lost for an accuracy to count as kept."""


def claims(numbers: Mapping[str, Any]) -> list[Claim]:
    """Every claim for which the arms of a setting are there."""
    arms = {arm.key: arm for arm in arms_of(numbers)}
    return [claim for test in _TESTS for claim in test(arms)]


def metric(stage: str, name: str) -> Pick:
    """Picks a metric of one stage from a run."""
    return lambda run: run["stages"][stage][name]


def _is_below(
    arms: Arms, first: str, second: str, pick: Pick, *, key: str, source: str, statement: str, unit: str
) -> Iterator[Claim]:
    """The claim that an arm's value lies below another's, by the interval of their paired difference."""
    if first not in arms or second not in arms:
        return
    found = difference(arms[first], arms[second], pick)
    if found is None:
        return
    evidence = (
        f"{arms[first].title}: {shown(arms[first].mean(pick), unit)}; "
        f"{arms[second].title}: {shown(arms[second].mean(pick), unit)}; "
        f"difference {shown(found, unit, signed=True)}, n = {found.n}"
    )
    yield Claim(
        key=key,
        source=source,
        statement=statement,
        verdict=below(found),
        evidence=evidence,
        arms=(first, second),
    )


def shown(found: Mean, unit: str, *, signed: bool = False) -> str:
    """``3.1 ± 0.2 %``.

    Example:
        >>> shown(Mean(value=0.031, half_width=0.002, n=3), "%")
        '3.10 ± 0.20 %'
        >>> shown(Mean(value=0.5, half_width=None, n=1), "")
        '0.500'
    """
    scale, digits = (100.0, 2) if unit == "%" else (1.0, 3)
    return f"{plus_minus(found, digits, scale, signed=signed)} {unit}".rstrip()


def _overconfident(arms: Arms) -> Iterator[Claim]:
    if "cross-entropy" not in arms:
        return
    found = arms["cross-entropy"].parameter("temperature")
    yield Claim(
        key="over-confident",
        source=MUKHOTI,
        statement="Cross-entropy ends over-confident: its temperature is above 1",
        verdict=above(found, 1.0),
        evidence=f"T = {shown(found, '')}, n = {found.n}",
    )
    yield from _is_below(
        arms,
        "cross-entropy",
        "cross-entropy-no-decay",
        metric("before", "ece"),
        key="weight-decay",
        source=MUKHOTI,
        statement="Weight decay lowers cross-entropy's ECE",
        unit="%",
    )


def _focal(arms: Arms) -> Iterator[Claim]:
    pairs = (
        ("before", "ece", "before temperature scaling", "%"),
        ("temperature", "ece", "also after temperature scaling", "%"),
        ("before", "nll", "before temperature scaling", ""),
        ("temperature", "nll", "also after temperature scaling", ""),
    )
    for stage, name, when, unit in pairs:
        yield from _is_below(
            arms,
            "sample-focal",
            "cross-entropy",
            metric(stage, name),
            key=f"flsd-{name}-{stage}",
            source=MUKHOTI,
            statement=f"FLSD-53 has a lower {_name(name)} than cross-entropy {when}",
            unit=unit,
        )
    for key in ("focal-3", "sample-focal"):
        yield from _same_error(arms, key)


def _same_error(arms: Arms, key: str) -> Iterator[Claim]:
    """The claim that calibration comes at no cost in error."""
    if key not in arms or "cross-entropy" not in arms:
        return
    found = difference(arms[key], arms["cross-entropy"], metric("before", "error"))
    if found is not None:
        title = arms[key].title
        yield Claim(
            key=f"no-cost-{key}",
            source=MUKHOTI,
            statement=f"{title[:1].upper()}{title[1:]} costs no accuracy (less than half a percentage point "
            "of error)",
            verdict=below(found, MOST_ERROR),
            evidence=f"error less cross-entropy's {shown(found, '%', signed=True)}, n = {found.n}",
        )


def _best_gamma(arms: Arms) -> Iterator[Claim]:
    """Whether an exponent of 3 is the best of 1, 2 and 3, by several metrics."""
    others = ("focal-1", "focal-2")
    if not all(key in arms for key in (*others, "focal-3")):
        return
    for name, unit in (("ece", "%"), ("adaptive_ece", "%"), ("smce", "%"), ("nll", "")):
        pick = metric("before", name)
        found = [difference(arms["focal-3"], arms[key], pick) for key in others]
        verdicts: list[Verdict] = [below(each) for each in found if each is not None]
        if len(verdicts) < len(others):
            return
        values = "; ".join(
            f"γ = {key[-1]}: {shown(arms[key].mean(pick), unit)}" for key in (*others, "focal-3")
        )
        yield Claim(
            key=f"best-gamma-{name}",
            source=MUKHOTI,
            statement=f"γ = 3 has the lowest {_name(name)} of γ = 1, 2, 3, before temperature scaling",
            verdict=all_of(verdicts),
            evidence=f"{values}; n = {len(arms['focal-3'].runs)}",
        )


def _temperatures(arms: Arms) -> Iterator[Claim]:
    """Whether the temperature after the focal losses is near 1, as the papers choose it: by ECE on a grid."""
    for key, source in (("focal-3", MUKHOTI), ("sample-focal", MUKHOTI), ("focal-calibration", FCL)):
        if key not in arms:
            continue
        papers, likely = arms[key].parameter("ece_temperature"), arms[key].parameter("temperature")
        low, high = NEAR_ONE
        near: Verdict = "holds" if low - 1e-9 <= papers.value <= high + 1e-9 else "does not hold"
        yield Claim(
            key=f"temperature-{key}",
            source=source,
            statement=f"After {arms[key].title} the temperature that minimises ECE is near 1 "
            f"({low:g} to {high:g})",
            verdict=near if papers.n > 1 else "undecided",
            evidence=f"T by ECE {shown(papers, '')}; T by likelihood {shown(likely, '')}; n = {papers.n}",
        )


def _confident_share(arms: Arms) -> Iterator[Claim]:
    """Claimed larger, so cross-entropy's is claimed to lie below."""
    yield from _is_below(
        arms,
        "cross-entropy",
        "sample-focal",
        metric("temperature", "share_above_99"),
        key="confident-share",
        source=MUKHOTI,
        statement="After temperature scaling FLSD-53 leaves more samples above 0.99 than cross-entropy",
        unit="%",
    )


def crossing(first: Run, second: Run) -> tuple[float, float, int | None]:
    """Difference of the last layer's norms (first less second) after the first and the last epoch of both.

    With them the first epoch from which it keeps the sign it ends with, if that is not the first.

    Example:
        >>> crossing({"norms": {"1": 1.0, "2": 3.0, "3": 4.0}}, {"norms": {"1": 2.0, "2": 2.0, "3": 2.0}})
        (-1.0, 2.0, 2)
    """
    epochs = sorted(int(epoch) for epoch in first["norms"] if epoch in second["norms"])
    gaps = [first["norms"][str(epoch)] - second["norms"][str(epoch)] for epoch in epochs]
    start = len(gaps) - 1
    while start > 0 and gaps[start - 1] * gaps[-1] > 0:
        start -= 1
    return gaps[0], gaps[-1], epochs[start] if start > 0 else None


def _norms(arms: Arms) -> Iterator[Claim]:
    """Whether cross-entropy's weight norm begins below the focal loss's and ends above it."""
    if "cross-entropy" not in arms or "focal-3" not in arms:
        return
    focal = arms["focal-3"].runs
    pairs = [
        crossing(run, focal[seed])
        for seed, run in arms["cross-entropy"].runs.items()
        if seed in focal and run["norms"]
    ]
    if not pairs:
        return
    crossed = [first < 0 < last for first, last, _ in pairs]
    verdict: Verdict = "holds" if all(crossed) else "undecided" if any(crossed) else "does not hold"
    ends = "; ".join(
        f"{first:+.3f} after the first epoch, {last:+.3f} after the last"
        + ("" if epoch is None else f", of one sign from epoch {epoch}")
        for first, last, epoch in pairs
    )
    yield Claim(
        key="norms-cross",
        source=MUKHOTI,
        statement="The norm of the last layer's weights is at first larger under focal loss (γ = 3), "
        "in the end larger under cross-entropy",
        verdict=verdict if len(pairs) > 1 else "undecided",
        evidence=f"cross-entropy's less focal's, seed by seed: {ends}; n = {len(pairs)}",
    )


def _fcl(arms: Arms) -> Iterator[Claim]:
    for other in ("focal-3", "sample-focal", "dual-focal", "brier", "label-smoothing", "mmce-published"):
        if other in arms:
            yield from _is_below(
                arms,
                "focal-calibration",
                other,
                metric("before", "ece"),
                key=f"fcl-{other}",
                source=FCL,
                statement=f"Focal calibration loss has a lower ECE than {arms[other].title}, "
                "before temperature scaling",
                unit="%",
            )


def _focal_temperature(arms: Arms) -> Iterator[Claim]:
    """Whether focal temperature scaling beats temperature scaling, both fitted by likelihood."""
    for key in ("cross-entropy", "focal-3"):
        if key not in arms:
            continue
        arm = arms[key]
        for name, unit in (("nll", ""), ("ece", "%")):
            gain = arm.mean(
                lambda run, name=name: (
                    run["stages"]["focal-temperature"][name] - run["stages"]["temperature"][name]
                )
            )
            relative = gain.value / arm.metric("temperature", name).value
            yield Claim(
                key=f"focal-temperature-{key}-{name}",
                source=KULL,
                statement=f"After {arm.title}, focal temperature scaling has a lower {_name(name)} than "
                "temperature scaling",
                verdict=below(gain),
                evidence=f"difference {shown(gain, unit, signed=True)} ({100 * relative:+.1f} % of it), "
                f"n = {gain.n}",
            )


def _weights(arms: Arms) -> Iterator[Claim]:
    """What class weights do where classes are imbalanced."""
    for key in ("cross-entropy", "focal-3"):
        weighted = f"{key}-alpha"
        if key not in arms or weighted not in arms:
            continue
        title = arms[key].title
        yield from _is_below(
            arms,
            key,
            weighted,
            lambda run: sum(run["classes"]["before"]["recall"][-3:]) / 3,
            key=f"weights-recall-{key}",
            source=PRACTICE,
            statement=f"Class weights raise the recall of the three rarest classes ({title})",
            unit="%",
        )
        for name, unit in (("error", "%"), ("ece", "%")):
            yield from _is_below(
                arms,
                weighted,
                key,
                metric("before", name),
                key=f"weights-{name}-{key}",
                source=PRACTICE,
                statement=f"Class weights lower the {_name(name)} on the balanced test set ({title})",
                unit=unit,
            )


def _name(key: str) -> str:
    return {"nll": "NLL", "ece": "ECE", "adaptive_ece": "adaptive ECE", "smce": "smCE"}.get(key, key)


_TESTS: tuple[Callable[[Arms], Iterator[Claim]], ...] = (
    _overconfident,
    _focal,
    _best_gamma,
    _temperatures,
    _confident_share,
    _norms,
    _fcl,
    _focal_temperature,
    _weights,
)
