"""``calibrant methods``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from calibrant.calibrators import Calibrator

SHORT = {"binary": "2 classes", "multiclass": "classes", "multilabel": "labels"}


def methods() -> None:
    """List the calibrators that fit and evaluate can use.

    Examples:
        calibrant methods
        calibrant fit predictions.npz --method 'temperature(objective="ece")' -o calibrator.safetensors
    """
    from rich.console import Console

    from calibrant.calibrators.roster import CALIBRATORS
    from calibrant.reports.terminal_table import plain_table

    table = plain_table()
    for title in ("method", "what it does", "parameters", "for"):
        table.add_column(title, no_wrap=title in {"method", "parameters"})
    for name, kind in CALIBRATORS.items():
        table.add_row(name, str(kind.__doc__).partition("\n")[0].rstrip("."), parameters(kind), needs(kind))
    Console(highlight=False).print(table)
    typer.echo(
        "C: classes; K: 1 for two classes, else C; M: steps or bins.\n"
        'Settings go in brackets: temperature(search="grid"). For overlapping groups, `calibrant fit` also\n'
        "takes multicalibration; for COCO detections detection-logistic, detection-dependent-logistic and\n"
        "detection-beta."
    )


def parameters(kind: type[Calibrator]) -> str:
    """Return the number of parameters that a method fits, for one problem.

    Example:
        >>> from calibrant.calibrators import TemperatureScaling, VectorScaling
        >>> parameters(TemperatureScaling), parameters(VectorScaling)
        ('1', '2 C')
    """
    if not kind.parameter_shapes:
        return str(len(kind.parameter_ranges))
    shapes = ["".join(each) for each in kind.parameter_shapes.values()]
    counts = {shape: shapes.count(shape) for shape in dict.fromkeys(shapes)}
    powers = {"CC": "C²", "KM": "K M"}
    return " + ".join(
        f"{count if count > 1 else ''} {powers.get(shape, shape)}".strip() for shape, count in counts.items()
    )


def needs(kind: type[Calibrator]) -> str:
    return (
        "all predictions"
        if len(kind.kinds) == len(SHORT)
        else " or ".join(SHORT[each] for each in kind.kinds)
    )
