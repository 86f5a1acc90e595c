"""Agreement with the code of Mukhoti et al. (2020), and where it is at fault.

The reference computes in float32, hence 2e-6 (its authors' own accuracy), not the float64 tolerance.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import metrics

REFERENCE = 2e-6
Golden = Callable[[str], Any]


def read(case: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """Labels, and probabilities in float32 like the reference's, so that what ties there ties here."""
    return torch.softmax(torch.tensor(case["logits"]), dim=1), torch.tensor(case["labels"])


def check_likelihood(case: dict[str, Any], expected: dict[str, Any]) -> None:
    """The log-likelihood: from logits there, so from float64 probabilities here, which do not underflow."""
    logits = torch.tensor(case["logits"], dtype=torch.float64)
    nll = metrics.negative_log_likelihood(torch.softmax(logits, dim=1), case["labels"]).item()
    assert nll == pytest.approx(expected["nll"], rel=REFERENCE)


def check(probs: Tensor, labels: Tensor, num_bins: int, expected: dict[str, Any]) -> None:
    """Every value of the reference, by ours."""
    near = {"rel": 0, "abs": REFERENCE}
    ece = metrics.expected_calibration_error
    assert ece(probs, labels, num_bins=num_bins).item() == pytest.approx(expected["ece"], **near)
    assert ece(probs, labels, num_bins=num_bins, norm="l2").item() == pytest.approx(expected["l2"], **near)
    adaptive = ece(probs, labels, num_bins=num_bins, binning="mukhoti").item()
    assert adaptive == pytest.approx(expected["adaece"], **near)
    table = metrics.reliability_table(probs, labels, num_bins=num_bins, binning="mukhoti")
    assert list(table.counts) == expected["adaece_counts"]
    largest = metrics.maximum_calibration_error(probs, labels, num_bins=num_bins)
    assert largest.item() == pytest.approx(expected["mce"], **near)
    assert metrics.brier_score(probs, labels).item() == pytest.approx(expected["brier_sum"], **near)
    assert metrics.accuracy(probs, labels).item() == pytest.approx(expected["accuracy"], **near)
    assert metrics.predictive_entropy(probs).item() == pytest.approx(expected["mean_entropy"], **near)
    confident = metrics.high_confidence(probs, labels)
    assert 100 * confident.share.item() == pytest.approx(expected["S99_pct"], **near)
    if expected["S99_acc"] is None:
        assert confident.accuracy is None
    else:
        assert confident.accuracy is not None
        assert confident.accuracy.item() == pytest.approx(expected["S99_acc"], **near)


@pytest.mark.parametrize("num_bins", [10, 15, 25])
@pytest.mark.parametrize("name", ["K10_N500", "K10_N507", "K2_N400", "K100_N300"])
def test_reference_values(golden: Golden, name: str, num_bins: int) -> None:
    """Every metric of the reference, on four sets of logits and three numbers of bins."""
    case = golden("metrics.json")["sets"][name]
    probs, labels = read(case)
    expected = case["bins"][str(num_bins)]
    check(probs, labels, num_bins, expected)
    check_likelihood(case, expected)
    classwise = metrics.classwise_calibration_error(probs, labels, num_bins=num_bins).item()
    assert classwise == pytest.approx(expected["classwise_ece"], abs=REFERENCE)


@pytest.mark.parametrize("name", ["uniform", "saturated_conf1", "fewer_samples_than_bins"])
def test_reference_values_at_the_edges(golden: Golden, name: str) -> None:
    """All confidences equal, all saturated at 1, fewer samples than bins."""
    case = golden("metrics_edge.json")[name]
    probs, labels = read(case)
    check(probs, labels, 15, case["out"])
    check_likelihood(case, case["out"])
    if name != "saturated_conf1":  # see test_faults_of_the_original_classwise_error
        classwise = metrics.classwise_calibration_error(probs, labels).item()
        assert classwise == pytest.approx(case["out"]["classwise_ece"], abs=REFERENCE)


def test_fault_of_the_original_adaptive_error(golden: Golden) -> None:
    """Confidence 1 at an accuracy of 2/3: the original adaptive error is 0, equal mass finds 1/3.

    The first of its bins is open below, so samples of the lowest confidence fall in none.
    """
    probs, labels = read(golden("metrics_edge.json")["saturated_conf1"])
    original = metrics.expected_calibration_error(probs, labels, binning="mukhoti")
    assert original.item() == 0
    assert metrics.adaptive_calibration_error(probs, labels).item() == pytest.approx(1 / 3, abs=1e-12)


def test_faults_of_the_original_classwise_error(golden: Golden) -> None:
    """The original takes the largest label for the last class, and its first bin leaves out confidence 0."""
    cases = golden("metrics_edge.json")
    case = cases["classwise_missing_top_labels"]  # labels 0, 1, 2 of five classes
    probs, labels = read(case)
    check(probs, labels, 15, case["out"])
    each = metrics.classwise_calibration_error(probs, labels, average="none")
    assert each.shape == (5,)
    assert each[:3].mean().item() == pytest.approx(case["out"]["classwise_ece"], abs=REFERENCE)
    assert metrics.classwise_calibration_error(probs, labels).item() == each.mean().item()
    assert abs(each.mean().item() - case["out"]["classwise_ece"]) > 0.01

    case = cases["saturated_conf1"]  # labels 0 and 1 of three classes; class 1 has probability 0 throughout
    each = metrics.classwise_calibration_error(*read(case), average="none")
    assert each.tolist() == pytest.approx([1 / 3, 1 / 3, 0], abs=1e-12)
    assert case["out"]["classwise_ece"] == pytest.approx(each[0].item() / 2, abs=REFERENCE)


def test_saturated_probabilities_in_float32(golden: Golden) -> None:
    """Where float32 probabilities have lost what the logits held, the log-likelihood is honestly infinite."""
    case = golden("metrics_edge.json")["saturated_conf1"]
    probs = torch.softmax(torch.tensor(case["logits"], dtype=torch.float32), dim=1)
    assert metrics.negative_log_likelihood(probs, case["labels"]).item() == torch.inf
