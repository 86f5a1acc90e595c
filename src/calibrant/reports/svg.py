"""Inline SVG from a matplotlib figure: small, without links, in colours of the page's style."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET

from markupsafe import Markup
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from calibrant.reports.figures.drawing import BLUE, GREEN, GREY, OCHRE, PINK, SKY, VERMILLION

# Colours of a figure to properties of the page, which differ in light and in dark mode.
PROPERTY_OF = {
    "#000000": "--ink",
    BLUE: "--blue",
    VERMILLION: "--vermillion",
    GREEN: "--green",
    PINK: "--pink",
    OCHRE: "--ochre",
    SKY: "--sky",
    GREY: "--grey",
}
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_DECIMAL = re.compile(r"-?\d+\.\d{3,}")


def to_svg(figure: Figure, *, label: str, name: str) -> Markup:
    """The figure as an ``<svg>`` element for use inside HTML, the same for the same figure.

    Args:
        figure: Drawn within :func:`~calibrant.reports.figures.drawing.drawing_style`.
        label: Description for readers who cannot see the picture; empty for mere decoration.
        name: Starts every identifier, so that no two pictures of a page share one.
    """
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The browser has the letters that matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        _lay_out(figure)
        figure.savefig(buffer, format="svg", transparent=True)
    root = ET.fromstring(buffer.getvalue())
    for element in root.iter():  # without the names' spaces
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
    for element in list(root.iter()):
        for child in [each for each in element if each.tag in {"metadata", "style"}]:
            element.remove(child)
    _rename(root, name)
    for element in root.iter():
        _tidy(element)
    spoken = {"role": "img", "aria-label": label} if label else {"aria-hidden": "true"}
    root.attrib = {"viewBox": root.attrib["viewBox"], **spoken}
    return Markup(ET.tostring(root, encoding="unicode", short_empty_elements=True))  # escaped by the writer


def _lay_out(figure: Figure) -> None:
    """Lay the figure out without drawing it; matplotlib would draw it twice."""
    engine = figure.get_layout_engine()
    if engine is None:
        return
    FigureCanvasSVG(figure)  # measures words as the file will have them
    dpi, figure.dpi = figure.dpi, 72
    engine.execute(figure)
    figure.dpi = dpi
    figure.set_layout_engine(None)


def _rename(root: ET.Element, name: str) -> None:
    """Keep only the identifiers that are referred to, under names that are this picture's own."""
    used: dict[str, str] = {}
    for element in root.iter():
        for value in element.attrib.values():
            for found in _REFERENCE.findall(value):
                used.setdefault(found, f"{name}-{len(used)}")
        if element.attrib.get("href", "").startswith("#"):
            used.setdefault(element.attrib["href"][1:], f"{name}-{len(used)}")
    for element in root.iter():
        identifier = element.attrib.pop("id", None)
        if identifier in used:
            element.attrib["id"] = used[identifier]
        for key, value in element.attrib.items():
            if key == "href" and value.startswith("#"):
                element.attrib[key] = f"#{used[value[1:]]}"
            else:
                element.attrib[key] = _REFERENCE.sub(lambda match: f"url(#{used[match[1]]})", value)


def _tidy(element: ET.Element) -> None:
    """Round to hundredths of a point, use the page's font and colours, drop blank text."""
    for key in {"d", "x", "y", "width", "height", "transform"} & element.attrib.keys():
        text = _LONG_DECIMAL.sub(lambda match: f"{float(match[0]):.2f}", element.attrib[key])
        element.attrib[key] = " ".join(text.split())
    if element.attrib.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    style = element.attrib.get("style")
    if style is not None:
        rules = [rule for rule in style.split("; ") if not rule.startswith("font-family")]
        element.attrib["style"] = re.sub(
            "#[0-9a-f]{6}", lambda match: f"var({PROPERTY_OF.get(match[0], match[0])})", "; ".join(rules)
        )
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = None
