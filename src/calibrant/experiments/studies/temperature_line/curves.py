"""The best temperatures of one file, label or network over the exponents, as the results file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any

from calibrant.experiments.studies.temperature_line.settings import (
    AS_PUBLISHED,
    LOSSES,
    PLAIN,
    WHOLE,
    Criterion,
)
from calibrant.experiments.studies.temperature_line.straight_lines import Line, anchored_line, line_of


def range_name(between: tuple[float, float]) -> str:
    """How a range of exponents is called in the results file.

    Example:
        >>> range_name((-0.5, 1.0))
        '-0.5 to 1'
    """
    return f"{between[0]:g} to {between[1]:g}"


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The best temperatures of one file, label or network."""

    name: str
    gammas: Sequence[float]
    found: Mapping[str, Any]

    @property
    def stem(self) -> str:
        """The file, of which there may be several labels."""
        return self.name.split(", label ")[0]

    @property
    def unit(self) -> str:
        """What is independent of others: the file, or data and seed, which networks of all losses share."""
        if "loss" in self.found:
            return f"{self.found['data']}, seed {self.found['seed']}"
        return self.stem

    def temperatures(self, by: Criterion = "nll") -> list[float] | None:
        """One for each exponent; None where that criterion was not followed."""
        return self.found["temperatures"].get(by)

    @property
    def likeliest(self) -> list[float]:
        """The temperatures with the least likelihood loss."""
        return self.found["temperatures"]["nll"]

    @property
    def at_zero(self) -> float:
        """The likeliest temperature at exponent 0."""
        return self.likeliest[self.gammas.index(0.0)]

    def line(self, between: tuple[float, float] = WHOLE) -> Line:
        """The likeliest T over the exponents."""
        return line_of(self.gammas, self.likeliest, between)

    @property
    def inverse_line(self) -> Line:
        """1 / T over the exponents."""
        return line_of(self.gammas, [1 / value for value in self.likeliest])

    @property
    def ece_line(self) -> Line | None:
        """T with the least calibration error over the exponents; None where that was not followed."""
        found = self.temperatures("ece")
        return None if found is None else line_of(self.gammas, found)

    @property
    def anchored(self) -> Line:
        """T on the line through the likeliest temperatures at exponents 0 and 1."""
        return anchored_line(self.gammas, self.likeliest)

    @property
    def bends_down(self) -> bool:
        """Whether the likeliest T in the middle lies above the chord from end to end."""
        found = self.likeliest
        return found[len(found) // 2] > (found[0] + found[-1]) / 2

    @property
    def is_farthest_at_the_start(self) -> bool:
        """Whether the likeliest T is farthest from its line, as a share of itself, at the lowest exponent."""
        line = self.line()
        rest = [
            abs(line.intercept + line.slope * gamma - value) / value
            for gamma, value in zip(self.gammas, self.likeliest, strict=True)
        ]
        return rest[0] == max(rest)

    @property
    def lost_by_line(self) -> float:
        """Likelihood loss on the line above the least in the same range of exponents."""
        return self.lost_by("line")

    def lost_by(self, search: str) -> float:
        """The same for the search in steps of 0.01 (``line``) or 0.1 (``coarse``)."""
        return self.found["nll"][search] - self.found["nll"]["range"]

    @property
    def lost_by_range(self) -> float:
        """What exponents beyond that range would have gained besides."""
        reached = self.found["nll"]
        return reached["range"] - min(reached["full"], reached["range"])

    @property
    def gained(self) -> float:
        """What the second parameter gains over temperature scaling, wherever it may lie."""
        reached = self.found["nll"]
        return reached["plain"] - min(reached["full"], reached["range"])

    def held_out(self, by: Criterion, better: str, worse: str) -> float | None:
        """How much lower one search's criterion is than another's on the halves not fitted on, on average."""
        found = self.found["held_out"].get(by)
        return None if found is None else found[worse] - found[better]


def by_unit(curves: Sequence[Curve], values: Sequence[float]) -> list[float]:
    """One value for each curve, as means over the curves that share their data.

    Example:
        >>> curves = [Curve(name=name, gammas=(), found={}) for name in ("a", "b, label 0", "b, label 1")]
        >>> by_unit(curves, [1.0, 2.0, 4.0])
        [1.0, 3.0]
    """
    groups: dict[str, list[float]] = {}
    for curve, value in zip(curves, values, strict=True):
        groups.setdefault(curve.unit, []).append(value)
    return [fmean(group) for group in groups.values()]


def file_curves(numbers: Mapping[str, Any]) -> list[Curve]:
    """Those of files; labels of one file stand apart."""
    return [
        Curve(name=name, gammas=numbers["gammas"], found=found) for name, found in numbers["files"].items()
    ]


def network_curves(numbers: Mapping[str, Any]) -> list[Curve]:
    """Those of networks."""
    return [
        Curve(
            name=f"{found['data']}, seed {found['seed']}, {LOSSES[found['loss']]}",
            gammas=numbers["gammas"],
            found=found,
        )
        for found in numbers["networks"]
    ]


def files_with_labels(numbers: Mapping[str, Any]) -> dict[str, list[Curve]]:
    """Files, each with its labels if there are several."""
    found: dict[str, list[Curve]] = {}
    for curve in file_curves(numbers):
        found.setdefault(curve.stem, []).append(curve)
    return found


def arms(numbers: Mapping[str, Any]) -> dict[tuple[str, str], list[Curve]]:
    """The networks of every data set and loss, one for each seed."""
    found: dict[tuple[str, str], list[Curve]] = {}
    for curve in network_curves(numbers):
        found.setdefault((curve.found["data"], curve.found["loss"]), []).append(curve)
    return found


@dataclass(frozen=True, kw_only=True)
class FocalAndPlain:
    """The temperatures that the networks of one seed need, by the loss that trained them."""

    data: str
    unit: str
    plain: float
    focal: tuple[float, ...]


def from_one(temperature: float) -> float:
    """How far a temperature is from 1, as a ratio.

    Example:
        >>> round(from_one(2.0), 3) == round(from_one(0.5), 3)
        True
    """
    return abs(log(temperature))


def focal_and_plain(networks: Sequence[Curve]) -> list[FocalAndPlain]:
    """One for each data set and seed of which there are networks of cross-entropy and of focal loss."""
    seeds: dict[str, dict[str, Curve]] = {}
    for curve in networks:
        seeds.setdefault(curve.unit, {})[curve.found["loss"]] = curve
    return [
        FocalAndPlain(data=of[PLAIN].found["data"], unit=unit, plain=of[PLAIN].at_zero, focal=focal)
        for unit, of in seeds.items()
        if PLAIN in of and (focal := tuple(of[loss].at_zero for loss in AS_PUBLISHED if loss in of))
    ]
