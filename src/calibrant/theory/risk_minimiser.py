"""Where a loss is smallest in expectation: the probabilities that it elicits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.theory.risk_minimiser_line import Valley, row_of, valleys, zoom
from calibrant.theory.risk_minimiser_losses import Loss, Risk
from calibrant.theory.risk_minimiser_newton import Point, descend

__all__ = ["RiskMinimiser", "elicited_map", "risk_minimiser"]

_CONVERGED = 1e-10  # of a probability
_GONE = 1e-3  # a probability that may be on its way to zero
_FAR = 1000.0  # a logit gap whose probability is exactly zero
_SAME = 1e-12  # difference of risks that is rounding
_ROUGH = ("interior", "boundary", "kink")  # the smoothest kind of minimum first
_FEW_CLASSES = 10  # up to which a search without derivatives is worth its time


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskMinimiser:
    """Where the risk is least, and how sure that is."""

    probs: Float[Tensor, " C"]
    """The minimiser, float64; where the minimum is at infinite logits, its limit, with exact zeros."""
    risk: float
    """The least expected loss."""
    kind: Literal["interior", "boundary", "kink"]
    """A point with a gradient of zero; a limit at infinite logits; a kink or a jump of the loss."""
    gradient_norm: float
    """Length of the risk's gradient by the logits; NaN at a kink, which has none."""
    least_curvature: float
    """Smallest second derivative of the risk by the logits, without their common shift. Positive at a
    locally unique minimum; NaN at a boundary, at a kink and for more than 50 classes."""
    error: float
    """Estimate of how far ``probs`` is from the exact place: the next Newton step, or the bracket's width."""
    converged: bool
    """Whether ``error`` is at most 1e-10."""
    others: tuple[Float[Tensor, " C"], ...]
    """Other places of the same risk, where the searches found some."""


def risk_minimiser(
    loss: Loss, posterior: ArrayLike, *, batch_size: int | None = None, num_starts: int = 4, seed: int = 0
) -> RiskMinimiser:
    r"""Probabilities at which a loss is smallest in expectation.

    .. math:: q^* = \operatorname*{arg\,min}_{q = \mathrm{softmax}(z)} \sum_k p_k \, \ell(z, k)

    Two classes: the risk is looked at everywhere on a grid of log-odds from -30 to 30, and its lowest valleys
    are followed down; this also finds minima at kinks and jumps of the loss. More classes: damped Newton
    steps in the logits (conjugate gradients beyond 50 classes) from the posterior, from a flatter and a
    sharper one and from random places; the lowest end is returned. For a loss that is not convex that is no
    proof that it is the lowest anywhere.

    Where the risk only approaches its infimum as logits go to minus infinity (cross-entropy where the
    posterior has zeros, a norm ``"l1"`` alone), ``kind`` is ``"boundary"`` and ``probs`` is the limit.

    Args:
        loss: Takes float64 logits ``(N, C)`` and labels ``(N,)``; gives one value per sample or one for the
            batch. A ``reduction`` that it has, as argument or attribute, is set to ``"none"``; a loss that
            gives but one number is evaluated sample by sample.
        posterior: True probabilities of the classes, shape ``(C,)``.
        batch_size: For losses of a whole batch, as MMCE: the posterior is laid out as this many labels on
            equal logits, of which it must make whole numbers, and the loss taken once.
        num_starts: How many searches, for more than two classes.
        seed: Seed of the random starts.

    Returns:
        The minimiser with its certificate: gradient, smallest curvature, estimated error.

    Raises:
        InputError: If ``posterior`` is not a distribution, or the loss gives values of another shape.

    Note:
        Converges to 1e-10 in the probabilities where the loss is differentiable twice at the minimum.
        For more than two classes a minimum at a kink or jump is found to about 1e-6, and ``converged`` is
        false; for more than ten, as far as Newton's steps lead. For two classes a kink is bracketed to
        rounding.

    References:
        Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical
        Perspective", CVPR 2021.

    Example:
        >>> import torch
        >>> def brier(logits, labels):
        ...     onehot = torch.nn.functional.one_hot(labels, logits.shape[1])
        ...     return (logits.softmax(1) - onehot).square().sum(1)
        >>> found = risk_minimiser(brier, [0.7, 0.2, 0.1])
        >>> found.probs, found.kind
        (tensor([0.7000, 0.2000, 0.1000], dtype=torch.float64), 'interior')
        >>> found.converged, found.least_curvature > 0
        (True, True)
    """
    probs = check_posterior(posterior)
    risk = Risk(loss, probs, batch_size=batch_size)
    return _minimise(risk, num_starts=num_starts, seed=seed)


