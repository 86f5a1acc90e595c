"""Temperatures of many models, or of many resamples, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from calibrant._math.arrays import (
    CACHED_ELEMENTS,
    DEVICE_ELEMENTS,
    ArrayLike,
    as_float_tensor,
    as_label_tensor,
)
from calibrant._math.checks import Task, check_logits, check_weights
from calibrant._math.errors import InputError
from calibrant.calibrators._objectives import likelihood_terms
from calibrant.calibrators._samples import Block, Samples
from calibrant.calibrators._search import (
    HIGHEST_TEMPERATURE,
    LONGEST_STEP,
    LOWEST_TEMPERATURE,
    MAX_STEPS,
    PATIENCE,
    SMALL_STEP,
    TOLERANCE,
)
from calibrant.calibrators._zeros import floor_zero_probabilities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

_MOST_ENTRIES = 2**23  # 64 MiB of gaps at a time


@dataclass(frozen=True, eq=False)
class TemperatureFits:
    """The likeliest temperature of each model, float64, on the device of the logits."""

    temperatures: Float[Tensor, " M"]
    before: Float[Tensor, " M"]  # negative log-likelihood at T = 1
    after: Float[Tensor, " M"]
    slopes: Float[Tensor, " M"]  # derivative by log T; not zero only on a bound
    converged: Bool[Tensor, " M"]


@torch.no_grad()
def fit_temperatures(
    logits: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None
) -> TemperatureFits:
    r"""Temperature scaling by maximum likelihood for a batch of models at once.

    .. math::
        T_m = \arg\min_{T \in [10^{-2}, 10^2]} -\sum_n \omega_{mn} \log \mathrm{softmax}(z_{mn} / T)_{y_n}

    The same temperatures as :class:`TemperatureScaling` finds one by one, by the same safeguarded Newton's
    method in log T, all models in each step. For a bootstrap pass the logits once, expanded to one model per
    resample, with the counts of each as weights.

    Args:
        logits: Logits, shape ``(M, N, C)``, or log-odds of class 1, shape ``(M, N)``; any floating dtype.
        labels: Classes in 0..C-1, shape ``(N,)`` for all models or ``(M, N)``.
        weights: Sample weights, shape ``(N,)`` or ``(M, N)``, not negative.

    Returns:
        Temperatures with their likelihoods and certificates, each of shape ``(M,)``.

    Raises:
        InputError: If shapes disagree, a label is out of range, a value is NaN, or weights are all zero; the
            message names the model and the row.

    Note:
        About six passes, O(M N C) each; memory 64 MiB besides the input. Nothing is warned of: look at
        ``converged``, and for temperatures of 0.01 or 100. A probability of zero counts as 1e-12.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Example:
        >>> logits = torch.stack([torch.full((10,), 2.0), torch.full((10,), 4.0)])
        >>> fits = fit_temperatures(logits, [1] * 8 + [0] * 2)
        >>> [round(value, 6) for value in fits.temperatures.tolist()]  # s / log(0.8 / 0.2)
        [1.442695, 2.88539]
    """
    scores, targets, shares = _check(logits, labels, weights)
    step = max(1, _MOST_ENTRIES // scores[0].numel())
    parts = [
        _fit(scores[models], targets[models], shares[models])
        for models in (slice(start, start + step) for start in range(0, len(scores), step))
    ]
    return TemperatureFits(
        **{field.name: torch.cat([getattr(part, field.name) for part in parts]) for field in fields(parts[0])}
    )


def _check(
    logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None
) -> tuple[Tensor, Int[Tensor, "M N"], Float[Tensor, "M N"]]:
    """Scores, labels and shares of the weight, of every model."""
    scores = as_float_tensor(logits, name="logits")
    if scores.ndim not in {2, 3} or scores.shape[0] == 0:
        raise InputError(
            f"`logits` must have shape (M, N, C) or (M, N), M at least 1; got {tuple(scores.shape)}."
        )
    num_models, num_samples = scores.shape[:2]
    task: Task = "binary" if scores.ndim == 2 else "multiclass"
    targets = as_label_tensor(labels, name="labels").to(scores.device)
    if targets.shape not in {(num_samples,), (num_models, num_samples)}:
        raise InputError(
            f"`labels` must have shape ({num_samples},) or ({num_models}, {num_samples}); "
            f"got {tuple(targets.shape)}."
        )
    targets = targets.expand(num_models, -1)
    shared = torch.ones(num_samples) if weights is None else as_float_tensor(weights, name="weights")
    shares = torch.empty(num_models, num_samples, dtype=torch.float64, device=scores.device)
    if shared.ndim == 2 and len(shared) != num_models:
        raise InputError(f"`weights` must have {num_models} rows, one per model; got {len(shared)}.")
    for model in range(num_models):
        try:
            check_logits(scores[model], targets[model], task=task, allow_minus_inf=True)
            own = check_weights(
                shared[model] if shared.ndim == 2 else shared, num_samples, device=scores.device
            )
        except InputError as error:
            raise InputError(f"model {model}: {error}") from error
        shares[model] = own / own.sum()
    return scores, targets, shares


def _fit(scores: Tensor, labels: Int[Tensor, "M N"], shares: Float[Tensor, "M N"]) -> TemperatureFits:
    """Newton's method of ``convex_minimum``, all models in step."""
    blocks = list(_blocks(scores, labels, shares))
    num_models, device = len(scores), scores.device
    place = torch.zeros(num_models, dtype=torch.float64, device=device)  # log T
    low = torch.full_like(place, math.log(LOWEST_TEMPERATURE))
    high = torch.full_like(place, math.log(HIGHEST_TEMPERATURE))
    ends = torch.stack([low, high])
    untried = torch.ones(2, num_models, dtype=torch.bool, device=device)
    slow = torch.zeros(num_models, dtype=torch.int64, device=device)
    previous = torch.full_like(place, math.inf)
    found = torch.zeros(5, num_models, dtype=torch.float64, device=device)  # in the order of the result
    found[0] = math.nan
    active = torch.arange(num_models, device=device)
    for step in range(MAX_STEPS):
        beta = torch.where(place == ends[0], 1 / LOWEST_TEMPERATURE, (-place).exp())
        beta = torch.where(place == ends[1], 1 / HIGHEST_TEMPERATURE, beta)[active]
        value, first, second = _slopes(blocks, active, num_models, beta)
        if step == 0:
            found[1] = value
        at = place[active]
        low[active] = torch.where(first > 0, at, low[active])
        high[active] = torch.where(first > 0, high[active], at)
        change = torch.where(second > 0, first / (beta * second), first.sign() * math.inf)
        slope = -beta * first
        settled = (first == 0) | (low >= high)[active]
        settled |= (slope.abs() <= TOLERANCE) & (change.abs() <= SMALL_STEP)
        found[:, active] = torch.stack([1 / beta, found[1, active], value, slope, settled.to(value)])
        kept = ~settled
        active, at, change = active[kept], at[kept], change[kept]
        if not len(active):
            break
        slow[active] = torch.where(change.abs() > previous[active].abs() / 2, slow[active] + 1, 0)
        previous[active] = change
        lower, upper = low[active], high[active]
        following = at + change.clamp(-LONGEST_STEP, LONGEST_STEP)
        side = (change > 0).to(torch.int64)  # of the end ahead
        lost = (slow[active] >= PATIENCE) | ~((lower < following) & (following < upper))
        try_end = lost & untried[side, active]
        following = torch.where(lost, (lower + upper) / 2, following)
        following = torch.where(try_end, ends[side, active], following)
        untried[side[try_end], active[try_end]] = False
        place[active] = following
    # A bound is reached when the derivative points out of the interval, which the next step finds.
    return TemperatureFits(found[0], found[1], found[2], found[3], found[4] == 1)


