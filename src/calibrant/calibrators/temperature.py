"""Temperature scaling."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import accumulate, repeat
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import width_bin_index
from calibrant._math.checks import check_choice
from calibrant._math.simplex import log_softmax
from calibrant.calibrators._grid import Candidate, best_on_grid
from calibrant.calibrators._objectives import (
    DIFFERENTIABLE,
    NUM_BINS,
    OBJECTIVES,
    Objective,
    in_effect,
    judged_confidences,
    likelihood,
    likelihood_slopes,
    objective_value,
    smooth_objective,
)
from calibrant.calibrators._samples import Samples
from calibrant.calibrators._search import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
)
from calibrant.calibrators._smooth import smooth_minimum
from calibrant.calibrators._temperature_root import MARGIN, TemperatureRoot, convex_minimum
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fold import Affine, scaling
from calibrant.calibrators.result import Solution

if TYPE_CHECKING:
    from jaxtyping import Float, Int

TemperatureSearch: TypeAlias = Literal["continuous", "grid"]

PAPER_GRID: tuple[float, ...] = tuple(accumulate(repeat(0.1, 100)))
"""0.1, 0.2, ..., 10.0, summed up as in the code of Mukhoti et al. (2020)."""

LARGE = 2**17  # entries; beyond, Newton's method starts from the optimum of some of the rows
_THIN_ROWS = 512
_NEARLY_INFINITE = 1e-12  # inverse of a temperature
_STARTS = tuple(np.geomspace(1e-2, 1e2, 9).tolist())
_FINE_GRID = tuple(np.geomspace(1e-2, 1e2, 401).tolist())
_BEYOND = (  # where its first or its last is best
    tuple(np.geomspace(LOWEST_TEMPERATURE, 1e-2, 201)[:-1].tolist()),
    tuple(np.geomspace(1e2, HIGHEST_TEMPERATURE, 201)[1:].tolist()),
)
_ZOOMS, _ZOOM_POINTS = 2, 16
_COLLAPSED = 0.9  # share of the confidences in one bin


class TemperatureScaling(Calibrator):
    r"""Divide the logits by one number.

    .. math:: \hat p = \mathrm{softmax}(z / T), \qquad T = \arg\min_{T \in [10^{-4}, 10^4]} L(T)

    Of multilabel predictions every column has its own T. Accuracy, the order of the classes and log-odds of
    zero stay as they are, so a shift of the log-odds (another prevalence than in training) cannot be mended:
    for that see :class:`PlattScaling`.

    The likelihood is convex in 1 / T: Newton's method finds its one optimum, to a derivative by log T below
    1e-8. Binned objectives jump as samples change bins, and the Brier score may have several minima: the
    default search is at least as good as the grid of Mukhoti et al. (of ``"classwise"``, as those 64 of its
    points that look best between computed ones), and as T = 1.

    Args:
        objective: ``"nll"``, ``"brier"``, or a calibration error: over 15 bins of equal width (``"ece"``) or
            equal mass (``"adaptive_ece"``), or smooth (``"smce"``), of the top label, or of class 1 of binary
            and multilabel ones; or that of every class over 15 bins of equal width (``"classwise"``), which
            for binary and multilabel ones is ``"ece"``.
        search: ``"continuous"``, or ``"grid"``: T = 0.1, 0.2, ..., 10.0 (summed up), the smallest of equals.

    Raises:
        InputError: If a setting is unknown.

    Note:
        O(N C) per step; memory for a block of rows. An optimum on a bound, separable data and logits that say
        nothing are warned of, and told in ``fit_result_``; so is a calibration error that is small only
        because nearly all confidences fall into one bin.

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
        objective = in_effect(self.objective, samples)
        return with_warnings(samples, objective, fit_temperature(samples, objective, self.search))

    def affine(self) -> Affine:
        """Division by the temperature."""
        return scaling(self, 1 / self.temperature)

    def _transform(self, scores: Tensor) -> Tensor:
        scaled = scores / self.temperature.to(scores)
        return log_softmax(scaled) if self.kind_ == "multiclass" else scaled


def fit_temperature(samples: Samples, objective: Objective, search: TemperatureSearch) -> Solution:
    """The temperature of one problem."""
    if search == "grid":
        return _best_of_paper_grid(samples, objective)
    if objective == "nll":
        return _most_likely(samples)
    least = _least_smooth if objective in DIFFERENTIABLE else _least_jumping
    return least(samples, objective)


def _most_likely(samples: Samples) -> Solution:
    start = likeliest_of_some(samples)
    root = convex_minimum(lambda beta: likelihood_slopes(samples, beta), start, bracket=True)
    return of_likeliest(root, root.at_start if start == 1 else likelihood(samples, 1.0), start)


def likeliest_of_some(samples: Samples) -> float:
    """Where to begin: at 1, or for large tables at the optimum of some of the rows."""
    if samples.scores.numel() <= LARGE:
        return 1.0
    thin = samples.thinned(_THIN_ROWS)
    return convex_minimum(lambda beta: likelihood_slopes(thin, beta)).temperature


