"""Where in an image a network sees a class: Grad-CAM, and pictures of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant._math.shapes import Float
from calibrant._math.text_form import nearest
from calibrant_lab.data import Dataset, LazyImages
from calibrant_lab.data.prepare import to_unit
from calibrant_lab.training.data import preparation, read_data
from calibrant_lab.training.run import Run
from calibrant_lab.training.views import middle

_OPACITY = 0.45  # of the map above the image


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    """One image, and where the network sees a class in it."""

    name: str
    """Names the image and the class; files begin with it."""
    image: Float[Tensor, "C H W"]
    """What the network sees, from 0 to 1."""
    heat: Float[Tensor, "H W"]
    """From 0 to 1, the largest being 1; all zero where nothing supports the class."""
    class_name: str
    probability: float
    """The probability of the class, as the network states it for this view."""
    actual: tuple[str, ...]
    """The classes that the image is labelled with."""

    def save(self, folder: Path) -> tuple[Path, ...]:
        """Write the image, the map and the map above the image, each as PNG; the last is for a report."""
        from matplotlib import colormaps

        channels = self.image if self.image.shape[0] == 3 else self.image[:1].expand(3, -1, -1)
        pixels, heat = channels.permute(1, 2, 0).numpy(), self.heat.numpy()
        above = (1 - _OPACITY) * pixels + _OPACITY * colormaps["inferno"](heat)[:, :, :3]
        pictures: dict[str, NDArray[Any]] = {"image": pixels, "map": heat, "overlay": above}
        return tuple(_write(folder / f"{self.name}-{kind}.png", each) for kind, each in pictures.items())


def _write(path: Path, picture: NDArray[Any]) -> Path:
    from PIL import Image

    with atomic_write(path) as temporary:
        Image.fromarray(np.round(picture * 255).astype(np.uint8)).save(temporary, format="png")
    return path


def grad_cam(
    model: nn.Module, images: Float[Tensor, "N C H W"], labels: Sequence[int], *, layer: nn.Module
) -> Float[Tensor, "N H W"]:
    r"""Grad-CAM of one class in each image, scaled to the size of the image (bilinear).

    .. math:: L = \max\Big(0, \sum_k \alpha_k A^k\Big), \qquad
              \alpha_k = \frac{1}{|A|} \sum_{ij} \frac{\partial z_c}{\partial A^k_{ij}}

    with the maps :math:`A^k` of ``layer`` and the logit :math:`z_c` of the class.

    Raises:
        InputError: If captum is not installed.

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
    """The name of the last layer whose maps are as large as those of the last convolution.

    That is the activation after it where there is one, and in a DenseNet that after all channels are joined.

    Raises:
        InputError: If the network has no convolution.
    """
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


def data_of(run: Run) -> Dataset:
    """The data that a run was trained on.

    Raises:
        InputError: If they are gone or have changed.
    """
    dataset = read_data(run.recipe.data)
    if dataset.sha256() != run.data_sha256:
        raise InputError(f"{run.folder.path} was trained on other data than {dataset.name} holds now.")
    return dataset


def heat_maps(
    run: Run,
    *,
    samples: int,
    label: str | None = None,
    layer: str | None = None,
    seed: int = 0,
    dataset: Dataset | None = None,
) -> tuple[str, list[HeatMap]]:
    """Grad-CAM of test images of a run, drawn at random: of the likeliest class, or of one by name.

    With a class by name, images that have it are drawn; where images may have several labels or none, images
    that have one. The network sees the middle view of each image.

    Args:
        run: A run with a checkpoint.
        samples: How many images at most.
        label: A class by name.
        layer: A layer by name; None: that of :func:`last_maps`.
        seed: Decides which images.
        dataset: The run's data, where they are in memory already.

    Returns:
        The name of the layer, and the maps.

    Raises:
        InputError: If the samples are not images, or there is no such class or layer.
    """
    dataset, model = dataset or data_of(run), run.model()
    if len(dataset.input_shape) != 3:
        raise InputError(f"heat maps are for images; {dataset.name} has samples of {dataset.input_shape}.")
    wanted = None if label is None else _class(label, dataset)
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
    classes = probs.argmax(dim=1).tolist() if wanted is None else [wanted] * len(rows)
    heat = grad_cam(model, inputs, classes, layer=layers[chosen])
    heat = heat / heat.amax(dim=(1, 2), keepdim=True).clamp(min=1e-12)
    found = [
        HeatMap(
            name=f"{_image_name(dataset, int(row))}-{_file_name(dataset.class_names[shown])}",
            image=unit[place].clamp(0, 1),
            heat=heat[place],
            class_name=dataset.class_names[shown],
            actual=_actual(dataset, int(row)),
            probability=float(probs[place, shown]),
        )
        for place, (row, shown) in enumerate(zip(rows, classes, strict=True))
    ]
    return chosen, found


def _class(label: str, dataset: Dataset) -> int:
    if label not in dataset.class_names:
        raise InputError(f"there is no class {label!r}{nearest(label, dataset.class_names)}")
    return dataset.class_names.index(label)


def _drawn(dataset: Dataset, wanted: int | None, samples: int, seed: int) -> Tensor:
    labels = dataset.test.labels
    having = labels.any(dim=1) if labels.ndim == 2 else torch.ones(len(labels), dtype=torch.bool)
    if wanted is not None:
        having = labels[:, wanted] == 1 if labels.ndim == 2 else labels == wanted
    rows = np.flatnonzero(having.numpy())
    if len(rows) == 0:
        raise InputError(f"no test image is of the class {dataset.class_names[wanted or 0]}.")
    drawn = np.random.default_rng(seed).permutation(rows)[:samples]
    return torch.from_numpy(np.sort(drawn))


def _actual(dataset: Dataset, row: int) -> tuple[str, ...]:
    label = dataset.test.labels[row]
    held = label.nonzero().flatten().tolist() if label.ndim else [int(label)]
    return tuple(dataset.class_names[each] for each in held)


def _image_name(dataset: Dataset, row: int) -> str:
    inputs = dataset.test.inputs
    return _file_name(Path(inputs.name(row)).stem) if isinstance(inputs, LazyImages) else f"test-{row:05}"


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.]+", "-", text)
