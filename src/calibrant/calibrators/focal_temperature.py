"""Focal temperature scaling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from torch import Tensor

from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.text_form import check_choice
from calibrant.calibrators._grid import Candidate, best_on_grid
from calibrant.calibrators._objectives import BINNED, OBJECTIVES, Objective
from calibrant.calibrators._samples import Samples
from calibrant.calibrators._search import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant.calibrators._smooth import smooth_minimum
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.result import Solution
from calibrant.calibrators.temperature import PAPER_GRID, fit_temperature, with_warnings

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy.typing import NDArray

FocalTemperatureSearch: TypeAlias = Literal["full", "line", "grid"]

PAPER_GAMMAS = (-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
PAPER_TEMPERATURES = tuple((np.arange(1, 501) / 100).tolist())
LOWEST_GAMMA, HIGHEST_GAMMA = -0.999, 50.0

_START_GAMMAS = (-0.95, -0.5, 0.0, 1.0, 4.0, 12.0)
_WIDE_GAMMAS = (-0.9, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 50.0)
_WIDE_FACTORS = np.geomspace(1 / 3, 3, 61)
_LINE_GAMMAS = tuple(np.linspace(-0.5, 5.0, len(PAPER_GRID)).tolist())
_ZOOM_WIDTHS = ((0.03, 0.15), (0.005, 0.03))  # in log T, and in log(1 + gamma) along the ridge
_ZOOM_POINTS = 5


class FocalTemperatureScaling(Calibrator):
    r"""Divide the logits by a temperature, then apply the focal calibration map.

    .. math:: \hat p = \rho_\gamma(\mathrm{softmax}(z / T)), \quad T \in [10^{-2}, 10^2],\ \gamma \in (-1, 50]

    With :math:`\gamma = 0` this is temperature scaling. Every search compares its best point with
    (:math:`\gamma = 0`, T of :class:`TemperatureScaling` under the same objective), so that on its own
    objective and its own data this is never worse. Accuracy and the order of the classes stay as they are. Of
    multilabel predictions every column has its own pair.

    For binary and multilabel predictions the two parameters are nearly exchangeable (:math:`\gamma = 1` is
    :math:`T = 0.5615` to within 8e-4 in probability): compare the maps, not the parameters.

    Args:
        objective: ``"nll"``, ``"brier"``, or calibration error over 15 bins of equal width (``"ece"``) or
            equal mass (``"adaptive_ece"``), of the top label, or of class 1 of binary and multilabel ones.
        search: ``"full"``: Newton's method from several starts; of a binned objective the grid, windows
            beyond it, and finer ones around the best. ``"grid"``: that of Komisarenko and Kull, 9 exponents
            by T = 0.01, ..., 5.00. ``"line"``: their proposal, the line of T over :math:`\gamma` through the
            best T at :math:`\gamma = 0` and 1, on T = 0.1, ..., 10.0 and 100 exponents from -0.5 to 5.

    Raises:
        InputError: If a setting is unknown.

    Note:
        :math:`\gamma` is kept at or above -0.999. Binned objectives jump, and their optimum is partly chance:
        look at ``nll`` too.

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

    def __init__(self, *, objective: Objective = "nll", search: FocalTemperatureSearch = "full") -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(FocalTemperatureSearch))
        super().__init__()
        self.objective: Objective = objective
        self.search: FocalTemperatureSearch = search

    def _solve(
        self,
        scores: Float[Tensor, "N C"] | Float[Tensor, " N"],
        labels: Int[Tensor, " N"],
        weights: Float[Tensor, " N"] | None,
    ) -> Solution:
        samples = Samples(scores, labels, weights)
        simpler = fit_temperature(samples, self.objective, "continuous")
        search = {"full": _full, "line": _line, "grid": _grid}[self.search]
        return with_warnings(samples, _better(search(samples, self.objective, simpler), simpler))

    def _transform(self, scores: Tensor) -> Tensor:
        scaled, gamma = scores / self.temperature.to(scores), self.gamma.to(scores)
        return (
            focal_map_logits(scaled, gamma)
            if self.kind_ == "multiclass"
            else focal_map_log_odds(scaled, gamma)
        )


def _full(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    if objective in BINNED:
        return _full_binned(samples, objective, simpler)
    centre = simpler.parameters["temperature"]
    found = smooth_minimum(
        samples,
        objective,
        [(centre * _steepness(gamma), gamma) for gamma in _START_GAMMAS],
        lowest_gamma=LOWEST_GAMMA,
        highest_gamma=HIGHEST_GAMMA,
    )
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


def _full_binned(samples: Samples, objective: Objective, simpler: Solution) -> Solution:
    best, steps = best_on_grid(samples, objective, PAPER_GAMMAS, PAPER_TEMPERATURES)
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
    (first, steps), (second, more) = (
        best_on_grid(samples, objective, (gamma,), PAPER_GRID) for gamma in (0.0, 1.0)
    )
    rise = second.temperature - first.temperature
    best, steps = min(first, second), steps + more
    for gamma in _LINE_GAMMAS:
        temperature = first.temperature + gamma * rise
        if LOWEST_TEMPERATURE <= temperature <= HIGHEST_TEMPERATURE:
            best, computed = best_on_grid(samples, objective, (gamma,), (temperature,), best=best)
            steps += computed
    return _of_candidate(best, steps, simpler, spacing=0.1)


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
        simpler,
        parameters={**simpler.parameters, "gamma": 0.0},
        message=f"no exponent is better than temperature scaling ({simpler.message})",
        compared=compared,
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
