"""Object detections in COCO files, matched with annotations and marked right or wrong."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant._math.text_form import plural
from calibrant.predictions.bands import bands_of, named_bands
from calibrant.predictions.formats.columns import groups_together
from calibrant.predictions.formats.mark import MARK, Source, mark_in, notes_of_mark
from calibrant.predictions.table import Predictions

COVARIATES = ("x", "y", "width", "height")
"""Centre and size of a box, as shares of the image's width and height."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Detections:
    """Detected boxes: confidence, correctness, class, position and image."""

    confidences: NDArray[np.float64]
    correct: NDArray[np.bool_]
    classes: tuple[str, ...]
    images: tuple[str, ...]
    boxes: NDArray[np.float64]
    """``(N, 4)``: x and y of the centre, width and height, as shares of the image's."""
    num_left_out: int = 0
    """Detections of crowds, which are neither right nor wrong."""
    source: Source | None = None
    marks: tuple[str, ...] = ()
    """The note on detections whose scores are calibrated already."""

    def covariates(self, names: Iterable[str] = COVARIATES) -> NDArray[np.float64]:
        """Return some columns of the boxes ``(N, k)``.

        Raises:
            InputError: If a name is none of x, y, width and height.
        """
        wanted = list(names)
        unknown = [name for name in wanted if name not in COVARIATES]
        if unknown:
            raise InputError(f"`names` must be among {', '.join(COVARIATES)}; got {unknown[0]!r}.")
        return self.boxes[:, [COVARIATES.index(name) for name in wanted]]

    def predictions(self, *, bands: Sequence[str] = ()) -> Predictions:
        """Return confidences and correctness, with classes as groups and images as clusters.

        Args:
            bands: Which of x, y, width and height make the groups in place of the classes, by bands of
                them: ``width``, or ``width:0:0.1:0.3`` with the starts of the bands.

        Raises:
            InputError: If a name is none of these, or bands do not begin at rising numbers.
        """
        found: dict[str, list[str]] = {}
        for name, starts in map(named_bands, bands):
            if name not in COVARIATES:
                raise InputError(f"`bands` must be among {', '.join(COVARIATES)} of boxes; got {name!r}.")
            found[name] = bands_of(self.covariates([name])[:, 0], name=name, starts=starts)
        are = "is" if self.num_left_out == 1 else "are"
        note = f"{plural(self.num_left_out, 'detection')} of crowds {are} left out."
        crowds = (note,) if self.num_left_out else ()
        return Predictions(
            confidence=self.confidences,
            correct=self.correct,
            groups=groups_together(found) if bands else self.classes,
            clusters=self.images if len(set(self.images)) > 1 else None,
            source=self.source,
            notes=(*self.marks, *crowds),
        )


def load_detections(
    results: str | os.PathLike[str], annotations: str | os.PathLike[str], *, iou: float = 0.5
) -> Detections:
    """Load detections from a COCO results file and match them with its annotations.

    In each image and class the most confident detection is matched first, with the box left over that it
    overlaps most; it is right if this intersection over union is at least ``iou``. Detections that match only
    a crowd are omitted.

    Args:
        results: A list of ``image_id``, ``category_id``, ``bbox`` (x, y, width, height in pixels), ``score``.
        annotations: ``images`` with ``width`` and ``height``, ``annotations``, ``categories``.
        iou: The least overlap of a right detection.

    Returns:
        The detections, in the order of the file.

    Raises:
        InputError: If a file is not of that form, or names an image or class that is not annotated.
        OSError: If a file cannot be opened.

    Note:
        Objects that were not detected do not count: calibration is about stated confidences.

    References:
        Küppers, Kronenberger, Shantia and Haselhoff, "Multivariate Confidence Calibration for Object
        Detection", CVPR Workshops 2020.
    """
    if not 0 < iou <= 1:
        raise InputError(f"`iou` must be above 0 and at most 1, as in 0.5; got {iou}.")
    found, truth = parsed(Path(results)), parsed(Path(annotations))
    if not isinstance(found, list) or not found:
        got = "it is empty" if found == [] else "it is none"
        raise InputError(f"{results} must be a list of detections, as of COCO's results; {got}.")
    if not isinstance(truth, dict) or not {"images", "annotations"} <= set(truth):
        raise InputError(
            f"{annotations} must be COCO's annotations, with `images`, `annotations` and `categories`."
        )
    try:
        detections = _matched(found, truth, iou)
    except InputError as error:
        raise InputError(f"{results}: {error}") from error
    except KeyError as error:
        raise InputError(f"{results} or {annotations}: an entry lacks {error}.") from error
    except TypeError as error:
        raise InputError(f"{results} or {annotations}: an entry is not of COCO's form ({error}).") from error
    digest = hashlib.sha256(Path(results).read_bytes() + Path(annotations).read_bytes()).hexdigest()
    source = Source(name=Path(results).name, sha256=digest, format="json", path=str(results))
    return Detections(**detections, source=source)


