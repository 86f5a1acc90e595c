"""The focal calibration map and its inverse, and when the map raises or lowers the top probability."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_logits, check_probs
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.focal_map_inverse import inverse_focal_map_log_odds, inverse_focal_map_logits
from calibrant._math.shapes import Float
from calibrant._math.simplex import back_to, log_softmax, working_dtype
from calibrant.theory.gradients import gradient_threshold, gradient_turning_point

__all__ = [
    "ConfidenceChange",
    "ConfidenceThreshold",
    "confidence_change",
    "confidence_threshold",
    "focal_calibration_map",
    "focal_calibration_map_logits",
    "inverse_focal_calibration_map",
    "inverse_focal_calibration_map_logits",
]

_Map: TypeAlias = Callable[..., Tensor]  # of rows of logits or of log-odds, and the exponent


def focal_calibration_map(probs: ArrayLike, *, gamma: float) -> Float[Tensor, "N C"] | Float[Tensor, " N"]:
    r"""True probabilities of a network that focal loss has trained perfectly.

    .. math::
        \rho_\gamma(q)_i \propto \frac{q_i}{g(q_i)} , \qquad
        g(q) = (1-q)^\gamma \left(1 - \gamma \, \frac{q \log q}{1-q}\right)

    Focal loss is smallest in expectation not at the true probabilities p but at the q with
    :math:`\rho_\gamma(q) = p`. The map is a bijection of the simplex for every :math:`\gamma > -1`. It keeps
    the order of the classes, the uniform distribution and the vertices; :math:`\rho_0` is the identity.
    For an event ``(N,)`` it acts on the pair of ``probs`` and its complement, element by element.

    Args:
        probs: Probabilities of the classes, shape ``(N, C)``, or of an event, shape ``(N,)``; a single
            distribution is a table with one row. Rows that miss one by up to 1e-3 are renormalised.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        Probabilities of the shape and dtype of ``probs`` (integers: float64), without gradients.

    Raises:
        InputError: If ``gamma`` is not greater than -1, a value is not a probability, or a row of classes
            does not sum to one.

    Note:
        An event, and classes whose top probability exceeds the root of :math:`g = 1` (0.368 for
        :math:`\gamma = 1`), become more certain for :math:`\gamma > 0`. With four classes or more a low top
        probability can fall. Probabilities very close to one have lost their digits before they come here;
        where logits exist, :func:`focal_calibration_map_logits` is exact. O(N C).

    References:
        Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical
        Perspective", CVPR 2021. Komisarenko and Kull, "Improving Calibration by Relating Focal
        Loss, Temperature Scaling, and Properness", 2024, arXiv:2408.11598, propositions 2 and 4.

    Example:
        >>> import torch
        >>> focal_calibration_map(torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64), gamma=2)
        tensor([[0.7945, 0.1617, 0.0438]], dtype=torch.float64)
        >>> focal_calibration_map(torch.tensor([0.5, 0.7]), gamma=1)
        tensor([0.5000, 0.8183])
    """
    return _on_probs(probs, focal_map_logits, focal_map_log_odds, gamma)


def inverse_focal_calibration_map(
    probs: ArrayLike, *, gamma: float
) -> Float[Tensor, "N C"] | Float[Tensor, " N"]:
    r"""Probabilities that focal loss elicits if ``probs`` are the true ones.

    The q that minimises :math:`-\sum_i p_i (1 - q_i)^\gamma \log q_i`, that is, the inverse of
    :func:`focal_calibration_map`; arguments, errors and results are as there.

    Raises:
        ConvergenceError: If ``gamma`` is so large, 1000 and more, that 2000 steps do not suffice.

    Note:
        Newton's method: a few times the cost of the map itself, more for ``gamma`` beyond 50. Accurate to
        rounding; for ``gamma`` below zero rounding is amplified by :math:`1 / (1 + \gamma)`. Where focal
        loss is not convex (``gamma`` below zero) q is its stationary point.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, arXiv:2408.11598, section 3.

    Example:
        >>> import torch
        >>> inverse_focal_calibration_map(torch.tensor([0.8], dtype=torch.float64), gamma=2)
        tensor([0.6266], dtype=torch.float64)
    """
    return _on_probs(probs, inverse_focal_map_logits, inverse_focal_map_log_odds, gamma)


def focal_calibration_map_logits(
    logits: ArrayLike, *, gamma: float
) -> Float[Tensor, "N C"] | Float[Tensor, " N"]:
    r"""The focal calibration map from logits to logits.

    :func:`focal_calibration_map` of the softmax, or of the sigmoid, without leaving logarithms.

    Args:
        logits: Logits of the classes, shape ``(N, C)``, up to a constant per row (-inf for a class that is
            impossible), or log-odds of an event, shape ``(N,)``.
        gamma: Focal loss's exponent, greater than -1.

    Returns:
        Log-probabilities ``(N, C)``, or log-odds ``(N,)``, in the dtype of ``logits`` (integers: float64),
        without gradients.

    Raises:
        InputError: If ``gamma`` is not greater than -1, or a logit is NaN or infinite.

    Note:
        Relative precision of a few units in the last place at any gap between the logits, also of a
        log-probability next to zero. Half precision is computed in float32. O(N C).

    Example:
        >>> import torch
        >>> focal_calibration_map_logits(torch.tensor([[4.0, 0.0, -4.0]]), gamma=1)
        tensor([[-6.4524e-04, -7.3653e+00, -1.1315e+01]])
    """
    return _on_logits(logits, focal_map_logits, focal_map_log_odds, gamma)


def inverse_focal_calibration_map_logits(
    logits: ArrayLike, *, gamma: float
) -> Float[Tensor, "N C"] | Float[Tensor, " N"]:
    r"""The inverse focal calibration map from logits to logits.

    :func:`inverse_focal_calibration_map` of the softmax, or of the sigmoid, without leaving logarithms.
    Arguments, errors and results are those of :func:`focal_calibration_map_logits`.

    Note:
        As for :func:`inverse_focal_calibration_map`, at any gap between the logits.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[4.0, 0.0, -4.0]])
        >>> mapped = focal_calibration_map_logits(logits, gamma=1)
        >>> torch.allclose(inverse_focal_calibration_map_logits(mapped, gamma=1), logits.log_softmax(-1))
        True
    """
    return _on_logits(logits, inverse_focal_map_logits, inverse_focal_map_log_odds, gamma)


def _on_probs(probs: ArrayLike, of_rows: _Map, of_events: _Map, gamma: float) -> Tensor:
    checked = check_probs(probs)
    wide = checked.scores.to(working_dtype(checked.scores.dtype))
    if checked.task == "binary":
        mapped = of_events(torch.logit(wide), gamma).sigmoid()
    else:
        mapped = of_rows(wide.log(), gamma).exp()
    return back_to(mapped, checked.scores.dtype)


def _on_logits(logits: ArrayLike, of_rows: _Map, of_events: _Map, gamma: float) -> Tensor:
    checked = check_logits(logits, allow_minus_inf=True)
    return (of_events if checked.task == "binary" else of_rows)(checked.scores, gamma)


_ROUNDING = 1e-15


@dataclass(frozen=True, kw_only=True)
class ConfidenceThreshold:
    """Top probabilities above and below which the direction is certain."""

    gamma: float
    above: float
    """The root of g = 1. A top probability from here on is raised (``gamma`` below 0: lowered)."""
    below: float
    """Maximiser of g. A top probability up to it is never raised (``gamma`` below 0: never lowered)."""


@dataclass(frozen=True, kw_only=True)
class ConfidenceChange:
    """Effect of the focal calibration map on the top probabilities of some samples."""

    raised: float
    """Share of the samples whose top probability rises."""
    lowered: float
    """Share of those where it falls; the rest stay, to rounding."""
    mean_change: float
    """Mean of the change."""
    largest_fall: float
    """The most that a top probability falls, not negative."""
    num_samples: int


def confidence_threshold(gamma: float) -> ConfidenceThreshold:
    r"""Top probabilities at which the focal calibration map surely raises, or does not raise, confidence.

    The map multiplies class i by :math:`1 / g(q_i)` and normalises, :math:`\rho_i \propto q_i / g(q_i)` with
    :math:`g(q) = (1-q)^\gamma (1 - \gamma\, q \log q / (1-q))`, so the top probability t rises exactly if

    .. math:: \sum_i q_i / g(q_i) < 1 / g(t) ,

    that is, if the mean of :math:`1/g` is below its value at the top. For :math:`\gamma > 0` g starts at
    :math:`g(0) = 1`, rises to one maximum and falls to 0; with :math:`p_0` the root of :math:`g = 1`:

    * :math:`t \ge p_0`: **raised** (unless t = 1). For no :math:`q \le t` is g below :math:`g(t) \le 1`: up
      to :math:`p_0` it is at least 1, from there on it falls. So :math:`1/g` is largest at the top, and the
      mean is lower because the others do not all reach it.
    * :math:`t \le \arg\max g`: **not raised**. There g rises, so :math:`1/g` is smallest at the top and the
      mean at least that; equal only for equal probabilities, the uniform distribution.
    * In between it depends on the others: many small ones have :math:`g \approx 1 < g(t)` and the top falls;
      others nearer to the maximum of g raise it. With enough classes some distribution is lowered at every
      :math:`t < p_0`; :func:`calibrant_lab.theory.confidence_region` says where, for a number of classes.

    So the published proposition (raised for every :math:`\gamma > 0`) holds for two classes, where
    :math:`t \ge 1/2 > p_0`, and wherever :math:`t \ge p_0`, but not in general from four classes on. For
    :math:`-1 < \gamma < 0` g falls first and then rises, and the same argument gives the same with *lowered*
    for *raised*. The risk minimiser of focal loss is the inverse map: where the map lowers, the minimiser is
    over-confident.

    Args:
        gamma: Focal loss's exponent, greater than -1; at 0 the map changes nothing, and the limits of the two
            thresholds are given.

    Returns:
        Both thresholds, to rounding. :math:`p_0` is where :func:`calibrant.losses.optimal_gamma` is
        ``gamma``; the maximum of g is the smallest root of :math:`-(1 - \gamma p) \log p = 2 (1 - p)`.

    Raises:
        InputError: If ``gamma`` is not greater than -1.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, proposition 5.

    Example:
        >>> found = confidence_threshold(1)
        >>> round(found.above, 4), round(found.below, 4)  # 1 / e and 1 / e ** 2
        (0.3679, 0.1353)
        >>> uneven = torch.tensor([[0.2] + [0.8 / 99] * 99], dtype=torch.float64)
        >>> round(focal_map_logits(uneven.log(), 1).exp().max().item(), 4)  # 0.2 is lowered
        0.1868
    """
    return ConfidenceThreshold(
        above=gradient_threshold(gamma=gamma),
        below=gradient_turning_point(gamma=gamma).probability,
        gamma=float(gamma),
    )


def confidence_change(logits: ArrayLike, *, gamma: float) -> ConfidenceChange:
    """Frequency and size of the focal calibration map's changes of the top probability.

    Args:
        logits: Shape ``(N, C)``, or log-odds ``(N,)``.
        gamma: Exponent, greater than -1.

    Returns:
        Shares of the samples, and changes of the probability.

    Raises:
        InputError: If a logit is not finite or ``gamma`` is not greater than -1.

    Note:
        Computed in float64 from log-probabilities; a change within rounding counts as none. O(N C).

    Example:
        >>> probs = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.3237, 0.3233, 0.3226, 0.0304]])
        >>> found = confidence_change(probs.log(), gamma=0.3)
        >>> found.raised, found.lowered
        (0.5, 0.5)
    """
    checked = check_logits(logits, allow_minus_inf=True)
    scores = checked.scores.double()
    if checked.task == "binary":
        rows = torch.stack([-scores.abs(), scores.abs()], dim=1) / 2
        mapped = torch.stack([torch.zeros_like(scores), focal_map_log_odds(scores.abs(), gamma)], dim=1)
        before, after = log_softmax(rows).amax(1), log_softmax(mapped).amax(1)
    else:
        before, after = log_softmax(scores).amax(1), focal_map_logits(scores, gamma).amax(1)
    # Also relative to the log-probability: near certainty, real changes are below 1e-15.
    slack = 8 * _ROUNDING * before.abs().clamp(max=1)
    change = after.exp() - before.exp()
    return ConfidenceChange(
        raised=float((after > before + slack).double().mean()),
        lowered=float((after < before - slack).double().mean()),
        mean_change=float(change.mean()),
        largest_fall=max(0.0, -float(change.min())),
        num_samples=len(change),
    )
