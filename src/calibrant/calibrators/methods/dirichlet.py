"""Dirichlet calibration."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_softmax
from calibrant.calibrators.families.linear import LinearScaling, Standardised, shared
from calibrant.calibrators.families.shrinkage import cross_validated, is_overfitted
from calibrant.calibrators.fitting.regression import Fitted, Regression, regress

Penalty: TypeAlias = float | Literal["auto"]
_USUAL = 1e-3  # of either penalty


class DirichletCalibration(LinearScaling):
    r"""Matrix scaling of log-probabilities, with off-diagonal and intercept regularisation.

    .. math::
       \hat p = \mathrm{softmax}(W \log p + b), \qquad
       \min_{W, b} \; L(W, b) + \frac{\lambda}{C (C - 1)} \sum_{k \ne l} W_{kl}^2 + \frac{\mu}{C} \sum_k b_k^2

    L is the mean negative log-likelihood. Were the probability vectors of each class Dirichlet-distributed,
    this would be the exact posterior. The diagonal is free, so it is never less likely than temperature
    scaling. The predicted class may change.

    Where there is no maximum even so (a class that never occurs, separable data), departures of the diagonal
    from temperature scaling cost as much as one sample would, and a warning says so.

    Args:
        off_diagonal: :math:`\lambda`, at least 0; ``"auto"`` for 1e-3.
        intercept: :math:`\mu`, at least 0; ``"auto"`` for 1e-3.

    Raises:
        InputError: If a setting is negative; on ``fit``, for binary and multilabel log-odds, of which
            :class:`BetaCalibration` is this.

    Note:
        Newton's method on a convex function to a gradient below 1e-8. Penalties given do not fall with N. If
        neither is given and there are more parameters than a tenth of the samples, departures from
        temperature scaling are penalised as in :class:`StructuredMatrixScaling`, as much as three-fold
        cross-validation asks for; a warning says so.

    References:
        Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
        Dirichlet calibration", NeurIPS 2019.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> calibrator = DirichletCalibration().fit(2 * logits, labels)
        >>> [round(weight, 1) for weight in calibrator.weight.diagonal().tolist()]
        [0.5, 0.5, 0.5]
    """

    name = "dirichlet"
    title = "Dirichlet calibration"
    named_after_person = True
    unit_powers: ClassVar = {}
    parameter_shapes: ClassVar = {"weight": ("C", "C"), "bias": ("C",)}

    def __init__(self, *, off_diagonal: Penalty = "auto", intercept: Penalty = "auto") -> None:
        for name, value in (("off_diagonal", off_diagonal), ("intercept", intercept)):
            if value != "auto" and (isinstance(value, str) or not 0 <= value < math.inf):
                raise InputError(f'`{name}` must be at least 0 and finite, or "auto"; got {value!r}.')
        super().__init__()
        self.off_diagonal: Penalty = "auto" if isinstance(off_diagonal, str) else float(off_diagonal)
        self.intercept: Penalty = "auto" if isinstance(intercept, str) else float(intercept)

    def affine(self) -> None:
        """None: log-probabilities are not an affine function of logits."""

    def _features(self, scores: Tensor) -> Float[Tensor, "N C"]:
        return log_softmax(scores)

    def _fit(self, data: Standardised) -> tuple[Fitted, str | None]:
        features, samples = shared(data.logits), data.samples
        if self.off_diagonal == self.intercept == "auto" and is_overfitted(data, features):
            return cross_validated(data, features)
        off_diagonal, intercept = (
            _USUAL if isinstance(each, str) else each for each in (self.off_diagonal, self.intercept)
        )
        num_classes = data.logits.shape[1]
        ridge = torch.full((num_classes, num_classes + 1), 2 * intercept / num_classes).to(data.logits)
        ridge[:, :-1] = 2 * off_diagonal / (num_classes * (num_classes - 1)) / data.scale / data.scale
        ridge[:, :-1].fill_diagonal_(0)
        centre = torch.zeros_like(ridge)
        centre[:, :-1].fill_diagonal_(data.slope)
        fitted = regress(Regression(features, samples.labels, samples.shares, ridge, centre), centre)
        if not fitted.unbounded:
            return fitted, None
        ridge[:, :-1].fill_diagonal_(1 / data.samples.total_weight)
        if min(intercept, off_diagonal) == 0:
            ridge = ridge.clamp(min=1 / data.samples.total_weight)
        fitted = regress(Regression(features, samples.labels, samples.shares, ridge, centre), centre)
        return fitted, (
            "the likelihood has no maximum (separable data, or a class that never occurs), "
            "so departures from temperature scaling were penalised"
        )
