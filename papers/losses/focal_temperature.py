"""Whether focal temperature scaling is better than temperature scaling."""

from __future__ import annotations

from collections.abc import Iterator

from calibrant._math.means import mean_of, plus_minus
from papers import on_bounds
from papers.claims import NOT_CLAIMED, Claim, below
from papers.losses.comparisons import Arms, has, metric_of, metric_words, shown
from papers.losses.numbers import BY_ADAPTIVE_ECE
from papers.losses.settings import BY_LIKELIHOOD, KULL


def focal_temperature(arms: Arms) -> Iterator[Claim]:
    """Whether focal temperature scaling beats temperature scaling, both fitted by likelihood.

    By the NLL, and by the error of calibration of which the paper speaks, which has bins of equal mass. How
    it does against the temperature that this error chooses in the same runs is said beside it: some of the
    gain is the criterion's.
    """
    for key in ("cross-entropy", "focal-3"):
        if key not in arms:
            continue
        arm = arms[key]
        exponents = [run["parameters"]["gamma"] for run in arm.runs.values()]
        mark = on_bounds.mark("gamma", exponents)
        bound = f" (γ = {plus_minus(mean_of(exponents), 3)}{mark}, a bound)" if mark else ""
        for end, name in (("nll", "nll"), ("ece", "adaptive_ece")):
            focal, plain = (metric_of(stage, name) for stage in ("focal-temperature", "temperature"))
            gain = arm.mean(lambda run, focal=focal, plain=plain: focal(run) - plain(run))
            relative = gain.value / arm.mean(plain).value
            chosen = ""
            if end == "ece" and has(arm, BY_ADAPTIVE_ECE, name):
                best = metric_of(BY_ADAPTIVE_ECE, name)
                less = arm.mean(lambda run, focal=focal, best=best: focal(run) - best(run))
                chosen = f"; difference from T by {metric_words(name)} {shown(less, name, signed=True)}"
            yield Claim(
                key=f"focal-temperature-{key}-{end}",
                source=KULL if end == "ece" else NOT_CLAIMED,
                statement=f"After {arm.title}, focal temperature scaling has a lower {metric_words(name)} "
                "than temperature scaling",
                verdict=below(gain),
                evidence=f"difference {shown(gain, name, signed=True)} ({100 * relative:+.1f} % of "
                f"temperature scaling's), n = {gain.n}{bound}{chosen}",
                departures=(BY_LIKELIHOOD,) if end == "ece" else (),
            )
