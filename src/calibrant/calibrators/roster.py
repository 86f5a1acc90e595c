"""Which calibrators there are, by the names that files and the command line use."""

from __future__ import annotations

from calibrant._math.text_form import build_from
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.methods.bayesian_binning import BayesianBinning
from calibrant.calibrators.methods.beta import BetaCalibration
from calibrant.calibrators.methods.bias_corrected_temperature import BiasCorrectedTemperatureScaling
from calibrant.calibrators.methods.dirichlet import DirichletCalibration
from calibrant.calibrators.methods.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.calibrators.methods.focal_temperature import FocalTemperatureScaling
from calibrant.calibrators.methods.histogram import HistogramBinning
from calibrant.calibrators.methods.isotonic import IsotonicCalibration
from calibrant.calibrators.methods.matrix import MatrixScaling
from calibrant.calibrators.methods.platt import PlattScaling
from calibrant.calibrators.methods.quadratic import QuadraticScaling
from calibrant.calibrators.methods.scaling_binning import ScalingBinning
from calibrant.calibrators.methods.smoothed_temperature import SmoothedTemperatureScaling
from calibrant.calibrators.methods.structured import StructuredMatrixScaling
from calibrant.calibrators.methods.temperature import TemperatureScaling
from calibrant.calibrators.methods.vector import VectorScaling

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
