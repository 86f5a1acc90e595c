"""The numbers behind a picture as CSV, for whoever draws it anew."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from calibrant.evaluation.result import Band, ClassRow, Curve, Estimate, NullError
from calibrant.metrics import CorpReliabilityCurve

Cell = str | float | None


def csv_text(head: str, rows: Sequence[Sequence[Cell]]) -> str:
    r"""A header and rows; six significant digits, nothing where there is no value.

    Example:
        >>> csv_text("bin,share", [["0 to 1", 0.12345678], ["empty", None]])
        'bin,share\n0 to 1,0.123457\nempty,\n'
    """
    text = io.StringIO()
    text.write(f"{head}\n")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row)
    return text.getvalue()


def curves_csv(curves: Mapping[str, Curve]) -> str:
    """Reliability diagrams: one row for each bin of each curve."""
    head = (
        "curve,bin_low,bin_high,samples,stated,found,interval_low,interval_high,calibrated_low,"
        "calibrated_high"
    )
    rows = [
        (name, low, high, *values)
        for name, curve in curves.items()
        for low, high, *values in zip(
            curve.edges,
            curve.edges[1:],
            curve.counts,
            curve.confidence,
            curve.accuracy,
            curve.low,
            curve.high,
            curve.expected_low,
            curve.expected_high,
            strict=False,
        )
    ]
    return csv_text(head, rows)


def classes_csv(arms: Mapping[str, Sequence[ClassRow]]) -> str:
    """Average probabilities and rates: one row for each class of each arm."""
    rows = [
        (name, row.name, row.count, row.mean_probability, row.prevalence, row.noise_floor)
        for name, classes in arms.items()
        for row in classes
    ]
    return csv_text("predictions,class,samples,predicted,actual,noise_floor", rows)


def corp_csv(curve: CorpReliabilityCurve, band: Band) -> str:
    """A CORP diagram: its steps, and then its band."""
    steps = [
        ("step", low, high, value, None, None, count)
        for low, high, value, count in zip(curve.lower, curve.upper, curve.values, curve.counts, strict=True)
    ]
    chance = [
        ("band", at, at, None, low, high, None)
        for at, low, high in zip(band.positions, band.low, band.high, strict=True)
    ]
    head = "part,stated_low,stated_high,found,calibrated_low,calibrated_high,samples"
    return csv_text(head, [*steps, *chance])


def lines_csv(across: str, up: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Lines by name, point by point."""
    rows = [(name, x, y) for name, (xs, ys) in lines.items() for x, y in zip(xs, ys, strict=True)]
    return csv_text(f"curve,{across},{up}", rows)


def errors_csv(rows: Sequence[tuple[str, Estimate, NullError | None]]) -> str:
    """Errors by name, each with its interval and noise."""
    cells = [
        (name, found.value, found.low, found.high, null and null.mean, null and null.upper)
        for name, found, null in rows
    ]
    return csv_text("name,value,low,high,chance_mean,chance_upper", cells)
