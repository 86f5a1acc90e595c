"""A table of images: how sure a model is of each, how right, and how far off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._math.dense_sums import BRIER, COUNT, NLL, STATED
from calibrant.calibrators import Calibrator
from calibrant.evaluation.dense.sums import edges_of_cells, summed_images, within_cells
from calibrant.evaluation.resampling.events import Vector, width_bins
from calibrant.predictions import DensePredictions


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
        The rows. The ECE of one image is enlarged by chance the more the fewer positions it has.

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
