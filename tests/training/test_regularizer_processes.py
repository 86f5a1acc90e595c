"""Several processes penalise curvature, and minimise sharpness, as one does."""

from __future__ import annotations

import pytest
import torch

from calibrant.training import train

pytestmark = pytest.mark.slow  # every process imports torch anew


@pytest.fixture
def plain(recipe):
    """Without dropout, whose masks belong to a process; with batches that two processes share 3 : 2."""
    return recipe.with_settings(
        ["model=mlp(widths=(16,))", "training.epochs=2", "training.batch_size=5", "data.train=60"]
    )


@pytest.mark.parametrize(
    "settings",
    [
        ["curvature.weight=0.01", "curvature.every=2", "reduction=sum", "optimiser.learning_rate=0.02"],
        ["curvature.weight=0.01", "curvature.estimator=last-layer"],
        ["sam.rho=0.05"],
    ],
    ids=lambda settings: "-".join(settings),
)
def test_two_processes_train_as_one(plain, tmp_path, settings) -> None:
    """The same vector on both shares, and gradients averaged by samples, give the numbers of whole batches.

    Sums are taken in another order, so numbers agree to float32 rounding grown over 24 steps.
    """
    mine = plain.with_settings(settings)
    one = train(mine, tmp_path / "one")
    two = train(mine.with_settings(["hardware.devices=2"]), tmp_path / "two")
    without = train(plain.with_settings([each for each in settings if "optim" in each]), tmp_path / "plain")
    torch.testing.assert_close(one.predictions.scores, two.predictions.scores, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(one.predictions.scores, without.predictions.scores, rtol=1e-2, atol=1e-2)
    for first, second in zip(one.rows, two.rows, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            assert second[name] == pytest.approx(value, rel=1e-3, abs=1e-5), name
    assert two.cost is not None


def test_each_process_has_its_own_vectors(plain, tmp_path) -> None:
    """By the Gauss-Newton estimate two processes draw apart; their mean trace is that of one to a half."""
    mine = plain.with_settings(["curvature.weight=0.02", "curvature.estimator=gauss-newton"])
    one = train(mine, tmp_path / "one")
    two = train(mine.with_settings(["hardware.devices=2"]), tmp_path / "two")
    assert not torch.equal(one.predictions.scores, two.predictions.scores)
    for first, second in zip(one.rows, two.rows, strict=True):
        assert second["train_trace"] == pytest.approx(first["train_trace"], rel=0.5)
