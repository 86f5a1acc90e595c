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
from calibrant.losses._rows import Rows

ConfidenceError: TypeAlias = Callable[[Tensor, Tensor, Tensor], "tuple[Tensor, Tensor]"]
"""From confidences, whether they are right, and which of them count, to the error and its gradient."""


class _TiesError(RuntimeError): ...


def confidence_loss(rows: Rows, penalty: float, error: ConfidenceError, plain: Plain) -> Tensor:
    """Cross-entropy plus ``penalty`` times the error; ``plain`` computes it from the logits."""
    if rows.soft or not can_look(rows.logits, rows.labels, rows.weight):
        return rows.layout.finish(plain(rows.logits))
    return rows.layout.finish(by_closed_form(rows.logits, partial(_closed_form, rows, penalty, error), plain))


def _closed_form(
    rows: Rows, penalty: float, error: ConfidenceError, logits: Float[Tensor, "R C"]
) -> tuple[Tensor, Pull]:
    """Loss and gradient; the gradient of the confidence r by logit j is r (1[j = top] - p_j)."""
    from calibrant.losses import _compiled  # numba: imported where it is first needed

    scores = np.ascontiguousarray(logits.detach().numpy())
    entropy, probs = _compiled.entropy_and_softmax(rows, logits)
    classes, shares, _ = _compiled.weighed(rows)
    places, found, right = scores.argmax(1), np.empty_like(scores[:, 0]), np.empty(len(classes), bool)
    with np.errstate(all="ignore"):  # the caller may have set them to raise
        if not _compiled.see_tops(scores, probs, classes, places, found, right):
            raise _TiesError
        value, by_confidence = error(*map(torch.from_numpy, (found, right, classes >= 0)))
        pulled = (penalty * found * by_confidence.numpy()).astype(scores.dtype)
    _compiled.set_slopes(probs, classes, shares, places, pulled)
    return entropy + penalty * value, partial(scaled, torch.from_numpy(probs))


def right_and_counted(rows: Rows) -> tuple[Float[Tensor, " R"], Bool[Tensor, " R"], Bool[Tensor, " R"]]:
    """Confidences (0 if a row is ignored), correctness, and the mask of counted rows."""
    counted = ~rows.ignored()
    right = (rows.logits.argmax(-1) == rows.labels) & counted
    # An ignored row may hold NaN, which must not enter the sum.
    return torch.softmax(rows.logits, -1).amax(-1).masked_fill(~counted, 0), right, counted
