"""Matrix scaling."""

from __future__ import annotations

from typing import ClassVar

from calibrant.calibrators.families.linear import LinearScaling, Standardised, shared
from calibrant.calibrators.families.shrinkage import most_likely
from calibrant.calibrators.fitting.regression import Fitted


class MatrixScaling(LinearScaling):
    r"""Multiply the logits by a matrix and shift them.

    .. math:: \hat p = \mathrm{softmax}(W z + b)

    The logits z of a sample are centred first, as their mean says nothing. C² + C parameters overfit unless
    there are many more samples than that: :class:`StructuredMatrixScaling` is the safe form. The predicted
    class may change.

    With more parameters than a tenth of the samples, departures from temperature scaling are penalised as in
    :class:`StructuredMatrixScaling`, by as much as three-fold cross-validation asks for. If the likelihood
    has no maximum (separable data, a class that never occurs), they cost as much as one sample. A warning
    says so.

    Raises:
        InputError: On ``fit``, for binary and multilabel log-odds; see :class:`PlattScaling`.

    Note:
        Newton's method on a convex function to a gradient below 1e-8; beyond 512 parameters its steps are
        found by conjugate gradients, so that no matrix of second derivatives is needed.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> mixed = logits + logits[:, [1, 2, 0]]  # every class with a part of another
        >>> fit = MatrixScaling().fit(mixed, labels).fit_result_
        >>> fit.converged, fit.after < fit.compared["temperature"] - 0.1
        (True, True)
    """

    name = "matrix"
    title = "Matrix scaling"
    parameter_shapes: ClassVar = {"weight": ("C", "C"), "bias": ("C",)}

    def _fit(self, data: Standardised) -> tuple[Fitted, str | None]:
        return most_likely(data, shared(data.logits))
