"""The heat maps of a run: its files, what they show, and the section of the report."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from markupsafe import Markup

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant.reports.pictures import Picture
from calibrant.reports.sections import Section
from calibrant_lab.data import Dataset
from calibrant_lab.training.heat_maps import HeatMap, heat_maps
from calibrant_lab.training.run import Run, json_of

FOLDER = "heat-maps"
INDEX = "heat-maps.json"


def write_heat_maps(folder: Path, layer: str, maps: list[HeatMap]) -> list[Path]:
    """Write three PNG files for each map, and what they show; the paths of the maps above their images."""
    folder.mkdir(parents=True, exist_ok=True)
    # First, so that the folder of a command that was stopped is known; empty, so that no section shows it.
    _write_index(folder, layer, [])
    paths = [each.save(folder)[-1] for each in maps]
    shown = [
        {"name": each.name, "class": each.class_name, "probability": each.probability, "actual": each.actual}
        for each in maps
    ]
    _write_index(folder, layer, shown)
    return paths


def _write_index(folder: Path, layer: str, shown: list[dict[str, Any]]) -> None:
    write_text(folder / INDEX, json.dumps({"layer": layer, "maps": shown}, indent=2) + "\n")


def heat_map_facts(run: Run, dataset: Dataset) -> dict[str, str]:
    """Make the heat maps that a recipe asks for; why there are none, where that is so."""
    samples = run.recipe.evaluation.heat_maps
    if not samples:
        return {}
    try:
        write_heat_maps(run.folder.path / FOLDER, *heat_maps(run, samples=samples, dataset=dataset))
    except InputError as error:  # a training does not fail for its pictures
        return {"heat maps": str(error)}
    return {}


def heat_map_section(folder: Path) -> Section | None:
    """The heat maps in a run's directory, as its report shows them; None where there are none."""
    content = json_of(folder / FOLDER / INDEX)
    if content is None or not content["maps"]:
        return None
    pictures = tuple(
        Picture(
            Markup().join(
                _image(folder / FOLDER / f"{each['name']}-{kind}.png", said)
                for kind, said in (("image", "Test image"), ("overlay", f"Heat map of {each['class']}"))
            ),
            f"{each['class']}, {100 * each['probability']:.1f} %",
            note=f"labelled {', '.join(each['actual']) or 'with no class'}",
        )
        for each in content["maps"]
    )
    return Section(
        title="Where it looks",
        text=(
            "Grad-CAM: the brighter a place, the more it speaks for the class above the image.",
            "A map shows where evidence lies, and not whether it is a sound reason.",
        ),
        pictures=pictures,
        note=f"Test images drawn at random, as the network sees them; maps of the layer {content['layer']}.",
    )


def _image(path: Path, label: str) -> Markup:
    content = base64.b64encode(path.read_bytes()).decode("ascii")
    return Markup('<img class="map" alt="{}" src="data:image/png;base64,{}">').format(label, content)
