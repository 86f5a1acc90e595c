"""Convert roles and formulas of docstrings, written for ``help()`` and Sphinx, to Markdown."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr|data|obj|exc):`~?([^`<]+?)`")
_MATH = re.compile(r":math:`([^`]+)`", flags=re.DOTALL)
_BLOCK = re.compile(r"^([ ]*)\.\. math::[ ]*(.*)\n((?:[ ]*\n|\1[ ]+.*\n?)*)", flags=re.MULTILINE)


def as_markdown(text: str) -> str:
    r"""Return the text with ``:func:`` and ``:math:`` in Markdown.

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


def how_to_make(value: type) -> griffe.Parameters | None:
    """Return a class's parameters from Python; ``None`` if it has none by name.

    Example:
        >>> [each.name for each in how_to_make(type("A", (), {"__init__": lambda self, *, a=1: None}))]
        ['self', 'a']
    """
    try:
        known = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    if not any(each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD} for each in known):
        return None
    own = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    return griffe.Parameters(own, *map(_as_shown, known))


def _as_shown(parameter: inspect.Parameter) -> griffe.Parameter:
    annotation, default = parameter.annotation, parameter.default
    return griffe.Parameter(
        parameter.name,
        annotation=None if annotation is parameter.empty else inspect.formatannotation(annotation).strip("'"),
        kind=griffe.ParameterKind[parameter.kind.name.lower()],
        default=None if default is parameter.empty else repr(default),
    )


class Markdown(griffe.Extension):
    """Convert every docstring before parsing, and add class signatures."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Handle each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
        # Losses, calibrators and recipes inherit `__init__`, or get it with the class.
        if isinstance(obj, griffe.Class) and "__init__" not in obj.members:
            value = getattr(sys.modules.get(obj.module.path), obj.name, None)
            if isinstance(value, type) and not dataclasses.is_dataclass(value):
                parameters = how_to_make(value)
                if parameters is not None:
                    obj.set_member("__init__", griffe.Function("__init__", parameters=parameters))
