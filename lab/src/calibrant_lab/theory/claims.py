r"""Claims of single papers on focal losses: their validity, and counterexamples.

The confidence region says at which top probabilities the focal calibration map can raise and can lower
confidence. The temperature fit is a line through the temperatures closest to the focal map, the composition
what they foretell of networks. The PAC-Bayes bound prices flat and sharp minima. Three claims on focal
calibration loss do not hold as they stand:

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

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_at_least, check_probs, check_share
from calibrant._math.errors import InputError
from calibrant._math.focal_map import check_gamma
from calibrant._math.shapes import Float
from calibrant.theory.bracket import bracket
from calibrant.theory.focal_calibration import focal_calibration_minimiser, focal_calibration_risk
from calibrant.theory.focal_map import confidence_threshold
from calibrant.theory.temperature import closest_temperature
from calibrant_lab.theory.generalisation import check_inside, check_positive

__all__ = [
    "Composition",
    "ConfidenceRegion",
    "PacBayesBound",
    "ProcessingGaps",
    "PropernessGap",
    "TemperatureFit",
    "TopErrors",
    "confidence_region",
    "constant_processing_gaps",
    "pac_bayes_bound",
    "properness_gap",
    "temperature_composition",
    "temperature_fit",
    "top_errors",
]

_TOPS = 80  # top probabilities looked at before bisecting
_SHARES = 4
_LAST_SHARES = 25
_SMALL_COUNTS = 40  # from here on not every number of equal classes is tried
_ROUNDING = 1e-14


@dataclass(frozen=True, kw_only=True)
class ConfidenceRegion:
    """Confidence region for one number of classes, where the other classes decide."""

    gamma: float
    num_classes: int
    lowered_below: (
        float  # largest top probability that some distribution lowers; 1 / num_classes if none does
    )
    raised_above: float  # smallest one that some distribution raises; 1 / num_classes: all but that


def confidence_region(gamma: float, num_classes: int) -> ConfidenceRegion:
    r"""Return top probabilities that some distribution over K classes lowers, and that some raises.

    The top probability t falls exactly if :math:`\sum_i d_t(q_i) > 0` over the other classes, with
    :math:`d_t(q) = q \, (1/g(q) - 1/g(t))` (see :func:`confidence_threshold`). The largest and the
    smallest such sum under :math:`0 \le q_i \le t`, :math:`\sum_i q_i = 1 - t` are searched among
    distributions with some classes at t, some at zero, some at one common value and at most one at another
    value. Where :math:`d_t` bends at most once the extremes have this form. Having more classes only adds
    room, so ``lowered_below`` rises with K, towards the root of g = 1, and ``raised_above`` falls, not below
    the maximum of g.

    Args:
        gamma: Focal loss's exponent, above 0.
        num_classes: K, at least 2.

    Returns:
        Both bounds, to 1e-6 or better.

    Raises:
        InputError: If ``gamma`` is not above 0, or there are fewer than two classes.

    Note:
        For two and three classes nothing is ever lowered; from four on something is. The proof for two is
        in :func:`confidence_threshold`, that of three is this search.

    Example:
        >>> confidence_region(0.3, 3).lowered_below == 1 / 3  # never
        True
        >>> round(confidence_region(1, 100).lowered_below, 3)  # the root of g = 1 is 0.368
        0.353
    """
    check_gamma(gamma)
    if gamma <= 0:
        raise InputError(f"`gamma` must be above 0; got {gamma}.")
    check_at_least("num_classes", num_classes, 2)
    threshold = confidence_threshold(gamma)
    lowered_below = raised_above = lowest = 1 / num_classes
    if lowest < threshold.above:
        start = max(lowest, threshold.below)  # up to the maximum of g nothing is raised
        tops = _tops(start, threshold.above)
        ends = [start, *tops.tolist(), threshold.above]
        extremes = np.array([_extremes(t, gamma, num_classes) for t in ends[1:-1]])
        lowered = np.flatnonzero(extremes[:, 1] > _ROUNDING)
        if len(lowered):
            last = int(lowered[-1]) + 1
            lowered_below = _ceases(
                lambda t: _extremes(t, gamma, num_classes)[1] > _ROUNDING, ends[last], ends[last + 1]
            )
        raised, raised_above = np.flatnonzero(extremes[:, 0] < -_ROUNDING), threshold.above
        if len(raised):
            first = int(raised[0]) + 1
            raised_above = _ceases(
                lambda t: _extremes(t, gamma, num_classes)[0] >= -_ROUNDING, ends[first - 1], ends[first]
            )
            raised_above = lowest if first == 1 and raised_above < lowest * (1 + 1e-5) else raised_above
    return ConfidenceRegion(
        gamma=float(gamma), num_classes=num_classes, lowered_below=lowered_below, raised_above=raised_above
    )


def _tops(low: float, high: float) -> Float[ndarray, " M"]:
    """Return even top probabilities, with dense ones next to the largest 1 / n."""
    shares = 1 / np.arange(math.ceil(1 / high), math.floor(1 / low) + 1)[:_SHARES]
    close = np.array([1e-7, 1e-5, 1e-4, 1e-3, 1e-2])
    near = shares[:, None] * np.concatenate([1 - close, 1 + close])
    tops = np.unique(np.concatenate([np.linspace(low, high, _TOPS + 1), near.ravel()]))
    return tops[(tops > low) & (tops <= high)]


def _extremes(top: float, gamma: float, num_classes: int) -> tuple[float, float]:
    """Return the least and the greatest sum of d over the other classes."""
    others = num_classes - 1
    least, greatest = math.inf, -math.inf
    for at_top in range(min(others - 1, int((1 - top) / top)) + 1):
        room, rest = others - at_top, 1 - top - at_top * top
        if rest <= 0 or room * top < rest:
            continue
        counts = _counts(room)[:, None]  # classes at the common value, beside the one at its own
        own = np.linspace(0, min(top, rest), _LAST_SHARES)
        common = (rest - own) / counts
        sums = counts * _d(common, top, gamma) + np.where(counts < room, _d(own, top, gamma), 0)
        allowed = (common <= top * (1 + 1e-12)) & ((counts < room) | (own == 0))
        if allowed.any():
            least, greatest = min(least, sums[allowed].min()), max(greatest, sums[allowed].max())
    return float(least), float(greatest)


def _counts(room: int) -> Float[ndarray, " M"]:
    """Return class counts: all small ones, increasingly sparse large ones, and the largest two."""
    small = np.arange(1, min(room, _SMALL_COUNTS) + 1)
    large = np.geomspace(_SMALL_COUNTS, room, 40).astype(int) if room > _SMALL_COUNTS else small
    return np.unique(np.concatenate([small, large, [max(room - 1, 1), room]])).astype(np.float64)


def _d(probs: Float[ndarray, "*M"], top: float, gamma: float) -> Float[ndarray, "*M"]:
    return probs * (1 / _factor(probs, gamma) - 1 / _factor(np.array(top), gamma))


def _factor(probs: Float[ndarray, "*M"], gamma: float) -> Float[ndarray, "*M"]:
    """Return g for probabilities up to the root of g = 1."""
    log_probs = np.log(np.maximum(probs, 1e-300))
    return np.exp(gamma * np.log1p(-probs)) * (1 - gamma * probs * log_probs / (1 - probs))


def _ceases(holds: Callable[[float], bool], low: float, high: float) -> float:
    return sum(bracket(holds, low, high, width=1e-9)) / 2


@dataclass(frozen=True, kw_only=True)
class TemperatureFit:
    """A straight line through inverse temperatures: 1 / T = slope * gamma + intercept."""

    slope: float
    intercept: float
    largest_residual: float  # distance of 1 / T from the line
    largest_error: float  # of a probability by the map and by its closest temperature, over the exponents
    gammas: tuple[float, ...]
    temperatures: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Composition:
    """One network trained with focal loss, and the composition argument's prediction."""

    gamma: float
    training_temperature: float  # closest to the focal map: what focal loss does during training
    generalisation_temperature: float  # of a properly trained network on new data
    foretold: float  # product of both
    fitted: float  # temperature of the focal network on new data


