"""Compare networks on common images: their answers before and after calibration."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor

from calibrant._math.shapes import Bool, Float
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant.reports.sections import Section, SectionTable
from calibrant_lab.data import Part
from calibrant_lab.data.table import to_unit

EACH = 4  # images with right answers, and as many with wrong ones


class Answer(NamedTuple):
    """The predicted class of an image, and its probability before and after temperature scaling."""

    name: str
    right: bool
    before: float
    after: float


def answers(
    predictions: Mapping[str, Predictions], test: Part, class_names: Sequence[str], *, seed: int = 0
) -> dict[int, list[Answer]]:
    """Return each network's answers to four random test images that all get right, and four they get wrong.

    Images that more networks get wrong come first. Empty unless samples are images with single labels.
    """
    inputs, labels = test.inputs, test.labels
    if inputs.ndim != 4 or inputs.shape[1] not in (1, 3) or labels.ndim != 1:
        return {}
    before = [each.test.scores.double().softmax(dim=1) for each in predictions.values()]
    pairs = [*zip(before, map(_calibrated, predictions.values()), strict=True)]
    right = torch.stack([probs.argmax(dim=1) == labels for probs in before])  # (networks, N)

    def answer(row: int, one: Tensor, other: Tensor) -> Answer:
        top = int(one[row].argmax())
        return Answer(class_names[top], top == int(labels[row]), float(one[row][top]), float(other[row][top]))

    return {row: [answer(row, *each) for each in pairs] for row in chosen(right, seed=seed)}


def panel(
    predictions: Mapping[str, Predictions], test: Part, class_names: Sequence[str], *, seed: int = 0
) -> Section | None:
    """Show the images of :func:`answers`; None if there are none."""
    found = answers(predictions, test, class_names, seed=seed)
    if not found:
        return None
    table = SectionTable(
        label="Images and answers",
        columns=("Image", "Actual", *predictions),
        rows=tuple(
            (_picture(test.inputs[row]), class_names[int(test.labels[row])], *map(_answer, each))
            for row, each in found.items()
        ),
        words=tuple(range(1, 2 + len(predictions))),
    )
    num_right, several = sum(all(one.right for one in each) for each in found.values()), len(predictions) > 1
    who = "all networks get" if several else "the network gets"
    wrong = f"{len(found) - num_right} that {'most of them get' if several else 'it gets'} wrong"
    return Section(
        title="The same images",
        text=(f"{num_right} test images that {who} right and {wrong}, drawn at random.",),
        table=table,
        note="Predicted label (✓ right, ✗ wrong), and how sure the network is: as it states it → after "
        "temperature scaling, whose one number was fitted on the calibration samples.",
    )


def chosen(right: Bool[Tensor, "M N"], *, seed: int) -> list[int]:
    """Return images that all networks get right, then those that most get wrong.

    Example:
        >>> chosen(torch.tensor([[True, True, False], [True, False, False]]), seed=0)
        [0, 2, 1]
    """
    misses = (~right).sum(dim=0).numpy()
    lots = np.random.default_rng(seed).random(len(misses))
    wrong = [int(row) for row in np.lexsort((lots, -misses)) if misses[row]]
    sure = [int(row) for row in np.argsort(lots) if not misses[row]]
    return sure[:EACH] + wrong[:EACH]


def _calibrated(predictions: Predictions) -> Float[Tensor, "N C"]:
    calibrator = fit_quietly(TemperatureScaling(), Labelled.of(predictions.calibration))
    return calibrator.predict_proba(predictions.test.scores)


def _answer(found: Answer) -> Markup:
    mark, kind = ("✓", "right") if found.right else ("✗", "wrong")
    return Markup('<span class="{}">{} {}</span> {:.1f} % → {:.1f} %').format(
        kind, mark, found.name, 100 * found.before, 100 * found.after
    )


def _picture(image: Tensor) -> Markup:
    return Markup('<img class="sample" alt="" src="{}">').format(png_address(png(pixels_of(image))))


def pixels_of(image: Tensor) -> np.ndarray[Any, Any]:
    """Return an image from 0 to 1, ``(H, W)`` or ``(H, W, 3)``."""
    unit = to_unit(image)
    low, high = min(float(unit.min()), 0.0), max(float(unit.max()), 1.0)
    scaled = ((unit - low) / (high - low)).numpy().clip(0, 1)
    return scaled[0] if len(scaled) != 3 else scaled.transpose(1, 2, 0)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Encode an image with values from 0 to 1, ``(H, W)`` or ``(H, W, channels)``, as PNG."""
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(np.round(pixels * 255).astype(np.uint8)).save(content, format="png")
    return content.getvalue()


def png_address(content: bytes) -> str:
    """Return a data URL for a PNG."""
    return "data:image/png;base64," + base64.b64encode(content).decode("ascii")
