"""Allowed but odd properties of predictions, in full sentences, found in small pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from calibrant._math import checks
from calibrant._math.arrays import row_slices
from calibrant._math.shapes import Float, Int
from calibrant.predictions.checks import Kind

ONE_LABEL_EACH = (
    "Every row has exactly one label; if exactly one class applies to each sample, give class numbers (N,)."
)
ONE_HOT = (
    "Labels are one-hot and probabilities sum to one, so labels were read as classes. Choose the kind "
    "multilabel (--kind multilabel) if several labels can hold at once."
)
LIKE_PROBABILITIES = (
    "These logits look like probabilities (all in [0, 1], rows summing to 1); if so, name them `probs`, "
    "for numbers are never reinterpreted."
)
EVENTS_LIKE_PROBABILITIES = (
    "These logits look like probabilities (all in [0, 1], some near either end); if so, name them `probs`, "
    "for numbers are never reinterpreted."
)
NORMALISED_TWICE = (
    "These probabilities look as if a softmax or sigmoid had been applied twice: as logits they would be "
    "probabilities themselves. Give the probabilities before the second one, or the logits."
)
DECISIONS = (
    "Every probability is 0 or 1: are these the decisions of a model, or labels? Calibration needs the "
    "probabilities before they were rounded."
)
SUSPICIOUS = frozenset({ONE_HOT, LIKE_PROBABILITIES, EVENTS_LIKE_PROBABILITIES, NORMALISED_TWICE, DECISIONS})
"""Likely mistakes, which appear next to the verdict, not among the notes."""
FEWEST = 20  # rows; fewer may well look odd by chance
NEAR_END = 0.01  # where the numbers of sure predictions lie, and how many must be sure


def oddities(
    kind: Kind,
    space: str,
    values: Float[Tensor, " N"] | Float[Tensor, "N C"],
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"] | None,
    class_names: tuple[str, ...] | None,
) -> tuple[str, ...]:
    found = list(_suspicions(kind, space, values))
    if class_names is not None and len(set(class_names)) < len(class_names):
        name = next(name for name in class_names if class_names.count(name) > 1)
        numbers = ", ".join(str(number) for number, other in enumerate(class_names) if other == name)
        found.append(f"{class_names.count(name)} classes are called {name} (numbers {numbers}).")
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


def are_one_hot(
    space: str, values: Float[Tensor, " N"] | Float[Tensor, "N C"], labels: Int[Tensor, "N C"] | None
) -> bool:
    if space != "probs" or labels is None or labels.shape != values.shape:
        return False
    return checks.are_one_hot(labels) and checks.sum_to_one(values, logarithms=False)


def _suspicions(kind: Kind, space: str, values: Float[Tensor, " N"] | Float[Tensor, "N C"]) -> Iterator[str]:
    if (
        kind != "top_label"  # a confidence that is stated may well be 1 each time
        and space == "probs"
        and len(values) >= FEWEST
        and all(bool(((values[rows] == 0) | (values[rows] == 1)).all()) for rows in row_slices(values))
    ):
        yield DECISIONS
    elif kind == "multiclass":
        if space == "logits" and _like_probabilities(values):
            yield LIKE_PROBABILITIES
        if space == "probs" and len(values) >= FEWEST and _normalised_twice(values):
            yield NORMALISED_TWICE
    elif kind != "top_label" and len(values) >= FEWEST:
        if space == "logits" and _fills_unit_interval(values, lambda rows: rows):
            yield EVENTS_LIKE_PROBABILITIES
        if space == "probs" and _fills_unit_interval(values, torch.special.logit):
            yield NORMALISED_TWICE


def _like_probabilities(logits: Float[Tensor, "N C"]) -> bool:
    """Return True if every row could be probabilities; the first rows decide for most logits."""
    slack = checks.row_sum_tolerance(logits.dtype)
    for rows in row_slices(logits):
        low, high = torch.aminmax(logits[rows])
        if float(low) < 0 or float(high) > 1:
            return False
        sums = logits[rows].sum(dim=1, dtype=torch.float64)
        if float((sums - 1).abs().max()) > slack:
            return False
    return True


def _normalised_twice(probs: Float[Tensor, "N C"]) -> bool:
    """Return True if all log-rows, up to a constant, are probabilities, often near certainty."""
    slack, num_sure = checks.row_sum_tolerance(probs.dtype), 0
    for rows in row_slices(probs):
        logs = probs[rows].to(torch.float64).log()
        stated = logs + (1 - logs.sum(dim=1, keepdim=True)) / logs.shape[1]
        if not bool((stated >= -slack).all()):  # so none exceeds one; and not NaN
            return False
        num_sure += int((stated.amax(dim=1) > 1 - NEAR_END).sum())
    return num_sure >= NEAR_END * len(probs)


def _fills_unit_interval(scores: Tensor, of_rows: Callable[[Tensor], Tensor]) -> bool:
    """Return True if all scores lie in [0, 1], some near either end, unlike weak log-odds."""
    num_low = num_high = 0
    for rows in row_slices(scores):
        numbers = of_rows(scores[rows].to(torch.float64))
        if not bool(((numbers >= 0) & (numbers <= 1)).all()):
            return False
        num_low += int((numbers < NEAR_END).sum())
        num_high += int((numbers > 1 - NEAR_END).sum())
    return min(num_low, num_high) >= NEAR_END * scores.numel() / 2