def temperature_fit(
    num_classes: int = 2, *, max_gamma: float = 10.0, num_gammas: int = 50, max_logit: float | None = None
) -> TemperatureFit:
    r"""The line :math:`1/T = a \gamma + c` through the closest temperatures, by least squares.

    The exponents are equally spaced in ``(0, max_gamma]``. The line depends on that range: the curve is
    not straight.

    Args:
        num_classes: K, at least 2.
        max_gamma: The largest exponent.
        num_gammas: How many.
        max_logit: As for :func:`closest_temperature`.

    Returns:
        Slope and intercept with their residuals, and the closest temperatures themselves.

    Raises:
        InputError: If an argument is out of range.

    References:
        Komisarenko and Kull, 2024: 0.95 and 0.85 for two classes, 0.64 and 0.91 for three, 0.47 and 0.85 for
        four, ranges partly unsaid.

    Example:
        >>> found = temperature_fit(max_gamma=5, num_gammas=100)
        >>> round(found.slope, 3), round(found.intercept, 3)
        (0.929, 0.863)
    """
    if not max_gamma > 0 or num_gammas < 2:
        raise InputError(
            f"`max_gamma` must be above 0 and `num_gammas` at least 2; got {max_gamma} and {num_gammas}."
        )
    gammas = np.linspace(0, max_gamma, num_gammas + 1)[1:]
    found = [closest_temperature(float(g), num_classes, max_logit=max_logit) for g in gammas]
    inverses = np.array([1 / each.temperature for each in found])
    slope, intercept = np.polyfit(gammas, inverses, 1).tolist()
    return TemperatureFit(
        slope=slope,
        intercept=intercept,
        largest_residual=float(np.abs(inverses - slope * gammas - intercept).max()),
        largest_error=max(each.error for each in found),
        gammas=tuple(gammas.tolist()),
        temperatures=tuple(each.temperature for each in found),
    )


