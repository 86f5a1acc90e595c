"""What has not run and what it would cost: the same numbers wherever they stand."""

import re
from pathlib import Path

from calibrant_lab.sweep.grid import load_grid

ROOT = Path(__file__).parents[1]
TEXT_RUNS, TEXT_EPOCHS = 42, 50  # 14 losses, three seeds
STEP, EPOCHS = 0.44, 60  # CPU seconds of the ResNet of 20 layers; of 45,000 images in batches of 128


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_costs_of_the_residual_network_follow_from_one_step() -> None:
    """0.44 CPU seconds a step give the hours of the page and of the grid."""
    page, grid = text_of("papers/repeats/page.md"), text_of("papers/cifar10/gammas.toml")
    epoch = STEP * (45_000 // 128 + 1)
    hours, runs = epoch * EPOCHS / 3600, len(load_grid(ROOT / "papers/cifar10/gammas.toml").points)
    assert f"| {runs} | {hours:.1f} CPU hours | {runs * hours:.0f} CPU hours |" in page
    assert f"({STEP} CPU seconds" in page
    said = " ".join(grid.replace("# ", "").split())
    each = f"an epoch of 45,000 images some {epoch:.0f}, a run some {hours:.1f} "
    assert f"{STEP} CPU seconds on one core, so {each}" in said
    assert f"the {runs} runs some {runs * hours:.0f} CPU hours" in said


def test_costs_of_texts_follow_from_the_benchmarks() -> None:
    """Epochs an hour as measured give the seconds of the recipe and the hours of the page."""
    page, benchmarks = text_of("papers/repeats/page.md"), text_of("benchmarks/README.md")
    recipe = text_of("lab/recipes/20ng-gpcnn.toml")
    names = ("20ng-gpcnn", "20ng-gpcnn training.precision=bf16-mixed")
    found = [re.search(rf"^\| {re.escape(name)} \| (\d+) epochs", benchmarks, re.MULTILINE) for name in names]
    plain, half = (int(each[1]) for each in found if each)
    assert f"takes some {3600 / plain:.0f} s on one CPU core; {3600 / half:.0f} s with" in recipe
    assert f"{plain} epochs an hour of one core, in bfloat16 {half}" in " ".join(page.split())
    for rate in (plain, half):
        hours = TEXT_EPOCHS / rate
        assert f"| {TEXT_RUNS} | {hours:.1f} CPU hours | {TEXT_RUNS * hours:.0f} CPU hours |" in page
