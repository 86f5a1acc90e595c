"""Which calibrators there are, by the names that files and the command line use."""

from __future__ import annotations

from calibrant._math.text_form import build_from
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.bayesian_binning import BayesianBinning
from calibrant.calibrators.beta import BetaCalibration
from calibrant.calibrators.bias_corrected_temperature import BiasCorrectedTemperatureScaling
from calibrant.calibrators.dirichlet import DirichletCalibration
from calibrant.calibrators.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.calibrators.focal_temperature import FocalTemperatureScaling
from calibrant.calibrators.histogram import HistogramBinning
from calibrant.calibrators.isotonic import IsotonicCalibration
from calibrant.calibrators.matrix import MatrixScaling
from calibrant.calibrators.platt import PlattScaling
from calibrant.calibrators.quadratic import QuadraticScaling
from calibrant.calibrators.scaling_binning import ScalingBinning
from calibrant.calibrators.smoothed_temperature import SmoothedTemperatureScaling
from calibrant.calibrators.structured import StructuredMatrixScaling
from calibrant.calibrators.temperature import TemperatureScaling
from calibrant.calibrators.vector import VectorScaling

CALIBRATORS: dict[str, type[Calibrator]] = {
    kind.name: kind
    for kind in (
        TemperatureScaling,
        FocalTemperatureScaling,
        PlattScaling,
        VectorScaling,
        MatrixScaling,
        StructuredMatrixScaling,
        DirichletCalibration,
        IsotonicCalibration,
        BetaCalibration,
        QuadraticScaling,
        EnsembleTemperatureScaling,
        SmoothedTemperatureScaling,
        BiasCorrectedTemperatureScaling,
        HistogramBinning,
        ScalingBinning,
        BayesianBinning,
    )
}


def available() -> tuple[str, ...]:
    """Names that :func:`build` knows.

    Returns:
        The names, in the order in which they are listed to people.

    Example:
        >>> available()[:3]
        ('temperature', 'focal-temperature', 'platt')
    """
    return tuple(CALIBRATORS)


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
    return build_from(text, CALIBRATORS, what="calibrator")
