"""Predictions to evaluate, wherever they are stored: in memory, as images, or as a table in parts.

Evaluation, comparison and gate use sources, and depend on none of the three. Alarms are signs that labels or
probabilities are not what they seem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import Note
from calibrant.evaluation import arguments
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.dense.source import ImageSource
from calibrant.evaluation.fitting.split import Split, has_both_parts, split_in_memory
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.judging.class_table import Calibrate
from calibrant.evaluation.judging.groups import group_rows
from calibrant.evaluation.judging.reduce import (
    Agreement,
    ArmSamples,
    ArmStatistics,
    Source,
    reduce_predictions,
)
from calibrant.evaluation.parts.source import TableSource
from calibrant.evaluation.phrases import NO_BETTER, number, percent
from calibrant.evaluation.quantities import ACCURACY, AUROC, MEAN_CONFIDENCE
from calibrant.evaluation.resampling.events import standard_error
from calibrant.evaluation.result import GroupRow
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import DensePredictions, Kind, Predictions
from calibrant.predictions.formats.mark import Mark, mark_in
from calibrant.predictions.oddities import SUSPICIOUS
from calibrant.predictions.partitioned import PartitionedPredictions
from calibrant.predictions.table import Source as File
from calibrant.predictions.to_event import repaired, to_repair

DEALT_OTHERWISE = (
    "The samples are the same, but split into other batches, because the tables have other clusters or "
    "numbers of classes. So differences are unpaired, and their intervals are too wide."
)


@dataclass(frozen=True, kw_only=True)
class SamplesInMemory(ArmSamples):
    """The test samples with the probabilities of one arm."""

    predictions: Predictions
    num_bins: int
    calibrate: Calibrate | None = None

    @property
    def in_memory(self) -> Predictions:
        return self.predictions

    @property
    def num_tested(self) -> int:
        return self.predictions.num_samples

    @property
    def num_clusters(self) -> int | None:
        names = self.predictions.clusters
        return None if names is None else len(set(names))

    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:  # noqa: ARG002
        return reduce_predictions(self.predictions, self.num_bins, self.calibrate, metrics=metrics)

    def group_rows(self, reduced: ArmStatistics, procedure: Procedure) -> tuple[GroupRow, ...]:
        return group_rows(reduced, self.predictions.groups, procedure)


@dataclass(frozen=True, kw_only=True)
class MemorySource(Source):
    """Predictions in memory, or with only the scores left in their file."""

    given: Predictions
    positive_class: int | str | None

    @property
    def has_groups(self) -> bool:
        return self.given.groups is not None

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(other_notes(arguments.as_judged(self.given, self.positive_class)))

    def split(self) -> Split:
        split = split_in_memory(self.given, self.calibration, self.seed, fits=self.fits)
        return split.judged(self.positive_class).ascending

    def read(
        self,
        calibrators: Sequence[FittedCalibrator | None],
        split: Split | None = None,
        tell: Callable[[float], None] = lambda _: None,  # noqa: ARG002
    ) -> tuple[Sequence[SamplesInMemory], tuple[str, ...]]:
        test = self._test if split is None else split.test
        return [samples_after(test, self.num_bins, each) for each in calibrators], ()

    @property
    def _test(self) -> Predictions:
        return arguments.test_of(arguments.as_judged(self.given, self.positive_class))

    def with_groups(self) -> tuple[Predictions, tuple[str, ...]]:
        return self._test, ()


def samples_after(test: Predictions, num_bins: int, fitted: FittedCalibrator | None) -> SamplesInMemory:
    """The test samples after a calibrator, or after cross-fitting."""
    samples = SamplesInMemory(predictions=test, num_bins=num_bins)
    if fitted is None:
        return samples
    if fitted.cross_fitted is not None:
        return replace(samples, predictions=fitted.cross_fitted)
    calibrate = fitted.calibrator.predict_proba
    if test.kind == "top_label":
        return replace(samples, predictions=repaired(test, calibrate(to_repair(test).scores)))
    return replace(samples, calibrate=calibrate)


def source_of(
    given: object,
    num_bins: int,
    *,
    name: str,
    calibration: Predictions | None = None,
    positive_class: int | str | None = None,
    cluster: arguments.Cluster = None,
    seed: int = 0,
    fits: bool = False,
    spread: Spread = here,
) -> Source:
    if cluster is not None and isinstance(given, DensePredictions | PartitionedPredictions):
        raise InputError("`cluster` must not be given for images, or for tables that are read part by part.")
    if isinstance(given, DensePredictions):
        if positive_class is not None:
            raise InputError("`positive_class` must not be given for images: class 1 of two is positive.")
        return ImageSource(given=given, num_bins=num_bins, seed=seed, fits=fits, spread=spread)
    if isinstance(given, PartitionedPredictions):
        if calibration is not None and positive_class is not None:
            calibration = arguments.as_judged(calibration, positive_class)
        return TableSource(
            given=given.with_positive(positive_class),
            calibration=calibration,
            num_bins=num_bins,
            seed=seed,
            fits=fits,
            spread=spread,
        )
    return MemorySource(
        given=arguments.in_clusters(arguments.check_predictions(given, name), cluster),
        calibration=calibration,
        positive_class=positive_class,
        num_bins=num_bins,
        seed=seed,
        fits=fits,
    )


@dataclass(frozen=True, kw_only=True)
class ModelSamples:
    """One model's test samples, uncalibrated, for a comparison or a gate."""

    kind: Kind
    num_classes: int | None
    class_names: tuple[str, ...] | None
    source: File | None
    notes: tuple[str, ...]
    has_split: bool  # whether some samples are marked for fitting and some for testing
    samples: ArmSamples
    origin: Source

    @property
    def test(self) -> Predictions | None:
        return self.samples.in_memory

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(str(label) for label in self.class_names or range(self.num_classes or 0))

    @property
    def mark(self) -> Mark | None:
        return mark_in(self.notes if self.test is None else self.test.notes)

    @property
    def clusters_note(self) -> tuple[str, ...]:
        return () if self.test is None else arguments.clusters_note(self.test)

    def reduced(self, metrics: Iterable[str]) -> ArmStatistics:
        return self.samples.reduced(self.labels, metrics)

    def same_as(self, other: ModelSamples) -> bool:
        if self.test is not None and other.test is not None:
            return arguments.same_samples(self.test, other.test)
        return self.samples.telling and self.samples.fingerprint == other.samples.fingerprint

    def same_rows_other_batches(self, other: ModelSamples) -> bool:
        mine, theirs = self.samples.fingerprint, other.samples.fingerprint
        if mine is None or theirs is None:
            return False
        return mine[0] == theirs[0] and mine[1] != theirs[1]

    def of(self, predictions: Predictions, num_bins: int) -> ModelSamples:
        return replace(self, samples=SamplesInMemory(predictions=predictions, num_bins=num_bins))


