"""``calibrant figure``."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant.reports.figures.theory_roster import FIGURES


def test_list_names_every_figure() -> None:
    """One line each."""
    result = CliRunner().invoke(app, ["figure", "--list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == [figure.name for figure in FIGURES]


@pytest.mark.parametrize(("ending", "start"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")])
def test_the_ending_says_what(tmp_path: Path, ending: str, start: bytes) -> None:
    """SVG, PNG and PDF; what the caption gets wrong is said."""
    path = tmp_path / f"drawn{ending}"
    result = CliRunner().invoke(app, ["figure", "focal-decomposition", "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert path.read_bytes().startswith(start)
    noted = CliRunner().invoke(app, ["figure", "confidence-regions", "-o", str(path)])
    assert "proposition 5" in noted.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure"], "which figure"),
        (["figure", "nothing"], "there is no figure 'nothing'"),
        (["figure", "focal-arrows", "-o", "x.gif"], r"`--out` must end in .svg, .png, .pdf; got 'x.gif'"),
    ],
)
def test_refusals_are_sentences(arguments: list[str], message: str) -> None:
    """No name, a wrong name, a wrong ending."""
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
