"""How tables are written: a small golden file of each format."""

import shutil
import subprocess
from pathlib import Path

import pytest

from calibrant_lab.tables import Layout, Options, Table, build_table
from calibrant_lab.tables.formats import FORMATS, escaped
from results_by_hand import CIFAR, make_result, sweep

GOLDEN = Path(__file__).parents[3] / "tests" / "golden" / "tables"
LAYOUT = Layout.read(
    {
        "title": "50 % of a_b & <c>",
        "paper": "mukhoti-2020",
        "table": "1",
        "rows": ["dataset", "model"],
        "columns": ["method"],
        "networks": [["CIFAR-10", "ResNet-50"]],
        "methods": ["cross-entropy", "brier"],
        "cells": [
            {
                "metric": "ece",
                "title": title,
                "stage": stage,
                "bracket": "temperature",
                "published": {"metric": "ECE", "stage": title},
            }
            for title, stage in (("pre", "uncalibrated"), ("post", "temperature"))
        ],
    }
)


@pytest.fixture(scope="module")
def table() -> Table:
    """Two losses of one network, one run diverged, beside what a paper prints."""
    lost = make_result({**CIFAR, "loss": "brier", "seed": 9}, status="diverged")
    results = [*sweep({"cross-entropy": 0.06, "brier": 0.03}, **CIFAR), lost]
    return build_table(LAYOUT, results, Options(against="cross-entropy"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_table_is_written_as_it_was(name, table) -> None:
    """The text is that of the golden file; of HTML the part between the style and the script."""
    text = FORMATS[name][1](table)
    if name == "html":
        text = text[text.index("<main>") : text.index("</main>")]
    assert text == (GOLDEN / f"small{FORMATS[name][0]}").read_text(encoding="utf-8")


def test_latex_escapes_what_it_would_read() -> None:
    """All of LaTeX's own characters, and a bracket or star that a line's end would take for its own."""
    assert escaped("a_b & 5 % $ # {x} ~ ^ \\") == (
        r"a\_b \& 5 \% \$ \# \{x\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert escaped("[n = 2] *") == "{[}n = 2] {*}"
    assert escaped("-2.5 and FLSD-53") == "$-$2.5 and FLSD-53"
    assert escaped("γ ≤ Δ") == r"$\gamma$ $\leq$ $\Delta$"


@pytest.mark.slow
def test_latex_sets_it(table, tmp_path) -> None:
    """LaTeX finds no error in a table and its title, and nothing that is wider than the page."""
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("there is no pdflatex")
    packages = "".join(rf"\usepackage{{{each}}}" for each in ("booktabs", "graphicx"))
    (tmp_path / "page.tex").write_text(
        rf"\documentclass{{article}}\usepackage[T1]{{fontenc}}{packages}\begin{{document}}"
        + FORMATS["latex"][1](table)
        + r"\end{document}",
        encoding="utf-8",
    )
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
