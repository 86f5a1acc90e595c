"""The sums of all images, whoever reads which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calibrant._math.threads import one_thread
from calibrant.calibrators import Calibrator
from calibrant.evaluation.dense.states import ImageSums, sums_of
from calibrant.evaluation.spread import Spread
from calibrant.predictions import DensePredictions


@dataclass(frozen=True)
class SumImage:
    """Sums up an image: every arm, which reads it once."""

    dense: DensePredictions
    num_bins: int
    calibrators: tuple[Calibrator | None, ...]

    def nothing(self) -> tuple[ImageSums, ...]:
        """The sums of no images."""
        return tuple(
            ImageSums(num_classes=self.dense.num_classes, num_bins=self.num_bins) for _ in self.calibrators
        )

    def __call__(self, place: int) -> tuple[ImageSums, ...]:
        """The sums of one image, or none where no position counts."""
        arms = self.nothing()
        with one_thread():
            sums_of(self.dense.images([place]), arms, self.calibrators, logits=self.dense.space == "logits")
        return arms


def summed_images(
    dense: DensePredictions,
    places: Sequence[int],
    num_bins: int,
    calibrators: tuple[Calibrator | None, ...],
    *,
    spread: Spread,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[ImageSums, ...]:
    """The sums of some images, added in their order."""
    task = SumImage(dense, num_bins, calibrators)
    arms = task.nothing()
    for done, found in enumerate(spread(task, places), start=1):
        for one, other in zip(arms, found, strict=True):
            one.merge(other)
        tell(done / len(places))
    return arms
