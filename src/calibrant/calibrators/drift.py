"""New data that differ from the fit: class frequencies estimated without labels, and signs of a shift."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import Task, check_probs, check_weights
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.results import Summary, summary_of
from calibrant.calibrators.fitting.samples import floor_zero_probabilities
from calibrant.calibrators.inputs import check_like_fit

_TOLERANCE = 1e-6  # tolerance of the maximum likelihood, in nats of all samples together
_MAX_STEPS = 10_000
_SUM_TOLERANCE = 1e-3
LARGE_DISTANCE = 0.1  # between histograms, beyond noise
LARGE_CHANGE = 0.05  # between mean probabilities, beyond noise
FALSE_ALARMS = 1e-3
"""Probability with which chance alone exceeds ``noise``, and with which it does so for any class."""


@dataclass(frozen=True, kw_only=True)
class PriorEstimate:
    """Result of :func:`estimate_prior`."""

    prior: tuple[float, ...]
    """Estimated share of each class; both classes of a binary problem."""
    standard_errors: tuple[float, ...]
    """Their standard errors, from the curvature of the likelihood and, if ``num_source`` was given, from what
    the calibrator's own fit leaves uncertain."""
    source_prior: tuple[float, ...]
    """The shares that the probabilities were calibrated for."""
    converged: bool
    steps: int
    gap: float
    """The log-likelihood of all samples is within this of its maximum."""
    num_samples: int


def estimate_prior(
    probs: ArrayLike,
    *,
    source_prior: ArrayLike | float,
    num_source: int | None = None,
    weights: ArrayLike | None = None,
    max_steps: int = _MAX_STEPS,
) -> PriorEstimate:
    r"""Estimate class frequencies of unlabelled data from calibrated probabilities (label shift).

    Where only the frequencies of the classes changed, and not what each class looks like, the likelihood of
    the new data under frequencies q is :math:`\prod_i \sum_k q_k p_{ik} / \pi_k`, with the probabilities p
    calibrated for frequencies :math:`\pi`. Its logarithm is concave; expectation maximisation climbs to the
    maximum:

    .. math:: q_k \leftarrow \frac1N \sum_i \frac{p_{ik} q_k / \pi_k}{\sum_l p_{il} q_l / \pi_l}

    Args:
        probs: Probabilities of the new data, ``(N, C)``, or ``(N,)`` of class 1. They must be calibrated on
            data with the frequencies ``source_prior``, by a calibrator that corrects class frequencies
            (:class:`BiasCorrectedTemperatureScaling`, :class:`PlattScaling` for binary ones). A calibrator
            without shifts of its own leaves a bias that looks like a shift.
        source_prior: The class frequencies of the calibration data, ``(C,)``, or one number for class 1;
            ``calibrator.fit_result_.profile.class_prior`` holds them.
        num_source: Number of samples in the calibrator's fit; the standard errors then contain those of
            its slope and its shifts, by the delta method. Without it they hold for known probabilities.
        weights: Sample weights ``(N,)``, in any unit.
        max_steps: The most steps of the iteration.

    Returns:
        The frequencies, their standard errors, and how close to the maximum they are.

    Raises:
        InputError: If shapes disagree, a value is out of range, or a class has a source frequency of zero.

    Note:
        O(N C) per step; steps are extrapolated (Varadhan and Roland's SQUAREM). Stops where the maximum is at
        most 1e-6 nats away, by the bound
        :math:`N (\max_k \frac1N \sum_i p_{ik} / (\pi_k \sum_l q_l p_{il} / \pi_l) - 1)` that concavity
        gives. The standard error of a class estimated as absent is 0.

    References:
        Saerens, Latinne and Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
        Probabilities", Neural Computation 14, 2002, eq. (9). Alexandari, Kundaje and Shrikumar, "Maximum
        Likelihood with Bias-Corrected Calibration is Hard-To-Beat at Label Shift Adaptation", ICML 2020.
        Varadhan and Roland, "Simple and Globally Convergent Methods for Accelerating the Convergence of Any
        EM Algorithm", Scandinavian Journal of Statistics 35, 2008.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> happens = torch.rand(20000, generator=generator) < 0.1
        >>> score = torch.randn(20000, generator=generator) + 2.0 * happens
        >>> probs = torch.sigmoid(2 * score - 2)  # right where both classes are equally frequent
        >>> found = estimate_prior(probs, source_prior=0.5)
        >>> abs(found.prior[1] - 0.1) < 3 * found.standard_errors[1] < 0.02
        True
    """
    table, source, _ = _calibrated(probs, source_prior)
    masses = table.new_ones(len(table))
    if weights is not None:
        masses = check_weights(weights, len(table), device=table.device)
    shares = masses / masses.sum()
    total = 1 / float((shares**2).sum())  # the effective number of samples
    ratios = torch.where(source > 0, table / source, 0)  # (N, C)
    prior, steps, gap = _climb(ratios, shares, source, total, max_steps)
    return PriorEstimate(
        prior=tuple(prior.tolist()),
        standard_errors=tuple(_standard_errors(ratios, source, prior, shares, num_source).tolist()),
        source_prior=tuple(source.tolist()),
        converged=gap <= _TOLERANCE,
        steps=steps,
        gap=gap,
        num_samples=len(table),
    )


