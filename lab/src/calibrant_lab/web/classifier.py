"""A network, its calibrator, and what both say of an image."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import nearest
from calibrant.calibrators import Calibrator
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired, to_repair
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Upload
from calibrant_lab.data import Geometry, Preparation
from calibrant_lab.data.prepare import to_unit
from calibrant_lab.training.heat_maps import grad_cam, last_maps
from calibrant_lab.training.views import averaged, middle, ten_crops
from calibrant_lab.web.images import as_bytes, decoded, png
from calibrant_lab.web.intervals import Refits


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A network with the way that its images go."""

    network: nn.Module
    geometry: Geometry
    preparation: Preparation
    channels: int
    side: int = 0
    """Side of the squares that are cut out; 0: the whole image."""
    ten: bool = False
    """Whether the probabilities of ten squares are averaged, or only the middle one is seen."""
    multilabel: bool = False

    def logits(self, images: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        """What the network says of images of one size, as bytes."""
        prepared = self.preparation(to_unit(images))
        with torch.no_grad():
            if not self.ten:
                return self._said(middle(prepared, self.side))
            views = [self._said(view) for view in ten_crops(prepared, self.side)]
        return averaged(views, multilabel=self.multilabel)

    def middle_of(self, image: Float[Tensor, "C H W"]) -> tuple[Tensor, Tensor]:
        unit = middle(to_unit(image[None]), self.side)
        return unit[0], self.preparation(unit)

    def _said(self, view: Tensor) -> Tensor:
        given = self.network(view)
        found: Tensor = given if isinstance(given, Tensor) else given.logits
        return found[:, None] if found.ndim == 1 else found


Tell = Callable[[str, float], None]
LIKELIEST = "likeliest"
_KEYS = ("name", "raw", "calibrated", "low", "high", "prevalence")


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Everything that an answer about an image needs."""

    name: str
    seen: Seen
    columns: Tensor | None
    """Which outputs of the network, and in which order; None: all as they come."""
    class_names: tuple[str, ...]
    multilabel: bool
    calibrator: Calibrator | None
    refits: Refits | None
    prevalence: tuple[float, ...] | None
    """How often each class occurs among the calibration samples."""
    num_calibration: int | None
    notice: str | None
    layer: list[str] = field(default_factory=list[str])
    """Name of the layer whose maps are drawn, once it is known: a pass through the network finds it."""

    def described(self, _: Tell) -> dict[str, Any]:
        """What the page says of the network before an image is chosen."""
        return {
            "name": self.name,
            "classes": list(self.class_names),
            "multilabel": self.multilabel,
            "calibrator": None if self.calibrator is None else self.calibrator.title,
            "level": None if self.refits is None else self.refits.level,
            "num_calibration": self.num_calibration,
            "notice": self.notice,
        }

    def predictions(self, files: Sequence[Upload], limits: Limits, _: Tell) -> list[dict[str, Any] | Refusal]:
        """Raw and calibrated probabilities for each image, or why there are none."""
        answers: list[dict[str, Any] | Refusal] = []
        inputs: list[tuple[int, Tensor]] = []
        for place, file in enumerate(files):
            try:
                image = decoded(file, limits)
                inputs.append((place, as_bytes(image, self.seen.geometry, self.seen.channels)))
                answers.append({"name": file.name, "width": image.width, "height": image.height})
            except (Refusal, InputError) as error:
                answers.append(error if isinstance(error, Refusal) else Refusal(422, f"{file.name}: {error}"))
        for alike in _of_one_shape(inputs):
            rows = self._judged(torch.stack([each for _, each in alike]))
            for (place, _pixels), row in zip(alike, rows, strict=True):
                found = answers[place]
                if isinstance(found, dict):
                    found["classes"] = row
        return answers

    def with_map(self, file: Upload, of: str, limits: Limits, tell: Tell) -> dict[str, Any]:
        """The probabilities for one image, what the network sees of it, and where it sees a class."""
        (answer,) = self.predictions([file], limits, tell)
        if isinstance(answer, Refusal):
            raise answer
        names = list(self.class_names)
        if of == LIKELIEST:
            of = max(answer["classes"], key=lambda row: row["calibrated"])["name"]
        elif of not in names:
            raise Refusal(
                422, f"`map` must name a class, or be {LIKELIEST}; got {of[:50]!r}{nearest(of, names)}"
            )
        tell("drawing the map", 0.5)
        image = as_bytes(decoded(file, limits), self.seen.geometry, self.seen.channels)
        unit, prepared = self.seen.middle_of(image)
        network = self.seen.network
        try:
            if not self.layer:
                self.layer.append(last_maps(network, prepared))
            layer = network.get_submodule(self.layer[0])
            column = self._column(names.index(of), image)
            heat = grad_cam(network, prepared, [column], layer=layer)[0]
        except (InputError, AssertionError, IndexError) as error:
            said = str(error) or "this network has no maps of this class."
            return answer | {"map_error": said, "image": _address(_picture(unit))}
        strongest = float(heat.max())
        heat = (heat / max(strongest, 1e-12)).clamp(0, 1)
        return answer | {
            "map_of": of,
            "image": _address(_picture(unit)),
            "map": _address(png(_coloured(heat))),
            "map_empty": strongest <= 0,
        }

    def _column(self, place: int, image: Tensor) -> int:
        """The network's output for a class; a single output for two classes speaks for the second."""
        if self.columns is not None:
            return int(self.columns[place])
        if len(self.class_names) != 2 or self.seen.logits(image[None]).shape[1] > 1:
            return place
        if place == 0:
            raise InputError(f"this network has one output, whose map is that of {self.class_names[1]}.")
        return 0

    def _judged(self, images: Tensor) -> list[list[dict[str, Any]]]:
        try:
            logits = self.seen.logits(images)
        except RuntimeError as error:
            said = str(error).partition("\n")[0]
            raise Refusal(422, f"the network takes no images of this size ({said}).") from error
        logits = logits if self.columns is None else logits[:, self.columns]
        one = logits.shape[1] == 1
        logits = torch.cat([logits, logits[:1]])  # predictions are of two samples or more
        given = Predictions(
            logits=logits[:, 0] if one else logits, kind="multilabel" if self.multilabel else None
        )
        raw, low, high = _columns(given.probs), None, None
        calibrated = raw
        if self.calibrator is not None:
            form = to_repair(given) if self.calibrator.kind_ == "binary" else given
            probs = torch.as_tensor(self.calibrator.predict_proba(form.scores))
            calibrated = _columns(repaired(given, probs).probs)
            if self.refits is not None:
                low, high = _both(*self.refits.interval(form.scores))
        count = len(images)
        parts = [_rows(part, count, len(self.class_names)) for part in (raw, calibrated, low, high)]
        prevalence = self.prevalence or [None] * len(self.class_names)
        return [
            [
                dict(zip(_KEYS, row, strict=True))
                for row in zip(self.class_names, *(part[place] for part in parts), prevalence, strict=True)
            ]
            for place in range(count)
        ]


def _rows(part: Tensor | None, count: int, classes: int) -> list[list[float | None]]:
    return [[None] * classes] * count if part is None else part[:count].tolist()


def _of_one_shape(inputs: Sequence[tuple[int, Tensor]]) -> list[list[tuple[int, Tensor]]]:
    shapes: dict[tuple[int, ...], list[tuple[int, Tensor]]] = {}
    for place, pixels in inputs:
        shapes.setdefault(tuple(pixels.shape), []).append((place, pixels))
    return list(shapes.values())


def _columns(probs: Tensor) -> Tensor:
    """A column for each class; of an event that of class 0, too."""
    return torch.stack([1 - probs, probs], dim=1) if probs.ndim == 1 else probs


def _both(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    if low.ndim == 1:
        return torch.stack([1 - high, low], dim=1), torch.stack([1 - low, high], dim=1)
    return low, high


def _picture(unit: Tensor) -> bytes:
    pixels = unit.clamp(0, 1)
    return png((pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).numpy())


def _coloured(heat: Tensor) -> Any:
    """The map in colours, transparent where nothing supports the class."""
    from matplotlib import colormaps

    colours = colormaps["inferno"](heat.numpy())
    colours[:, :, 3] = heat.numpy() ** 0.5
    return colours


def _address(content: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
