"""Estimators of the binned error: against loops over the definitions, and their bias over many samples."""

import itertools
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from calibrant import metrics

CLOSED_FORM = 1e-12


def classes(rng: np.random.Generator, n: int, c: int, *, tied: bool = False) -> tuple[Any, Any]:
    """Random probabilities, on a grid of sixteenths if ties are wanted, and labels."""
    probs = rng.dirichlet(np.full(c, 0.7), n)
    if tied:
        probs = np.stack([rng.multinomial(16, row) for row in probs]) / 16
    return probs, rng.integers(0, c, n)


def width_error(c: Any, y: Any, w: Any, num_bins: int = 15) -> float:
    """Expected calibration error by a loop over bins."""
    index = np.maximum(np.ceil(np.round(c * num_bins, 9)).astype(int) - 1, 0)
    gaps = [abs(np.sum((w * (c - y))[index == b])) for b in range(num_bins)]
    return math.fsum(gaps) / np.sum(w)


@pytest.mark.parametrize("binning", ["width", "mass", "mukhoti"])
@pytest.mark.parametrize("weighted", [False, True])
def test_halves_add_up(rng: np.random.Generator, binning: str, weighted: bool) -> None:
    """Over and under are the expected error together; apart by the mean confidence less the accuracy."""
    if weighted and binning == "mukhoti":
        return
    probs, labels = rng.integers(0, 17, 300) / 16, rng.integers(0, 2, 300)
    weights = rng.random(300) if weighted else None
    options: dict[str, Any] = {"num_bins": 9, "binning": binning, "weights": weights}
    over = metrics.over_confidence_error(probs, labels, **options).item()
    under = metrics.under_confidence_error(probs, labels, **options).item()
    whole = metrics.expected_calibration_error(probs, labels, **options).item()
    assert over > 0
    assert under > 0
    assert over + under == pytest.approx(whole, abs=CLOSED_FORM)
    if binning != "mukhoti":
        residual = np.average(probs - labels, weights=weights)
        assert over - under == pytest.approx(residual, abs=CLOSED_FORM)


def test_classwise_by_prevalence(rng: np.random.Generator) -> None:
    """The weighted average is over the frequencies of the labels: of classes, and among several labels."""
    probs, _ = classes(rng, 200, 5)
    labels = rng.choice([0, 1, 3], 200, p=[0.7, 0.2, 0.1])  # two classes are absent
    weights = rng.random(200)
    for mass in (None, weights):
        row_weights = np.ones(200) if mass is None else mass
        expected = 0.0
        for k in range(5):
            share = row_weights[labels == k].sum() / row_weights.sum()
            expected += share * width_error(probs[:, k], labels == k, row_weights)
        found = metrics.classwise_calibration_error(probs, labels, average="weighted", weights=mass)
        assert found.item() == pytest.approx(expected, abs=CLOSED_FORM)

        several = (rng.random((200, 5)) < [0.5, 0.3, 0.2, 0.1, 0.0]).astype(int)
        counts = row_weights @ several
        each = [width_error(probs[:, k], several[:, k], row_weights) for k in range(5)]
        found = metrics.classwise_calibration_error(probs, several, average="weighted", weights=mass)
        assert found.item() == pytest.approx(counts @ each / counts.sum(), abs=CLOSED_FORM)


def test_classwise_weighted_of_an_event_and_of_nothing(rng: np.random.Generator) -> None:
    """An event has one value; where no label ever occurs there is nothing to weigh by."""
    probs, labels = rng.random(50), rng.integers(0, 2, 50)
    weighted = metrics.classwise_calibration_error(probs, labels, average="weighted")
    assert weighted == metrics.expected_calibration_error(probs, labels)


def draws(rng: np.random.Generator, shape: int | tuple[int, int], power: float) -> tuple[Any, Any, Any]:
    """Confidences c uniform on [0, 1] of events of probability c^power, and independent weights of rows."""
    c = rng.random(shape)
    return c, (rng.random(shape) < c**power).astype(int), rng.exponential(size=len(c))