def adjust_to_prior(probs: ArrayLike, *, prior: ArrayLike | float, source_prior: ArrayLike | float) -> Tensor:
    r"""Adapt calibrated probabilities to other class frequencies.

    .. math:: p'_k \propto p_k \, q_k / \pi_k

    Args:
        probs: Calibrated probabilities, ``(N, C)``, or ``(N,)`` of class 1.
        prior: The new class frequencies q, ``(C,)``, or one number for class 1.
        source_prior: The class frequencies :math:`\pi` of the calibration data, likewise.

    Returns:
        float64, in the shape of ``probs``.

    Raises:
        InputError: If shapes disagree, a value is out of range, or a class has a source frequency of zero.

    References:
        Saerens, Latinne and Decaestecker, "Adjusting the Outputs of a Classifier to New a Priori
        Probabilities", Neural Computation 14, 2002, eq. (4).

    Example:
        >>> adjust_to_prior(torch.tensor([0.5, 0.9]), prior=0.1, source_prior=0.5)
        tensor([0.1000, 0.5000], dtype=torch.float64)
    """
    table, source, is_event = _calibrated(probs, source_prior)
    source, new = source.to(table), _prior("prior", prior, table.shape[1]).to(table)
    factors = torch.where(source > 0, new / torch.where(source > 0, source, 1), 0)
    adjusted = table * factors
    total = adjusted.sum(dim=1, keepdim=True)
    # A sample certain to be of an absent class keeps its probabilities.
    adjusted = torch.where(total > 0, adjusted / torch.where(total > 0, total, 1), table)
    return adjusted[:, 1] if is_event else adjusted


def source_prior_of(calibrator: Calibrator) -> tuple[float, ...]:
    """The class frequencies of the data a calibrator was fitted on.

    Args:
        calibrator: Fitted on binary or multiclass predictions.

    Returns:
        One share for each class, both of a binary problem.

    Raises:
        InputError: If the calibrator is one of several labels, or was fitted to very many classes, or by
            an older version, and does not tell.
        NotFittedError: If it is not fitted.

    Example:
        >>> from calibrant.calibrators import TemperatureScaling
        >>> source_prior_of(TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3))
        (0.3, 0.7)
    """
    if calibrator.kind_ == "multilabel":
        raise InputError(
            "`calibrator` must be one of classes that exclude each other; of several labels correct every "
            "column by itself, with a calibrator of its own."
        )
    profile = calibrator.fit_result_.profile
    if profile is None:
        raise InputError(
            "`calibrator` must know the class frequencies it was fitted on, which fits to very many classes "
            "and files of older versions do not tell; of older versions fit it again."
        )
    return profile.class_prior


def _calibrated(
    probs: ArrayLike, source_prior: ArrayLike | float
) -> tuple[Float[Tensor, "N C"], Float[Tensor, " C"], bool]:
    """Probabilities of all classes in float64, their class frequencies, and whether they are an event's."""
    table = check_probs(probs).scores.to(torch.float64)
    if is_event := table.ndim == 1:
        table = torch.stack([1 - table, table], dim=1)
    else:
        table = table / table.sum(dim=1, keepdim=True)
    source = _prior("source_prior", source_prior, table.shape[1])
    absent = (source == 0) & (table > 0).any(dim=0)
    if bool(absent.any()):
        number = int(absent.to(torch.uint8).argmax())
        raise InputError(
            f"`source_prior` must be positive for every class with probability; that of class {number} is 0."
        )
    return table, source, is_event


