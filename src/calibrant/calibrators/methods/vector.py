"""Vector scaling."""

from __future__ import annotations

from typing import ClassVar

from calibrant._math.checks import Task
from calibrant.calibrators.families.linear import LinearScaling, Standardised, per_class
from calibrant.calibrators.families.shrinkage import most_likely
from calibrant.calibrators.fitting.regression import Fitted


class VectorScaling(LinearScaling):
    r"""Scale and shift the logits of each class.

    .. math:: \hat p = \mathrm{softmax}(w \odot z + b)

    The logits z of a sample are centred first, as their mean says nothing. With equal factors and no shifts
    this is temperature scaling, so it is never less likely; the shifts mend class frequencies that differ
    from those in training. The predicted class may change.

    With more parameters than a tenth of the samples, departures from temperature scaling are penalised as in
    :class:`StructuredMatrixScaling`, by as much as three-fold cross-validation asks for. If the likelihood
    has no maximum (separable data, a class that never occurs), they cost as much as one sample. A warning
    says so.

    Raises:
        InputError: On ``fit``, for binary and multilabel log-odds; there it is :class:`PlattScaling`.

    Note:
        Newton's method on a convex function of 2 C parameters to a gradient below 1e-8, O(N C) memory.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Example:
        >>> import torch
        >>> logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]])).expand(100, 3)
        >>> labels = torch.tensor([0, 0, 1, 1, 1, 1, 1, 2, 2, 2] * 10)
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # the logits of all samples are the same
        ...     calibrator = VectorScaling().fit(logits, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(logits)[0].tolist()]
        [0.2, 0.5, 0.3]
    """

    name = "vector"
    title = "Vector scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)
    parameter_shapes: ClassVar = {"weight": ("C",), "bias": ("C",)}

    def _fit(self, data: Standardised) -> tuple[Fitted, str | None]:
        return most_likely(data, per_class(data.logits))
