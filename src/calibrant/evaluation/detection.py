"""Calibration of object detectors by confidence, position and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant._math.checks import check_at_least, check_level
from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant.calibrators.detection import as_axes, as_correct
from calibrant.evaluation.resampling.event_cells import ResidualSums
from calibrant.evaluation.resampling.events import (
    Clustered,
    Indices,
    SignedSums,
    Vector,
    indicator,
    width_bins,
)
from calibrant.evaluation.resampling.inversion import invert
from calibrant.evaluation.resampling.null import ROUNDING
from calibrant.evaluation.resampling.resamples import SMALL_BLOCK, Stream, block_bounds, stream_seed


@dataclass(frozen=True, kw_only=True)
class DetectionError:
    """An error by confidence and place, its interval, and its noise floor."""

    value: float
    low: float
    high: float
    expected: float
    """Mean error of calibrated detectors with these confidences."""
    p_value: float
    """Share of calibrated detectors with an error at least as large."""
    num_bins: int
    """Bins that hold enough detections to count."""


def detection_calibration_error(
    confidences: ArrayLike,
    correct: ArrayLike,
    covariates: ArrayLike | None = None,
    *,
    num_bins: int | Sequence[int] = 8,
    least: int = 1,
    images: Sequence[str] | None = None,
    level: float = 0.95,
    num_draws: int = 1000,
    seed: int = 0,
) -> DetectionError:
    r"""Detection ECE: the mean size of the gap between precision and confidence, over bins of several axes.

    .. math:: \mathrm{D\mbox{-}ECE} = \sum_b \frac{|S_b|}{N} |\mathrm{prec}(S_b) - \mathrm{conf}(S_b)|

    Bins are of equal width on each axis, :math:`(i/B, (i+1)/B]`, the first one closed at 0.

    Args:
        confidences: One for each detection, ``(N,)`` in 0..1.
        correct: 1 or True for each correct detection, ``(N,)``.
        covariates: Further axes ``(N, k)`` in 0..1, as :meth:`Detections.covariates` gives; none for
            the confidence alone.
        num_bins: Bins on each axis, the confidence's first; or one number for all.
        least: Bins with fewer detections count as zero.
        images: The image of each detection: those of one image are not independent.
        level: Level of the interval.
        num_draws: Draws under calibration.
        seed: Random seed.

    Returns:
        The error with its interval and noise floor; with many axes the floor is high.

    Raises:
        InputError: If shapes disagree or a value lies outside 0..1.

    Note: Without ``images``, noise comes from outcomes drawn from the confidences, with them from
        random signs of the residuals of whole images, and never less than for independent detections. If bins
        hold a handful of detections or images, p-values are then too large and intervals too wide.

    References:
        Küppers, Kronenberger, Shantia and Haselhoff, "Multivariate Confidence Calibration for Object
        Detection", CVPR Workshops 2020.

    Example:
        >>> found = detection_calibration_error([0.9, 0.9, 0.2], [1, 0, 0], [[0.1], [0.8], [0.8]], num_bins=2)
        >>> round(found.value, 4), found.num_bins
        (0.4, 3)
    """
    check_level(level)
    check_at_least("num_draws", num_draws, 1)
    check_at_least("least", least, 1)
    axes = as_axes(confidences, covariates)
    stated = axes[:, 0]
    happened = as_correct(correct, len(axes))
    if len(axes) < 2:
        raise InputError(f"`confidences` must be of two detections or more; got {len(axes)}.")
    counts = [num_bins] * axes.shape[1] if isinstance(num_bins, int) else list(num_bins)
    if len(counts) != axes.shape[1]:
        raise InputError(
            f"`num_bins` must be a number, or one for each of {axes.shape[1]} axes; got {counts}."
        )
    for each in counts:
        check_at_least("num_bins", each, 1)
    if images is not None and len(images) != len(stated):
        raise InputError(
            f"`images` must name the image of each of {len(stated)} detections; got {len(images)}."
        )
    place = np.zeros(len(stated), np.int64)
    for column, number in zip(axes.T, counts, strict=True):
        place = place * number + width_bins(np.ascontiguousarray(column), number)
    codes = None if images is None else cluster_codes(images)
    cells, noise = _cells(stated, happened, place, codes, least, num_draws, seed)
    drawn = cells.error(noise)
    ends = invert(cells, noise, level, seed=seed)
    return DetectionError(
        value=cells.observed,
        low=ends.low,
        high=min(ends.high, 1.0),
        expected=float(drawn.mean()),
        p_value=float((1 + (drawn >= cells.observed - ROUNDING).sum()) / (1 + num_draws)),
        num_bins=cells.num_cells,
    )


def _cells(
    stated: Vector,
    happened: Vector,
    place: Indices,
    codes: Indices | None,
    least: int,
    num_draws: int,
    seed: int,
) -> tuple[ResidualSums, NDArray[np.float64]]:
    """Bins with enough detections, and noise in their residual sums: drawn outcomes, or signs of images."""
    _, index, sizes = np.unique(place, return_inverse=True, return_counts=True)
    enough = np.flatnonzero(sizes >= least)
    kept = np.flatnonzero(np.isin(index, enough))
    bins = np.searchsorted(enough, index[kept])
    total, number = float(len(stated)), len(enough)
    if not number:
        raise InputError(f"`least` must leave some bin; none holds {least} detections.")
    p, residual = stated[kept], happened[kept] - stated[kept]

    def summed(values: Vector) -> Vector:
        return np.bincount(bins, values, number).astype(np.float64)

    of_bins = indicator(bins)
    variance, size = summed(p * (1 - p)), sizes[enough].astype(np.float64)
    rng = np.random.default_rng((*stream_seed(seed, Stream.NULL), 13))
    clustered = None
    if codes is None:
        drawn = np.empty((number, num_draws))
        for start, stop in block_bounds(num_draws, SMALL_BLOCK // len(p)):
            outcomes = rng.random((len(p), stop - start)) < p[:, None]
            drawn[:, start:stop] = of_bins.T @ (outcomes - p[:, None])
    else:
        own = codes[kept]
        residuals, masses = (of_bins.T @ indicator(own, each) for each in (residual, np.ones(len(kept))))
        independent = np.sqrt(variance)[:, None] * rng.standard_normal((number, num_draws))
        flips = SignedSums(residuals.tocsr(), variance, stream_seed(seed, Stream.NULL))
        drawn, signs = flips.draw(independent)
        clustered = Clustered.of(residuals / total, masses / total, (masses @ signs).T / total)
    where = np.arange(number)
    cells = ResidualSums(
        cell=where,
        bin=where,
        mass=size / total,
        residual=summed(residual) / total,
        variance=variance / total**2,
        tilt=summed(1 - 2 * p) / total**2,
        squares=size / total**2,
        num_cells=number,
        num_bins=number,
        total_squares=1 / total,
        error=lambda sums: np.abs(sums).sum(axis=1),
        clustered=clustered,
    )
    return cells, np.ascontiguousarray(drawn.T / total)
