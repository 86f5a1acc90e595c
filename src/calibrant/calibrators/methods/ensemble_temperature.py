"""Ensemble temperature scaling."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import row_slices
from calibrant._math.checks import Task
from calibrant._math.newton import Expansion, Vector, minimise_in_box
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.families.mixtures import log_probs_of, mixed
from calibrant.calibrators.fitting.doubts import with_doubts_of_temperature
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.units import ANY_TEMPERATURE, likeliest_temperature

_SHARES = ("tempered", "plain", "uniform")


class EnsembleTemperatureScaling(Calibrator):
    r"""Mix the tempered, the original and uniform probabilities.

    .. math:: \hat p = w_1 \, \mathrm{softmax}(z / T) + w_2 \, \mathrm{softmax}(z) + \frac{w_3}{C}

    T is that of :class:`TemperatureScaling`; the shares w, which sum to one, are then the likeliest. The
    order of the classes stays. A share of the uniform distribution keeps a confident error from costing much.

    Note:
        The likelihood is concave in the shares: Newton's method, to derivatives below 1e-8. What the data
        leave undetermined (T = 1 makes two parts the same) does not change the probabilities.

    References:
        Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
        Calibration in Deep Learning", ICML 2020.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([6.0] * 100 + [0.5] * 100)
        >>> labels = torch.cat([torch.arange(100) < 95, torch.arange(100) < 61]).long()
        >>> calibrator = EnsembleTemperatureScaling().fit(log_odds, labels)
        >>> [round(p, 2) for p in calibrator.predict_proba(torch.tensor([6.0, 0.5])).tolist()]
        [0.95, 0.61]
    """

    name = "ensemble-temperature"
    title = "Ensemble temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)
    mends_frequencies = False
    parameter_ranges: ClassVar = {
        "temperature": ANY_TEMPERATURE,
        **dict.fromkeys(_SHARES, (0.0, 1.0)),
    }
    objective = "nll"
    temperature: Tensor
    tempered: Tensor
    plain: Tensor
    uniform: Tensor

    def _solve(self, samples: Samples) -> Solution:
        base = with_doubts_of_temperature(likeliest_temperature(samples), samples, "nll")
        loss = _Loss(samples, base.parameters["temperature"])
        # The shares are free; the sum of them, added to the mean loss, makes them sum to one at the optimum.
        found = minimise_in_box(loss, np.full(3, 1 / 3), np.zeros(3), np.full(3, math.inf))
        point = found.point / found.point.sum()
        candidates = (point, np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
        values = [loss(candidate).value - 1 for candidate in candidates]
        best = int(np.argmin(values)) if min(values[1:]) < values[0] - 1e-12 else 0
        return Solution(
            converged=base.converged and found.slope < 1e-8,
            steps=base.steps + found.steps,
            before=base.before,
            after=min(values[best], base.before),
            parameters={
                "temperature": base.parameters["temperature"],
                **dict(zip(_SHARES, candidates[best].tolist(), strict=True)),
            },
            certificate={**base.certificate, "gradient of shares": found.slope},
            message=f"derivative by shares {found.slope:.1e}",
            warnings=base.warnings,
            compared={"temperature": base.after},
        )

    def _transform(self, scores: Tensor) -> Tensor:
        events = self.kind_ != "multiclass"
        parts = _parts(scores, self.temperature.to(scores), events=events)
        return mixed(parts, [self.tempered, self.plain, self.uniform], events=events)


class _Loss:
    """Mean negative log-likelihood of the shares, plus their sum."""

    def __init__(self, samples: Samples, temperature: float) -> None:
        log_probs = samples.shares.new_empty((len(samples.labels), 3))
        for rows in row_slices(samples.scores):
            scores = samples.scores[rows].to(torch.float64)
            parts = _parts(scores, samples.shares.new_tensor(temperature), events=samples.is_event)
            log_probs[rows] = torch.cat([part.gather(1, samples.labels[rows, None]) for part in parts], dim=1)
        self._largest = log_probs.amax(dim=1, keepdim=True)
        self._ratios, self._shares = (log_probs - self._largest).exp(), samples.shares
        self._constant = float(self._largest[:, 0] @ self._shares)

    def __call__(self, point: Vector) -> Expansion:
        total = self._ratios @ torch.as_tensor(point).to(self._ratios)
        relative = self._ratios / total[:, None]
        value = -float(total.log() @ self._shares) - self._constant + float(point.sum())
        if not math.isfinite(value):
            return Expansion(math.inf, np.ones(3), np.eye(3))
        hessian = relative.T @ (self._shares[:, None] * relative)
        return Expansion(value, 1 - (self._shares @ relative).cpu().numpy(), hessian.cpu().numpy())


def _parts(scores: Tensor, temperature: Tensor, *, events: bool) -> list[Tensor]:
    """Log-probabilities at the temperature, as they came, and uniform."""
    plain = log_probs_of(scores, events=events)
    tempered = log_probs_of(scores / temperature, events=events)
    return [tempered, plain, torch.full_like(plain, -math.log(plain.shape[-1]))]
