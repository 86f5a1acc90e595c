"""Temperature scaling if only the largest logits of each sample are known."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_label_tensor, first_row
from calibrant._math.checks import check_weights
from calibrant._math.convex_minimum import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    Slopes,
    TemperatureRoot,
    best_temperature,
)
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.top_k import Spread, TopK
from calibrant.calibrators.fitting.results import join
from calibrant.calibrators.fitting.searches import solution_of
from calibrant.calibrators.methods.temperatures import TemperatureScaling


def fit_top_k_temperature(
    top_k: TopK, labels: ArrayLike | None = None, *, weights: ArrayLike | None = None
) -> TemperatureScaling:
    r"""Approximate the temperature of whole rows from their largest logits.

    The likelihood at a temperature T needs :math:`\sum_j e^{z_j / T}` over all classes. For those that are
    not listed only :math:`R = \sum_j e^{z_j}` is known, and that none exceeds the last one listed. They are
    taken to go on from there by a power law of their rank with that sum. A true class that is not listed
    counts by its own logit where that is given, and else by the probability of all that are not listed.

    How much this matters can be seen from the message of ``fit_result_``: the temperatures that follow if the
    others are all alike, and if as few of them as possible have all of R. They are two extreme cases, no
    bounds that are proven. Near T = 1 it hardly matters.

    Args:
        top_k: The largest logits, by :func:`calibrant.predictions.top_k_of`, with ``num_classes``.
        labels: True classes, shape ``(N,)``; by default ``top_k.label_logits`` gives their logits.
        weights: Sample weights, shape ``(N,)``.

    Returns:
        Temperature scaling of all classes.

    Raises:
        InputError: If the number of classes is not known, or a true class has no probability left.

    Note:
        O(N k) per step, all in float64.

    Example:
        >>> import torch
        >>> from calibrant.predictions import top_k_of
        >>> draws = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 50, generator=draws, dtype=torch.float64)
        >>> labels = torch.multinomial((logits / 2).softmax(1), 1, generator=draws)
        >>> largest, order = logits.sort(dim=1, descending=True)
        >>> listed = top_k_of(largest[:, :20], order[:, :20], largest[:, 20:].logsumexp(1), num_classes=50)
        >>> part = fit_top_k_temperature(listed, labels[:, 0]).fit_result_.parameters["temperature"]
        >>> whole = TemperatureScaling().fit(logits, labels[:, 0]).fit_result_.parameters["temperature"]
        >>> abs(part / whole - 1) < 0.03
        True
    """
    own, num_samples = top_k.label_logits, len(top_k.log_rest)
    if labels is not None:
        own = top_k.logits_of(as_label_tensor(labels, name="labels").cpu())
    if own is None:
        raise InputError("`labels` must be given to fit a temperature; got None.")
    shares = torch.ones(num_samples, dtype=torch.float64)
    if weights is not None:
        shares = check_weights(weights, num_samples).cpu()
    shares = shares / shares.sum()
    lost = own.isnan() & (top_k.log_rest == -math.inf) & (shares > 0)
    if bool(lost.any()):
        raise InputError(
            f"the true class of row {first_row(lost)} is not listed, and `log_rest` leaves it no probability."
        )

    def fitted(spread: Spread) -> TemperatureRoot:
        return best_temperature(lambda beta: _slopes(top_k, own, shares, beta, spread))

    root = fitted("power-law")
    ends = sorted(fitted(spread).temperature for spread in ("even", "narrow"))
    solution = solution_of(root, root.at_start, 1.0)
    unlisted = float(own.isnan().to(torch.float64) @ shares)
    said = (
        f"{solution.message}; two extreme guesses of the unlisted probabilities give "
        f"{' and '.join(dict.fromkeys(map(_said, ends)))}"
    )
    said += f"; {unlisted:.2%} of the true classes are not listed" if unlisted else ""
    digest = hashlib.sha256()
    for part in (top_k.logits, top_k.indices, top_k.log_rest, own, shares):
        digest.update(part.contiguous().numpy().tobytes())
    result = join([solution], objective="nll", num_samples=num_samples, data_sha256=digest.hexdigest())
    calibrator = TemperatureScaling()
    calibrator.restore(
        {"temperature": torch.tensor(root.temperature, dtype=torch.float64)},
        replace(result, message=said, compared={}),
        kind="multiclass",
        num_classes=top_k.num_classes or 0,
        class_names=None,
    )
    return calibrator


def _said(temperature: float) -> str:
    ends = {LOWEST_TEMPERATURE: "no lower end", HIGHEST_TEMPERATURE: "no upper end"}
    return ends.get(temperature, f"T = {temperature:.4g}")


def _slopes(
    top_k: TopK, own: Float[Tensor, " N"], shares: Float[Tensor, " N"], beta: float, spread: Spread
) -> Slopes:
    with torch.enable_grad():
        at = torch.tensor(beta, dtype=torch.float64, requires_grad=True)
        rest = top_k.log_rest_at(at, spread)
        empty = top_k.log_rest == -math.inf  # with a derivative of NaN
        listed = (at * top_k.logits).logsumexp(dim=1)
        total = torch.where(empty, listed, torch.logaddexp(listed, torch.where(empty, listed, rest)))
        known = ~own.isnan()
        true = torch.where(known, at * torch.where(known, own, 0.0), torch.where(empty, 0.0, rest))
        value = (shares * (total - true)).sum()
        (first,) = torch.autograd.grad(value, at, create_graph=True)
        (second,) = torch.autograd.grad(first, at)
    return Slopes(first.item(), second.item(), value.item())
