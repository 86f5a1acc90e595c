"""Grad-CAM heat maps of a class in images, their pictures, and the report section."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write, write_text
from calibrant._math.shapes import Float
from calibrant._math.text_form import named, nearest
from calibrant.reports.pictures import Picture
from calibrant.reports.sections import Section
from calibrant_lab.data import Dataset, LazyImages
from calibrant_lab.data.table import to_unit
from calibrant_lab.reports.run_panel import png, png_address
from calibrant_lab.training.data import data_of, preparation
from calibrant_lab.training.run import HEAT_MAPS, Run, json_of
from calibrant_lab.training.samples import middle

_OPACITY = 0.45  # of the map above the image
ACTUAL = "the labelled class"
"""In place of a class's name: the class that each image is labelled with, the most likely of several."""


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """One image with the map of a class."""

    name: str  # names the image and the class; files begin with it
    image: Float[Tensor, "C H W"]  # input view of the network, from 0 to 1
    heat: Float[Tensor, "H W"]  # from 0 to 1, the largest being 1; all zero where nothing supports the class
    class_name: str
    probability: float  # the probability of the class, as the network states it for this view
    actual: tuple[str, ...]  # the classes that the image is labelled with

    def save(self, folder: Path) -> tuple[Path, ...]:
        """Write image, map and overlay as PNG; the overlay is for a report."""
        from matplotlib import colormaps

        channels = self.image if self.image.shape[0] == 3 else self.image[:1].expand(3, -1, -1)
        pixels, heat = channels.permute(1, 2, 0).numpy(), self.heat.numpy()
        above = (1 - _OPACITY) * pixels + _OPACITY * colormaps["inferno"](heat)[:, :, :3]
        pictures: dict[str, NDArray[Any]] = {"image": pixels, "map": heat, "overlay": above}
        paths = {kind: folder / f"{self.name}-{kind}.png" for kind in pictures}
        for kind, picture in pictures.items():
            with atomic_write(paths[kind]) as temporary:
                temporary.write_bytes(png(picture))
        return tuple(paths.values())


def grad_cam(
    model: nn.Module, images: Float[Tensor, "N C H W"], labels: Sequence[int], *, layer: nn.Module
) -> Float[Tensor, "N H W"]:
    r"""Return Grad-CAM of one class per image, scaled to the image size (bilinear).

    .. math:: L = \max\Big(0, \sum_k \alpha_k A^k\Big), \qquad
              \alpha_k = \frac{1}{|A|} \sum_{ij} \frac{\partial z_c}{\partial A^k_{ij}}

    with the maps :math:`A^k` of ``layer`` and the logit :math:`z_c` of the class.

    References:
        Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization",
        ICCV 2017.
    """
    try:
        from captum.attr import LayerGradCam
    except ModuleNotFoundError as error:
        raise InputError(
            "heat maps need captum, which the extra `heat-maps` brings: pip install 'calibrant[heat-maps]'."
        ) from error
    method: Any = LayerGradCam(model, layer)
    maps: Tensor = method.attribute(images, target=torch.as_tensor(list(labels)), relu_attributions=True)
    sides = tuple(images.shape[2:])
    wide = torch.nn.functional.interpolate(maps.detach(), sides, mode="bilinear", align_corners=False)
    return wide[:, 0]


@torch.no_grad()
def last_maps(model: nn.Module, images: Float[Tensor, "N C H W"]) -> str:
    """Return the last layer with maps as large as the last convolution's, such as its activation."""
    seen: list[tuple[str, bool, tuple[int, ...]]] = []

    def look(name: str, module: nn.Module) -> Any:
        def hook(_module: nn.Module, _given: Any, made: Any) -> None:
            pools = "Pool" in type(module).__name__
            if isinstance(made, Tensor) and made.ndim == 4 and not pools:
                seen.append((name, isinstance(module, nn.Conv2d), tuple(made.shape[2:])))

        return module.register_forward_hook(hook)

    leaves = [
        (name, each)
        for name, each in model.named_modules()
        if isinstance(each, nn.Conv2d) or not list(each.children())  # some convolutions hold their padding
    ]
    handles = [look(name, module) for name, module in leaves]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()
    places = [place for place, (_, convolution, _) in enumerate(seen) if convolution]
    if not places:
        raise InputError("heat maps are for networks with convolutions; this one has none.")
    times, size = Counter(name for name, _, _ in seen), seen[places[-1]][2]
    once = [name for name, _, shape in seen[places[-1] :] if shape == size and times[name] == 1]
    return once[-1] if once else seen[places[-1]][0]


