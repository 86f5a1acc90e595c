"""Predictions to evaluate, wherever they are stored: in memory, as images, or as a table in parts.

Evaluation, comparison and gate use sources, and depend on none of the three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calibrant._math.errors import InputError
from calibrant.evaluation import arguments
from calibrant.evaluation.alarms import alarms, other_notes
from calibrant.evaluation.dense.source import ImageSource
from calibrant.evaluation.fitting.split import Split, has_both_parts, split_in_memory
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.judging.groups import group_rows
from calibrant.evaluation.judging.labelled_probs import Calibrate
from calibrant.evaluation.judging.reduce import ArmStatistics, reduce_predictions
from calibrant.evaluation.parts.source import TableSource, sampled_to_fit
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.result import GroupRow, Kind
from calibrant.evaluation.samples import ArmSamples, Judgeable, Source
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import DensePredictions, Predictions
from calibrant.predictions.formats.mark import Mark, mark_in
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
    arguments.check_predictions(given, name)
    if not isinstance(given, Predictions):
        raise TypeError(name)
    return MemorySource(
        given=arguments.in_clusters(given, cluster),
        calibration=calibration,
        positive_class=positive_class,
        num_bins=num_bins,
        seed=seed,
        fits=fits,
    )


def calibration_in_memory(
    calibration: Predictions | PartitionedPredictions | None, judged: Judgeable, seed: int, *, spread: Spread
) -> tuple[Predictions | None, Callable[[Split], Split]]:
    """Samples to fit on: the given ones, or random rows of a table; and the split with their words."""
    if isinstance(calibration, PartitionedPredictions):
        return sampled_to_fit(calibration, judged.source, seed, spread=spread)
    return calibration, lambda split: split


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

    def warnings(self, reduced: ArmStatistics) -> tuple[str, ...]:
        return alarms(self.test, reduced)

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
