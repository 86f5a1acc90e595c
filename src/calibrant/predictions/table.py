"""The table of predictions that flows between the parts."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from calibrant._math.arrays import ArrayLike, as_label_tensor, row_slices
from calibrant._math.checks import Checked, check_logits, check_probs, check_weights
from calibrant._math.errors import InputError
from calibrant._math.scores import top_label
from calibrant.predictions import checks
from calibrant.predictions.checks import Kind
from calibrant.predictions.oddities import oddities

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, UInt8
    from torch import Tensor

Space: TypeAlias = Literal["logits", "probs", "confidence"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file that was read."""

    name: str
    sha256: str
    format: str
    path: str | None = None
    """As it was given, for commands that can be run again."""


class Predictions:
    r"""What a classifier said about each sample, and what was true.

    The shapes say the kind, and the kind decides everything downstream:

    - ``binary``: ``logits`` (log-odds of class 1) or ``probs`` (of class 1) ``(N,)``, ``labels`` ``(N,)``
      in 0, 1.
    - ``multiclass``: ``logits`` (log-probabilities up to a constant per row) or ``probs`` ``(N, C)``,
      ``labels`` ``(N,)`` in 0 … C−1.
    - ``multilabel``: ``logits`` or ``probs`` ``(N, C)``, ``labels`` ``(N, C)`` in 0, 1; each column is a
      binary problem.
    - ``top_label``: ``confidence`` (probability of the predicted class) and ``correct`` (was it right)
      ``(N,)``.

    The numbers are kept as they were given, in their space and dtype, and nothing is invented when they are
    asked for in the other space: ``scores`` of probabilities are their logarithms (zero gives
    :math:`-\infty`, there is no floor), and ``probs`` of probabilities are the given values, so what lay on
    the edge of a bin stays there.

    Two repairs are made, and said in ``notes``. Rows of probabilities that miss one by more than 1e-5, which
    rounding to float32 cannot explain, and by at most 1e-3 (bfloat16: its resolution, 8e-3) are divided by
    their sum, in float32 at least; so are rows with a value above 1. Where there is no row to sum over
    (binary, multilabel, confidence) a value above 1 by at most 1e-3 is set to 1. Everything beyond is
    refused, and so is every probability below zero. What is allowed and yet odd, such as logits
    that look like probabilities, is said in ``notes`` too, and changes nothing.

    Args:
        logits: Scores before the softmax or sigmoid, finite; shape ``(N, C)`` or ``(N,)``, at least two
            samples.
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``.
        labels: True classes, or names that ``class_names`` holds; may be absent. Of an event, the words yes
            and no (y and n, positive and negative, pos and neg) will do without names. Beside ``confidence``
            they only tell :func:`calibrant.compare` whether samples are the same.
        confidence: Probability of the predicted class where nothing else is known, shape ``(N,)``.
        correct: Whether the predicted class was the true one, shape ``(N,)`` in 0, 1; goes with
            ``confidence``.
        kind: Needed only for ``"multilabel"`` without labels; elsewhere the shapes say it.
        split: 0, ``"calibration"``, ``"val"`` or ``"validation"`` against 1 or ``"test"``, shape ``(N,)``.
        class_names: One name per class (binary: of class 0 and of class 1). Two may be equal. The plain
            numbers 0, 1, … in order count as no names.
        weights: Weight of each sample, not negative, not all zero, shape ``(N,)``.
        groups: Name or number of the group that each sample belongs to, shape ``(N,)``.
        source: The file that the numbers come from.
        notes: What a reader of the results must know about the input.

    Raises:
        InputError: If a value or shape is wrong; the message names the row, counted from 0, and the remedy.
        TypeError: If something is not made of numbers, or a name is not a text.

    Note:
        Arrays are not copied unless a repair or a conversion needs it: do not change them afterwards.
        Tensors are detached and held on the CPU. Blanks in names are reduced to single inner ones.

    Example:
        >>> p = Predictions(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1], split=[0, 1, 1])
        >>> p
        Predictions(multiclass, 3 samples, 2 classes, logits float64, 1 calibration + 2 test, 1 note)
        >>> p.correct.tolist(), p.test.num_samples
        ([True, True, False], 2)
    """

    def __init__(
        self,
        *,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        kind: Kind | None = None,
        split: ArrayLike | None = None,
        class_names: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        source: Source | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        self._space: Space
        self._space, given = _the_one_given(logits=logits, probs=probs, confidence=confidence)
        values = checks.as_scores(given, name=self._space)
        names = None if class_names is None else checks.as_names(class_names, name="class_names")
        self._correct: Tensor | None = None
        self._labels: Tensor | None = None
        if self._space == "confidence":
            if correct is None or names is not None or kind not in {None, "top_label"}:
                raise InputError("`confidence` goes with `correct`, without `class_names` or other `kind`.")
            self._kind: Kind = "top_label"
            self._values, repairs = _checked_confidence(values)
            self._correct = checks.as_correct(correct, len(values))
            self._labels = None if labels is None else checks.as_true_classes(labels, len(values))
            self._weights = None if weights is None else check_weights(weights, len(values)).cpu()
        else:
            if correct is not None or kind == "top_label":
                raise InputError(
                    f"`correct` and the kind top_label go with `confidence`, not with `{self._space}`."
                )
            binary = values.ndim == 1
            if binary and names is None and labels is not None:
                names = checks.yes_and_no(labels)
                if names is not None:
                    notes = (
                        *notes,
                        f"Labels are words: {names[1]} counts as class 1, {names[0]} as class 0.",
                    )
            targets = None if labels is None else checks.as_labels(labels, names, binary=binary)
            cpu_weights = None if weights is None else check_weights(weights, len(values)).cpu()
            checked, repairs = _checked_scores(self._space, values, targets, cpu_weights, kind)
            self._kind = checked.task
            self._values, self._labels, self._weights = checked.scores, checked.labels, checked.weights
        num_samples = self.num_samples
        self._class_names = None if names is None else checks.check_class_names(names, self.num_classes or 0)
        self._split = None if split is None else checks.as_split(split, num_samples)
        self._groups = None if groups is None else checks.as_groups(groups, num_samples)
        self._source = source
        odd = oddities(self._kind, self._space, self._values, self._labels, self._class_names)
        self._notes = (*notes, *repairs, *odd)

    @property
    def kind(self) -> Kind:
        """``"binary"``, ``"multiclass"``, ``"multilabel"`` or ``"top_label"``."""
        return self._kind

    @property
    def space(self) -> Space:
        """Which numbers were given: ``"logits"``, ``"probs"`` or ``"confidence"``."""
        return self._space

    @property
    def values(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        """The numbers in the space and dtype they were given in, after repairs."""
        return self._values

    @property
    def num_samples(self) -> int:
        """N."""
        return self._values.shape[0]

    @property
    def num_classes(self) -> int | None:
        """C; 2 for binary, the number of labels for multilabel, None for top-label predictions."""
        if self._kind == "top_label":
            return None
        return 2 if self._kind == "binary" else self._values.shape[1]

    @property
    def labels(self) -> Int[Tensor, " N"] | Int[Tensor, "N C"] | None:
        """True classes, int64, or None where they are not known."""
        return self._labels

    @property
    def weights(self) -> Float[Tensor, " N"] | None:
        """Weight of each sample, float64."""
        return self._weights

    @property
    def split(self) -> UInt8[Tensor, " N"] | None:
        """0 where a sample belongs to the calibration split, 1 where to the test split."""
        return self._split

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """One name per class."""
        return self._class_names

    @property
    def groups(self) -> tuple[str, ...] | None:
        """The group that each sample belongs to."""
        return self._groups

    @property
    def source(self) -> Source | None:
        """The file that the numbers come from."""
        return self._source

    @property
    def notes(self) -> tuple[str, ...]:
        """What was repaired, left out or is odd about the input; full sentences."""
        return self._notes

    @property
    def scores(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        r"""Multiclass: logits or log-probabilities; binary and multilabel: log-odds.

        Logits as they were given, in their dtype. Probabilities give float64 at each access, exactly 0 gives
        :math:`-\infty` and (log-odds) exactly 1 gives :math:`+\infty`.

        Raises:
            InputError: If only top-label confidences are known.
        """
        return self.scores_of(slice(None))

    def scores_of(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """``scores`` of some rows, for work in pieces.

        Raises:
            InputError: If only top-label confidences are known.
        """
        self._refuse_top_label("scores")
        values = self._values[rows]
        if self._space == "logits":
            return values
        probs = values.to(torch.float64)
        return probs.log() if self._kind == "multiclass" else probs.log() - torch.log1p(-probs)

    @property
    def probs(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        """Probabilities as they were given, or softmax (binary, multilabel: sigmoid) of the logits; float64.

        Computed at each access; ``probs_of`` spares the float64 copy of a large table.

        Raises:
            InputError: If only top-label confidences are known.
        """
        return self.probs_of(slice(None))

    def probs_of(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """``probs`` of some rows, for work in pieces.

        Raises:
            InputError: If only top-label confidences are known.
        """
        self._refuse_top_label("probs")
        values = self._values[rows].to(torch.float64)
        if self._space == "probs":
            return values
        return values.softmax(dim=1) if self._kind == "multiclass" else values.sigmoid()

    @property
    def confidence(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        """Probability of the predicted class, float64.

        For an event (binary, or each label) the larger of p and 1 − p. Computed at each access, in pieces.
        """
        if self._space == "confidence":
            return self._values.to(torch.float64)
        return self._top_label()[0]

    @property
    def correct(self) -> Bool[Tensor, " N"] | Bool[Tensor, "N C"]:
        """Whether the predicted class is the true one.

        The predicted class is the most probable one, the lowest of several equally probable ones; an event is
        predicted where it is more probable than not.

        Raises:
            InputError: If there are no labels.
        """
        if self._correct is not None:
            return self._correct
        if self._labels is None:
            raise InputError("whether predictions are correct cannot be told without `labels`.")
        return self._top_label()[1]

    @property
    def streamed(self) -> bool:
        """Whether the scores stay in their file and are read in pieces, again at every pass."""
        return False

    def loaded(self) -> Predictions:
        """The same predictions with their scores in memory."""
        return self

    def watch(self, progress: Callable[[float], None]) -> None:
        """Call ``progress`` with the share of the rows that a pass has read; what is in memory never does."""

    @property
    def has_calibration(self) -> bool:
        """Whether some samples are marked as the calibration split."""
        return self._split is not None and bool((self._split == 0).any())

    @property
    def calibration(self) -> Predictions:
        """The samples of the calibration split.

        Raises:
            InputError: If there is no split, or fewer than two samples are in it.
        """
        return self._part(0, "calibration")

    @property
    def test(self) -> Predictions:
        """The samples of the test split.

        Raises:
            InputError: If there is no split, or fewer than two samples are in it.
        """
        return self._part(1, "test")

    def rows(self, index: slice | ArrayLike) -> Predictions:
        """The samples that a slice, a mask or row numbers choose, in that order; a slice copies nothing.

        Args:
            index: A slice, ``N`` bools, or numbers in −N … N−1, which may repeat.

        Returns:
            Predictions of the same kind, with the same notes and source.

        Raises:
            InputError: If a row does not exist, fewer than two are chosen, or all have weight zero.
        """
        return self._rows(index, "the chosen rows")

    def with_split(self, split: ArrayLike | None) -> Predictions:
        """The same predictions split in another way; None removes the split.

        Raises:
            InputError: If a value is none of those that name a split, or the shape is wrong.
        """
        return self._with(_split=None if split is None else checks.as_split(split, self.num_samples))

    def replace_scores(self, scores: ArrayLike) -> Predictions:
        r"""The same samples with other logits, log-probabilities, or (binary, multilabel) log-odds.

        Args:
            scores: Finite, or :math:`-\infty` (log-odds: also :math:`+\infty`) for a probability of exactly
                zero (one); in that case the result holds the probabilities. Same shape as before.

        Returns:
            Predictions with the same labels, split, names, weights, groups, notes and source.

        Raises:
            InputError: If the shape differs or a value is NaN, or only top-label confidences are known.
        """
        self._refuse_top_label("scores")
        values = self._same_shape(checks.as_scores(scores, name="scores"))
        task = None if self._kind == "top_label" else self._kind
        logits = check_logits(values, self._labels, task=task, allow_minus_inf=True).scores
        replaced = self._with(_space="logits", _values=logits)
        low, high = torch.aminmax(logits)
        if bool(low.isfinite()) and bool(high.isfinite()):
            return replaced
        return self._with(_space="probs", _values=replaced.probs)

    def replace_probs(self, probs: ArrayLike) -> Predictions:
        """The same samples with other probabilities, of the same shape as before.

        Returns:
            Predictions with the same labels, split, names, weights, groups and source; a repair is noted.

        Raises:
            InputError: If the shape differs or a value is no probability, or only top-label confidences are
                known.
        """
        self._refuse_top_label("probs")
        values = self._same_shape(checks.as_scores(probs, name="probs"))
        checked, repairs = _checked_scores("probs", values, self._labels, None, self._kind)
        return self._with(_space="probs", _values=checked.scores, _notes=(*self._notes, *repairs))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that :func:`load_predictions` reads back to the same values, whole or not at all.

        The ending chooses the format: ``.npz``, ``.csv``, ``.csv.gz``, ``.parquet``, ``.safetensors`` or
        ``.pt``. Text has no dtype: from ``.csv`` the same values come back in float64. ``source`` and
        ``notes`` are not written.

        Args:
            path: Where to; a file that is there is replaced.

        Raises:
            InputError: If the ending is none of these, or the format has no place for something.
            OSError: If the file cannot be written.
        """
        from calibrant.predictions.files import save_predictions

        save_predictions(self, path)

    def __len__(self) -> int:
        return self.num_samples

    def __repr__(self) -> str:
        parts = [self._kind, f"{self.num_samples} samples"]
        if self._kind in {"multiclass", "multilabel"}:
            parts.append(f"{self.num_classes} {'classes' if self._kind == 'multiclass' else 'labels'}")
        parts.append(f"{self._space} {str(self._values.dtype).removeprefix('torch.')}")
        if self._split is not None:
            tests = int(self._split.sum())
            parts.append(f"{self.num_samples - tests} calibration + {tests} test")
        if self._labels is None and self._correct is None:
            parts.append("no labels")
        if self._class_names is not None:
            parts.append("named classes")
        if self._weights is not None:
            parts.append("weighted")
        if self._groups is not None:
            parts.append(f"{len(set(self._groups))} groups")
        if self._source is not None:
            parts.append(f"from {self._source.name}")
        if self._notes:
            parts.append(f"{len(self._notes)} {'note' if len(self._notes) == 1 else 'notes'}")
        return f"Predictions({', '.join(parts)})"

    def _top_label(self) -> tuple[Tensor, Tensor]:
        """Confidence and correctness, in pieces; without labels everything counts as wrong."""
        shape = self._values.shape if self._kind != "multiclass" else self._values.shape[:1]
        labels = torch.full(shape, -1) if self._labels is None else self._labels
        # Filled in place: a list of small pieces between the freed large ones would leave the heap in holes.
        confidence, correct = torch.empty(shape, dtype=torch.float64), torch.empty(shape, dtype=torch.bool)
        for rows in row_slices(self._values):
            probs, true = self.probs_of(rows), labels[rows]
            if self._kind == "multilabel":  # each label is an event of its own
                found = top_label(probs.flatten(), true.flatten())
            else:
                found = top_label(probs, true)
            confidence[rows] = found.confidence.view_as(true)
            correct[rows] = found.correct.view_as(true)
        return confidence, correct

    def _part(self, code: int, name: str) -> Predictions:
        """The samples of one split, which then have none."""
        if self._split is None:
            raise InputError(f"there is no {name} split; give `split` (0 for calibration, 1 for test).")
        chosen = torch.nonzero(self._split == code)[:, 0]
        contiguous = len(chosen) > 0 and int(chosen[-1] - chosen[0]) + 1 == len(chosen)
        index = slice(int(chosen[0]), int(chosen[-1]) + 1) if contiguous else chosen  # a slice copies nothing
        return self._rows(index, f"the {name} split")._with(_split=None)

    def _rows(self, index: slice | ArrayLike, what: str) -> Predictions:
        """The chosen samples; everything about them has been checked before."""
        where = self._where(index)
        values = self._values[where]
        if len(values) < 2:
            raise InputError(f"{what} must hold at least two samples; got {len(values)}.")
        weights = None if self._weights is None else self._weights[where]
        if weights is not None and not bool(weights.any()):
            raise InputError(f"{what} must not have weight zero throughout.")
        groups = self._groups
        if groups is not None:
            groups = (
                groups[where] if isinstance(where, slice) else tuple(groups[row] for row in where.tolist())
            )
        return self._with(
            _values=values,
            _labels=None if self._labels is None else self._labels[where],
            _correct=None if self._correct is None else self._correct[where],
            _split=None if self._split is None else self._split[where],
            _weights=weights,
            _groups=groups,
        )

    def _where(self, index: slice | ArrayLike) -> slice | Int[Tensor, " n"]:
        """A slice, or a mask or row numbers as row numbers that exist."""
        num_samples = self.num_samples
        if isinstance(index, slice):
            if (index.step or 1) > 0:
                return index
            index = list(range(num_samples)[index])  # tensors know no backward slices
        given = index if isinstance(index, torch.Tensor) else torch.tensor(np.asarray(index))
        if given.ndim != 1 or (given.dtype == torch.bool and len(given) != num_samples):
            raise InputError(
                f"`index` must be a slice, row numbers, or a mask of shape ({num_samples},); "
                f"got shape {tuple(given.shape)}."
            )
        if given.dtype == torch.bool:
            return torch.nonzero(given.cpu())[:, 0]
        numbers = as_label_tensor(given, name="index").cpu()
        strangers = numbers[(numbers < -num_samples) | (numbers >= num_samples)]
        if len(strangers) > 0:
            raise InputError(f"`index` must name one of {num_samples} rows; got {int(strangers[0])}.")
        return numbers % num_samples

    def _with(self, **changes: Any) -> Predictions:
        """A copy with some attributes exchanged; nothing is checked and no array copied."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other

    def _same_shape(self, values: Tensor) -> Tensor:
        """Refuse values of another shape."""
        if values.shape != self._values.shape:
            expected, got = tuple(self._values.shape), tuple(values.shape)
            raise InputError(f"the new values must have the same shape {expected} as the old; got {got}.")
        return values

    def _refuse_top_label(self, what: str) -> None:
        """Scores and probabilities of all classes cannot be had from the winner's alone."""
        if self._kind == "top_label":
            raise InputError(
                f"`{what}` of all classes are not known: these predictions hold top-label confidences."
            )


def _the_one_given(**given: ArrayLike | None) -> tuple[Space, ArrayLike]:
    """Exactly one kind of numbers; its name says what they are."""
    present = [(name, values) for name, values in given.items() if values is not None]
    if len(present) != 1:
        got = " and ".join(f"`{name}`" for name, _ in present) or "none of them"
        raise InputError(f"give exactly one of `logits`, `probs` and `confidence`; got {got}.")
    name, values = present[0]
    return ("logits" if name == "logits" else "probs" if name == "probs" else "confidence"), values


def _checked_confidence(values: Tensor) -> tuple[Tensor, tuple[str, ...]]:
    """Top-label confidences: one probability per sample."""
    if values.ndim != 1:
        raise InputError(f"`confidence` must have shape (N,), one per sample; got {tuple(values.shape)}.")
    return checks.repair_events(values, name="confidence")


def _checked_scores(
    space: Space, values: Tensor, labels: Tensor | None, weights: Tensor | None, kind: Kind | None
) -> tuple[Checked, tuple[str, ...]]:
    """Logits or probabilities with what goes with them, and what had to be repaired."""
    task = None if kind == "top_label" else kind
    if space == "logits":
        return check_logits(values, labels, weights, task=task), ()
    repairs: tuple[str, ...] = ()
    multilabel = kind == "multilabel" or (labels is not None and labels.ndim == 2)
    if values.ndim == 1 or (values.ndim == 2 and multilabel):
        values, repairs = checks.repair_events(values, name="probs")
    elif values.ndim == 2 and values.shape[1] > 1:
        values, repairs = checks.repair_rows(values, name="probs")
    return check_probs(values, labels, weights, task=task), repairs
