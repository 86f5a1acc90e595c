r"""A table in LaTeX, for ``\usepackage{booktabs}``."""

from __future__ import annotations

import re

from calibrant.experiments.tables.build import Table
from calibrant.experiments.tables.shown import Line, Shown, show, spans

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    **{each: f"\\{each}" for each in "&%$#_{}"},
    "`": r"\textasciigrave{}",
    "[": "{[}",  # after a line's end it would be an argument
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "γ": r"$\gamma$",
    "λ": r"$\lambda$",
    "ρ": r"$\rho$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "↔": r"$\leftrightarrow$",
}
_SPECIAL_CHARACTER = re.compile("|".join(map(re.escape, _SPECIAL)))


def latex_text(table: Table) -> str:
    """A floating table with caption and notes."""
    shown = show(table)
    words = len(shown.levels)
    lines = [
        r"% \usepackage[T1]{fontenc} and \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(shown.title)}}}",
        rf"\begin{{tabular}}{{{'l' * words}{'r' * len(shown.columns)}}}",
        r"\toprule",
        *_heads(shown),
        r"\midrule",
    ]
    for labels, cells in zip(shown.rows_once, shown.cells, strict=True):
        for place in range(max(len(cell) for cell in cells)):
            before = [escaped(label) for label in labels] if place == 0 else [""] * words
            inside = [_line(cell[place]) if place < len(cell) else "" for cell in cells]
            lines.append(" & ".join([*before, *inside]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", "", r"\medskip", r"\begin{minipage}{\linewidth}\footnotesize"]
    lines += [rf"{escaped(note)}\par" for note in shown.notes]
    lines += [rf"\textsuperscript{{{letter}}}~{escaped(note)}\par" for letter, note in shown.footnotes]
    return "\n".join([*lines, r"\end{minipage}", r"\end{table}"]) + "\n"


def escaped(text: str) -> str:
    r"""Text that LaTeX sets as it is.

    Example:
        >>> print(escaped("50 % of a_b ± 1"))
        50 \% of a\_b $\pm$ 1
    """
    words = _SPECIAL_CHARACTER.sub(lambda found: _SPECIAL[found[0]], text)
    return re.sub(r"(?<![\w.)}-])-(?=\d)", "$-$", words)


def _heads(shown: Shown) -> list[str]:
    """A line for each level, with a rule below what stands over several columns."""
    found: list[str] = []
    levels, words = len(shown.columns[0]), len(shown.levels)
    for level in range(levels):
        last = level == levels - 1
        cells = [escaped(name) if last else "" for name in shown.levels]
        rules: list[str] = []
        place = words + 1
        for text, span in spans(shown.columns, level):
            cells.append(
                escaped(text) if span == 1 and last else rf"\multicolumn{{{span}}}{{c}}{{{escaped(text)}}}"
            )
            if not last:
                rules.append(rf"\cmidrule(lr){{{place}-{place + span - 1}}}")
            place += span
        found.append(" & ".join(cells) + r" \\")
        if rules:
            found.append(" ".join(rules))
    return found


def _line(line: Line) -> str:
    text = escaped(line.text)
    if line.kind != "value":
        marks = rf"\textsuperscript{{{line.marks}}}" if line.marks else ""
        return rf"{{\footnotesize {text}{marks}}}"
    return rf"\textbf{{{text}}}" if line.strong else text