def temperature_composition(
    fitted: Mapping[float, float], *, proper_temperature: float, num_classes: int = 2
) -> tuple[Composition, ...]:
    r"""Compute the composition argument: the temperatures of focal training and generalisation, multiplied.

    A network trained with a proper loss needs a temperature :math:`T_{gen}` above 1 on new data. Focal loss
    trains :math:`\rho_\gamma(\mathrm{softmax}(z))`, about :math:`\mathrm{softmax}(z / T_\gamma)`; if that
    needs the same :math:`T_{gen}`, its bare logits need :math:`T_\gamma T_{gen}`, and where that is about 1
    the network looks calibrated without further ado.

    Args:
        fitted: Temperatures that networks trained with focal loss need on new data, by their exponent.
        proper_temperature: Temperature for a network trained with cross-entropy.
        num_classes: Number of classes, for :func:`closest_temperature`.

    Returns:
        Predicted and fitted temperatures, by rising exponent.

    Raises:
        InputError: If a temperature is not above 0, or an exponent is not greater than -1.

    References:
        Komisarenko and Kull, 2024, section 4.1, with :math:`T_\gamma` from 0.4 to 0.5 and :math:`T_{gen}`
        from 2 to 2.5.

    Example:
        >>> (found,) = temperature_composition({1: 1.05}, proper_temperature=1.59, num_classes=3)
        >>> round(found.foretold, 2), found.fitted
        (1.05, 1.05)
    """
    for value in (proper_temperature, *fitted.values()):
        if not 0 < value < math.inf:
            raise InputError(f"temperatures must be above 0 and finite; got {value}.")
    training = {gamma: closest_temperature(gamma, num_classes).temperature for gamma in sorted(fitted)}
    return tuple(
        Composition(
            gamma=float(gamma),
            training_temperature=temperature,
            generalisation_temperature=proper_temperature,
            foretold=temperature * proper_temperature,
            fitted=fitted[gamma],
        )
        for gamma, temperature in training.items()
    )


