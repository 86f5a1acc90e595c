r"""The largest logits of each sample, with the log-sum-exp of the others.

A temperature T changes that sum from :math:`\sum_j e^{z_j}` to :math:`\sum_j e^{z_j / T}`, which is no
function of it. None of the others exceeds the last logit that is known, so the new sum has bounds. One is
reached if the others are equal, the other if as few of them as possible have any mass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, get_args

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor, refuse_rows
from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int

Spread: TypeAlias = Literal["power-law", "even", "narrow"]
"""Spread of the unlisted logits: a power law from the last listed one, all equal, or as few as possible."""

_SLACK = 2e-3  # of sums of rounded probabilities, and of logits
_STEEPEST = 1e4  # exponent of a power law
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True, eq=False)
class TopK:
    """The k largest logits of each of N samples, falling, and the log-sum-exp of all others.

    ``logits`` may be log-probabilities. Made and checked by :func:`top_k_of`.
    """

    logits: Float[Tensor, "N k"]
    indices: Int[Tensor, "N k"]
    log_rest: Float[Tensor, " N"]
    num_classes: int | None = None
    label_logits: Float[Tensor, " N"] | None = None
    """Logit of the true class, also where it is not among the largest; NaN if unknown."""

    @property
    def predicted(self) -> Int[Tensor, " N"]:
        return self.indices[:, 0]

    @property
    def log_total(self) -> Float[Tensor, " N"]:
        return torch.logaddexp(self.logits.logsumexp(dim=1), self.log_rest)

    @property
    def confidence(self) -> Float[Tensor, " N"]:
        return (self.logits[:, 0] - self.log_total).exp()

    def log_probs_of(self, labels: Int[Tensor, " M"]) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Log-probability of the true class, NaN if unknown; and an upper bound on it."""
        total = self.log_total
        known = self.logits_of(labels) - total
        most = _most_of_one(self.logits, self.log_rest) - total
        return known, torch.where(known.isnan(), most, known)

    def logits_of(self, labels: Int[Tensor, " M"]) -> Float[Tensor, " N"]:
        """Logit of the true class; NaN if unknown.

        Raises:
            InputError: If labels are not one per sample, are no class, or contradict a listed logit.
        """
        if labels.shape != self.log_rest.shape:
            shape, got = tuple(self.log_rest.shape), tuple(labels.shape)
            raise InputError(f"`labels` must have shape {shape}, one per sample; got {got}.")
        _refuse_no_class(labels, self.num_classes)
        places = self.indices == labels[:, None]
        found, inside = places.any(dim=1), torch.where(places, self.logits, -math.inf).amax(dim=1)
        own = torch.full_like(self.log_rest, math.nan) if self.label_logits is None else self.label_logits
        last, slack = self.logits[:, -1], _slack_of(own)

        def rule(row: int) -> str:
            if bool(found[row]):
                return f"{float(inside[row]):.6g}, which is listed of its class"
            return f"at most {float(last[row]):.6g}, the last one listed, as its class is not listed"

        refuse_rows(
            torch.where(found, (own - inside).abs() > slack, own > last + slack),
            lambda row: (
                f"`label_logits` must be those of `labels`; that of row {row} must be {rule(row)}; "
                f"got {float(own[row]):.6g}; leave them out, or see whether they are of other classes."
            ),
        )
        return torch.where(found, inside, own)

    def rows(self, where: slice | Tensor) -> Self:
        own = None if self.label_logits is None else self.label_logits[where]
        logits, indices = self.logits[where], self.indices[where]
        return replace(self, logits=logits, indices=indices, log_rest=self.log_rest[where], label_logits=own)

    def listing(self, number: int) -> Self:
        """A copy that lists only the ``number`` largest, with the others in the rest."""
        if number == self.logits.shape[1]:
            return self
        rest = torch.logaddexp(self.log_rest, self.logits[:, number:].logsumexp(dim=1))
        return replace(self, logits=self.logits[:, :number], indices=self.indices[:, :number], log_rest=rest)

    def at(self, temperature: float, spread: Spread = "power-law") -> Self:
        """Logits divided by a temperature; the rest then depends on the spread of the unlisted logits.

        The logit of an unlisted true class is then at most the rest.

        Raises:
            InputError: If the number of classes or the spread is unknown, or the temperature not above zero.
        """
        if not 0 < temperature < math.inf:
            raise InputError(f"`temperature` must be above zero and finite; got {temperature}.")
        beta, own = 1 / temperature, self.label_logits
        logits = self.logits * beta
        rest = self.log_rest_at(torch.tensor(beta, dtype=torch.float64), spread)
        if own is not None:
            listed = _is_listed(own, self.logits)
            own = torch.where(listed, own * beta, torch.minimum(own * beta, _most_of_one(logits, rest)))
        return replace(self, logits=logits, log_rest=rest, label_logits=own)

    def confidence_bounds(self, temperature: float) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
        """Lowest and highest possible confidence at a temperature.

        Raises:
            InputError: If the number of classes is not known.
        """
        ends = torch.stack([self.at(temperature, spread).confidence for spread in ("even", "narrow")])
        return ends.amin(dim=0), ends.amax(dim=0)

    def log_rest_at(self, beta: Float[Tensor, ""], spread: Spread = "power-law") -> Float[Tensor, " N"]:
        """Log-sum-exp of the others times an inverse temperature; differentiable by it."""
        check_choice("spread", spread, get_args(Spread))
        if self.num_classes is None:
            raise InputError(
                "`num_classes` must be known for a temperature, which acts on all classes; write it beside "
                "the logits."
            )
        num_rest = self.num_classes - self.logits.shape[1]
        empty = self.log_rest == -math.inf
        last = self.logits[:, -1]
        rest = torch.where(empty, last, self.log_rest)  # any number: the code below sets its row
        even = beta * rest + (1 - beta) * math.log(max(num_rest, 1))
        narrow = beta * rest + (1 - beta) * (rest - last).clamp(min=0.0)
        if spread == "power-law" and num_rest > 0:
            known, ratio = self.logits.shape[1], (rest - last).clamp(max=math.log(num_rest))
            exponent = _exponent(ratio, known, num_rest)
            along = beta * last + _log_power_sum(beta * exponent, known, num_rest)
            low, high = torch.minimum(even, narrow), torch.maximum(even, narrow)
            found = torch.minimum(torch.maximum(along, low), high)
        else:
            found = narrow if spread == "narrow" else even
        return torch.where(empty, -math.inf, found)