def _prior(name: str, values: ArrayLike | float, num_classes: int) -> Float[Tensor, " C"]:
    prior = as_float_tensor(torch.as_tensor(values, dtype=torch.float64), name=name)
    if prior.ndim == 0 and num_classes == 2:
        prior = torch.stack([1 - prior, prior])
    if prior.shape != (num_classes,):
        raise InputError(
            f"`{name}` must have {num_classes} entries, one per class; got shape {tuple(prior.shape)}."
        )
    if not bool((torch.isfinite(prior) & (prior >= 0)).all()):
        raise InputError(f"`{name}` must be finite and not negative; got {prior.tolist()}.")
    total = float(prior.sum())
    if abs(total - 1) > _SUM_TOLERANCE:
        raise InputError(f"`{name}` must sum to one; got {prior.tolist()}, which sum to {total:.6g}.")
    return prior / total


def _climb(
    ratios: Float[Tensor, "N C"],
    shares: Float[Tensor, " N"],
    start: Float[Tensor, " C"],
    total: float,
    max_steps: int,
) -> tuple[Float[Tensor, " C"], int, float]:
    """Frequencies near the maximum, steps, and a bound on the gap to it, by EM with leaps (SQUAREM)."""

    def seen(prior: Tensor) -> tuple[float, Tensor]:
        """Mean log-likelihood, and the factor of each class's frequency; 1 at the maximum."""
        density = (ratios @ prior).clamp(min=torch.finfo(torch.float64).tiny)
        return float(density.log() @ shares), (shares / density) @ ratios

    prior, fallback, lowest, steps = start, start, -math.inf, 0
    while True:
        value, pull = seen(prior)
        steps += 1
        if value < lowest:  # the leap was too far
            prior, lowest = fallback, -math.inf
            continue
        gap = total * max(0.0, float(pull.max()) - 1)
        if gap <= _TOLERANCE or steps >= max_steps:
            return prior, steps, gap
        once = prior * pull
        lowest, pull = seen(once / once.sum())
        steps += 1
        fallback = once * pull / (once * pull).sum()
        prior = _leap(prior, once, fallback)


def _leap(prior: Tensor, once: Tensor, twice: Tensor) -> Float[Tensor, " C"]:
    """Limit of the steps, if each were the same fraction of the one before."""
    first, change = once - prior, twice - 2 * once + prior
    length = float(first.norm() / change.norm()) if bool(change.any()) else 1.0
    if length <= 1:
        return twice
    # A leap keeps every class above zero, from which no step returns.
    leapt = (prior + 2 * length * first + length**2 * change).maximum(twice / 10)
    return leapt / leapt.sum()


def _standard_errors(
    ratios: Float[Tensor, "N C"],
    source: Float[Tensor, " C"],
    prior: Float[Tensor, " C"],
    shares: Float[Tensor, " N"],
    num_source: int | None,
) -> Float[Tensor, " C"]:
    """Standard errors by the sandwich on the simplex of present classes and the calibrator's."""
    present = prior > 1e-12
    found, count = torch.zeros_like(prior), int(present.sum())
    if count < 2:
        return found
    density = (ratios @ prior).clamp(min=torch.finfo(torch.float64).tiny)
    scores = ratios[:, present] / density[:, None]
    curvature = (scores * shares[:, None]).T @ scores
    centre = torch.eye(count, dtype=torch.float64, device=prior.device) - 1 / count
    inverse = torch.linalg.pinv(centre @ curvature @ centre, hermitian=True)
    moved = scores * shares[:, None]
    covariance = inverse @ (moved.T @ moved) @ inverse
    if num_source is not None:
        moves, fit = _of_the_calibrator(ratios[:, present] * source[present], shares / density)
        classes = source[present]  # their shares equal those of the fit, so its shifts vary less
        fit[1:, 1:] -= torch.diag(1 / classes[1:]) + 1 / classes[0]
        pulled = moved[:, None, :] * (
            moves - (moves * prior[present] * scores[:, None]).sum(dim=2, keepdim=True)
        )  # (N, P, K): how the score of each class moves with each parameter
        change = inverse @ pulled.sum(dim=0).T
        covariance = covariance + change @ (fit / num_source) @ change.T
    found[present] = covariance.diagonal().clamp(min=0).sqrt()
    return found