def samples_of(given: object, num_bins: int, *, name: str = "predictions", **how: Any) -> ModelSamples:
    """The test samples, or all if there is no test split; images and tables in parts are read here.

    ``how`` are arguments of :func:`source_of`.
    """
    source = source_of(given, num_bins, name=name, **how)
    (samples,), notes = source.read((None,))
    whole = source.given
    form = whole if samples.in_memory is None else samples.in_memory
    return ModelSamples(
        kind=form.kind,
        num_classes=None if form.kind == "top_label" else form.num_classes,
        class_names=form.class_names,
        source=whole.source,
        notes=(*source.notes, *notes),
        has_split=has_both_parts(whole) if isinstance(whole, Predictions) else whole.has_split,
        samples=samples,
        origin=source,
    )


def in_same_clusters(models: Sequence[ModelSamples], num_bins: int) -> list[ModelSamples]:
    """Models of the same samples, all with the clusters that some of them name."""
    tests = [each.test for each in models if each.test is not None]
    known = {test.clusters for test in tests if test.clusters is not None}
    if len(known) > 1:
        raise InputError("`models` must have the same clusters if they have the same samples.")
    for clusters in known:
        return [
            each.of(test.with_clusters(clusters), num_bins) for each, test in zip(models, tests, strict=True)
        ]
    return list(models)


SURE = 3.5  # standard errors; honest predictions reach that once in 4000
RARE = 1 / 4000  # as seldom
FEWEST_RIGHT = 50
FEWEST_WRONG = 20
MANY_TIMES = 2  # ratio of neighbouring labels to right labels among predictions


SEEN_IN_FIT = (
    "The calibrator was fitted on these very samples, so it looks better than on new ones. "
    "Evaluate it on other samples."
)
FEWEST_OF_OTHERS = 200  # samples outside the most frequent class: enough for an AUROC of 0.57 to show


