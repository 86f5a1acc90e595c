"""The Hessian of any loss on any network: products, extreme eigenvalues, trace, spectrum.

Networks, losses and data come as arguments: any ``nn.Module``, any callable of logits and labels that returns
their mean loss, any iterable of ``(inputs, labels)``. Results carry their uncertainty and the number of
products they cost.
"""

from calibrant.curvature.density import SpectralDensity, spectral_density
from calibrant.curvature.eigenvalues import Eigenvalues, top_eigenvalues
from calibrant.curvature.operators import CurvatureOperator, GaussNewtonOperator, HessianOperator
from calibrant.curvature.regularizer import CurvatureRegularizer, Penalised
from calibrant.curvature.sam import SAM
from calibrant.curvature.trace import CurvatureSizes, Trace, curvature_sizes, hessian_trace

__all__ = [
    "SAM",
    "CurvatureOperator",
    "CurvatureRegularizer",
    "CurvatureSizes",
    "Eigenvalues",
    "GaussNewtonOperator",
    "HessianOperator",
    "Penalised",
    "SpectralDensity",
    "Trace",
    "curvature_sizes",
    "hessian_trace",
    "spectral_density",
    "top_eigenvalues",
]
