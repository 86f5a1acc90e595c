"""What a fit is given: its fingerprint, and the samples that count."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant._math.checks import Checked


def drop_weightless(
    scores: Tensor, labels: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Without the samples of weight zero."""
    if weights is None or bool((weights > 0).all()):
        return scores, labels, weights
    kept = weights > 0
    return scores[kept], labels[kept], weights[kept]


def fingerprint(checked: Checked) -> str:
    """SHA-256 of the data of a fit: types, shapes and numbers."""
    digest = hashlib.sha256()
    for tensor in (checked.scores, checked.labels, checked.weights):
        if tensor is not None:
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            # A clone, as a single row of a wider table passes for contiguous with strides that are not.
            rows = tensor.cpu().clone(memory_format=torch.contiguous_format)
            digest.update(rows.view(torch.uint8).numpy().data)
    return digest.hexdigest()
