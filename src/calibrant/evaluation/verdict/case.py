"""Everything a verdict is made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibrant.evaluation.fitting.recommend import UNCALIBRATED, Recommendation
from calibrant.evaluation.judging.measure import Measured
from calibrant.evaluation.phrases import clearly
from calibrant.evaluation.quantities.nll import NLL
from calibrant.evaluation.result import Arm, Kind


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything a verdict is made from."""

    kind: Kind
    arms: Sequence[Arm]
    uncalibrated: Measured
    recommendation: Recommendation | None
    level: float
    num_calibration: int
    num_test: int
    cross_fitted: bool
    warnings: tuple[str, ...] = ()  # what looks wrong with the data
    one_class: bool  # whether the calibration samples hold a single class

    @property
    def first(self) -> Arm:
        """The predictions as they came."""
        return self.arms[0]

    @property
    def picked(self) -> Arm:
        """The arm chosen on the calibration samples."""
        name = UNCALIBRATED if self.recommendation is None else self.recommendation.name
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def refuted(self) -> bool:
        """Whether the arm chosen has a clearly worse NLL on the test samples."""
        if self.picked is self.first:
            return False
        became_infinite = (
            self.first.metrics[NLL.key].value is not None and self.picked.metrics[NLL.key].value is None
        )
        return became_infinite or clearly(self.picked.change[NLL.key]) > 0

    @property
    def chosen(self) -> Arm:
        """The recommended arm."""
        return self.first if self.refuted else self.picked

    @property
    def too_few(self) -> bool:
        """Whether calibrators were tried, but on too few samples to choose among them."""
        return self.recommendation is None and len(self.arms) > 1

    @property
    def fitted_on(self) -> str:
        """``1 calibration sample``."""
        return f"{self.num_calibration:,} calibration sample{'' if self.num_calibration == 1 else 's'}"

    @property
    def repaired(self) -> bool:
        """Whether a calibrator is recommended."""
        return self.chosen is not self.first
