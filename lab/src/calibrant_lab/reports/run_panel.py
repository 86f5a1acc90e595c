"""Compare networks on common images: their answers before and after calibration."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

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


def panel(
    predictions: Mapping[str, Predictions], test: Part, class_names: Sequence[str], *, seed: int = 0
) -> Section | None:
    """Show four random test images that all networks get right, and four that they get wrong.

    Images that more networks get wrong come first. Returns None unless samples are images with single labels.
    """
    inputs, labels = test.inputs, test.labels
    if inputs.ndim != 4 or inputs.shape[1] not in (1, 3) or labels.ndim != 1:
        return None
    before, after = probabilities(predictions)
    right = torch.stack([probs.argmax(dim=1) == labels for probs in before])  # (networks, N)
    rows = chosen(right, seed=seed)
    table = SectionTable(
        label="Images and answers",
        columns=("Image", "Actual", *predictions),
        rows=tuple(
            (
                _picture(inputs[row]),
                class_names[int(labels[row])],
                *(
                    _answer(one[row], other[row], int(labels[row]), class_names)
                    for one, other in zip(before, after, strict=True)
                ),
            )
            for row in rows
        ),
        words=tuple(range(1, 2 + len(predictions))),
    )
    num_right, several = int(right[:, rows].all(dim=0).sum()), len(predictions) > 1
    who = "all networks get" if several else "the network gets"
    wrong = f"{len(rows) - num_right} that {'most of them get' if several else 'it gets'} wrong"
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


def probabilities(
    predictions: Mapping[str, Predictions],
) -> tuple[list[Float[Tensor, "N C"]], list[Float[Tensor, "N C"]]]:
    """Return each network's probabilities of test samples, before and after temperature scaling."""
    before = [each.test.scores.double().softmax(dim=1) for each in predictions.values()]
    fitted = [
        fit_quietly(TemperatureScaling(), Labelled.of(each.calibration)) for each in predictions.values()
    ]
    pairs = zip(fitted, predictions.values(), strict=True)
    return before, [calibrator.predict_proba(each.test.scores) for calibrator, each in pairs]


def _answer(
    before: Float[Tensor, " C"], after: Float[Tensor, " C"], label: int, class_names: Sequence[str]
) -> Markup:
    top = int(before.argmax())
    mark, kind = ("✓", "right") if top == label else ("✗", "wrong")
    return Markup('<span class="{}">{} {}</span> {:.1f} % → {:.1f} %').format(
        kind, mark, class_names[top], 100 * float(before[top]), 100 * float(after[top])
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
