r"""What is claimed of focal calibration loss and does not hold, as functions to be run, and what does hold.

**Strict properness.** Claimed for every :math:`\lambda > 0`. At q = p the slope of the squared distance is
zero, so :math:`\lambda` does not decide whether p is a stationary point. FCL is proper at exactly the
posteriors where focal loss is: those with :math:`g(p_i)` equal over the classes that can happen. It is
strictly proper if and only if :math:`\gamma = 0`; q tends to p as :math:`\lambda \to \infty`, and never
arrives.

**Post-processing gap.** Claimed never to exceed focal loss's. Each is least at its own minimiser, so neither
exceeds the other everywhere. As an infimum of a sum is not below the sum of the infima,

.. math:: \mathrm{pGap}_{FCL} \le \mathrm{pGap}_{FL} + \lambda \, \mathrm{pGap}_{square} .

**Over- and under-confidence.** Claimed: the top probability is never further from the truth than focal
loss's. For two classes this is so. In general :math:`\|q_\lambda - p\|_2` falls as :math:`\lambda` rises (of
two minimisers each is best for its own weight; add the two inequalities), and for two classes that norm is
:math:`\sqrt 2 \, |q_{\mathrm{top}} - p_{\mathrm{top}}|`. With four classes and more focal loss's top
probability can lie on either side of the truth, hence, in between, on it; there the other classes' errors
make FCL move away.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_probs
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.theory.focal_calibration import focal_calibration_minimiser, focal_calibration_risk

__all__ = [
    "ProcessingGaps",
    "PropernessGap",
    "TopErrors",
    "constant_processing_gaps",
    "properness_gap",
    "top_errors",
]


class PropernessGap(NamedTuple):
    """What minimises the risk, and by how much telling the truth costs more."""

    minimiser: Float[Tensor, "N C"]
    excess: Float[Tensor, " N"]  # zero if and only if the loss is proper at this posterior


class ProcessingGaps(NamedTuple):
    """What the best recalibration of a constant prediction gains, by the loss that counts."""

    focal: float
    squared: float  # of the distance summed over both classes
    focal_calibration: float
    bound: float  # focal + weight * squared, never below focal_calibration


class TopErrors(NamedTuple):
    """The top probability less the true one at both minimisers, and how far these are from the truth."""

    focal: Float[Tensor, " N"]
    focal_calibration: Float[Tensor, " N"]
    focal_distance: Float[Tensor, " N"]  # Euclidean; never below the other
    focal_calibration_distance: Float[Tensor, " N"]


def properness_gap(posterior: ArrayLike, *, gamma: float, calibration_weight: float) -> PropernessGap:
    r"""By how much focal calibration loss prefers other probabilities to the true ones.

    Args:
        posterior: True probabilities of the classes, shape ``(N, C)``.
        gamma: Focal loss's exponent, not negative.
        calibration_weight: The weight :math:`\lambda` of the squared distance, not negative.

    Returns:
        The minimiser, float64 ``(N, C)``, and the risk of the truth less that of the minimiser, ``(N,)``.

    Raises:
        InputError: If an option is negative, or ``posterior`` holds no rows of probabilities.

    Note:
        Refutes strict properness for :math:`\lambda > 0` wherever :math:`\gamma > 0` and the excess is
        positive. It is zero at the uniform distribution, at certainty, and for :math:`\gamma = 0`.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        appendix A.8: the proof puts a one-hot vector in the posterior's place.

    Example:
        >>> found = properness_gap([[0.2, 0.8]], gamma=2, calibration_weight=0.5)
        >>> round(found.minimiser[0, 1].item(), 5), round(found.excess.item(), 5)
        (0.67442, 0.06189)
    """
    truth = _rows(posterior)
    best = focal_calibration_minimiser(truth, gamma=gamma, calibration_weight=calibration_weight)

    def risk(probs: Tensor) -> Tensor:
        return focal_calibration_risk(truth, probs, gamma=gamma, calibration_weight=calibration_weight)

    return PropernessGap(best, risk(truth) - risk(best))


def constant_processing_gaps(
    prediction: float, *, event_rate: float, gamma: float, calibration_weight: float
) -> ProcessingGaps:
    r"""Post-processing gaps of a model that gives an event the same probability throughout.

    A 1-Lipschitz change can move a constant to any probability, so each gap is the risk of the prediction
    less the least risk there is.

    Args:
        prediction: The probability given, inside (0, 1).
        event_rate: The true one, inside (0, 1).
        gamma: Focal loss's exponent, not negative.
        calibration_weight: The weight :math:`\lambda` of the squared distance, not negative.

    Returns:
        The gaps under focal loss, under the squared distance, and under their sum.

    Raises:
        InputError: If a probability is not inside (0, 1) or an option is negative.

    Note:
        With ``prediction`` focal loss's own minimiser the gap under focal loss is zero and that under focal
        calibration loss is not: the claim that the latter is never larger is false.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        theorem 4.5. Blasiok et al., "When Does Optimizing a Proper Loss Yield Calibration?", NeurIPS 2023,
        for the gap.

    Example:
        >>> gaps = constant_processing_gaps(0.626615, event_rate=0.8, gamma=2, calibration_weight=0.5)
        >>> [round(gap, 4) for gap in gaps]
        [0.0, 0.0601, 0.0083, 0.0301]
    """
    for name, value in (("prediction", prediction), ("event_rate", event_rate)):
        if not 0 < value < 1:
            raise InputError(f"`{name}` must be inside (0, 1); got {value}.")
    truth = torch.tensor([[1 - event_rate, event_rate]], dtype=torch.float64)
    given = torch.tensor([[1 - prediction, prediction]], dtype=torch.float64)

    def gap(weight: float) -> float:
        best = focal_calibration_minimiser(truth, gamma=gamma, calibration_weight=weight)
        stated, least = (
            focal_calibration_risk(truth, probs, gamma=gamma, calibration_weight=weight)
            for probs in (given, best)
        )
        return max((stated - least).item(), 0.0)

    focal, squared = gap(0.0), 2 * (prediction - event_rate) ** 2
    return ProcessingGaps(focal, squared, gap(calibration_weight), focal + calibration_weight * squared)


def top_errors(posterior: ArrayLike, *, gamma: float, calibration_weight: float) -> TopErrors:
    r"""How far the top probability is from the truth at focal loss's minimiser and at FCL's.

    Arguments and errors are those of :func:`properness_gap`.

    Returns:
        Signed errors (positive: over-confident) and Euclidean distances, float64 ``(N,)`` each.

    Note:
        The example refutes the claim that the distance term never makes the top probability worse: 24%,
        three classes of 20%, sixteen of 1%. Focal loss happens to be right about the top; FCL is thirty
        times further off. Such posteriors are rare and the loss small; with two classes there are none, with
        three none was found.

    References:
        "Towards Trustworthy Deep Neural Network through Euclidean Distance" (focal calibration loss), 2025,
        theorem 4.1: the proof lowers a bound on the error, not the error.

    Example:
        >>> errors = top_errors([[0.24] + 3 * [0.2] + 16 * [0.01]], gamma=1, calibration_weight=0.5)
        >>> f"{errors.focal.item():.1e} {errors.focal_calibration.item():.1e}"
        '1.0e-05 3.1e-04'
        >>> bool(errors.focal_calibration_distance < errors.focal_distance)
        True
    """
    truth = _rows(posterior)
    focal, both = (
        focal_calibration_minimiser(truth, gamma=gamma, calibration_weight=weight)
        for weight in (0.0, calibration_weight)
    )
    top = truth.amax(-1)
    return TopErrors(
        focal.amax(-1) - top,
        both.amax(-1) - top,
        torch.linalg.vector_norm(focal - truth, dim=-1),
        torch.linalg.vector_norm(both - truth, dim=-1),
    )


def _rows(posterior: ArrayLike) -> Float[Tensor, "N C"]:
    checked = check_probs(posterior, task="multiclass")
    rows = checked.scores.double()
    return rows / rows.sum(-1, keepdim=True)
