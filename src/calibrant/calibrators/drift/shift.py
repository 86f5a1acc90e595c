"""Whether new predictions still look like those that a calibrator was fitted on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Task
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.results import Profile, Summary, summary_of
from calibrant.calibrators.fitting.samples import floor_zero_probabilities
from calibrant.calibrators.inputs import check_like_fit

LARGE_DISTANCE = 0.1  # between histograms, beyond noise
LARGE_CHANGE = 0.05  # between mean probabilities, beyond noise
FALSE_ALARMS = 1e-3
"""Probability with which chance alone exceeds ``noise``, and with which it does so for any class."""


@dataclass(frozen=True, kw_only=True)
class ClassChange:
    """A class whose mean probability, as the model states it, changed much beyond noise."""

    name: str
    before: float
    after: float
    noise: float
    """By how much chance alone may change it."""


@dataclass(frozen=True, kw_only=True)
class Shift:
    """What :func:`shift_of` found; ``print`` it."""

    distance: float
    """Total variation between the histograms of the confidences, from 0 to 1."""
    noise: float
    """How much of it chance alone explains, but for one case in a thousand."""
    class_distance: float
    """Total variation between the mean class probabilities; 0 of several labels, which sum to nothing."""
    class_noise: float
    """How much of that chance alone explains, likewise."""
    changes: tuple[ClassChange, ...]
    """The classes, or labels, that changed much by themselves, those that changed most first."""
    num_samples: int

    @property
    def found(self) -> bool:
        """Whether anything differs much."""
        return bool(self.sentences)

    @property
    def sentences(self) -> tuple[str, ...]:
        """What differs much, in words."""
        told: list[str] = []
        if self.distance - self.noise > LARGE_DISTANCE:
            told.append(
                f"the model's confidences differ from those the calibrator was fitted on: "
                f"{self.distance:.0%} of the samples lie in other bins, of which chance explains at most "
                f"{self.noise:.0%}"
            )
        if self.class_distance - self.class_noise > LARGE_CHANGE:
            told.append(
                f"the model's mean class probabilities differ from those on the data of the fit: "
                f"{self.class_distance:.0%} lie on other classes, of which chance explains at most "
                f"{self.class_noise:.0%}"
            )
        if self.changes:
            most = self.changes[0]
            others = len(self.changes) - 1
            told.append(
                f"the model gives {most.name} a mean probability of {most.after:.3g}, and gave it "
                f"{most.before:.3g} on the data of the fit"
                + (f"; {others} more class{'es' if others > 1 else ''} changed so" if others else "")
            )
        return tuple(told)

    def __str__(self) -> str:
        if not self.found:
            return (
                f"{self.num_samples} samples look like those of the fit (distance {self.distance:.3f}, "
                f"noise {self.noise:.3f})."
            )
        return "\n".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in self.sentences)


def shift_of(calibrator: Calibrator, logits: ArrayLike, *, weights: ArrayLike | None = None) -> Shift:
    r"""Whether predictions differ much from those a calibrator was fitted on. Labels are not needed.

    Compared is what the model says before calibration. First the histogram of the confidences (top class; of
    binary and multilabel log-odds the probability of class 1), over ten bins that held equally many samples
    of the fit, by total variation d. For N and M samples of the same origin

    .. math::
       d \le \tfrac12 \sum_b \sqrt{s_b (1 - s_b) v} + \sqrt{\tfrac12 v \log(1 / \alpha)},
       \qquad v = \tfrac1N + \tfrac1M

    but for a probability of :math:`\alpha = 10^{-3}` (Jensen's and McDiarmid's inequalities; s are the pooled
    shares). A distance that exceeds this by more than 0.1 counts as a shift. Second the mean probabilities of
    the classes, likewise by total variation, with the variances of the probabilities in place of s (1 - s),
    and 0.05 in place of 0.1. Third each class, or label, by itself: a change of its mean that exceeds the
    empirical Bernstein bound by more than 0.05, or by so much that the mean more than doubled or fell to less
    than half.

    A calibrator can be right on other data and wrong on data that look the same, so this is a warning sign,
    not a verdict; only labels tell.

    Args:
        calibrator: Fitted, or loaded from a file.
        logits: What the model gives now, of the kind that the calibrator was fitted on.
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
        the model gives class 1 a mean probability of 0.159, and gave it 0.502 on the data of the fit
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
    edges, before = _numbers(profile.edges), _numbers(profile.shares)
    after = seen.shares(edges)
    names = calibrator.class_names_ or tuple(
        f"{'label' if kind == 'multilabel' else 'class'} {number}"
        for number in range(len(profile.mean_probs))
    )
    class_distance, class_noise = (0.0, 0.0) if kind == "multilabel" else _between_classes(profile, seen)
    return Shift(
        distance=0.5 * float((after - before).abs().sum()),
        noise=_noise(before, after, profile.num_rows, seen.num_rows),
        class_distance=class_distance,
        class_noise=class_noise,
        changes=_changes(profile, seen, names, kind),
        num_samples=checked.num_samples,
    )


def _numbers(values: tuple[float, ...]) -> Float[Tensor, " K"]:
    return torch.tensor(values, dtype=torch.float64)


def _between_classes(profile: Profile, seen: Summary) -> tuple[float, float]:
    """Total variation between mean class probabilities, and what chance explains of it."""
    variances = torch.zeros_like(seen.means)
    for count, spread in ((profile.num_rows, _numbers(profile.spreads)), (seen.num_rows, seen.spreads)):
        variances += spread.square() / max(1.0, count - 1)  # the spread is that of the rows themselves
    distance = 0.5 * float((seen.means - _numbers(profile.mean_probs)).abs().sum())
    return distance, _bound(variances, 1 / profile.num_rows + 1 / seen.num_rows)


def _noise(
    before: Float[Tensor, " B"], after: Float[Tensor, " B"], num_before: float, num_after: float
) -> float:
    """What the distance between two samples of the same origin exceeds only once in a thousand cases."""
    variance = 1 / num_before + 1 / num_after
    pooled = (before * num_before + after * num_after) / (num_before + num_after)
    return _bound(pooled * (1 - pooled) * variance, variance)


def _bound(variances: Tensor, variance: float) -> float:
    """Bound on half the sum of absolute differences with these variances, moved by each sample's share."""
    expected = 0.5 * float(variances.sqrt().sum())
    return min(1.0, expected + math.sqrt(0.5 * variance * math.log(1 / FALSE_ALARMS)))


def _changes(profile: Profile, seen: Summary, names: tuple[str, ...], kind: Task) -> tuple[ClassChange, ...]:
    """The classes whose mean probability changed much, largest change first."""
    before, after = _numbers(profile.mean_probs), seen.means
    exponent = math.log(4 * len(before) / FALSE_ALARMS)
    noise = torch.zeros_like(before)
    for count, spread in ((profile.num_rows, _numbers(profile.spreads)), (seen.num_rows, seen.spreads)):
        rest = max(1.0, count - 1)
        noise += math.sqrt(2 * exponent / rest) * spread + 7 * exponent / (3 * rest)
    excess = (after - before).abs() - noise
    ratio = torch.where(after > before, before, before / 2)
    large = ((excess > LARGE_CHANGE) | (excess > ratio)).nonzero()[:, 0].tolist()
    found = [
        ClassChange(name=names[k], before=float(before[k]), after=float(after[k]), noise=float(noise[k]))
        for k in large
    ]
    if kind == "binary":  # what one class gains the other loses
        found = found[-1:]
    return tuple(sorted(found, key=lambda each: abs(each.before - each.after), reverse=True))
