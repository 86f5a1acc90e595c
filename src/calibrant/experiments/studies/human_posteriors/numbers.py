"""What the results file says of differences between arms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.experiments.means import Mean
from calibrant.experiments.studies.calibrators.gains import LEVEL, Gain, adjusted
from calibrant.experiments.studies.human_posteriors.settings import ARMS, MEASURES, PAIRS, TITLES

Numbers = Mapping[str, Any]
NORMAL = 1.959964


def gain_of(network: Numbers, first: str, second: str, measure: str) -> Gain:
    """How much nearer to people the first arm is than the second; the larger of the two standard errors."""
    arms = network["arms"]
    pair = next(each for each in network["pairs"] if (each["first"], each["second"]) == (first, second))
    errors = [pair[measure]["error"], pair[measure]["refit_error"]]
    largest = max(each for each in errors if each is not None)
    return Gain(arms[second][measure] - arms[first][measure], largest)


def interval(gain: Gain, num_images: int) -> Mean:
    """A gain with its 95 % interval, by the normal distribution."""
    return Mean(value=gain.value, half_width=NORMAL * gain.error, n=num_images)


def family(numbers: Numbers, measure: str) -> dict[tuple[str, str, str], Gain]:
    """All comparisons by one measure, by network, first and second arm: one family of tests."""
    return {
        (network["network"], first, second): gain_of(network, first, second, measure)
        for network in numbers["networks"]
        for first, second in PAIRS
    }


def words(numbers: Numbers) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    p_values = {measure: adjusted(family(numbers, measure)) for measure in MEASURES}
    pairs = {
        network["network"]: [
            {
                "first": TITLES[pair["first"]],
                "second": TITLES[pair["second"]],
                "measures": [_compared(network, pair, measure, p_values[measure]) for measure in MEASURES],
            }
            for pair in network["pairs"]
        ]
        for network in numbers["networks"]
    }
    return {
        "arms": [arm for arm in ARMS if arm.key in numbers["networks"][0]["arms"]],
        "pairs": pairs,
        "family": len(PAIRS) * len(numbers["networks"]),
    }


def _compared(
    network: Numbers, pair: Numbers, measure: str, p_values: Mapping[tuple[str, str, str], float]
) -> dict[str, Any]:
    first, second = pair["first"], pair["second"]
    gain = gain_of(network, first, second, measure)
    found, p_value = pair[measure], p_values[network["network"], first, second]
    parts = {
        name: f"{100 * found['parts'][name] / gain.value:.0f}" if p_value < LEVEL and gain.value else "–"
        for name in ("split", "wrong")
    }
    return {
        "measure": MEASURES[measure],
        "gain": interval(gain, network["num_images"]),
        "p": p_value,
        **{key: found[key] for key in ("nearer", "without_top")},
        **parts,
    }
