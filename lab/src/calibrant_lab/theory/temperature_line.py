"""A line through the temperatures closest to the focal map, and what they foretell of networks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calibrant._math.errors import InputError
from calibrant.theory.temperature import closest_temperature

__all__ = ["Composition", "TemperatureFit", "temperature_composition", "temperature_fit"]


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
