"""The same images under one network or several: what each says, how sure it is, before and after repair."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from calibrant._math.shapes import Float
from calibrant.reports.sections import Section, SectionTable


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one network says of an image."""

    label: str
    right: bool
    before: float
    """Its confidence, as the network states it."""
    after: float
    """The same after temperature scaling."""


@dataclass(frozen=True, kw_only=True)
class PanelRow:
    """One image with its true label, and the answer of each network."""

    pixels: Float[np.ndarray[Any, Any], "C H W"]
    """From 0 to 1; one channel, or red, green and blue."""
    label: str
    answers: tuple[Answer, ...]


def panel_section(rows: Sequence[PanelRow], names: Sequence[str], *, text: str) -> Section:
    """A table of images with the answers of the networks called ``names``, one column each.

    Example:
        >>> answer = Answer(label="cat", right=False, before=0.9, after=0.6)
        >>> row = PanelRow(pixels=np.zeros((1, 2, 2)), label="dog", answers=(answer,))
        >>> table = panel_section([row], ["focal"], text="One image.").table
        >>> str(table.rows[0][2])
        '<span class="wrong">✗ cat</span> 90.0 % → 60.0 %'
    """
    table = SectionTable(
        label="Images and answers",
        columns=("Image", "Actual", *names),
        rows=tuple((_picture(row), row.label, *map(_answer, row.answers)) for row in rows),
        words=tuple(range(1, 2 + len(names))),
    )
    return Section(
        title="The same images",
        text=(text,),
        table=table,
        note="Predicted label (✓ right, ✗ wrong), and how sure the network is: as it states it → after "
        "temperature scaling, whose one number was fitted on the calibration samples.",
    )


def _answer(answer: Answer) -> Markup:
    mark, kind = ("✓", "right") if answer.right else ("✗", "wrong")
    return Markup('<span class="{}">{} {}</span> {} → {}').format(
        kind, mark, answer.label, _percent(answer.before), _percent(answer.after)
    )


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.1f} %"


def _picture(row: PanelRow) -> Markup:
    """The image inside the page, as PNG."""
    from PIL import Image

    scaled = (row.pixels.clip(0, 1) * 255).round().astype(np.uint8)
    array = scaled[0] if len(scaled) != 3 else scaled.transpose(1, 2, 0)
    file = io.BytesIO()
    Image.fromarray(array).save(file, format="PNG")
    content = base64.b64encode(file.getvalue()).decode("ascii")
    return Markup('<img class="sample" alt="" src="data:image/png;base64,{}">').format(content)
