"""The calibrators, one per file, in the order in which they are listed to people."""
# ruff: noqa: I001

from calibrant._math.rosters import public_names
from calibrant.calibrators.methods.temperature import TemperatureScaling as TemperatureScaling
from calibrant.calibrators.methods.focal_temperature import FocalTemperatureScaling as FocalTemperatureScaling
from calibrant.calibrators.methods.platt import PlattScaling as PlattScaling
from calibrant.calibrators.methods.vector import VectorScaling as VectorScaling
from calibrant.calibrators.methods.matrix import MatrixScaling as MatrixScaling
from calibrant.calibrators.methods.structured import StructuredMatrixScaling as StructuredMatrixScaling
from calibrant.calibrators.methods.dirichlet import DirichletCalibration as DirichletCalibration
from calibrant.calibrators.methods.isotonic import IsotonicCalibration as IsotonicCalibration
from calibrant.calibrators.methods.venn_abers import VennAbersCalibration as VennAbersCalibration
from calibrant.calibrators.methods.beta import BetaCalibration as BetaCalibration
from calibrant.calibrators.methods.quadratic import QuadraticScaling as QuadraticScaling
from calibrant.calibrators.methods.ensemble_temperature import (
    EnsembleTemperatureScaling as EnsembleTemperatureScaling,
)
from calibrant.calibrators.methods.smoothed_temperature import (
    SmoothedTemperatureScaling as SmoothedTemperatureScaling,
)
from calibrant.calibrators.methods.bias_corrected_temperature import (
    BiasCorrectedTemperatureScaling as BiasCorrectedTemperatureScaling,
)
from calibrant.calibrators.methods.histogram import HistogramBinning as HistogramBinning
from calibrant.calibrators.methods.scaling_binning import ScalingBinning as ScalingBinning
from calibrant.calibrators.methods.bayesian_binning import BayesianBinning as BayesianBinning

__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