def joined(parts: Sequence[TopK]) -> TopK:
    """Samples of all parts, each with as many classes as the shortest part lists."""
    known = min(part.logits.shape[1] for part in parts)
    cut = [part.listing(known) for part in parts]
    own = [part.label_logits for part in cut if part.label_logits is not None]
    return replace(
        cut[0],
        logits=torch.cat([part.logits for part in cut]),
        indices=torch.cat([part.indices for part in cut]),
        log_rest=torch.cat([part.log_rest for part in cut]),
        label_logits=torch.cat(own) if len(own) == len(cut) else None,
    )


def top_k_of(
    logits: ArrayLike,
    indices: ArrayLike,
    log_rest: ArrayLike | None = None,
    *,
    num_classes: int | None = None,
    label_logits: ArrayLike | None = None,
) -> TopK:
    """Check the k largest logits or log-probabilities of each sample, and sort them.

    Args:
        logits: The k largest of each sample, in any order, shape ``(N, k)``.
        indices: Their classes, shape ``(N, k)``.
        log_rest: Log-sum-exp of all other logits, shape ``(N,)``. Not needed of log-probabilities, whose sum
            over all classes is one.
        num_classes: Number of classes.
        label_logits: Logit of each sample's true class, shape ``(N,)``; NaN if unknown.

    Raises:
        InputError: If shapes disagree, a class is named twice, or a sum or the logit of a true class cannot
            be.

    Example:
        >>> found = top_k_of([[-1.0, -0.5]], [[7, 3]], num_classes=50)
        >>> found.predicted.tolist(), round(found.confidence.item(), 4)
        ([3], 0.6065)
    """
    values = as_float_tensor(logits, name="top_k_logits").cpu().to(torch.float64)
    classes = as_label_tensor(indices, name="top_k_indices").cpu()
    if values.ndim != 2 or values.shape[1] < 1 or classes.shape != values.shape:
        raise InputError(
            "`top_k_logits` and `top_k_indices` must have one shape (N, k); "
            f"got {tuple(values.shape)} and {tuple(classes.shape)}."
        )
    if not len(values):
        raise InputError("`top_k_logits` must hold at least one sample; got none.")
    refuse_rows(~values.isfinite(), lambda row: f"`top_k_logits` must be finite; row {row} is not.")
    refuse_rows(
        classes.sort(dim=1).values.diff(dim=1) == 0,
        lambda row: f"`top_k_indices` must name different classes; row {row} names one twice.",
    )
    refuse_rows(
        classes < 0, lambda row: f"`top_k_indices` must not be negative; row {row} holds such a class."
    )
    top = int(classes.max())
    if num_classes is not None and (top >= num_classes or values.shape[1] > num_classes):
        raise InputError(f"`num_classes` must be above every class; got {num_classes}, and class {top}.")
    order = values.argsort(dim=1, descending=True, stable=True)
    values, classes = values.gather(1, order), classes.gather(1, order)
    rest = _implied_rest(values) if log_rest is None else _stated_rest(log_rest, values)
    _refuse_too_much(values, rest, num_classes)
    own = None if label_logits is None else _checked_own(label_logits, values, rest)
    return TopK(logits=values, indices=classes, log_rest=rest, num_classes=num_classes, label_logits=own)


