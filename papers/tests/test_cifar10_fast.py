"""The registered sweep on CIFAR-10: its grids and rules, and what is kept of a run."""

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.tasks.training import Training, recipe_of
from papers.cifar10_fast import lease
from papers.cifar10_fast.lease import GRIDS, LOGITS, REGISTERED, WEIGHTS, FastRun, grid_of


def test_the_sweep_is_registered() -> None:
    """Eight claims whose losses the first tier has, the rule for the epochs, and a gate; in a file."""
    path = Path(lease.__file__).with_name("registered.toml")
    assert tomllib.loads(path.read_text(encoding="utf-8")) == REGISTERED
    assert lease.CHOICES == (30, 45, 60)
    assert recipe_of(grid_of("1", 45).points[0].settings).training.precision == "bf16-mixed"
    claims = REGISTERED["claim"]
    page = path.with_name("page.md").read_text(encoding="utf-8")
    assert all(f"| {claim['id']} | {claim['text']} |" in page for claim in claims)
    assert {claim["id"].partition("-")[0] for claim in claims} == {f"H{number}" for number in range(1, 9)}
    titles = {"cross-entropy", "Brier", "MMCE", "FLSD-53", "FCL"}
    titles |= {f"focal, γ = {gamma}" for gamma in (1, 2, 3)}
    pairs = [pair for claim in claims if claim.get("compare") == "loss" for pair in claim["pairs"]]
    assert {name for pair in pairs for name in pair} == titles
    losses = {point.settings["loss"] for point in load_grid("cifar10-fast").points}
    assert len(losses) == len(titles)
    assert REGISTERED["gate"]["train_accuracy"] == 0.995


@pytest.mark.parametrize(("tier", "runs"), [("1", 40), ("1b", 50), ("2", 25)])
def test_every_epoch_keeps_its_share(tier, runs) -> None:
    """At 45 epochs a tier is the grid that comes along; at others all that names an epoch is scaled.

    Brier and FCL are averaged; cross-entropy's second arm lacks weight decay.
    """
    plain, tiers = load_grid(GRIDS[tier]), {epochs: grid_of(tier, epochs) for epochs in (45, 60)}
    assert [dict(point.settings) for point in tiers[45].points] == [
        dict(point.settings) for point in plain.points
    ]
    assert len(plain.points) == runs
    longer = tiers[60].points[0].settings
    assert (longer["training.epochs"], longer["schedule.milestones"]) == (60, [26, 43])
    assert longer["record.epochs"] == [2, 17, 34, 60]
    losses = {point.settings["loss"] for point in tiers[60].points}
    scheduled = {loss for loss in losses if "scheduled" in loss}
    assert all("milestones=(17, 43)" in loss for loss in scheduled)
    assert bool(scheduled) == (tier == "1b")
    assert {point.settings["seed"] for point in plain.points[: runs // 5]} == {0}
    for settings in (point.settings for point in plain.points):
        averaged = settings["loss"].startswith(("brier", "focal-cal"))
        assert settings["reduction"] == ("mean" if averaged else "sum")
        bare = tier == "1b" and settings["loss"] == "cross-entropy"
        assert settings["optimiser.weight_decay"] == (0.0 if bare else 5e-4)


@pytest.mark.parametrize(("step", "epochs"), [(1e-3, 60), (2e-3, 45), (3e-3, 30), (1.0, 30)])
def test_the_epochs_follow_from_the_time_of_a_step(step, epochs) -> None:
    assert lease.chosen((30, 45, 60), step=step, steps=352, runs=40, jobs=4, seconds=430) == epochs


@pytest.mark.parametrize(
    ("error", "temperature", "is_open"), [(0.004, 1.6, True), (0.006, 1.6, False), (0.0, 1.4, False)]
)
def test_the_gate(error, temperature, is_open) -> None:
    result: Any = SimpleNamespace(
        settings={"loss": "cross-entropy", "seed": 0},
        rows=[{"dynamics": {"train": {"error": error}}}],
        parameters={"temperature": {"temperature": temperature}},
    )
    assert lease.gate([result])["open"] is is_open


@pytest.mark.parametrize("epochs", [30, 45, 60])
def test_a_closed_gate_doubles_the_epochs_once(epochs) -> None:
    """Also if the doubled number is one of the choices, as for 30; an open gate changes nothing."""
    closed, open_gate = {"gate": {"open": False}}, {"epochs": epochs, "gate": {"open": True}}
    doubled = lease.continued({"epochs": epochs, **closed})
    assert (doubled["epochs"], doubled["gate"]) == (2 * epochs, None)
    assert lease.continued({**doubled, **closed})["epochs"] == 2 * epochs
    assert lease.continued(open_gate) == open_gate


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """Of a run of the rehearsal, with fewer images."""
    found = dict(grid_of("1", 2, lease.rehearsal(tmp_path)).points[0].settings)
    return {**found, "data.train": 200, "record.samples": 50, "hardware.accelerator": "cpu"}


def test_what_is_kept_of_a_run(settings, tmp_path, monkeypatch) -> None:
    """Logits in float16 of training and further images, histograms, and weights in bfloat16."""
    np.savez(tmp_path / "further.npz", fog=np.zeros((5, 3, 32, 32), np.uint8))
    monkeypatch.setattr(lease, "elsewhere", lambda _recipe: tmp_path / "further.npz")
    folder = tmp_path / "run"
    outcome = FastRun().run(settings, folder, lambda *_: None)
    assert len(outcome.rows) == 2
    assert "dynamics" in outcome.rows[0]
    with np.load(folder / LOGITS) as kept:
        assert (kept["train"].shape, kept["fog"].shape) == ((50, 10), (5, 10))
        assert kept["fog"].dtype == np.float16
        assert kept["gradients-0002"].sum() == len(kept["train_labels"]) == 50
    assert torch.load(folder / WEIGHTS, weights_only=True)["head.weight"].dtype == torch.bfloat16
    assert Training().complete(settings) == settings


def test_plain_steps_agree_with_themselves(settings) -> None:
    """On a CPU nothing is captured: the difference that a lease looks at is nothing."""
    assert lease.disagreement(settings, steps=3, epochs=3) == 0
