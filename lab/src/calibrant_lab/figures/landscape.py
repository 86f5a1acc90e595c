"""Focal temperature scaling's objective over exponent and temperature, with its minima."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice, check_logits
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.drawing import resampled_counts
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting import data, grid, objectives, searches
from calibrant.calibrators.fitting.grid import Place
from calibrant.calibrators.fitting.objectives import DIFFERENTIABLE, OBJECTIVES, Objective, objective_value
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.methods.temperatures import FocalTemperatureScaling

_RISE = 0.7  # approximate slope of log T in log(1 + gamma), where the next descent starts
_FACTORS = np.geomspace(1 / 3, 3, 221)  # around the maximum-likelihood temperature: steps of one per cent


@dataclass(frozen=True, eq=False, kw_only=True)
class TemperatureRidge:
    """Best temperature and objective at each exponent; float64."""

    gammas: Float[ndarray, " G"]
    temperatures: Float[ndarray, " G"]
    values: Float[ndarray, " G"]

    @property
    def lowest(self) -> Place:
        """Lowest of these points."""
        place = int(self.values.argmin())
        return Place(float(self.gammas[place]), float(self.temperatures[place]), float(self.values[place]))


@torch.no_grad()
def temperature_ridge(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    gammas: Sequence[float],
    weights: ArrayLike | None = None,
    objective: Objective = "nll",
) -> TemperatureRidge:
    r"""Return the best temperature of focal temperature scaling at each exponent.

    .. math:: T(\gamma) = \arg\min_{T \in [10^{-4}, 10^4]} L(\rho_\gamma(\mathrm{softmax}(z / T)))

    Args:
        logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
        labels: Classes ``(N,)``.
        gammas: Exponents, from -0.999 to 50, in any order.
        weights: Sample weights ``(N,)``.
        objective: As for :class:`calibrant.calibrators.FocalTemperatureScaling`.

    Returns:
        One temperature for each exponent, in the order given.

    Raises:
        InputError: If shapes disagree, a label is out of range, a value is NaN, there are several labels per
            sample, or an exponent lies outside.

    Note:
        The likelihood loss and the Brier score by Newton's method, each exponent from its neighbour's
        temperature. Errors that jump: the best of 221 temperatures within a factor of 3 of NLL's.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024, figure 8.

    Example:
        >>> ridge = temperature_ridge([4.0] * 10, [1] * 8 + [0] * 2, gammas=[0.0, 1.0])
        >>> [round(value, 4) for value in ridge.temperatures.tolist()]  # 4 / log(4) where gamma = 0
        [2.8854, 5.1236]
    """
    check_choice("objective", objective, OBJECTIVES)
    chosen = [float(gamma) for gamma in gammas]
    for gamma in chosen:
        if not LOWEST_GAMMA <= gamma <= HIGHEST_GAMMA:
            raise InputError(f"`gammas` must be from {LOWEST_GAMMA} to {HIGHEST_GAMMA:g}; got {gamma}.")
    samples = single_problem(logits, labels, weights)
    return ridge_of(samples, objectives.in_effect(objective, samples), chosen)


def single_problem(logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None) -> Samples:
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    if checked.task == "multilabel" or checked.labels is None:
        raise InputError(
            "`labels` must have shape (N,), one per sample; pass several labels per sample one at a time, "
            "`logits[:, k]` with `labels[:, k]`."
        )
    return data.CalibrationData.of(checked).problems[0]


def ridge_of(samples: Samples, objective: Objective, gammas: Sequence[float]) -> TemperatureRidge:
    followed: Objective = objective if objective in DIFFERENTIABLE else "nll"
    found = _follow(samples, followed, gammas)
    if objective not in DIFFERENTIABLE:
        for gamma, place in found.items():
            window = np.unique(np.clip(place.temperature * _FACTORS, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE))
            found[gamma], _ = grid.best_on_grid(samples, objective, (gamma,), window.tolist())
    places = np.array([found[gamma] for gamma in gammas], dtype=np.float64).reshape(-1, 3)
    return TemperatureRidge(gammas=places[:, 0], temperatures=places[:, 1], values=places[:, 2])


def _follow(samples: Samples, objective: Objective, gammas: Sequence[float]) -> dict[float, Place]:
    """Follow descents by T alone, from exponent 0 outwards to either side."""
    origin = searches.fit_temperature(samples, objective, "continuous").parameters["temperature"]
    found: dict[float, Place] = {}
    ups = sorted(gamma for gamma in set(gammas) if gamma >= 0)
    downs = sorted((gamma for gamma in set(gammas) if gamma < 0), reverse=True)
    for side in (ups, downs):
        place, temperature, rise = 0.0, math.log(origin), _RISE  # logarithms of 1 + gamma and T
        for gamma in side:
            step = math.log1p(gamma) - place
            start = min(max(math.exp(temperature + rise * step), LOWEST_TEMPERATURE), HIGHEST_TEMPERATURE)
            minimum = searches.smooth_minimum(samples, objective, [(start, gamma)], (gamma, gamma))
            best = minimum.parameters["temperature"]
            found[gamma] = Place(gamma, best, minimum.after)
            reached = math.log(best)
            if step != 0:
                place, temperature, rise = math.log1p(gamma), reached, (reached - temperature) / step
    return found


LEVEL = 0.95
LINEAR_UP_TO = 12.0, 50.0  # beyond this exponent, or this temperature, the axes are logarithmic
_RIDGE_POINTS = 21
_RATIO = 16.0  # difference of likelihoods, twice its logarithm: four standard errors
_FEWER_PIXELS = 61, 81  # exponents and temperatures
_PIXELS = {**dict.fromkeys(DIFFERENTIABLE, (111, 121)), "classwise": (41, 51)}
_RESAMPLES = {True: 100, False: 20}
_DEGREE = 5  # degree of the interpolating spline
_SPACING, _SPACING_OF_ERRORS = 0.2, 0.1  # of what is computed, in log T and log(1 + gamma)
_SMALLEST = 1e-12  # whose logarithm is still interpolated
_TABLE_ENTRIES = 2**24  # of log-odds: 64 MiB
_WIDE = 10.0  # ratio of 1 + gamma; of two classes that is about a ratio of temperatures


@dataclass(frozen=True, eq=False, kw_only=True)
class Landscape:
    """An objective over exponent and temperature; made by :func:`objective_landscape`."""

    objective: Objective
    num_samples: int
    gammas: Float[ndarray, " G"]
    temperatures: Float[ndarray, " K"]
    values: Float[ndarray, "G K"]
    """The objective at all pairs, interpolated to about the thickness of a line in a picture."""
    ridge: TemperatureRidge
    line: Float[ndarray, "L 2"]  # exponent and temperature of each point that the search along the line tries
    anchors: tuple[Place, Place]  # the two best points of the grid that the line goes through
    best_on_line: Place
    plain: Place  # temperature scaling: exponent 0
    chosen: Place  # focal temperature scaling by the full search
    cloud: Float[ndarray, "R 2"]  # exponent and temperature chosen in each resample
    notes: tuple[str, ...]  # warnings of the fit
    trouble: tuple[str, ...] = ()
    """Why the samples determine little: too few, of one class, all right or all wrong."""

    @property
    def is_logarithmic(self) -> bool:
        """True if large exponents or temperatures need logarithmic axes."""
        return bool(self.gammas[-1] > LINEAR_UP_TO[0] or self.temperatures[-1] > LINEAR_UP_TO[1])

    @property
    def gamma_interval(self) -> tuple[float, float]:
        """Central 95% interval of the resampled exponents."""
        return middle(self.cloud[:, 0])

    @property
    def temperature_interval(self) -> tuple[float, float]:
        """Central 95% interval of the resampled temperatures."""
        return middle(self.cloud[:, 1])

    @property
    def zero_is_within(self) -> bool:
        """True if the interval includes exponent 0, which is temperature scaling."""
        low, high = self.gamma_interval
        return low <= 0 <= high

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why the samples do not determine exponent and temperature; empty if none.

        The samples determine little by themselves. The chosen point, or more than 2.5% of the resamples, are
        at an end of the search range. Or 1 + gamma varies more than tenfold over its interval.
        """
        count, ended = len(self.cloud), int(_at_end(self.cloud).sum())
        there = ["the best point"] if _at_end(np.array([self.chosen[:2]])).any() else []
        if ended > (1 - LEVEL) / 2 * count:
            there.append(f"{ended} of {count} refits")
        said = list(self.trouble)
        if there:
            lie = "lies" if there == ["the best point"] else "lie"
            said.append(f"{' and '.join(there)} {lie} at an end of what is searched")
        low, high = self.gamma_interval
        if 1 + high > _WIDE * (1 + low):
            said.append(f"the refits spread over gamma from {low:.3g} to {high:.3g}")
        return tuple(said)


