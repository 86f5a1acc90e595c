"""Sections beside those of an evaluation, as the page shows them."""

import base64
import io
import re

import numpy as np
import pytest
import torch
from markupsafe import Markup
from PIL import Image

from calibrant.predictions import Predictions
from calibrant.reports.html import report_text
from calibrant.reports.sections import Section, SectionTable
from calibrant_lab.data import Part
from calibrant_lab.reports.run_panel import panel
from undrawn import drawing_no_diagrams


@pytest.fixture
def section() -> Section:
    """Everything that a section can hold but pictures, with what HTML must escape."""
    table = SectionTable(
        label="Numbers",
        groups=(("", 1), ("both", 2)),
        columns=("Name", "a", "b"),
        rows=(("x < y", "1", Markup("<b>2</b>")),),
        words=(2,),
    )
    return Section(
        title="Further <things>",
        text=("First & foremost.",),
        points=("a point",),
        facts={"data": "digits"},
        table=table,
        note="small print",
    )


@drawing_no_diagrams()
def test_sections_stand_before_and_after_and_are_escaped(section, evaluation_of, comparison_of) -> None:
    for found in (evaluation_of("multiclass"), comparison_of()):
        plain = report_text(found)
        text = report_text(found, before=(section,), after=(section,))
        assert "small print" not in plain
        places = [match.start() for match in re.finditer("<h2>Further &lt;things&gt;</h2>", text)]
        assert len(places) == 2
        assert places[0] < text.index('id="numbers"') < places[1] < text.index('id="made"')
        assert "First &amp; foremost." in text
        assert "<td>1</td>" in text
        assert '<th scope="row">x &lt; y</th>' in text
        assert '<td class="words"><b>2</b></td>' in text
        assert '<th scope="colgroup" colspan="2">both</th>' in text
        assert "<dt>data</dt><dd>digits</dd>" in text


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_shown_as_they_are(channels, rng) -> None:
    """The PNG inside the page holds the pixels, to half a step of 255, beside the answer of the network."""
    pixels, logits = rng.random((2, channels, 5, 4)), torch.tensor([[0.0, 4.328]] * 4)
    labels = torch.tensor([0, 1, 1, 0])
    predictions = Predictions(logits=logits, labels=labels, split=[0, 0, 1, 1])
    test = Part(inputs=torch.from_numpy(pixels), labels=labels[2:])
    section = panel({"a": predictions}, test, ["dog", "<cat>"])
    (image, label, answer), (_, actual, wrong) = section.table.rows
    content = base64.b64decode(re.search(r"base64,([^\"]+)", str(image)).group(1))
    shown = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1) / 255
    np.testing.assert_allclose(shown, np.broadcast_to(pixels[0], (3, 5, 4)), atol=0.5 / 255 + 1e-9)
    assert (label, actual) == ("<cat>", "dog")
    assert str(answer) == '<span class="right">✓ &lt;cat&gt;</span> 98.7 % → 50.0 %'
    assert str(wrong).startswith('<span class="wrong">✗ &lt;cat&gt;</span> 98.7 % → ')
