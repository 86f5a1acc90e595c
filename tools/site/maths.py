"""Formulas become MathML when the site is built, so that no page loads a script to show them."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


def on_page_content(page_html: str, **_: Any) -> str:
    """The page with MathML in the place of LaTeX."""
    return _FORMULA.sub(_mathml, page_html)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    return convert(html.unescape(found[3]).strip(), display=display)
