r"""A linear model's calibration for many samples and features at a fixed ratio.

The world is :class:`LogisticWorld`; n samples and d features both go to infinity at a fixed load d / n. The
fitted weights then settle: their part along the truth, and the norm of the rest. These two determine
everything that :meth:`LogisticWorld.performance` returns. ``docs/explanation/asymptotics.md`` derives the
equations and says which steps are proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.errors import ConvergenceError, InputError
from calibrant.theory.bracket import bracket
from calibrant_lab.theory import asymptotics_equations as equations
from calibrant_lab.theory.asymptotics_equations import Margins, State, Vector
from calibrant_lab.theory.generalisation import (
    LogisticWorld,
    SampleLoss,
    TestPerformance,
    check_inside,
    check_positive,
)

__all__ = [
    "AsymptoticFit",
    "TrainPerformance",
    "asymptotic_fit",
    "calibrating_gamma",
    "separability_threshold",
]

_TRIED = np.array([0.3, 1.7, 4.0])
_LOWEST_GAMMA, _HIGHEST_GAMMA = -0.9, 200.0
_MOST_SECANTS, _CALIBRATED = 30, 1e-8


class TrainPerformance(NamedTuple):
    """Performance of a model on its training samples."""

    accuracy: float
    confidence: float
    overconfidence: float  # confidence - accuracy
    cross_entropy: float
    temperature: float  # that minimises cross-entropy; above 1: over-confident


@dataclass(frozen=True, kw_only=True)
class AsymptoticFit:
    r"""Limit of :func:`fit_linear`."""

    load: float  # features per sample, d / n
    signal: float  # standard deviation of the true log-odds
    penalty: float  # on the squared norm of the weights, as in fit_linear
    along: float  # weight of the feature that matters
    across: float  # norm of all other weights together
    step: float
    r"""The limit of :math:`\mathrm{tr}(H^{-1}) / n`, H the Hessian of what is minimised."""
    instability: float
    """Below 1 the smallest curvatures of the minimum stay away from zero, as they do where the loss is
    convex; from 1 on the limit is not to be trusted."""
    least_curvature: float
    """One plus the step times the loss's least second derivative. From 1 on the loss is convex in the
    log-odds, and the limit proved; above 0 the proximal operator has one value."""
    train: TrainPerformance  # on the samples that it was fitted to
    test: TestPerformance  # on new samples
    scaled: TestPerformance  # on new samples, after division of the log-odds by the best temperature

    @property
    def norm(self) -> float:
        """Norm of the weights, which is the standard deviation of the model's log-odds."""
        return math.hypot(self.along, self.across)

    @property
    def alignment(self) -> float:
        """Cosine of the angle between the weights and the true ones."""
        return self.along / self.norm

    @property
    def world(self) -> LogisticWorld:
        """World of two features in which :attr:`weights` perform like the fit in the limit."""
        return LogisticWorld(num_features=2, signal=self.signal)

    @property
    def weights(self) -> torch.Tensor:
        """Weight along the truth, and the others' norm as one weight."""
        return torch.tensor([self.along, self.across], dtype=torch.float64)

    def overconfidence_at(self, level: float) -> float:
        r"""Predicted minus true probability: :math:`p - P(y = 1 \mid \sigma(t) = p)`.

        Args:
            level: The stated probability p of the event, inside (0, 1).

        Raises:
            InputError: If ``level`` is not inside (0, 1).

        References:
            Bai et al., "Don't Just Blame Over-parametrization for Over-confidence: Theoretical Analysis of
            Calibration in Binary Classification", ICML 2021.
        """
        check_inside("level", level)
        score = torch.tensor([math.log(level / (1 - level))], dtype=torch.float64)
        return level - self.world.posterior(self.weights, score).item()


