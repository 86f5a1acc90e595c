"""What the papers claim of the losses, held against the runs of the study; every verdict is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from calibrant.experiments.means import Mean
from calibrant.experiments.studies.loss_study_numbers import ArmNumbers, Numbers, difference

Verdict: TypeAlias = Literal["held", "did not hold", "undecided"]
Pick: TypeAlias = Callable[[Numbers], float]
Arms: TypeAlias = Mapping[str, ArmNumbers]

MUKHOTI = "Mukhoti et al. (2020)"
FCL = "focal calibration loss (2025)"
KULL = "Komisarenko and Kull (2024)"
PRACTICE = "common practice"
NEAR_ONE = (0.9, 1.1)
MOST_ERROR = 0.005
"""What may be lost for an accuracy to count as kept."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, whether it held here, and the numbers that say so."""

    source: str
    statement: str
    verdict: Verdict
    evidence: str


def claims(numbers: Sequence[ArmNumbers]) -> list[Claim]:
    """Every claim for which the arms of a setting are there."""
    arms = {each.arm.key: each for each in numbers}
    return [claim for test in _TESTS for claim in test(arms)]


def metric(stage: str, name: str) -> Pick:
    """Picks a metric of one stage from a run."""
    return lambda run: run["stages"][stage][name]


def _is_below(
    arms: Arms, first: str, second: str, pick: Pick, *, source: str, statement: str, unit: str
) -> Iterator[Claim]:
    """The claim that an arm's value lies below another's, by the interval of their paired difference."""
    if first not in arms or second not in arms:
        return
    found = difference(arms[first], arms[second], pick)
    if found is None:
        return
    evidence = (
        f"{arms[first].arm.title}: {shown(arms[first].mean(pick), unit)}; "
        f"{arms[second].arm.title}: {shown(arms[second].mean(pick), unit)}; "
        f"difference {shown(found, unit, signed=True)}, n = {found.n}"
    )
    yield Claim(source=source, statement=statement, verdict=_sign(found), evidence=evidence)


def _sign(found: Mean) -> Verdict:
    """Whether a difference that was claimed to be negative is so, by its interval."""
    if found.high < 0:
        return "held"
    return "did not hold" if found.low > 0 else "undecided"


def shown(found: Mean, unit: str, *, signed: bool = False) -> str:
    """``3.1 ± 0.2 %``.

    Example:
        >>> shown(Mean(value=0.031, half_width=0.002, n=3), "%")
        '3.10 ± 0.20 %'
        >>> shown(Mean(value=0.5, half_width=None, n=1), "")
        '0.500'
    """
    scale, digits = (100.0, 2) if unit == "%" else (1.0, 3)
    sign = "+" if signed else ""
    text = f"{found.value * scale:{sign}.{digits}f}"
    if found.half_width is not None:
        text += f" ± {found.half_width * scale:.{digits}f}"
    return f"{text} {unit}".rstrip()


def _overconfident(arms: Arms) -> Iterator[Claim]:
    if "cross-entropy" not in arms:
        return
    found = arms["cross-entropy"].parameter("temperature")
    verdict: Verdict = "held" if found.low > 1 else "did not hold" if found.high < 1 else "undecided"
    yield Claim(
        source=MUKHOTI,
        statement="Cross-entropy ends over-confident: its temperature is above 1.",
        verdict=verdict,
        evidence=f"T = {shown(found, '')}, n = {found.n}",
    )
    yield from _is_below(
        arms,
        "cross-entropy",
        "cross-entropy-no-decay",
        metric("before", "ece"),
        source=MUKHOTI,
        statement="Weight decay lowers cross-entropy's ECE.",
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
            source=MUKHOTI,
            statement=f"FLSD-53 has a lower {_name(name)} than cross-entropy {when}.",
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
        verdict: Verdict = "undecided"
        if found.high < MOST_ERROR or found.low > MOST_ERROR:
            verdict = "held" if found.high < MOST_ERROR else "did not hold"
        yield Claim(
            source=MUKHOTI,
            statement=f"{arms[key].arm.title[:1].upper()}{arms[key].arm.title[1:]} costs no accuracy "
            "(less than half a percentage point of error).",
            verdict=verdict,
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
        verdicts = [_sign(each) for each in found if each is not None]
        if len(verdicts) < len(others):
            return
        verdict: Verdict = "undecided"
        if "did not hold" in verdicts:
            verdict = "did not hold"
        elif all(each == "held" for each in verdicts):
            verdict = "held"
        values = "; ".join(
            f"γ = {key[-1]}: {shown(arms[key].mean(pick), unit)}" for key in (*others, "focal-3")
        )
        yield Claim(
            source=MUKHOTI,
            statement=f"γ = 3 has the lowest {_name(name)} of γ = 1, 2, 3, before temperature scaling.",
            verdict=verdict,
            evidence=f"{values}; n = {len(arms['focal-3'].runs)}",
        )


def _temperatures(arms: Arms) -> Iterator[Claim]:
    """Whether the temperature after the focal losses is near 1, as the papers choose it: by ECE on a grid."""
    for key, source in (("focal-3", MUKHOTI), ("sample-focal", MUKHOTI), ("focal-calibration", FCL)):
        if key not in arms:
            continue
        papers, likely = arms[key].parameter("ece_temperature"), arms[key].parameter("temperature")
        low, high = NEAR_ONE
        near: Verdict = "held" if low - 1e-9 <= papers.value <= high + 1e-9 else "did not hold"
        yield Claim(
            source=source,
            statement=f"After {arms[key].arm.title} the temperature that minimises ECE is near 1 "
            f"({low:g} to {high:g}).",
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
        source=MUKHOTI,
        statement="After temperature scaling FLSD-53 leaves more samples above 0.99 than cross-entropy.",
        unit="%",
    )


def crossing(first: Numbers, second: Numbers) -> tuple[float, float, int | None]:
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
    verdict: Verdict = "held" if all(crossed) else "undecided" if any(crossed) else "did not hold"
    ends = "; ".join(
        f"{first:+.3f} after the first epoch, {last:+.3f} after the last"
        + ("" if epoch is None else f", of one sign from epoch {epoch}")
        for first, last, epoch in pairs
    )
    yield Claim(
        source=MUKHOTI,
        statement="The norm of the last layer's weights is at first larger under focal loss (γ = 3), "
        "in the end larger under cross-entropy.",
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
                source=FCL,
                statement=f"Focal calibration loss has a lower ECE than {arms[other].arm.title}, "
                "before temperature scaling.",
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
                source=KULL,
                statement=f"After {arm.arm.title}, focal temperature scaling has a lower {_name(name)} than "
                "temperature scaling.",
                verdict=_sign(gain),
                evidence=f"difference {shown(gain, unit, signed=True)} ({100 * relative:+.1f} % of it), "
                f"n = {gain.n}",
            )


def _weights(arms: Arms) -> Iterator[Claim]:
    """What class weights do where classes are imbalanced."""
    for key in ("cross-entropy", "focal-3"):
        weighted = f"{key}-alpha"
        if key not in arms or weighted not in arms:
            continue
        title = arms[key].arm.title
        yield from _is_below(
            arms,
            key,
            weighted,
            lambda run: sum(run["classes"]["before"]["recall"][-3:]) / 3,
            source=PRACTICE,
            statement=f"Class weights raise the recall of the three rarest classes ({title}).",
            unit="%",
        )
        for name, unit in (("error", "%"), ("ece", "%")):
            yield from _is_below(
                arms,
                weighted,
                key,
                metric("before", name),
                source=PRACTICE,
                statement=f"Class weights lower the {_name(name)} on the balanced test set ({title}).",
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
