"""Training on images that are decoded as they are needed gives the numbers of one with them in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from calibrant.training import Recipe, train


@pytest.fixture
def images(tmp_path, rng):
    """A recipe for 60 small images of two classes in a folder."""
    for kind, level in (("dark", 90), ("light", 160)):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(30):
            pixels = np.clip(level + rng.integers(-60, 60, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / kind / f"{number:02}.png")
    return Recipe.read(
        {
            "model": "mlp(widths=(8,))",
            "data": {"name": str(tmp_path / "images"), "size": 6, "test": 20, "calibration": 12,
                     "normalise": "none", "augment": ["crop(padding=1)"]},
            "training": {"epochs": 2, "batch_size": 7},
            "hardware": {"accelerator": "cpu", "threads": 1},
            "evaluation": {"calibrators": ["temperature"], "bootstrap": 10, "batch_size": 5},
        }
    )  # fmt: skip


def lazily(recipe: Recipe) -> Recipe:
    """With so little memory that nothing is decoded before it is needed."""
    return recipe.with_settings(["data.memory=1e-9"])


def test_a_lazy_training_is_the_same(images, tmp_path, short_reports) -> None:
    """Logits to the bit, with images decoded ahead in another thread; the fingerprints differ."""
    one, other = train(images, tmp_path / "one"), train(lazily(images), tmp_path / "other")
    assert torch.equal(one.predictions.scores, other.predictions.scores)
    assert one.data_sha256 != other.data_sha256
