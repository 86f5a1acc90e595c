"""Conversion of a loss's arguments to rows, and of one value per row to the result.

Only shapes and types are read, never values: reading a value would make the device wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, cast

import torch
from torch import Tensor
from torch.nn import functional

from calibrant._math.checks import check_is_number
from calibrant._math.errors import InputError, LabelError
from calibrant._math.shapes import Bool, Float, Int
from calibrant._math.simplex import LOG_OF_ZERO, TrueClass, see_true_class, working_dtype

Reduction: TypeAlias = Literal["mean", "sum", "none"]
RowLoss: TypeAlias = Callable[..., Tensor]


class Layout(NamedTuple):
    """Data for turning values per row into the result that cross-entropy would give."""

    reduction: Reduction
    shape: tuple[int, ...]  # without the classes
    dtype: torch.dtype

    def finish(self, result: Tensor) -> Tensor:
        if self.reduction == "none":
            result = result.reshape(self.shape)
        return result if result.dtype == self.dtype else result.to(self.dtype)


class Rows(NamedTuple):
    """One row per sample and position, in the working precision."""

    logits: Float[Tensor, "R C"]
    labels: Int[Tensor, " R"] | Float[Tensor, "R C"]  # int64, unchanged; or distributions over the classes
    weight: Float[Tensor, " C"] | None
    ignore_index: int
    layout: Layout

    @property
    def soft(self) -> bool:
        """Return True if the labels are distributions, which all count."""
        return self.labels.ndim == 2

    def ignored(self) -> Bool[Tensor, " R"]:
        return self.labels == self.ignore_index

    def classes(self) -> Int[Tensor, " R"]:
        return self.labels.masked_fill(self.ignored(), 0)

    def weights(self) -> Float[Tensor, " R"]:
        return weights_of(self.labels, self.weight, self.ignore_index, self.logits.dtype)

    def true_class(self) -> TrueClass:
        try:
            return see_true_class(self.logits, self.classes())
        except (RuntimeError, IndexError):
            self.name_wrong_label()
            raise

    def cross_entropy(self) -> Tensor:
        try:
            return functional.cross_entropy(
                self.logits,
                self.labels,
                weight=self.weight,
                ignore_index=self.ignore_index,
                reduction=self.layout.reduction,
            )
        except IndexError:
            self.name_wrong_label()
            raise

    def of_true_class(self, scores: Float[Tensor, "R C"]) -> Float[Tensor, " R"]:
        """Entry of each row's label, or of class 0 if ignored."""
        try:
            return scores.gather(-1, self.classes().unsqueeze(-1)).squeeze(-1)
        except (RuntimeError, IndexError):
            self.name_wrong_label()
            raise

    def weighted_targets(self) -> Float[Tensor, "R C"]:
        return self.labels if self.weight is None else self.labels * self.weight

    def cross_entropies(self) -> Float[Tensor, " R"]:
        """One value per row; weighted only if the labels are distributions."""
        each = self._replace(layout=self.layout._replace(reduction="none"))
        return (each if self.soft else each._replace(labels=self.classes(), weight=None)).cross_entropy()

    def reduce(self, values: Float[Tensor, " R"], *, weighted: bool = False) -> Tensor:
        """Result from a value per row; distributions are weighted already, as are rows with ``weighted``."""
        if self.soft:
            how = self.layout.reduction
            return self.layout.finish(
                values if how == "none" else values.mean() if how == "mean" else values.sum()
            )
        weights = self.weights()
        # Filled, not multiplied by zero: an ignored row may hold NaN.
        counted = values.masked_fill(self.ignored(), 0)
        if not weighted:
            counted = counted * weights
        if self.layout.reduction == "none":
            return self.layout.finish(counted)
        total = counted.sum()
        return self.layout.finish(total / weights.sum() if self.layout.reduction == "mean" else total)

    def name_wrong_label(self) -> None:
        """After torch's refusal: if a label is outside the classes, raise an error that names them.

        Labels are read only on a CPU, where nothing waits and torch still works after the error.
        """
        if self.labels.device.type != "cpu":
            return
        num_classes = self.logits.shape[1]
        wrong = ~self.ignored() & ((self.labels < 0) | (self.labels >= num_classes))
        try:
            found = self.labels[wrong].tolist()
        except RuntimeError:  # inside torch.func.vmap, which hides values
            return
        if found:
            raise LabelError(
                f"Target {found[0]} is out of bounds: `labels` must be in 0..{num_classes - 1}, or be "
                f"`ignore_index`, {self.ignore_index}."
            )


def allowed_classes(logits: Float[Tensor, "R C"]) -> Bool[Tensor, "R C"]:
    return logits > LOG_OF_ZERO


def weights_of(
    labels: Int[Tensor, " R"], weight: Float[Tensor, " C"] | None, ignore_index: int, dtype: torch.dtype
) -> Float[Tensor, " R"]:
    """Weight of each label: its class's, or 0 if ignored."""
    ignored = labels == ignore_index
    if weight is None:
        return (~ignored).to(dtype)
    return weight[labels.masked_fill(ignored, 0)].masked_fill(ignored, 0)


def as_rows(
    logits: Tensor,
    labels: Tensor | None,
    targets: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    reduction: Reduction,
) -> Rows:
    """Lay ``logits (N, C, d1, ...)`` out in rows, with labels ``(N, d1, ...)``, or targets of their shape."""
    wide, layout = _lay_out(logits, reduction)
    if targets is None:
        labels = _check_labels(labels, logits, layout.shape)
        if labels.ndim != 1:
            labels = labels.reshape(-1)
        if labels.dtype != torch.int64:
            labels = labels.long()
        return Rows(wide, labels, _class_weight(weight, wide), ignore_index, layout)
    _check_targets(targets, labels, logits)
    shares = _rows_of(targets).to(wide.dtype)
    # A masked class without a share of the label adds nothing: 0 times infinity is 0.
    wide = wide.masked_fill((wide == -math.inf) & (shares == 0), LOG_OF_ZERO)
    return Rows(wide, shares, _class_weight(weight, wide), -100, layout)