def test_debiased_error_is_the_root(rng: np.random.Generator) -> None:
    """The debiased l2 error is the root of the square where that is positive, else 0; labels apart."""
    signs = set()
    for power in (1.0, 1.0, 1.0, 1.0, 3.0):
        c, y, w = draws(rng, 60, power)
        for binning in ("width", "mass"):
            options: dict[str, Any] = {"num_bins": 6, "binning": binning, "weights": w}
            square = metrics.squared_calibration_error(c, y, **options).item()
            error = metrics.expected_calibration_error(c, y, norm="l2", debias=True, **options).item()
            assert error == pytest.approx(math.sqrt(max(0.0, square)), abs=CLOSED_FORM)
            signs.add(square > 0)
    assert signs == {True, False}
    probs, labels = rng.random((40, 3)), rng.integers(0, 2, (40, 3))
    each = metrics.squared_calibration_error(probs, labels, average="none")
    alone = [metrics.squared_calibration_error(probs[:, k], labels[:, k]).item() for k in range(3)]
    assert each.tolist() == alone
    assert metrics.squared_calibration_error(probs, labels).item() == pytest.approx(np.mean(alone), abs=1e-15)


def test_debiasing_says_no() -> None:
    """The original adaptive bins lose samples and are not debiased; a single sample says nothing."""
    assert metrics.squared_calibration_error([0.5], [1]).item() == 0
    assert metrics.expected_calibration_error([0.5], [1], debias=True).item() == 0
    assert metrics.squared_calibration_error([0.75, 0.75], [1, 0]).item() == -0.1875
    assert metrics.squared_calibration_error([1.0, 1.0, 0.0, 0.0], [0, 0, 1, 1]).item() == 1


@pytest.mark.parametrize("binning", ["mass", "width"])
def test_sweep_is_the_error_with_the_most_bins(rng: np.random.Generator, binning: str) -> None:
    """The error at its number of bins; one more is the first at which the table's accuracies fall."""
    several = set()
    for n, separated in itertools.product((3, 10, 40, 150, 600), (False, True)):
        c, y, w = draws(rng, n, 1.5)
        if separated:  # but for the highest, which does not happen
            c, y = np.sort(rng.integers(0, 25, n)) / 24, np.sort(y)
            y[-1] = 0
        for weights in (None, w):
            most = metrics.monotone_num_bins(c, y, binning=binning, weights=weights)
            several.add(most)
            options: dict[str, Any] = {"binning": binning, "weights": weights}
            expected = metrics.expected_calibration_error(c, y, num_bins=most, **options)
            assert metrics.sweep_calibration_error(c, y, **options) == expected
            for num_bins in range(1, min(most + 2, n + 1)):
                table = metrics.reliability_table(c, y, num_bins=num_bins, **options)
                means = [mean for mean in table.accuracy if mean is not None]
                falls = any(low > high + CLOSED_FORM for low, high in pairwise(means))
                assert falls == (num_bins > most)
    assert len(several) > 3


@pytest.mark.parametrize("binning", ["mass", "width"])
def test_a_small_fall_is_no_rounding(binning: Any) -> None:
    """Two equal means are no fall; two that differ by 5e-13 are one."""
    probs, labels = [0.1, 0.2, 0.8, 0.9], [1, 0, 1, 0]
    level = metrics.monotone_num_bins(probs, labels, binning=binning, weights=[0.5] * 4)
    fallen = metrics.monotone_num_bins(probs, labels, binning=binning, weights=[0.5 + 1e-12, *[0.5] * 3])
    assert level >= 2 > fallen == 1