def overlaps(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intersection over union ``(n, m)`` of boxes, given by corner and size."""
    inside = _intersections(boxes, others)
    areas = boxes[:, 2:].prod(axis=1)[:, None] + others[:, 2:].prod(axis=1) - inside
    return np.divide(inside, areas, out=np.zeros_like(inside), where=areas > 0)


def _intersections(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum((boxes[:, :2] + boxes[:, 2:])[:, None], (others[:, :2] + others[:, 2:])[None])
    return np.clip(high - low, 0.0, None).prod(axis=2)


def _matched(found: Sequence[Mapping[str, Any]], truth: Mapping[str, Any], iou: float) -> dict[str, Any]:
    images = {each["id"]: each for each in truth["images"]}
    scores, classes = scores_of(found), _classes(found, truth)
    annotated: dict[tuple[Any, Any], list[Mapping[str, Any]]] = defaultdict(list)
    for each in truth["annotations"]:
        annotated[each["image_id"], each["category_id"]].append(each)
    detected: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    for place, each in enumerate(found):
        if each["image_id"] not in images:
            raise InputError(
                f"detection {place} is in image {each['image_id']!r}, which is not annotated; `images` have "
                f"an `id` such as {next(iter(images), None)!r}."
            )
        detected[each["image_id"], each["category_id"]].append(place)
    _refuse_corners(found, images)
    outcome = np.zeros(len(found), np.int64)  # 1 right, -1 left out
    for key, places in detected.items():
        places.sort(key=lambda place: -scores[place])
        plain = [each for each in annotated[key] if not each.get("iscrowd", 0)]
        crowds = [each for each in annotated[key] if each.get("iscrowd", 0)]
        boxes = _boxes([found[place] for place in places])
        of_plain = overlaps(boxes, _boxes(plain))
        inside = _intersections(boxes, _boxes(crowds)) / np.maximum(boxes[:, 2:].prod(axis=1), 1e-12)[:, None]
        for row, place in enumerate(places):
            best = int(of_plain[row].argmax()) if len(plain) else -1
            if best >= 0 and of_plain[row, best] >= iou:
                outcome[place] = 1
                of_plain[:, best] = -1.0  # nothing else may match it
            elif len(crowds) and inside[row].max() >= iou:
                outcome[place] = -1
    kept = np.flatnonzero(outcome >= 0)
    chosen = [found[place] for place in kept.tolist()]
    return {
        "confidences": scores[kept],
        "correct": outcome[kept] == 1,
        "classes": tuple(classes[place] for place in kept.tolist()),
        "images": tuple(str(each["image_id"]) for each in chosen),
        "boxes": _shares(chosen, images),
        "num_left_out": len(found) - len(kept),
        "marks": notes_of_mark([str(each.get(MARK, "")) for each in found]),
    }


def boxes_of(
    entries: Sequence[Mapping[str, Any]], annotations: str | os.PathLike[str]
) -> NDArray[np.float64]:
    """Return centres and sizes of detected boxes ``(N, 4)``, relative to their images."""
    truth = parsed(Path(annotations))
    try:
        return _shares(entries, {each["id"]: each for each in truth["images"]})
    except (KeyError, TypeError) as error:
        raise InputError(f"{annotations}: a box or the size of its image is missing ({error}).") from error


def annotated_boxes(path: Path) -> dict[tuple[str, str], list[tuple[float, float, float, float]]]:
    """Return annotated boxes by image file and class: corner and size, as shares of the image."""
    truth = parsed(path)
    try:
        images = {each["id"]: each for each in truth["images"]}
        entries = truth["annotations"]
        keys = [str(images[each["image_id"]]["file_name"]) for each in entries]
        classes, shares = _classes(entries, truth), _shares(entries, images)
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: not COCO's annotations of images with a `file_name` ({error}).") from error
    found: dict[tuple[str, str], list[tuple[float, float, float, float]]] = defaultdict(list)
    for key, (x, y, width, height) in zip(zip(keys, classes, strict=True), shares.tolist(), strict=True):
        found[key].append((x - width / 2, y - height / 2, width, height))
    return dict(found)


def scores_of(entries: Sequence[Any]) -> NDArray[np.float64]:
    """Return the scores of detections ``(N,)``; refuse scores outside 0..1."""
    for place, each in enumerate(entries):
        score = each.get("score") if isinstance(each, dict) else None
        if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
            raise InputError(f"`score` must be a number in 0..1; detection {place} has {score!r}.")
    return np.array([float(each["score"]) for each in entries])


def _classes(entries: Sequence[Mapping[str, Any]], truth: Mapping[str, Any]) -> list[str]:
    """Return the class name of each detection, or its number if the annotations have no names."""
    names = {each["id"]: str(each["name"]) for each in truth.get("categories", [])}
    for place, each in enumerate(entries):
        if names and each["category_id"] not in names:
            raise InputError(
                f"detection {place} is of class {each['category_id']}, which is none of the {len(names)} "
                "`categories`; are classes numbered as in the annotations?"
            )
    return [names.get(each["category_id"], str(each["category_id"])) for each in entries]


def _refuse_corners(entries: Sequence[Mapping[str, Any]], images: Mapping[Any, Any]) -> None:
    boxes, sizes = _boxes(entries), _sizes(entries, images)
    beyond = (boxes[:, :2] + boxes[:, 2:] > sizes + 1).any(axis=1)
    are_corners = (boxes[:, 2:] > boxes[:, :2]).all() and (boxes[:, 2:] <= sizes + 1).all()
    if are_corners and 2 * beyond.sum() > len(boxes):
        raise InputError(
            f"`bbox` must be x, y, width and height; {beyond.sum()} of {len(boxes)} boxes would end beyond "
            "their images, as if they held two corners: subtract the first from the second."
        )


def _sizes(entries: Sequence[Mapping[str, Any]], images: Mapping[Any, Any]) -> NDArray[np.float64]:
    of_images = [images[each["image_id"]] for each in entries]
    sizes = np.array([[each["width"], each["height"]] for each in of_images], float).reshape(-1, 2)
    if not (sizes > 0).all():
        raise InputError("`images` must have a `width` and a `height` above 0.")
    return sizes


def _shares(entries: Sequence[Mapping[str, Any]], images: Mapping[Any, Any]) -> NDArray[np.float64]:
    boxes, sizes = _boxes(entries), _sizes(entries, images)
    shares = np.concatenate([(boxes[:, :2] + boxes[:, 2:] / 2) / sizes, boxes[:, 2:] / sizes], axis=1)
    return np.clip(shares, 0.0, 1.0)


def _boxes(entries: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    for each in entries:
        if len(each["bbox"]) != 4 or not all(map(math.isfinite, each["bbox"])):
            raise InputError(f"`bbox` must be x, y, width and height; got {each['bbox']}.")
    return np.array([each["bbox"] for each in entries], np.float64).reshape(-1, 4)


def parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: it cannot be read as JSON ({error}).") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class DetectionResults:
    """Entries of a results file, and their scores as confidences."""

    entries: Sequence[Mapping[str, Any]]
    predictions: Predictions

    def save(self, path: Path, repaired: Predictions) -> None:
        """Write the entries with repaired scores, and their mark if they have one."""
        scores, mark = repaired.confidence.tolist(), mark_in(repaired.notes)
        marked = {} if mark is None else {MARK: mark.text}
        changed = [
            {**each, "score": score} | marked for each, score in zip(self.entries, scores, strict=True)
        ]
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(changed), encoding="utf-8")


def detection_results(path: Path, *, annotations: Path | None = None) -> DetectionResults | None:
    """Read a COCO results file, or return None for another file; ``annotations`` name the classes."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    entries = parsed(path)
    if not isinstance(entries, list) or not entries:
        return None
    entries = cast("list[Any]", entries)
    if not isinstance(entries[0], dict) or not {"image_id", "category_id", "score"} <= set(entries[0]):
        return None
    truth = None if annotations is None else parsed(annotations)
    if truth is not None and not isinstance(truth, dict):
        raise InputError(f"{annotations} must be COCO's annotations, with `categories`.")
    try:
        predictions = Predictions(
            confidence=scores_of(entries),
            groups=None if truth is None else _classes(entries, cast("dict[str, Any]", truth)),
            notes=notes_of_mark([str(each.get(MARK, "")) for each in entries]),
        )
    except KeyError as error:
        raise InputError(f"{path}: an entry lacks {error}.") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return DetectionResults(entries=entries, predictions=predictions)
