"""Which calibrators there are, by the names that files and the command line use."""

from __future__ import annotations

from calibrant._math.text_form import build_from
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.focal_temperature import FocalTemperatureScaling
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.temperature import TemperatureScaling

CALIBRATORS: dict[str, type[Calibrator]] = {
    kind.name: kind for kind in (TemperatureScaling, FocalTemperatureScaling, PlattScaling)
}


def available() -> tuple[str, ...]:
    """Names that :func:`build` knows.

    Example:
        >>> available()
        ('temperature', 'focal-temperature', 'platt')
    """
    return tuple(CALIBRATORS)


def build(text: str) -> Calibrator:
    """Make an unfitted calibrator from its name, followed by settings in brackets if need be.

    Args:
        text: Such as ``temperature`` or ``focal-temperature(objective="ece")``.

    Raises:
        InputError: If the name or a setting is unknown; the message names the nearest one.

    Example:
        >>> build('focal-temperature(objective="ece", search="line")')
        FocalTemperatureScaling(objective='ece', search='line')
    """
    return build_from(text, CALIBRATORS, what="calibrator")
