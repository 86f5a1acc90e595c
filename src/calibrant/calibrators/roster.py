"""Available calibrators, by their names in files and on the command line."""

from __future__ import annotations

from calibrant._math.text_form import IN_THE_TEXT, build_from, suggesting
from calibrant.calibrators import methods
from calibrant.calibrators.base import Calibrator

CALIBRATORS = {
    kind.name: kind
    for kind in vars(methods).values()
    if isinstance(kind, type) and issubclass(kind, Calibrator)
}


def available() -> tuple[str, ...]:
    """Names for :func:`build`.

    Returns:
        The names, in the order in which they are listed to people.

    Example:
        >>> available()[:3]
        ('temperature', 'focal-temperature', 'platt')
    """
    return tuple(CALIBRATORS)


@suggesting(instead=IN_THE_TEXT.format("temperature(objective='ece')"))
def build(text: str) -> Calibrator:
    """Make an unfitted calibrator from its name, followed by settings in brackets if need be.

    Args:
        text: Such as ``temperature`` or ``focal-temperature(objective="ece")``.

    Returns:
        The calibrator, not yet fitted.

    Raises:
        InputError: If the name or a setting is unknown; the message names the nearest one.

    Example:
        >>> build('focal-temperature(objective="ece", search="line")')
        FocalTemperatureScaling(objective='ece', search='line', selection='none')
    """
    return build_from(text, CALIBRATORS, what="calibrator", remedy=" `calibrant methods` lists them.")