class PacBayesBound(NamedTuple):
    """Bound on the risk of noisy parameters, and its terms."""

    value: float
    risk: float  # at the parameters themselves, as given
    curvature_price: float  # what noise costs in risk and in divergence from the prior, by the curvatures
    distance_price: float  # for the distance from the prior's centre
    chance_price: float  # for the confidence and the number of samples
    spreads: tuple[float, ...]  # standard deviation of the best noise along each eigenvector


def pac_bayes_bound(
    curvatures: Sequence[float],
    *,
    risk: float,
    distance: float,
    prior_scale: float,
    num_samples: int,
    inverse_temperature: float | None = None,
    confidence: float = 0.95,
) -> PacBayesBound:
    r"""Return a PAC-Bayes bound for Gaussian noise around a minimum, optimised for its curvatures.

    With probability ``confidence`` over the samples, for every distribution Q of the parameters, a prior P
    and :math:`\lambda` chosen beforehand, and a loss in [0, 1],

    .. math::
        \mathbb E_Q R \le \mathbb E_Q \hat R + \frac{\mathrm{KL}(Q \| P) + \log(1/\delta)}{\lambda}
        + \frac{\lambda}{8 n} .

    The Q that makes the right side least is the Gibbs, or Maxwell-Boltzmann, distribution
    :math:`\propto P e^{-\lambda \hat R}`: the risk is the energy, :math:`1 / \lambda` the temperature. With a
    Gaussian prior of scale s and the risk's quadratic expansion of curvatures :math:`h_i` it is Gaussian,
    with variances :math:`1 / (1/s^2 + \lambda h_i)`, and

    .. math::
        \mathbb E_Q \hat R + \frac{\mathrm{KL}}{\lambda} = \hat R + \frac{d^2}{2 \lambda s^2}
        + \frac{1}{2 \lambda} \sum_i \log(1 + \lambda s^2 h_i) .

    Args:
        curvatures: Eigenvalues of the risk's Hessian at the minimum.
        risk: Mean loss of the training samples there, in [0, 1].
        distance: Distance of the parameters from the prior's centre.
        prior_scale: Standard deviation of the prior.
        num_samples: How many training samples.
        inverse_temperature: :math:`\lambda`, by default :math:`\sqrt{8 n}`; chosen before seeing the samples.
        confidence: Probability with which the bound holds.

    Returns:
        The bound, its parts and the best noise.

    Raises:
        InputError: If a number is out of range, or a curvature so negative that no Gaussian exists.

    Note:
        In words: a flat direction can be left uncertain, costs no knowledge, and is cheap; a sharp one must
        be known exactly and each doubling of its curvature costs :math:`\log 2 / (2 \lambda)`. Three limits.
        The curvature is that of the bounded loss in the bound. Multiply the loss by c and :math:`\lambda` by
        1/c: curvatures change by c, and the bound does not. So focal loss's smaller Hessian alone, on its
        smaller scale, is no evidence. The bound is of the risk, not of the calibration error. And the
        expansion is exact for a quadratic risk only.

    References:
        Catoni, "PAC-Bayesian Supervised Classification", 2007; Alquier, "User-friendly Introduction to
        PAC-Bayes Bounds", 2024, theorem 2.1. Kimura and Naganuma, "Geometric Insights into Focal Loss", 2025,
        names the perspective.

    Example:
        >>> sharp, flat = (
        ...     pac_bayes_bound([h] * 10, risk=0.1, distance=3.0, prior_scale=3.0, num_samples=1000)
        ...     for h in (1.0, 0.01)
        ... )
        >>> round(sharp.value, 3), round(flat.value, 3)
        (0.524, 0.273)
    """
    check_share("risk", risk)
    check_inside("confidence", confidence)
    check_at_least("num_samples", num_samples, 1)
    heat = math.sqrt(8 * num_samples) if inverse_temperature is None else inverse_temperature
    check_positive("prior_scale", prior_scale)
    check_positive("inverse_temperature", heat)
    check_positive("distance", distance, or_zero=True)
    stiffness = [heat * prior_scale**2 * float(curvature) for curvature in curvatures]
    if not all(-1 < each < math.inf for each in stiffness):
        least = -1 / (heat * prior_scale**2)
        raise InputError(f"`curvatures` must exceed {least:g} for this prior; got {list(curvatures)}.")
    curvature_price = math.fsum(math.log1p(each) for each in stiffness) / (2 * heat)
    distance_price = distance**2 / (2 * heat * prior_scale**2)
    chance_price = -math.log1p(-confidence) / heat + heat / (8 * num_samples)
    value = risk + curvature_price + distance_price + chance_price
    spreads = tuple(prior_scale / math.sqrt(1 + each) for each in stiffness)
    return PacBayesBound(value, risk, curvature_price, distance_price, chance_price, spreads)


