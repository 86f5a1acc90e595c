"""Arrow tables in a file, ``.feather`` and ``.arrow``; read whole, as ``.parquet`` is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.formats import parquet
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged


class _Table:
    """A table, by what a Parquet file offers."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.schema_arrow = table.schema
        self.metadata = SimpleNamespace(num_rows=table.num_rows)

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Some columns, or all."""
        return self._table if columns is None else self._table.select(columns)


def read(path: Path, columns: ColumnNames | None = None) -> FileContents:
    """Read those columns that are used."""
    return FileContents(fields=parquet.fields_in(_Table(whole_table(path)), columns))


def names_of(path: Path) -> list[str]:
    """The names of the columns."""
    return whole_table(path).column_names


def records_of(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Rows by the names of the columns; they stand on no lines."""
    return whole_table(path).to_pylist(), []


def write(arrays: Arrays, path: Path) -> None:
    """Write typed columns."""
    write_table(parquet.table_of(arrays), path)


def write_table(table: Any, path: Path) -> None:
    """Write what pyarrow has."""
    from pyarrow import feather

    feather.write_feather(table, path)


def whole_table(path: Path) -> Any:
    """All columns, as pyarrow has them."""
    parquet.needed()
    from pyarrow import feather

    try:
        return feather.read_table(path, memory_map=False)
    except DAMAGE as error:
        raise InputError(damaged("a .feather file", error)) from error
