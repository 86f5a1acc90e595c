"""The best temperatures of one file, label or network over the exponents, as the results file has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import fmean
from typing import Any

from papers.grouping import grouped
from papers.temperature_line.settings import (
    AS_PUBLISHED,
    LOSSES,
    PLAIN,
    WHOLE,
    Criterion,
)
from papers.temperature_line.straight_lines import Line, anchored_line, line_of


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
        return f"{self.found['data']}, seed {self.found['seed']}" if "loss" in self.found else self.stem

    @property
    def likeliest(self) -> list[float]:
        """The temperatures with the least likelihood loss, one for each exponent."""
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
        found = self.found["temperatures"].get("ece")
        return found and line_of(self.gammas, found)

    @property
    def anchored(self) -> Line:
        """T on the line through the likeliest temperatures at exponents 0 and 1."""
        return anchored_line(self.gammas, self.likeliest)

    def lost_by(self, search: str = "line") -> float:
        """Likelihood loss of the search along the line above the least in the same range of exponents.

        ``line`` takes steps of 0.01, ``coarse`` of 0.1.
        """
        return self.found["nll"][search] - self.found["nll"]["range"]

    def fall_from(self, search: str) -> float:
        """What is gained anywhere over ``plain`` temperature scaling, or over this ``range`` of exponents."""
        reached = self.found["nll"]
        return reached[search] - min(reached["full"], reached["range"])

    def held_out(self, by: Criterion, better: str, worse: str) -> float | None:
        """How much lower one search's criterion is than another's on the halves not fitted on, on average."""
        found = self.found["held_out"].get(by)
        return found and found[worse] - found[better]


def by_unit(curves: Sequence[Curve], values: Sequence[float]) -> list[float]:
    """One value for each curve, as means over the curves that share their data.

    Example:
        >>> curves = [Curve(name=name, gammas=(), found={}) for name in ("a", "b, label 0", "b, label 1")]
        >>> by_unit(curves, [1.0, 2.0, 4.0])
        [1.0, 3.0]
    """
    groups = grouped(zip(curves, values, strict=True), lambda pair: pair[0].unit)
    return [fmean(value for _, value in group) for group in groups.values()]


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


def arms(numbers: Mapping[str, Any]) -> dict[tuple[str, str], list[Curve]]:
    """The networks of every data set and loss, one for each seed."""
    return grouped(network_curves(numbers), lambda curve: (curve.found["data"], curve.found["loss"]))


@dataclass(frozen=True, kw_only=True)
class FromOne:
    """How far from 1, as ratios, the temperatures of one seed's networks are, by the loss of training.

    Attributes:
        data: What they were trained on.
        temperature: Cross-entropy's.
        focal: How far focal loss's are, by exponent.
    """

    data: str
    temperature: float
    focal: Sequence[float]

    @property
    def plain(self) -> float:
        """How far cross-entropy's is."""
        return abs(log(self.temperature))


def from_one(networks: Sequence[Curve]) -> dict[str, FromOne]:
    """For each data set and seed of which there are networks of cross-entropy and of focal loss."""
    found: dict[str, FromOne] = {}
    for unit, curves in grouped(networks, lambda curve: curve.unit).items():
        best = {curve.found["loss"]: curve.at_zero for curve in curves}
        focal = [abs(log(best[loss])) for loss in AS_PUBLISHED if loss in best]
        if PLAIN in best and focal:
            found[unit] = FromOne(data=curves[0].found["data"], temperature=best[PLAIN], focal=focal)
    return found
