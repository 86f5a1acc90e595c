"""Calibrators in display order."""
# ruff: noqa: I001

from calibrant._math.lazy import public_names
from calibrant.calibrators.methods.temperatures import TemperatureScaling as TemperatureScaling
from calibrant.calibrators.methods.temperatures import FocalTemperatureScaling as FocalTemperatureScaling
from calibrant.calibrators.methods.log_odds import PlattScaling as PlattScaling
from calibrant.calibrators.methods.linear import VectorScaling as VectorScaling
from calibrant.calibrators.methods.linear import MatrixScaling as MatrixScaling
from calibrant.calibrators.methods.linear import StructuredMatrixScaling as StructuredMatrixScaling
from calibrant.calibrators.methods.linear import DirichletCalibration as DirichletCalibration
from calibrant.calibrators.methods.isotonic import IsotonicCalibration as IsotonicCalibration
from calibrant.calibrators.methods.isotonic import VennAbersCalibration as VennAbersCalibration
from calibrant.calibrators.methods.log_odds import BetaCalibration as BetaCalibration
from calibrant.calibrators.methods.log_odds import QuadraticScaling as QuadraticScaling
from calibrant.calibrators.methods.temperatures import (
    EnsembleTemperatureScaling as EnsembleTemperatureScaling,
)
from calibrant.calibrators.methods.temperatures import (
    SmoothedTemperatureScaling as SmoothedTemperatureScaling,
)
from calibrant.calibrators.methods.linear import (
    BiasCorrectedTemperatureScaling as BiasCorrectedTemperatureScaling,
)
from calibrant.calibrators.methods.binning import HistogramBinning as HistogramBinning
from calibrant.calibrators.methods.binning import ScalingBinning as ScalingBinning
from calibrant.calibrators.methods.binning import BayesianBinning as BayesianBinning
from calibrant.calibrators.methods.top_versus_all import TopVersusAll as TopVersusAll

__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
