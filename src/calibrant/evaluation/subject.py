"""One model's test samples for `check` and `compare`, wherever they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from calibrant._math.errors import InputError
from calibrant.evaluation.alarms import alarms, other_notes
from calibrant.evaluation.arguments import as_judged, check_predictions, clusters_note, groups_note
from calibrant.evaluation.dense.judge import judged_note
from calibrant.evaluation.dense.states import ImageSums, summed_images
from calibrant.evaluation.fitting.split import has_both_parts
from calibrant.evaluation.judging.reduce import Reduced, reduce_predictions
from calibrant.evaluation.pairing import are_telling, same_samples, test_of
from calibrant.evaluation.parts.dealing import Deal
from calibrant.evaluation.parts.judge import dealt_note
from calibrant.evaluation.parts.kinds import AnySums, reduced_of
from calibrant.evaluation.parts.states import BatchSums
from calibrant.evaluation.parts.tasks import summed
from calibrant.evaluation.result import Kind
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import DensePredictions, Predictions, Source
from calibrant.predictions.formats.mark import Mark, mark_in
from calibrant.predictions.partitioned import PartitionedPredictions

Judgeable: TypeAlias = Predictions | DensePredictions | PartitionedPredictions
DEALT_OTHERWISE = (
    "The samples are the same, but split into other batches, because the tables have other clusters or "
    "numbers of classes. So differences are unpaired, and their intervals are too wide."
)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One model's test samples: predictions, or sums of images or of batches of a table."""

    kind: Kind
    num_samples: int
    num_classes: int | None
    class_names: tuple[str, ...] | None
    source: Source | None
    notes: tuple[str, ...]
    has_split: bool
    """Whether some samples are marked for fitting and some for testing."""
    judged: Predictions | ImageSums | AnySums
    """The samples, or their sums."""
    has_labels: bool = True
    """Whether true classes tell samples apart; of sums of confidences perhaps only which are right does."""

    @classmethod
    def of(
        cls,
        given: object,
        num_bins: int,
        *,
        name: str,
        positive_class: int | str | None,
        spread: Spread = here,
    ) -> Subject:
        """The test samples, or all where there is no test split; images and tables in parts are read here.

        Raises:
            TypeError: If it is no predictions.
            InputError: If there is nothing to judge.
        """
        if isinstance(given, DensePredictions):
            if positive_class is not None:
                raise InputError("`positive_class` must not be given for images: class 1 of two is positive.")
            return _of_images(given, num_bins, spread)
        if isinstance(given, PartitionedPredictions):
            return _of_parts(given.with_positive(positive_class), num_bins, spread)
        check_predictions(given, name)
        if not isinstance(given, Predictions):
            raise TypeError(name)
        predictions = as_judged(given, positive_class)
        test = test_of(predictions)
        return cls(
            kind=test.kind,
            num_samples=test.num_samples,
            num_classes=test.num_classes,
            class_names=test.class_names,
            source=given.source,
            notes=tuple(other_notes(predictions)),
            has_split=has_both_parts(given),
            judged=test,
        )

    @property
    def test(self) -> Predictions | None:
        """The samples in memory."""
        return self.judged if isinstance(self.judged, Predictions) else None

    @property
    def sums(self) -> ImageSums | AnySums | None:
        """The sums of images, or of batches of a table."""
        return None if isinstance(self.judged, Predictions) else self.judged

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of classes or labels."""
        return tuple(str(label) for label in self.class_names or range(self.num_classes or 0))

    @property
    def clusters(self) -> int | None:
        """Number of clusters; None if samples are resampled."""
        if self.sums is not None:
            return len(self.sums.names if isinstance(self.sums, ImageSums) else self.sums.filled)
        names = None if self.test is None else self.test.clusters
        return None if names is None else len(set(names))

    @property
    def mark(self) -> Mark | None:
        """Which calibrator was applied to the predictions, if one was."""
        return mark_in(self.notes if self.test is None else self.test.notes)

    @property
    def clusters_note(self) -> tuple[str, ...]:
        """Notes on groups and clusters."""
        return () if self.test is None else clusters_note(self.test)

    def reduced(self, num_bins: int, metrics: Iterable[str]) -> Reduced:
        """The reduced predictions."""
        if isinstance(self.judged, Predictions):
            return reduce_predictions(self.judged, num_bins, metrics=metrics)
        return reduced_of(self.judged, self.labels, metrics)

    def warnings(self, reduced: Reduced) -> tuple[str, ...]:
        """Warnings of the data."""
        return alarms(self.test, reduced)

    def same_as(self, other: Subject) -> bool:
        """True if both were judged on the same samples."""
        if self.test is not None and other.test is not None:
            return same_samples(self.test, other.test)
        if self.sums is None or other.sums is None:
            return False
        if not self.has_labels and isinstance(self.sums, BatchSums):
            right = int(self.sums.agreement[1, 4])
            return are_telling(self.num_samples, right) and self.sums.fingerprint == other.sums.fingerprint
        return self.sums.fingerprint == other.sums.fingerprint

    def dealt_otherwise(self, other: Subject) -> bool:
        """True if both are the same rows of tables read part by part, but in other batches."""
        mine, theirs = self.sums, other.sums
        if not (isinstance(mine, AnySums) and isinstance(theirs, AnySums)):
            return False
        return mine.samples == theirs.samples and mine.dealing != theirs.dealing


def in_same_clusters(subjects: Sequence[Subject]) -> list[Subject]:
    """The same samples are in the same clusters; one of the files may say which for all."""
    known = {
        each.test.clusters for each in subjects if each.test is not None and each.test.clusters is not None
    }
    if len(known) > 1:
        raise InputError("`models` must have the same clusters if they have the same samples.")
    return [
        replace(each, judged=each.test.with_clusters(clusters))
        for clusters in known
        for each in subjects
        if each.test is not None
    ] or list(subjects)


def _of_images(dense: DensePredictions, num_bins: int, spread: Spread) -> Subject:
    test = dense.test_images
    (sums,) = summed_images(dense, test, num_bins, (None,), spread=spread)
    number = len(sums.names)
    return _in_sums(dense, sums, (judged_note(number, len(test) - number),))


def _of_parts(table: PartitionedPredictions, num_bins: int, spread: Spread) -> Subject:
    deal = Deal.of(table, num_bins, fits=False)
    found = summed(table, deal, num_bins, (None,), spread=spread)
    if found.arms[0].num_positions < 2:
        raise InputError(f"{table.address} must hold two samples or more.")
    said = groups_note(table.has_groups, clusters=table.has_clusters)
    notes = (*table.notes, dealt_note(table, deal, found.arms[0]), *said, *found.repairs)
    return replace(_in_sums(table, found.arms[0], notes), has_labels=table.has_labels)


def _in_sums(
    given: DensePredictions | PartitionedPredictions, sums: ImageSums | AnySums, notes: tuple[str, ...]
) -> Subject:
    return Subject(
        kind=given.kind,
        num_samples=sums.num_positions,
        num_classes=None if given.kind == "top_label" else given.num_classes,
        class_names=given.class_names,
        source=given.source,
        notes=notes,
        has_split=given.has_split,
        judged=sums,
    )