def heat_maps(
    run: Run,
    *,
    samples: int,
    label: str | None = None,
    layer: str | None = None,
    seed: int = 0,
    dataset: Dataset | None = None,
) -> tuple[str, list[HeatMap]]:
    """Return heat maps of random test images, for their most likely class, a named or the ``ACTUAL`` one.

    Images have the named class, or at least one label. The network sees the middle view of each image. The
    default ``layer`` is that of :func:`last_maps`; the layer's name is returned first.
    """
    dataset, model = dataset or data_of(run), run.model()
    if len(dataset.input_shape) != 3:
        raise InputError(f"heat maps are for images; {dataset.name} has samples of {dataset.input_shape}.")
    classes_by_name = {name: place for place, name in enumerate(dataset.class_names)}
    wanted = None if label in {None, ACTUAL} else named(str(label), classes_by_name, "class")
    rows = _drawn(dataset, wanted, samples, seed)
    unit = middle(to_unit(dataset.test.inputs[rows]), run.recipe.data.crop)
    inputs = preparation(run.recipe.data, dataset)(unit)
    layers = dict(model.named_modules())
    chosen = last_maps(model, inputs[:1]) if layer is None else layer
    if not chosen or chosen not in layers:
        raise InputError(f"the network has no layer {chosen!r}{nearest(chosen, layers)}")
    with torch.no_grad():
        logits = model(inputs)
    probs = logits.sigmoid() if dataset.multilabel else logits.softmax(dim=1)
    possible = _held(dataset, rows) if label == ACTUAL else torch.ones_like(probs)
    classes = (probs * possible).argmax(dim=1).tolist() if wanted is None else [wanted] * len(rows)
    heat = grad_cam(model, inputs, classes, layer=layers[chosen])
    heat = heat / heat.amax(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    seen, names = dataset.test.inputs, [f"test-{row:05}" for row in rows.tolist()]
    if isinstance(seen, LazyImages):
        names = [plain(Path(seen.name(row)).stem) for row in rows.tolist()]
    found = [
        HeatMap(
            name=f"{names[place]}-{plain(dataset.class_names[shown])}",
            image=unit[place].clamp(0, 1),
            heat=heat[place],
            class_name=dataset.class_names[shown],
            actual=tuple(name for name, has in zip(dataset.class_names, held, strict=True) if has),
            probability=float(probs[place, shown]),
        )
        for place, (shown, held) in enumerate(zip(classes, _held(dataset, rows), strict=True))
    ]
    return chosen, found


def _drawn(dataset: Dataset, wanted: int | None, samples: int, seed: int) -> Tensor:
    held = _held(dataset, torch.arange(len(dataset.test)))
    rows = np.flatnonzero((held.any(dim=1) if wanted is None else held[:, wanted]).numpy())
    if len(rows) == 0:
        raise InputError(f"no test image is of the class {dataset.class_names[wanted or 0]}.")
    drawn = np.random.default_rng(seed).permutation(rows)[:samples]
    return torch.from_numpy(np.sort(drawn))


def _held(dataset: Dataset, rows: Tensor) -> Tensor:
    """Return 1 for classes that images are labelled with, 0 for others ``(n, K)``."""
    labels = dataset.test.labels[rows]
    return labels if labels.ndim == 2 else one_hot(labels, dataset.num_classes)


def plain(name: str) -> str:
    """Return a name of an image or class as in the names of files."""
    return re.sub(r"[^\w.]+", "-", name)


INDEX = "heat-maps.json"


def write_heat_maps(folder: Path, layer: str, maps: list[HeatMap]) -> list[Path]:
    """Write three PNG files per map, and a description; return the overlays' paths."""

    def write_index(shown: list[HeatMap]) -> None:
        keys = {"name": "name", "class": "class_name", "probability": "probability", "actual": "actual"}
        found = [{key: getattr(each, name) for key, name in keys.items()} for each in shown]
        write_text(folder / INDEX, json.dumps({"layer": layer, "maps": found}, indent=2) + "\n")

    folder.mkdir(parents=True, exist_ok=True)
    # First, so that the folder of a command that was stopped is known; empty, so that no section shows it.
    write_index([])
    paths = [each.save(folder)[-1] for each in maps]
    write_index(maps)
    return paths


def heat_map_facts(run: Run, dataset: Dataset, label: str | None = None) -> dict[str, str]:
    """Make the heat maps that a recipe requests; return the reasons for missing ones."""
    samples = run.recipe.evaluation.heat_maps
    try:
        maps = heat_maps(run, samples=samples, label=label, dataset=dataset)
        write_heat_maps(run.folder.heat_maps, *maps)
    except InputError as error:  # a training does not fail for its pictures
        return {"heat maps": str(error)}
    return {}


def heat_map_section(run: Path) -> Section | None:
    folder = run / HEAT_MAPS
    content = json_of(folder / INDEX)
    if content is None or not content["maps"]:
        return None
    image = Markup('<img class="map" alt="{}" src="{}">')
    pictures = tuple(
        Picture(
            Markup().join(
                image.format(said, png_address((folder / f"{each['name']}-{kind}.png").read_bytes()))
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
