r"""Expectation of focal calibration loss (FCL): elicited probabilities, and the way back to the true ones.

For a posterior p the conditional risk is, up to a constant,

.. math:: F(q) = -\sum_i p_i (1 - q_i)^\gamma \log q_i + \lambda \| q - p \|^2 .

With :math:`f(q) = g(q) / q`, the slope of focal loss with its sign turned, its minimum on the simplex has
:math:`p_i f(q_i) + 2 \lambda (p_i - q_i) = \nu` for every class, hence

.. math:: p_i = \frac{\nu + 2 \lambda q_i}{f(q_i) + 2 \lambda} ,

and :math:`\sum_i p_i = 1` gives :math:`\nu`. This is the counterpart of the focal calibration map, in
closed form. f falls for :math:`\gamma \ge 0` and :math:`\nu > 0`, so p rises with q and **the order of the
classes is kept**. The loss is classification-calibrated for every :math:`\gamma \ge 0, \lambda \ge 0`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_is_number, check_probs
from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.focal_map_inverse import inverse_focal_map_logits
from calibrant._math.shapes import Float
from calibrant._math.simplex import back_to
from calibrant.theory.bracket import bracket

__all__ = [
    "focal_calibration_loss_map",
    "focal_calibration_minimiser",
    "focal_calibration_phi",
    "focal_calibration_risk",
    "focal_calibration_root",
]

_MAX_STEPS = 200
_TO_BOUNDARY = 0.9
# A smaller predicted decrease, relative to the risk, is rounding; a few more steps give all digits.
_UNSEEN = 1e-16
_LAST_STEPS = 3


def focal_calibration_phi(
    v: ArrayLike | float, *, gamma: float, calibration_weight: float
) -> Float[Tensor, "*N"]:
    r"""Function :math:`\varphi` from which the reference derives the order of the classes.

    .. math::
        \varphi_{\gamma, \lambda}(v) = \frac{(1-v)^\gamma}{v} - \gamma (1-v)^{\gamma-1} \log v - 2 \lambda v

    Minus the slope, in the true class's probability, of focal loss plus :math:`\lambda v^2`.

    Args:
        v: Probabilities in (0, 1); a number or an array of any shape.
        gamma: Focal loss's exponent, not negative.
        calibration_weight: The weight :math:`\lambda` of the squared distance, not negative.

    Returns:
        Float64 of the shape of ``v``.

    Raises:
        InputError: If a value is not inside (0, 1) or an option is negative.

    Note:
        Falls strictly, from infinity at 0 to :math:`-2 \lambda` at 1 for :math:`\gamma > 0`; for
        :math:`\gamma = 0`, which the reference leaves out, to :math:`1 - 2 \lambda`.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        appendix A.6.

    Example:
        >>> focal_calibration_phi([0.25, 0.5, 0.75], gamma=2, calibration_weight=0.5)
        tensor([ 4.0794,  0.6931, -0.5228], dtype=torch.float64)
    """
    _check_options(gamma, calibration_weight)
    number = isinstance(v, float | int)
    values = torch.tensor(v, dtype=torch.float64) if number else as_float_tensor(v, name="v").double()
    outside = ~((values > 0) & (values < 1))
    if bool(outside.any()):
        raise InputError(f"`v` must be inside (0, 1); got {values[outside].reshape(-1)[0].item():g}.")
    return _slope(values, 1 - values, gamma) - 2 * calibration_weight * values


def focal_calibration_root(*, gamma: float, calibration_weight: float) -> float | None:
    r"""Root of :func:`focal_calibration_phi`, if it has one in (0, 1); options and errors as there.

    Returns:
        The root; None if there is none, that is, for :math:`\lambda = 0`, and for :math:`\gamma = 0` with
        :math:`\lambda \le 1/2`, where :math:`\varphi` stays positive.

    Note:
        The reference claims a root for all options. For :math:`\gamma = 0` it is
        :math:`1 / \sqrt{2 \lambda}`.

    Example:
        >>> round(focal_calibration_root(gamma=2, calibration_weight=0.5), 6)
        0.61507
        >>> focal_calibration_root(gamma=0, calibration_weight=0.4) is None
        True
    """
    _check_options(gamma, calibration_weight)
    if calibration_weight == 0 or (gamma == 0 and calibration_weight <= 0.5):
        return None
    options = {"gamma": gamma, "calibration_weight": calibration_weight}
    return bracket(lambda p: focal_calibration_phi(p, **options).item() > 0, 0.0, 1.0)[0]


def focal_calibration_loss_map(
    probs: ArrayLike, *, gamma: float, calibration_weight: float
) -> Float[Tensor, "N C"] | Float[Tensor, " N"]:
    r"""True probabilities of a network that focal calibration loss has trained perfectly.

    .. math::
        p_i = \frac{\nu + 2 \lambda q_i}{f(q_i) + 2 \lambda} , \qquad f(q) = \frac{g(q)}{q} , \qquad
        \sum_i p_i = 1

    For :math:`\lambda = 0` the focal calibration map; for :math:`\lambda \to \infty`, and for
    :math:`\gamma = 0`, the identity. The inverse of :func:`focal_calibration_minimiser`.

    Args:
        probs: Probabilities of the classes, shape ``(N, C)``, or of an event, shape ``(N,)``.
        gamma: Focal loss's exponent, not negative.
        calibration_weight: The weight :math:`\lambda` of the squared distance, not negative.

    Returns:
        Probabilities of the shape and dtype of ``probs`` (integers: float64), without gradients.

    Raises:
        InputError: If an option is negative, a value is not a probability, or a row does not sum to one.

    Note:
        Keeps the order of the classes, the uniform distribution, the vertices and zeros. O(N C).

    Example:
        >>> focal_calibration_loss_map(
        ...     torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64), gamma=2, calibration_weight=0.5
        ... )
        tensor([[0.5955, 0.2561, 0.1485]], dtype=torch.float64)
    """
    _check_options(gamma, calibration_weight)
    return _on_rows(probs, lambda rows: _to_posterior(rows, gamma, calibration_weight))


def focal_calibration_minimiser(
    posterior: ArrayLike, *, gamma: float, calibration_weight: float
) -> Float[Tensor, "N C"] | Float[Tensor, " N"]:
    r"""Probabilities that focal calibration loss elicits if ``posterior`` is true.

    The q that minimises :math:`-\sum_i p_i (1 - q_i)^\gamma \log q_i + \lambda \|q - p\|^2`, a strictly
    convex problem. q = p for :math:`\gamma = 0`; for :math:`\gamma > 0` and any :math:`\lambda` only where
    the focal minimiser is p too (:func:`calibrant_lab.theory.properness_gap`).

    Args:
        posterior: True probabilities of the classes, shape ``(N, C)``, or of an event, shape ``(N,)``.
        gamma: Focal loss's exponent, not negative.
        calibration_weight: The weight :math:`\lambda` of the squared distance (summed over the classes), not
            negative.

    Returns:
        Probabilities of the shape and dtype of ``posterior`` (integers: float64), without gradients.

    Raises:
        InputError: If an option is negative, a value is not a probability, or a row does not sum to one.
        ConvergenceError: If the closed form of :func:`focal_calibration_loss_map` does not lead back to
            ``posterior`` within 1e-9.

    Note:
        Newton's method with a line search; the result is checked by the closed form. O(N C) per step.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        eq. (10), with the distance summed over the classes.

    Example:
        >>> posterior = torch.tensor([[0.55, 0.30, 0.15]], dtype=torch.float64)
        >>> focal_calibration_minimiser(posterior, gamma=2, calibration_weight=0.5)
        tensor([[0.4736, 0.3287, 0.1977]], dtype=torch.float64)
    """
    _check_options(gamma, calibration_weight)
    return _on_rows(posterior, lambda rows: _minimise(rows, gamma, calibration_weight))


def focal_calibration_risk(
    posterior: Float[Tensor, "N C"], probs: Float[Tensor, "N C"], *, gamma: float, calibration_weight: float
) -> Float[Tensor, " N"]:
    r"""Expected focal calibration loss of ``probs`` if ``posterior`` is true.

    The distance is to the one-hot label, so the risk at the truth is not zero.

    Args:
        posterior: True probabilities, shape ``(N, C)``.
        probs: Predicted probabilities, shape ``(N, C)`` or ``(1, C)``.
        gamma: Focal loss's exponent, not negative.
        calibration_weight: The weight :math:`\lambda` of the squared distance, not negative.

    Returns:
        Float64, shape ``(N,)``; infinite where a possible class has probability zero.

    Raises:
        InputError: If an option is negative.

    Example:
        >>> truth = torch.tensor([[0.8, 0.2]], dtype=torch.float64)
        >>> focal_calibration_risk(truth, truth, gamma=2, calibration_weight=0.5)
        tensor([0.3731], dtype=torch.float64)
    """
    _check_options(gamma, calibration_weight)
    truth, predicted = posterior.double(), probs.double()
    surprise = -torch.special.xlogy(truth, predicted) * (1 - predicted) ** gamma
    distance = (predicted - truth).square().sum(-1) + 1 - truth.square().sum(-1)
    return surprise.sum(-1) + calibration_weight * distance


def _check_options(gamma: float, calibration_weight: float) -> None:
    for name, value in (("gamma", gamma), ("calibration_weight", calibration_weight)):
        check_is_number(name, value)
        if not (math.isfinite(value) and value >= 0):
            raise InputError(f"`{name}` must be finite and not negative; got {value}.")


def _on_rows(probs: ArrayLike, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function of normalised rows, in float64; an event is the second of two classes."""
    checked = check_probs(probs)
    wide = checked.scores.double()
    if checked.task == "binary":
        result = function(torch.stack([1 - wide, wide], dim=1))[:, 1]
    else:
        result = function(wide / wide.sum(-1, keepdim=True))
    return back_to(result, checked.scores.dtype)