def _implied_rest(log_probs: Float[Tensor, "N k"]) -> Float[Tensor, " N"]:
    """Log of the probability that the listed classes leave to the others."""
    sums = log_probs.exp().sum(dim=1)
    refuse_rows(
        sums > 1 + _SLACK,
        lambda row: (
            "`top_logprobs` must be log-probabilities, which sum to at most 1; those of row "
            f"{row} sum to {float(sums[row]):.4g}; of logits give `top_k_logits` with `log_rest`, the "
            "log-sum-exp of all others."
        ),
    )
    return torch.log1p(-sums.clamp(max=1.0))


def _stated_rest(given: ArrayLike, values: Float[Tensor, "N k"]) -> Float[Tensor, " N"]:
    rest = as_float_tensor(given, name="log_rest").cpu().to(torch.float64)
    if rest.shape != values.shape[:1]:
        raise InputError(f"`log_rest` must have shape ({len(values)},); got {tuple(rest.shape)}.")
    refuse_rows(
        rest.isnan() | (rest == math.inf),
        lambda row: f"`log_rest` must be finite or -inf; row {row} holds {float(rest[row])}.",
    )
    return rest


def _checked_own(given: ArrayLike, values: Float[Tensor, "N k"], rest: Float[Tensor, " N"]) -> Tensor:
    """Check logits of true classes: each is listed, or at most what one other class can have."""
    own = as_float_tensor(given, name="label_logits").cpu().to(torch.float64)
    if own.shape != rest.shape:
        raise InputError(f"`label_logits` must have shape {tuple(rest.shape)}; got {tuple(own.shape)}.")
    known = "`label_logits` must be finite, or NaN where they are not known"
    refuse_rows(own.isinf(), lambda row: f"{known}; row {row} holds {own[row]:g}.")
    most = _most_of_one(values, rest)
    refuse_rows(
        ~_is_listed(own, values) & (own > most + _slack_of(own)),
        lambda row: (
            "`label_logits` must be listed logits, or at most the last of these and `log_rest`, here "
            f"{float(most[row]):.6g}; row {row} holds {float(own[row]):.6g}; use those of the same model and "
            "temperature, or leave them out."
        ),
    )
    return own


def _slack_of(own: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Tolerance between two records of one logit, as for 16-bit numbers."""
    return _SLACK * own.abs().clamp(min=1.0)


def _is_listed(own: Float[Tensor, " N"], values: Float[Tensor, "N k"]) -> Tensor:
    return ((values - own[:, None]).abs() <= _slack_of(own)[:, None]).any(dim=1)


def _most_of_one(values: Float[Tensor, "N k"], rest: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """Largest possible logit of one unlisted class; sums of rounded probabilities leave too little."""
    return torch.minimum(values[:, -1], torch.logaddexp(rest, values[:, 0] + math.log(_SLACK)))


def _refuse_no_class(labels: Int[Tensor, " N"], num_classes: int | None) -> None:
    refuse_rows(
        labels < 0,
        lambda row: (
            f"`labels` must not be negative; row {row} holds {int(labels[row])}; leave out the samples "
            "that do not count, such as those whose label a training loss ignores."
        ),
    )
    if num_classes is not None and bool((labels >= num_classes).any()):
        raise InputError(f"`labels` must be below {num_classes}; got {int(labels.max())}.")


def _refuse_too_much(values: Tensor, rest: Tensor, num_classes: int | None) -> None:
    """Refuse a rest above the number of unlisted classes times the last listed one."""
    if num_classes is None:
        return
    count = num_classes - values.shape[1]
    most = values[:, -1] + (math.log(count) if count else -math.inf)
    slack = _SLACK if count else 0.0
    refuse_rows(
        (rest > most + slack) & (rest > values[:, 0] + math.log(_SLACK)),
        lambda row: (
            f"`log_rest` must be at most the last of the largest logits plus log({count}); row "
            f"{row} holds {float(rest[row]):.6g}; it is the log-sum-exp of the {count} unlisted logits, and "
            "none exceeds the last."
        ),
    )


def _exponent(log_ratio: Float[Tensor, " N"], known: int, num_rest: int) -> Float[Tensor, " N"]:
    r"""Exponents s such that :math:`\sum_{r > k} (r / k)^{-s}` has logarithm ``log_ratio``, by halving."""
    low, high = torch.zeros_like(log_ratio), torch.full_like(log_ratio, _STEEPEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = _log_power_sum(middle, known, num_rest) > log_ratio
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2


def _log_power_sum(exponent: Tensor, known: int, num_rest: int) -> Tensor:
    """Logarithm of the sum of (r / k)^-s over ranks r above k, as an integral from half to half."""
    start, stop = (known + 0.5) / known, (known + num_rest + 0.5) / known
    length, q = math.log(stop / start), 1 - exponent
    near = q.abs() < 1e-9
    safe = torch.where(near, 1.0, q)
    grown = torch.where(near, length, torch.expm1(safe * length) / safe)
    return math.log(known) + q * math.log(start) + grown.log()
