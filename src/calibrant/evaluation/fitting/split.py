"""The split into samples to fit calibrators on and samples to evaluate them on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant._math.top_k import joined
from calibrant.evaluation.arguments import as_judged, is_wide, no_labels
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.resampling.resamples import MOST_UNITS, Stream, generator
from calibrant.evaluation.result import Kind
from calibrant.predictions import DensePredictions, Predictions
from calibrant.predictions.partitioned import PartitionedPredictions
from calibrant.predictions.to_event import to_repair

MOST_FITTED = 1 << 22  # scores that calibrators are fitted on: 4194 samples of 1000 classes
FEWEST_HELD = 64  # samples of very many classes, to choose a calibrator by
MOST_READ = 1 << 27  # scores of very many classes that are read in pieces for a fit: 2684 samples of 50 000
MOST_CROSS_FITTED = 1 << 20  # scores; with more, half of the samples suffice for testing
CROSS_FIT_WIDE_BELOW = 200  # samples of very many classes, as each fit takes long
NUM_FOLDS = 5


@dataclass(frozen=True)
class Split:
    """Calibration and test samples; with ``folds`` they are the same samples, cross-fitted."""

    calibration: Predictions | None
    test: Predictions
    words: str
    folds: Indices | None = None
    announce: bool = False  # whether a note must name the split, because it was made here
    marked: bool = False  # whether other predictions were given to fit on, of which some are marked for that
    in_pieces: Predictions | None = None  # to fit those on that need not hold it; others on ``calibration``
    sampled: bool = False  # whether these are a few samples of images, or of a table that is read in parts
    drawn: bool = False  # whether those of images or a table were drawn, as none were marked
    notes: tuple[str, ...] = ()
    dropped: int = 0  # samples marked to be fitted on that are not, as others were given
    too_few: str = ""  # why nothing is fitted although it was asked
    _test_as_given: Predictions | None = None

    @property
    def test_as_given(self) -> Predictions:
        """The test samples before two classes became one event."""
        return self.test if self._test_as_given is None else self._test_as_given

    @property
    def num_calibration(self) -> int:
        given = self.in_pieces or self.calibration
        return 0 if given is None else given.num_samples

    @property
    def effective_calibration(self) -> float:
        given = self.in_pieces or self.calibration
        if given is None or given.weights is None:
            return self.num_calibration
        return effective_number(np.asarray(given.weights, dtype=np.float64))

    def judged(self, positive_class: int | str | None) -> Split:
        """The split with test samples in the form to evaluate and calibration samples in the form to fit."""
        given, test = self.calibration, as_judged(self.test, positive_class)
        split = replace(self, test=test, _test_as_given=self.test)
        if given is None:
            return split
        held = test if given is self.test else as_judged(given, positive_class)
        return replace(split, calibration=to_repair(held))

    @property
    def ascending(self) -> Split:
        """Many samples of one event in the order of their scores, which every later sort finds done."""
        order, held, folds = _order(self.test), self.calibration, self.folds
        test = self.test if order is None else self.test.rows(order)
        if folds is None:
            order = None if held is None else _order(held)
        elif order is not None:
            folds = folds[order]
        return replace(
            self,
            test=test,
            calibration=held if held is None or order is None else held.rows(order),
            folds=folds,
        )


def _order(predictions: Predictions) -> Indices | None:
    few = predictions.num_samples <= MOST_UNITS
    if few or predictions.streamed or predictions.kind not in {"binary", "top_label"}:
        return None
    return np.argsort(predictions.values.numpy(), kind="stable")


def split_in_memory(
    predictions: Predictions, calibration: Predictions | None, seed: int, *, fits: bool
) -> Split:
    """Choose the split, and load the calibration samples: all, or random ones that fit in memory."""
    split = choose_split(predictions, calibration, seed, fits=fits)
    given = split.calibration
    if given is not None and is_wide(given) and split.folds is None:
        return _wide(split, given, seed)
    if split.folds is not None and split.test.streamed:
        held = split.test.loaded()
        return replace(split, calibration=held, test=held)
    if given is None or not given.streamed:
        return split
    most = max(2, MOST_FITTED // (given.num_classes or 1))
    if given.num_samples <= most:
        return replace(split, calibration=given.loaded())
    chosen = np.sort(generator(seed, Stream.SAMPLE).permutation(given.num_samples)[:most])
    words = f"{most:,} drawn at random (seed {seed}) from {split.words}"
    return replace(split, calibration=given.rows(chosen).loaded(), words=words, announce=True)


def _wide(split: Split, given: Predictions, seed: int) -> Split:
    """Some rows in memory to choose by, and more for calibrators that read scores in pieces."""
    width = given.num_classes or 1
    held, read = (max(fewest, most // width) for fewest, most in ((FEWEST_HELD, MOST_FITTED), (2, MOST_READ)))
    order = generator(seed, Stream.SAMPLE).permutation(given.num_samples)
    used = given if given.num_samples <= read else given.rows(np.sort(order[:read]))
    words = split.words
    if used is not given:
        words = f"{read:,} drawn at random (seed {seed}) from {words}"
    if given.num_samples > held:
        words += f", calibrators other than temperature and focal temperature scaling on {held:,} of these"
    some = given if given.num_samples <= held else given.rows(np.sort(order[:held]))
    return replace(
        split,
        calibration=some.loaded(),
        in_pieces=used,
        words=words,
        announce=split.announce or used is not given,
    )


def choose_split(
    predictions: Predictions, calibration: Predictions | None, seed: int, *, fits: bool = True
) -> Split:
    """Take the given split or draw one; if nothing is fitted, there are only test samples."""
    both = has_both_parts(predictions)
    test = predictions.test if both else predictions
    if not predictions.has_labels:
        raise no_labels(predictions)
    if calibration is not None:
        _check_same_problem(predictions, calibration)
        _check_other_file(predictions, calibration)
    dropped = predictions.num_samples - test.num_samples if calibration is not None else 0
    if not fits:
        return Split(None, test, "none: no calibrators were requested", dropped=dropped)
    if calibration is not None:
        name = "other predictions" if calibration.source is None else calibration.source.name
        if has_both_parts(calibration):
            given = calibration.calibration
            words = f"the {given.num_samples:,} samples of {name} marked as calibration split"
            return Split(given, test, words, dropped=dropped)
        words = f"all {calibration.num_samples:,} samples of {name}"
        return Split(calibration, test, words, dropped=dropped)
    if both:
        given = predictions.calibration
        return Split(given, test, f"the {given.num_samples:,} samples marked as calibration split")
    num_samples = predictions.num_samples
    why = "the predictions have no split" if predictions.split is None else "the split has one part only"
    if num_samples < 3:
        too_few = f"{num_samples} samples are too few to fit and test"
        return Split(None, test, f"none: {too_few}", too_few=too_few)
    if is_cross_fitted(predictions):
        folds = stratified_folds(predictions, NUM_FOLDS, seed)
        words = f"all {num_samples:,} samples by {folds.max() + 1}-fold cross-fitting, because {why}"
        return Split(predictions, predictions, words, folds, announce=True)
    fit, test = halves(predictions, seed)
    alike = "right and wrong" if predictions.kind == "top_label" else "each class"
    whole = "" if predictions.clusters is None else ", in whole clusters,"
    words = (
        f"{fit.num_samples:,} of {num_samples:,} samples, drawn at random{whole} (seed {seed}) with the same "
        f"share of {alike} in both halves, because {why} and the file is large; the other "
        f"{test.num_samples:,} are tested"
    )
    return Split(fit, test, words, announce=True)


def is_cross_fitted(predictions: Predictions) -> bool:
    """True if samples without a split are few enough for cross-fitting."""
    if is_wide(predictions):
        return predictions.num_samples < CROSS_FIT_WIDE_BELOW
    width = 1 if predictions.kind in {"binary", "top_label"} else predictions.num_classes or 1
    return predictions.num_samples * width <= MOST_CROSS_FITTED


def halves(predictions: Predictions, seed: int) -> tuple[Predictions, Predictions]:
    """Random halves to fit and to test on, stratified by class; clusters stay whole."""
    drawn, rows = stratified_folds(predictions, 2, seed), predictions.with_split(None)
    fit, test = (rows.rows(np.flatnonzero(drawn == half)) for half in (0, 1))
    return fit, test


def marked_split(fit: Predictions, test: Predictions) -> Predictions:
    """Join samples to fit and to test on as predictions with a split."""
    both = (fit, test)
    told = "correct" if test.kind == "top_label" else "labels"
    values: dict[str, Any] = {
        test.space: torch.cat([each.values for each in both]),
        told: torch.cat([getattr(each, told) for each in both]),
    }
    top_k = [each.top_k for each in both if each.top_k is not None]
    weights = [each.weights for each in both if each.weights is not None]
    return Predictions(
        **values,
        weights=torch.cat(weights) if weights else None,
        split=[0] * fit.num_samples + [1] * test.num_samples,
        clusters=None if test.clusters is None else [*(fit.clusters or ()), *test.clusters],
        groups=None if test.groups is None else [*(fit.groups or ()), *test.groups],
        class_names=test.class_names,
        kind=test.kind,
        source=test.source,
        top_k=joined(top_k) if top_k else None,
    )


def has_both_parts(predictions: Predictions) -> bool:
    return predictions.split is not None and len(predictions.split.unique()) == 2


def stratified_folds(predictions: Predictions, num_folds: int, seed: int) -> Indices:
    """Fold of each sample ``(N,)``, stratified by class or rarest label; clusters are not divided."""
    if predictions.clusters is not None:
        return _cluster_folds(_strata(predictions), cluster_codes(predictions.clusters), num_folds, seed)
    order = generator(seed, Stream.SPLIT).permutation(predictions.num_samples)
    order = order[np.argsort(_strata(predictions)[order], kind="stable")]
    folds = np.empty(len(order), dtype=np.int64)
    folds[order] = np.arange(len(order)) % min(num_folds, len(order))
    return folds


def _cluster_folds(strata: Indices, codes: Indices, num_folds: int, seed: int) -> Indices:
    """Assign whole clusters, by most common class and then size, each to the smallest fold."""
    sizes = np.bincount(codes)
    num_folds = min(num_folds, len(sizes))
    counts = np.zeros((len(sizes), int(strata.max()) + 1), np.int64)
    np.add.at(counts, (codes, strata), 1)
    order = generator(seed, Stream.SPLIT).permutation(len(sizes))
    order = order[np.lexsort((-sizes[order], counts[order].argmax(axis=1)))]
    folds, filled = np.empty(len(sizes), np.int64), np.zeros(num_folds)
    for cluster in order.tolist():
        folds[cluster] = filled.argmin()
        filled[folds[cluster]] += sizes[cluster]
    return folds[codes]


def _strata(predictions: Predictions) -> Indices:
    """Strata to spread evenly, whatever the order of the columns: classes, or each sample's rarest label."""
    labels = predictions.correct if predictions.kind == "top_label" else predictions.labels
    if labels is None:
        raise no_labels(predictions)
    if labels.ndim == 1:
        _, first, classes = np.unique(labels.numpy(), return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[classes]  # in the order in which the classes first occur
    given = labels.numpy()
    columns = np.ascontiguousarray(given.T)
    rarest_first = sorted(range(len(columns)), key=lambda k: (columns[k].sum(), columns[k].tobytes()))
    return np.where(given.any(axis=1), given[:, rarest_first].argmax(axis=1), len(columns))


def _check_other_file(predictions: Predictions, calibration: Predictions) -> None:
    mine, theirs = predictions.source, calibration.source
    same_file = mine is not None and theirs is not None and mine.sha256 == theirs.sha256
    # Two parts of one file, taken apart by the caller, have no split left and hold other samples.
    whole = predictions.split is not None or calibration.split is not None
    if calibration is predictions or (
        same_file and (whole or torch.equal(predictions.values, calibration.values))
    ):
        raise InputError(
            "`calibration` must be other predictions than those evaluated; without it, the file's own "
            "calibration split is used."
        )


def _check_same_problem(predictions: Predictions, calibration: Predictions) -> None:
    if calibration.labels is None and calibration.kind != "top_label":
        raise InputError("`calibration` must have labels to fit on; got none.")
    mine, theirs = (_described(each) for each in (predictions, calibration))
    if mine != theirs:
        raise InputError(f"`calibration` must be {mine}, as the predictions are; got {theirs}.")
    names = (predictions.class_names, calibration.class_names)
    if None not in names and names[0] != names[1]:
        raise InputError("`calibration` must have the same class names in the same order as the predictions.")


def _described(predictions: Predictions) -> str:
    kind, number = judged_kind(predictions), predictions.num_classes
    called = "confidences (top_label)" if kind == "top_label" else kind
    return called if number is None else f"{called} with {number} classes"


def judged_kind(predictions: Predictions | DensePredictions | PartitionedPredictions) -> Kind:
    two_classes = predictions.kind == "multiclass" and predictions.num_classes == 2
    return "binary" if two_classes else predictions.kind
