"""A network and its calibrator with intervals, applied to uploaded images."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._math.errors import ConvergenceError, InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import nearest
from calibrant.calibrators import Calibrator
from calibrant.calibrators.fitting.samples import floor_zero_probabilities
from calibrant.calibrators.inputs import in_columns
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired, to_repair
from calibrant.repair.applying import event_of
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Upload
from calibrant_lab.data import Geometry, Preparation
from calibrant_lab.data.lazy import in_eight_bits
from calibrant_lab.data.table import to_unit
from calibrant_lab.reports.run_panel import png, png_address
from calibrant_lab.training.heat_maps import grad_cam, last_maps
from calibrant_lab.training.samples import averaged, middle, ten_crops

if TYPE_CHECKING:
    from PIL.Image import Image


_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")  # none can hold scripts, or refer to other files
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError)


def decoded(file: Upload, limits: Limits) -> Image:
    from PIL import Image, ImageOps, UnidentifiedImageError

    if not file.content:
        raise Refusal(422, f"{file.name}: the file is empty (0 bytes).")
    Image.MAX_IMAGE_PIXELS = limits.pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            found: Any = Image.open(io.BytesIO(file.content), formats=_FORMATS)
            turned = in_eight_bits(ImageOps.exif_transpose(found))
            return turned.convert("L" if turned.mode in {"1", "L", "I", "F", "LA"} else "RGB")
    except UnidentifiedImageError as error:
        said = f"it is not an image of a kind that is read ({', '.join(_FORMATS)})."
        raise Refusal(422, f"{file.name}: {said}") from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        said = f"an image must have at most {limits.pixels:,} pixels; it has more."
        raise Refusal(413, f"{file.name}: {said}") from error
    except _DAMAGE as error:
        said = str(error).rstrip(".") or type(error).__name__
        raise Refusal(422, f"{file.name}: it is a damaged image ({said[:200]}).") from error


def as_bytes(image: Image, seen: Seen) -> Tensor:
    """Return an image as raw network input: ``(C, H, W)``, uint8."""
    from PIL.Image import Resampling

    scaled = seen.geometry.apply(image.convert("L" if seen.channels == 1 else "RGB"))
    if seen.sides is not None:
        height, width = seen.sides
        scaled = scaled.resize((width, height), Resampling.BILINEAR)
    pixels = np.array(scaled)
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy())


_LEAST = 20  # refits, below which quantiles say nothing
_MOST = 1 << 23  # probabilities of which quantiles are taken at a time


@dataclass(frozen=True)
class Refits:
    """A calibrator, fitted on resamples of its calibration samples."""

    calibrators: tuple[Calibrator, ...]
    level: float

    def interval(self, scores: Float[Tensor, "N ..."]) -> tuple[Tensor, Tensor]:
        """Return percentiles over the refits, for each probability."""
        outside = (1 - self.level) / 2
        levels = torch.tensor([outside, 1 - outside], dtype=torch.float64)
        rows = max(1, _MOST * len(scores) // (len(self.calibrators) * max(1, scores.numel())))
        parts = [torch.quantile(self._probs(part), levels, dim=0) for part in scores.split(rows)]
        low, high = torch.cat(parts, dim=1)
        return low, high

    def _probs(self, scores: Float[Tensor, "N ..."]) -> Float[Tensor, "R N ..."]:
        if self._maps is None:
            return torch.stack([torch.as_tensor(each.predict_proba(scores)) for each in self.calibrators])
        factors, shifts = self._maps
        kind = self.calibrators[0].kind_
        wide = floor_zero_probabilities(scores.double(), kind)[0]
        if wide.ndim == 1:
            return torch.sigmoid(wide * factors + shifts)
        mapped = wide * factors[:, None] + shifts[:, None]  # (N, K) -> (R, N, K)
        return mapped.softmax(dim=2) if kind == "multiclass" else mapped.sigmoid()

    @cached_property
    def _maps(self) -> tuple[Tensor, Tensor] | None:
        """Return factor and shift of each score, ``(R, K)``, if all refits have this form."""
        found = [each for calibrator in self.calibrators if (each := calibrator.affine()) is not None]
        scales = [each for each in found if torch.equal(each.weight, each.weight.diag().diag())]
        if len(scales) < len(self.calibrators):
            return None
        return torch.stack([each.weight.diag() for each in found]), torch.stack([each.bias for each in found])


def refits(
    calibrator: Calibrator,
    rows: Predictions,
    *,
    number: int = 200,
    level: float = 0.95,
    tell: Callable[[str, float], None] = lambda *_: None,
) -> Refits | None:
    """Refit a calibrator on resamples of rows or clusters without unusable ones; None if few are left."""
    data, units = Labelled.of(rows), _units(rows)
    generator = np.random.default_rng(0)
    found: list[Calibrator] = []
    for turn in range(number):
        tell("fitting the calibrator on resamples", turn / number)
        drawn = generator.integers(len(units), size=len(units))
        index = torch.from_numpy(np.concatenate([units[unit] for unit in drawn]))
        try:
            found.append(fit_quietly(calibrator.unfitted(), data.rows(index)))
        except (InputError, ConvergenceError):
            continue
    return Refits(tuple(found), level) if len(found) >= min(_LEAST, number) else None


def _units(rows: Predictions) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    clusters = np.arange(rows.num_samples) if rows.clusters is None else np.asarray(rows.clusters)
    _, numbers = np.unique(clusters, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Network with its image preparation."""

    network: nn.Module
    geometry: Geometry
    preparation: Preparation
    channels: int
    sides: tuple[int, int] | None = None  # height and width of the images of a run, before they are averaged
    downsample: int = 1  # side of the squares that are averaged
    side: int = 0  # side of the squares that are cut out; 0: the whole image
    ten: bool = False  # whether to average the probabilities of ten squares, or use only the middle one
    multilabel: bool = False

    def logits(self, images: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        prepared = self.preparation(self._unit(images))
        with torch.no_grad():
            if not self.ten:
                return self._said(middle(prepared, self.side))
            views = [self._said(view) for view in ten_crops(prepared, self.side)]
        return averaged(views, multilabel=self.multilabel)

    def middle_of(self, image: Float[Tensor, "C H W"]) -> tuple[Tensor, Tensor]:
        unit = middle(self._unit(image[None]), self.side)
        return unit[0], self.preparation(unit)

    def _unit(self, images: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(to_unit(images), self.downsample)

    def _said(self, view: Tensor) -> Tensor:
        given = self.network(view)
        found: Tensor = given if isinstance(given, Tensor) else given.logits
        return found[:, None] if found.ndim == 1 else found


Tell = Callable[[str, float], None]
LIKELIEST = "likeliest"
_KEYS = ("name", "raw", "calibrated", "low", "high", "prevalence")


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """State for answers about images."""

    name: str
    seen: Seen
    columns: Tensor | None  # selected outputs of the network in order; None: all in the given order
    class_names: tuple[str, ...]
    multilabel: bool
    calibrator: Calibrator | None
    refits: Refits | None
    prevalence: tuple[float, ...] | None  # frequency of each class among the calibration samples
    num_calibration: int | None
    notice: str | None
    layer: list[str] = field(default_factory=list[str])
    """Name of the layer whose maps are drawn, once it is known: a pass through the network finds it."""

    def described(self, _: Tell) -> dict[str, Any]:
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
        answers: list[dict[str, Any] | Refusal] = []
        inputs: list[tuple[dict[str, Any], Tensor]] = []
        for file in files:
            try:
                image = decoded(file, limits)
                answer = {"name": file.name, "width": image.width, "height": image.height}
                inputs.append((answer, as_bytes(image, self.seen)))
                answers.append(answer)
            except (Refusal, InputError) as error:
                answers.append(error if isinstance(error, Refusal) else Refusal(422, f"{file.name}: {error}"))
        for shape in dict.fromkeys(each.shape for _, each in inputs):
            alike = [(found, each) for found, each in inputs if each.shape == shape]
            rows = self._judged(torch.stack([each for _, each in alike]))
            for (found, _pixels), row in zip(alike, rows, strict=True):
                found["classes"] = row
        return answers

    def with_map(self, file: Upload, of: str, limits: Limits, tell: Tell) -> dict[str, Any]:
        """Return one image's probabilities, the network's view, and a class's heat map."""
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
        image = as_bytes(decoded(file, limits), self.seen)
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
            return answer | {"map_error": said, "image": png_address(_picture(unit))}
        strongest = float(heat.max())
        heat = (heat / max(strongest, 1e-12)).clamp(0, 1)
        drawn = {"image": png_address(_picture(unit)), "map": png_address(png(_coloured(heat)))}
        return answer | {"map_of": of, **drawn, "map_empty": strongest <= 0}

    def _column(self, place: int, image: Tensor) -> int:
        """Return the output for a class; a single output for two classes belongs to the second."""
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
        raw = calibrated = _columns(given.probs)
        low = high = None
        if self.calibrator is not None:
            event = event_of(self.calibrator, given)
            form = to_repair(given, event) if self.calibrator.kind_ == "binary" else given
            probs = torch.as_tensor(self.calibrator.predict_proba(form.scores))
            calibrated = _columns(repaired(given, probs, event).probs)
            if self.refits is not None:
                low, high = _both(*self.refits.interval(form.scores), event)
        none: list[None] = [None] * len(self.class_names)
        parts = [None if part is None else part.tolist() for part in (raw, calibrated, low, high)]
        found: list[list[dict[str, Any]]] = []
        for place in range(len(images)):
            numbers = (none if part is None else part[place] for part in parts)
            rows = zip(self.class_names, *numbers, self.prevalence or none, strict=True)
            found.append([dict(zip(_KEYS, row, strict=True)) for row in rows])
        return found


def _columns(probs: Tensor) -> Tensor:
    """Return a column per class, also for class 0 of an event."""
    return torch.stack([1 - probs, probs], dim=1) if probs.ndim == 1 else probs


def _both(low: Tensor, high: Tensor, event: int) -> tuple[Tensor, Tensor]:
    if low.ndim == 1:
        return in_columns(low, 1 - high, event), in_columns(high, 1 - low, event)
    return low, high


def _picture(unit: Tensor) -> bytes:
    pixels = unit.clamp(0, 1)
    return png((pixels[0] if len(pixels) == 1 else pixels.permute(1, 2, 0)).numpy())


def _coloured(heat: Tensor) -> Any:
    """Colour the map, transparent where nothing supports the class."""
    from matplotlib import colormaps

    colours = colormaps["inferno"](heat.numpy())
    colours[:, :, 3] = heat.numpy() ** 0.5
    return colours
