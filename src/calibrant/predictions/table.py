"""The table of predictions that all parts use."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_logits
from calibrant._math.errors import InputError
from calibrant._math.scores import steady_sigmoid, top_label
from calibrant._math.shapes import Bool, Float, Int, UInt8
from calibrant._math.text_form import reworded, suggesting
from calibrant._math.top_k import TopK
from calibrant.predictions import checks, estimators, kinds
from calibrant.predictions.checks import Kind
from calibrant.predictions.estimators import Response
from calibrant.predictions.formats.columns import Library, cells_of, frame_of
from calibrant.predictions.formats.mark import MARK, Source, mark_in
from calibrant.predictions.formats.roster import write
from calibrant.predictions.formats.top_k import arrays_of_top_k
from calibrant.predictions.kinds import Space
from calibrant.predictions.labels import RIGHT_OR_WRONG, class_alone, positive_number
from calibrant.predictions.oddities import are_one_hot
from calibrant.predictions.stores import HeldScores, ScoreFile, ScoreStore


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Predictions:
    r"""Scores of a classifier for each sample, and the true labels.

    The shapes determine the kind, on which everything downstream depends:

    - ``binary``: ``logits`` (log-odds of class 1) or ``probs`` (of class 1) ``(N,)``, ``labels`` ``(N,)``
      in 0, 1.
    - ``multiclass``: ``logits`` (log-probabilities up to a constant per row) or ``probs`` ``(N, C)``,
      ``labels`` ``(N,)`` in 0 … C−1.
    - ``multilabel``: ``logits`` or ``probs`` ``(N, C)``, ``labels`` ``(N, C)`` in 0, 1; each column is a
      binary problem.
    - ``top_label``: ``confidence`` (probability of the predicted class) and ``correct`` (was it right)
      ``(N,)``.

    The numbers keep their space and dtype, and conversions add no information.
    ``scores`` of probabilities are their logarithms (zero gives :math:`-\infty`, there is no floor), and
    ``probs`` of probabilities are the given values, so a value on the edge of a bin stays there.

    Two repairs are made and recorded in ``notes``. Rows of probabilities that miss one by 1e-5 (more than
    rounding to float32) to 1e-3 (bfloat16: 8e-3) are divided by their sum, in float32 at least. So are rows
    with a value above 1. Where there is no row to sum over (binary, multilabel, confidence) a value above 1
    by at most 1e-3 is set to 1. Everything beyond is refused, and so is every probability below zero. What is
    allowed but odd, such as logits that look like probabilities, is noted too and changes nothing.

    Arrays are tensors, lists, or anything with NumPy's array protocol: NumPy, pandas, polars, pyarrow, JAX.
    Samples are matched by position; the same index of pandas in another order is refused.
    A table of scores names the classes by its columns (``prob_cat`` counts as ``cat``); one of labels has
    its columns brought into that order.

    Args:
        logits: Scores before the softmax or sigmoid, finite; shape ``(N, C)`` or ``(N,)``, at least two
            samples, without labels one. Rows of a file (:class:`ScoreFile`) stay in it: they are read in
            pieces, anew at every pass, and checked as they are read; an error names its row when the first
            pass gets there.
        probs: Probabilities, shape ``(N, C)`` or ``(N,)``, or rows of a file.
        labels: True classes, or names that ``class_names`` holds, which may be numbers (tensors hold places);
            may be absent. An event may have the word that ``positive_class`` says and one other, or yes and
            no (y and n, positive and negative, pos and neg). With
            ``confidence`` they only tell :func:`calibrant.compare` whether samples are the same.
        confidence: Probability of the predicted class where nothing else is known, shape ``(N,)``.
        correct: 1 if the predicted class is true, else 0, shape ``(N,)``; goes with ``confidence``, and is
            optional if only a calibrator is applied.
        kind: Needed only for ``"multilabel"`` without labels; otherwise the shapes determine it.
        split: 0, ``"calibration"``, ``"val"`` or ``"validation"`` against 1 or ``"test"``, shape ``(N,)``.
        class_names: One name per class (binary: of class 0 and of class 1), such as ``clf.classes_``. Two may
            be equal. The plain numbers 0, 1, … in order count as no names.
        weights: Weight of each sample, not negative, not all zero, shape ``(N,)``.
        groups: Name or number of the group that each sample belongs to, shape ``(N,)``.
        clusters: Name or number of the patient, document or image that each sample is of, shape ``(N,)``,
            if samples of one are dependent: intervals then resample whole clusters.
        source: The file that the numbers come from.
        notes: Notes on the input for readers of the results.
        top_k: Largest logits behind ``confidence``; see :func:`predictions_of_top_k`.
        positive_class: One of two classes, which becomes the event, as by :meth:`as_binary`. If ``labels``
            are two words without ``class_names``, scores ``(N,)`` are those of this one.

    Raises:
        InputError: If a value or shape is wrong; the message names the row, counted from 0, and the remedy.
        TypeError: If something is not made of numbers, or a name is not a text.

    Note:
        Arrays are not copied unless a repair or a conversion needs it: do not change them afterwards.
        Tensors are detached and held on the CPU. White space in names is collapsed to single blanks.

    Example:
        >>> p = Predictions(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]], labels=[0, 1, 1], split=[0, 1, 1])
        >>> p
        Predictions(multiclass, 3 samples, 2 classes, logits float64, 1 calibration + 2 test)
        >>> p.correct.tolist(), p.test.num_samples
        ([True, True, False], 2)
    """

    kind: Kind
    """``"binary"``, ``"multiclass"``, ``"multilabel"`` or ``"top_label"``."""
    space: Space
    """Space of the given scores: ``"logits"``, ``"probs"`` or ``"confidence"``."""
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"] | None
    """True classes, int64, or None where they are not known."""
    weights: Float[Tensor, " N"] | None
    """Weight of each sample, float64."""
    split: UInt8[Tensor, " N"] | None
    """0 where a sample belongs to the calibration split, 1 where to the test split."""
    class_names: tuple[str, ...] | None
    """One name per class."""
    groups: tuple[str, ...] | None
    """The group that each sample belongs to."""
    clusters: tuple[str, ...] | None
    """The cluster that each sample is of."""
    source: Source | None
    """The file that the numbers come from."""
    top_k: TopK | None
    """The largest logits, where they are known in place of all."""
    event_column: int
    """Column of the event among the model's two: 1, or 0 if class 0 was made the event."""
    _store: ScoreStore
    _correct: Bool[Tensor, " N"] | None  # unchanged input
    _notes: tuple[str, ...]  # but for repairs in rows that are read later

    @suggesting(unnamed="no arrays without a name; write `Predictions(probs=probs, labels=labels)`.")
    def __init__(
        self,
        *,
        logits: ArrayLike | ScoreFile | None = None,
        probs: ArrayLike | ScoreFile | None = None,
        labels: ArrayLike | None = None,
        confidence: ArrayLike | None = None,
        correct: ArrayLike | None = None,
        kind: Kind | None = None,
        split: ArrayLike | None = None,
        class_names: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        source: Source | None = None,
        notes: Iterable[str] = (),
        top_k: TopK | None = None,
        positive_class: int | str | None = None,
    ) -> None:
        scores: dict[Space, Any] = {"logits": logits, "probs": probs, "confidence": confidence}
        of_samples = {"labels": labels, "correct": correct, "split": split, "weights": weights}
        checks.refuse_other_order(scores | of_samples | {"groups": groups, "clusters": clusters})
        fields = kinds.check(scores, correct, labels, class_names, weights, kind, positive_class)
        said = fields.pop("notes")
        num_samples = fields["_store"].shape[0]
        vars(self).update(
            fields,
            split=None if split is None else checks.as_split(split, num_samples),
            groups=checks.as_groups(groups, num_samples),
            clusters=checks.as_groups(clusters, num_samples, name="clusters"),
            source=source,
            top_k=top_k,
            event_column=1,
            _notes=(*notes, *said),
        )
        if positive_class is not None:
            vars(self).update(vars(self.as_binary(positive_class)))

    @classmethod
    @suggesting()
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        clusters: ArrayLike | None = None,
        response: Response = "auto",
    ) -> Predictions:
        """Return a fitted scikit-learn classifier's predictions for samples.

        Args:
            estimator: A fitted classifier, pipeline or search with ``classes_``, and with ``predict_proba``
                or ``decision_function``.
            X: Samples that it was not fitted on, as the estimator takes them.
            y: Their classes ``(N,)``, numbers or words, as in ``estimator.classes_``; of new samples None.
            sample_weight: Weights ``(N,)``.
            groups: Group of each sample ``(N,)``.
            clusters: Cluster of each sample ``(N,)``.
            response: ``"predict_proba"``; or ``"decision_function"``, whose scores then count as logits (of
                two classes: log-odds); ``"auto"`` takes the first that there is.

        Returns:
            Predictions whose ``class_names`` are the estimator's classes.

        Raises:
            InputError: If it is no such classifier, gives other than one score per class, or does not know a
                class in ``y``.

        Example:
            >>> from sklearn.datasets import load_iris
            >>> from sklearn.naive_bayes import GaussianNB
            >>> X, y = load_iris(return_X_y=True)
            >>> Predictions.from_estimator(GaussianNB().fit(X[::2], y[::2]), X[1::2], y[1::2])
            Predictions(multiclass, 75 samples, 3 classes, probs float64)
        """
        of_samples = {"sample_weight": sample_weight, "groups": groups, "clusters": clusters}
        checks.refuse_other_order({"X": X, "y": y, **of_samples})
        classes = estimators.classes_of(estimator)
        name, scores = estimators.scores_of(estimator, X, response, len(classes))
        given: dict[str, Any] = {"probs" if name == "predict_proba" else "logits": scores}
        return cls(
            **given,
            labels=None if y is None else torch.from_numpy(estimators.class_numbers(classes, y)),
            class_names=classes,
            weights=sample_weight,
            groups=groups,
            clusters=clusters,
        )

    @property
    def values(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        """The scores in their given space and dtype, after repairs."""
        return self._store.read(slice(None))

    @property
    def num_samples(self) -> int:
        """Number of samples N."""
        return self._store.shape[0]

    @property
    def num_classes(self) -> int | None:
        """C; 2 for binary, the number of labels for multilabel, None for top-label predictions."""
        return {"binary": 2, "top_label": None}.get(self.kind, self._store.shape[-1])

    @property
    def notes(self) -> tuple[str, ...]:
        """Repairs, omissions and odd properties of the input, in full sentences."""
        return (*self._notes, *repairs) if (repairs := self._store.repairs) else self._notes

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
        """Return ``scores`` of some rows, for work in pieces."""
        self._refuse_top_label("scores")
        values = self._store.read(rows)
        if self.space == "logits":
            return values
        probs = values.to(torch.float64)
        return probs.log() if self.kind == "multiclass" else probs.log() - torch.log1p(-probs)

    @property
    def probs(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        """Given probabilities, or softmax (binary, multilabel: sigmoid) of the logits; float64.

        Computed at each access; ``probs_of`` spares the float64 copy of a large table.

        Raises:
            InputError: If only top-label confidences are known.
        """
        return self.probs_of(slice(None))

    def probs_of(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """Return ``probs`` of some rows, for work in pieces."""
        self._refuse_top_label("probs")
        values = self._store.read(rows).to(torch.float64)
        if self.space == "logits":
            return values.softmax(dim=1) if self.kind == "multiclass" else steady_sigmoid(values)
        return values

    def _refuse_top_label(self, what: str) -> None:
        if self.kind == "top_label":
            raise InputError(
                f"`{what}` of all classes are not known: these predictions hold top-label confidences."
            )

    @property
    def confidence(self) -> Float[Tensor, " N"] | Float[Tensor, "N C"]:
        """Probability of the predicted class, float64; for an event the larger of p and 1 − p."""
        if self.space == "confidence":
            return self.values.to(torch.float64)
        return self._top_labels()[0]

    @property
    def correct(self) -> Bool[Tensor, " N"] | Bool[Tensor, "N C"]:
        """True if the most probable class (the first of ties) is true; an event is predicted above a half.

        Raises:
            InputError: If there are no labels.
        """
        if self._correct is not None:
            return self._correct
        if not self.has_labels:
            missing = "correct" if self.kind == "top_label" else "labels"
            raise InputError(f"`{missing}` must be given to tell which predictions are correct; got none.")
        return self._top_labels()[1]

    def _top_labels(self) -> tuple[Tensor, Tensor]:
        """Return confidence and correctness, in pieces; without labels everything counts as wrong."""
        shape = self._store.shape if self.kind != "multiclass" else self._store.shape[:1]
        labels = torch.full(shape, -1) if self.labels is None else self.labels
        # Filled in place: a list of small pieces between the freed large ones would leave the heap in holes.
        confidence, correct = torch.empty(shape, dtype=torch.float64), torch.empty(shape, dtype=torch.bool)
        for rows in self._store.pieces():
            probs, true = self.probs_of(rows), labels[rows]
            if self.kind == "multilabel":  # each label is an event of its own
                found = top_label(probs.flatten(), true.flatten())
            else:
                found = top_label(probs, true)
            confidence[rows] = found.confidence.view_as(true)
            correct[rows] = found.correct.view_as(true)
        return confidence, correct

    @property
    def has_labels(self) -> bool:
        """True if labels, or the correctness of confidences, are known."""
        return (self._correct if self.kind == "top_label" else self.labels) is not None

    @property
    def streamed(self) -> bool:
        """True if the scores stay in their file, which every pass reads in pieces."""
        return self._store.streamed

    def loaded(self) -> Predictions:
        """Return the predictions with their scores in memory."""
        return self._with(_store=HeldScores(self.values), _notes=self.notes) if self.streamed else self

    def watch(self, progress: Callable[[float], None]) -> None:
        """Call ``progress`` with the share of rows that a pass has read from a file."""
        vars(self)["_store"] = self._store.watched(progress)

    @property
    def has_calibration(self) -> bool:
        """True if some samples are marked as the calibration split."""
        return self.split is not None and bool((self.split == 0).any())

    @property
    def calibration(self) -> Predictions:
        """Return the samples of the calibration split.

        Raises:
            InputError: If there is no split, or fewer than two samples are in it.
        """
        return self._part(0, "calibration")

    @property
    def test(self) -> Predictions:
        """Return the samples of the test split; refused as :attr:`calibration`."""
        return self._part(1, "test")

    def _part(self, code: int, name: str) -> Predictions:
        if self.split is None:
            remedy = "give `split` (0 for calibration, 1 for test), or use all rows without it"
            raise InputError(f"there is no {name} split; {remedy}.")
        chosen = torch.nonzero(self.split == code)[:, 0]
        contiguous = len(chosen) > 0 and int(chosen[-1] - chosen[0]) + 1 == len(chosen)
        where = slice(int(chosen[0]), int(chosen[-1]) + 1) if contiguous else chosen  # a slice copies nothing
        return self._select(where, f"the {name} split")._with(split=None)

    def rows(self, index: slice | ArrayLike) -> Predictions:
        """Return the samples that a slice, mask or row numbers select, in order; a slice copies nothing.

        Args:
            index: A slice, ``N`` bools, or numbers in −N … N−1, which may repeat.

        Returns:
            Predictions of the same kind, with the same notes and source.

        Raises:
            InputError: If a row does not exist, all have weight zero, or fewer than two (without labels, one)
                are chosen.
        """
        return self._select(checks.as_rows(index, self.num_samples), "the chosen rows")

    def _select(self, where: slice | Int[Tensor, " n"], what: str) -> Predictions:
        store = self._store.select(where)
        checks.refuse_too_few(store.shape[0], what, judged=self.has_labels)

        def chosen(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
            if names is None:
                return None
            return names[where] if isinstance(where, slice) else tuple(names[k] for k in where.tolist())

        tensors = {name: getattr(self, name) for name in ("labels", "weights", "split", "_correct")}
        parts = {name: None if each is None else each[where] for name, each in tensors.items()}
        if parts["weights"] is not None and not bool(parts["weights"].any()):
            raise InputError(f"{what} must not have weight zero throughout.")
        return self._with(
            **parts,
            _store=store,
            groups=chosen(self.groups),
            clusters=chosen(self.clusters),
            top_k=None if self.top_k is None else self.top_k.rows(where),
        )

    def with_split(self, split: ArrayLike | None) -> Predictions:
        """Return the predictions with another split; None removes it.

        Raises:
            InputError: If a value is none of those that name a split, or the shape is wrong.
        """
        return self._with(split=None if split is None else checks.as_split(split, self.num_samples))

    def without_groups(self) -> Predictions:
        """Return the predictions without groups."""
        return self._with(groups=None)

    def with_groups(self, groups: ArrayLike) -> Predictions:
        """Return the predictions with other groups."""
        return self._with(groups=checks.as_groups(groups, self.num_samples))

    def with_clusters(self, clusters: ArrayLike | None) -> Predictions:
        """Return the predictions with other clusters; None makes samples independent."""
        return self._with(clusters=checks.as_groups(clusters, self.num_samples, name="clusters"))

    def as_binary(self, positive_class: int | str | None = None) -> Predictions:
        """Return two classes as one event ``(N,)``, or confidences as the event of a right prediction.

        Args:
            positive_class: The class, by number or name, whose probability is judged; by default class 1.

        Returns:
            Binary predictions with that class as class 1, and the same split, weights, groups, clusters and
            source; what was given as probabilities stays as it was.

        Raises:
            InputError: If there are not two classes, or the positive one is none of them.
        """
        if self.kind == "top_label" and positive_class is None:
            right = None if self._correct is None else self._correct.to(torch.int64)
            return self._with(
                kind="binary", space="probs", _correct=None, labels=right, class_names=RIGHT_OR_WRONG
            )
        positive = positive_number(self.kind, self.num_classes, self.class_names, positive_class)
        if self.kind == "binary" and positive == 1:
            return self
        read = [class_alone(self._store.read(rows), positive, self.space) for rows in self._store.pieces()]
        names, labels, notes = self.class_names, self.labels, self.notes
        called = str(positive) if names is None else names[positive]
        if positive == 0:
            names = ("1", "0") if names is None else (names[1], names[0])
            labels = None if labels is None else 1 - labels
        if self.kind == "multiclass":
            called = f"class {called}" if called.isdigit() else called
            notes = (*notes, f"Two columns are one event: {called} is positive.")
        turned = self._with(event_column=self.event_column if positive else 1 - self.event_column)
        store = HeldScores(torch.cat(read))
        return turned._with(kind="binary", _store=store, labels=labels, class_names=names, _notes=notes)

    def replace_scores(self, scores: ArrayLike) -> Predictions:
        r"""Return the samples with other logits, log-probabilities, or (binary, multilabel) log-odds.

        Args:
            scores: Finite, or :math:`-\infty` (log-odds: also :math:`+\infty`) for a probability of exactly
                zero (one); in that case the result holds the probabilities. Same shape as before.

        Returns:
            Predictions with the same labels, split, names, weights, groups, notes and source.

        Raises:
            InputError: If the shape differs or a value is NaN, or only top-label confidences are known.
        """
        self._refuse_top_label("scores")
        values = self._as_before(scores, "scores")
        task = None if self.kind == "top_label" else self.kind
        logits = check_logits(values, self.labels, task=task, allow_minus_inf=True).scores
        replaced = self._with(space="logits", _store=HeldScores(logits), _notes=self.notes)
        low, high = torch.aminmax(logits)
        if bool(low.isfinite()) and bool(high.isfinite()):
            return replaced
        return replaced._with(space="probs", _store=HeldScores(replaced.probs))

    def replace_probs(self, probs: ArrayLike) -> Predictions:
        """Return the samples with other probabilities, or confidences, of unchanged shape.

        Returns:
            Predictions with the same labels, split, names, weights, groups and source; a repair is noted.

        Raises:
            InputError: If the shape differs or a value is not a probability.
        """
        values = self._as_before(probs, "probs")
        top = self.kind == "top_label"
        checked, repairs = kinds.check_scores("probs", values, None if top else self.labels, None, self.kind)
        store, space = HeldScores(checked.scores), "confidence" if top else "probs"
        return self._with(space=space, _store=store, _notes=(*self.notes, *repairs), top_k=None)

    def _as_before(self, given: ArrayLike, name: str) -> Tensor:
        values = checks.as_scores(given, name=name, judged=self.has_labels)
        if values.shape != self._store.shape:
            shape, got = self._store.shape, tuple(values.shape)
            raise InputError(f"the new values must have the same shape {shape} as the old; got {got}.")
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that :func:`load_predictions` reads back to the same values, whole or not at all.

        The ending chooses the format: ``.npz``, ``.csv``, ``.csv.gz``, ``.tsv``, ``.jsonl``, ``.json``,
        ``.parquet``, ``.safetensors`` or ``.pt``. Text has no dtype: values come back in float64. ``source``
        and ``notes`` are not written.

        Args:
            path: Where to; a file that is there is replaced.

        Raises:
            InputError: If the ending is none of these, or the format has no place for something.
            OSError: If the file cannot be written.
        """
        write(self._arrays(), path)

    def to_frame(self, *, library: Library | None = None) -> Any:
        """Return the data frame of :func:`predictions_to_frame`."""
        return frame_of(cells_of(self._arrays()), library)

    def _arrays(self) -> dict[str, Any]:
        """Return tensors and tuples of texts for the whole state, under the names in files."""
        unsaid_kind = self.kind == "multilabel" and (
            self.labels is None or are_one_hot(self.space, self.values, self.labels)
        )
        mark = mark_in(self._notes)
        arrays = {
            self.space: self.values,
            "labels": self.labels,
            "correct": self._correct,
            "split": self.split,
            "weights": self.weights,
            "class_names": self.class_names,
            "groups": self.groups,
            "clusters": self.clusters,
            "kind": ("multilabel",) if unsaid_kind else None,
            MARK: None if mark is None else (mark.text,),
        }
        if self.top_k is not None and self.kind == "top_label":
            arrays |= arrays_of_top_k(self.top_k)
        return {name: values for name, values in arrays.items() if values is not None}

    def __len__(self) -> int:
        return self.num_samples

    def __repr__(self) -> str:
        count, tests = self.num_samples, 0 if self.split is None else int(self.split.sum())
        columns = {"multiclass": "classes", "multilabel": "labels"}.get(self.kind)
        parts = [
            self.kind,
            f"{count} sample{'s' if count > 1 else ''}",
            columns and f"{self.num_classes} {columns}",
            f"{self.space} {str(self._store.dtype).removeprefix('torch.')}",
            self.split is not None and f"{count - tests} calibration + {tests} test",
            self.labels is None and self._correct is None and "no labels",
            self.class_names is not None and "named classes",
            self.weights is not None and "weighted",
            self.groups is not None and f"{len(set(self.groups))} groups",
            self.clusters is not None and f"{len(set(self.clusters))} clusters",
            self.source is not None and f"from {self.source.name}",
            self.notes and f"{len(self.notes)} {'note' if len(self.notes) == 1 else 'notes'}",
        ]
        return f"Predictions({', '.join(each for each in parts if isinstance(each, str))})"

    def _named(self, rename: Callable[[str], str]) -> Predictions:
        return self._with(_notes=tuple(reworded(note, rename(note)) for note in self._notes))

    def _with(self, **changes: Any) -> Predictions:
        """Return a copy with some fields replaced; nothing is checked and no array copied."""
        other = copy.copy(self)
        vars(other).update(changes)
        return other
