"""What the temperature-line study answers: sentences from the numbers, good or bad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from calibrant.experiments.means import mean_of
from calibrant.experiments.studies.temperature_line.measure import LOSSES, Criterion
from calibrant.experiments.studies.temperature_line.numbers import WHOLE, Curve, Line

_WORTH = 1e-4  # of NLL: less is called nothing


def answer(files: Sequence[Curve], networks: Sequence[Curve]) -> str:
    """One sentence or two for each part of the question."""
    curves = [*files, *networks]
    return "\n".join(
        f"- {sentence}"
        for sentence in (
            _how_linear(files, networks),
            _bend(curves),
            _slope(curves),
            _which_is_linear(curves),
            _by_ece(curves),
            _cost(curves),
            _by_loss(networks),
            _elsewhere(files),
        )
        if sentence
    )


def _how_linear(files: Sequence[Curve], networks: Sequence[Curve]) -> str:
    def said(curves: Sequence[Curve], what: str) -> str:
        lines = [sure(curve.line()) for curve in curves]
        worst = max(zip(lines, curves, strict=True), key=lambda pair: pair[0].deviation)
        return (
            f"on {sum(line.r_squared > 0.99 for line in lines)} of {len(lines)} {what} R² is above 0.99 "
            f"(least {min(line.r_squared for line in lines):.4f}), and T is off its line by at most "
            f"{100 * median(line.deviation for line in lines):.1f} % at the median, "
            f"{100 * worst[0].deviation:.0f} % at worst"
        )

    both = [said(each, what) for each, what in ((files, "files and labels"), (networks, "networks")) if each]
    return f"**How linear.** Over γ from {WHOLE[0]:g} to {WHOLE[1]:g}, {'; '.join(both)}."


def _bend(curves: Sequence[Curve]) -> str:
    down = sum(curve.bends_down for curve in curves)
    start = sum(curve.is_farthest_at_the_start for curve in curves)
    return (
        f"**R² flatters.** T bends: in the middle it lies above the chord from end to end on {down} of "
        f"{len(curves)}. It is farthest from its line at the very end, γ = {WHOLE[0]:g}, on {start}."
    )


def _slope(curves: Sequence[Curve]) -> str:
    of_two = [sure(curve.line()).relative_slope for curve in curves if curve.record["num_classes"] == 2]
    of_more = [sure(curve.line()).relative_slope for curve in curves if curve.record["num_classes"] > 2]
    parts = [
        f"{min(slopes):.2f} to {max(slopes):.2f} with {what}"
        for slopes, what in ((of_two, "two classes"), (of_more, "more"))
        if slopes
    ]
    return (
        f"**The slope depends on the classes**: for each 1 of γ T grows by a share of T at γ = 0 of "
        f"{', '.join(parts)}."
    )


def _which_is_linear(curves: Sequence[Curve]) -> str:
    closer = sum(sure(curve.line()).deviation < sure(curve.inverse_line()).deviation for curve in curves)
    return (
        f"**T, not 1 / T.** T is nearer to its line than 1 / T on {closer} of {len(curves)}. That is to be "
        "expected: the focal map sharpens about like division by T₀ with 1 / T₀ linear in γ, and to undo it "
        "T must grow as 1 / T₀ does."
    )


def _by_ece(curves: Sequence[Curve]) -> str:
    pairs = [(curve.line(), curve.line(by="ece")) for curve in curves]
    known = [(first, second) for first, second in pairs if first and second]
    rougher = sum(second.deviation > first.deviation for first, second in known)
    return (
        f"**By ECE**, as in the paper's figure, the relation is rougher on {rougher} of {len(known)}: R² "
        f"from {min(second.r_squared for _, second in known):.3f} to "
        f"{max(second.r_squared for _, second in known):.4f}, T off by "
        f"{100 * median(second.deviation for _, second in known):.1f} % at the median "
        f"(by NLL {100 * median(first.deviation for first, _ in known):.1f} %): ECE jumps and is flat along "
        "the ridge, so its best T wanders."
    )


def _cost(curves: Sequence[Curve]) -> str:
    paying = [curve for curve in curves if curve.gained > _WORTH]
    lost = [curve.lost_by_line for curve in curves]
    worst = max(curves, key=lambda curve: curve.lost_by_line)
    beyond = sum(curve.lost_by_range > _WORTH for curve in curves)
    shares = [curve.lost_by_line / curve.gained for curve in paying]
    name = worst.name if worst.loss is None else f"{worst.name}, {LOSSES[worst.loss]}"
    share = (
        f"Where γ pays at all (more than {_WORTH:g} of NLL: {len(paying)} of {len(curves)}), the line gives "
        f"away {100 * median(shares):.0f} % of the gain at the median, {100 * max(shares):.0f} % at worst."
        if shares
        else ""
    )
    return (
        f"**What the line loses.** Against the best pair in the same range of γ the search along the line "
        f"loses {median(lost):.1e} of NLL at the median and {max(lost):.1e} at most (`{name}`). {share} The "
        f"range itself loses more than {_WORTH:g} on {beyond}."
    )


def _by_loss(networks: Sequence[Curve]) -> str:
    found: list[str] = []
    for loss, name in LOSSES.items():
        curves = [curve for curve in networks if curve.loss == loss]
        if curves:
            deviation = 100 * mean([sure(curve.line()).deviation for curve in curves])
            slope = mean([sure(curve.line()).relative_slope for curve in curves])
            found.append(f"{name} {deviation:.1f} % (slope {slope:.2f})")
    if not found:
        return ""
    return (
        f"**Trained with other exponents** the picture is the same: T is off its line by at most, on the "
        f"mean over networks, {', '.join(found)}. What changes with the training exponent is T itself, and "
        "with it the line's height."
    )


def _elsewhere(files: Sequence[Curve]) -> str:
    parts: list[str] = []
    names: dict[Criterion, str] = {"nll": "NLL", "ece": "ECE"}
    for by, name in names.items():
        falls = [
            mean_of([first - second for first, second in zip(line, full, strict=True)]).value
            for curve in files
            if (line := curve.held_out(by, "line", "plain")) is not None
            and (full := curve.held_out(by, "full", "plain")) is not None
        ]
        if falls:
            parts.append(
                f"by {name} the line is the better one on {sum(fall > 0 for fall in falls)} of {len(falls)} "
                f"files and labels, by {median(falls):+.1e} at the median"
            )
    if not parts:
        return ""
    return f"**On samples not fitted on**, line against full search: {'; '.join(parts)}."


def mean(values: Sequence[float]) -> float:
    """Of values that there are."""
    return math.fsum(values) / len(values)


def sure(line: Line | None) -> Line:
    """The line by the likelihood loss, which is always followed."""
    if line is None:
        raise TypeError("there is no line")
    return line