def of_likeliest(root: TemperatureRoot, before: float, start: float) -> Solution:
    """What a search that began at ``start`` found; ``before`` is the likelihood at T = 1."""
    certificate = {} if root.on_bound else {"gradient": abs(root.slope)}
    if root.bracketed:
        certificate["bracket"] = 2 * MARGIN
    return Solution(
        converged=root.settled,
        steps=root.steps + (start != 1),
        before=before,
        after=root.value,
        parameters={"temperature": root.temperature},
        certificate=certificate,
        message="optimum on a bound" if root.on_bound else f"derivative by log T {abs(root.slope):.1e}",
        warnings=_on_bound(root.temperature),
    )


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
    """Descents from several starts; where a point of the grid lies lower, another one from there."""
    before = objective_value(samples, objective, 1.0)
    found = smooth_minimum(samples, objective, [(temperature, 0.0) for temperature in _STARTS])
    reached = Candidate(found.value, found.temperature, 0.0)
    best, steps = best_on_grid(samples, objective, (0.0,), (*PAPER_GRID, 1.0), best=reached)
    steps += found.steps
    if best is not reached:
        found = smooth_minimum(samples, objective, [(best.temperature, 0.0)])
        steps += found.steps
    temperature, after, slope = found.temperature, found.value, found.slope
    if after >= before:
        temperature, after = 1.0, before
        slope = abs(float(smooth_objective(samples, objective, 1.0, 0.0).gradient[0]))
    return Solution(
        converged=slope < 1e-8,
        steps=steps,
        before=before,
        after=after,
        parameters={"temperature": temperature},
        certificate={"gradient": slope},
        message=f"derivative by log T {slope:.1e}",
        warnings=_on_bound(temperature),
    )


def _least_jumping(samples: Samples, objective: Objective) -> Solution:
    """T = 1 or better: on a fine grid that holds that of the paper, then on finer ones around the best."""
    before = objective_value(samples, objective, 1.0)
    grid = sorted({*PAPER_GRID, *_FINE_GRID})
    stay = Candidate(before, 1.0, 0.0)
    best, steps = best_on_grid(samples, objective, (0.0,), grid, best=stay)
    for end, beyond in zip((grid[0], grid[-1]), _BEYOND, strict=True):
        if best.temperature == end:
            best, computed = best_on_grid(samples, objective, (0.0,), beyond, best=best)
            steps += computed
            grid += beyond
    width = math.log(_FINE_GRID[1] / _FINE_GRID[0])
    for _ in range(_ZOOMS):
        around = best.temperature * np.exp(np.linspace(-width, width, _ZOOM_POINTS))
        around = around.clip(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE).tolist()
        best, computed = best_on_grid(samples, objective, (0.0,), around, best=best)
        steps += computed
        width *= 2 / _ZOOM_POINTS
    searched = f"{len(grid)} temperatures and {_ZOOMS * _ZOOM_POINTS} around the best of these"
    return Solution(
        converged=True,
        steps=steps,
        before=before,
        after=best.value,
        parameters={"temperature": best.temperature},
        certificate={"spacing": width},
        message=f"none of {searched} is better than 1" if best is stay else f"best of {searched}",
        warnings=_on_bound(best.temperature),
    )


def _on_bound(temperature: float) -> tuple[str, ...]:
    if temperature not in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}:
        return ()
    return (f"the best temperature is a bound, T = {temperature:g}",)


def with_warnings(samples: Samples, objective: Objective, solution: Solution) -> Solution:
    """The solution, with what about the data or the objective makes it doubtful."""
    trouble: list[str] = []
    if samples.is_constant:
        trouble.append("the logits of every sample are all equal, which no temperature changes")
    elif bool(samples.correct.all()):
        trouble.append(
            "every sample is classified correctly, so nothing tells how often errors are to be expected"
        )
    elif "bracket" not in solution.certificate and likelihood_slopes(samples, _NEARLY_INFINITE).first >= 0:
        trouble.append(
            "the logits tell nothing of the labels, or the opposite: the likeliest temperature is infinite"
        )
    collapse = None if trouble or objective in DIFFERENTIABLE else _collapse(samples, solution)
    return replace(solution, warnings=(*trouble, *solution.warnings, *([collapse] if collapse else [])))


def _collapse(samples: Samples, solution: Solution) -> str | None:
    """What to say where the error is small because all confidences became alike."""
    after = _fullest_bin(samples, solution.parameters["temperature"], solution.parameters.get("gamma", 0.0))
    before = _fullest_bin(samples, 1.0, 0.0)
    if after < _COLLAPSED or 1 - after > (1 - before) / 2:
        return None
    return (
        f"{after:.0%} of the confidences now fall into one of {NUM_BINS} bins ({before:.0%} before): the "
        'error is small because they hardly differ any more; prefer objective="nll"'
    )


def _fullest_bin(samples: Samples, temperature: float, gamma: float) -> float:
    """Largest share of the confidences judged in one of the bins of equal width."""
    bins = width_bin_index(judged_confidences(samples, temperature, gamma), NUM_BINS)
    return float(torch.bincount(bins, samples.shares, NUM_BINS).max())
