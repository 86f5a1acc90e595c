"""The errors that a population has: what would be found without noise.

Instead of outcomes their true probabilities are set against what is stated, so that a calibrated population
has errors of exactly zero and the others are exact but for which confidences were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant._math.shapes import Float
from calibrant.evaluation.quantities import find
from calibrant.evaluation.resampling.events import width_bins
from papers.coverage.populations import Normal, Redrawn, coarser, softmax
from papers.coverage.settings import ERRORS, MOST_PROBABILITIES, Method

BLOCK = 10_000_000  # probabilities held at once
CELLS = 2000  # of score, for the smooth error with a kernel


def normal_truth(classes: int, scale: float, method: Method, *, another: bool = False) -> dict[str, float]:
    """The errors of normal logits times a scale, or of another model's."""
    if scale == 1:
        return dict.fromkeys(keys_of(classes), 0.0)
    parts: list[tuple[Float[np.ndarray, " N"], ...]] = []
    sums = np.zeros(method.num_bins)
    seen = 0
    for truth, probs in _blocks(classes, scale, method, another=another):
        top = np.arange(len(probs)), probs.argmax(axis=1)
        parts.append((probs[top], truth[top], probs[:, 1], truth[:, 1]))
        if classes > 2 and seen < BLOCK:  # the classes are alike, so one table of bins does for all
            bins = width_bins(probs.ravel(), method.num_bins)
            sums += np.bincount(bins, (truth - probs).ravel(), method.num_bins)
            seen += len(probs)
    confidence, right, event, happens = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = event_errors(confidence, right, method.num_bins)
    if classes == 2:
        return _of_two(event_errors(event, happens, method.num_bins), found)
    return {**found, "classwise_ece": float(np.abs(sums).sum()) / (classes * seen)}


def _blocks(
    classes: int, scale: float, method: Method, *, another: bool = False
) -> Iterator[tuple[Float[np.ndarray, "N C"], Float[np.ndarray, "N C"]]]:
    """True and stated probabilities of normal logits, block by block."""
    rng = np.random.default_rng((classes, 7))
    left = min(method.truth_samples, MOST_PROBABILITIES // classes)
    while left:
        num_rows = min(left, BLOCK // classes)
        left -= num_rows
        logits, _ = Normal(classes, method.spread).draw(num_rows, rng)
        yield softmax(logits), softmax(scale * (coarser(logits, rng) if another else logits))


def normal_gaps(classes: int, scale: float, method: Method) -> Float[np.ndarray, " B"]:
    """The gaps of the top label in bins of equal width, of normal logits times a scale."""
    mass, sums = np.zeros(method.num_bins), np.zeros(method.num_bins)
    if scale != 1:
        for truth, probs in _blocks(classes, scale, method):
            top = np.arange(len(probs)), probs.argmax(axis=1)
            for total, part in zip((mass, sums), _sums(probs[top], truth[top], method.num_bins), strict=True):
                total += part * len(probs)
    return _gaps(mass, sums)


def redrawn_gaps(population: Redrawn, num_bins: int) -> Float[np.ndarray, " B"]:
    """The same of all rows of a file."""
    top = np.arange(len(population.stated)), population.stated.argmax(axis=1)
    return _gaps(*_sums(population.stated[top], population.truth[top], num_bins))


def redrawn_truth(population: Redrawn, num_bins: int) -> dict[str, float]:
    """The errors of all rows of a file."""
    stated, truth = population.stated, population.truth
    top = np.arange(len(stated)), stated.argmax(axis=1)
    found = event_errors(stated[top], truth[top], num_bins)
    classes = stated.shape[1]
    if classes == 2:
        return _of_two(event_errors(stated[:, 1], truth[:, 1], num_bins), found)
    each = [_binned(stated[:, k], truth[:, k], num_bins)["ece"] for k in range(classes)]
    return {**found, "classwise_ece": float(np.mean(each))}


def keys_of(classes: int) -> tuple[str, ...]:
    """What is measured; of two classes the class-wise error is the error of the positive class."""
    return tuple(key for key in ERRORS if classes > 2 or key != "classwise_ece")


def _of_two(event: dict[str, float], top: dict[str, float]) -> dict[str, float]:
    """Errors of the positive class where that form is shown, else of the top label."""
    forms = {key: find(f"event_{key}", "binary") for key in event}
    return {key: (top if forms[key] is None else event)[key] for key in event}


def event_errors(
    confidence: Float[np.ndarray, " N"], expected: Float[np.ndarray, " N"], num_bins: int
) -> dict[str, float]:
    """All errors of one event, of which the true probability is known in each row."""
    from calibrant._math.kernel_smoothing import fixed_points
    from calibrant._math.lipschitz import smooth_calibration_error  # compiled

    size = len(confidence)
    ties, tie, counts = np.unique(confidence, return_inverse=True, return_counts=True)
    residuals = np.bincount(tie, expected - confidence)  # of all rows that state the same
    ends = np.linspace(0, size, num_bins + 1)
    reached = np.interp(ends, np.append(0, counts.cumsum()), np.append(0.0, residuals.cumsum()))
    place = np.minimum((ties * CELLS).astype(np.int64), CELLS - 1)
    cells = np.bincount(place, residuals, CELLS)[None] / size
    return {
        **_binned(confidence, expected, num_bins),
        "adaptive_ece": float(np.abs(np.diff(reached)).sum()) / size,
        "smce": smooth_calibration_error(confidence, expected, None),
        "kolmogorov_smirnov": float(np.abs(residuals.cumsum()).max()) / size,
        "smooth_ece": float(fixed_points((np.arange(CELLS) + 0.5) / CELLS, cells)[0]),
    }


def _binned(
    confidence: Float[np.ndarray, " N"], expected: Float[np.ndarray, " N"], num_bins: int
) -> dict[str, float]:
    """The errors over bins of equal width."""
    mass, sums = _sums(confidence, expected, num_bins)
    gaps = _gaps(mass, sums)
    return {
        "ece": float(np.abs(sums).sum()),
        "l2_ece": float(np.sqrt((mass * gaps**2).sum())),
        "mce": float(np.abs(gaps).max()),
        "over_confidence_error": float(np.maximum(-sums, 0).sum()),
        "under_confidence_error": float(np.maximum(sums, 0).sum()),
    }


def _sums(
    confidence: Float[np.ndarray, " N"], expected: Float[np.ndarray, " N"], num_bins: int
) -> tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"]]:
    """The share of each bin, and the sum of its residuals, divided by the number of samples."""
    bins = width_bins(confidence, num_bins)
    mass = np.bincount(bins, minlength=num_bins) / len(bins)
    return mass, np.bincount(bins, expected - confidence, num_bins) / len(bins)


def _gaps(mass: Float[np.ndarray, " B"], sums: Float[np.ndarray, " B"]) -> Float[np.ndarray, " B"]:
    """The mean residual of each bin, 0 where it is empty."""
    return np.divide(sums, mass, out=np.zeros_like(sums), where=mass > 0)
