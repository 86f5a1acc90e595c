"""Figures of a store's runs by name: training dynamics, curvature, common images and heat maps."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy import stats

from calibrant._math.errors import InputError
from calibrant._math.text_form import plural
from calibrant.predictions import load_predictions
from calibrant.predictions.detections import annotated_boxes
from calibrant.reports.figures.drawing import GREEN, VERMILLION, drawing_style, named_legend
from calibrant_lab.reports.curvature import scatter
from calibrant_lab.reports.dynamics import courses_of, draw_courses
from calibrant_lab.reports.run_panel import Answer, answers, pixels_of
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.sweep.tasks.training import data_of, recipe_of
from calibrant_lab.tables.build import adjusted, natural
from calibrant_lab.tables.figures import FEWEST, check_few, draw, quantity_of
from calibrant_lab.tables.layout import varying
from calibrant_lab.training.heat_maps import INDEX, plain
from calibrant_lab.training.run import HEAT_MAPS, json_of

Arms: TypeAlias = Mapping[str, Mapping[Any, RunResult]]  # by what varies besides the seed, then by seed
Boxes: TypeAlias = Sequence[Sequence[float]]  # x and y of the corner, width, height, as shares of the image
Pixels: TypeAlias = np.ndarray[Any, Any]
_NARROW = 7  # inches below which the panels of dynamics are in two columns
_CURVATURES = {
    f"{title}, {said}": (loss, name)
    for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
    for loss, said in (("own", "training loss"), ("cross_entropy", "cross-entropy"))
}


class Picture(NamedTuple):
    """A figure, and sentences to print with it."""

    figure: Figure
    said: Sequence[str] = ()


def draw_figure(
    wanted: Sequence[str],
    results: Sequence[RunResult],
    *,
    across: str | None = None,
    by: str | None = None,
    like: str = "",
    **options: Any,
) -> Picture:
    """Draw quantities of finished runs against a setting, or one of ``PICTURES``.

    ``options`` can be ``width`` in inches, and ``boxes``, COCO's annotations of the images of heat maps.
    """
    name = next((each for each in wanted if each in PICTURES), "")
    if options.get("boxes") and name != "heat-maps":
        raise InputError("--boxes goes with --figure heat-maps.")
    if name and (len(wanted) > 1 or across or like):
        raise InputError(f"--figure {name} goes with neither --x, --published nor another --figure.")
    if not name:
        if across is None or not wanted:
            raise InputError(
                f"--figure must be {', '.join(PICTURES)}, or go with --x, as in --figure ece --x loss."
            )
        names = [each.strip() for each in like.split(",")] if like else []
        return Picture(draw(results, [*map(quantity_of, wanted)], across, by=by, like=names))
    levels = [by] if by else varying(results, "seed") or ["loss"]
    arms: dict[str, dict[Any, RunResult]] = defaultdict(dict)
    for each in sorted(results, key=lambda each: natural(each.settings.get("seed"))):
        arm, seed = ", ".join(str(each.settings.get(level)) for level in levels), each.settings.get("seed")
        if arms[arm].setdefault(seed, each) is not each:
            raise InputError(
                f"several runs of {arm} have seed = {seed}; choose by --where, or leave out --by."
            )
    check_few(len(arms))
    ordered = {arm: arms[arm] for arm in sorted(arms, key=natural)}
    with drawing_style():
        return PICTURES[name](ordered, unit=", ".join(levels), **options)


def _dynamics(arms: Arms, *, width: float | None = None, **_others: Any) -> Picture:
    split, courses = courses_of({arm: [each.rows for each in runs.values()] for arm, runs in arms.items()})
    if courses.empty:
        raise InputError("no run recorded its dynamics; trainings with single labels do.")
    drops = set.intersection(*(_drops(each) for runs in arms.values() for each in runs.values()))
    figure = draw_courses(courses, drops=sorted(drops), columns=2 if width and width < _NARROW else 4)
    few = ", ".join(arm for arm, runs in arms.items() if len(runs) < FEWEST)
    bare = f"; they need {FEWEST} seeds, which these lack: {few}" if few else ""
    return Picture(figure, [f"Means over seeds on {split} samples; bands are 95% intervals{bare}."])


def _drops(result: RunResult) -> set[int]:
    if result.settings.get("schedule.name") not in {"steps", "plateau"}:
        return set()
    pairs = pairwise(result.rows)
    return {one["epoch"] for one, other in pairs if other["learning_rate"] < one["learning_rate"]}


def _curvature(arms: Arms, *, unit: str, **_others: Any) -> Picture:
    found: Any = pd.DataFrame(
        {"arm": arm, "ECE": 100 * ece}
        | {title: each.more["curvature"][loss][name] for title, (loss, name) in _CURVATURES.items()}
        for arm, runs in arms.items()
        for each in runs.values()
        if "curvature" in each.more and (ece := each.value("ece")) is not None
    )
    if found.empty:
        raise InputError(
            "no run measured its curvature; set evaluation.curvature = 500 in the grid's recipe."
        )
    means, count = found.groupby("arm", sort=False).mean(), plural(found["arm"].nunique(), "value")
    if len(means) < FEWEST:
        raise InputError(f"a correlation needs {FEWEST} values of {unit}; the runs have {len(means)}.")

    def correlation(each: Any) -> Any:
        return stats.spearmanr(each, means["ECE"]).statistic

    tests = [
        stats.permutation_test((means[title],), correlation, permutation_type="pairings", rng=0)
        for title in _CURVATURES
    ]
    p_values = adjusted([float(test.pvalue) for test in tests], "holm")
    figure, said = Figure(figsize=(6.4, 5.2), layout="constrained"), list[str]()
    panels = figure.subplots(2, 2, sharey=True)
    for ax, title, test, p in zip(panels.flat, _CURVATURES, tests, p_values, strict=True):
        scatter(ax, {arm: (each[title], each["ECE"]) for arm, each in found.groupby("arm", sort=False)})
        said.append(f"{title}: {test.statistic:+.2f}, p = {p:.2g}")
        ax.set(xlabel=title, title=f"Spearman's ρ = {test.statistic:+.2f}")
    for ax in panels[:, 0]:
        ax.set_ylabel("ECE %")
    entries = [*zip(means.index, panels[0, 0].get_lines(), strict=True)]
    named_legend(figure, entries, loc="outside lower center", ncols=3)
    head = f"Spearman's correlation with ECE over {count} of {unit}, each the mean of its seeds:"
    note = f"The unit is a value of {unit}, since its seeds repeat one comparison."
    how = "Each p is from permutations of units, adjusted by Holm's method."
    return Picture(figure, [head, *said, f"{note} {how}"])


class _Tile(NamedTuple):
    """An image with words below it, or words alone."""

    text: str
    colour: str = "black"
    pixels: Pixels | None = None
    boxes: Boxes = ()


def _sheet(heads: Sequence[str], rows: Sequence[Sequence[_Tile]]) -> Figure:
    figure = Figure(figsize=(1.2 * len(heads), 1.1 * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), len(heads), squeeze=False)
    for ax, head in zip(axes[0], heads, strict=True):
        ax.set_title("\n".join(textwrap.wrap(head, 18)), fontsize="small", parse_math=False)
    for ax, tile in zip(axes.flat, (tile for row in rows for tile in row), strict=True):
        ax.set_axis_off()
        style: dict[str, Any] = {"ha": "center", "fontsize": "small", "color": tile.colour}
        style["parse_math"] = False
        if tile.pixels is None:
            ax.text(0.5, 0.5, tile.text, va="center", **style)
            continue
        height, width = tile.pixels.shape[:2]
        ax.imshow(tile.pixels, cmap="gray", vmin=0, vmax=1, extent=(0, 1, 1, 0), aspect=height / width)
        ax.text(0.5, 1.04, tile.text, va="top", **style)
        for x, y, across, up in tile.boxes:
            ax.add_patch(Rectangle((x, y), across, up, fill=False, edgecolor="white", linewidth=1.2))
    return figure


def _of_one_seed(arms: Arms) -> tuple[Any, dict[str, RunResult]]:
    seeds = set.intersection(*({*runs} for runs in arms.values()))
    if not seeds:
        raise InputError("the runs have no seed in common; choose by --where.")
    return min(seeds), {arm: runs[min(seeds)] for arm, runs in arms.items()}


def _images(arms: Arms, **_others: Any) -> Picture:
    seed, runs = _of_one_seed(arms)
    data = data_of(recipe_of(next(iter(runs.values())).settings))
    if {each.inputs.get("data") for each in runs.values()} != {data.sha256}:
        raise InputError("the runs do not all have the present test images; choose by --where.")
    test, names = data.dataset.test, data.dataset.class_names
    stated = {arm: load_predictions(each.file("predictions.npz")) for arm, each in runs.items()}
    rows = [
        [_Tile(names[int(test.labels[row])], pixels=pixels_of(test.inputs[row])), *map(_answer, each)]
        for row, each in answers(stated, test, names).items()
    ]
    if not rows:
        raise InputError("--figure images is for images with single labels.")
    said = f"Seed {seed}: answers to random test images, and their confidence before → after T."
    return Picture(_sheet(["", *runs], rows), [said])


def _answer(found: Answer) -> _Tile:
    mark, colour = ("✓", GREEN) if found.right else ("✗", VERMILLION)
    return _Tile(f"{mark} {found.name}\n{found.before:.1%} → {found.after:.1%}", colour)


def _heat_maps(arms: Arms, *, boxes: Path | None = None, **_others: Any) -> Picture:
    annotated = annotated_boxes(boxes) if boxes else {}
    known = {(plain(Path(image).stem), name): found for (image, name), found in annotated.items()}
    seed, runs = _of_one_seed(arms)
    maps = {arm: _maps_of(each) for arm, each in runs.items()}
    first, *others = maps
    images = [image for image in maps[first] if all(image in maps[arm] for arm in others)]
    if not images:
        raise InputError(
            "the runs have no heat maps of common images; set evaluation.heat_maps = 8 in the grid's recipe "
            "and install the extra: pip install 'calibrant[heat-maps]'."
        )

    def tile(arm: str, image: str, kind: str = "overlay") -> _Tile:
        found, pixels = maps[arm][image], _pixels(runs[arm], maps[arm][image], kind)
        if kind == "image":
            return _Tile(", ".join(found["actual"]), pixels=pixels)
        inside = _in_view(known.get((image, found["class"]), ()), runs[arm].settings)
        return _Tile(f"{found['class']}, {found['probability']:.0%}", pixels=pixels, boxes=inside)

    rows = [[tile(first, image, "image"), *(tile(arm, image) for arm in runs)] for image in images]
    said = [f"Seed {seed}: Grad-CAM of the labelled class, and its probability."]
    return Picture(_sheet(["", *runs], rows), [*said, *(_pointing_game(arms, known) if boxes else [])])


def _maps_of(result: RunResult) -> dict[str, Any]:
    try:
        content = json_of(result.file(f"{HEAT_MAPS}/{INDEX}")) or {}
    except FileNotFoundError:
        return {}
    return {each["name"].removesuffix(f"-{plain(each['class'])}"): each for each in content.get("maps", ())}


def _pixels(result: RunResult, found: Mapping[str, Any], kind: str) -> Pixels:
    from PIL import Image

    return np.asarray(Image.open(result.file(f"{HEAT_MAPS}/{found['name']}-{kind}.png"))) / 255


def _pointing_game(arms: Arms, boxes: Mapping[tuple[str, str], Boxes]) -> list[str]:
    said = []
    for arm, runs in arms.items():
        hits = [
            _points_into(_pixels(each, found, "map"), _in_view(boxes[image, found["class"]], each.settings))
            for each in runs.values()
            for image, found in _maps_of(each).items()
            if (image, found["class"]) in boxes
        ]
        said += [f"Pointing game, {arm}: {sum(hits)} of {len(hits)} maps."] if hits else []
    if not said:
        raise InputError("--boxes has no box of an image and class of heat-maps.json.")
    return said


def _in_view(boxes: Boxes, settings: Mapping[str, Any]) -> Boxes:
    """Return boxes as shares of the middle of the image, which ``data.crop`` shows the network."""
    crop, size = settings.get("data.crop", 0), settings.get("data.size", 0)
    if not crop or not boxes:
        return boxes
    if not size:
        raise InputError("--boxes needs data.size in the recipe, since data.crop cuts the images.")
    scale, margin = size / crop, (size / crop - 1) / 2
    return [(scale * x - margin, scale * y - margin, scale * w, scale * h) for x, y, w, h in boxes]


def _points_into(heat: Pixels, boxes: Boxes) -> bool:
    row, column = np.unravel_index(int(heat.argmax()), heat.shape)
    x, y = (column + 0.5) / heat.shape[1], (row + 0.5) / heat.shape[0]
    inside = any(left <= x <= left + width and top <= y <= top + height for left, top, width, height in boxes)
    return bool(heat.any()) and inside


PICTURES: Mapping[str, Callable[..., Picture]] = {
    "dynamics": _dynamics,
    "curvature": _curvature,
    "images": _images,
    "heat-maps": _heat_maps,
}
