"""Cross-entropy plus an error of the batch's confidences, with the gradient in closed form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from calibrant._math.shapes import Bool, Float
from calibrant._math.simplex import top_class
from calibrant.losses._closed_form import Plain, Pull, by_closed_form, can_look, scaled
from calibrant.losses._rows import Rows

ConfidenceError: TypeAlias = Callable[[Tensor, Tensor, Tensor], "tuple[Tensor, Tensor]"]
"""From confidences, whether they are right, and which of them count, to the error and its gradient."""


class _TiesError(RuntimeError):
    """Largest logits that are equal share the gradient: the plain form takes over."""


def confidence_loss(rows: Rows, penalty: float, error: ConfidenceError, plain: Plain) -> Tensor:
    """Cross-entropy plus ``penalty`` times the error; ``plain`` gives the same from the logits."""
    if rows.soft or not can_look(rows.logits, rows.labels, rows.weight):
        return rows.layout.finish(plain(rows.logits))
    return rows.layout.finish(by_closed_form(rows.logits, partial(_closed_form, rows, penalty, error), plain))


@np.errstate(all="ignore")  # the caller may have set them to raise
def _closed_form(
    rows: Rows, penalty: float, error: ConfidenceError, logits: Float[Tensor, "R C"]
) -> tuple[Tensor, Pull]:
    """The loss and its gradient: that of -log p_t is p_j - 1[j = t], that of r is r (1[j = top] - p_j)."""
    logits = logits.detach()
    ignored, place, top = rows.ignored(), rows.classes().unsqueeze(1), top_class(logits).unsqueeze(1)
    largest, some_ignored = logits.gather(1, top), bool(ignored.any())
    if np.count_nonzero(logits.numpy() == largest.numpy()) > len(logits):
        raise _TiesError
    log_probs = torch.log_softmax(logits, 1)
    entropy = functional.nll_loss(log_probs, rows.labels, rows.weight, ignore_index=rows.ignore_index)
    probs = torch.from_numpy(np.exp(log_probs.numpy(), out=log_probs.numpy()))  # faster than torch's
    confidences = probs.gather(1, top)
    found = confidences.squeeze(1)
    if some_ignored:  # such a row may hold NaN
        found = found.masked_fill(ignored, 0)
    value, by_confidence = error(found, (top.squeeze(1) == rows.labels) & ~ignored, ~ignored)
    by_confidence = penalty * (found * by_confidence).unsqueeze(1)
    weights = rows.weights().unsqueeze(1)
    share = weights / weights.sum().clamp(min=torch.finfo(weights.dtype).tiny)
    gradient = probs.mul_(share - by_confidence)
    gradient.scatter_add_(1, place, -share).scatter_add_(1, top, by_confidence)
    if some_ignored:
        gradient.masked_fill_(ignored.unsqueeze(1), 0)
    return entropy + penalty * value, partial(scaled, gradient)


def right_and_counted(rows: Rows) -> tuple[Float[Tensor, " R"], Bool[Tensor, " R"], Bool[Tensor, " R"]]:
    """Confidences, 0 where a row does not count; which are right; which count."""
    counted = ~rows.ignored()
    right = (rows.logits.argmax(-1) == rows.labels) & counted
    # Where the logits of an ignored row are NaN, so is its confidence: the sum must not see it.
    return torch.softmax(rows.logits, -1).amax(-1).masked_fill(~counted, 0), right, counted
