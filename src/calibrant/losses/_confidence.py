"""Cross-entropy plus an error of the batch's confidences, with the gradient in closed form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from calibrant._math.shapes import Bool, Float
from calibrant.losses._closed_form import Plain, Pull, by_closed_form, can_look, scaled
from calibrant.losses._row_loss import Terms, closed_form
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


def _closed_form(
    rows: Rows, penalty: float, error: ConfidenceError, logits: Float[Tensor, "R C"]
) -> tuple[Tensor, Pull]:
    """The loss and its gradient; that of the confidence r by logit j is r (1[j = top] - p_j)."""
    from calibrant.losses import _compiled  # numba: imported where it is first needed

    loss, pull = closed_form(rows, Terms(0))(logits)
    gradient, probs = pull(torch.ones(())).numpy(), _compiled.softmax(logits).numpy()
    scores, labels = (np.ascontiguousarray(each.detach().numpy()) for each in (logits, rows.labels))
    places, found, right = np.empty_like(labels), np.empty_like(scores[:, 0]), np.empty(len(labels), bool)
    counted = np.empty_like(right)
    if not _compiled.find_tops(scores, probs, labels, rows.ignore_index, places, found, right, counted):
        raise _TiesError
    with np.errstate(all="ignore"):  # the caller may have set them to raise
        value, by_confidence = error(*map(torch.from_numpy, (found, right, counted)))
    pulled = (penalty * found * by_confidence.numpy()).astype(scores.dtype)
    _compiled.add_by_confidence(gradient, probs, places, counted, pulled)
    return loss + penalty * value, partial(scaled, torch.from_numpy(gradient))


def right_and_counted(rows: Rows) -> tuple[Float[Tensor, " R"], Bool[Tensor, " R"], Bool[Tensor, " R"]]:
    """Confidences, 0 where a row does not count; which are right; which count."""
    counted = ~rows.ignored()
    right = (rows.logits.argmax(-1) == rows.labels) & counted
    # Where the logits of an ignored row are NaN, so is its confidence: the sum must not see it.
    return torch.softmax(rows.logits, -1).amax(-1).masked_fill(~counted, 0), right, counted