def _slope(probs: Tensor, misses: Tensor, gamma: float) -> Tensor:
    """Function f = g / q, for probabilities inside (0, 1) and their complements."""
    return misses**gamma / probs - gamma * misses ** (gamma - 1) * probs.log()


def _bend(probs: Tensor, misses: Tensor, gamma: float) -> Tensor:
    """Minus the derivative of f, positive: the curvature of focal loss in the probability."""
    odds = probs / misses
    inner = 1 + 2 * gamma * odds - gamma * (gamma - 1) * odds.square() * probs.log()
    return misses**gamma / probs.square() * inner


def _to_posterior(rows: Float[Tensor, "N C"], gamma: float, weight: float) -> Float[Tensor, "N C"]:
    """Closed form, multiplied by q so that zeros need no care; vertices stay."""
    certain = (rows >= 1).any(-1, keepdim=True)
    inside = (rows > 0) & (rows < 1)
    safe = torch.where(inside, rows, 0.5)
    share = torch.where(inside, safe / (safe * _slope(safe, 1 - safe, gamma) + 2 * weight * safe), 0.0)
    level = (1 - (2 * weight * rows * share).sum(-1, keepdim=True)) / share.sum(-1, keepdim=True)
    return torch.where(certain, rows, (level + 2 * weight * rows) * share)