def alarms(predictions: Predictions | None, reduced: ArmStatistics) -> tuple[str, ...]:
    """Warnings about misnamed numbers and labels that don't match the scores."""
    if predictions is None:
        return tuple(_of_labels(reduced))
    found = tuple(_of_labels(reduced)) or tuple(_of_accuracy(predictions.kind, reduced))
    mark = mark_in(predictions.notes)
    seen = (SEEN_IN_FIT,) if mark is not None and mark.seen else ()
    notes = (*seen, *(note for note in predictions.notes if note in SUSPICIOUS), *found)
    if found or not is_useless(predictions):
        return notes
    useless = (
        f"{NO_BETTER}, as far as {predictions.num_samples:,} samples can tell: a class gets no higher "
        "probabilities when it occurs than when it doesn't. Did the training diverge, or were the labels "
        "shuffled?"
    )
    return Note(useless, "useless"), *notes


def is_useless(predictions: Predictions) -> bool:
    """True if a class gets no higher probabilities when it occurs, beyond two standard errors.

    False if the scores stay in their file or fewer than 200 samples are outside the most frequent class.

    Example:
        >>> is_useless(Predictions(probs=[0.5] * 500, labels=[0, 1] * 250))
        True
        >>> is_useless(Predictions(probs=[0.45, 0.55] * 250, labels=[0, 1] * 250))
        False
    """
    labels = predictions.labels
    if predictions.kind not in {"binary", "multiclass"} or labels is None or predictions.streamed:
        return False
    counts = torch.bincount(labels)
    if len(labels) - int(counts.max()) < FEWEST_OF_OTHERS:
        return False
    probs = predictions.probs.double()
    table = torch.stack([1 - probs, probs], dim=1) if probs.ndim == 1 else probs
    weights = predictions.weights
    share = torch.full_like(table[:, 0], 1 / len(table)) if weights is None else weights / weights.sum()
    excess = table - share @ table
    frequencies = torch.zeros(table.shape[1], dtype=share.dtype).index_add_(0, labels, share)
    products = excess.gather(1, labels[:, None])[:, 0] - excess @ frequencies
    mean = share @ products
    return bool(mean <= 2 * (share * (products - mean)).norm() + 1e-12)


def other_notes(predictions: Predictions) -> list[str]:
    """Notes on odd data that are no warnings."""
    notes = (note for note in predictions.notes if note not in SUSPICIOUS)
    return [note.about.brief if isinstance(note, Note) and note.kind == "mark" else note for note in notes]


def _of_labels(reduced: ArmStatistics) -> Iterator[str]:
    if reduced.agreement is not None:
        yield from _of_classes(reduced.agreement, reduced.effective_samples)
    elif AUROC.key in reduced.values:
        area = reduced.values[AUROC.key]
        error = standard_error(reduced.influences[AUROC.key], reduced.weights, reduced.clusters)
        if area < 0.5 - SURE * error:
            yield (
                f"The ranking is worse than guessing (AUROC {number(area)}, guessing gives 0.5): are the "
                "labels or the columns swapped?"
            )


def _of_accuracy(kind: Kind, reduced: ArmStatistics) -> Iterator[str]:
    right, stated = reduced.values.get(ACCURACY.key), reduced.values.get(MEAN_CONFIDENCE.key)
    count = reduced.effective_samples
    if right is None or stated is None:
        return
    if kind != "top_label" and math.isclose(right, 1) and count >= FEWEST_RIGHT and stated**count < RARE:
        yield (
            "Every label is the most probable class, although the confidences imply errors: are the labels "
            "really the column of predictions?"
        )
    elif right == 0 and count >= FEWEST_WRONG and (1 - stated) ** count < RARE:
        yield (
            f"No label is the most probable class (accuracy 0%, average confidence {percent(stated)}): do "
            "the labels belong to these rows, and are the columns in the order of the labels?"
        )


def _of_classes(found: Agreement, num_samples: float) -> Iterator[str]:
    right, chance = found.share(0), found.by_chance
    offset = max((-1, 1), key=found.share)
    beside = found.share(offset)
    if (
        found.num_classes > 2
        and int((found.occurred > 0).sum()) > 1  # with a single class, all others are neighbours
        and beside > MANY_TIMES * right
        and beside - right > SURE * math.sqrt((beside + right) / num_samples)
        and beside > chance + SURE * math.sqrt(chance * (1 - chance) / num_samples)
    ):
        place = "plus one" if offset > 0 else "minus one"
        yield (
            f"The labels look shifted by one: the predicted class is the label {place} in "
            f"{percent(beside)} of the samples and the label itself in {percent(right)}."
        )
    elif right < chance - SURE * math.sqrt(chance * (1 - chance) / num_samples):
        yield (
            f"The accuracy of {percent(right)} is below the {percent(chance)} of random guesses: do the "
            "labels belong to these rows, and are the columns in the order of the labels?"
        )
