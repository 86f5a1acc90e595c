"""How far bins of equal mass from a histogram may be off: its formula, cell by cell."""

import pytest
import torch

from calibrant._math.binning import sketch_error_bound, sketch_sums


def test_the_bound_counts_the_cells_that_inner_boundaries_split() -> None:
    """Ends of the data split no cell, and a cell that is split counts as the module's formula says."""
    confidences = torch.tensor([0.1, 0.1, 0.6, 0.6, 0.6, 0.9], dtype=torch.float64)
    outcomes = torch.tensor([0.0, 1.0, 1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    sums = sketch_sums(confidences, outcomes)
    assert sketch_error_bound(*sums, num_bins=1).item() == 0
    # Half of the weight is reached at 0.6: three samples, two of them ones, in a cell of width h.
    h = 0.6 * 0.4 * 72 / (2**14 - 2)
    expected = 2 / 6 * (2 * 1 / 3 + h * 3 / 4 + abs(3 * 0.6 - 2))
    assert sketch_error_bound(*sums, num_bins=2).item() == pytest.approx(
        expected, abs=1e-5
    )  # h at first order
    # A third of it at the end of the cell at 0.1, two thirds at 0.6.
    more = 2 / 6 * (1 * 1 / 2 + 0.09 * h / 0.24 * 2 / 4 + abs(2 * 0.1 - 1))
    assert sketch_error_bound(*sums, num_bins=3).item() == pytest.approx(expected + more, abs=1e-5)
