"""The report as a browser lays it out."""

import html
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calibrant.evaluation.result import Comparison, Evaluation
from calibrant.reports.html import first_screen, report_text
from chromium import CHROMIUM, FLAGS

WIDTHS = (320, 375, 800, 1280)
# Shows reports in frames as wide as a phone and as a desktop, and writes down what it measures.
# A frame is needed because the window of a headless browser cannot be as narrow as a phone.
MEASURE = """
const measured = [...document.querySelectorAll("iframe")].map((frame) => {
  const page = frame.contentDocument, root = page.documentElement, heading = page.querySelector("h1");
  const outside = [...page.querySelectorAll("body *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.right > root.clientWidth + 1 && !element.closest(".scroll, svg");
  });
  return {
    width: frame.clientWidth, scroll: root.scrollWidth, inner: frame.contentWindow.innerWidth,
    heading: heading.getBoundingClientRect().toJSON(), title: heading.textContent,
    outside: outside.map((element) => element.outerHTML.slice(0, 80)),
    buttons: page.querySelectorAll("th button").length,
    copies: page.querySelectorAll("pre .tool").length,
    saves: [...page.querySelectorAll("figure .tools")].map((tools) => tools.textContent),
    answer: [...page.querySelectorAll("header figure > svg, header .three")].map(
      (part) => part.getBoundingClientRect().bottom),
    letters: Math.min(...[...page.querySelectorAll("figure svg text")].map(
      (text) => parseFloat(text.style.fontSize) * text.ownerSVGElement.getScreenCTM().a)),
    ground: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
    sorted: (() => {
      const head = page.querySelectorAll("table.sortable th button")[1];
      if (!head) return [];
      head.click();
      return [...head.closest("table").tBodies[0].rows].map((row) => row.cells[1].textContent);
    })(),
  };
});
document.title = "done";
const output = document.createElement("pre");
output.id = "measured";
output.textContent = JSON.stringify(measured);
document.body.append(output);
"""


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[list[dict[str, Any]]]]:
    """Lays reports out, each at every width, and returns what was measured."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    folder = tmp_path_factory.mktemp("browser")

    def measured(
        *found: Evaluation | Comparison, dark: bool = False, widths: tuple[int, ...] = WIDTHS
    ) -> list[list[dict[str, Any]]]:
        frames = "".join(
            f'<iframe style="border:0;width:{width}px;height:800px" srcdoc="{text}"></iframe>'
            for text in [html.escape(report_text(each)) for each in found]
            for width in widths
        )
        script = f'addEventListener("load", () => {{{MEASURE}}});'
        page = folder / "frames.html"
        page.write_text(f"<!DOCTYPE html><body>{frames}<script>{script}</script></body>", encoding="utf-8")
        command = [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--virtual-time-budget=5000",
            "--dump-dom",
            page.as_uri(),
        ]
        dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
        match = re.search(r'<pre id="measured">(.*?)</pre>', dumped, flags=re.DOTALL)
        assert match is not None, dumped[-500:]
        seen = json.loads(html.unescape(match[1]))
        assert len(seen) == len(found) * len(widths)
        return [seen[start : start + len(widths)] for start in range(0, len(seen), len(widths))]

    return measured


@pytest.fixture(scope="module")
def shown(
    measure: Callable[..., list[list[dict[str, Any]]]],
    evaluation_of: Callable[..., Evaluation],
    comparison_of: Callable[..., Comparison],
) -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Reports of every kind with what was measured, all from one start of the browser."""
    found = {"multiclass": evaluation_of(num_classes=14), "multilabel": evaluation_of("multilabel")}
    found |= {"binary": evaluation_of("binary"), "compared": comparison_of()}
    return dict(zip(found, zip(found.values(), measure(*found.values()), strict=True), strict=True))


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel", "compared"])
def test_reports_fit_phones_and_desktops(kind, shown) -> None:
    """Only tables scroll sideways, the verdict is on the first screen, and figures have legible letters."""
    _, seen = shown[kind]
    assert [frame["width"] for frame in seen] == list(WIDTHS)
    for frame in seen:
        assert frame["scroll"] <= frame["inner"], frame
        assert frame["outside"] == []
        assert 0 < frame["heading"]["top"] < frame["heading"]["bottom"] < 800
        assert frame["heading"]["width"] > 100
        assert frame["letters"] >= 8  # CSS pixels
        if frame["width"] != 320 and kind != "compared":  # diagrams and numbers without scrolling
            assert len(frame["answer"]) == 3
            assert max(frame["answer"]) < 800
        assert frame["copies"] > 0
        assert set(frame["saves"]) == {"SVGCSV"}
        assert frame["ground"] == "rgb(255, 255, 255)"


@pytest.mark.browser
def test_reports_are_dark_where_the_reader_prefers_it(measure, evaluation_of) -> None:
    (seen,) = measure(evaluation_of(), dark=True, widths=(800,))
    assert {frame["ground"] for frame in seen} == {"rgb(17, 20, 23)"}


# The contrast of letters with the ground of each box, as a canvas mixes translucent colours with it.
CONTRAST = """
const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const luminance = (...colours) => {
  for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
  const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3).map((byte) => {
    const share = byte / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
};
const least = [...document.querySelectorAll("body > div")].map((box) => {
  const ground = getComputedStyle(box).backgroundColor;
  return Math.min(...[...box.querySelectorAll("*")].filter((element) => element.tagName != "STYLE" &&
    [...element.childNodes].some((node) => node.nodeType == 3 && node.data.trim())).map((element) => {
    const style = getComputedStyle(element);
    const two = [luminance(ground), luminance(ground, element.closest("svg") ? style.fill : style.color)];
    return Math.max(...two) / Math.min(...two);
  }));
});
document.body.innerHTML = `<pre id="measured">${JSON.stringify(least)}</pre>`;
"""


@pytest.mark.browser
def test_the_piece_for_notebooks_is_legible_in_every_theme(
    evaluation_of: Callable[..., Evaluation], tmp_path: Path
) -> None:
    """All letters have a contrast of 4.5 on white and on dark grounds, by the colour of the text around."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    piece, page = first_screen(evaluation_of()), tmp_path / "notebook.html"
    themes = {"#ffffff": "#000000", "#111111": "#e0e0e0", "#1e1e1e": "#cccccc"}
    boxes = [f'<div style="background:{back};color:{ink}">{piece}</div>' for back, ink in themes.items()]
    text = f"<!DOCTYPE html><body>{''.join(boxes)}<script>{CONTRAST}</script></body>"
    page.write_text(text, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r'<pre id="measured">(.*?)</pre>', dumped)
    assert found is not None, dumped[-500:]
    least = json.loads(found[1])
    assert len(least) == 3
    assert min(least) >= 4.5, least


@pytest.mark.browser
def test_classes_can_be_sorted(shown) -> None:
    found, (frame, *_) = shown["multiclass"]
    assert frame["buttons"] == 16  # of the worst classes and of the others
    worst = sorted(found.arms[0].classes, key=lambda row: -row.ece)[:6]
    counts = sorted((row.count for row in worst), reverse=True)
    assert frame["sorted"] == [f"{count:,}" for count in counts]
