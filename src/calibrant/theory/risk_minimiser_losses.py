"""Risk of any loss under a posterior: the expected loss of one row of logits."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn

from calibrant._math.arrays import CACHED_ELEMENTS
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class Risk:
    """Expected loss of one row of logits with a label drawn from a posterior.

    Args:
        loss: Takes logits ``(N, C)`` and labels ``(N,)``.
        posterior: Probabilities of the labels, float64, shape ``(C,)``.
        batch_size: For a loss of the whole batch: how many labels the posterior is laid out as.
    """

    def __init__(self, loss: Loss, posterior: Float[Tensor, " C"], *, batch_size: int | None = None) -> None:
        if isinstance(loss, type) or not callable(loss):
            raise TypeError(
                "`loss` must be a function or module of logits and labels, as FocalLoss() or focal_loss; got "
                f"{loss!r}."
            )
        self.posterior = posterior
        self.num_classes = len(posterior)
        self._labels = posterior.nonzero()[:, 0] if batch_size is None else laid_out(posterior, batch_size)
        self._weights = posterior[self._labels] if batch_size is None else None
        self._loss = loss if batch_size is not None else per_sample(loss)

    def at(self, logits: Float[Tensor, " C"]) -> Float[Tensor, ""]:
        """Risk of one row of logits; differentiable like the loss."""
        rows = logits.expand(len(self._labels), -1)
        if self._weights is None:
            return self._loss(rows, self._labels).mean()
        return (values_of(self._loss, rows, self._labels) * self._weights).sum()

    def many(self, logits: Float[Tensor, "G C"]) -> Float[Tensor, " G"]:
        """Risks of several rows."""
        with torch.no_grad():
            if self._weights is None:
                return torch.stack([self.at(row) for row in logits])
            step = max(1, CACHED_ELEMENTS // (len(self._labels) * self.num_classes))
            return torch.cat([self._block(block, self._weights) for block in logits.split(step)])

    def _block(self, logits: Float[Tensor, "G C"], weights: Float[Tensor, " L"]) -> Float[Tensor, " G"]:
        labels = self._labels.repeat(len(logits))
        values = values_of(self._loss, logits.repeat_interleave(len(self._labels), dim=0), labels)
        return values.reshape(len(logits), -1) @ weights


def per_sample(loss: Loss) -> Loss:
    """Loss without its reduction, if that can be removed."""
    if isinstance(loss, nn.Module):
        if not isinstance(getattr(loss, "reduction", None), str):
            return loss
        bare = copy.copy(loss)  # its settings are its own, its buffers are shared
        vars(bare)["reduction"] = "none"
        return bare
    try:
        parameters = inspect.signature(loss).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return loss
    if "reduction" not in parameters:
        return loss
    return cast("Loss", functools.partial(cast("Callable[..., Tensor]", loss), reduction="none"))


def values_of(loss: Loss, logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    """One value per sample; computed sample by sample if the loss gives a single number."""
    values = loss(logits, labels)
    if values.shape == labels.shape:
        return values
    if values.numel() != 1:
        raise InputError(
            "`loss` must give one value, or one per sample, for logits (N, C) and labels (N,); "
            f"got shape {tuple(values.shape)} for N = {len(labels)}."
        )
    singles = [loss(logits[i : i + 1], labels[i : i + 1]).reshape(()) for i in range(len(labels))]
    return torch.stack(singles)


def laid_out(posterior: Float[Tensor, " C"], batch_size: int) -> Int[Tensor, " N"]:
    """``batch_size`` labels in the posterior's proportions."""
    counts = posterior * batch_size
    if bool(((counts - counts.round()).abs() > 1e-6).any()):
        raise InputError(
            "`batch_size` must make every class a whole number of samples; "
            f"got {batch_size} for the posterior {[round(p, 6) for p in posterior.tolist()]}."
        )
    return torch.arange(len(posterior)).repeat_interleave(counts.round().long())
