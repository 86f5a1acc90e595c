"""Temperatures of many models, or of many resamples, in one call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

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
from calibrant._math.convex_minimum import best_temperatures
from calibrant._math.errors import InputError
from calibrant._math.shapes import Bool, Float, Int
from calibrant.calibrators.fitting.samples import Block, Samples, floor_zero_probabilities, likelihood_terms

_MOST_ENTRIES = 2**23  # 64 MiB of gaps at a time


@dataclass(frozen=True, eq=False)
class TemperatureFits:
    """The maximum-likelihood temperature of each model, float64, on the device of the logits."""

    temperatures: Float[Tensor, " M"]
    before: Float[Tensor, " M"]  # negative log-likelihood at T = 1
    after: Float[Tensor, " M"]
    slopes: Float[Tensor, " M"]  # derivative by log T; not zero only on a bound
    converged: Bool[Tensor, " M"]


@torch.no_grad()
def fit_temperatures(
    logits: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None
) -> TemperatureFits:
    r"""Temperature scaling by maximum likelihood for a batch of models, or heads of one model, at once.

    .. math::
        T_m = \arg\min_{T \in [10^{-4}, 10^4]} -\sum_n \omega_{mn} \log \mathrm{softmax}(z_{mn} / T)_{y_n}

    The same temperatures as :class:`TemperatureScaling` finds one by one, by the same safeguarded Newton's
    method in log T, all models in each step.

    Heads of one network, which see the same samples but predict different things, count as models: stack
    their logits and give each its labels, ``(M, N)``. Samples that have no label for a head get weight 0
    there and any class. Heads with different numbers of classes need a call each. For a bootstrap pass the
    logits once, expanded to one model per resample, with the counts of each as weights.

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
        ``converged``, and for temperatures of 1e-4 or 1e4. A probability of zero counts as 1e-12.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Example:
        >>> logits = torch.stack([torch.full((10,), 2.0), torch.full((10,), 4.0)])
        >>> fits = fit_temperatures(logits, [1] * 8 + [0] * 2)
        >>> [round(value, 6) for value in fits.temperatures.tolist()]  # s / log(0.8 / 0.2)
        [1.442695, 2.88539]

        Two heads with labels of their own:

        >>> heads = torch.full((2, 10), 4.0)
        >>> labels = [[1] * 8 + [0] * 2, [1] * 6 + [0] * 4]
        >>> [round(value, 4) for value in fit_temperatures(heads, labels).temperatures.tolist()]
        [2.8854, 9.8652]
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
    """Newton's method of ``convex_minimum``, with all models in step."""
    rows = list(_rows(scores, labels, shares))
    start = torch.ones(len(scores), dtype=torch.float64, device=scores.device)

    def slopes(models: Int[Tensor, " A"], beta: Float[Tensor, " A"]) -> Float[Tensor, "A 3"]:
        place = torch.full((len(scores),), -1, device=beta.device)
        place[models] = torch.arange(len(models), device=beta.device)
        found = beta.new_zeros(len(models), 3)
        for block, numbers in rows:
            at, own = numbers, block
            if len(models) < len(scores):  # without rows of finished models
                kept = (place[numbers] >= 0).nonzero()[:, 0]
                at, own = place[numbers[kept]], block.some(kept)
            found.index_add_(0, at, likelihood_terms(own, beta[at, None]) * own.shares[:, None])
        return found

    roots = best_temperatures(slopes, start)
    found = [(root.temperature, root.at_start, root.value, root.slope) for root in roots]
    settled = torch.tensor([root.settled for root in roots], device=scores.device)
    return TemperatureFits(*start.new_tensor(found).unbind(dim=1), converged=settled)


def _rows(
    scores: Tensor, labels: Int[Tensor, "M N"], shares: Float[Tensor, "M N"]
) -> Iterator[tuple[Block, Int[Tensor, " n"]]]:
    """Rows of all models, some samples at a time, and the model of each row."""
    num_models, num_samples = labels.shape
    cached = CACHED_ELEMENTS if scores.device.type == "cpu" else DEVICE_ELEMENTS
    step = max(1, cached // scores[:, 0].numel())
    task: Task = "binary" if scores.ndim == 2 else "multiclass"
    models = torch.arange(num_models, device=scores.device)[:, None]
    for start in range(0, num_samples, step):
        part = slice(start, start + step)
        own, target = shares[:, part], labels[:, part].flatten()
        finite, _ = floor_zero_probabilities(scores[:, part].flatten(0, 1), task)
        block = Samples(finite, target, own.flatten()).block(slice(None))
        yield replace(block, shares=own.flatten()), models.expand_as(own).flatten()