def elicited_map(
    loss: Loss, posteriors: ArrayLike, *, batch_size: int | None = None, num_starts: int = 2, seed: int = 0
) -> Float[Tensor, "N C"]:
    r"""Probabilities that a loss elicits, one row for each posterior.

    What a network trained perfectly with the loss says where the truth is ``posteriors``: the
    :func:`risk_minimiser` of every row, with its arguments and errors; events may be given as ``(N,)``. The
    identity for a strictly proper loss, :func:`inverse_focal_calibration_map` for focal loss.

    Returns:
        Probabilities of the shape of ``posteriors``, float64.

    Example:
        >>> import torch
        >>> def focal(logits, labels):
        ...     log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        ...     return -(1 - log_p.exp()) ** 2 * log_p
        >>> elicited_map(focal, [0.2, 0.5, 0.8])
        tensor([0.3734, 0.5000, 0.6266], dtype=torch.float64)
    """
    checked = check_probs(posteriors)
    scores = checked.scores.double()
    rows = torch.stack([1 - scores, scores], dim=1) if checked.task == "binary" else scores
    found = torch.stack(
        [
            risk_minimiser(loss, row, batch_size=batch_size, num_starts=num_starts, seed=seed).probs
            for row in rows
        ]
    )
    return found[:, 1] if checked.task == "binary" else found


def check_posterior(posterior: ArrayLike) -> Float[Tensor, " C"]:
    """One distribution over two classes or more, in float64 and summing to one."""
    row = as_float_tensor(posterior, name="posterior")
    if row.ndim != 1 or len(row) < 2:
        raise InputError(f"`posterior` must have shape (C,) with C >= 2; got {tuple(row.shape)}.")
    try:
        probs = check_probs(row[None]).scores[0].double().cpu()
    except InputError as error:
        raise InputError(f"`posterior` must be probabilities that sum to one; got {row.tolist()}.") from error
    return probs / probs.sum()


def _minimise(risk: Risk, *, num_starts: int, seed: int) -> RiskMinimiser:
    """The lowest end of several searches."""
    binary = risk.num_classes == 2
    if binary:
        ends = [end for valley in valleys(risk) for end in _ends_in(risk, valley)]
    else:
        starts = _starts(risk.posterior, num_starts, seed)
        ends = [_at_infinity(risk, descend(risk, start)) for start in starts]
    lowest = min(end.risk for end in ends)
    slack = _SAME * (1 + abs(lowest))
    level = [end for end in ends if end.risk <= lowest + slack]
    best = min(level, key=lambda end: (not end.converged, _ROUGH.index(end.kind), end.error, end.risk))
    if not best.converged and not binary and best.kind != "boundary":
        best = _by_values(risk, best)
    return replace(best, others=_other_places(best, level))


def _end(
    probs: Float[Tensor, " C"],
    risk: float,
    kind: Literal["interior", "boundary", "kink"],
    error: float,
    *,
    gradient_norm: float = math.nan,
    least_curvature: float = math.nan,
) -> RiskMinimiser:
    return RiskMinimiser(
        probs=probs,
        risk=risk,
        kind=kind,
        gradient_norm=gradient_norm,
        least_curvature=least_curvature,
        error=error,
        converged=error <= _CONVERGED,
        others=(),
    )


