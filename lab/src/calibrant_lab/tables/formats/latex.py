r"""A table in LaTeX, for ``\usepackage{booktabs}``; what is wider than the page is scaled down to it."""

from __future__ import annotations

import re

from calibrant_lab.tables.build import Table
from calibrant_lab.tables.shown import Line, Shown, show, spans

_LETTERS = """
α alpha β beta γ gamma δ delta ε varepsilon ζ zeta η eta θ theta ι iota κ kappa λ lambda μ mu ν nu
ξ xi π pi ρ rho σ sigma τ tau φ varphi χ chi ψ psi ω omega Γ Gamma Δ Delta Θ Theta
Λ Lambda Ξ Xi Π Pi Σ Sigma Φ Phi Ψ Psi Ω Omega
"""
_GREEK = dict(zip(_LETTERS.split()[::2], _LETTERS.split()[1::2], strict=True))
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
    **{letter: rf"$\{name}$" for letter, name in _GREEK.items()},
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "→": r"$\rightarrow$",
    "≈": r"$\approx$",
    "≠": r"$\neq$",
    "∞": r"$\infty$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "↔": r"$\leftrightarrow$",
}
_FIT = (
    r"\resizebox*{!}{\ifdim\totalheight>0.7\textheight 0.7\textheight\else\totalheight\fi}{%",
    r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
)
_SPECIAL_CHARACTER = re.compile("|".join(map(re.escape, _SPECIAL)))


def latex_text(table: Table) -> str:
    """A floating table with caption and notes."""
    shown = show(table)
    words = len(shown.levels)
    lines = [
        r"% \usepackage[T1]{fontenc}, \usepackage{booktabs} and \usepackage{graphicx}",
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{escaped(shown.title)}}}"] if shown.title else []),
        *_FIT,
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
    lines += [
        r"\bottomrule",
        r"\end{tabular}}}",
        "",
        r"\medskip",
        r"\begin{minipage}{\linewidth}\footnotesize",
    ]
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
