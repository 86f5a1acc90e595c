"""Bias-corrected temperature scaling."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.newton import Expansion, Vector, minimise_in_box
from calibrant._math.shapes import Float
from calibrant.calibrators.families.linear import LinearScaling, Standardised
from calibrant.calibrators.fitting.regression import Fitted

_FARTHEST = 30.0  # biases apart; beyond, they only grow because nothing holds them


class BiasCorrectedTemperatureScaling(LinearScaling):
    r"""Divide the logits by one number and shift each class (BCTS).

    .. math:: \hat p = \mathrm{softmax}(z / T + b)

    The shifts make the mean probability of each class equal its frequency, which correction for another class
    prior rests on (:func:`estimate_prior`); :class:`VectorScaling` has a factor for every class besides. The
    likelihood is at least that of temperature scaling. The predicted class may change.

    Where the likelihood has no maximum (separable data, a class that never occurs) departures from
    temperature scaling cost as much as one sample would, and a warning says so.

    Raises:
        InputError: On ``fit``, for binary and multilabel log-odds, of which :class:`PlattScaling` is this.

    Note:
        Newton's method on a convex function of C + 1 parameters, O(N C²) per step. ``weight`` holds 1 / T for
        every class.

    References:
        Alexandari, Kundaje and Shrikumar, "Maximum Likelihood with Bias-Corrected Calibration is
        Hard-To-Beat at Label Shift Adaptation", ICML 2020.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> rare = 2 * logits + torch.tensor([0.0, 0.0, 3.0])  # class 2 is rarer than these logits say
        >>> calibrator = BiasCorrectedTemperatureScaling().fit(rare, labels)
        >>> mean = calibrator.predict_proba(rare).mean(dim=0)
        >>> torch.allclose(mean, labels.bincount().double() / 2000, atol=1e-8)
        True
    """

    name = "bias-corrected-temperature"
    title = "Bias-corrected temperature scaling"
    parameter_shapes: ClassVar = {"weight": ("C",), "bias": ("C",)}

    def _fit(self, data: Standardised) -> tuple[Fitted, str | None]:
        found = _likeliest(data, 0.0)
        if not _unbounded(data, found):
            return found, None
        return _likeliest(data, 1 / data.samples.total_weight), (
            "the likelihood has no maximum (separable data, or a class that never occurs), "
            "so departures from temperature scaling were penalised"
        )


def _likeliest(data: Standardised, ridge: float) -> Fitted:
    """Slope and shifts of standardised logits, from those of temperature scaling."""
    loss, count = _Loss(data, ridge), data.logits.shape[1]
    low = np.array([0.0, *[-math.inf] * count])
    high = np.full(count + 1, math.inf)
    found = minimise_in_box(loss, loss.start, low, high, longest_step=math.inf)
    point = torch.from_numpy(found.point).to(data.logits)
    theta = torch.stack([point[:1].expand(count), point[1:] - point[1:].mean()], dim=1)
    return Fitted(theta, found.value, found.slope, found.steps, unbounded=False)


def _unbounded(data: Standardised, found: Fitted) -> bool:
    """Whether some direction makes the data ever likelier."""
    labels = data.samples.labels
    slope, shifts = found.theta.T
    right = (data.logits * slope + shifts).argmax(dim=1) == labels
    absent = len(labels.unique()) < data.logits.shape[1]
    return absent or bool(right.all()) or float(shifts.max() - shifts.min()) > _FARTHEST


class _Loss:
    """Mean negative log-likelihood of slope and shifts, and half the weighted distance from the start."""

    def __init__(self, data: Standardised, ridge: float) -> None:
        self._data, self._ridge = data, ridge
        self.start: Vector = np.array([data.slope, *[0.0] * data.logits.shape[1]])

    def __call__(self, point: Vector) -> Expansion:
        logits, shares = self._data.logits, self._data.samples.shares
        labels = self._data.samples.labels[:, None]
        theta = torch.from_numpy(point).to(logits)
        log_probs = torch.log_softmax(theta[0] * logits + theta[1:], dim=1)
        probs = log_probs.exp()
        value = -float(log_probs.gather(1, labels)[:, 0] @ shares)
        mean = (probs * logits).sum(dim=1, keepdim=True)  # of each row's logits
        weighed = probs * shares[:, None]
        gradient = torch.cat([(shares @ (mean - logits.gather(1, labels))), self._residuals(weighed)])
        away = weighed * (logits - mean)
        hessian = torch.empty(len(theta), len(theta), dtype=torch.float64, device=logits.device)
        hessian[0, 0] = (away * logits).sum()
        hessian[0, 1:] = hessian[1:, 0] = away.sum(dim=0)
        hessian[1:, 1:] = weighed.sum(dim=0).diag() - probs.T @ weighed
        return self._with_penalty(point, value, gradient, hessian)

    def _residuals(self, weighed: Float[Tensor, "N C"]) -> Float[Tensor, " C"]:
        """Mean probability of each class minus its frequency."""
        samples = self._data.samples
        return weighed.sum(dim=0) - torch.bincount(samples.labels, samples.shares, weighed.shape[1])

    def _with_penalty(self, point: Vector, value: float, gradient: Tensor, hessian: Tensor) -> Expansion:
        moved = point - self.start
        return Expansion(
            value + 0.5 * self._ridge * float(moved @ moved),
            gradient.cpu().numpy() + self._ridge * moved,
            hessian.cpu().numpy() + self._ridge * np.eye(len(point)),
        )
