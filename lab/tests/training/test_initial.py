"""Weights that a training begins with."""

from __future__ import annotations

import pytest
import torch

from calibrant._math.errors import InputError
from calibrant_lab.models import build
from calibrant_lab.sweep.tasks.task import Fingerprints
from calibrant_lab.sweep.tasks.training import Training
from calibrant_lab.training import Recipe, seeds, train


def test_a_training_begins_with_the_weights_of_a_file(recipe, short_reports, tmp_path) -> None:
    """At a learning rate of next to nothing they are also what it ends with, but for the layer left out."""
    model = build("mlp(widths=(16,), dropout=0.2)", input_shape=(1, 8, 8), num_classes=3)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    still = [
        "training.epochs=1",
        "optimiser.learning_rate=1e-12",
        "optimiser.momentum=0",
        "schedule.milestones=[1]",
    ]
    begun = recipe.with_settings(
        [*still, f"initial.weights={tmp_path / 'weights.pt'}", "initial.skip=['layers.4']"]
    )
    run = train(begun, tmp_path / "run")
    trained = run.model().state_dict()
    for name in ("layers.1.weight", "layers.1.bias"):
        torch.testing.assert_close(trained[name], model.state_dict()[name])
    with torch.random.fork_rng():
        torch.manual_seed(seeds.derived(recipe.seed, seeds.WEIGHTS))
        drawn = build(recipe.model, input_shape=(1, 8, 8), num_classes=10).state_dict()
    torch.testing.assert_close(trained["layers.4.weight"], drawn["layers.4.weight"])
    (tmp_path / "weights.pt").unlink()
    assert train(begun, tmp_path / "run").evaluation is not None  # what it began with is no longer needed


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["initial.weights=nothing.pt"],
            "initial.weights must name a file of weights.*no nothing.pt",
        ),
        (["initial.skip=['head']"], "`skip` goes with `weights`"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(recipe, settings, words, tmp_path) -> None:
    """A missing file, and a layer that keeps weights that nothing replaces."""
    with pytest.raises(InputError, match=words):
        train(recipe.with_settings(settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_file_s_content_decides_which_run_it_is(tmp_path) -> None:
    """Of a sweep: other weights under the same name are another run."""
    content = {"data": {"name": "digits"}, "initial": {"weights": str(tmp_path / "weights.pt")}}
    settings = Recipe.read(content).settings()
    found: list[str] = []
    for value in (b"one", b"two"):
        (tmp_path / "weights.pt").write_bytes(value)
        found.append(Training().inputs(settings, Fingerprints())["initial weights"])
    assert len(set(found)) == 2
