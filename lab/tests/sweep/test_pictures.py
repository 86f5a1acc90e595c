"""Figures of a store by name: courses, curvature, published numbers and heat maps."""

import itertools
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from calibrant._math.errors import InputError
from calibrant._math.means import mean_of
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.tables.figures import draw, published, quantity_of
from calibrant_lab.tables.pictures import draw_figure
from calibrant_lab.training.heat_maps import HeatMap, write_heat_maps
from calibrant_lab.training.run import HEAT_MAPS
from results_by_hand import CIFAR, make_result

NAMES = (
    "nll",
    "ece",
    *(f"{name}_{end}" for name in ("nll", "entropy", "p_true") for end in ("correct", "incorrect")),
)
CURVATURE = {"cross-entropy": 1.0, "brier": 8.0, "focal(gamma=1)": 10.0, "focal(gamma=3)": 15.0}
ECE = {"cross-entropy": 0.02, "brier": 0.04, "focal(gamma=1)": 0.06, "focal(gamma=3)": 0.08}


def run(loss: str, seed: int, **settings: Any) -> RunResult:
    """A run of six epochs, with a lower rate after the fourth."""
    rows = [
        {"epoch": epoch, "learning_rate": 0.1 if epoch < 5 else 0.01, "last_layer_norm": 1.0 + epoch}
        | {f"calibration_{name}": ECE[loss] + seed / epoch for name in NAMES}
        for epoch in range(1, 7)
    ]
    numbers = {"lambda_max": CURVATURE[loss] + seed / 10, "trace": 10 * CURVATURE[loss] + seed}
    return make_result(
        {"loss": loss, "schedule.name": "steps", **settings, "seed": seed},
        {"uncalibrated": {"ece": ECE[loss]}},
        more={"curvature": {"own": numbers, "cross_entropy": numbers}},
        _rows=lambda: rows,
    )


def test_courses_are_means_with_bands_and_rate_drops() -> None:
    """Means over seeds by epoch, their intervals as bands, a line at a lower rate; one seed has no band."""
    runs = [run(loss, seed) for loss in ("brier", "cross-entropy") for seed in range(3)]
    drawn, _ = draw_figure(["dynamics"], runs)
    assert len(drawn.axes) == 8
    ax = drawn.axes[0]
    means = [mean_of([ECE["brier"] + seed / epoch for seed in range(3)]) for epoch in range(1, 7)]
    assert ax.lines[0].get_ydata() == pytest.approx([mean.value for mean in means])
    ends = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == pytest.approx((means[0].low, means[0].high))
    assert ax.lines[-1].get_xdata() == [4.5, 4.5]
    alone, said = draw_figure(["dynamics"], runs[:1])
    assert not alone.axes[0].collections[0].get_paths()
    assert "they need 3 seeds, which these lack: brier" in said[0]


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_unit_of_a_correlation_is_the_loss(seeds) -> None:
    """Rank correlation of the means, p by all orders of the losses: more seeds make no smaller p."""
    _, said = draw_figure(["curvature"], [run(loss, seed) for loss in ECE for seed in range(seeds)])
    first, second = [*CURVATURE.values()], [*ECE.values()]
    rho = stats.spearmanr(first, second).statistic
    others = [stats.spearmanr(each, second).statistic for each in itertools.permutations(first)]
    p = 2 * np.mean([each >= rho - 1e-9 for each in others])
    assert f"trace, training loss: {rho:+.2f}, p = {min(1, 4 * p):.2g}" in said
    assert "The unit is a value of loss" in said[-1]


@pytest.mark.parametrize(
    ("loss", "quantity", "across", "points"),
    [
        ("focal(gamma=2)", "ece", "gamma", {0: 4.35, 1: 3.42, 2: 2.36, 3: 1.48}),
        ("focal(gamma=2)", "error@temperature", "gamma", {0: 4.95, 1: 4.93, 2: 4.98, 3: 5.25}),
        ("focal(gamma=2)", "nll", "gamma", {0: 0.4121, 1: 0.2267, 2: 0.186, 3: 0.1843}),
        ("focal-calibration", "ece", "calibration_weight", {1.5: 0.76}),
        ("brier", "ece", "gamma", {}),
        ("focal(gamma=2)", "ece@isotonic", "gamma", {}),
    ],
)
def test_published_numbers_by_a_setting_of_the_loss(loss, quantity, across, points) -> None:
    """As the papers print them, in our unit, for the dataset and network of the runs, or for others named."""
    wanted = quantity_of(quantity)
    ours, digits = (make_result({**settings, "loss": loss}) for settings in (CIFAR, {"data.name": "digits"}))
    for run_, like in ((ours, ()), (digits, ("CIFAR-10", "ResNet-50"))):
        found = published([run_], wanted, f"loss.{across}", like)
        assert dict(next(iter(found.values()), ())) == pytest.approx(points)
    assert published([digits], wanted, "loss.gamma") == {}


