"""Noise band of a smooth reliability curve."""

from __future__ import annotations

import numpy as np

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_at_least, check_level, check_probs
from calibrant.evaluation.resampling.streams import Stream, generator
from calibrant.evaluation.result import Band
from calibrant.metrics import smooth_reliability_curve


def smooth_consistency_band(
    probs: ArrayLike,
    *,
    bandwidth: float,
    weights: ArrayLike | None = None,
    level: float = 0.95,
    num_points: int = 101,
    num_draws: int = 200,
    seed: int = 0,
) -> Band:
    """Pointwise range of the smooth reliability curve when every outcome is drawn from its probability.

    Args:
        probs: Probabilities of the classes ``(N, C)`` (the top label counts) or of an event ``(N,)``.
        bandwidth: That of the curve, as ``smooth_reliability_curve(...).bandwidth``.
        weights: Weights of the samples, shape ``(N,)``, not negative.
        level: Share of the draws that lie in the band at each position.
        num_points: Number of positions, equally spaced from 0 to 1 before smoothing.
        num_draws: How often outcomes are drawn.
        seed: Seed of the draws.

    Returns:
        ``positions`` (stated, smoothed), ``low`` and ``high``, where there are samples enough.

    Raises:
        InputError: If a value is out of range.

    Note:
        As many curves as draws: some milliseconds for each 100 000 samples and draw. Top labels are right or
        wrong with their own probability.

    References:
        Bröcker and Smith, "Increasing the Reliability of Reliability Diagrams", Weather and Forecasting 22,
        2007 (consistency resampling).

    Example:
        >>> import numpy as np
        >>> probs = np.random.default_rng(0).uniform(size=500)
        >>> band = smooth_consistency_band(probs, bandwidth=0.05, num_points=3)
        >>> all(low < at < high for at, low, high in zip(band.positions, band.low, band.high))
        True
    """
    check_level(level)
    check_at_least("num_draws", num_draws, 2)
    checked = check_probs(probs, None, weights)
    stated = checked.scores.amax(dim=1) if checked.task == "multiclass" else checked.scores
    confidences = stated.double().clamp(max=1).cpu().numpy()
    rng = generator(seed, Stream.NULL)
    draws = (rng.random(len(confidences)) < confidences for _ in range(num_draws))
    curves = [
        smooth_reliability_curve(
            confidences, drawn, bandwidth=bandwidth, num_points=num_points, weights=weights
        )
        for drawn in draws
    ]
    known = [place for place, found in enumerate(curves[0].outcome) if found is not None]
    outcomes = np.array([[curve.outcome[place] for place in known] for curve in curves], dtype=np.float64)
    low, high = np.quantile(outcomes, [(1 - level) / 2, (1 + level) / 2], axis=0)
    positions = [curves[0].confidence[place] for place in known]
    return Band(
        positions=tuple(at for at in positions if at is not None),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
    )
