"""Temperature scaling that is never certain."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from calibrant._math.simplex import log_softmax
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.families.mixtures import log_probs_of, mixed
from calibrant.calibrators.fitting.doubts import with_doubts_of_temperature
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import fit_temperature
from calibrant.calibrators.fitting.units import ANY_TEMPERATURE


class SmoothedTemperatureScaling(Calibrator):
    r"""Temperature scaling, mixed with a little of the uniform distribution.

    .. math:: \hat p = \frac{N \, \mathrm{softmax}(z / T) + 1 / C}{N + 1}

    T is that of :class:`TemperatureScaling`, N the number (or total weight) of calibration samples. No
    probability falls below :math:`1 / (C (N + 1))`, so the log-loss of new samples is never infinite,
    whatever they are; that of the calibration samples rises by at most :math:`\log(1 + 1/N)`. The order of
    the classes stays. Where every calibration sample is classified correctly, temperature scaling alone would
    be certain: the mixture says how certain N samples can make one.

    Note:
        The objective before and after are mean negative log-likelihoods, the mixture included.

    References:
        Laplace's rule of succession. With temperature scaling: Berta, Holzmüller, Jordan and Bach,
        "Rethinking Early Stopping: Refine, Then Calibrate", 2025.

    Example:
        >>> import torch
        >>> log_odds, labels = torch.tensor([9.0, -9.0] * 49 + [9.0]), torch.tensor([1, 0] * 49 + [1])
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # every sample is classified correctly
        ...     calibrator = SmoothedTemperatureScaling().fit(log_odds, labels)
        >>> round(calibrator.predict_proba(torch.tensor([900.0])).item(), 6)
        0.995
    """

    name = "smoothed-temperature"
    title = "Temperature scaling with Laplace smoothing"
    mends_frequencies = False
    unit_powers: ClassVar = {"temperature": 1}
    parameter_ranges: ClassVar = {
        "temperature": ANY_TEMPERATURE,
        "uniform": (0.0, 1.0),
    }
    objective = "nll"
    temperature: Tensor
    uniform: Tensor

    def _solve(self, samples: Samples) -> Solution:
        base = with_doubts_of_temperature(fit_temperature(samples, "nll", "continuous"), samples, "nll")
        parameters = {**base.parameters, "uniform": 1 / (samples.total_weight + 1)}
        temperature, uniform = (samples.shares.new_tensor(value) for value in parameters.values())
        smoothed = _smoothed(samples.scores.to(torch.float64), temperature, uniform, events=samples.is_event)
        if samples.is_event:
            smoothed = torch.stack([torch.zeros_like(smoothed), smoothed], dim=1)
        losses = -log_softmax(smoothed).gather(1, samples.labels[:, None])[:, 0]
        return replace(
            base,
            parameters=parameters,
            after=float(losses @ samples.shares),
            compared={"temperature": base.after},
        )

    def _transform(self, scores: Tensor) -> Tensor:
        events = self.kind_ != "multiclass"
        return _smoothed(scores, self.temperature.to(scores), self.uniform, events=events)


def _smoothed(scores: Tensor, temperature: Tensor, uniform: Tensor, *, events: bool) -> Tensor:
    log_probs = log_probs_of(scores / temperature, events=events)
    even = torch.full_like(log_probs, 1 / log_probs.shape[-1]).log()
    return mixed([log_probs, even], [1 - uniform, uniform], events=events)