def _other_places(best: RiskMinimiser, level: list[RiskMinimiser]) -> tuple[Float[Tensor, " C"], ...]:
    """Where else the searches found the same risk."""
    known = [best.probs]
    for end in level:
        if end.converged and all(float((end.probs - probs).abs().max()) > 1e-6 for probs in known):
            known.append(end.probs)
    return tuple(known[1:])


def _starts(posterior: Float[Tensor, " C"], count: int, seed: int) -> list[Float[Tensor, " C"]]:
    """The posterior, a flatter and a sharper one, and random logits."""
    truth = posterior.clamp(min=1e-9).log()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(max(count - 3, 0), len(posterior), generator=generator, dtype=torch.float64)
    return [truth, 0.3 * truth, 1.5 * truth, *(2 * noise)][: max(1, count)]


def _at_infinity(risk: Risk, point: Point) -> RiskMinimiser:
    """The end of a search; its limit where small probabilities were on their way to zero."""
    probs = point.logits.softmax(0)
    small = probs < _GONE
    if bool(small.any()):
        # Send off all that are as small as the k-th smallest: the lowest risk wins, certain ones on a tie.
        for bound in probs[small].unique().flip(0):
            limit = torch.where(probs <= bound, point.logits.max() - _FAR, point.logits)
            value = float(risk.many(limit[None])[0])
            if value <= point.risk:
                return _limit(risk, limit, value, probs <= bound)
    return _end(
        probs,
        point.risk,
        "interior",
        point.error if math.isfinite(point.risk) else math.inf,
        gradient_norm=point.gradient_norm,
        least_curvature=point.least_curvature,
    )


def _limit(risk: Risk, logits: Float[Tensor, " C"], value: float, gone: Tensor) -> RiskMinimiser:
    """A minimum at infinity; what is left of the classes is searched once more."""
    left = int((~gone).sum())
    error, gradient_norm = 0.0, 0.0
    if left > 1:
        point = descend(risk, logits, max_steps=50)
        logits, value = torch.where(gone, logits, point.logits), min(value, point.risk)
        error, gradient_norm = point.error, point.gradient_norm
    probs = torch.where(gone, 0.0, logits.masked_fill(gone, -math.inf).softmax(0))
    return _end(probs, value, "boundary", error, gradient_norm=gradient_norm)


def _ends_in(risk: Risk, valley: Valley) -> list[RiskMinimiser]:
    """Where a valley of two classes leads: by derivatives, and by values where these do not get there."""
    end = _at_infinity(risk, descend(risk, row_of(valley.best)))
    if end.converged and end.risk <= valley.risk:
        return [end]
    return [end, _on_the_line(risk, zoom(risk, valley))]


def _on_the_line(risk: Risk, valley: Valley) -> RiskMinimiser:
    """The end of a search by values: exact at a kink or a jump, half the digits where the risk is smooth."""
    low, best, high, value = valley
    probs = row_of(best).softmax(0)
    around = risk.many(torch.stack([row_of(best - 1e-6), row_of(best + 1e-6)]))
    sharp = float(around.min()) - value > 1e-9  # a smooth risk would have risen by 1e-12
    width = float(row_of(high).softmax(0)[1] - row_of(low).softmax(0)[1])
    return _end(probs, value, "kink", width if sharp else max(width, 1e-8))


def _by_values(risk: Risk, end: RiskMinimiser) -> RiskMinimiser:
    """A minimum of more classes where derivatives do not lead on: a simplex that needs none."""
    from scipy.optimize import minimize

    if risk.num_classes > _FEW_CLASSES:
        return end
    logits, value = end.probs.clamp(min=1e-300).log(), end.risk
    for _ in range(2):
        found = minimize(
            lambda x: float(risk.many(torch.from_numpy(x)[None])[0]),
            logits.numpy(),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 200 * risk.num_classes, "adaptive": True},
        )
        logits, value = torch.from_numpy(found.x), float(found.fun)
    if value < end.risk - _SAME:
        return _end(logits.softmax(0), value, "kink", 1e-6)
    return _end(end.probs, end.risk, "kink", max(1e-6, end.error))