def _check_labels(labels: object, logits: Tensor, shape: tuple[int, ...]) -> Tensor:
    if labels is None:
        raise InputError("`labels` must be given (or `targets`, where the loss takes soft ones).")
    check_is_tensor(labels, "labels")
    labels = cast("Tensor", labels)
    if labels.is_floating_point() or labels.is_complex():
        raise TypeError(
            f"`labels` must be integers, one class per sample; got {labels.dtype}. "
            "Pass classes as `labels.long()`, soft targets as `targets`."
        )
    if labels.shape != shape:
        raise InputError(
            f"`labels` must have shape {tuple(shape)} to go with `logits` of shape "
            f"{tuple(logits.shape)}; got {tuple(labels.shape)}{_remedy(logits, labels, shape)}."
        )
    return labels


def _remedy(logits: Tensor, labels: Tensor, shape: tuple[int, ...]) -> str:
    if labels.shape == (*shape, 1):
        return "; pass `labels.squeeze(-1)`"
    if labels.shape != logits.shape:
        return ""
    if logits.ndim > 1:
        return "; pass classes as `labels.argmax(1)`, or `targets=labels.float()`"
    # One logit per sample, which would be read as one sample of many classes.
    return (
        "; for one log-odds per sample pass two columns, "
        "`torch.stack([torch.zeros_like(logits), logits], dim=1)`, or take a multilabel loss, such as "
        "`MultilabelFocalLoss` (`multilabel-focal` in recipes)"
    )


def _check_targets(targets: Tensor, labels: object, logits: Tensor) -> None:
    if labels is not None:
        raise InputError("`labels` and `targets` must not be given together.")
    check_is_tensor(targets, "targets")
    if not targets.is_floating_point():
        raise TypeError(
            f"`targets` must be floating-point probabilities; got {targets.dtype}. "
            "Classes are passed as `labels`."
        )
    if targets.shape != logits.shape:
        raise InputError(
            f"`targets` must have the shape of `logits`, {tuple(logits.shape)}; got {tuple(targets.shape)}."
        )


def check_gamma(gamma: object) -> None:
    """Refuse an exponent for which focal loss does not fall as the probability rises."""
    check_is_number("gamma", gamma)
    if not -1 < cast("float", gamma) < math.inf:
        raise InputError(f"`gamma` must be finite and greater than -1; got {gamma}.")


def check_number(name: str, value: object, *, at_most: float = math.inf) -> None:
    check_is_number(name, value)
    number = cast("float", value)
    if not (0 <= number <= at_most and number < math.inf):
        rule = "finite and not negative" if at_most == math.inf else f"between 0 and {at_most:g}"
        raise InputError(f"`{name}` must be {rule}; got {value}.")


def check_not_negative(**settings: object) -> None:
    for name, value in settings.items():
        check_number(name, value)


def check_mean(loss: str, reduction: str) -> None:
    if reduction != "mean":
        raise InputError(f"`reduction` must be 'mean': {loss} has no value per sample; got {reduction!r}.")


def dtypes_of(scores: Tensor) -> tuple[torch.dtype, torch.dtype]:
    """Types for computation and result: cross-entropy's, which autocast runs in float32."""
    computed = working_dtype(scores.dtype)
    if computed == scores.dtype or torch.is_autocast_enabled(scores.device.type):
        return computed, computed
    return computed, scores.dtype


def check_reduction(reduction: object) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"`reduction` must be 'mean', 'sum' or 'none'; got {reduction!r}.")


def check_scores(logits: Tensor, reduction: Reduction) -> None:
    check_is_tensor(logits, "logits")
    if not logits.is_floating_point():
        raise TypeError(f"`logits` must be floating-point; got {logits.dtype}.")
    check_reduction(reduction)


def _lay_out(logits: Tensor, reduction: Reduction) -> tuple[Float[Tensor, "R C"], Layout]:
    check_scores(logits, reduction)
    classes = 1 if logits.ndim > 1 else 0
    if logits.ndim == 0 or logits.shape[classes] < 2:
        raise InputError(
            f"`logits` must have shape (N, C, ...) with at least two classes; got {tuple(logits.shape)}. "
            "For one logit per label there are the multilabel losses."
        )
    computed, answered = dtypes_of(logits)
    wide = _rows_of(logits)
    if computed != wide.dtype:
        wide = wide.to(computed)
    shape = logits.shape[:classes] if logits.ndim <= 2 else logits.shape[:1] + logits.shape[2:]
    return wide, Layout(reduction, shape, answered)


def _rows_of(scores: Float[Tensor, "N C *d"] | Float[Tensor, " C"]) -> Float[Tensor, "R C"]:
    if scores.ndim == 2:
        return scores
    if scores.ndim == 1:
        return scores.unsqueeze(0)
    return scores.movedim(1, -1).reshape(-1, scores.shape[1])


def _class_weight(weight: Tensor | None, logits: Float[Tensor, "R C"]) -> Float[Tensor, " C"] | None:
    if weight is None:
        return None
    check_is_tensor(weight, "weight")
    if weight.shape != logits.shape[1:]:
        raise InputError(
            f"`weight` must have one entry per class, shape {tuple(logits.shape[1:])}; "
            f"got {tuple(weight.shape)}."
        )
    return weight.to(logits.dtype)


def check_is_tensor(value: object, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"`{name}` must be a torch.Tensor; got {type(value).__name__}.")
