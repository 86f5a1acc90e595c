r"""Residuals smoothed by a reflected Gaussian kernel on [0, 1], the integral of their size, its fixed point.

The Gaussian of width σ, folded back into [0, 1] at both ends, is the heat kernel of the unit interval:

.. math:: K_\sigma(t, p) = \sum_{k \in \mathbb Z} [ \varphi_\sigma(t - p + 2k) + \varphi_\sigma(t + p + 2k) ]
          = 1 + 2 \sum_{k \ge 1} e^{-(\pi k \sigma)^2 / 2} \cos(\pi k t) \cos(\pi k p) .

So masses :math:`m_i` at :math:`p_i` smooth to a cosine series with coefficients :math:`\sum_i m_i \cos(\pi k
p_i)` times the exponentials. Its primitive is a sine series, and the integral of its size is the sum of the
sizes of the primitive's steps between changes of sign. No mesh biases the
coefficients: in each cell of a mesh the masses are kept as moments about its middle, from which Taylor's
series gives the cosines. A cell is at most σ/4 wide, so that the remainder of order six changes the integral
by less than 3e-8 of the summed sizes of the masses.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float64]

NARROWEST = 2.0**-20  # bandwidth, about 1e-6
NARROW = 2.0**-13  # with more, sorting to skip gaps pays
TOLERANCE = 1e-10  # on the fixed point
MOMENTS = 6


class HeatSeries:
    """Masses at points of [0, 1] as coefficients of a cosine series, computed on demand."""

    def __init__(self, points: Vector, masses: Vector) -> None:
        self._points = points
        self._masses = masses
        self._coefficients: Vector = np.empty(0)

    def values(self, bandwidth: float, mesh: int) -> Vector:
        """Smoothed masses at ``0, 1/mesh, ..., 1``; a mesh coarser than the bandwidth loses detail."""
        return _on_mesh(self._damped(bandwidth, mesh), mesh)

    def absolute_integral(self, bandwidth: float) -> float:
        mesh = min(_power_of_two(16 / bandwidth, least=1 << 9), 1 << 23)
        damped = self._damped(bandwidth, mesh)
        density = _on_mesh(damped, mesh)
        sines = np.zeros(len(damped), dtype=np.complex128)
        sines[1:] = damped[1:] / (1j * np.pi * np.arange(1, len(damped)))
        steps = np.diff(_on_mesh(sines, mesh)) + damped[0] / mesh  # of the primitive
        crossed = np.flatnonzero(density[:-1] * density[1:] < 0)
        before = _integral_to_zero(density[crossed] / mesh, density[crossed + 1] / mesh, steps[crossed])
        after = steps[crossed] - before
        steps[crossed] = np.abs(before) + np.abs(after)
        return float(np.abs(steps).sum())

    def _damped(self, bandwidth: float, mesh: int) -> Vector:
        """Coefficients times the kernel's factors, down to factors of e^-40."""
        terms = min(int(math.sqrt(80) / (math.pi * bandwidth)) + 2, mesh)
        cells = _power_of_two(4 / bandwidth, least=1 << 12)
        if len(self._coefficients) < cells:
            cells = min(2 * cells, 1 << 22)  # the next bandwidth is often a little narrower
            self._coefficients = _cosine_coefficients(self._points, self._masses, cells)
        return self._coefficients[:terms] * np.exp(-((np.pi * bandwidth * np.arange(terms)) ** 2) / 2)


class SmoothedResiduals:
    """Integral of the size of the smoothed residuals, as a function of the bandwidth."""

    def __init__(self, scores: Vector, outcomes: Vector, weights: Vector | None = None) -> None:
        self.residuals = shares(len(scores), weights) * (outcomes - scores)
        self._points = np.clip(scores, 0.0, 1.0)  # a row whose sum is rounded may exceed one a little
        self._series = HeatSeries(self._points, self.residuals)
        self._order: NDArray[np.intp] | None = None

    def error(self, bandwidth: float) -> float:
        if bandwidth >= NARROW:
            return self._series.absolute_integral(bandwidth)
        return self._without_gaps(max(bandwidth, NARROWEST))

    def fixed_point(self) -> float:
        r"""Bandwidth equal to the error at itself, to 1e-10 of the error as computed.

        The error E(σ) does not increase with σ (more smoothing cancels more), so E(σ) - σ falls with a slope
        of at most -1. Its only zero σ* lies between σ and E(σ) for every σ, and between the
        size of the mean residual (the kernel keeps mass) and the summed sizes of the residuals. This settles
        residuals of one sign at once. Secant steps, halving if they leave the bracket. A zero below
        :data:`NARROWEST` is not resolved; the result is then the error at that bandwidth, which is below the
        zero.
        """
        low, high = abs(float(self.residuals.sum())), float(np.abs(self.residuals).sum())
        width = max(low, 0.05)
        last: tuple[float, float] | None = None
        while high - low > TOLERANCE:
            error = self.error(width)
            low, high = max(low, min(width, error)), min(high, max(width, error))
            if width <= NARROWEST and error <= width:
                return low
            step = _secant_step(last, (width, error))
            last = width, error
            width = max(step if low < step < high else (low + high) / 2, NARROWEST)
        return low

    def _without_gaps(self, bandwidth: float) -> float:
        """The integral without parts farther than 8 σ from every point, which contribute nothing."""
        if self._order is None:
            self._order = np.argsort(self._points)
        points, reach = self._points[self._order], 8 * bandwidth
        steps = np.diff(points, prepend=0.0, append=1.0)
        steps[1:-1] = np.minimum(steps[1:-1], 2 * reach)
        steps[[0, -1]] = np.minimum(steps[[0, -1]], reach)
        length = steps.sum()
        packed = np.minimum(np.cumsum(steps[:-1]) / length, 1.0)
        return HeatSeries(packed, self.residuals[self._order]).absolute_integral(bandwidth / length)


