"""Where bins begin and end, and what falls into them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant._math.binning import (
    bin_sums,
    binned,
    mass_bin_index,
    mass_boundaries,
    mass_order,
    mukhoti_edges,
    tied_means,
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


@given(
    values=st.lists(st.floats(0, 1, width=32), min_size=1, max_size=20),
    num_bins=st.sampled_from(NUMBERS_OF_BINS[:-1]),
)
def test_bins_of_float32_are_those_of_its_exact_value(values: list[float], num_bins: int) -> None:
    """A float32 confidence is binned by its exact value, without rounding of the edges to float32."""
    index = width_bin_index(torch.tensor(values, dtype=torch.float32), num_bins)
    assert index.tolist() == [true_bin(value, num_bins) for value in values]


def test_a_float32_edge_would_lose_a_sample() -> None:
    """float32(0.6) lies above 0.6, so it is in the bin above: its value counts, not the decimal it means."""
    value = torch.tensor([0.6], dtype=torch.float32)
    assert value.item() > 0.6
    assert width_bin_index(value, 5).item() == 3
    assert width_bin_index(value.double().round(decimals=6), 5).item() == 2


def test_sums() -> None:
    """Counts, confidences and outcomes of each bin, weighted and not."""
    index = torch.tensor([2, 0, 2])
    confidences, outcomes = torch.tensor([0.9, 0.1, 0.8]), torch.tensor([1, 1, 0])
    counts, sums, hits = bin_sums(index, 4, confidences, outcomes)
    assert counts.dtype == sums.dtype == hits.dtype == torch.float64
    assert counts.tolist() == [1, 0, 2, 0]
    assert hits.tolist() == [1, 0, 1, 0]
    assert sums[2].item() == float(np.float32(0.9)) + float(np.float32(0.8))
    weights = torch.tensor([2.0, 0.5, 1.0], dtype=torch.float64)
    counts, _, hits = bin_sums(index, 4, confidences, outcomes, weights)
    assert counts.tolist() == [0.5, 0, 3, 0]
    assert hits.tolist() == [0.5, 0, 2, 0]


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


def test_equal_mass_boundaries_of_unequal_weights() -> None:
    """A bin ends with the sample that reaches its share; a heavy sample may leave later bins empty."""
    weights = torch.tensor([1.0, 1.0, 6.0, 1.0, 3.0], dtype=torch.float64)  # reaches 1, 2, 8, 9, 12
    assert mass_boundaries(5, 3, weights).tolist() == [0, 3, 3, 5]
    assert mass_boundaries(5, 2, weights).tolist() == [0, 3, 5]


def test_equal_mass_bins_of_sorted_samples() -> None:
    """Each sample is in the bin between whose boundaries it lies; empty bins, inner or last, hold none."""
    assert mass_bin_index(torch.tensor([0, 3, 3, 5]), 5).tolist() == [0, 0, 0, 2, 2]
    assert mass_bin_index(torch.tensor([0, 0, 2, 2]), 2).tolist() == [1, 1]


def test_equal_mass_order_breaks_ties_by_weight() -> None:
    """Equal confidences are taken in order of weight."""
    confidences = torch.tensor([0.5, 0.2, 0.5, 0.5])
    weights = torch.tensor([3.0, 9.0, 1.0, 2.0], dtype=torch.float64)
    assert mass_order(confidences, weights).tolist() == [1, 2, 3, 0]
    assert mass_order(confidences)[0] == 1


def test_tied_means() -> None:
    """Equal confidences share their weighted mean outcome; a tie of weight zero does no harm."""
    confidences = torch.tensor([0.1, 0.4, 0.4, 0.9, 0.9], dtype=torch.float64)
    outcomes = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    assert tied_means(confidences, outcomes).tolist() == [1, 0.5, 0.5, 0.5, 0.5]
    weights = torch.tensor([1.0, 1.0, 3.0, 0.0, 0.0], dtype=torch.float64)
    assert tied_means(confidences, outcomes, weights).tolist() == [1, 0.75, 0.75, 0, 0]
    distinct = torch.arange(5, dtype=torch.float64)
    assert tied_means(distinct, outcomes) is outcomes


def test_ties_across_the_boundary_of_a_bin() -> None:
    """Four equal confidences, two bins, two hits: each bin has one hit, whatever the order of the rows."""
    confidences = torch.full((4,), 0.25)
    for hits in ([1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]):
        sums = binned(confidences, torch.tensor(hits), num_bins=2, binning="mass")
        assert sums.counts.tolist() == [2, 2]
        assert sums.outcomes.tolist() == [1, 1]


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


def test_errors_of_a_table() -> None:
    """Two bins of weight 3 and 1 with gaps .2 and .4, and an empty one: l1, l2 and the largest."""
    confidences = torch.tensor([0.1, 0.1, 0.1, 0.6], dtype=torch.float64)
    outcomes = torch.tensor([0.3, 0.3, 0.3, 1.0], dtype=torch.float64)
    sums = binned(confidences, outcomes, num_bins=3, binning="width")
    assert sums.calibration_error("l1").item() == pytest.approx(0.25, abs=1e-12)
    assert sums.calibration_error("l2").item() == pytest.approx(math.sqrt(0.07), abs=1e-12)
    assert sums.calibration_error("max").item() == pytest.approx(0.4, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_all_columns_at_once(rng: np.random.Generator, weighted: bool) -> None:
    """One pass over the rows gives what the columns give one by one, for classes and for several labels."""
    probs = torch.from_numpy(rng.dirichlet(np.ones(4), 50))
    weights = torch.from_numpy(rng.uniform(size=50)) if weighted else None
    classes = torch.from_numpy(rng.integers(0, 4, 50))
    several = torch.from_numpy(rng.integers(0, 2, (50, 4)))
    for labels in (classes, several):
        sums = width_column_sums(probs, labels, 7, weights)
        for k in range(4):
            outcome = (labels == k) if labels.ndim == 1 else labels[:, k]
            single = binned(probs[:, k], outcome, num_bins=7, binning="width", weights=weights)
            torch.testing.assert_close(sums.counts[k], single.counts, atol=1e-12, rtol=0)
            torch.testing.assert_close(sums.confidences[k], single.confidences, atol=1e-12, rtol=0)
            torch.testing.assert_close(sums.outcomes[k], single.outcomes, atol=1e-12, rtol=0)
