"""Interfaces of sources of samples, and of the samples of one arm."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from calibrant.evaluation.fitting.split import Split
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.result import GroupRow
from calibrant.predictions import DensePredictions, Predictions
from calibrant.predictions.partitioned import PartitionedPredictions

Judgeable: TypeAlias = Predictions | DensePredictions | PartitionedPredictions


class ArmSamples(ABC):
    """The test samples with the probabilities of one arm: in memory, or their sums."""

    @property
    def in_memory(self) -> Predictions | None:
        return None

    @property
    @abstractmethod
    def num_tested(self) -> int:
        """Number of samples, or of positions of images."""

    @property
    @abstractmethod
    def num_clusters(self) -> int | None:
        """Number of clusters, images or batches; None if samples are resampled."""

    @property
    def fingerprint(self) -> tuple[object, object] | None:
        """Hashes of samples and labels, and of batches; ``None`` in memory."""
        return None

    @property
    def telling(self) -> bool:
        """True if equal fingerprints mean the same samples."""
        return self.fingerprint is not None

    @abstractmethod
    def reduced(self, class_names: tuple[str, ...], metrics: Iterable[str]) -> ArmStatistics:
        """Statistics of the samples for an evaluation."""

    def group_rows(self, reduced: ArmStatistics, procedure: Procedure) -> tuple[GroupRow, ...]:  # noqa: ARG002
        """A row for each group of samples, if there are any."""
        return ()


@dataclass(frozen=True, kw_only=True)
class Source(ABC):
    """Predictions to evaluate and to fit on."""

    given: Judgeable
    calibration: Predictions | None = None  # samples to fit on, if they are no part of those given
    num_bins: int
    seed: int
    fits: bool  # whether anything is to be fitted

    reads: ClassVar[str] = ""  # noun for the data read in one pass for all arms; empty in memory

    @property
    def has_groups(self) -> bool:
        return False

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    @abstractmethod
    def split(self) -> Split:
        """Samples to fit on and test samples, or a few of these for warnings."""

    @abstractmethod
    def read(
        self,
        calibrators: Sequence[FittedCalibrator | None],
        split: Split | None = None,
        tell: Callable[[float], None] = lambda _: None,
    ) -> tuple[Sequence[ArmSamples], tuple[str, ...]]:
        """The test samples for each calibrator, and notes on them."""

    def familiar(self, split: Split) -> tuple[Predictions, Predictions, tuple[str, ...]]:
        """Test samples to compare others with, as given and in the form to evaluate, and notes."""
        return split.test_as_given, split.test, ()

    def with_groups(self) -> tuple[Predictions, tuple[str, ...]]:
        """Test samples with their groups, and a note if these are not all."""
        raise NotImplementedError