def _of_the_calibrator(
    probs: Float[Tensor, "N K"], source: Float[Tensor, " N"]
) -> tuple[Float[Tensor, "N P K"], Float[Tensor, "P P"]]:
    """Change of log-probabilities with a calibrator's slope and shifts, and its covariance for one sample.

    ``source`` reweights the new samples to the calibration data.
    """
    probs = probs / probs.sum(dim=1, keepdim=True)
    identity = torch.eye(probs.shape[1], dtype=probs.dtype, device=probs.device)[1:]
    logs = probs.clamp(min=torch.finfo(torch.float64).tiny).log()
    along = torch.cat([logs[:, None], identity.expand(len(probs), -1, -1)], dim=1)  # (N, P, K)
    moves = along - (along * probs[:, None]).sum(dim=2, keepdim=True)
    weighed = moves * (probs * (source / source.sum())[:, None])[:, None]
    return moves, torch.linalg.pinv(torch.einsum("npk,nqk->pq", weighed, moves), hermitian=True)


@dataclass(frozen=True, kw_only=True)
class ClassChange:
    """A class whose mean predicted probability changed far beyond noise."""

    name: str
    before: float
    after: float
    noise: float
    """Largest change that noise explains."""


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Result of :func:`shift_of`; ``print`` it."""

    distance: float
    """Total variation between the histograms of the confidences, from 0 to 1."""
    noise: float
    """Largest ``distance`` that noise explains, except in one of a thousand cases."""
    class_distance: float
    """Total variation between the mean class probabilities; 0 of several labels, which sum to nothing."""
    class_noise: float
    """Largest ``class_distance`` that noise explains, except in one of a thousand cases."""
    changes: tuple[ClassChange, ...]
    """The classes, or labels, that changed much by themselves, those that changed most first."""
    num_samples: int

    @property
    def found(self) -> bool:
        """True if anything differs much."""
        return bool(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Large differences, in words."""
        told: list[str] = []
        if self.distance - self.noise > LARGE_DISTANCE:
            told.append(
                f"The model's confidences differ from those in the fit: {self.distance:.0%} of the samples "
                f"moved to other bins; noise explains at most {self.noise:.0%}."
            )
        if self.class_distance - self.class_noise > LARGE_CHANGE:
            told.append(
                f"The mean class probabilities differ from those in the fit: {self.class_distance:.0%} "
                f"moved to other classes; noise explains at most {self.class_noise:.0%}."
            )
        if self.changes:
            most, others = self.changes[0], len(self.changes) - 1
            more = f"; {others} more class{'es' if others > 1 else ''} changed" if others else ""
            change = f"{most.after:.3g} (in the fit: {most.before:.3g}){more}"
            told.append(f"The mean probability of {most.name} is {change}.")
        return tuple(told)

    def __str__(self) -> str:
        if not self.found:
            return (
                f"{self.num_samples} samples resemble those of the fit (distance {self.distance:.3f}, "
                f"noise {self.noise:.3f})."
            )
        return "\n".join(self.sentences)


