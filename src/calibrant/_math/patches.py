"""Polynomials that agree with a function's expansions at the nodes of a small patch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from calibrant._math.newton import Expansion, Matrix, Vector

_DERIVATIVES = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))


@dataclass(frozen=True, eq=False)
class Patch:
    """A sheared rectangle around a point of the plane, with Chebyshev's nodes along both of its sides.

    ``axes`` ``(2, 2)`` maps the square from -1 to 1 onto it, with its centre in the origin.
    """

    centre: Vector
    axes: Matrix
    counts: tuple[int, int]

    @property
    def nodes(self) -> list[Vector]:
        """Where the function is to be looked at."""
        return [self.centre + self.axes @ place for place in self._places]

    @property
    def _places(self) -> list[Vector]:
        sides = [np.cos(math.pi * (np.arange(count) + 0.5) / count) for count in self.counts]
        return [np.array(place) for place in product(*sides)]

    def inside(self, point: Vector) -> Vector:
        """A point of the plane in the coordinates of the square."""
        return np.linalg.solve(self.axes, point - self.centre).astype(np.float64)

    def outside(self, point: Vector) -> float:
        """How far from the centre, in sides: up to one inside."""
        return float(np.abs(self.inside(point)).max())

    def model(self, found: Sequence[Expansion]) -> Model:
        """The polynomial that comes nearest to what was found at the nodes."""
        orders = [3 * count - 1 for count in self.counts]  # three numbers at each node along a side
        powers = [
            (i, j) for i in range(orders[0] + 1) for j in range(orders[1] + 1)
            if i / orders[0] + j / orders[1] <= 1
        ]  # fmt: skip
        rows, wanted = list[list[float]](), list[float]()
        for place, (value, gradient, hessian) in zip(self._places, found, strict=True):
            slope, bend = self.axes.T @ gradient, self.axes.T @ hessian @ self.axes
            wanted += [value - found[0].value, *slope, bend[0, 0], bend[0, 1], bend[1, 1]]
            rows += _terms(place, powers)
        table, values = np.array(rows), np.array(wanted)
        coefficients = np.linalg.lstsq(table, values, rcond=1e-14)[0]
        misses = (table @ coefficients - values).reshape(-1, len(_DERIVATIVES))
        slopes = np.linalg.solve(self.axes.T, misses[:, 1:3].T)
        return Model(self, powers, coefficients, found[0].value, np.abs(slopes).max(axis=1))


@dataclass(frozen=True, eq=False)
class Model:
    """A polynomial in place of a function."""

    patch: Patch
    powers: list[tuple[int, int]]
    coefficients: Vector
    base: float
    misses: Vector
    """How far its two slopes are from those of the function, at the node where that is most."""

    def __call__(self, point: Vector) -> Expansion:
        """Value, gradient and second derivatives."""
        terms = np.array(_terms(self.patch.inside(point), self.powers)) @ self.coefficients
        back = np.linalg.inv(self.patch.axes).astype(np.float64)
        bend = np.array([[terms[3], terms[4]], [terms[4], terms[5]]])
        return Expansion(self.base + float(terms[0]), back.T @ terms[1:3], back.T @ bend @ back)


def _terms(place: Vector, powers: Sequence[tuple[int, int]]) -> list[list[float]]:
    """Each product of powers, and its derivatives as in ``_DERIVATIVES``."""
    x, y = place.tolist()
    return [
        [_derived(x, i, first) * _derived(y, j, second) for i, j in powers] for first, second in _DERIVATIVES
    ]


def _derived(x: float, power: int, times: int) -> float:
    """A derivative of a power of x."""
    return 0.0 if times > power else math.perm(power, times) * x ** (power - times)
