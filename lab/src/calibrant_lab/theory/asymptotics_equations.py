r"""Equations for a linear model's limit with many samples and features, and their solution.

A margin m is the log-odds of the outcome that came true. For a new sample it has the density
:math:`2 \varphi_v(m) P(y = 1 \mid t = m)`, since the world treats both outcomes alike; so every expectation
here is an integral over a line. ``docs/explanation/asymptotics.md`` derives the equations.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.errors import ConvergenceError, InputError
from calibrant.theory.bracket import bracket
from calibrant_lab.theory.generalisation import SampleLoss, derivatives

Vector: TypeAlias = NDArray[np.float64]

_REACH = 9.0  # standard deviations; beyond lies 1e-19 of the mass
_SOLVED = 1e-10
_NODES = (120, 240, 480, 960)  # on each of two intervals
_TABLE, _WIDE = 4001, 30.0  # entries of a loss's table, and the margins up to which it is made first
_MOST_STEPS, _EXACT = 50, 1e-11  # of Newton's method for the proximal operator
_SHORTEST = 1e-3  # share of the load that a step of the continuation may be
_FAR, _LOWEST_LOG = 1e7, 100.0  # of a state
_STEEPEST = 1e4  # weight that a population's minimiser is looked for at


class State(NamedTuple):
    """Unknowns of the equations."""

    along: float  # weight of the feature that matters
    across: float  # norm of all other weights
    step: float  # of the proximal operator: the mean over samples of x (Hessian of the sum)^-1 x


class Margins(NamedTuple):
    """Margins of the samples in the limit, as quadrature nodes."""

    shares: Vector  # sum to one
    truth: Vector  # shares times the mean of the margin's part along the truth
    trained: Vector  # margins on the sample; those of new samples go through the proximal operator
    slope: Vector  # of the loss at ``trained``
    bend: Vector


class LossTable(NamedTuple):
    """Loss at increasing margins."""

    margins: Vector
    values: Vector
    slope: Vector
    bend: Vector


class MarginLoss:
    """Loss as a function of the margin."""

    def __init__(self, loss: SampleLoss) -> None:
        self._loss = loss
        self._table = self.on(-_WIDE, _WIDE)
        self.falls = bool((self._table.slope < 0).all())  # with the margin, up to 30 either way
        self.least_bend = float(self._table.bend.min())  # least second derivative there
        self.slope_at_zero = float(self.derivatives(np.zeros(1))[0][0])

    def derivatives(self, margins: Vector) -> tuple[Vector, Vector]:
        """First and second derivative, which must be finite."""
        points = torch.from_numpy(margins)
        slope, bend = derivatives(self._loss, points, torch.ones_like(points))
        if not bool((slope.isfinite() & bend.isfinite()).all()):
            raise InputError(
                "`loss` must have two finite derivatives at the log-odds that samples have, which are from "
                f"{margins.min():.3g} to {margins.max():.3g} here."
            )
        return slope.numpy(), bend.numpy()

    def on(self, low: float, high: float) -> LossTable:
        """Tabulate the loss on an interval, most finely around zero."""
        margins = np.sinh(np.linspace(math.asinh(low), math.asinh(high), _TABLE))
        with torch.no_grad():
            values = self._loss(torch.from_numpy(margins), torch.ones(_TABLE, dtype=torch.float64)).numpy()
        return LossTable(margins, values, *self.derivatives(margins))

    def around(self, low: float, high: float, step: float) -> LossTable:
        """Tabulate the loss around the proximal operator's values for an interval of margins."""
        while True:
            table = self._table
            inside = table.slope[(table.margins >= low) & (table.margins <= high)]
            pulls = step * inside if inside.size else np.zeros(1)
            ends = low - max(float(pulls.max()), 0.0), high + max(float(-pulls.min()), 0.0)
            if table.margins[0] <= ends[0] and ends[1] <= table.margins[-1]:
                return table
            self._table = self.on(min(1.2 * ends[0], ends[0]), max(1.2 * ends[1], ends[1]))


class FoldError(ArithmeticError):
    """The proximal operator is ambiguous at samples, or the state is out of reach."""


def margins_of(loss: MarginLoss, state: State, signal: float, num_nodes: int) -> Margins:
    """Return the distribution of margins, on new samples and after the proximal operator."""
    norm = math.hypot(state.along, state.across)
    cosine, sine = state.along / norm, state.across / norm
    # Split where trained margins change their sign: what counts right ones has a jump there.
    middle = min(max(state.step * loss.slope_at_zero / norm, -_REACH / 2), _REACH / 2)
    nodes, weights = _legendre(num_nodes)
    halves = ((-_REACH, middle), (middle, _REACH))
    scores = np.concatenate([(high - low) / 2 * (nodes + 1) + low for low, high in halves])
    masses = np.concatenate([(high - low) / 2 * weights for low, high in halves])
    masses = masses * np.exp(-scores * scores / 2)
    event, event_truth = _given_score(scores, cosine, sine, signal)
    total = (masses * event).sum()
    trained, slope, bend = proximal(loss, norm * scores, state.step)
    return Margins(masses * event / total, masses * event_truth / total, trained, slope, bend)


@cache
def _legendre(num_nodes: int) -> tuple[Vector, Vector]:
    return np.polynomial.legendre.leggauss(num_nodes)


def _given_score(scores: Vector, cosine: float, sine: float, signal: float) -> tuple[Vector, Vector]:
    r"""Return E sigma(s V) and E V sigma(s V) for the true feature V, given the standardised score."""
    # The trapezoidal rule is exact but for exp(-2 pi d / h), d the distance of the nearest pole, pi / signal.
    spacing = min(0.5, 0.5 / signal)
    count = 2 * math.ceil(_REACH / spacing) + 1
    noise = np.linspace(-_REACH, _REACH, count)
    shares = np.exp(-noise * noise / 2)
    feature = cosine * scores[:, None] + sine * noise  # (M, K)
    event = 0.5 * (1 + np.tanh(signal * feature / 2))
    shares = shares / shares.sum()
    return event @ shares, (feature * event) @ shares


