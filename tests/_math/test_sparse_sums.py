"""Sums over the bins of very many classes."""

import numpy as np
import pytest
import torch

from calibrant._math.binning import SparseColumnSums, width_column_sums


@pytest.mark.parametrize("weighted", [False, True])
def test_the_sums_are_those_of_the_dense_way(weighted: bool) -> None:
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
