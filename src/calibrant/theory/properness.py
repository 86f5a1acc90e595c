"""Searches for counter-examples to a loss being proper, classification-calibrated or convex."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.theory.risk_minimiser import RiskMinimiser, check_posterior, risk_minimiser
from calibrant.theory.risk_minimiser_losses import Loss, Risk

__all__ = [
    "ClassificationCalibration",
    "Convexity",
    "CounterExample",
    "Properness",
    "classification_calibration",
    "convexity",
    "properness",
]

_MOVED = 1e-6  # of a probability: closer places count as one
_LOWER = 1e-11  # of a risk: smaller differences are rounding
_TIED = 1e-6  # largest difference of the two top probabilities that counts as a tie

_KNOWN = {
    2: ([0.2, 0.8], [0.05, 0.95], [0.45, 0.55], [0.01, 0.99], [1e-6, 1 - 1e-6]),
    3: ([0.55, 0.3, 0.15], [0.4, 0.35, 0.25], [0.9, 0.06, 0.04]),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class CounterExample:
    """A posterior with a smaller expected loss elsewhere."""

    posterior: Float[Tensor, " C"]
    minimiser: Float[Tensor, " C"]
    risk_of_posterior: float
    """Expected loss where the posterior itself is predicted."""
    risk_of_minimiser: float
    """Expected loss of the minimiser: less."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Properness:
    """Result of the search for counter-examples to properness."""

    verdict: Literal["improper", "none found", "none found, not strictly"]
    """``"improper"`` is certain: the counter-example proves it. ``"none found"`` is the search's result:
    the posterior was the only minimiser wherever it looked; ``"not strictly"``: not the only one."""
    counter_example: CounterExample | None
    num_posteriors: int
    """Number of posteriors tried."""
    num_classes: tuple[int, ...]
    """The numbers of classes that were tried."""
    largest_miss: float
    """Largest difference between a posterior's probability and its minimiser's, over those tried."""
    statement: str | None
    """The loss's own statement: its attribute ``properness``, as on functions and modules in
    :mod:`calibrant.losses`; else None."""

    def __str__(self) -> str:
        classes = " and ".join(str(count) for count in self.num_classes)
        said = "" if self.statement is None else f" The loss states: {self.statement}"
        if self.counter_example is None:
            strictly = "" if self.verdict == "none found" else "; it was not always the only minimiser"
            return (
                f"No counter-example among {self.num_posteriors} posteriors of {classes} classes "
                f"(largest miss {self.largest_miss:.1e}){strictly}.{said}"
            )
        found = self.counter_example
        return (
            f"Improper: at the posterior {_shown(found.posterior)} the risk is "
            f"{found.risk_of_posterior:.6g} there and {found.risk_of_minimiser:.6g} at "
            f"{_shown(found.minimiser)}.{said}"
        )


def properness(
    loss: Loss,
    *,
    num_classes: int | Sequence[int] = (2, 3, 5),
    num_posteriors: int = 6,
    batch_size: int | None = None,
    seed: int = 0,
) -> Properness:
    """Search for a posterior that does not minimise a loss in expectation.

    A loss is proper if predicting the true probabilities minimises its expectation, whatever they are, and
    strictly so if nothing else does. One counter-example refutes it; no finite search proves it.

    Args:
        loss: Takes logits ``(N, C)`` and labels ``(N,)``; see :func:`risk_minimiser`.
        num_classes: A number of classes to try, or several.
        num_posteriors: Posteriors per number of classes: simple ones first, then draws of Dirichlet laws.
        batch_size: For losses of a whole batch; posteriors are then rounded to multiples of one over it.
        seed: Seed of the draws and of the searches.

    Returns:
        The verdict, with the first counter-example if there is one, and the extent of the search.

    Raises:
        InputError: See :func:`risk_minimiser`.

    References:
        Gneiting and Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", JASA 102, 2007.

    Example:
        >>> import torch
        >>> def focal(logits, labels):
        ...     log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        ...     return -(1 - log_p.exp()) ** 2 * log_p
        >>> print(properness(focal))
        Improper: at the posterior (0.2, 0.8) the risk is 0.213149 there and 0.129496 at (0.373385, 0.626615).
        >>> properness(torch.nn.functional.cross_entropy, num_posteriors=2).verdict
        'none found'
    """
    statement = statement_of(loss)
    tried, largest, strictly = 0, 0.0, True
    counter_example: CounterExample | None = None
    num_classes = (num_classes,) if isinstance(num_classes, int) else num_classes
    for posterior in posteriors(num_classes, num_posteriors, batch_size=batch_size, seed=seed):
        tried += 1
        found = risk_minimiser(loss, posterior, batch_size=batch_size, num_starts=3, seed=seed)
        at_truth = float(Risk(loss, posterior, batch_size=batch_size).many(posterior.log()[None])[0])
        miss = float((found.probs - posterior).abs().max())
        if at_truth - found.risk > _LOWER * (1 + abs(at_truth)) and miss > _MOVED:
            counter_example = _counter_example(posterior, found, at_truth)
            largest = miss
            break
        others = (found.probs, *found.others)
        strictly &= all(float((other - posterior).abs().max()) <= 1e-4 for other in others)
        if found.converged:
            largest = max(largest, miss)
    verdict = "none found" if strictly else "none found, not strictly"
    return Properness(
        verdict=verdict if counter_example is None else "improper",
        counter_example=counter_example,
        num_posteriors=tried,
        num_classes=tuple(num_classes),
        largest_miss=largest,
        statement=statement,
    )


