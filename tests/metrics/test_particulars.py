"""What single metrics promise beyond the common laws, and faults of other packages that must not be ours."""

import math
import warnings

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant._math.errors import CalibrantWarning, InputError


def test_confidence_one_has_no_bin_of_its_own() -> None:
    """For p = (.95, 1), y = (1, 0): both in the last bin: 0.475; a bin for 1.0 alone would give 0.525."""
    assert metrics.expected_calibration_error([0.95, 1.0], [1, 0]).item() == pytest.approx(0.475, abs=1e-12)
    table = torch.tensor([[0.05, 0.95], [0.0, 1.0]], dtype=torch.float64)
    assert metrics.expected_calibration_error(table, [1, 0]).item() == pytest.approx(0.475, abs=1e-12)


def test_bins_are_closed_above() -> None:
    """For p = (.5, .4), y = (1, 0), two bins: both in the first, so .05; with [a, b) it would be .45."""
    error = metrics.expected_calibration_error([0.5, 0.4], [1, 0], num_bins=2)
    assert error.item() == pytest.approx(0.05, abs=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_sums_do_not_drift(binning: str) -> None:
    """A million float32 confidences of 0.9 average to float32(0.9) to 1e-12: sums are float64."""
    probs = torch.full((1_000_000,), 0.9)
    labels = torch.zeros(1_000_000, dtype=torch.int64)
    labels[::10] = 1
    expected = float(np.float32(0.9)) - 0.1
    error = metrics.expected_calibration_error(probs, labels, binning=binning)
    assert error.item() == pytest.approx(expected, abs=1e-12)


def test_rows_that_miss_one_by_a_little_are_taken_as_they_are() -> None:
    """Within 1e-3 nothing is renormalised; beyond, the row is named."""
    probs = np.array([[0.7, 0.3005], [0.2, 0.7995]])
    assert metrics.negative_log_likelihood(probs, [0, 1]).item() == pytest.approx(
        -(math.log(0.7) + math.log(0.7995)) / 2, abs=1e-12
    )


def test_a_confidence_slightly_above_one_is_in_the_last_bin() -> None:
    """A rounded export may hold 1.0005; it counts with the last bin, not with one beyond."""
    table = metrics.reliability_table([[1.0005, 0.0], [0.97, 0.03]], [0, 0])
    assert table.counts[-1] == 2


def test_rounding_of_bfloat16_is_accepted() -> None:
    """Thirds in bfloat16 miss one by 2e-3: that is what the dtype resolves, so the row is not refused."""
    probs = torch.tensor([[1 / 3, 2 / 3]], dtype=torch.bfloat16)
    assert abs(probs.to(torch.float64).sum().item() - 1) > 1.5e-3
    assert metrics.accuracy(probs, [1]).item() == 1
    with pytest.raises(InputError, match=r"row 0 sums to 1\.00195"):
        metrics.accuracy(probs.to(torch.float32), [1])


def test_an_impossible_outcome_costs_infinity() -> None:
    """Nothing is clipped: probability 0 for what happened is an infinite loss, unless its weight is 0."""
    assert metrics.negative_log_likelihood([[1.0, 0.0], [0.5, 0.5]], [1, 0]).item() == math.inf
    assert metrics.negative_log_likelihood([0.0, 0.5], [1, 0]).item() == math.inf
    weighted = metrics.negative_log_likelihood([0.0, 0.5], [1, 0], weights=[0.0, 2.0])
    assert weighted.item() == pytest.approx(math.log(2), abs=1e-12)


def test_tiny_probabilities_keep_their_digits() -> None:
    """-log(1 - p) of p = 1e-20 is 1e-20, not 0; a certain and right prediction costs 0, without a sign."""
    assert metrics.negative_log_likelihood([1e-20], [0]).item() == pytest.approx(1e-20, rel=1e-12)
    assert math.copysign(1, metrics.negative_log_likelihood([1.0], [1]).item()) == 1
    assert math.copysign(1, metrics.negative_log_likelihood([[1.0, 0.0]], [0]).item()) == 1


def test_an_event_and_its_two_classes(rng: np.random.Generator) -> None:
    """(N,) and (1 - p, p) agree on accuracy, likelihood, entropy and rank; Brier counts the event once."""
    probs, labels = rng.uniform(size=100), rng.integers(0, 2, 100)
    table = np.stack([1 - probs, probs], axis=1)
    for metric in (
        metrics.accuracy,
        metrics.negative_log_likelihood,
        metrics.predictive_entropy,
        metrics.auroc,
    ):
        assert metric(probs, labels).item() == pytest.approx(metric(table, labels).item(), abs=1e-12)
    twice = 2 * metrics.brier_score(probs, labels).item()
    assert metrics.brier_score(table, labels).item() == pytest.approx(twice, abs=1e-12)
    event, classes = metrics.high_confidence(probs, labels), metrics.high_confidence(table, labels)
    assert event == classes


def test_ties_predict_the_lowest_class() -> None:
    """Of equally probable classes the lowest is predicted; an event at one half is said not to happen."""
    assert metrics.accuracy([[0.5, 0.5], [0.5, 0.5]], [0, 1]).item() == 0.5
    assert metrics.accuracy([[0.2, 0.4, 0.4]], [1]).item() == 1
    assert metrics.accuracy([0.5], [0]).item() == 1


def test_adaptive_is_equal_mass(rng: np.random.Generator) -> None:
    """The adaptive error is the expected error with ``binning="mass"``, options and all."""
    probs, labels, weights = rng.uniform(size=80), rng.integers(0, 2, 80), rng.uniform(size=80)
    for options in ({}, {"num_bins": 7, "norm": "l2"}, {"weights": weights}):
        expected = metrics.expected_calibration_error(probs, labels, binning="mass", **options)
        assert metrics.adaptive_calibration_error(probs, labels, **options) == expected


def test_entropy_of_several_labels_counts_decisions() -> None:
    probs, labels = [[0.9, 0.5], [0.2, 1.0]], [[1, 1], [1, 1]]
    assert metrics.predictive_entropy(probs, labels, among="correct").item() == pytest.approx(
        (-0.9 * math.log(0.9) - 0.1 * math.log(0.1) + 0.0) / 2, abs=1e-12
    )
    wrong = metrics.predictive_entropy(probs, labels, among="incorrect", weights=[3, 1]).item()
    entropy_of_a_fifth = -0.2 * math.log(0.2) - 0.8 * math.log(0.8)
    assert wrong == pytest.approx((3 * math.log(2) + entropy_of_a_fifth) / 4, abs=1e-12)


def test_high_confidence_of_several_labels_and_of_nobody() -> None:
    found = metrics.high_confidence([[0.999, 0.6], [0.5, 0.001]], [[1, 1], [0, 1]], weights=[1, 3])
    assert found.share.item() == 0.5
    assert found.accuracy is not None
    assert found.accuracy.item() == 0.25
    nobody = metrics.high_confidence([[0.5, 0.5]], [0])
    assert nobody.share.item() == 0
    assert nobody.accuracy is None


def test_high_confidence_threshold_is_inclusive() -> None:
    assert metrics.high_confidence([0.75, 0.74], [1, 1], threshold=0.75).share.item() == 0.5


def test_auroc_of_absent_classes() -> None:
    """A class without positives is left out of the mean with a warning, and ``None`` in its place."""
    probs = [[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.3, 0.6, 0.1], [0.55, 0.35, 0.1]]
    labels = [0, 0, 1, 1]
    with pytest.warns(CalibrantWarning, match=r"omits 1 of 3 classes that never or always occur \(2\)"):
        macro = metrics.auroc(probs, labels)
    apart = metrics.auroc(probs, labels, average="none")
    assert apart[2] is None
    assert [value.item() for value in apart if value is not None] == [0.75, 1.0]
    assert macro.item() == 0.875
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert metrics.auroc([[0.9, 0.1]], [0], average="none") == (None, None)


@pytest.mark.parametrize("average", ["none", "micro"])
def test_average_is_for_several_values(average: str) -> None:
    """``average="none"`` needs several labels (or classes, where there is one value each)."""
    one_value = [
        metrics.expected_calibration_error,
        metrics.maximum_calibration_error,
        metrics.negative_log_likelihood,
        metrics.brier_score,
        metrics.accuracy,
        metrics.error_rate,
        metrics.smooth_calibration_error,
        metrics.post_processing_gap,
    ]
    for metric in [*one_value, metrics.auroc, metrics.classwise_calibration_error]:
        with pytest.raises(InputError, match="`average` must be"):
            metric([0.5, 0.2], [0, 1], average=average)
    for metric in one_value:
        with pytest.raises(InputError, match="`average` must be"):
            metric([[0.5, 0.5]], [0], average=average)


def test_reliability_table_of_empty_bins() -> None:
    """Empty bins count 0 and hold ``None``."""
    table = metrics.reliability_table([0.1, 0.95], [0, 1], num_bins=4)
    assert table.counts == (1.0, 0.0, 0.0, 1.0)
    assert table.confidence == (0.1, None, None, 0.95)
    assert table.accuracy == (0.0, None, None, 1.0)


def test_reliability_table_is_printed_by_bins() -> None:
    """Printed, it has one line per bin, aligned; empty bins say so, weights keep their digits."""
    table = metrics.reliability_table([0.1, 0.95], [0, 1], num_bins=3, weights=[0.25, 3000.0])
    assert str(table).split("\n") == [
        "            bin      count  confidence  accuracy",
        "  0.0000–0.3333       0.25      0.1000    0.0000",
        "  0.3333–0.6667          0           –         –",
        "  0.6667–1.0000       3000      0.9500    1.0000",
    ]


def test_equal_mass_table_of_fewer_samples_than_bins() -> None:
    """Three samples in five bins: every sample is in one bin, the edges still ascend."""
    table = metrics.reliability_table([0.3, 0.1, 0.8], [0, 0, 1], num_bins=5, binning="mass")
    assert sorted(table.counts) == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert list(table.edges) == sorted(table.edges)
    assert (table.edges[0], table.edges[-1]) == (0.1, 0.8)


def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    from calibrant._math import arrays

    probs, labels = rng.dirichlet(np.ones(7), 300), rng.integers(0, 7, 300)
    several = rng.integers(0, 2, (300, 7))

    def values() -> list[float]:
        return [
            metrics.classwise_calibration_error(probs, labels).item(),
            metrics.classwise_calibration_error(probs, labels, weights=labels + 1).item(),
            metrics.expected_calibration_error(probs, several).item(),
            metrics.brier_score(probs, labels).item(),
            metrics.brier_score(probs, several).item(),
            metrics.predictive_entropy(probs).item(),
        ]

    whole = values()
    monkeypatch.setattr(arrays, "CACHED_ELEMENTS", 64)
    assert values() == pytest.approx(whole, abs=1e-12)
    broken = probs.copy()
    broken[250, 3] = np.nan
    with pytest.raises(InputError, match="row 250 holds nan"):
        metrics.accuracy(broken, labels)
    broken[250] = 0.1
    with pytest.raises(InputError, match=r"row 250 sums to 0.7"):
        metrics.accuracy(broken, labels)
