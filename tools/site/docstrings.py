"""Docstrings are written for ``help()`` and Sphinx; here their roles and formulas become Markdown."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|obj|exc):`~?([^`<]+?)`")
_MATH = re.compile(r":math:`([^`]+)`", flags=re.DOTALL)
_BLOCK = re.compile(r"^([ ]*)\.\. math::[ ]*(.*)\n((?:[ ]*\n|\1[ ]+.*\n?)*)", flags=re.MULTILINE)


def as_markdown(text: str) -> str:
    r"""The text with ``:func:`` and ``:math:`` in Markdown.

    Example:
        >>> as_markdown(":func:`~calibrant.metrics.auroc` of :math:`p`")
        '`auroc` of $p$'
    """
    text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE)  # the parser's name for it
    text = _BLOCK.sub(_display, text + "\n")
    text = _ROLE.sub(lambda found: f"`{found[1].rpartition('.')[2]}`", text)
    return _MATH.sub(lambda found: f"${' '.join(found[1].split())}$", text).rstrip("\n")


def _display(found: re.Match[str]) -> str:
    space, first, rest = found.groups()
    formula = " ".join([first, *textwrap.dedent(rest).split("\n")]).strip()
    return f"\n{space}$$\n{space}{formula}\n{space}$$\n\n"


class Markdown(griffe.Extension):
    """Changes every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
