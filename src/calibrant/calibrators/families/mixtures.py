"""Weighted means of probability vectors, in logarithms."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from calibrant._math.shapes import Float
from calibrant._math.simplex import log_sigmoid, log_softmax


def log_probs_of(scores: Tensor, *, events: bool) -> Float[Tensor, "*N C"]:
    """Log-probabilities of the classes, or that each event does not and does happen."""
    if not events:
        return log_softmax(scores)
    return log_sigmoid(torch.stack([-scores, scores], dim=-1))


def mixed(parts: Sequence[Tensor], weights: Sequence[Tensor], *, events: bool) -> Tensor:
    """Weighted mean of log-probabilities, as log-odds of events; weights are one number or one per label."""
    terms = [
        part + (weight[..., None] if weight.ndim else weight).log().to(part)
        for part, weight in zip(parts, weights, strict=True)
    ]
    log_probs = torch.stack(terms).logsumexp(dim=0)
    return log_probs[..., 1] - log_probs[..., 0] if events else log_probs