def test_separated_samples_take_no_quadratic_time() -> None:
    """A million samples, sorted but for the middle two, bear bins of two: many trials, each short."""
    labels = np.repeat([0, 1], 500_000)
    labels[499_999], labels[500_000] = 1, 0
    assert metrics.monotone_num_bins(np.linspace(0, 1, 1_000_000), labels) == 500_000
    assert metrics.monotone_num_bins(np.linspace(0, 1, 1000), np.repeat([0, 1], 500)) == 1000


@pytest.mark.parametrize("tied", [False, True])
def test_top_k_by_sorting(rng: np.random.Generator, tied: bool) -> None:
    """Every k, as set and by rank, with and without weights: rows sorted one by one in Python."""
    probs, labels = classes(rng, 120, 5, tied=tied)
    weights = rng.random(120)
    for k in range(1, 6):
        for judge in ("set", "rank"):
            c, y = [], []
            for row, label in zip(probs.tolist(), labels.tolist(), strict=True):
                order = sorted(range(5), key=lambda j: (-row[j], j))
                chosen = order[:k] if judge == "set" else order[k - 1 : k]
                c.append(min(1.0, math.fsum(row[j] for j in chosen)))
                y.append(float(label in chosen))
            for mass in (None, weights):
                found = metrics.top_k_calibration_error(probs, labels, k=k, judge=judge, weights=mass)
                row_weights = np.ones(120) if mass is None else mass
                expected = width_error(np.array(c), np.array(y), row_weights)
                assert found.item() == pytest.approx(expected, abs=CLOSED_FORM)


def test_top_one_and_all(rng: np.random.Generator) -> None:
    probs, labels = classes(rng, 100, 4, tied=True)
    for judge in ("set", "rank"):
        for binning in ("width", "mass", "mukhoti"):
            options: dict[str, Any] = {"binning": binning, "norm": "l2"}
            first = metrics.top_k_calibration_error(probs, labels, k=1, judge=judge, **options)
            assert first == metrics.expected_calibration_error(probs, labels, **options)
    assert metrics.top_k_calibration_error(probs, labels, k=4).item() == pytest.approx(0, abs=CLOSED_FORM)


def test_thresholded_by_sorting(rng: np.random.Generator) -> None:
    probs, labels = rng.dirichlet(np.full(6, 0.2), 200), rng.integers(0, 6, 200)
    probs[:, 5] = 0
    probs /= probs.sum(1, keepdims=True)
    for threshold in (0.01, 0.2, float(probs[0].max())):  # the last is one of the probabilities
        expected = []
        for k in range(6):
            pairs = sorted((p, float(y == k)) for p, y in zip(probs[:, k], labels, strict=True))
            pairs = [(p, y) for p, y in pairs if p >= threshold]
            ends = [-(-j * len(pairs) // 10) for j in range(11)]
            gaps = [abs(math.fsum(p - y for p, y in pairs[low:high])) for low, high in pairwise(ends)]
            expected.append(math.fsum(gaps) / max(1, len(pairs)))
        options: dict[str, Any] = {"threshold": threshold, "num_bins": 10}
        found = metrics.thresholded_calibration_error(probs, labels, average="none", **options)
        assert found.tolist() == pytest.approx(expected, abs=CLOSED_FORM)
        assert found[5] == 0
        macro = metrics.thresholded_calibration_error(probs, labels, **options).item()
        assert macro == pytest.approx(np.mean(expected), abs=CLOSED_FORM)


def test_threshold_zero_is_adaptive(rng: np.random.Generator) -> None:
    """Without a threshold it is the classwise error in bins of equal mass; it lies in [0, 1]."""
    probs, labels = classes(rng, 90, 4, tied=True)
    weights = rng.random(90)
    for norm in ("l1", "l2"):
        options: dict[str, Any] = {"norm": norm, "weights": weights, "average": "none"}
        found = metrics.thresholded_calibration_error(probs, labels, threshold=0, **options)
        expected = metrics.classwise_calibration_error(probs, labels, binning="mass", **options)
        assert found.tolist() == pytest.approx(expected.tolist(), abs=CLOSED_FORM)
