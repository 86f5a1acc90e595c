"""The best temperature for each exponent: the ridge of focal temperature scaling's objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice, check_logits
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.data import CalibrationData
from calibrant.calibrators.fitting.descent import smooth_minimum
from calibrant.calibrators.fitting.grid import Place, best_on_grid
from calibrant.calibrators.fitting.objectives import DIFFERENTIABLE, OBJECTIVES, Objective, in_effect
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import fit_temperature

_RISE = 0.7  # of log T by log(1 + gamma), about; where the next descent starts
_FACTORS = np.geomspace(1 / 3, 3, 221)  # around the likeliest temperature: steps of one per cent


@dataclass(frozen=True, eq=False, kw_only=True)
class TemperatureRidge:
    """The best temperature at each exponent, and the objective there; float64."""

    gammas: Float[ndarray, " G"]
    temperatures: Float[ndarray, " G"]
    values: Float[ndarray, " G"]

    @property
    def lowest(self) -> Place:
        """The best of these points."""
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
    r"""How the best temperature of focal temperature scaling depends on the exponent.

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
            raise InputError(f"`gammas` must lie from {LOWEST_GAMMA} to {HIGHEST_GAMMA:g}; got {gamma}.")
    samples = single_problem(logits, labels, weights)
    return ridge_of(samples, in_effect(objective, samples), chosen)


def single_problem(logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None) -> Samples:
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    if checked.task == "multilabel" or checked.labels is None:
        raise InputError(
            "`labels` must have shape (N,), one per sample; pass several labels per sample one at a time, "
            "`logits[:, k]` with `labels[:, k]`."
        )
    return next(CalibrationData.of(checked).weighted(checked.weights).problems())


def ridge_of(samples: Samples, objective: Objective, gammas: Sequence[float]) -> TemperatureRidge:
    """The ridge at exponents in any order."""
    followed: Objective = objective if objective in DIFFERENTIABLE else "nll"
    found = _follow(samples, followed, gammas)
    if objective not in DIFFERENTIABLE:
        for gamma, place in found.items():
            window = np.unique(np.clip(place.temperature * _FACTORS, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE))
            found[gamma], _ = best_on_grid(samples, objective, (gamma,), window.tolist())
    places = np.array([found[gamma] for gamma in gammas], dtype=np.float64).reshape(-1, 3)
    return TemperatureRidge(gammas=places[:, 0], temperatures=places[:, 1], values=places[:, 2])


def _follow(samples: Samples, objective: Objective, gammas: Sequence[float]) -> dict[float, Place]:
    """Descents by T alone, from exponent 0 outwards to either side."""
    origin = fit_temperature(samples, objective, "continuous").parameters["temperature"]
    found: dict[float, Place] = {}
    ups = sorted(gamma for gamma in set(gammas) if gamma >= 0)
    downs = sorted((gamma for gamma in set(gammas) if gamma < 0), reverse=True)
    for side in (ups, downs):
        place, temperature, rise = 0.0, math.log(origin), _RISE  # logarithms of 1 + gamma and T
        for gamma in side:
            step = math.log1p(gamma) - place
            start = min(max(math.exp(temperature + rise * step), LOWEST_TEMPERATURE), HIGHEST_TEMPERATURE)
            minimum = smooth_minimum(
                samples, objective, [(start, gamma)], lowest_gamma=gamma, highest_gamma=gamma
            )
            found[gamma] = Place(gamma, minimum.temperature, minimum.value)
            reached = math.log(minimum.temperature)
            if step != 0:
                place, temperature, rise = math.log1p(gamma), reached, (reached - temperature) / step
    return found
