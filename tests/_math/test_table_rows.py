"""What is read from the rows of a table at once, against the plain operations."""

from __future__ import annotations

import pytest
import torch

from calibrant._math.large_tables import read_rows


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("num_classes", [2, 5, 64, 65, 200])
def test_facts_of_rows(num_classes: int, dtype: torch.dtype) -> None:
    """Smallest value, largest ones, sums and hits are those of the plain operations, ties included."""
    generator = torch.Generator().manual_seed(num_classes)
    counts = torch.randint(0, 4, (400, num_classes), generator=generator)
    counts[:, 0] += 1  # no row is empty; many rows have several largest values
    probs = (counts / counts.sum(dim=1, keepdim=True)).to(dtype)
    labels = torch.randint(0, num_classes, (400,), generator=generator)
    labels[::2] = torch.from_numpy(probs[::2].double().numpy().argmax(axis=1))
    before = probs.clone()
    facts = read_rows(probs, labels)
    wide = probs.double().numpy()
    assert facts.low.item() == wide.min()
    assert facts.highest.tolist() == wide.max(axis=1).tolist()
    assert facts.sums.tolist() == pytest.approx(wide.sum(axis=1).tolist(), rel=1e-5)
    assert facts.correct is not None
    assert facts.correct.tolist() == (wide.argmax(axis=1) == labels.numpy()).tolist()
    assert torch.equal(probs, before)


@pytest.mark.parametrize("num_classes", [3, 100])
def test_single_row_is_not_changed(num_classes: int) -> None:
    """The transposed copy of one row is a copy, too."""
    probs = torch.full((1, num_classes), 1 / num_classes)
    facts = read_rows(probs, torch.tensor([1]))
    assert facts.correct is not None
    assert not facts.correct.item()  # the first of all equal ones counts
    assert torch.equal(probs, torch.full((1, num_classes), 1 / num_classes))


@pytest.mark.parametrize("num_classes", [3, 100])
def test_nan_is_found(num_classes: int) -> None:
    """NaN anywhere is in the smallest value."""
    probs = torch.full((7, num_classes), 1 / num_classes)
    probs[4, 2] = torch.nan
    assert torch.isnan(read_rows(probs, None).low)


def test_without_labels_nothing_is_right() -> None:
    """Without labels there are no hits."""
    assert read_rows(torch.tensor([[0.2, 0.8]]), None).correct is None