def asymptotic_fit(
    loss: SampleLoss, *, load: float, signal: float, penalty: float = 0.0, start: AsymptoticFit | None = None
) -> AsymptoticFit:
    r"""Weights and calibration of :func:`fit_linear` for infinitely many samples and features.

    With the margin loss :math:`\ell`, :math:`V = y x_1`, G standard normal,
    :math:`m = \alpha V + \sigma G` and :math:`p = \arg\min_p \ell(p) + (p - m)^2 / (2 \lambda)`, the weight
    :math:`\alpha` along the truth, the norm :math:`\sigma` across it and the step :math:`\lambda` solve

    .. math::
        \mathbb E [V \ell'(p)] = -\delta \alpha , \qquad
        \lambda^2 \, \mathbb E [\ell'(p)^2] = \kappa \sigma^2 , \qquad
        \mathbb E \left[ \frac{\lambda \ell''(p)}{1 + \lambda \ell''(p)} \right] = \kappa - \lambda \delta .

    Args:
        loss: As for :func:`fit_linear`: from log-odds ``(N,)`` and outcomes ``(N,)`` to one value per sample,
            twice differentiable, and the same for both outcomes but for the sign of the log-odds.
        load: Features per sample, :math:`\kappa = d / n`, positive.
        signal: Standard deviation of the true log-odds.
        penalty: Weight :math:`\delta` of :math:`\frac{\delta}{2} \|w\|^2`, added to the mean loss.
        start: A fit at similar settings, to begin from; saves time.

    Returns:
        The limit of the fit, with its performance on its own samples and on new ones.

    Raises:
        InputError: If a number is out of range, the loss treats the outcomes differently, or there is no
            minimum: the load is not below :func:`separability_threshold`, and no penalty given.
        ConvergenceError: If no solution is found, or the proximal operator has several values where samples
            are.

    Note:
        The limit is proved for convex losses (cross-entropy). Focal loss is not convex
        (:func:`calibrant.theory.logit_convexity_threshold`): that the minimum is no lower is proved, that it
        is as low is not proved here. Equations solved to 1e-10, with as many nodes as that takes: about
        50 ms.

    References:
        Sur and Candes, "A modern maximum-likelihood theory for high-dimensional logistic regression", PNAS
        2019. Salehi et al., "The Impact of Regularization on High-dimensional Logistic Regression", NeurIPS
        2019. Bai et al., ICML 2021 (as in :meth:`AsymptoticFit.overconfidence_at`).

    Example:
        >>> import torch
        >>> def cross_entropy(log_odds, outcomes):
        ...     return torch.nn.functional.softplus(log_odds) - outcomes * log_odds
        >>> found = asymptotic_fit(cross_entropy, load=0.2, signal=5**0.5)
        >>> round(found.along / 5**0.5, 4), round(found.across / 0.2**0.5, 4), round(found.step, 4)
        (1.4994, 4.7436, 3.0269)
        >>> round(found.test.temperature, 3), round(found.train.temperature, 10)
        (2.611, 1.0)
    """
    check_positive("load", load)
    check_positive("signal", signal)
    check_positive("penalty", penalty, or_zero=True)
    _check_symmetric(loss)
    of_margins = equations.MarginLoss(loss)
    if penalty == 0:
        _check_there_is_a_minimum(load, signal, falls=of_margins.falls)
    guess = None if start is None else State(start.along, start.across, start.step)
    state, num_nodes = equations.solve(of_margins, load=load, signal=signal, penalty=penalty, start=guess)
    margins = equations.margins_of(of_margins, state, signal, num_nodes)
    world = LogisticWorld(num_features=2, signal=signal)
    weights = torch.tensor([state.along, state.across], dtype=torch.float64)
    test = world.performance(weights)
    return AsymptoticFit(
        load=load,
        signal=signal,
        penalty=penalty,
        **state._asdict(),
        instability=equations.instability(margins, state.step, load),
        least_curvature=1 + state.step * of_margins.least_bend,
        train=_on_sample(margins),
        test=test,
        scaled=world.performance(weights / test.temperature),
    )


def calibrating_gamma(
    losses: Callable[[float], SampleLoss], *, load: float, signal: float, penalty: float = 0.0
) -> float:
    r"""Return the exponent whose fit needs no temperature on new samples, in the limit.

    Args:
        losses: From an exponent to its loss, as of :func:`asymptotic_fit`; focal loss, for which the best
            temperature falls with the exponent.
        load: Features per sample.
        signal: Standard deviation of the true log-odds.
        penalty: As for :func:`asymptotic_fit`.

    Returns:
        The exponent at which the best temperature on new samples is 1; negative where cross-entropy is
        under-confident, as it is with a large penalty.

    Raises:
        InputError: If a number is out of range, or no exponent from -0.9 to 200 has that temperature.
        ConvergenceError: As :func:`asymptotic_fit`.

    Note:
        To 1e-7. What is calibrated in this mean is not calibrated at every score: the calibration error at
        that exponent is small but not zero.

    Example:
        >>> import torch
        >>> def focal(gamma):
        ...     def loss(log_odds, outcomes):
        ...         log_p = -torch.nn.functional.softplus(log_odds * (1 - 2 * outcomes))
        ...         return -((1 - log_p.exp()) ** gamma) * log_p
        ...     return loss
        >>> [round(calibrating_gamma(focal, load=load, signal=2.0), 3) for load in (0.02, 0.1)]
        [0.124, 0.703]
    """
    found: AsymptoticFit | None = None
    at, change, slope, before = 0.0, 0.0, -1.0, 0.0  # log T is all but straight in log(1 + gamma)
    for _ in range(_MOST_SECANTS):
        if not _LOWEST_GAMMA <= math.expm1(at) <= _HIGHEST_GAMMA:
            raise InputError(
                f"`load` must be one for which an exponent from {_LOWEST_GAMMA:g} to {_HIGHEST_GAMMA:g} "
                f"calibrates; got {load:g} with penalty {penalty:g}; fit a temperature instead."
            )
        loss = losses(math.expm1(at))
        found = asymptotic_fit(loss, load=load, signal=signal, penalty=penalty, start=found)
        excess = math.log(found.test.temperature)
        if abs(excess) < _CALIBRATED:
            return math.expm1(at)
        slope = (excess - before) / change if change else slope
        change, before = -excess / slope, excess
        at += change
    raise ConvergenceError(
        f"no exponent was found that calibrates at load {load:g}; the last was {math.expm1(at):g}."
    )


