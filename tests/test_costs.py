"""What has not run and what it would cost: the same numbers wherever they stand."""

from __future__ import annotations

import re
from pathlib import Path

from calibrant_lab.sweep.grid import load_grid

ROOT = Path(__file__).parents[1]
RESNET_RUNS = 24
RESNET_HOURS = 0.44 * (45_000 // 128 + 1) * 60 / 3600  # of a run: 0.44 CPU seconds a step, 60 epochs
RUNS = 42  # 14 losses, three seeds
EPOCHS = 50


def text_of(path: str) -> str:
    """A file of the repository."""
    return (ROOT / path).read_text(encoding="utf-8")


def test_costs_of_the_residual_network_follow_from_one_step() -> None:
    """0.44 CPU seconds a step give the hours of the pages and of the grid."""
    page, grid = text_of("docs/results/gpu-runs.md"), text_of("lab/grids/cifar10-gammas.toml")
    hours, all_hours = f"{RESNET_HOURS:.1f}", f"{RESNET_RUNS * RESNET_HOURS:.0f}"
    assert len(load_grid(ROOT / "lab/grids/cifar10-gammas.toml").points) == RESNET_RUNS
    assert f"| {RESNET_RUNS} | {hours} CPU hours | {all_hours} CPU hours |" in page
    assert "(0.44 CPU seconds)" in page
    said = " ".join(grid.replace("# ", "").split())
    epoch = f"{RESNET_HOURS * 3600 / 60:.0f}"
    assert (
        f"0.44 CPU seconds on one core, so an epoch of 45,000 images some {epoch}, a run some {hours} "
        in said
    )
    assert f"the {RESNET_RUNS} runs some {all_hours} CPU hours" in said


def test_costs_of_texts_follow_from_the_benchmarks() -> None:
    """Epochs an hour as measured give the seconds of the recipe and the hours of the page."""
    page, benchmarks = text_of("docs/results/gpu-runs.md"), text_of("benchmarks/README.md")
    recipe = text_of("lab/recipes/20ng-gpcnn.toml")
    names = ("20ng-gpcnn", "20ng-gpcnn training.precision=bf16-mixed")
    found = [re.search(rf"^\| {re.escape(name)} \| (\d+) epochs", benchmarks, re.MULTILINE) for name in names]
    plain, half = (int(each[1]) for each in found if each)
    assert f"takes some {3600 / plain:.0f} s on one CPU core; {3600 / half:.0f} s with" in recipe
    assert f"{plain} epochs an hour of one core, in bfloat16 {half}" in page
    for rate in (plain, half):
        hours = EPOCHS / rate
        assert f"| {RUNS} | {hours:.1f} CPU hours | {RUNS * hours:.0f} CPU hours |" in page
