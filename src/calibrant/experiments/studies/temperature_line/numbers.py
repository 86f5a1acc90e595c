"""Lines through the best temperatures, and how far off they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.experiments.records import Record
from calibrant.experiments.studies.temperature_line.measure import GAMMAS, LOSSES, Criterion

RANGES = ((-0.5, 1.0), (0.0, 5.0), (-0.5, 5.0))
WHOLE = RANGES[-1]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A straight line through numbers over the exponents."""

    intercept: float
    slope: float
    r_squared: float
    deviation: float
    """The largest distance from the line, as a share of the number itself."""

    @property
    def relative_slope(self) -> float:
        """By how much of its value at exponent 0 the number grows for each 1."""
        return self.slope / self.intercept


def line_of(gammas: Sequence[float], values: Sequence[float], between: tuple[float, float] = WHOLE) -> Line:
    """The line of least squares over some of the exponents.

    Example:
        >>> found = line_of([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], (0.0, 2.0))
        >>> round(found.slope, 6), round(found.r_squared, 6), round(found.deviation, 6)
        (2.0, 1.0, 0.0)
    """
    where, what = _within(gammas, values, between)
    slope, intercept = np.polyfit(where, what, 1)
    return _judged(where, what, float(intercept), float(slope))


def anchored_line(gammas: Sequence[float], values: Sequence[float]) -> Line:
    """The line through the values at exponents 0 and 1, as the search along the line draws it."""
    where, what = _within(gammas, values, WHOLE)
    first, second = (float(what[np.abs(where - gamma).argmin()]) for gamma in (0.0, 1.0))
    return _judged(where, what, first, second - first)


def _within(
    gammas: Sequence[float], values: Sequence[float], between: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    where, what = np.array(gammas), np.array(values)
    kept = (where >= between[0] - 1e-9) & (where <= between[1] + 1e-9)
    return where[kept], what[kept]


def _judged(where: np.ndarray, what: np.ndarray, intercept: float, slope: float) -> Line:
    rest = what - (intercept + slope * where)
    spread = float(((what - what.mean()) ** 2).sum())
    return Line(
        intercept=intercept,
        slope=slope,
        r_squared=1 - float((rest**2).sum()) / spread if spread > 0 else 1.0,
        deviation=float((np.abs(rest) / what).max()),
    )


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The best temperatures of one file, label or network."""

    name: str
    record: Record
    world: str | None = None
    loss: str | None = None

    def temperatures(self, by: Criterion = "nll") -> list[float] | None:
        """One for each exponent; None where that criterion was not followed."""
        return self.record["temperatures"].get(by)

    def line(self, between: tuple[float, float] = WHOLE, by: Criterion = "nll") -> Line | None:
        """T over the exponents."""
        found = self.temperatures(by)
        return None if found is None else line_of(GAMMAS, found, between)

    def inverse_line(self, between: tuple[float, float] = WHOLE, by: Criterion = "nll") -> Line | None:
        """1 / T over the exponents."""
        found = self.temperatures(by)
        return None if found is None else line_of(GAMMAS, [1 / value for value in found], between)

    @property
    def anchored(self) -> Line:
        """T on the line through the likeliest temperatures at exponents 0 and 1."""
        return anchored_line(GAMMAS, self.record["temperatures"]["nll"])

    @property
    def bends_down(self) -> bool:
        """Whether the likeliest T in the middle lies above the chord from end to end."""
        found = self.record["temperatures"]["nll"]
        return found[len(found) // 2] > (found[0] + found[-1]) / 2

    @property
    def is_farthest_at_the_start(self) -> bool:
        """Whether the likeliest T is farthest from its line, as a share of itself, at the lowest exponent."""
        found = np.array(self.record["temperatures"]["nll"])
        line = line_of(GAMMAS, found.tolist())
        rest = np.abs(line.intercept + line.slope * np.array(GAMMAS) - found) / found
        return int(rest.argmax()) == 0

    @property
    def lost_by_line(self) -> float:
        """Likelihood loss on the line above the least in the same range of exponents."""
        reached = self.record["reached"]
        return reached["line"] - reached["range"]

    @property
    def lost_by_range(self) -> float:
        """What exponents beyond that range would have gained besides."""
        reached = self.record["reached"]
        return reached["range"] - min(reached["full"], reached["range"])

    @property
    def gained(self) -> float:
        """What the second parameter gains over temperature scaling, wherever it may lie."""
        reached = self.record["reached"]
        return reached["plain"] - min(reached["full"], reached["range"])

    def held_out(self, by: Criterion, better: str, worse: str) -> list[float] | None:
        """How much lower one search's criterion is than another's on the halves not fitted on."""
        found = self.record["held_out"].get(by)
        return None if found is None else [each[worse] - each[better] for each in found]


def file_curves(records: Sequence[Record]) -> list[Curve]:
    """Those of files; labels of one file stand apart."""
    return [Curve(name=record["key"], record=record) for record in records if "networks" not in record]


def network_curves(records: Sequence[Record]) -> list[Curve]:
    """Those of networks."""
    return [
        Curve(name=record["key"], record=network, world=record["world"], loss=network["loss"])
        for record in records
        if "networks" in record
        for network in record["networks"]
    ]


def worlds_of(curves: Sequence[Curve]) -> list[str]:
    """Which data the networks were trained on, in order."""
    return list(dict.fromkeys(curve.world for curve in curves if curve.world is not None))


def of_arm(curves: Sequence[Curve], world: str, loss: str) -> list[Curve]:
    """The networks of one loss, one for each seed."""
    return [curve for curve in curves if (curve.world, curve.loss) == (world, loss)]


def arms(curves: Sequence[Curve]) -> list[tuple[str, str, list[Curve]]]:
    """Data, loss, and the networks of every arm."""
    return [(world, loss, of_arm(curves, world, loss)) for world in worlds_of(curves) for loss in LOSSES]
