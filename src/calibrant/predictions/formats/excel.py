"""Sheets of workbooks: ``.xlsx``, ``.xls`` and ``.ods``, with the extra ``excel``."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.columns import Column
from calibrant.predictions.formats.contents import damaged
from calibrant.predictions.formats.tables import Table, table_of_columns


def table(path: Path, columns: ColumnNames | None = None) -> Table:
    (_, first), *filled = _rows(path, columns)
    names = [_text(cell) or "" for cell in first]
    cells = {name: _column([row[place] for _, row in filled]) for place, name in enumerate(names) if name}
    return table_of_columns(cells, [line for line, _ in filled])


def texts(path: Path, columns: ColumnNames | None) -> list[list[str]]:
    return [[_text(cell) or "" for cell in row] for _, row in _rows(path, columns)]


def _rows(path: Path, columns: ColumnNames | None) -> list[tuple[int, list[Any]]]:
    """Return the numbered rows of the requested sheet, or of the only one."""
    try:
        calamine: Any = import_module("python_calamine")
    except ImportError as error:
        remedy = "pip install 'calibrant[excel]', or save the sheet as CSV"
        raise InputError(f"files of spreadsheets need python-calamine: {remedy}.") from error
    try:
        book = calamine.load_workbook(str(path))
        rows = book.get_sheet_by_name(_sheet(book.sheet_names, columns)).to_python(skip_empty_area=False)
    except calamine.CalamineError as error:
        raise InputError(damaged("a workbook", error)) from error
    filled = [(line, row) for line, row in enumerate(rows, 1) if any(cell != "" for cell in row)]
    if not filled:
        raise InputError("its sheet is empty.")
    return filled


def _sheet(names: list[str], columns: ColumnNames | None) -> str:
    if columns is not None and columns.sheet is not None:
        return named(columns.sheet, {name: name for name in names}, "sheet")
    if len(names) > 1:
        raise InputError(f"it has {len(names)} sheets; name one by --sheet: {', '.join(names[:5])}.")
    return names[0]


def _column(cells: list[Any]) -> Column:
    """Return numbers, as integers if all are whole; or texts, ``None`` for empty cells."""
    if all(type(cell) in {int, float} for cell in cells):
        numbers = np.asarray(cells, dtype=np.float64)
        return numbers.astype(np.int64) if (numbers == np.rint(numbers)).all() else numbers
    return [_text(cell) for cell in cells]


def _text(cell: Any) -> str | None:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip() or None
