"""Focal temperature scaling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import check_choice
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant.calibrators._folds import fold_numbers, mean_and_error
from calibrant.calibrators._grid import Candidate, Point, best_on_grid, best_on_line
from calibrant.calibrators._objectives import (
    DIFFERENTIABLE,
    OBJECTIVES,
    Objective,
    in_effect,
    judged_confidences,
    log_losses,
)
from calibrant.calibrators._samples import Samples
from calibrant.calibrators._search import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant.calibrators._smooth import smooth_minimum
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fold import Affine, scaling
from calibrant.calibrators.result import Solution
from calibrant.calibrators.temperature import PAPER_GRID, fit_temperature, with_warnings

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy.typing import NDArray

FocalTemperatureSearch: TypeAlias = Literal["full", "line", "grid"]

Selection: TypeAlias = Literal["none", "cross_validated"]

PAPER_GAMMAS = (-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
PAPER_TEMPERATURES = tuple((np.arange(1, 501) / 100).tolist())
LINE_GAMMAS = tuple(np.linspace(-0.5, 5.0, len(PAPER_GRID)).tolist())
LOWEST_GAMMA, HIGHEST_GAMMA = -0.999, 50.0

_START_GAMMAS = (-0.95, -0.5, 0.0, 1.0, 4.0, 12.0)
_WIDE_GAMMAS = (-0.9, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0)
_WIDE_FACTORS = np.geomspace(1 / 3, 3, 61)
_ZOOM_WIDTHS = ((0.03, 0.15), (0.005, 0.03))  # in log T, and in log(1 + gamma) along the ridge
_ZOOM_POINTS = 5
_NUM_FOLDS = 5


class FocalTemperatureScaling(Calibrator):
    r"""Divide the logits by a temperature, then apply the focal calibration map.

    .. math:: \hat p = \rho_\gamma(\mathrm{softmax}(z / T)), \quad T \in [10^{-4}, 10^4],\ \gamma \in (-1, 50]

    With :math:`\gamma = 0` this is temperature scaling. Every search compares its best point with
    (:math:`\gamma = 0`, T of :class:`TemperatureScaling` under the same objective), so that on its own
    objective and its own data this is never worse. Accuracy and the order of the classes stay as they are. Of
    multilabel predictions every column has its own pair.

    For binary and multilabel predictions the two parameters are nearly exchangeable (:math:`\gamma = 1` is
    :math:`T = 0.5615` to within 8e-4 in probability): compare the maps, not the parameters.

    Args:
        objective: As for :class:`TemperatureScaling`.
        search: ``"full"``: Newton's method from several starts; of a calibration error the grid, the line,
            windows beyond them, and finer ones around the best. ``"grid"``: that of Komisarenko and Kull, 9
            exponents by T = 0.01, ..., 5.00. ``"line"``: their proposal, the line of T over :math:`\gamma`
            through the best T at :math:`\gamma = 0` and 1, on T = 0.1, ..., 10.0 and 100 exponents from -0.5
            to 5.
        selection: ``"cross_validated"`` uses :math:`\gamma` only where it pays: if over five folds, whatever
            the objective, the held-out log-loss falls by more than one standard error of its fall; else this
            is temperature scaling. ``fit_result_.held_out`` tells ``gain`` and ``gain_error``. Takes the
            time of five more fits.

    Raises:
        InputError: If a setting is unknown.

    Note:
        :math:`\gamma` is kept at or above -0.999. Calibration errors jump, their optimum is partly chance,
        and they can be won by making all confidences alike, which is warned of: look at ``nll`` too.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 4 * torch.randn(2000, 5, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
        >>> result = FocalTemperatureScaling().fit(logits, labels).fit_result_
        >>> result.before > result.compared["temperature"] >= result.after
        True
    """

    name = "focal-temperature"
    title = "Focal temperature scaling"
    parameter_ranges: ClassVar = {
        "temperature": (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE),
        "gamma": (LOWEST_GAMMA, HIGHEST_GAMMA),
    }
    temperature: Tensor
    gamma: Tensor

    def __init__(
        self,
        *,
        objective: Objective = "nll",
        search: FocalTemperatureSearch = "full",
        selection: Selection = "none",
    ) -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(FocalTemperatureSearch))
        check_choice("selection", selection, get_args(Selection))
        super().__init__()
        self.selection: Selection = selection
        self.objective: Objective = objective
        self.search: FocalTemperatureSearch = search

    def _solve(
        self,
        scores: Float[Tensor, "N C"] | Float[Tensor, " N"],
        labels: Int[Tensor, " N"],
        weights: Float[Tensor, " N"] | None,
    ) -> Solution:
        samples = Samples(scores, labels, weights)
        objective = in_effect(self.objective, samples)
        simpler, found = self._both(samples, objective)
        if self.selection == "cross_validated" and found.parameters["gamma"] != 0:
            found = self._where_it_pays(samples, objective, simpler, found)
        return with_warnings(samples, objective, found)

    def _solve_near(
        self,
        start: Mapping[str, float],
        scores: Float[Tensor, "N C"] | Float[Tensor, " N"],
        labels: Int[Tensor, " N"],
        weights: Float[Tensor, " N"] | None,
    ) -> Solution:
        samples = Samples(scores, labels, weights)
        objective = in_effect(self.objective, samples)
        smooth = self.search == "full" and self.selection == "none" and objective in DIFFERENTIABLE
        # Of events the two are nearly exchangeable: there are optima far apart, and the search takes no time.
        if samples.is_event or not smooth:
            return self._solve(scores, labels, weights)
        simpler = fit_temperature(samples, objective, "continuous")
        found = _descended(samples, objective, simpler, [(start["temperature"], start["gamma"])])
        return with_warnings(samples, objective, _better(found, simpler))

    def _both(self, samples: Samples, objective: Objective) -> tuple[Solution, Solution]:
        """Temperature scaling, and what is at least as good."""
        simpler = fit_temperature(samples, objective, "continuous")
        search = {"full": _full, "line": _line, "grid": _grid}[self.search]
        return simpler, _better(search(samples, objective, simpler), simpler)

    def _where_it_pays(
        self, samples: Samples, objective: Objective, simpler: Solution, found: Solution
    ) -> Solution:
        """Temperature scaling unless held-out log-loss falls by more than one standard error with gamma."""
        if samples.num_samples < 2 * _NUM_FOLDS:
            return _without_exponent(
                simpler, found, f"gamma needs {2 * _NUM_FOLDS} samples to be cross-validated"
            )
        confidences = judged_confidences(samples, 1.0, 0.0)
        ranking = torch.maximum(confidences, 1 - confidences) if samples.is_event else confidences
        numbers = fold_numbers(ranking, samples.correct, _NUM_FOLDS)
        falls = torch.empty_like(ranking)
        for fold in range(_NUM_FOLDS):
            inside = numbers == fold
            losses = [
                log_losses(
                    samples.part(inside), other.parameters["temperature"], other.parameters.get("gamma", 0.0)
                )
                for other in self._both(samples.part(~inside), objective)
            ]
            falls[inside] = losses[0] - losses[1]
        gain, error = mean_and_error(falls, samples.shares)
        told = f"held-out log-loss falls by {gain:.1e} with gamma, standard error {error:.1e}"
        held = {"gain": gain, "gain_error": error}
        if gain > error:
            return replace(found, held_out=held, message=f"{found.message}; {told}")
        return replace(_without_exponent(simpler, found, told), held_out=held)

    def affine(self) -> Affine | None:
        """Division by the temperature, where every exponent is zero."""
        return None if bool(self.gamma.any()) else scaling(self, 1 / self.temperature)

    def _transform(self, scores: Tensor) -> Tensor:
        scaled, gamma = scores / self.temperature.to(scores), self.gamma.to(scores)
        return (
            focal_map_logits(scaled, gamma)
            if self.kind_ == "multiclass"
            else focal_map_log_odds(scaled, gamma)
        )


def _full(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    if objective not in DIFFERENTIABLE:
        return _full_jumping(samples, objective, simpler)
    centre = simpler.parameters["temperature"]
    starts = [(centre * _steepness(gamma), gamma) for gamma in _START_GAMMAS]
    return _descended(samples, objective, simpler, starts)


def _descended(
    samples: Samples, objective: Objective, simpler: Solution, starts: Sequence[tuple[float, float]]
) -> Solution:
    """Where Newton's method ends."""
    found = smooth_minimum(samples, objective, starts, lowest_gamma=LOWEST_GAMMA, highest_gamma=HIGHEST_GAMMA)
    return Solution(
        converged=found.slope < 1e-8,
        steps=found.steps,
        before=simpler.before,
        after=found.value,
        parameters={"temperature": found.temperature, "gamma": found.gamma},
        certificate={"gradient": found.slope},
        message=f"gradient {found.slope:.1e} by log T and log(1 + gamma)",
        warnings=_on_bounds(found.temperature, found.gamma),
    )


def _full_jumping(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    """The paper's grid, the line, windows along the ridge beyond them, and finer ones around the best."""
    best = Candidate(simpler.after, simpler.parameters["temperature"], 0.0)
    best, steps = best_on_grid(samples, objective, PAPER_GAMMAS, PAPER_TEMPERATURES, best=best)
    best, computed = _best_on_papers_line(samples, objective, best)
    steps += computed
    centre = fit_temperature(samples, "nll", "continuous").parameters["temperature"]
    for gamma in _WIDE_GAMMAS:
        window = _inside(centre * _steepness(gamma) * _WIDE_FACTORS)
        best, computed = best_on_grid(samples, objective, (gamma,), window, best=best)
        steps += computed
    for width, width_along_ridge in _ZOOM_WIDTHS:
        origin = best
        shifts = np.linspace(-width_along_ridge, width_along_ridge, _ZOOM_POINTS)
        for gamma in np.expm1(math.log1p(origin.gamma) + shifts).clip(LOWEST_GAMMA, HIGHEST_GAMMA).tolist():
            ridge = origin.temperature * _steepness(gamma) / _steepness(origin.gamma)
            window = _inside(ridge * np.exp(np.linspace(-width, width, _ZOOM_POINTS)))
            best, computed = best_on_grid(samples, objective, (gamma,), window, best=best)
            steps += computed
    return _of_candidate(best, steps, simpler, spacing=_ZOOM_WIDTHS[-1][0] / (_ZOOM_POINTS // 2))


def _grid(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    best, steps = best_on_grid(samples, objective, PAPER_GAMMAS, PAPER_TEMPERATURES)
    return _of_candidate(best, steps, simpler, spacing=0.01)


def _line(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    best, steps = _best_on_papers_line(samples, objective, None)
    return _of_candidate(best, steps, simpler, spacing=0.1)


def _best_on_papers_line(
    samples: Samples, objective: Objective, best: Candidate | None
) -> tuple[Candidate, int]:
    """The best of the line through the best temperatures at exponents 0 and 1, these two, and ``best``."""
    (first, steps), (second, more) = (
        best_on_grid(samples, objective, (gamma,), PAPER_GRID) for gamma in (0.0, 1.0)
    )
    points = line_through(first, second)
    for candidate in (first, second):
        best = candidate if best is None or candidate.value < best.value else best
    best, computed = best_on_line(samples, objective, points, best=best or first)
    return best, steps + more + computed


def line_through(first: Candidate, second: Candidate) -> list[Point]:
    """The points that the search along the line looks at, from the best at exponents 0 and 1."""
    rise = second.temperature - first.temperature
    points = [(first.temperature + gamma * rise, gamma) for gamma in LINE_GAMMAS]
    return [point for point in points if LOWEST_TEMPERATURE <= point[0] <= HIGHEST_TEMPERATURE]


def _of_candidate(best: Candidate, steps: int, simpler: Solution, *, spacing: float) -> Solution:
    return Solution(
        converged=True,
        steps=steps,
        before=simpler.before,
        after=best.value,
        parameters={"temperature": best.temperature, "gamma": best.gamma},
        certificate={"spacing": spacing},
        message=f"best point found, {steps} computed exactly",
        warnings=_on_bounds(best.temperature, best.gamma),
    )


def _better(found: Solution, simpler: Solution) -> Solution:
    """The better of the two; temperature scaling unless the improvement is more than rounding."""
    compared = {"temperature": simpler.after}
    if found.after < simpler.after - 1e-12:
        return replace(found, compared=compared)
    return replace(
        _without_exponent(simpler, found, "no exponent is better than temperature scaling"), compared=compared
    )


def _without_exponent(simpler: Solution, found: Solution, why: str) -> Solution:
    """Temperature scaling as a special case."""
    return replace(
        simpler,
        parameters={**simpler.parameters, "gamma": 0.0},
        message=f"{why} ({simpler.message})",
        compared=found.compared,
    )


def _steepness(gamma: float) -> float:
    """Slope of the binary map at even odds: about the temperature that undoes it."""
    return gamma + 1 - gamma * (2 * math.log(2) - 1) / (1 + gamma * math.log(2))


def _inside(temperatures: NDArray[np.float64]) -> list[float]:
    return np.unique(np.clip(temperatures, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)).tolist()


def _on_bounds(temperature: float, gamma: float) -> tuple[str, ...]:
    found = []
    if temperature in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}:
        found.append(f"the best temperature is a bound, T = {temperature:g}")
    if gamma in {LOWEST_GAMMA, HIGHEST_GAMMA}:
        found.append(f"the best exponent is a bound, gamma = {gamma:g}")
    return tuple(found)
