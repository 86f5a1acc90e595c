"""The temperature scaling that is nearest to the focal calibration map."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from calibrant._math.checks import check_at_least
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma, focal_map_log_odds, focal_map_logits
from calibrant._math.shapes import Float

__all__ = [
    "ClosestTemperature",
    "Composition",
    "TemperatureFit",
    "closest_temperature",
    "temperature_composition",
    "temperature_fit",
]

_GOLDEN = (math.sqrt(5) - 1) / 2
_BINARY_POINTS = 8001
_GRID = {3: 121, 4: 41}  # values of each logit
_REFINEMENTS = 4
_WORST = 40  # rows around which the grid is refined
_ELEMENTS = 400_000  # of the table of logits of more classes


@dataclass(frozen=True, kw_only=True)
class ClosestTemperature:
    """The best temperature, and how far from the map it still is."""

    temperature: float
    error: float
    """The largest difference of a probability."""
    gamma: float
    num_classes: int
    max_logit: float
    """Range of the logits; infinite by default for two classes."""


@dataclass(frozen=True, kw_only=True)
class TemperatureFit:
    """A straight line through inverse temperatures: 1 / T = slope * gamma + intercept."""

    slope: float
    intercept: float
    largest_residual: float
    """Distance of 1 / T from the line."""
    largest_error: float
    """Largest difference of a probability between the map and its closest temperature, over the exponents."""
    gammas: tuple[float, ...]
    temperatures: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Composition:
    """One network trained with focal loss against what the composition argument foretells."""

    gamma: float
    training_temperature: float
    """For the temperature closest to the focal map: what focal loss does during training."""
    generalisation_temperature: float
    """What a properly trained network needs on new data."""
    foretold: float
    """Their product."""
    fitted: float
    """What the focal network needs on new data."""


def closest_temperature(
    gamma: float, num_classes: int = 2, *, max_logit: float | None = None
) -> ClosestTemperature:
    r"""The temperature scaling whose probabilities differ least from the focal calibration map's, at worst.

    .. math:: T^* = \operatorname*{arg\,min}_T \max_z \max_i
              | \rho_\gamma(\mathrm{softmax}(z))_i - \mathrm{softmax}(z / T)_i |

    Two classes: over all log-odds, unless ``max_logit`` is given. More: the last logit is 0 and the others
    are in ``[-max_logit, max_logit]`` (as published, 5). Three and four classes are looked at on a grid,
    refined where the error is largest; more classes on rows of at most three different values, drawn with a
    fixed seed.

    Args:
        gamma: Focal loss's exponent, greater than -1.
        num_classes: K, at least 2.
        max_logit: Range of the logits; of the log-odds for two classes.

    Returns:
        The temperature and the largest error that remains.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or another argument is out of range.

    Note:
        The largest error is a quasi-convex function of 1 / T, so the search finds its one minimum. Two
        classes: to 1e-6; three and four: to 1e-4; from five on to a few per cent, and the error from below.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, sections 3.2 and 3.3. In its captions, T = 0.36 belongs to three classes and
        gamma = 3, and "gamma = 1, 3: T = 0.81, 0.46" to gamma = 0.5 and 2.

    Example:
        >>> found = closest_temperature(1)
        >>> round(found.temperature, 4), round(found.error, 5)
        (0.5615, 0.00079)
        >>> found = closest_temperature(1, 3)
        >>> round(found.temperature, 3), round(found.error, 3)
        (0.658, 0.035)
    """
    check_gamma(gamma)
    check_at_least("num_classes", num_classes, 2)
    if max_logit is not None and not 0 < max_logit < math.inf:
        raise InputError(f"`max_logit` must be above 0 and finite; got {max_logit}.")
    return _closest_temperature(float(gamma), num_classes, max_logit)


def temperature_fit(
    num_classes: int = 2, *, max_gamma: float = 10.0, num_gammas: int = 50, max_logit: float | None = None
) -> TemperatureFit:
    r"""The line :math:`1/T = a \gamma + c` through the closest temperatures, by least squares.

    The exponents are equally spaced in ``(0, max_gamma]``. The line depends on that range: the curve is
    not straight.

    Args:
        num_classes: K, at least 2.
        max_gamma: The largest exponent.
        num_gammas: How many.
        max_logit: As for :func:`closest_temperature`.

    Returns:
        Slope and intercept with their residuals, and the closest temperatures themselves.

    Raises:
        InputError: If an argument is out of range.

    References:
        Komisarenko and Kull, 2024: 0.95 and 0.85 for two classes, 0.64 and 0.91 for three, 0.47 and 0.85 for
        four, ranges partly unsaid.

    Example:
        >>> found = temperature_fit(max_gamma=5, num_gammas=100)
        >>> round(found.slope, 3), round(found.intercept, 3)
        (0.929, 0.863)
    """
    if not max_gamma > 0 or num_gammas < 2:
        raise InputError(
            f"`max_gamma` must be above 0 and `num_gammas` at least 2; got {max_gamma} and {num_gammas}."
        )
    gammas = np.linspace(0, max_gamma, num_gammas + 1)[1:]
    found = [closest_temperature(float(g), num_classes, max_logit=max_logit) for g in gammas]
    inverses = np.array([1 / each.temperature for each in found])
    slope, intercept = np.polyfit(gammas, inverses, 1).tolist()
    return TemperatureFit(
        slope=slope,
        intercept=intercept,
        largest_residual=float(np.abs(inverses - slope * gammas - intercept).max()),
        largest_error=max(each.error for each in found),
        gammas=tuple(gammas.tolist()),
        temperatures=tuple(each.temperature for each in found),
    )


def temperature_composition(
    fitted: Mapping[float, float], *, proper_temperature: float, num_classes: int = 2
) -> tuple[Composition, ...]:
    r"""The composition argument: what focal training does and what generalisation undoes, multiplied.

    A network trained with a proper loss needs a temperature :math:`T_{gen}` above 1 on new data. Focal loss
    trains :math:`\rho_\gamma(\mathrm{softmax}(z))`, about :math:`\mathrm{softmax}(z / T_\gamma)`; if that
    needs the same :math:`T_{gen}`, its bare logits need :math:`T_\gamma T_{gen}`, and where that is about 1
    the network looks calibrated without further ado.

    Args:
        fitted: Temperatures that networks trained with focal loss need on new data, by their exponent.
        proper_temperature: The one that a network trained with cross-entropy needs.
        num_classes: Number of classes, for :func:`closest_temperature`.

    Returns:
        What the argument foretells beside what was fitted, by rising exponent.

    Raises:
        InputError: If a temperature is not above 0, or an exponent is not greater than -1.

    References:
        Komisarenko and Kull, 2024, section 4.1, with :math:`T_\gamma` from 0.4 to 0.5 and :math:`T_{gen}`
        from 2 to 2.5.

    Example:
        >>> (found,) = temperature_composition({1: 1.05}, proper_temperature=1.59, num_classes=3)
        >>> round(found.foretold, 2), found.fitted
        (1.05, 1.05)
    """
    for value in (proper_temperature, *fitted.values()):
        if not 0 < value < math.inf:
            raise InputError(f"temperatures must be above 0 and finite; got {value}.")
    found: list[Composition] = []
    for gamma in sorted(fitted):
        training = closest_temperature(gamma, num_classes).temperature
        found.append(
            Composition(
                gamma=float(gamma),
                training_temperature=training,
                generalisation_temperature=proper_temperature,
                foretold=training * proper_temperature,
                fitted=fitted[gamma],
            )
        )
    return tuple(found)


@functools.lru_cache(maxsize=512)
def _closest_temperature(gamma: float, num_classes: int, max_logit: float | None) -> ClosestTemperature:
    if num_classes == 2:
        reach = min(max_logit or math.inf, 40 / min(1.0, gamma + 1))
        log_odds = torch.from_numpy(np.geomspace(1e-5 * reach, reach, _BINARY_POINTS))
        mapped = focal_map_log_odds(log_odds, gamma).sigmoid()

        def binary_error(inverse: float) -> float:
            return float((mapped - (inverse * log_odds).sigmoid()).abs().max())

        return _closest(binary_error, gamma, 2, max_logit or math.inf, 1e-10)
    reach = 5.0 if max_logit is None else max_logit
    logits = _rows(num_classes, reach)
    found = _closest_on(logits, gamma, reach)
    if num_classes not in _GRID:
        return found
    step = 2 * reach / (_GRID[num_classes] - 1)
    for _ in range(_REFINEMENTS):
        logits = torch.cat([logits, _around_worst(logits, found, step)])
        found = _closest_on(logits, gamma, reach)
        step /= 4
    return found


def _closest_on(logits: Float[Tensor, "G C"], gamma: float, reach: float) -> ClosestTemperature:
    probs = focal_map_logits(logits, gamma).exp()

    def error(inverse: float) -> float:
        return float((probs - (inverse * logits).softmax(1)).abs().max())

    return _closest(error, gamma, logits.shape[1], reach, 1e-6)


def _around_worst(
    logits: Float[Tensor, "G C"], found: ClosestTemperature, step: float
) -> Float[Tensor, "g C"]:
    """Rows nearer than a step to those where the temperature is furthest from the map."""
    mapped = focal_map_logits(logits, found.gamma).exp()
    errors = (mapped - (logits / found.temperature).softmax(1)).abs().amax(1)
    worst = logits[errors.topk(_WORST).indices]
    offsets = torch.linspace(-step, step, 5, dtype=torch.float64)
    free = logits.shape[1] - 1
    moves = torch.cartesian_prod(*[offsets] * free)
    near = (worst[:, None, :free] + moves).reshape(-1, free).clamp(min=-found.max_logit, max=found.max_logit)
    return torch.nn.functional.pad(near, (0, 1))


def _closest(
    error: Callable[[float], float], gamma: float, num_classes: int, max_logit: float, precision: float
) -> ClosestTemperature:
    inverse = 1.0 if gamma == 0 else _quasi_convex_minimum(error, 0.0, max(gamma, 0.5) + 2, precision)
    return ClosestTemperature(
        temperature=1 / inverse,
        error=error(inverse),
        gamma=float(gamma),
        num_classes=num_classes,
        max_logit=max_logit,
    )


def _quasi_convex_minimum(
    function: Callable[[float], float], low: float, high: float, precision: float
) -> float:
    """Where the function is least, by golden section."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > precision * high:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2


def _rows(num_classes: int, reach: float) -> Float[Tensor, "G C"]:
    """Rows of logits to look at, the last one 0; the map does not know the others' names."""
    free = num_classes - 1
    if num_classes in _GRID:
        values = np.linspace(reach, -reach, _GRID[num_classes])
        rows = np.array(list(itertools.combinations_with_replacement(values, free)))
    else:
        rows = _drawn(free, reach)
    return torch.from_numpy(np.pad(rows, ((0, 0), (0, 1))))


def _drawn(free: int, reach: float) -> Float[ndarray, "G c"]:
    """Rows of three values, often at the ends of the range, in random numbers: few large ones, often."""
    generator = np.random.default_rng(0)
    count = max(1000, _ELEMENTS // free)
    values = (1.5 * reach * (2 * generator.random((count, 3)) - 1)).clip(-reach, reach)
    few = np.exp(generator.random((count, 2)) * math.log(free + 1)).astype(int)
    place = np.arange(free)
    kind = (place >= few[:, :1]).astype(int) + (place >= few.sum(1, keepdims=True))
    return np.take_along_axis(values, kind, axis=1)