def proximal(loss: MarginLoss, margins: Vector, step: float) -> tuple[Vector, Vector, Vector]:
    r"""Return the minimisers p of :math:`\ell(p) + (p - m)^2 / (2 \lambda)`, and the loss's derivatives at p.

    The minimiser rises with m. So if it is found for the least margin among all candidates, and
    :math:`p + \lambda \ell'(p)` rises from there on, it is the only minimiser for every margin; if not, a
    FoldError is raised.
    """
    low = float(margins.min())
    table = loss.around(low, float(margins.max()), step)
    first = max(int(np.argmin(step * table.values + (table.margins - low) ** 2 / 2)) - 1, 0)
    if not bool((1 + step * table.bend[first:] > 0).all()):
        raise FoldError(f"the proximal operator of step {step:g} has several values")
    images = table.margins + step * table.slope
    points = np.interp(margins, images[first:], table.margins[first:])
    slope, bend = loss.derivatives(points)
    for _ in range(_MOST_STEPS):
        change = (points + step * slope - margins) / (1 + step * bend)
        points = points - change
        if np.abs(change).max() <= _EXACT * (1 + np.abs(points).max()):
            break
        slope, bend = loss.derivatives(points)
    return points, slope, bend


def instability(margins: Margins, step: float, load: float) -> float:
    """Return the replicon: below one the minimum keeps its curvature in the limit."""
    ratio = step * margins.bend / (1 + step * margins.bend)
    return float((margins.shares * ratio * ratio).sum()) / load


class Equations(NamedTuple):
    """The three equations of a limit, with a fixed number of nodes."""

    loss: MarginLoss
    load: float
    signal: float
    penalty: float
    num_nodes: int

    def gaps(self, logs: Vector) -> Vector:
        """Return the residuals at the logarithms of a state."""
        if not (logs.max() < math.log(_FAR) and logs.min() > -_LOWEST_LOG):
            raise FoldError("the search has left the states that there are")
        state = State(*np.exp(logs).tolist())
        shares, truth, _, slope, bend = margins_of(self.loss, state, self.signal, self.num_nodes)
        step = state.step
        spread = step * step * (shares * slope * slope).sum()
        return np.array(
            [
                (truth * slope).sum() + self.penalty * state.along,
                spread / (self.load * state.across**2) - 1,
                ((shares * step * bend / (1 + step * bend)).sum() + step * self.penalty) / self.load - 1,
            ]
        )

    def root(self, start: State) -> State | None:
        """Return a solution near a guess, if any."""
        from scipy.optimize import root

        try:
            found = root(self.gaps, np.log(start), method="hybr", options={"xtol": 1e-13})
        except FoldError:
            return None
        return State(*np.exp(found.x).tolist()) if np.abs(found.fun).max() < _SOLVED else None


def solve(
    loss: MarginLoss, *, load: float, signal: float, penalty: float, start: State | None = None
) -> tuple[State, int]:
    """Solve the equations: from a guess, or along the load from no load at all.

    With the solution it returns the number of nodes; twice that number does not change it.
    """
    for num_nodes in _NODES:
        equations = Equations(loss, load, signal, penalty, num_nodes)
        state = None if start is None else equations.root(start)
        state = state or _along_load(equations)
        finer = equations._replace(num_nodes=2 * num_nodes)
        if np.abs(finer.gaps(np.log(state))).max() < 100 * _SOLVED:
            return state, num_nodes
        start = state
    raise ConvergenceError(
        f"the equations of the limit were not solved at load {load:g}: {2 * _NODES[-1]} nodes do not suffice."
    )


def _along_load(equations: Equations) -> State:
    """Follow the solution from zero to the final load, in steps as long as they succeed."""
    load = equations.load
    reached, length = 0.0, load
    state = _without_load(equations.loss, equations.signal, equations.penalty)
    while reached < load:
        tried = min(load, reached + length)
        # At small loads the norm across and the step start as the classical theory has them.
        growth = tried / reached if reached else tried
        guess = State(state.along, state.across * math.sqrt(growth), state.step * growth)
        found = equations._replace(load=tried).root(guess)
        if found is not None:
            reached, state, length = tried, found, 1.5 * length
            continue
        length = min(length, tried - reached) / 2
        if length < _SHORTEST * load:
            raise ConvergenceError(
                f"no solution with a single-valued proximal operator was found beyond load {reached:.4g}; "
                "take a smaller `load`, or a larger `penalty`."
            )
    return state


def _without_load(loss: MarginLoss, signal: float, penalty: float) -> State:
    """Return the population's minimiser; norm across and step come from classical theory for load 1."""
    nodes, weights = _legendre(_NODES[1])
    truth = _REACH * nodes
    shares = weights * np.exp(-truth * truth / 2) * 0.5 * (1 + np.tanh(signal * truth / 2))
    shares = shares / shares.sum()

    def gap(along: float) -> float:
        return float((shares * truth * loss.derivatives(along * truth)[0]).sum()) + penalty * along

    high = 1.0
    while gap(high) < 0:
        high *= 2
        if high > _STEEPEST:
            raise ConvergenceError("the loss has no minimum in this world even with infinitely many samples.")
    _, along = bracket(lambda along: gap(along) < 0, 0.0, high, width=high / 64)  # enough to begin with
    slope, bend = loss.derivatives(along * truth)
    step = 1 / (float((shares * bend).sum()) + penalty)
    return State(along, step * math.sqrt(float((shares * slope**2).sum())), step)
