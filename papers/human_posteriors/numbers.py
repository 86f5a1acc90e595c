"""What the results file says of differences between arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from calibrant._math.means import Mean
from papers.calibrators.gains import LEVEL, Gain, adjusted
from papers.human_posteriors.settings import (
    ARMS,
    AS_TRAINED,
    IDEAL_FCL,
    IDEAL_FOCAL,
    MEASURES,
    PAIRS,
    TEMPERATURE,
    TITLES,
)
from papers.pages import listed

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


class Compared(NamedTuple):
    """Two arms on a network: how much nearer to people the first is."""

    network: str
    num_images: int
    gain: Gain
    p_value: float  # adjusted
    without_top: float  # the gain without the images that differ most

    @property
    def side(self) -> int:
        """1 where the first is nearer beyond noise, -1 where it is farther, else 0."""
        return (1 if self.gain.value > 0 else -1) if self.p_value < LEVEL else 0


def on_networks(numbers: Numbers, measure: str, first: str, second: str) -> list[Compared]:
    """Two arms on every network, in whichever order they were compared."""
    p_values = adjusted(family(numbers, measure))
    found: list[Compared] = []
    for network in numbers["networks"]:
        pair = next(each for each in network["pairs"] if {each["first"], each["second"]} == {first, second})
        sign = 1 if pair["first"] == first else -1
        gain = gain_of(network, pair["first"], pair["second"], measure)
        found.append(
            Compared(
                network["title"],
                network["num_images"],
                Gain(sign * gain.value, gain.error),
                p_values[network["network"], pair["first"], pair["second"]],
                sign * pair[measure]["without_top"],
            )
        )
    return found


def p_text(p_value: float) -> str:
    """A p-value as it is shown: the tails of the normal distribution are not to be read far out.

    Example:
        >>> p_text(0.0764), p_text(4e-305)
        ('0.076', '< 1e-10')
    """
    return "< 1e-10" if p_value < 1e-10 else f"{p_value:.2g}"


def said_of(found: Sequence[Compared]) -> str:
    """On which networks the first arm is nearer or farther."""
    names = {side: listed(each.network for each in found if each.side == side) for side in (1, -1, 0)}
    words = {1: "nearer on", -1: "farther on", 0: "neither beyond noise on"}
    return ", ".join(f"{words[side]} {name}" for side, name in names.items() if name)


def _answer(numbers: Numbers, first: str, second: str) -> str:
    """The same by both measures."""
    said = {
        title: said_of(on_networks(numbers, measure, first, second)) for measure, title in MEASURES.items()
    }
    if len({*said.values()}) == 1:
        return f"{next(iter(said.values()))}, by both measures"
    return "; ".join(f"{each}, by {title}" for title, each in said.items())


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
        "level": LEVEL,
        "answers": {arm: _answer(numbers, TEMPERATURE, arm) for arm in (AS_TRAINED, IDEAL_FOCAL, IDEAL_FCL)},
    }


def _compared(
    network: Numbers, pair: Numbers, measure: str, p_values: Mapping[tuple[str, str, str], float]
) -> dict[str, Any]:
    first, second = pair["first"], pair["second"]
    gain = gain_of(network, first, second, measure)
    found, p_value = pair[measure], p_values[network["network"], first, second]
    return {
        "measure": MEASURES[measure],
        "gain": interval(gain, network["num_images"]),
        "p": p_text(p_value),
        **{key: found[key] for key in ("nearer", "without_top")},
        **{name: found["parts"][name] for name in ("split", "wrong")},
    }
