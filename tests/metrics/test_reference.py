"""Against the definitions, written once more as plain loops over Python floats."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from calibrant import metrics

TOLERANCE = 1e-12
Pairs = list[tuple[float, int, float]]  # confidence, outcome, weight


def width_bins(pairs: Pairs, num_bins: int) -> list[Pairs]:
    """(i/B, (i+1)/B], the first closed at 0, by comparison with every edge."""
    bins: list[Pairs] = [[] for _ in range(num_bins)]
    for pair in pairs:
        for i in range(num_bins):
            if (i / num_bins < pair[0] or i == 0) and pair[0] <= (i + 1) / num_bins:
                bins[i].append(pair)
    assert sum(map(len, bins)) == len(pairs)
    return bins


def gaps(bins: list[Pairs]) -> list[tuple[float, float]]:
    """Weight and gap of each bin that is not empty."""
    found = []
    for members in bins:
        weight = math.fsum(w for _, _, w in members)
        if weight > 0:
            found.append((weight, abs(math.fsum(w * (c - y) for c, y, w in members)) / weight))
    return found


def mass_gaps(pairs: Pairs, num_bins: int) -> list[tuple[float, float]]:
    """Weight and gap of each bin from the cumulative residual, linear across samples of equal confidence."""
    ordered = sorted(pairs, key=lambda pair: (pair[0], pair[2]))
    total = math.fsum(w for _, _, w in pairs)
    reached = [math.fsum(w for _, _, w in ordered[: n + 1]) for n in range(len(ordered))]
    ends = [next(u for u in reached if u >= j * total / num_bins - 1e-9) for j in range(1, num_bins)]
    knots = [(0.0, 0.0)]
    for value in sorted({c for c, _, _ in pairs}):
        tied = [pair for pair in pairs if pair[0] == value]
        weight = math.fsum(w for _, _, w in tied)
        residual = math.fsum(w * (c - y) for c, y, w in tied)
        knots.append((knots[-1][0] + weight, knots[-1][1] + residual))

    def cumulative(u: float) -> float:
        for (u0, r0), (u1, r1) in pairwise(knots):
            if u <= u1 + 1e-12:
                return r0 if u1 == u0 else r0 + (r1 - r0) * (u - u0) / (u1 - u0)
        raise AssertionError(u)

    edges = [0.0, *ends, total]
    return [
        (high - low, abs(cumulative(high) - cumulative(low)) / (high - low))
        for low, high in pairwise(edges)
        if high > low
    ]


def mukhoti_gaps(pairs: Pairs, num_bins: int) -> list[tuple[float, float]]:
    """Weight and gap between the quantiles at ranks jN/B of 0..N, interpolated, clamped at the largest."""
    ranked = sorted(c for c, _, _ in pairs)
    edges = []
    for j in range(num_bins + 1):
        rank = min(j * len(ranked) / num_bins, len(ranked) - 1)
        low = int(rank)
        high = min(low + 1, len(ranked) - 1)
        edges.append(ranked[low] + (rank - low) * (ranked[high] - ranked[low]))
    return gaps([[pair for pair in pairs if low < pair[0] <= high] for low, high in pairwise(edges)])


def l1(found: list[tuple[float, float]], total: float) -> float:
    return math.fsum(weight * gap for weight, gap in found) / total


def l2(found: list[tuple[float, float]], total: float) -> float:
    return math.sqrt(math.fsum(weight * gap**2 for weight, gap in found) / total)


def area(scores: list[float], outcomes: list[bool], weights: list[float]) -> float:
    won, pairs = [], []
    for s, y, w in zip(scores, outcomes, weights, strict=True):
        for t, z, v in zip(scores, outcomes, weights, strict=True):
            if y and not z:
                pairs.append(w * v)
                won.append(w * v * (1.0 if s > t else 0.5 if s == t else 0.0))
    return math.fsum(won) / math.fsum(pairs)


def sample(rng: np.random.Generator, num_samples: int, num_classes: int, *, tied: bool) -> tuple[Any, Any]:
    """Random probabilities, on a grid of sixteenths if ties are wanted, and labels of every class."""
    probs = rng.dirichlet(np.full(num_classes, 0.7), num_samples)
    if tied:
        probs = np.stack([rng.multinomial(16, row) for row in probs]) / 16
    labels = np.concatenate([np.arange(num_classes), rng.integers(0, num_classes, num_samples - num_classes)])
    return probs, labels


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("num_samples", "num_bins"), [(97, 15), (100, 10), (7, 15), (40, 4), (30, 1)])
def test_calibration_errors(
    rng: np.random.Generator, num_samples: int, num_bins: int, tied: bool, weighted: bool
) -> None:
    probs, labels = sample(rng, num_samples, 4, tied=tied)
    weights = rng.uniform(0.5, 3.0, num_samples) if weighted else None
    row_weights = [1.0] * num_samples if weights is None else weights.tolist()
    total = math.fsum(row_weights)
    rows = probs.tolist()
    top: Pairs = [
        (max(row), int(row.index(max(row)) == y), w)
        for row, y, w in zip(rows, labels.tolist(), row_weights, strict=True)
    ]
    near = {"rel": 0, "abs": TOLERANCE}

    def ours(**options: Any) -> float:
        return metrics.expected_calibration_error(
            probs, labels, num_bins=num_bins, weights=weights, **options
        ).item()

    width, mass = gaps(width_bins(top, num_bins)), mass_gaps(top, num_bins)
    assert ours() == pytest.approx(l1(width, total), **near)
    assert ours(norm="l2") == pytest.approx(l2(width, total), **near)
    assert ours(binning="mass") == pytest.approx(l1(mass, total), **near)
    assert ours(binning="mass", norm="l2") == pytest.approx(l2(mass, total), **near)
    largest = metrics.maximum_calibration_error(probs, labels, num_bins=num_bins, weights=weights)
    assert largest.item() == pytest.approx(max(gap for _, gap in width), **near)
    if weights is None:
        assert ours(binning="mukhoti") == pytest.approx(l1(mukhoti_gaps(top, num_bins), total), **near)

    each = []
    for k in range(4):
        column: Pairs = [
            (row[k], int(y == k), w) for row, y, w in zip(rows, labels.tolist(), row_weights, strict=True)
        ]
        each.append((gaps(width_bins(column, num_bins)), mass_gaps(column, num_bins)))
    for index, binning in enumerate(("width", "mass")):
        found = metrics.classwise_calibration_error(
            probs, labels, num_bins=num_bins, binning=binning, weights=weights, average="none"
        )
        assert found.tolist() == pytest.approx([l1(pair[index], total) for pair in each], **near)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_scores_and_ranks(rng: np.random.Generator, tied: bool, weighted: bool) -> None:
    probs, labels = sample(rng, 60, 3, tied=tied)
    weights = rng.uniform(0.5, 3.0, 60) if weighted else None
    row_weights = [1.0] * 60 if weights is None else weights.tolist()
    rows = list(zip(probs.tolist(), labels.tolist(), row_weights, strict=True))

    def mean(values: list[float], over: list[float]) -> float:
        return math.fsum(v * w for v, w in zip(values, over, strict=True)) / math.fsum(over)

    nll = [-math.log(p[y]) if p[y] > 0 else math.inf for p, y, _ in rows]
    found = metrics.negative_log_likelihood(probs, labels, weights=weights).item()
    assert found == pytest.approx(mean(nll, row_weights), rel=TOLERANCE)

    brier = [math.fsum((q - (k == y)) ** 2 for k, q in enumerate(p)) for p, y, _ in rows]
    found = metrics.brier_score(probs, labels, weights=weights).item()
    assert found == pytest.approx(mean(brier, row_weights), rel=TOLERANCE)

    right = [float(p.index(max(p)) == y) for p, y, _ in rows]
    found = metrics.accuracy(probs, labels, weights=weights).item()
    assert found == pytest.approx(mean(right, row_weights), rel=TOLERANCE)

    entropy = [-math.fsum(q * math.log(q) for q in p if q > 0) for p, _, _ in rows]
    for among, counted in {
        "all": row_weights,
        "correct": [w * r for w, r in zip(row_weights, right, strict=True)],
        "incorrect": [w * (1 - r) for w, r in zip(row_weights, right, strict=True)],
    }.items():
        found = metrics.predictive_entropy(probs, labels, among=among, weights=weights).item()
        assert found == pytest.approx(mean(entropy, counted), rel=TOLERANCE)

    sure = [float(max(p) >= 0.75) for p, _, _ in rows]
    high = metrics.high_confidence(probs, labels, threshold=0.75, weights=weights)
    assert high.share.item() == pytest.approx(mean(sure, row_weights), rel=TOLERANCE)
    assert high.accuracy is not None
    both = [w * s for w, s in zip(row_weights, sure, strict=True)]
    assert high.accuracy.item() == pytest.approx(mean(right, both), rel=TOLERANCE)

    areas = [area([p[k] for p, _, _ in rows], [y == k for _, y, _ in rows], row_weights) for k in range(3)]
    apart = metrics.auroc(probs, labels, average="none", weights=weights)
    assert [value.item() for value in apart if value is not None] == pytest.approx(areas, rel=TOLERANCE)
    found = metrics.auroc(probs, labels, weights=weights).item()
    assert found == pytest.approx(math.fsum(areas) / 3, rel=TOLERANCE)


def test_events(rng: np.random.Generator) -> None:
    probs, labels = rng.uniform(size=50), rng.integers(0, 2, 50)
    pairs = list(zip(probs.tolist(), labels.tolist(), strict=True))
    nll = math.fsum(-math.log(p if y else 1 - p) for p, y in pairs) / 50
    assert metrics.negative_log_likelihood(probs, labels).item() == pytest.approx(nll, rel=TOLERANCE)
    brier = math.fsum((p - y) ** 2 for p, y in pairs) / 50
    assert metrics.brier_score(probs, labels).item() == pytest.approx(brier, rel=TOLERANCE)
    entropy = math.fsum(-p * math.log(p) - (1 - p) * math.log(1 - p) for p, _ in pairs) / 50
    assert metrics.predictive_entropy(probs).item() == pytest.approx(entropy, rel=TOLERANCE)
    hits = sum((p > 0.5) == bool(y) for p, y in pairs) / 50
    assert metrics.accuracy(probs, labels).item() == pytest.approx(hits, rel=TOLERANCE)


def test_reliability_table_holds_the_errors(rng: np.random.Generator) -> None:
    probs, labels = sample(rng, 200, 5, tied=True)
    for binning in ("width", "mass"):
        table = metrics.reliability_table(probs, labels, binning=binning, num_bins=12)
        assert len(table.edges) == 13
        assert sum(table.counts) == 200
        error = math.fsum(
            count * abs(confidence - accuracy) / 200
            for count, confidence, accuracy in zip(
                table.counts, table.confidence, table.accuracy, strict=True
            )
            if confidence is not None and accuracy is not None
        )
        ours = metrics.expected_calibration_error(probs, labels, binning=binning, num_bins=12).item()
        assert error == pytest.approx(ours, abs=TOLERANCE)
