"""Calibration slope and intercept, and by how much each sample moves them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from calibrant._math.logistic import Sample, fit
from calibrant.evaluation.resampling.events import Events, Vector

_EVEN = 1e-12  # by how much shares of the weight differ from rounding alone


class Line(NamedTuple):
    """A parameter and the influence of each sample on it."""

    value: float
    influence: Vector  # (N,)


def calibration_line(events: Events, parameter: Literal["slope", "intercept"]) -> Line | str:
    r"""The slope of outcomes on log-odds, or the intercept where the slope is held at one; else the reason.

    The influences :math:`\psi_i = I^{-1} x_i (y_i - \hat p_i)`, I the information per unit of weight, make
    the root of :math:`\sum_i w_i^2 \psi_i^2 / (\sum_i w_i)^2` the standard error also where the line does
    not fit (the sandwich; with weights HC3, of lines that the sample had no part in). Those of two models on
    the same samples subtract.

    References:
        White, "Maximum Likelihood Estimation of Misspecified Models", Econometrica 50, 1982.
    """
    sample = Sample.of(events.confidences, events.outcomes, events.weights)
    why = sample.why_undefined(slope=parameter == "slope")
    if why is not None:
        return why
    found = fit(sample) if parameter == "slope" else fit(sample, slope=1.0)
    influence = np.zeros(len(events.confidences))
    counted = slice(None) if events.weights is None else events.weights > 0
    even = sample.shares.max() - sample.shares.min() < _EVEN
    # The line follows the outcomes of rows of large weight.
    influence[counted] = (found.influence if even else found.influence_held_out)[:, -1]
    return Line(float(found.parameters[-1]), influence)
