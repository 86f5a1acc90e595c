"""Convert formulas to MathML at build time, so that pages need no script."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)


_UNKNOWN = re.compile(r"<mi>(\\[A-Za-z]+)")
_OPERATOR = re.compile(r"\\operatorname\*?")
_FENCED = re.compile(r"^```math\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace GitHub's fence for displayed formulas by the usual one."""
    return _FENCED.sub(lambda found: f"$$\n{found[1]}$$", markdown)


def on_page_content(page_html: str, **_: Any) -> str:
    """Replace LaTeX on the page by MathML."""
    return _FORMULA.sub(_mathml, page_html)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[2] == "[" else "inline"
    formula = html.unescape(found[3]).strip()
    plain = _OPERATOR.sub(r"\\mathrm", formula).replace(r"\arg", r"\mathrm{arg}")  # as far as they are known
    made = convert(plain, display=display)
    if unknown := _UNKNOWN.search(made):
        raise ValueError(f"{unknown[1]} is not known to latex2mathml, in: {formula}")
    return made