@torch.no_grad()
def objective_landscape(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    objective: Objective = "nll",
    num_resamples: int | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Landscape:
    r"""Return the objective of focal temperature scaling over exponent and temperature.

    .. math:: (\gamma, T) \mapsto L(\rho_\gamma(\mathrm{softmax}(z / T)))

    With it the ridge (the best T of each exponent), the points of the search along a line, and temperature
    scaling at exponent 0. Also the point that :class:`calibrant.calibrators.FocalTemperatureScaling` chooses,
    on the rows and in bootstrap resamples of them. At least the exponents from -0.5 to 5 are covered.

    Args:
        logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
        labels: Classes ``(N,)``.
        weights: Sample weights ``(N,)``.
        objective: As for :class:`calibrant.calibrators.FocalTemperatureScaling`.
        num_resamples: How many refits; by default 100 for the likelihood loss and the Brier score, and 20 for
            calibration errors.
        seed: For the resamples.
        progress: Told the share that is done.

    Returns:
        All of it as frozen data.

    Raises:
        InputError: If shapes disagree, a label is out of range, a value is NaN, there are several labels per
            sample, or `num_resamples` is below two.

    Note:
        Refits of the likelihood loss and the Brier score descend from the chosen point and from every other
        local minimum of the ridge, and from exponent 0 unless that is out of the question. Refits of
        calibration errors are full searches, which take as long as the fit itself.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 4 * torch.randn(500, 5, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
        >>> landscape = objective_landscape(logits, labels, num_resamples=10)
        >>> landscape.chosen.value <= landscape.plain.value, landscape.cloud.shape
        (True, (10, 2))
    """
    check_choice("objective", objective, OBJECTIVES)
    count = _RESAMPLES[objective in DIFFERENTIABLE] if num_resamples is None else num_resamples
    if count < 2:
        raise InputError(f"`num_resamples` must be at least 2; got {count}.")
    samples = single_problem(logits, labels, weights)
    wanted = objectives.in_effect(objective, samples)
    chosen, notes = _fitted(samples, wanted)
    simpler = searches.fit_temperature(samples, wanted, "continuous")
    plain = Place(0.0, simpler.parameters["temperature"], simpler.after)
    tell = progress or (lambda _: None)
    tell(0.1)

    ridge = ridge_of(samples, wanted, ridge_gammas(chosen.gamma, chosen.gamma))
    starts = _starts(ridge, chosen, plain, samples.num_samples)
    cloud = _cloud(samples, wanted, starts, count, seed, lambda share: tell(0.1 + 0.7 * share))
    low, high = middle(cloud[:, 0])
    low, high = min(low, chosen.gamma), max(high, chosen.gamma)
    if low < ridge.gammas[0] or high > ridge.gammas[-1]:
        ridge = ridge_of(samples, wanted, ridge_gammas(low, high))
    tell(0.85)

    temperatures = searches.PAPER_GRID
    first, second = (grid.best_on_grid(samples, wanted, (gamma,), temperatures)[0] for gamma in (0.0, 1.0))
    points = searches.line_through(first, second)
    better = min(first, second, key=lambda anchor: anchor.value)
    on_line, _ = grid.best_on_line(samples, wanted, points, best=better)
    num_gammas, num_temperatures = _PIXELS.get(wanted, _FEWER_PIXELS)
    gammas = shown_gammas(low, high, num_gammas)
    inside = [chosen.temperature, plain.temperature, *middle(cloud[:, 1]), *ridge.temperatures.tolist()]
    logarithmic = gammas[-1] > LINEAR_UP_TO[0]
    temperatures = shown_temperatures(inside, num_temperatures, logarithmic=logarithmic)
    values = _table(samples, wanted, gammas, temperatures)
    tell(1.0)
    return Landscape(
        objective=wanted,
        num_samples=samples.num_samples,
        gammas=np.array(gammas),
        temperatures=np.array(temperatures),
        values=values,
        ridge=ridge,
        line=np.array([(gamma, temperature) for temperature, gamma in points]).reshape(-1, 2),
        anchors=(first, second),
        best_on_line=on_line,
        plain=plain,
        chosen=chosen,
        cloud=cloud,
        notes=notes,
        trouble=_trouble(samples),
    )


def _fitted(samples: Samples, objective: Objective) -> tuple[Place, tuple[str, ...]]:
    with without_warnings():
        fitted = FocalTemperatureScaling(objective=objective).fit(
            samples.scores, samples.labels, weights=samples.weights
        )
    result = fitted.fit_result_
    return Place(float(fitted.gamma), float(fitted.temperature), result.after), result.warnings


def _trouble(samples: Samples) -> tuple[str, ...]:
    if samples.is_constant:
        return (data.CONSTANT,)
    width = 2 if samples.is_event else samples.scores.shape[1]
    right = int(samples.correct.sum())
    return data.degenerate(samples.num_samples, right) or data.absent_classes(samples.labels, width)


def _at_end(places: Float[ndarray, "R 2"]) -> NDArray[np.bool_]:
    gammas, temperatures = places.T
    ends = np.isin(gammas, [LOWEST_GAMMA, HIGHEST_GAMMA])
    return ends | np.isin(temperatures, [LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE])


def _starts(ridge: TemperatureRidge, chosen: Place, plain: Place, num_samples: int) -> list[Place]:
    """Return starts: the chosen point, other minima of the ridge, and exponent 0 if noise may favour it."""
    values, gammas = ridge.values, ridge.gammas
    inner = np.flatnonzero((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])) + 1
    others = [
        Place(float(gammas[at]), float(ridge.temperatures[at]), float(values[at]))
        for at in inner.tolist()
        if not gammas[at - 1] <= chosen.gamma <= gammas[at + 1]
    ]
    if 2 * num_samples * (plain.value - chosen.value) < _RATIO:
        others.append(plain)
    return [chosen, *others]