def _blocks(scores: Tensor, labels: Int[Tensor, "M N"], shares: Float[Tensor, "M N"]) -> Iterator[Block]:
    """Rows of all models, block by block."""
    num_models, num_samples = labels.shape
    cached = CACHED_ELEMENTS if scores.device.type == "cpu" else DEVICE_ELEMENTS
    step = max(1, cached // scores[:, 0].numel())
    task: Task = "binary" if scores.ndim == 2 else "multiclass"
    for start in range(0, num_samples, step):
        rows = slice(start, start + step)
        finite, _ = floor_zero_probabilities(scores[:, rows].flatten(0, 1), task)
        block = Samples(finite, labels[:, rows].flatten(), shares[:, rows].flatten()).whole()
        parts = {
            field.name: getattr(block, field.name).unflatten(0, (num_models, -1)) for field in fields(block)
        }
        yield Block(**{**parts, "shares": shares[:, rows]})


def _slopes(
    blocks: list[Block], active: Int[Tensor, " A"], num_models: int, beta: Float[Tensor, " A"]
) -> tuple[Tensor, Tensor, Tensor]:
    """Negative log-likelihood of the models still under way, and its derivatives by 1 / T."""
    totals = torch.zeros(len(active), 3, dtype=torch.float64, device=beta.device)
    for block in blocks:
        if len(active) < num_models:
            block = Block(**{field.name: getattr(block, field.name)[active] for field in fields(block)})
        terms = likelihood_terms(block, beta[:, None, None])
        totals += (block.shares[:, None] @ terms)[:, 0]
    return totals[:, 0], totals[:, 1], totals[:, 2]
