"""The linear-model study, small: descent and page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from calibrant.losses import focal_loss
from calibrant_lab.sweep.kept_runs import read_runs
from papers.linear_model import LINEAR_MODEL
from papers.linear_model.claims import NEEDED, claims, swapped
from papers.linear_model.measure import descend, draw, push, simulate
from papers.linear_model.numbers import numbers_of
from papers.linear_model.settings import GAMMAS, Setting
from papers.study import Session

SMALL = Setting(num_samples=80, num_test=400, learning_rate=0.5, iterations=3000)


def test_push_is_the_loss_s_slope() -> None:
    """The descent's formula is minus the slope of the library's focal loss in the true class's log-odds."""
    margin = torch.linspace(-6, 6, 25, dtype=torch.float64, requires_grad=True)
    logits = torch.stack([torch.zeros_like(margin), margin], 1)
    for gamma in GAMMAS:
        (slope,) = torch.autograd.grad(
            focal_loss(logits, torch.ones(25, dtype=torch.int64), gamma=gamma, reduction="sum"),
            margin,
            retain_graph=True,
        )
        found = push(margin.detach().numpy()[None], np.array([[gamma]]))[0]
        np.testing.assert_allclose(found, -slope.numpy(), rtol=1e-10, atol=1e-14)


def test_descent_arrives_at_the_minimum() -> None:
    """Gradient descent ends where Newton's method does, for every exponent."""
    found = simulate(SMALL, 0)
    assert all(arm["rest"] < 1e-6 for arm in found["arms"])
    norms = [arm["norm"] for arm in found["arms"]]
    assert norms == sorted(norms, reverse=True)


def test_the_posterior_is_the_frequency() -> None:
    """Labels of the drawn points have the stated probabilities."""
    sample = draw(Setting(spread=0.8), 200_000, seed=1)
    z = (sample.labels - sample.posterior).sum() / np.sqrt((sample.posterior * (1 - sample.posterior)).sum())
    assert abs(z) < 4
    near = np.abs(sample.points[:, 0]) < 0.5
    slope = ((sample.labels - sample.posterior) * sample.points[:, 0])[near]
    assert abs(slope.mean()) < 4 * slope.std() / np.sqrt(near.sum())


def test_descent_keeps_its_checkpoints() -> None:
    """The first and the last step are kept."""
    sample = draw(SMALL, 50, seed=0)
    found = descend(sample, Setting(iterations=40))
    assert min(found) == 1
    assert max(found) == 40
    assert found[40].shape == (len(GAMMAS), 2)


def test_what_the_appendix_does_not_say_is_not_its_claim() -> None:
    """Faster growth is said of networks, and left open on this model; a lower ECE is said nowhere."""
    numbers = numbers_of([{"seed": seed, **asdict(SMALL), **simulate(SMALL, seed)} for seed in range(3)], {})
    asked = {claim.key: claim for claim in claims(numbers)}
    assert asked["faster-at-first"].source.endswith("section 4")
    assert asked["faster-at-first"].said == "depends on the network"
    assert asked["lower-ece"].source == asked["nearer-truth"].source == NEEDED
    assert asked["less-sure"].source.endswith("appendix G")
    turned = claims(swapped(numbers, "0", "1"))
    assert {each.key: each.verdict for each in turned}["faster-at-first"] == "holds"


def test_linear_model_page(tmp_path: Path) -> None:
    """Page, numbers and picture, the same bytes from the same runs; runs done again find the same."""
    session, small = Session(tell=lambda _: None), {"settings": {**asdict(SMALL), "iterations": 300}}

    def made(out: Path | None, table: Path | None) -> list[Path]:
        return [Path(path) for path in LINEAR_MODEL.run(session, small, out=out, seeds=2, table=table)]

    first = made(tmp_path / "a", None)
    assert [path.name for path in first] == ["linear-model.md", "linear-model.json", "linear-model.svg"]
    written = [path.read_bytes() for path in first]
    assert made(None, tmp_path / "a") == first
    assert [path.read_bytes() for path in first] == written
    other = made(tmp_path / "b", None)
    found = [[run.found for run in read_runs(files[1])] for files in (first, other)]
    assert found[0] == found[1]  # what made the runs, their CPU time above all, may differ
    text = first[0].read_text(encoding="utf-8")
    assert "nan" not in text
    numbers = LINEAR_MODEL.pages[0].read(tmp_path / "a")
    assert numbers["arms"][0]["norm"]["n"] == 2
    each = [run["arms"][0]["norm"] for run in numbers["runs"]]
    assert numbers["arms"][0]["norm"]["mean"] == pytest.approx(sum(each) / 2, rel=1e-5)