def _minimise(truth: Float[Tensor, "N C"], gamma: float, weight: float) -> Float[Tensor, "N C"]:
    """Newton's method on the simplex from the truth, among the possible classes."""
    possible = truth > 0
    certain = (truth >= 1).any(-1)
    if bool(certain.all()):
        return truth

    def value(at: Tensor) -> Tensor:
        focal = torch.where(possible, truth * -at.log() * (1 - at) ** gamma, 0.0)
        return (focal + weight * torch.where(possible, at - truth, 0.0).square()).sum(-1)

    # Start from the truth or the focal minimiser, whichever is better; unused entries are a half.
    near = torch.where(possible, truth, 0.5)
    far = torch.where(possible, inverse_focal_map_logits(truth.log(), gamma).exp(), 0.5)
    probs = torch.where((value(far) < value(near))[:, None], far, near)
    last = _LAST_STEPS
    for _ in range(_MAX_STEPS):
        misses = _misses(probs, possible)
        slope = -truth * _slope(probs, misses, gamma) + 2 * weight * (probs - truth)
        bend = truth * _bend(probs, misses, gamma) + 2 * weight
        inverse = torch.where(possible, 1 / bend, 0.0)
        level = (slope * inverse).sum(-1, keepdim=True) / inverse.sum(-1, keepdim=True)
        step = torch.where(certain[:, None], 0.0, (level - slope) * inverse)
        promise = (step.square() * bend).sum(-1)
        probs = _search(value, probs, step, promise)
        last -= bool((promise <= _UNSEEN * value(probs)).all())
        if last == 0:
            break
    result = torch.where(certain[:, None], truth, torch.where(possible, probs, 0.0))
    if not bool(((_to_posterior(result, gamma, weight) - truth).abs() <= 1e-9).all()):
        raise ConvergenceError(f"no minimum was found for gamma {gamma:g} and weight {weight:g}.")
    return result


def _misses(probs: Tensor, possible: Tensor) -> Tensor:
    """1 - q, for the largest q as the sum of the others, which keeps its digits."""
    counted = torch.where(possible, probs, 0.0)
    top = counted.argmax(-1, keepdim=True)
    others = counted.scatter(-1, top, 0.0).sum(-1, keepdim=True)
    others = torch.where(others > 0, others, 0.5)  # a vertex, where nothing is computed
    return (1 - probs).scatter(-1, top, others)


def _search(value: Callable[[Tensor], Tensor], probs: Tensor, step: Tensor, promise: Tensor) -> Tensor:
    """Go along each row's step until its value falls by a share of the predicted decrease.

    Take the full step if the predicted decrease is within the value's rounding.
    """
    room = torch.where(step < 0, probs / -step, math.inf).amin(-1)
    length = (_TO_BOUNDARY * room).clamp(max=1.0)
    before = value(probs)
    for _ in range(60):
        after = value(probs + length[:, None] * step)
        worse = ~(after <= before - 1e-4 * length * promise) & (promise > 1e-13 * before)
        if not bool(worse.any()):
            break
        length = torch.where(worse, length / 2, length)
    return probs + length[:, None] * step