def _cloud(
    samples: Samples,
    objective: Objective,
    starts: Sequence[Place],
    num_resamples: int,
    seed: int,
    tell: Callable[[float], None],
) -> Float[ndarray, "R 2"]:
    rng = np.random.default_rng(seed)
    found = np.empty((num_resamples, 2))
    for place in range(num_resamples):
        drawn = torch.from_numpy(resampled_counts(rng, samples.num_samples)).to(samples.scores.device)
        kept = drawn > 0
        part = samples.part(kept)
        shares = drawn[kept] * (1.0 if part.weights is None else part.weights)
        found[place] = _refit(replace(part, weights=shares.to(torch.float64)), objective, starts)
        tell((place + 1) / num_resamples)
    return found


def _refit(samples: Samples, objective: Objective, starts: Sequence[Place]) -> tuple[float, float]:
    if objective not in DIFFERENTIABLE:
        chosen, _ = _fitted(samples, objective)
        return chosen.gamma, chosen.temperature
    ends, places = (LOWEST_GAMMA, HIGHEST_GAMMA), [(start.temperature, start.gamma) for start in starts]
    minima = [searches.smooth_minimum(samples, objective, [place], ends) for place in places]
    best = min(minima, key=lambda minimum: minimum.after)
    return best.parameters["gamma"], best.parameters["temperature"]


