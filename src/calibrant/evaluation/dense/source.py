"""Images to evaluate: positions to fit on, and sums of each image to test by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.dense.states import ImageSums, summed_images
from calibrant.evaluation.fitting.split import MOST_FITTED, Split, marked_split, split_in_memory
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.resampling.clusters import FEW_CLUSTERS
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.samples import Source
from calibrant.evaluation.spread import Spread
from calibrant.predictions import DensePredictions

MOST_OF_AN_IMAGE = 2000  # positions
LOOKED_AT = 20  # positions of each test image, to find what is odd about the scores


@dataclass(frozen=True, kw_only=True)
class ImageSource(Source):
    """Images of which some positions are fitted on, and all are tested one image at a time."""

    given: DensePredictions
    spread: Spread

    reads: ClassVar[str] = "images"

    def split(self) -> Split:
        fit, test = self._halves()
        if len(test) < 2:
            raise InputError(
                "`predictions` must hold two images or more, as positions of one image are not "
                f"independent; got {len(test)}."
            )
        some = self.given.sample(LOOKED_AT, test.tolist(), seed=self.seed)
        if len(fit):
            most = MOST_FITTED // self.given.num_classes // len(fit)
            each = max(1, min(MOST_OF_AN_IMAGE, most))
            some = marked_split(self.given.sample(each, fit.tolist(), seed=self.seed), some)
        split = split_in_memory(some, None, self.seed, fits=self.fits)
        drawn, words, notes = self.given.split is None, "none", ()
        if split.announce:
            notes = (f"Calibrators were fitted on {split.words}.",)
        if len(fit):
            words = f"{split.num_calibration:,} positions of {len(fit):,} images"
        if len(fit) and drawn:
            others = f"{len(fit):,} other images, drawn at random (seed {self.seed})"
            notes = (f"Calibrators were fitted on positions of {others}.",)
        split = replace(split, words=words, announce=False, sampled=True, drawn=drawn, notes=notes)
        return split.judged(None)

    def read(
        self,
        calibrators: Sequence[FittedCalibrator | None],
        split: Split | None = None,  # noqa: ARG002
        tell: Callable[[float], None] = lambda _: None,
    ) -> tuple[Sequence[ImageSums], tuple[str, ...]]:
        test = self._halves()[1].tolist()
        arms = tuple(None if each is None else each.calibrator for each in calibrators)
        sums = summed_images(self.given, test, self.num_bins, arms, spread=self.spread, tell=tell)
        number = sums[0].num_clusters
        return sums, (_note(number, len(test) - number),)

    def _halves(self) -> tuple[Indices, Indices]:
        """The images to fit on, if anything fits, and those to test on: as marked, or random halves."""
        dense = self.given
        everything, nothing = np.arange(dense.num_images), np.arange(0)
        if dense.split is not None and dense.has_split:
            fit = np.flatnonzero(dense.split == 0) if self.fits else nothing
            return fit, np.flatnonzero(dense.split == 1)
        if not self.fits or dense.split is not None or dense.num_images < 4:
            return nothing, everything
        order = generator(self.seed, Stream.SPLIT).permutation(dense.num_images)
        half = dense.num_images // 2
        return np.sort(order[:half]), np.sort(order[half:])


def _note(number: int, empty: int) -> str:
    if number < 2:
        raise InputError(
            f"there must be two images or more with positions that count, as positions of one image are not "
            f"independent; got {number}."
        )
    others = f" In {empty:,} more no position counts." if empty else ""
    few = f" With under {FEW_CLUSTERS} images, intervals are too short." if number < FEW_CLUSTERS else ""
    return (
        f"{number:,} images were read one at a time and resampled whole, because their positions are not "
        f"independent.{others}{few}"
    )
