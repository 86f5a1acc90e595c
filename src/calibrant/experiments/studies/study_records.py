"""Results of a small study, one line of JSON each, written as they come and not computed again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write, write_text
from calibrant.experiments.studies.loss_study_numbers import Mean, mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = Mapping[str, Any]


class Records:
    """A file of records, each known by its ``key``.

    Args:
        path: The file; made with its folder at the first record.

    Raises:
        InputError: If a line of the file is no record, but for a last one that was cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, Record] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                self._records[record["key"]] = record
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise InputError(f"{path}, line {number}, is no record of a study.") from error
                write_text(path, "".join(f"{kept}\n" for kept in lines[:-1]))

    def all(self) -> list[Record]:
        """Every record, in the order in which they were made."""
        return list(self._records.values())

    def get(self, key: str, compute: Callable[[], Mapping[str, Any]]) -> Record:
        """The record of that key, computed and written if there is none yet."""
        if key not in self._records:
            record = {"key": key, **compute()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
            self._records[key] = record
        return self._records[key]


def shown(values: Sequence[float], digits: int = 3) -> str:
    """Mean and half the width of its 95 % interval.

    Example:
        >>> shown([1.0, 2.0, 3.0])
        '2.000 ± 2.484'
        >>> shown([0.5])
        '0.500'
    """
    found: Mean = mean_of(values)
    half = "" if found.half_width is None else f" ± {found.half_width:.{digits}f}"
    return f"{found.value:.{digits}f}{half}"


def summary(values: Sequence[float]) -> dict[str, float | int | None]:
    """The same as data, to six digits."""
    found = mean_of(values)
    return {"mean": rounded(found.value), "half_width": rounded(found.half_width), "n": found.n}


def rounded(value: float | None) -> float | None:
    """Six digits; nothing for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG: the same bytes for the same figure."""
    import matplotlib as mpl

    from calibrant.reports.figures.drawing import drawing_style

    with drawing_style(), mpl.rc_context({"svg.hashsalt": path.stem}), atomic_write(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
