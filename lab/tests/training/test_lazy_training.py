"""Training on images that are decoded as they are needed gives the numbers of one with them in memory."""

from __future__ import annotations

import torch

from calibrant_lab.training import train


def test_a_lazy_training_is_the_same(images, lazy, tmp_path, short_reports) -> None:
    """Logits to the bit, with images decoded ahead in another thread; the fingerprints differ."""
    one, other = train(images, tmp_path / "one"), train(lazy, tmp_path / "other")
    assert torch.equal(one.predictions.scores, other.predictions.scores)
    assert one.data_sha256 != other.data_sha256