def shift_of(calibrator: Calibrator, logits: ArrayLike, *, weights: ArrayLike | None = None) -> Shift:
    r"""Test whether predictions differ much from those of a calibrator's fit. Labels are not needed.

    Compared is what the model says before calibration. First the histogram of the confidences (top class; of
    binary and multilabel log-odds the probability of class 1), over ten bins that held equally many samples
    of the fit, by total variation d. For N and M samples of the same origin

    .. math::
       d \le \tfrac12 \sum_b \sqrt{s_b (1 - s_b) v} + \sqrt{\tfrac12 v \log(1 / \alpha)},
       \qquad v = \tfrac1N + \tfrac1M

    but for a probability of :math:`\alpha = 10^{-3}` (Jensen's and McDiarmid's inequalities; s are the pooled
    shares). A distance that exceeds this by more than 0.1 counts as a shift. Second the mean probabilities of
    the classes, likewise by total variation. Variances of the probabilities replace s (1 - s), and 0.05
    replaces 0.1. Third each class, or label, by itself. Its mean must change by 0.05 more than the empirical
    Bernstein bound, or more than double or halve beyond that bound.

    A calibrator can be right on other data and wrong on data that look the same, so this is a warning sign,
    not a verdict; only labels tell.

    Args:
        calibrator: Fitted, or loaded from a file.
        logits: Present outputs of the model, of the kind that the calibrator was fitted on.
        weights: Sample weights ``(N,)``.

    Returns:
        The distance, what chance explains of it, and the classes that changed.

    Raises:
        InputError: If the shape is not that of the fit, a value is NaN, or the calibrator kept no
            profile: it was fitted to very many classes, or by an older version.
        NotFittedError: If the calibrator is not fitted.

    Note:
        O(N C); of large tables evenly spaced rows are looked at. A sample is one row, also where it has
        several labels.

    References:
        McDiarmid, "On the method of bounded differences", 1989. Maurer and Pontil, "Empirical Bernstein
        Bounds and Sample Variance Penalization", COLT 2009.

    Example:
        >>> from calibrant.calibrators import PlattScaling
        >>> generator = torch.Generator().manual_seed(0)
        >>> log_odds = torch.randn(2000, generator=generator)
        >>> labels = torch.bernoulli(torch.sigmoid(log_odds), generator=generator)
        >>> calibrator = PlattScaling().fit(log_odds, labels)
        >>> shift_of(calibrator, torch.randn(2000, generator=generator)).found
        False
        >>> print(shift_of(calibrator, torch.randn(2000, generator=generator) - 2).sentences[-1])
        The mean probability of class 1 is 0.159 (in the fit: 0.502).
    """
    profile = calibrator.fit_result_.profile
    if profile is None:
        raise InputError(
            "`calibrator` must know the data it was fitted on, which fits to very many classes and files of "
            "older versions do not tell; of older versions fit it again."
        )
    kind = calibrator.kind_
    checked = check_like_fit(calibrator.name, kind, calibrator.num_classes_, logits, weights)
    scores, _ = floor_zero_probabilities(checked.scores.cpu(), kind)
    masses = None if checked.weights is None else checked.weights.cpu()
    seen = summary_of(scores, masses, kind)
    edges, before, means, spreads = (
        torch.tensor(values, dtype=torch.float64)
        for values in (profile.edges, profile.shares, profile.mean_probs, profile.spreads)
    )
    after, num_before, num_after = seen.shares(edges), profile.num_rows, seen.num_rows
    variance = 1 / num_before + 1 / num_after

    def bound(variances: Tensor) -> float:
        """Largest half sum of absolute differences that noise of these variances explains."""
        expected = 0.5 * float(variances.sqrt().sum())
        return min(1.0, expected + math.sqrt(0.5 * variance * math.log(1 / FALSE_ALARMS)))

    pooled = (before * num_before + after * num_after) / (num_before + num_after)
    what = "label" if kind == "multilabel" else "class"
    names = calibrator.class_names_ or tuple(f"{what} {number}" for number in range(len(means)))
    rests = max(1.0, num_before - 1), max(1.0, num_after - 1)
    class_distance = class_noise = 0.0
    if kind != "multilabel":
        class_distance = 0.5 * float((seen.means - means).abs().sum())
        class_noise = bound(spreads.square() / rests[0] + seen.spreads.square() / rests[1])
    return Shift(
        distance=0.5 * float((after - before).abs().sum()),
        noise=bound(pooled * (1 - pooled) * variance),
        class_distance=class_distance,
        class_noise=class_noise,
        changes=_changes(means, spreads, seen, rests, names, kind),
        num_samples=checked.num_samples,
    )


def _changes(
    before: Float[Tensor, " K"],
    spreads: Float[Tensor, " K"],
    seen: Summary,
    rests: tuple[float, float],
    names: tuple[str, ...],
    kind: Task,
) -> tuple[ClassChange, ...]:
    """Classes whose mean probability changed much, largest change first."""
    after, exponent = seen.means, math.log(4 * len(before) / FALSE_ALARMS)
    noise = torch.zeros_like(before)
    for rest, spread in zip(rests, (spreads, seen.spreads), strict=True):
        noise += math.sqrt(2 * exponent / rest) * spread + 7 * exponent / (3 * rest)
    excess = (after - before).abs() - noise
    ratio = torch.where(after > before, before, before / 2)
    large = ((excess > LARGE_CHANGE) | (excess > ratio)).nonzero()[:, 0].tolist()
    if kind == "binary":  # one class gains the other's loss
        large = large[-1:]
    found = [
        ClassChange(name=names[k], before=float(before[k]), after=float(after[k]), noise=float(noise[k]))
        for k in large
    ]
    return tuple(sorted(found, key=lambda each: abs(each.before - each.after), reverse=True))