def test_published_numbers_are_drawn_beside_the_runs() -> None:
    """Cross-entropy is focal loss with gamma 0, in the runs as in the papers."""
    runs = [run(loss, seed, **CIFAR) for loss in ("cross-entropy", "focal(gamma=1)") for seed in (0, 1)]
    drawn = draw(runs, [quantity_of("ece")], "loss.gamma")
    ours, theirs = (line for line in drawn.axes[0].get_lines() if line.get_gid())
    assert ([*ours.get_xdata()], [*theirs.get_xdata()]) == ([0, 1], [0, 1, 2, 3])
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert names == ["these runs", "Mukhoti et al. (2020), CIFAR-10, ResNet-50"]


def _file(folder: Path, name: str) -> Path:
    if not (folder / name).exists():
        raise FileNotFoundError(name)
    return folder / name


@pytest.fixture
def looked(tmp_path: Path) -> list[RunResult]:
    """Cross-entropy looks at the upper left corner of two images, brier at the lower right one."""
    found = []
    for loss, (row, column) in {"cross-entropy": (0, 0), "brier": (7, 7)}.items():
        for seed in (0, 1):
            heat = torch.zeros(8, 8)
            heat[row, column] = 1.0
            seen = {"image": torch.rand(3, 8, 8), "heat": heat, "probability": 0.5}
            cat = {"class_name": "a cat", "actual": ("a cat",)}
            maps = [HeatMap(name=f"{name}-a-cat", **seen, **cat) for name in ("one", "two")]
            write_heat_maps(tmp_path / f"{loss}-{seed}" / HEAT_MAPS, "1", maps)
            result = make_result({"loss": loss, "seed": seed, "data.size": 8, "data.crop": 0})
            found.append(replace(result, _file=partial(_file, tmp_path / f"{loss}-{seed}")))
    return found


def boxes(folder: Path, bbox: list[int], file: str = "one.jpg") -> dict[str, Path]:
    content = {
        "images": [{"id": 1, "file_name": f"images/{file}", "width": 80, "height": 160}],
        "annotations": [{"image_id": 1, "category_id": 3, "bbox": bbox}],
        "categories": [{"id": 3, "name": "a cat"}],
    }
    (folder / "boxes.json").write_text(json.dumps(content), encoding="utf-8")
    return {"boxes": folder / "boxes.json"}


def test_heat_maps_point_into_boxes(tmp_path, looked) -> None:
    """A row per image, a column per loss; the maximum of a map is inside the box, or it is not."""
    drawn, said = draw_figure(["heat-maps"], looked, **boxes(tmp_path, [0, 0, 40, 80]))
    assert len(drawn.axes) == 2 * 3
    assert [len(ax.patches) for ax in drawn.axes] == [0, 1, 1, 0, 0, 0]
    assert said[1:] == ["Pointing game, brier: 0 of 2 maps.", "Pointing game, cross-entropy: 2 of 2 maps."]
    # The network sees the middle half of each side, so that a box in the image's middle has both corners.
    cropped = [replace(each, settings={**each.settings, "data.crop": 4}) for each in looked]
    _, said = draw_figure(["heat-maps"], cropped, **boxes(tmp_path, [20, 40, 40, 80]))
    assert said[1:] == ["Pointing game, brier: 2 of 2 maps.", "Pointing game, cross-entropy: 2 of 2 maps."]
    _, said = draw_figure(["heat-maps"], cropped, **boxes(tmp_path, [0, 0, 40, 80]))
    assert "cross-entropy: 2 of 2" in said[2]
    with pytest.raises(InputError, match="no box of an image and class"):
        draw_figure(["heat-maps"], looked, **boxes(tmp_path, [0, 0, 40, 80], "three.jpg"))
    with pytest.raises(InputError, match="no seed in common"):
        draw_figure(["heat-maps"], [looked[0], looked[3]])
    (tmp_path / "boxes.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="not COCO's annotations of images"):
        draw_figure(["heat-maps"], looked, boxes=tmp_path / "boxes.json")
