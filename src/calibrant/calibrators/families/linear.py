"""What vector, matrix and structured scaling share: logits become affine functions of logits."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_softmax
from calibrant.calibrators.affine import Affine
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.doubts import CONSTANT, few
from calibrant.calibrators.fitting.regression import Fitted, Regression
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.units import likeliest_temperature


@dataclass(frozen=True, eq=False)
class Standardised:
    """Logits of mean square one, and temperature scaling of them."""

    samples: Samples
    logits: Float[Tensor, "N C"]
    scale: float
    temperature: Solution

    @property
    def slope(self) -> float:
        """What multiplies these logits under temperature scaling."""
        return self.scale / self.temperature.parameters["temperature"]


class LinearScaling(Calibrator):
    r"""Affine functions of logits: ``weight`` and ``bias``.

    Adding a number to all logits of a sample says nothing, so rows are first brought into one form: centred,
    or the logarithms of probabilities.
    """

    kinds: ClassVar[tuple[Task, ...]] = ("multiclass",)
    for_other_kinds = "for those platt fits slope and intercept"
    unit_powers: ClassVar = {"weight": -1}
    parameter_ranges: ClassVar = {"weight": (-math.inf, math.inf), "bias": (-math.inf, math.inf)}
    objective = "nll"
    weight: Tensor
    bias: Tensor

    def _features(self, scores: Tensor) -> Float[Tensor, "N C"]:
        """What is multiplied: a form of the logits that does not depend on their mean."""
        return scores - scores.mean(dim=1, keepdim=True)

    @abstractmethod
    def _fit(self, data: Standardised) -> tuple[Fitted, str | None]:
        """Parameters for standardised logits, and what stood in the way of the plain optimum."""

    def _solve(self, samples: Samples) -> Solution:
        logits = self._features(samples.scores.to(torch.float64))
        data = standardise(samples, logits)
        fitted, trouble = self._fit(data)
        weight, bias = fitted.theta[:, :-1] / data.scale, fitted.theta[:, -1]
        if weight.shape[1] == 1:
            weight = weight[:, 0] if self.parameter_shapes["weight"] == ("C",) else weight[:, 0].diag()
        tables = {"weight": weight.contiguous(), "bias": bias - bias.mean()}
        after = _log_loss(data.samples, _affine(logits, **tables))
        return Solution(
            converged=fitted.converged,
            steps=fitted.steps,
            before=data.temperature.before,
            after=after,
            parameters={},
            certificate={"gradient": fitted.gradient},
            message=f"gradient {fitted.gradient:.1e}",
            warnings=tuple(filter(None, (trouble, *_trouble_with(data.samples)))),
            compared={"temperature": data.temperature.after},
            tables=tables,
        )

    def affine(self) -> Affine | None:
        """Weight and bias of logits that need not be centred."""
        weight = self.weight.diag() if self.weight.ndim == 1 else self.weight
        return Affine(weight - weight.mean(dim=1, keepdim=True), self.bias)

    def _transform(self, scores: Tensor) -> Tensor:
        return log_softmax(_affine(self._features(scores), self.weight.to(scores), self.bias.to(scores)))


def _affine(logits: Tensor, weight: Tensor, bias: Tensor) -> Float[Tensor, "N C"]:
    return (logits * weight if weight.ndim == 1 else logits @ weight.T) + bias


def standardise(samples: Samples, logits: Float[Tensor, "N C"]) -> Standardised:
    """Divide by the root mean square, and fit a temperature."""
    largest = float(logits.abs().max()) or 1.0  # divided first: squares of huge numbers are infinite
    scale = largest * float(((logits / largest).square().mean(dim=1) @ samples.shares).sqrt())
    scale = scale if scale > 0 else 1.0
    return Standardised(samples, logits / scale, scale, likeliest_temperature(samples))


def per_class(logits: Float[Tensor, "N C"]) -> Float[Tensor, "2 N C"]:
    """Each class's logit, and 1."""
    return torch.stack([logits, torch.ones_like(logits)])


def shared(logits: Float[Tensor, "N C"]) -> Float[Tensor, "N F"]:
    """All logits, and 1."""
    return torch.cat([logits, torch.ones_like(logits[:, :1])], dim=1)


def around_temperature(
    data: Standardised, features: Tensor, ridge: Float[Tensor, "C F"]
) -> tuple[Regression, Float[Tensor, "C F"]]:
    """The problem whose penalty pulls towards temperature scaling, and that as the start."""
    centre = torch.zeros_like(ridge)
    if features.ndim == 3:
        centre[:, 0] = data.slope
    else:
        centre[:, :-1].fill_diagonal_(data.slope)
    return Regression(features, data.samples.labels, data.samples.shares, ridge, centre), centre


def _trouble_with(samples: Samples) -> tuple[str, ...]:
    """What about the data leaves parameters undetermined."""
    notes: list[str] = []
    if samples.is_constant:
        notes.append(CONSTANT)
    elif bool((samples.scores == samples.scores[:1]).all()):
        notes.append("the logits of all samples are the same")
    return (*notes, *few(samples.num_samples))


def _log_loss(samples: Samples, logits: Float[Tensor, "N C"]) -> float:
    return float(-log_softmax(logits).gather(1, samples.labels[:, None])[:, 0] @ samples.shares)
