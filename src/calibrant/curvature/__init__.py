"""The Hessian of any loss on any network: products, extreme eigenvalues, trace, spectrum.

Results carry their uncertainty and the number of products they cost. Functions share these arguments:

* ``model``, ``loss``, ``data``, ``parameters``, ``mode``: See :class:`HessianOperator`; all are left as they
  are.
* ``matrix``: "hessian", or "gauss-newton".
* ``seed``: Seed of the random vectors.
* ``progress``: Called with the products done and the most there will be.

An ``InputError`` says which argument is out of its range.
"""

from calibrant.curvature.operators import CurvatureOperator, GaussNewtonOperator, HessianOperator
from calibrant.curvature.regularizer import SAM, CurvatureRegularizer, Penalised
from calibrant.curvature.spectrum import Eigenvalues, SpectralDensity, spectral_density, top_eigenvalues
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
