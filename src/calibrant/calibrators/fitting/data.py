"""What a fit is given: the samples that count, their fingerprint, and what is to be said of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, Task, are_one_hot, check_logits, seem_probabilities
from calibrant._math.errors import InputError
from calibrant.calibrators.fitting.profile import profile_of
from calibrant.calibrators.fitting.results import FitResult, Solution, join
from calibrant.calibrators.fitting.samples import Samples, floor_zero_probabilities

_SUM_SLACK = 1e-3
_SHARE = 0.1  # mean weight, up to which they are no counts
_FEWEST_ROWS = 20  # of labels that exclude each other by chance


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """Finite scores with labels, and with weights none of which is zero."""

    scores: Tensor
    labels: Tensor
    weights: Tensor | None
    kind: Task
    num_samples: int  # as given
    notes: tuple[str, ...]
    sha256: str  # of scores, labels and weights as given
    _digest: Any  # of scores and labels

    @classmethod
    def of(cls, checked: Checked) -> Self:
        """Checked logits and labels; weights come by :meth:`weighted`."""
        if checked.labels is None:
            raise InputError("`labels` must be given to fit; got None.")
        digest = hashlib.sha256()
        for tensor in (checked.scores, checked.labels):
            for part in _content(tensor):
                digest.update(part)
        scores, notes = _finite(checked)
        return cls(
            scores, checked.labels, None, checked.task, checked.num_samples, notes, digest.hexdigest(), digest
        )

    def weighted(self, weights: Tensor | None) -> Self:
        """These samples with weights, without those of weight zero."""
        if weights is None:
            return self
        digest = self._digest.copy()
        for part in _content(weights):
            digest.update(part)
        kept = weights > 0
        weights, note = _counted(weights, kept)
        whole = replace(self, weights=weights, notes=(*self.notes, *note), sha256=digest.hexdigest())
        return whole if bool(kept.all()) else whole.part(kept)

    def part(self, chosen: Tensor) -> Self:
        """Some of the samples."""
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, scores=self.scores[chosen], labels=self.labels[chosen], weights=weights)

    def problems(self) -> Iterator[Samples]:
        """One problem, or one for each label of multilabel data."""
        if self.kind != "multilabel":
            yield Samples(self.scores, self.labels, self.weights)
            return
        for column in range(self.scores.shape[1]):
            yield Samples(self.scores[:, column], self.labels[:, column], self.weights)

    def result(self, solutions: Sequence[Solution], objective: str) -> FitResult:
        """One result from the solutions of the problems."""
        return join(
            solutions,
            objective=objective,
            notes=self.notes,
            num_samples=self.num_samples,
            data_sha256=self.sha256,
            profile=profile_of(self.scores, self.labels, self.weights, self.kind),
        )


def fingerprint(logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None) -> str:
    """``FitResult.data_sha256`` of samples that a calibrator may have been fitted on."""
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    return CalibrationData.of(checked).weighted(checked.weights).sha256


def _counted(weights: Tensor, kept: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """Weights that count copies; shares, which are small or sum to one, divided by their mean."""
    mean, total = float(weights[kept].mean()), float(weights.sum())
    if float(weights.max()) >= 1 or (mean > _SHARE and total > 1 + _SUM_SLACK):
        return weights, ()
    told = (
        f"the `weights` sum to {total:.3g}, so they were divided by their mean, {mean:.2g}, to count samples"
    )
    return weights / mean, (told,)


def _finite(checked: Checked) -> tuple[Tensor, tuple[str, ...]]:
    """Scores without probabilities of exactly zero, and what is to be said of the scores as they came."""
    notes = list(_suspicions(checked))
    scores, num_zeros = floor_zero_probabilities(checked.scores, checked.task)
    return scores, (*notes, *zeros_said(num_zeros, checked.task))


def _suspicions(checked: Checked) -> Iterator[str]:
    multiclass = checked.task == "multiclass"
    seen = seem_probabilities(checked.scores, multiclass=multiclass)
    if seen:
        remedy = "logarithms, log(p)" if multiclass else "log-odds, log(p / (1 - p))"
        yield f"{seen}: pass their {remedy}"
    if checked.num_samples >= _FEWEST_ROWS and are_one_hot(checked.target):
        yield (
            "every row of `labels` holds one 1, and each column was fitted as a label of its own: for "
            "classes pass `labels.argmax(1)`"
        )


def zeros_said(num_zeros: int, task: Task) -> tuple[str, ...]:
    """The note on probabilities of exactly zero, if there are any."""
    value, counted = ("zero", "1e-12") if task == "multiclass" else ("0 or 1", "1e-12 or 1 - 1e-12")
    noun, verb = ("probability", "was") if num_zeros == 1 else ("probabilities", "were")
    return (f"{num_zeros} {noun} of exactly {value} {verb} counted as {counted}",) if num_zeros else ()


def _content(tensor: Tensor) -> tuple[bytes, memoryview]:
    """Type and shape, and the bytes of the numbers."""
    # A clone, as a single row of a wider table passes for contiguous with strides that are not.
    rows = tensor.cpu().clone(memory_format=torch.contiguous_format)
    return f"{tensor.dtype} {tuple(tensor.shape)} ".encode(), rows.view(torch.uint8).numpy().data
