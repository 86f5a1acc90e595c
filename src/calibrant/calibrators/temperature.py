"""Temperature scaling."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from torch import Tensor

from calibrant._math.simplex import log_softmax
from calibrant._math.text_form import check_choice
from calibrant.calibrators._grid import best_on_grid
from calibrant.calibrators._objectives import (
    BINNED,
    OBJECTIVES,
    Objective,
    Slopes,
    likelihood_slopes,
    objective_value,
)
from calibrant.calibrators._samples import Samples
from calibrant.calibrators._search import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    convex_minimum,
)
from calibrant.calibrators._smooth import smooth_minimum
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.result import Solution

if TYPE_CHECKING:
    from jaxtyping import Float, Int

TemperatureSearch: TypeAlias = Literal["continuous", "grid"]

PAPER_GRID: tuple[float, ...] = tuple(accumulate(repeat(0.1, 100)))
"""0.1, 0.2, ..., 10.0, summed up as in the code of Mukhoti et al. (2020)."""

_LARGE = 2**21  # entries; beyond, Newton's method starts from the optimum of some of the rows
_THIN_ROWS = 1024
_MARGIN = 1e-6  # in log T
_NEARLY_INFINITE = 1e-12  # inverse of a temperature
_STARTS = tuple(np.geomspace(1e-2, 1e2, 9).tolist())
_FINE_GRID = tuple(np.geomspace(1e-2, 1e2, 401).tolist())
_ZOOMS, _ZOOM_POINTS = 2, 16


class TemperatureScaling(Calibrator):
    r"""Divide the logits by one number.

    .. math:: \hat p = \mathrm{softmax}(z / T), \qquad T = \arg\min_{T \in [10^{-2}, 10^2]} L(T)

    Of multilabel predictions every column has its own T. Accuracy, the order of the classes and log-odds of
    zero stay as they are, so a shift of the log-odds (another prevalence than in training) cannot be mended:
    for that see :class:`PlattScaling`.

    The likelihood is convex in 1 / T: Newton's method finds its one optimum, to a derivative by log T below
    1e-8. Binned objectives jump as samples change bins, and the Brier score may have several minima: the
    default search is at least as good as the grid of Mukhoti et al., and as T = 1.

    Args:
        objective: ``"nll"``, ``"brier"``, or calibration error over 15 bins of equal width (``"ece"``) or
            equal mass (``"adaptive_ece"``), of the top label, or of class 1 of binary and multilabel ones.
        search: ``"continuous"``, or ``"grid"``: T = 0.1, 0.2, ..., 10.0 (summed up), the smallest of equals.

    Raises:
        InputError: If a setting is unknown.

    Note:
        O(N C) per step; memory for a block of rows. An optimum on a bound, separable data and logits that say
        nothing are warned of, and told in ``fit_result_``.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017. The grid: Mukhoti et al.,
        "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> import torch
        >>> labels = torch.arange(100) % 2
        >>> right = torch.where(torch.arange(100) < 80, 1.0, -1.0)
        >>> logits = right * (2 * labels - 1) * 5
        >>> calibrator = TemperatureScaling().fit(logits, labels)
        >>> round(calibrator.fit_result_.parameters["temperature"], 6)  # 5 / log(80 / 20)
        3.606738
        >>> round(calibrator.predict_proba(torch.tensor([5.0])).item(), 6)
        0.8
    """

    name = "temperature"
    title = "Temperature scaling"
    parameter_ranges: ClassVar = {"temperature": (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)}
    temperature: Tensor

    def __init__(self, *, objective: Objective = "nll", search: TemperatureSearch = "continuous") -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(TemperatureSearch))
        super().__init__()
        self.objective: Objective = objective
        self.search: TemperatureSearch = search

    def _solve(
        self,
        scores: Float[Tensor, "N C"] | Float[Tensor, " N"],
        labels: Int[Tensor, " N"],
        weights: Float[Tensor, " N"] | None,
    ) -> Solution:
        samples = Samples(scores, labels, weights)
        return with_warnings(samples, fit_temperature(samples, self.objective, self.search))

    def _transform(self, scores: Tensor) -> Tensor:
        scaled = scores / self.temperature.to(scores)
        return log_softmax(scaled) if self.kind_ == "multiclass" else scaled


def fit_temperature(samples: Samples, objective: Objective, search: TemperatureSearch) -> Solution:
    """The temperature of one problem."""
    if search == "grid":
        return _best_of_paper_grid(samples, objective)
    if objective == "nll":
        return _most_likely(samples)
    return _least_binned(samples, objective) if objective in BINNED else _least_smooth(samples, objective)


def _most_likely(samples: Samples) -> Solution:
    start = 1.0
    if samples.scores.numel() > _LARGE:
        thin = samples.thinned(_THIN_ROWS)
        start = convex_minimum(lambda beta: likelihood_slopes(thin, beta)).temperature
    slopes = cache(lambda beta: likelihood_slopes(samples, beta))
    before = slopes(1.0)
    root = convex_minimum(slopes, start)
    certificate: dict[str, float] = {}
    if not root.on_bound:
        certificate["gradient"] = abs(root.slope)
        if _changes_sign(slopes, root.temperature):
            certificate["bracket"] = 2 * _MARGIN
    return Solution(
        converged=root.settled,
        steps=slopes.cache_info().misses,
        before=before.value,
        after=root.value,
        parameters={"temperature": root.temperature},
        certificate=certificate,
        message=f"derivative by log T {abs(root.slope):.1e}" if not root.on_bound else "optimum on a bound",
        warnings=_on_bound(root.temperature),
    )


def _changes_sign(slopes: Callable[[float], Slopes], temperature: float) -> bool:
    """Whether the derivative has opposite signs close by on either side."""
    colder, warmer = (slopes(math.exp(shift) / temperature).first for shift in (_MARGIN, -_MARGIN))
    return colder > 0 > warmer


def _best_of_paper_grid(samples: Samples, objective: Objective) -> Solution:
    best, computed = best_on_grid(samples, objective, (0.0,), PAPER_GRID)
    at_end = best.temperature in {PAPER_GRID[0], PAPER_GRID[-1]}
    return Solution(
        converged=True,
        steps=computed,
        before=objective_value(samples, objective, 1.0),
        after=best.value,
        parameters={"temperature": best.temperature},
        certificate={"spacing": 0.1},
        message=f"best of {len(PAPER_GRID)} temperatures",
        warnings=(f"the best temperature is the end of the grid, {best.temperature:g}",) if at_end else (),
    )


def _least_smooth(samples: Samples, objective: Objective) -> Solution:
    before = objective_value(samples, objective, 1.0)
    found = smooth_minimum(samples, objective, [(temperature, 0.0) for temperature in _STARTS])
    temperature = found.temperature if found.value < before else 1.0
    return Solution(
        converged=found.slope < 1e-8,
        steps=found.steps,
        before=before,
        after=min(found.value, before),
        parameters={"temperature": temperature},
        certificate={"gradient": found.slope},
        message=f"derivative by log T {found.slope:.1e}",
        warnings=_on_bound(temperature),
    )


def _least_binned(samples: Samples, objective: Objective) -> Solution:
    """A fine grid that holds that of the paper, then finer ones around the best."""
    before = objective_value(samples, objective, 1.0)
    grid = sorted({1.0, *PAPER_GRID, *_FINE_GRID})
    best, steps = best_on_grid(samples, objective, (0.0,), grid)
    width = math.log(_FINE_GRID[1] / _FINE_GRID[0])
    for _ in range(_ZOOMS):
        around = best.temperature * np.exp(np.linspace(-width, width, _ZOOM_POINTS))
        around = around.clip(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE).tolist()
        closer, computed = best_on_grid(samples, objective, (0.0,), around)
        best, steps = (closer if closer.value < best.value else best), steps + computed
        width *= 2 / _ZOOM_POINTS
    return Solution(
        converged=True,
        steps=steps,
        before=before,
        after=min(best.value, before),
        parameters={"temperature": best.temperature if best.value < before else 1.0},
        certificate={"spacing": width},
        message=f"best of {len(grid)} temperatures and {_ZOOMS * _ZOOM_POINTS} around the best of these",
        warnings=_on_bound(best.temperature),
    )


def _on_bound(temperature: float) -> tuple[str, ...]:
    if temperature not in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}:
        return ()
    return (f"the best temperature is a bound, T = {temperature:g}",)


def with_warnings(samples: Samples, solution: Solution) -> Solution:
    """The solution, with what about the data leaves the temperature undetermined or sends it to a bound."""
    trouble = None
    if samples.is_constant:
        trouble = "the logits of every sample are all equal, which no temperature changes"
    elif bool(samples.correct.all()):
        trouble = "every sample is classified correctly, so nothing tells how often errors are to be expected"
    elif likelihood_slopes(samples, _NEARLY_INFINITE).first >= 0:
        trouble = (
            "the logits tell nothing of the labels, or the opposite: the likeliest temperature is infinite"
        )
    return replace(solution, warnings=(trouble, *solution.warnings)) if trouble else solution
