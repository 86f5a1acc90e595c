"""What a fit is given: its fingerprint, and the samples that count."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant._math.checks import Checked, Task
    from calibrant.calibrators.result import Solution

FEW = 10  # samples; with fewer, parameters mean little


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


def with_trouble(solutions: Sequence[Solution], scores: Tensor, labels: Tensor, kind: Task) -> list[Solution]:
    """The solutions; where one warns of nothing though its data are degenerate, that is said."""
    columns: list[int | slice] = list(range(len(solutions))) if kind == "multilabel" else [slice(None)]
    found: list[Solution] = []
    for solution, column in zip(solutions, columns, strict=True):
        said = solution.warnings
        if not said:
            own = (scores[:, column], labels[:, column]) if isinstance(column, int) else (scores, labels)
            said = _degenerate(*own)
        found.append(replace(solution, warnings=said))
    return found


def _degenerate(scores: Tensor, labels: Tensor) -> tuple[str, ...]:
    """What makes the data of one problem tell little, whatever is fitted to them."""
    if len(labels) < FEW:
        return (f"{len(labels)} samples tell little",)
    if bool((labels == labels[0]).all()):
        return (f"only class {int(labels[0])} occurs among the labels",)
    top = scores.argmax(dim=1) if scores.ndim == 2 else (scores > 0).to(labels)
    right = top == labels
    if bool(right.all()):
        return ("every sample is classified correctly, so nothing tells how often errors are to be expected",)
    return () if bool(right.any()) else ("no sample is classified correctly",)