def separability_threshold(signal: float) -> float:
    r"""Return the load above which the sample is separable, with no minimum without a penalty.

    .. math:: \kappa^* = \min_t \mathbb E \left[ (Z - t V)_+^2 \right] ,

    Z standard normal and :math:`V = y x_1`. Below, cross-entropy and focal loss of any exponent above -1
    have a minimum with a probability that goes to one; above, with one that goes to zero.

    Args:
        signal: Standard deviation of the true log-odds; 0 for outcomes that are chance.

    Returns:
        A load in (0, 1/2].

    Raises:
        InputError: If ``signal`` is negative or not finite.

    References:
        Candes and Sur, "The phase transition for the existence of the maximum likelihood estimate in
        high-dimensional logistic regression", Annals of Statistics 2020, theorem 2.1, without an intercept.

    Example:
        >>> [round(separability_threshold(signal), 4) for signal in (0, 1, 2, 5)]
        [0.5, 0.4389, 0.3449, 0.1851]
    """
    from scipy.special import expit, ndtr

    check_positive("signal", signal, or_zero=True)
    # V has the density 2 phi(v) sigma(s v); by the trapezoidal rule.
    truth = np.linspace(-9.0, 9.0, 36 * math.ceil(max(2.0, signal)) + 1)
    shares = np.exp(-truth * truth / 2) * expit(signal * truth)
    shares = shares / shares.sum()

    def parts(factor: float) -> tuple[Vector, Vector, Vector]:
        mean = -factor * truth
        return mean, ndtr(mean), np.exp(-mean * mean / 2) / math.sqrt(2 * math.pi)

    def falls(factor: float) -> bool:
        mean, below, density = parts(factor)
        return float(shares @ (truth * (mean * below + density))) > 0  # E V (Z + a)_+

    high = 1.0
    while falls(high):
        high *= 2
    mean, below, density = parts(bracket(falls, 0.0, high, width=1e-9)[1])
    return float(shares @ ((1 + mean * mean) * below + mean * density))  # E (Z + a)_+^2


def _check_symmetric(loss: SampleLoss) -> None:
    margins, ones = torch.from_numpy(_TRIED), torch.ones(len(_TRIED), dtype=torch.float64)
    with torch.no_grad():
        for sign in (1, -1):
            positive, negative = loss(sign * margins, ones), loss(-sign * margins, 0 * ones)
            if positive.shape != margins.shape or not torch.allclose(
                positive, negative, rtol=1e-9, atol=1e-12
            ):
                raise InputError(
                    "`loss` must give one value per sample, that of log-odds t and outcome 1 also for -t and "
                    f"outcome 0; got {positive.tolist()} and {negative.tolist()}."
                )


def _check_there_is_a_minimum(load: float, signal: float, *, falls: bool) -> None:
    limit = separability_threshold(signal) if falls else 1.0
    if load >= limit:
        why = "beyond it the sample can be separated" if falls else "beyond it many weights fit the sample"
        raise InputError(
            f"`load` must be below {limit:.4f} at signal {signal:g}: {why}; got {load:g}; give a `penalty`."
        )


def _on_sample(margins: Margins) -> TrainPerformance:
    shares, trained = torch.from_numpy(margins.shares), torch.from_numpy(margins.trained)

    def slopes(inverse: float) -> tuple[float, float]:
        missing = (-inverse * trained).sigmoid()
        bends = trained.square() * missing * (1 - missing)
        return -(shares * trained * missing).sum().item(), (shares * bends).sum().item()

    accuracy = shares[trained > 0].sum().item()
    confidence = (shares * trained.abs().sigmoid()).sum().item()
    cross_entropy = (shares * torch.nn.functional.softplus(-trained)).sum().item()
    temperature = 1 / convex_minimum(slopes, 1e-6, 1e6)
    return TrainPerformance(accuracy, confidence, confidence - accuracy, cross_entropy, temperature)
