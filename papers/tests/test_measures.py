"""What the studies measure, on the smallest settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.calibrators import TemperatureScaling
from calibrant.predictions import Predictions
from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.tasks.training import recipe_of as trained_by
from calibrant_lab.training import load_recipe
from calibrant_lab.training.neutral import conventions_of
from papers import studies
from papers.chest_x_rays import measure as chest
from papers.human_posteriors.measure import (
    JUDGEMENTS,
    Judged,
    Tried,
    focal_answer,
    focal_map,
    read,
)
from papers.shift.measure import recipe_of
from papers.sst.measure import RENORMALISED, STRUCK, judged


def test_every_grid_is_read() -> None:
    """Each study's grid names a task that exists, with settings it takes."""
    from papers.grids import read_grid

    for name in studies.names():
        module = studies.study(name)
        if hasattr(module, "GRID"):
            assert read_grid(module.GRID, seeds=1).points


def test_shift_recipe() -> None:
    """The recipe of the study of losses, with another loss and size."""
    recipe = recipe_of({"loss": "brier", "seed": 1, "train": 500, "epochs": 2, "images": 10})
    assert (recipe.training.epochs, recipe.data.train, recipe.seed) == (2, 500, 1)


def test_sst_errors_are_those_of_the_runs_report() -> None:
    """ECE and temperatures under both conventions are what a run says of itself."""
    generator = torch.Generator().manual_seed(0)
    wide = (2 * torch.randn(120, 3, generator=generator)).log_softmax(1)[:, ::2]
    labels = (torch.rand(120, generator=generator) < wide.softmax(1)[:, 1]).long()
    logits = {"calibration": wide[:60], "test": wide[60:]}
    own = conventions_of(logits, {"calibration": labels[:60], "test": labels[60:]}, num_bins=15)
    for convention in (STRUCK, RENORMALISED):
        found = judged(logits, labels[:60], labels[60:], convention)
        for stage, name in (("before", "before"), ("temperature", "by_nll"), ("by-ece", "by_ece")):
            assert found["stages"][stage]["ece"] == pytest.approx(own[convention][name]["ece"], abs=1e-9)
        assert found["parameters"]["ece_temperature"] == own[convention]["by_ece"]["temperature"]
        assert found["stages"]["before"]["error"] == pytest.approx(own["error"], abs=1e-12)


@pytest.mark.parametrize(
    ("study", "data", "recipe", "but"),
    [
        ("sst", "sst_trees", "sst-tree-lstm", set[str]()),
        ("texts", "ag_news", "ag-news", set[str]()),
        ("texts", "newsgroups20", "20ng-gpcnn", {"training.epochs", "training.precision"}),
    ],
)
def test_grids_have_the_settings_of_their_recipes(study: str, data: str, recipe: str, but: set[str]) -> None:
    """Network, data and training, but for what the page calls a difference."""
    points = load_grid(studies.HERE / study / "grid.toml").points
    settings = next(each.settings for each in points if str(each.settings["data.name"]).startswith(data))
    wanted = load_recipe(studies.HERE.parent / "lab" / "recipes" / f"{recipe}.toml")
    assert {each.partition(":")[0] for each in wanted.differences(trained_by(settings))} == but


def drawn(truth: Tensor, log_probs: Tensor, *, people: int = 50) -> Judged:
    """Images with that truth: a label each, and so many judgements."""
    rng, shares = np.random.default_rng(0), truth.numpy()
    labels, counts = rng.multinomial(1, shares).argmax(1), rng.multinomial(people, shares)
    return Judged(log_probs, torch.from_numpy(labels), torch.from_numpy(counts).double())


def logits_of(num_images: int) -> Tensor:
    """Logits of three classes at random."""
    return 2 * torch.randn(num_images, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_distance_to_people_has_no_noise_of_the_judgements() -> None:
    """Less what chance adds, the mean squared distance is that to the truth, however few are asked."""
    logits = logits_of(4000)
    truth, said = logits.softmax(1), (logits / 2).log_softmax(1)
    data = drawn(truth, said, people=4)
    gap = data.scores(said)["distance"] - (truth - said.exp()).square().sum(1)
    error = gap.std() / len(gap) ** 0.5
    assert abs(gap.mean()) < 4 * error
    assert data.noise.mean() > 8 * error


def test_what_people_and_maps_hide_is_found_again() -> None:
    """People's temperature, and the exponent of focal loss where a network says what it asks for."""
    logits = logits_of(2000)
    data = drawn((logits / 2.5).softmax(1), logits.log_softmax(1))
    rows, chosen, share = data.by_people(torch.arange(2000))
    found = TemperatureScaling().fit(rows, chosen, weights=share).fit_result_.parameters["temperature"]
    assert found == pytest.approx(2.5, rel=0.05)
    truth = logits.log_softmax(1)
    said = focal_answer(truth, 2.0)
    assert torch.allclose(focal_map(said, 2.0), truth, atol=1e-8)
    tried = Tried(drawn(truth.exp(), said), "focal-map")
    assert tried.exponents[tried.best(torch.arange(2000))] == pytest.approx(2.0, abs=0.3)


def test_images_in_another_order_are_refused(tmp_path: Path) -> None:
    """Outputs whose labels are not those of the judgements, and folders without them."""
    with pytest.raises(InputError, match="is missing"):
        read(tmp_path, "network.npz")
    path = tmp_path / JUDGEMENTS
    path.parent.mkdir()
    np.savez(path, counts=np.eye(3, dtype=np.int16) * 50, labels=np.arange(3, dtype=np.int16))
    np.savez(tmp_path / "network.npz", probs=np.full((3, 3), 1 / 3), labels=np.array([0, 2, 1]))
    with pytest.raises(InputError, match="not in the order"):
        read(tmp_path, "network.npz")


def test_chest_x_rays_are_judged_on_whole_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are those of the test images, and pneumonia is told from no finding."""
    monkeypatch.setattr(chest, "RESAMPLES", 20)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(120, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    split, patients = np.arange(120) % 2, np.arange(120) // 4
    found = chest.judged(Predictions(logits=3 * logits, labels=labels, split=split, clusters=patients))
    test, chosen = split == 1, (split == 1) & (labels > 0)
    assert (found["num_test"], found["num_calibration"], found["num_patients"]) == (60, 60, 30)
    assert found["before"]["accuracy"][0] == (logits.argmax(1) == labels)[test].mean()
    assert found["before"]["nll"][0] > found["after"]["nll"][0]
    value, low, high = found["pair"]["auroc"]
    assert value == pytest.approx(roc_auc_score(labels[chosen] == 2, (logits[:, 2] - logits[:, 1])[chosen]))
    assert low < value < high


def test_labels_of_chest_x_rays_are_repaired_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Platt scaling lowers the error of each label."""
    monkeypatch.setattr(chest, "RESAMPLES", 20)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 2))
    labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    found = chest.labels_of(
        Predictions(logits=logits + 2, labels=labels, split=np.arange(800) % 2, class_names=["a", "b"])
    )
    assert (found["num"], found["num_test"]) == (800, 400)
    assert [each["positives"] for each in found["labels"]] == labels.sum(0).tolist()
    assert all(each["after"][0] < each["before"][0] / 2 for each in found["labels"])
