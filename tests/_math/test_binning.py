"""Where bins begin and end, and what falls into them."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from calibrant._math.binning import (
    SparseColumnSums,
    binned,
    mass_boundaries,
    mukhoti_edges,
    width_bin_index,
    width_column_sums,
    width_edges,
)
from calibrant._math.errors import InputError

NUMBERS_OF_BINS = (1, 2, 3, 10, 15, 25, 49, 1000)


def true_bin(value: float, num_bins: int) -> int:
    """Bin by exact comparison with the float64 edges i / num_bins."""
    exact = Fraction(value)
    return max(0, sum(Fraction(i / num_bins) < exact for i in range(num_bins)) - 1)


@pytest.mark.parametrize("num_bins", NUMBERS_OF_BINS)
def test_edges(num_bins: int) -> None:
    """0 is in the first bin, 1 in the last, an edge in the bin that it ends, the next number in the next."""
    edges = width_edges(num_bins)
    assert edges.tolist() == [i / num_bins for i in range(num_bins + 1)]
    upper = torch.arange(num_bins)
    assert torch.equal(width_bin_index(edges[1:], num_bins), upper)
    below = torch.nextafter(edges[1:], torch.zeros(()).double())
    assert torch.equal(width_bin_index(below, num_bins), upper)
    above = torch.nextafter(edges[1:-1], torch.ones(()).double())
    assert torch.equal(width_bin_index(above, num_bins), upper[1:])
    ends = torch.tensor([0.0, 5e-324, 1.0, 1.0005], dtype=torch.float64)
    assert width_bin_index(ends, num_bins).tolist() == [0, 0, num_bins - 1, num_bins - 1]


@example(values=[float(np.float32(0.6))], num_bins=5)
@given(
    values=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=20),
    num_bins=st.sampled_from(NUMBERS_OF_BINS[:-1]),
)
def test_bins_of_float32_are_those_of_its_exact_value(values: list[float], num_bins: int) -> None:
    """A float32 confidence is binned by its exact value, without rounding of the edges to float32."""
    index = width_bin_index(torch.tensor(values, dtype=torch.float32), num_bins)
    assert index.tolist() == [true_bin(value, num_bins) for value in values]


@given(num_samples=st.integers(1, 200), num_bins=st.integers(1, 40))
def test_equal_mass_sizes(num_samples: int, num_bins: int) -> None:
    """Bins end after ceil(jN/B) samples: sizes differ by at most one, and weights of any one size agree."""
    boundaries = mass_boundaries(num_samples, num_bins)
    assert boundaries.tolist() == [
        math.ceil(Fraction(j * num_samples, num_bins)) for j in range(num_bins + 1)
    ]
    sizes = boundaries.diff()
    assert sizes.max() - sizes.min() <= 1
    for weight in (1.0, 0.1, 1 / 3, 1e-300, 1e300 / num_samples):
        weights = torch.full((num_samples,), weight, dtype=torch.float64)
        assert torch.equal(mass_boundaries(num_samples, num_bins, weights), boundaries)


def test_empty_bins_of_unequal_weights_stay_empty() -> None:
    """Weights whose sums round leave no crumbs of weight in bins that hold no sample."""
    confidences = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    weights = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    sums = binned(confidences, torch.zeros(3), num_bins=15, binning="mass", weights=weights)
    assert sorted(sums.counts.tolist())[:12] == [0.0] * 12
    assert sums.calibration_error("max").item() == pytest.approx(0.3, abs=1e-12)


def test_original_adaptive_edges() -> None:
    """Ranks jN/B of 0..N interpolated between 0..N-1: three of four samples in two bins, the minimum lost."""
    confidences = torch.tensor([0.4, 0.1, 0.2, 0.8], dtype=torch.float64)
    assert mukhoti_edges(confidences, 2).tolist() == [0.1, 0.4, 0.8]
    sums = binned(confidences, torch.ones(4), num_bins=2, binning="mukhoti")
    assert sums.counts.tolist() == [2, 1]
    assert sums.total == 4
    with pytest.raises(InputError, match=r"^`weights` must be left out .*; got 4 weights; use"):
        binned(confidences, torch.ones(4), num_bins=2, binning="mukhoti", weights=torch.ones(4))


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_sums_are_those_of_the_dense_way(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    probs = torch.from_numpy(rng.dirichlet(np.full(40, 0.05), 300))
    probs[0], probs[1, :15] = 0.0, 1 / 15
    probs[0, 3] = 1.0
    probs[2, :3] = torch.tensor([1 / 5, 2 / 5, 2 / 5])
    labels = torch.from_numpy(rng.integers(0, 40, 300))
    weights = torch.from_numpy(rng.random(300)) if weighted else None
    found = SparseColumnSums(40, 15)
    for rows in (slice(0, 120), slice(120, 300)):
        found.add(probs[rows], labels[rows], None if weights is None else weights[rows])
    sums, wanted = found.sums(), width_column_sums(probs, labels, 15, weights)
    for name in ("counts", "confidences", "outcomes"):
        torch.testing.assert_close(getattr(sums, name), getattr(wanted, name), atol=1e-11, rtol=0)
    assert sums.total == pytest.approx(wanted.total)
    torch.testing.assert_close(
        sums.calibration_error("l1"), wanted.calibration_error("l1"), atol=1e-12, rtol=0
    )


def test_a_lowest_bin_without_samples_has_no_weight() -> None:
    found = SparseColumnSums(3, 15)
    weights = torch.from_numpy(np.random.default_rng(0).random(7))
    found.add(torch.tensor([[0.4, 0.35, 0.25]] * 7).double(), torch.zeros(7).long(), weights)
    assert found.sums().counts[:, 0].tolist() == [0.0, 0.0, 0.0]