def statement_of(loss: object) -> str | None:
    """Statement of a loss about itself: ``properness`` of it, or of the function it was made from."""
    statement = getattr(loss, "properness", None)
    if isinstance(statement, str):
        return statement
    return statement_of(loss.func) if isinstance(loss, functools.partial) else None


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassificationCalibration:
    """Result of testing if the most probable class stays the most probable one."""

    counter_example: CounterExample | None
    """A posterior whose minimiser prefers another class, or prefers none where the posterior does."""
    num_posteriors: int
    confidence: Literal["calibrated", "under", "over", "both"]
    """The minimiser's top probability against the posterior's, over the posteriors tried."""
    least_change: float
    """The most that the top probability fell (negative), over the posteriors tried."""
    largest_change: float
    """The most that it rose."""


def classification_calibration(
    loss: Loss,
    *,
    num_classes: Sequence[int] = (2, 3, 5),
    num_posteriors: int = 6,
    batch_size: int | None = None,
    seed: int = 0,
) -> ClassificationCalibration:
    """Test if minimising a loss gives the best classifier, and if that is under- or overconfident.

    A loss is classification-calibrated if its minimiser's most probable class is the posterior's. The search
    is that of :func:`properness`, with the same arguments and errors; a tie at the minimiser where the
    posterior has none counts against it.

    Returns:
        A counter-example if there is one, and how the top probability differs from the true one.

    References:
        Bartlett, Jordan and McAuliffe, "Convexity, Classification, and Risk Bounds", JASA 101, 2006.

    Example:
        >>> import torch
        >>> smoothed = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
        >>> found = classification_calibration(smoothed, num_posteriors=2)
        >>> found.counter_example, found.confidence
        (None, 'under')
    """
    tried, least, largest = 0, 0.0, 0.0
    counter_example: CounterExample | None = None
    for posterior in posteriors(num_classes, num_posteriors, batch_size=batch_size, seed=seed):
        tried += 1
        found = risk_minimiser(loss, posterior, batch_size=batch_size, num_starts=2, seed=seed)
        change = float(found.probs.max() - posterior.max())
        least, largest = min(least, change), max(largest, change)
        second, first = found.probs.topk(2).values.flip(0).tolist()
        kept = int(found.probs.argmax()) == int(posterior.argmax()) and first - second > _TIED
        if not kept and counter_example is None:
            at_truth = float(Risk(loss, posterior, batch_size=batch_size).many(posterior.log()[None])[0])
            counter_example = _counter_example(posterior, found, at_truth)
    fell, rose = least < -1e-5, largest > 1e-5
    return ClassificationCalibration(
        counter_example=counter_example,
        num_posteriors=tried,
        confidence="both" if fell and rose else "under" if fell else "over" if rose else "calibrated",
        least_change=least,
        largest_change=largest,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Convexity:
    """Result of a search among segments."""

    convex: bool
    """False is certain: the segment proves it. True: no segment was found."""
    ends: Float[Tensor, "2 C"] | None
    """Probabilities at the two ends of the segment, or logits."""
    excess: float
    """Loss in the middle minus the mean of the ends there; 0 if no segment was found."""
    num_segments: int


def convexity(
    loss: Loss,
    *,
    space: Literal["probs", "logits"] = "probs",
    num_classes: Sequence[int] = (2, 3),
    num_segments: int = 2000,
    batch_size: int | None = None,
    seed: int = 0,
) -> Convexity:
    """Search for a segment on which a loss of class 0 exceeds its chord.

    Segments are drawn at random, long and short ones, also between vertices' neighbourhoods; the loss is
    looked at in the middle.

    Args:
        loss: Takes logits ``(N, C)`` and labels ``(N,)``; see :func:`risk_minimiser`.
        space: In what: the probabilities, or the logits.
        num_classes: Numbers of classes to try.
        num_segments: Segments per number of classes.
        batch_size: For losses of a whole batch: the labels are then class 0 and, one in four, class 1.
        seed: Seed of the draws.

    Returns:
        Whether every segment passed, and the worst if not.

    Raises:
        InputError: If ``space`` is another word, or as for :func:`risk_minimiser`.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", 2024, proposition 1 (focal loss is convex in the probabilities).

    Example:
        >>> import torch
        >>> def focal(logits, labels):
        ...     log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        ...     return -(1 - log_p.exp()) ** 2 * log_p
        >>> convexity(focal).convex, convexity(focal, space="logits").convex
        (True, False)
    """
    check_choice("space", space, ("probs", "logits"))
    worst, ends = 0.0, None
    for number in num_classes:
        posterior = torch.zeros(number, dtype=torch.float64)
        posterior[0] = 1.0 if batch_size is None else 0.75
        posterior[1] = 1 - posterior[0]
        risk = Risk(loss, posterior, batch_size=batch_size)
        first, second = _segments(number, num_segments, seed)
        if space == "probs":
            places = (first, (first + second) / 2, second)
            values = [risk.many(place.log()) for place in places]
        else:
            places = (first.log(), (first.log() + second.log()) / 2, second.log())
            values = [risk.many(place) for place in places]
        mean = (values[0] + values[2]) / 2
        excess = (values[1] - mean) / (1 + mean.abs())
        place = int(excess.argmax())
        if excess[place].item() > max(1e-11, worst):
            worst, ends = excess[place].item(), torch.stack([places[0][place], places[2][place]])
    return Convexity(
        convex=ends is None, ends=ends, excess=worst, num_segments=num_segments * len(num_classes)
    )


def _segments(number: int, count: int, seed: int) -> tuple[Float[Tensor, "G C"], Float[Tensor, "G C"]]:
    """Ends of segments, as probabilities: logits of all sizes; half of the segments short."""
    generator = torch.Generator().manual_seed(seed)

    def normal(scale: Tensor) -> Tensor:
        return scale * torch.randn(count, number, generator=generator, dtype=torch.float64)

    sizes = 0.3 + 5 * torch.rand(count, 1, generator=generator, dtype=torch.float64)
    first, second = normal(sizes), normal(sizes)
    second[::2] = first[::2] + 0.1 * second[::2]
    return first.softmax(1), second.softmax(1)


def posteriors(
    num_classes: Sequence[int], count: int, *, batch_size: int | None, seed: int
) -> Iterator[Float[Tensor, " C"]]:
    """Posteriors without zeros or ties: simple ones, a low top probability, draws of Dirichlet laws."""
    if count < 1 or any(number < 2 for number in num_classes):
        raise InputError(
            "`num_posteriors` must be at least 1 and `num_classes` at least 2; "
            f"got {count} and {tuple(num_classes)}."
        )
    for number in num_classes:
        generator = np.random.default_rng(seed)
        simple: list[ArrayLike] = list(_KNOWN.get(number, ()))
        if number > 3:
            simple += [torch.linspace(2, 1, number, dtype=torch.float64), _one_ahead(number)]
        for place in range(count):
            if place < len(simple):
                weights = torch.as_tensor(simple[place], dtype=torch.float64)
                yield check_posterior(_spread(weights, batch_size))
                continue
            shape = (0.5, 1.0, 5.0)[place % 3]
            draws = torch.from_numpy(generator.gamma(shape, size=number))
            yield check_posterior(_spread(draws.clamp(min=1e-4), batch_size))


def _one_ahead(number: int) -> Float[Tensor, " C"]:
    weights = torch.ones(number, dtype=torch.float64)
    weights[0] = 2
    return weights


def _spread(weights: Float[Tensor, " C"], batch_size: int | None) -> Float[Tensor, " C"]:
    """Normalised weights; with ``batch_size`` as multiples of its inverse, none zero."""
    probs = weights / weights.sum()
    if batch_size is None:
        return probs
    counts = (probs * batch_size).floor().clamp(min=1)
    counts[counts.argmax()] += batch_size - counts.sum()
    return counts / batch_size


def _counter_example(posterior: Float[Tensor, " C"], found: RiskMinimiser, at_truth: float) -> CounterExample:
    return CounterExample(
        posterior=posterior, minimiser=found.probs, risk_of_posterior=at_truth, risk_of_minimiser=found.risk
    )


def _shown(probs: Float[Tensor, " C"]) -> str:
    return "(" + ", ".join(f"{p:.6g}" for p in probs.tolist()) + ")"