class PropernessGap(NamedTuple):
    """Minimiser of the risk, and the excess cost of the true probabilities."""

    minimiser: Float[Tensor, "N C"]
    excess: Float[Tensor, " N"]  # zero if and only if the loss is proper at this posterior


class ProcessingGaps(NamedTuple):
    """Gains of the best recalibration of a constant prediction, by the relevant loss."""

    focal: float
    squared: float  # gap of the distance, summed over both classes
    focal_calibration: float
    bound: float  # focal + weight * squared, never below focal_calibration


class TopErrors(NamedTuple):
    """Top probability minus the true one at both minimisers, and their distance from the truth."""

    focal: Float[Tensor, " N"]
    focal_calibration: Float[Tensor, " N"]
    focal_distance: Float[Tensor, " N"]  # Euclidean; never below the other
    focal_calibration_distance: Float[Tensor, " N"]


def properness_gap(posterior: ArrayLike, *, gamma: float, calibration_weight: float) -> PropernessGap:
    r"""Return how much focal calibration loss prefers other probabilities to the true ones.

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
    risk = partial(focal_calibration_risk, truth, gamma=gamma, calibration_weight=calibration_weight)
    return PropernessGap(best, risk(truth) - risk(best))


def constant_processing_gaps(
    prediction: float, *, event_rate: float, gamma: float, calibration_weight: float
) -> ProcessingGaps:
    r"""Return post-processing gaps of a model with a constant probability for an event.

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
    check_inside("prediction", prediction)
    check_inside("event_rate", event_rate)
    truth = torch.tensor([[1 - event_rate, event_rate]], dtype=torch.float64)
    given = torch.tensor([[1 - prediction, prediction]], dtype=torch.float64)

    def gap(weight: float) -> float:
        best = focal_calibration_minimiser(truth, gamma=gamma, calibration_weight=weight)
        risk = partial(focal_calibration_risk, truth, gamma=gamma, calibration_weight=weight)
        return max((risk(given) - risk(best)).item(), 0.0)

    focal, squared = gap(0.0), 2 * (prediction - event_rate) ** 2
    return ProcessingGaps(focal, squared, gap(calibration_weight), focal + calibration_weight * squared)


def top_errors(posterior: ArrayLike, *, gamma: float, calibration_weight: float) -> TopErrors:
    r"""Return the top probability's error at the minimisers of focal loss and of FCL.

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
    weights = 0.0, calibration_weight
    found = [focal_calibration_minimiser(truth, gamma=gamma, calibration_weight=each) for each in weights]
    distances = (torch.linalg.vector_norm(each - truth, dim=-1) for each in found)
    return TopErrors(*(each.amax(-1) - truth.amax(-1) for each in found), *distances)


def _rows(posterior: ArrayLike) -> Float[Tensor, "N C"]:
    checked = check_probs(posterior, task="multiclass")
    rows = checked.scores.double()
    return rows / rows.sum(-1, keepdim=True)
