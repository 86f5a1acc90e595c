"""``calibrant figure``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from calibrant._math.errors import InputError

ENDINGS = (".svg", ".png", ".pdf")


def figure(
    name: Annotated[str | None, typer.Argument(help="Which figure; --list says which there are.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say which figures there are.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to; the ending says what: .svg, .png or .pdf.")
    ] = None,
) -> None:
    """Draw a figure of the theory, computed afresh."""
    from calibrant._math.files import atomic_write
    from calibrant.reports.figures.theory_roster import FIGURES, theory_figure_named

    if listed:
        for each in FIGURES:
            typer.echo(f"{each.name}  {each.summary}")
        return
    if name is None:
        raise InputError("which figure? `calibrant figure --list` lists them.")
    chosen = theory_figure_named(name)
    path = out or Path(f"{name}.svg")
    if path.suffix not in ENDINGS:
        raise InputError(f"`--out` must end in {', '.join(ENDINGS)}; got {path.name!r}.")
    drawn = chosen.draw()
    with atomic_write(path) as temporary:
        drawn.savefig(temporary, format=path.suffix[1:], dpi=150)
    typer.echo(path)
    if chosen.note:
        typer.echo(chosen.note)