def _table(
    samples: Samples, objective: Objective, gammas: Sequence[float], temperatures: Sequence[float]
) -> NDArray[np.float64]:
    """Return the objective at all pairs.

    The logarithm of smooth objectives is interpolated by T and exponent, log-odds for errors of confidences
    by T; the classwise error is computed at every pair.
    """
    if objective in objectives.JUDGED:
        return _table_of_errors(samples, objective, gammas, temperatures)
    if objective not in DIFFERENTIABLE:
        return np.array([[objective_value(samples, objective, t, g) for t in temperatures] for g in gammas])
    warmth, by_temperature = _spline(np.log(temperatures), _SPACING)
    bend, by_gamma = _spline(np.log1p(gammas), _SPACING)
    nodes, values = np.exp(warmth).tolist(), list[list[float]]()
    for gamma in np.expm1(bend).tolist():
        values.append([objective_value(samples, objective, temperature, gamma) for temperature in nodes])
    return np.exp(by_gamma @ np.log(np.maximum(values, _SMALLEST)) @ by_temperature.T)


def _table_of_errors(
    samples: Samples, objective: Objective, gammas: Sequence[float], temperatures: Sequence[float]
) -> NDArray[np.float64]:
    nodes, matrix = _spline(np.log(temperatures), _SPACING_OF_ERRORS)
    groups = grid.TiedSamples.of(samples)
    together = max(1, _TABLE_ENTRIES // (len(nodes) * samples.num_samples))
    rows: list[NDArray[np.float64]] = []
    for start in range(0, len(gammas), together):
        tables = grid.judged_log_odds(samples, gammas[start : start + together], np.exp(nodes).tolist())
        kept = map(groups.representatives, tables)
        rows += [grid.interpolated_errors(groups, objective, matrix, each) for each in kept]
    return np.stack(rows).astype(np.float64)


def _spline(places: NDArray[np.float64], spacing: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return interpolation nodes, and the matrix from values at nodes to values at places."""
    low, high = float(places.min()), float(places.max())
    nodes = np.linspace(low, high, max(_DEGREE + 1, math.ceil((high - low) / spacing) + 1))
    return nodes, make_interp_spline(nodes, np.eye(len(nodes)), k=_DEGREE)(places)


def middle(values: Float[ndarray, " R"]) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def shown_gammas(low: float, high: float, count: int) -> list[float]:
    """Return exponents from at least the line search's range, evenly spaced, beyond 12 in log(1 + gamma)."""
    margin = 1.15
    bottom = (
        min(searches.LINE_GAMMAS[0], max(LOWEST_GAMMA, math.expm1(margin * math.log1p(low))))
        if low < 0
        else -0.5
    )
    top = max(searches.LINE_GAMMAS[-1], min(HIGHEST_GAMMA, margin * high))
    if top <= LINEAR_UP_TO[0]:
        return np.linspace(bottom, top, count).tolist()
    spaced = np.expm1(np.linspace(math.log1p(bottom), math.log1p(top), count))
    return spaced.clip(LOWEST_GAMMA, HIGHEST_GAMMA).tolist()


def ridge_gammas(low: float, high: float) -> list[float]:
    return sorted({0.0, *shown_gammas(low, high, _RIDGE_POINTS)})


def shown_temperatures(inside: Sequence[float], count: int, *, logarithmic: bool) -> list[float]:
    """Return temperatures around these, and T = 1."""
    bottom = max(LOWEST_TEMPERATURE, 0.5 * min(1.0, *inside))
    top = min(HIGHEST_TEMPERATURE, 1.15 * max(1.0, *inside))
    logarithmic = logarithmic or top > LINEAR_UP_TO[1]
    spaced = np.geomspace(bottom, top, count) if logarithmic else np.linspace(bottom, top, count)
    return spaced.clip(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE).tolist()
