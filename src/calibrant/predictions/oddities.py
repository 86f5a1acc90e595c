"""What is allowed and yet odd about predictions, in full sentences; each is looked for in small pieces."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.arrays import row_slices
from calibrant._math.checks import row_sum_tolerance
from calibrant._math.shapes import Float, Int
from calibrant.predictions.checks import Kind

ONE_LABEL_EACH = (
    "Every row has exactly one label; if exactly one class applies to each sample, give class numbers (N,)."
)
LIKE_PROBABILITIES = (
    "These logits look like probabilities (all in [0, 1], rows summing to 1); if so, name them `probs`, "
    "for numbers are never reinterpreted."
)


def oddities(
    kind: Kind,
    space: str,
    values: Float[Tensor, " N"] | Float[Tensor, "N C"],
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"] | None,
    class_names: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """What a reader of the results should know about checked numbers of one kind."""
    found: list[str] = []
    if class_names is not None and len(set(class_names)) < len(class_names):
        found.append(_same_name(class_names))
    if kind == "multiclass" and space == "logits" and _like_probabilities(values):
        found.append(LIKE_PROBABILITIES)
    if labels is None:
        return tuple(found)
    if kind == "multilabel":
        # Where labels do not exclude each other rows soon differ.
        if all(bool((labels[rows].sum(dim=1) == 1).all()) for rows in row_slices(labels)):
            found.append(ONE_LABEL_EACH)
    elif bool((labels == labels[0]).all()):  # loading that is allowed, learning from it is not
        label = int(labels[0])
        name = "" if class_names is None else f" ({class_names[label]})"
        found.append(f"Every label is {label}{name}: no other class occurs.")
    return tuple(found)


def _same_name(class_names: tuple[str, ...]) -> str:
    """Which name is there twice."""
    name = next(name for name in class_names if class_names.count(name) > 1)
    numbers = [number for number, other in enumerate(class_names) if other == name]
    return f"{len(numbers)} classes are called {name} (numbers {', '.join(map(str, numbers))})."


def _like_probabilities(logits: Float[Tensor, "N C"]) -> bool:
    """Whether every row could be one of probabilities; the first rows settle it for most logits."""
    slack = row_sum_tolerance(logits.dtype)
    for rows in row_slices(logits):
        low, high = torch.aminmax(logits[rows])
        if float(low) < 0 or float(high) > 1:
            return False
        sums = logits[rows].sum(dim=1, dtype=torch.float64)
        if float((sums - 1).abs().max()) > slack:
            return False
    return True
