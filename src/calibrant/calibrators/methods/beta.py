"""Beta calibration."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import Task
from calibrant._math.newton import Expansion, Vector, minimise_in_box
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_sigmoid
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.doubts import few
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples

_LOW, _HIGH = np.array([0.0, 0.0, -math.inf]), np.full(3, math.inf)


class BetaCalibration(Calibrator):
    r"""The map that is right where the scores of either class are beta-distributed.

    .. math:: \hat p = \sigma\left( a \log p - b \log(1 - p) + c \right), \qquad a, b \ge 0

    With a = b this is :class:`PlattScaling` with a slope that is not negative; with a and b of its own each
    side, near 0 and near 1, is mended by itself. In multilabel predictions every column has its own a, b and
    c. The order of samples stays.

    Where the likelihood has no maximum (only one class occurs, a threshold separates the classes) departures
    from a = b = 1, c = 0 cost as much as one sample would, and a warning says so.

    Raises:
        InputError: On ``fit``, for multiclass logits, of which :class:`DirichletCalibration` is this.

    Note:
        Newton's method on a convex function of three parameters, O(N) per step.

    References:
        Kull, Silva Filho and Flach, "Beta calibration: a well-founded and easily implemented improvement on
        logistic calibration for binary classifiers", AISTATS 2017.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([1.0] * 100 + [0.0] * 100 + [-3.0] * 100)
        >>> labels = torch.cat([torch.arange(100) < share for share in (70, 50, 10)]).long()
        >>> calibrator = BetaCalibration().fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([1.0, 0.0, -3.0])).tolist()]
        [0.7, 0.5, 0.1]
    """

    name = "beta"
    title = "Beta calibration"
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    for_other_kinds = "for two classes pass `logits[:, 1] - logits[:, 0]`, for more use dirichlet"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multilabel")
    parameter_ranges: ClassVar = {"a": (0.0, math.inf), "b": (0.0, math.inf), "c": (-math.inf, math.inf)}
    objective = "nll"
    a: Tensor
    b: Tensor
    c: Tensor

    def _solve(self, samples: Samples) -> Solution:
        log_odds, outcomes, total = samples.scores.to(torch.float64), samples.outcomes, samples.total_weight
        in_the_way = _in_the_way(log_odds, outcomes)
        loss = _Loss(_features(log_odds), outcomes, samples.masses / total, 1 / total if in_the_way else 0.0)
        start = min(loss.starts, key=lambda point: loss(point).value)
        found = minimise_in_box(loss, start, _LOW, _HIGH)
        before, point = loss(loss.identity).value, found.point
        after = loss(point).value - loss.penalty(point)
        if not after <= before:
            point, after = loss.identity, before
        parameters = dict(zip("abc", (point / loss.scale).tolist(), strict=True))
        return Solution(
            converged=found.slope < 1e-8,
            steps=found.steps,
            before=before,
            after=after,
            parameters=parameters,
            certificate={"gradient": found.slope},
            message=f"gradient {found.slope:.1e}",
            warnings=(f"{in_the_way}, so departures from the identity were penalised",)
            if in_the_way
            else few(samples.num_samples),
        )

    def _transform(self, scores: Tensor) -> Tensor:
        near_zero, near_one = log_sigmoid(scores), log_sigmoid(-scores)
        return self.a.to(scores) * near_zero - self.b.to(scores) * near_one + self.c.to(scores)


class _Loss:
    """Mean negative log-likelihood of parameters for features of mean square one, and the penalty."""

    def __init__(self, features: Tensor, outcomes: Tensor, shares: Tensor, ridge: float) -> None:
        scale = (shares @ features.square()).sqrt()
        scale = torch.where(scale > 0, scale, 1)
        self.scale: Vector = scale.cpu().numpy()
        self._features, self._outcomes, self._shares = features / scale, outcomes, shares
        self._ridge = ridge
        self.identity: Vector = np.array([1.0, 1.0, 0.0]) * self.scale
        base = (shares @ outcomes).clamp(1e-12, 1 - 1e-12).logit().item()
        self.starts = (self.identity, np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, base]))

    def penalty(self, point: Vector) -> float:
        """Half the squared distance from the identity."""
        return 0.5 * self._ridge * float(np.square(point - self.identity).sum())

    def __call__(self, point: Vector) -> Expansion:
        logits = self._features @ torch.as_tensor(point).to(self._features)
        probs = logits.sigmoid()
        losses = torch.nn.functional.softplus(logits) - self._outcomes * logits
        gradient = (self._shares * (probs - self._outcomes)) @ self._features
        spread = self._shares * probs * (1 - probs)
        hessian = self._features.T @ (spread[:, None] * self._features)
        return Expansion(
            float(losses @ self._shares) + self.penalty(point),
            gradient.cpu().numpy() + self._ridge * (point - self.identity),
            hessian.cpu().numpy() + self._ridge * np.eye(3),
        )


def _features(log_odds: Tensor) -> Float[Tensor, "N 3"]:
    """Log p, -log(1 - p) and 1."""
    near_zero, near_one = torch.nn.functional.logsigmoid(log_odds), torch.nn.functional.logsigmoid(-log_odds)
    return torch.stack([near_zero, -near_one, torch.ones_like(log_odds)], dim=1)


def _in_the_way(log_odds: Tensor, outcomes: Tensor) -> str | None:
    """What leaves parameters undetermined, so that a penalty is needed."""
    happened = outcomes == 1
    if bool(happened.all()) or not bool(happened.any()):
        return f"only class {int(happened[0])} occurs"
    if bool((log_odds == log_odds[0]).all()):
        return "all log-odds are equal"
    if bool(log_odds[happened].min() >= log_odds[~happened].max()):
        return "a threshold separates the classes"
    return None