def shares(num_samples: int, weights: Vector | None) -> Vector:
    if weights is None:
        return np.full(num_samples, 1 / num_samples)
    return weights / weights.sum()


def _secant_step(last: tuple[float, float] | None, here: tuple[float, float]) -> float:
    """Intersection of the line through two (width, error) pairs with the diagonal; one pair: a level line."""
    width, error = here
    slope = 0.0 if last is None else min((error - last[1]) / (width - last[0]), 0.0)
    return width + (error - width) / (1 - slope)


def _cosine_coefficients(points: Vector, masses: Vector, cells: int) -> Vector:
    """Sums of ``masses * cos(pi k points)`` for k < cells, from moments in cells of width 1 / cells."""
    position = points * cells
    cell = np.minimum(position.astype(np.intp), cells - 1)
    offset = position - cell - 0.5
    turn = -1j * np.pi * np.arange(cells) / cells  # of exp(-i pi k p) over one cell
    total = np.zeros(cells, dtype=np.complex128)
    factor = np.ones(cells, dtype=np.complex128)
    for power in range(MOMENTS):
        total += factor * np.fft.rfft(np.bincount(cell, masses, cells), 2 * cells)[:cells]
        masses = masses * offset
        factor = factor * turn / (power + 1)
    return (total * np.exp(turn / 2)).real


def _on_mesh(coefficients: NDArray[np.complex128] | Vector, mesh: int) -> Vector:
    """Real part of ``c_0 + 2 sum of c_k exp(i pi k t)`` at t = 0, 1/mesh, ..., 1."""
    return np.fft.irfft(coefficients, 2 * mesh)[: mesh + 1] * (2 * mesh)


def _integral_to_zero(low: Vector, high: Vector, step: Vector) -> Vector:
    """Integral from the left end of a cell to the zero inside, by the cubic primitive that rises by ``step``.

    ``low`` and ``high`` are the integrand at the ends times the cell's width; they differ in sign.
    """
    t = low / (low - high)
    return t * (1 - t) ** 2 * low + t**2 * (3 - 2 * t) * step - t**2 * (1 - t) * high


def _power_of_two(number: float, *, least: int) -> int:
    return max(least, 1 << math.ceil(math.log2(number)))


BANDWIDTHS = np.geomspace(1 / 512, 1.0, 21)
MESH = 512


def fixed_points(points: Vector, residuals: NDArray[np.float64]) -> Vector:
    """Fixed points ``(R,)`` of many vectors of residuals ``(R, K)`` at the same points ``(K,)``.

    Use it for noise only. Bandwidths are 1.37 times each other, with linear interpolation of the log error.
    This moves the fixed point by less than 1%. Below 1/512 it is proportional to the error at 1/512.
    """
    from scipy.fft import dct

    orders = np.arange(MESH + 1)
    coefficients = residuals @ np.cos(np.pi * np.outer(points, orders))  # (R, F)
    found = np.empty(len(residuals))
    waiting = np.arange(len(residuals))
    last = np.empty(0)
    for place, bandwidth in enumerate(BANDWIDTHS):
        damped = coefficients[waiting] * np.exp(-((np.pi * bandwidth * orders) ** 2) / 2)
        damped[:, -1] *= 2  # of the cosine transform, which halves it
        density = np.abs(dct(damped, type=1, axis=1))
        errors = (density[:, 1:] + density[:, :-1]).sum(axis=1) / (2 * MESH)
        crossed = errors <= bandwidth
        if place == 0:
            found[waiting[crossed]] = errors[crossed]
        else:
            rise = np.log(BANDWIDTHS[place] / BANDWIDTHS[place - 1])
            above = np.log(last[crossed] / BANDWIDTHS[place - 1])
            below = np.log(np.maximum(errors[crossed], 1e-300) / bandwidth)
            found[waiting[crossed]] = BANDWIDTHS[place - 1] * np.exp(rise * above / (above - below))
        waiting, last = waiting[~crossed], errors[~crossed]
        if not len(waiting):
            break
    return found
