"""What a fit is given: its fingerprint, and the samples that count."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from calibrant._math.simplex import top_class
from calibrant.calibrators._zeros import floor_zero_probabilities

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant._math.checks import Checked, Task
    from calibrant.calibrators.result import Solution

_HEAD = 256  # rows
_SUM_SLACK = 1e-3
_SURE = 0.05
FEW = 10  # samples; with fewer, parameters mean little


def seem_probabilities(scores: Tensor, kind: Task) -> str | None:
    """What to say where logits look like probabilities."""
    for rows in (slice(_HEAD), slice(None)):  # the first ones mostly settle it
        part = scores[rows]
        if part.numel() < FEW or bool((part < 0).any()) or bool((part > 1).any()):
            return None
    if kind == "multiclass":
        if bool(((scores.to(torch.float64).sum(dim=1) - 1).abs() > _SUM_SLACK).any()):
            return None
        return "every row of `logits` sums to one, as probabilities do: of those pass the logarithms, log(p)"
    if not bool((scores < _SURE).any()) or not bool((scores > 1 - _SURE).any()):
        return None  # weak log-odds may well lie there
    return "all `logits` lie in 0..1, as probabilities do: of those pass the log-odds, log(p / (1 - p))"


def finite_scores(checked: Checked) -> tuple[Tensor, list[str]]:
    """Scores without probabilities of exactly zero, and what is to be said of the scores as they came."""
    suspected = seem_probabilities(checked.scores, checked.task)
    notes = [suspected] if suspected else []
    scores, num_zeros = floor_zero_probabilities(checked.scores, checked.task)
    if num_zeros:
        notes.append(f"{num_zeros} probabilities of exactly zero were counted as 1e-12")
    return scores, notes


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
    return fingerprint_by_weights(checked.scores, checked.labels)(checked.weights)


def fingerprint_by_weights(scores: Tensor, labels: Tensor | None) -> Callable[[Tensor | None], str]:
    """The same for any weights of these samples, which are read once."""
    digest = hashlib.sha256()
    for tensor in (scores, labels):
        for part in _content(tensor):
            digest.update(part)

    def with_weights(weights: Tensor | None) -> str:
        whole = digest.copy()
        for part in _content(weights):
            whole.update(part)
        return whole.hexdigest()

    return with_weights


def _content(tensor: Tensor | None) -> tuple[bytes, memoryview] | tuple[()]:
    """Type and shape, and the bytes of the numbers."""
    if tensor is None:
        return ()
    # A clone, as a single row of a wider table passes for contiguous with strides that are not.
    rows = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return f"{tensor.dtype} {tuple(tensor.shape)} ".encode(), rows.view(torch.uint8).numpy().data


def with_trouble(solutions: Sequence[Solution], scores: Tensor, labels: Tensor, kind: Task) -> list[Solution]:
    """The solutions; where one warns of nothing though its data are degenerate, that is said."""
    columns: list[int | slice] = list(range(len(solutions))) if kind == "multilabel" else [slice(None)]
    found: list[Solution] = []
    for solution, column in zip(solutions, columns, strict=True):
        said = solution.warnings
        if not said:
            own = (scores[:, column], labels[:, column]) if isinstance(column, int) else (scores, labels)
            said = degenerate(*own)
        found.append(replace(solution, warnings=said))
    return found


def degenerate(scores: Tensor, labels: Tensor) -> tuple[str, ...]:
    """What makes the data of one problem tell little, whatever is fitted to them."""
    if len(labels) < FEW:
        return (f"{len(labels)} samples tell little",)
    if bool((labels == labels[0]).all()):
        return (f"only class {int(labels[0])} occurs among the labels",)
    for rows in (slice(_HEAD), slice(None)):  # the first ones mostly settle it
        top = top_class(scores[rows]) if scores.ndim == 2 else (scores[rows] > 0).to(labels)
        right = top == labels[rows]
        if bool(right.any()) and not bool(right.all()):
            return ()
    if bool(right.any()):
        return ("every sample is classified correctly, so nothing tells how often errors are to be expected",)
    return ("no sample is classified correctly",)
