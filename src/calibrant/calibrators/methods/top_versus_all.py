"""Top-versus-all calibration: of classes, only how often the most probable one is right."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.errors import without_warnings
from calibrant._math.simplex import log_sigmoid, split_top
from calibrant._math.text_form import build_from
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.methods.binning import BayesianBinning, HistogramBinning, ScalingBinning
from calibrant.calibrators.methods.isotonic import IsotonicCalibration
from calibrant.calibrators.methods.log_odds import BetaCalibration, PlattScaling, QuadraticScaling
from calibrant.calibrators.methods.temperatures import TemperatureScaling

_SMOOTH = (TemperatureScaling, PlattScaling, BetaCalibration, QuadraticScaling)
_FREE = (IsotonicCalibration, HistogramBinning, ScalingBinning, BayesianBinning)
_EVENTS = {kind.name: kind for kind in (*_SMOOTH, *_FREE)}
_KEPT = ("converged", "steps", "before", "certificate", "message", "warnings")  # of the fit of the event
_AHEAD = 1e-6  # of the top class, in log-odds, where it would be level with others


class TopVersusAll(Calibrator):
    r"""Calibrate how often the most probable class is right; scale the others.

    .. math::
        \hat p_{\text{top}} = h(p_{\text{top}}), \qquad
        \hat p_k = \left( 1 - \hat p_{\text{top}} \right) \frac{p_k}{1 - p_{\text{top}}}

    h is a calibrator of one event, that the top class is right. So all samples serve one fit, however many
    classes there are. The predicted class and the order of the classes stay. Where another class would
    overtake the top one, the others are drawn together as little as that needs, and the top one has at least
    1 / C.

    Args:
        event: Text of h for :func:`build`: ``temperature``, ``platt``, ``beta``, ``quadratic``, ``isotonic``,
            ``histogram``, ``scaling-binning`` or ``bayesian-binning``, with settings in brackets.

    Raises:
        InputError: If there is no such calibrator of an event, or on ``fit`` for other predictions.

    Note:
        O(N C), besides the fit of h. Objective and loss in ``fit_result_`` are those of the event. The error
        of the top label falls; that of the single classes need not, nor the log loss.

    References:
        Le Coz, Herbin and Adjed, "Confidence Calibration of Classifiers with Many Classes", NeurIPS 2024,
        where the other classes keep their probabilities.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[4.0, 0.0, 0.0]]).repeat(100, 1)
        >>> labels = torch.tensor([0] * 70 + [1] * 20 + [2] * 10)
        >>> calibrator = TopVersusAll(event="histogram(prior=0.0)").fit(logits, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(logits)[0].tolist()]
        [0.7, 0.15, 0.15]
    """

    name = "top-versus-all"
    title = "Top-versus-all calibration"
    kinds: ClassVar[tuple[Task, ...]] = ("multiclass",)
    for_other_kinds = "of events use their calibrators, such as isotonic"
    parameter_ranges: ClassVar = PlattScaling.parameter_ranges  # of an instance those of its event

    def __init__(self, *, event: str = "platt") -> None:
        inner = build_from(event, _EVENTS, what="calibrator of an event")
        self.__dict__.update(parameter_ranges=inner.parameter_ranges, parameter_shapes=inner.parameter_shapes)
        super().__init__()
        self.event, self.objective = event, inner.objective
        inner._buffers = self._buffers
        self.__dict__["_inner"] = inner  # not as a module, whose parameters would be saved twice

    def restore(self, *args: Any, **keywords: Any) -> None:
        """Set the parameters and the result of a fit."""
        super().restore(*args, **keywords)
        self._inner.fit_result_, self._inner.kind_ = self.fit_result_, "binary"

    def set_extra_state(self, state: dict[str, Any] | None) -> None:
        """Restore the state from ``get_extra_state``."""
        super().set_extra_state(state)
        if state is not None:
            self._inner.fit_result_, self._inner.kind_ = self.fit_result_, "binary"

    def _solve(self, samples: Samples) -> Solution:
        wide = samples.scores.to(torch.float64)
        log_odds, correct = -split_top(wide).log_odds[:, 0], samples.correct
        inner = self._inner.unfitted()
        with without_warnings():  # they are in the result
            inner.fit(log_odds, correct.to(torch.int64), weights=samples.weights)
        found = inner.fit_result_
        after = found.after
        if self.objective in {"nll", "brier"}:  # the least confidence, 1 / C, is not in h
            odds = inner(log_odds).clamp(min=_least(wide.shape[1]))
            away = (odds.sigmoid() - correct.to(wide.dtype)).square()
            losses = away if self.objective == "brier" else -log_sigmoid(torch.where(correct, odds, -odds))
            after = float(losses @ samples.shares)
        kept: Any = {name: getattr(found, name) for name in _KEPT} | {"parameters": dict(found.parameters)}
        tables = {name: getattr(inner, name) for name in self.parameter_shapes}
        return Solution(**kept, after=after, tables=tables)

    def _transform(self, scores: Tensor) -> Tensor:
        wide = scores.to(torch.float64)
        split, others = split_top(wide), scores.shape[1] - 1
        log_odds = self._inner._transform(-split.log_odds[:, 0])[:, None].clamp(min=_least(others + 1))
        shares = split.gaps - split.shift - split.total.log()  # logarithms, of the others
        limit = log_odds.clamp(max=1).exp() * (1 - _AHEAD / 2)  # beyond, no share reaches it
        largest = (-split.total.log()).exp()
        spread = (largest - 1 / others).clamp(min=1e-300)
        drawn = ((largest - limit) / spread).clamp(0, 1 - 1e-15)
        level = drawn.clamp(min=1e-300).log() - math.log(others)
        together = torch.where(drawn > 0, torch.logaddexp(shares + (-drawn).log1p(), level), shares)
        found = together + log_sigmoid(-log_odds)
        return found.scatter(-1, split.top, log_sigmoid(log_odds)).to(scores.dtype)


def _least(num_classes: int) -> float:
    """Log-odds of a class that is a little ahead of all others."""
    return _AHEAD - math.log(num_classes - 1)
