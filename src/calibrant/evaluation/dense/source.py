"""Images to evaluate: positions for fitting, sums for testing, and a table of the images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from calibrant._math.dense_sums import BRIER, COUNT, NLL, STATED
from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator
from calibrant.evaluation.arguments import FEW_CLUSTERS
from calibrant.evaluation.dense.sums import ImageSums, edges_of_cells, summed_images, within_cells
from calibrant.evaluation.fitting.split import MOST_FITTED, Split, marked_split, split_in_memory
from calibrant.evaluation.fitting.templates import FittedCalibrator
from calibrant.evaluation.judging.reduce import Source
from calibrant.evaluation.resampling.events import Indices, Vector, width_bins
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.spread import Spread
from calibrant.predictions import DensePredictions

MOST_OF_AN_IMAGE = 2000  # positions
LOOKED_AT = 20  # positions of each test image, to look for odd scores


@dataclass(frozen=True, kw_only=True)
class ImageSource(Source):
    """Images: some positions for fitting; all are tested, one image at a time."""

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
        """Images for fitting and for testing: as marked, or random halves."""
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
    others = f" {empty:,} more had no position that counts." if empty else ""
    few = (
        f" With fewer than {FEW_CLUSTERS} images, intervals are too narrow." if number < FEW_CLUSTERS else ""
    )
    return (
        f"{number:,} images were read one at a time and resampled whole, because their positions are not "
        f"independent.{others}{few}"
    )


@dataclass(frozen=True, kw_only=True)
class ImageRow:
    """One image; means are over its positions that count."""

    name: str
    count: int  # positions
    accuracy: float
    mean_confidence: float
    gap: float  # mean confidence minus accuracy
    ece: float  # of the top label; of two classes, of class 1
    nll: float  # may be infinite
    brier: float


def image_rows(
    dense: DensePredictions, *, calibrator: Calibrator | None = None, num_bins: int = 15
) -> list[ImageRow]:
    """One row for each image, in its order; images without a position that counts have none.

    Args:
        dense: Segmentation outputs with labels.
        calibrator: Applied to the scores first.
        num_bins: Bins of equal width of the calibration error.

    Returns:
        The rows. Noise inflates the ECE of one image, more so with few positions.

    Raises:
        InputError: If a score or label is wrong.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> logits, labels = rng.normal(size=(2, 3, 9, 9)), rng.integers(0, 3, (2, 9, 9))
        >>> dense = DensePredictions(logits=logits, labels=labels)
        >>> [(row.name, row.count) for row in image_rows(dense)]
        [('0', 81), ('1', 81)]
    """
    (sums,) = summed_images(dense, range(dense.num_images), num_bins, (calibrator,))
    if not sums.images:
        return []
    images, places, cells = sums.rows()
    hits, places, edges = places % 2, places // 2, edges_of_cells(num_bins)
    count, num_images = cells[:, COUNT], len(sums.images)

    def total(values: Vector) -> Vector:
        return np.bincount(images, values, num_images).astype(np.float64)

    totals = total(count)
    confidence, right = cells[:, STATED], hits * count
    residual = right - confidence
    if sums.event:  # rows are by the probability of class 1 and whether it occurs
        stated = within_cells(confidence / count, places, edges)
        right = np.where((stated > 0.5) == (hits > 0), count, 0.0)
        confidence = np.maximum(stated, 1 - stated) * count
    bins = images * num_bins + width_bins(edges[places + 1], num_bins)
    gaps = (
        np.abs(np.bincount(bins, residual, num_images * num_bins)).reshape(num_images, num_bins).sum(axis=1)
    )
    columns = (right, confidence, cells[:, NLL], cells[:, BRIER])
    means = [(total(column) / totals).tolist() for column in columns]
    return [
        ImageRow(
            name=each.name,
            count=int(positions),
            accuracy=accuracy,
            mean_confidence=sure,
            gap=sure - accuracy,
            ece=float(gap / positions),
            nll=nll,
            brier=brier,
        )
        for each, positions, gap, accuracy, sure, nll, brier in zip(
            sums.images, totals, gaps, *means, strict=True
        )
    ]
